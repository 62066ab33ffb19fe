"""`farthing drop` and `farthing rerun`: what a person knows better about a trial."""

from __future__ import annotations

import click

from farthing.cli.options import open_study, where
from farthing.view.formatting import amounts, counted_trials

__all__ = ["drop", "rerun"]


@click.command()
@click.argument("number", type=int, nargs=-1, required=True)
@where
def drop(number: tuple[int, ...], storage: str | None, name: str | None) -> None:
    """Learn nothing any more from trial NUMBER, or from several.

    It is kept as lost, and what it cost is paid. Its parameters may be proposed again. A trial that
    is running is killed.
    """
    study = open_study(storage, name)
    try:
        for each in number:
            study.drop(each)
            trial = study.history[each]
            paid = amounts({r: amount for r, amount in trial.cost.items() if amount})
            cost = f" It has cost {paid}, which stays spent." if paid else ""
            click.echo(f"Nothing is learnt any more from trial {each}.{cost}")
    finally:
        study.close()


@click.command()
@click.argument("number", type=int, nargs=-1, required=True)
@where
def rerun(number: tuple[int, ...], storage: str | None, name: str | None) -> None:
    """Evaluate trial NUMBER again, before anything else.

    It gets a new number, in the next run or by a worker that is there. What a value has taught
    stays (`farthing drop` forgets it); that it failed does not.
    """
    study = open_study(storage, name)
    try:
        for each in number:
            study.rerun(each)
        waiting = counted_trials(len(study.waiting))
        click.echo(f"To be run again: trial {', '.join(map(str, number))}; {waiting} in the queue.")
    finally:
        study.close()
