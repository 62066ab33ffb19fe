"""`farthing drop` and `farthing rerun`: discard a trial, or evaluate it again."""

from __future__ import annotations

import click

from farthing.cli.options import open_study, study_options
from farthing.view.formatting import amounts, counted_trials

__all__ = ["drop", "rerun"]


@click.command()
@click.argument("number", type=int, nargs=-1, required=True)
@study_options
def drop(number: tuple[int, ...], storage: str | None, name: str | None) -> None:
    """Discard the result of one or more trials.

    The models no longer learn from trial NUMBER. The trial stays in the history as lost, and its
    cost stays spent. Its parameters may be suggested again. If the trial is running, it is killed.
    """
    study = open_study(storage, name)
    try:
        for each in number:
            study.drop(each)
            trial = study.history[each]
            paid = amounts({r: amount for r, amount in trial.cost.items() if amount})
            cost = f" Its cost of {paid} stays spent." if paid else ""
            click.echo(f"Dropped trial {each}. The models no longer learn from it.{cost}")
    finally:
        study.close()


@click.command()
@click.argument("number", type=int, nargs=-1, required=True)
@study_options
def rerun(number: tuple[int, ...], storage: str | None, name: str | None) -> None:
    """Evaluate one or more trials again, before any other.

    The repetition of trial NUMBER gets a new number. The next run, or a worker that is running,
    evaluates it. The models keep the value of the first evaluation (use `farthing drop` to discard
    it), but forget a failure.
    """
    study = open_study(storage, name)
    try:
        for each in number:
            study.rerun(each)
        queued = counted_trials(len(study.waiting))
        click.echo(f"Queued again: trial {', '.join(map(str, number))}. The queue has {queued}.")
    finally:
        study.close()
