"""`farthing drop` and `farthing rerun`: discard a trial, or evaluate it again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from farthing.cli.options import open_study, storage_option, study_name
from farthing.errors import InvalidInput
from farthing.view.formatting import amounts, counted_trials

__all__ = ["drop", "rerun"]

Command = TypeVar("Command", bound=Callable[..., Any])


def numbers_and_study(command: Command) -> Command:
    """The arguments NUMBER... and NAME, the study, and --storage."""

    @wraps(command)
    def called(*, words: tuple[str, ...], name: str | None, **others: Any) -> Any:
        if len(words) > 1 and not words[-1].isdecimal():
            words, name = words[:-1], study_name(words[-1], name)
        for word in words:
            if not word.isdecimal():
                raise InvalidInput(f"{word!r}: expected the number of a trial, such as 12.")
        return command(numbers=[int(word) for word in words], name=name, **others)

    argument = click.argument("words", metavar="NUMBER... [NAME]", nargs=-1, required=True)
    option = click.option("--name", hidden=True)
    return storage_option(argument(option(cast(Command, called))))


@click.command()
@numbers_and_study
def drop(numbers: list[int], storage: str | None, name: str | None) -> None:
    """Discard the result of one or more trials.

    The models no longer learn from trial NUMBER. The trial stays in the history as lost, and its
    cost stays spent. Its parameters may be suggested again. If the trial is running, it is killed.
    """
    study = open_study(storage, name)
    try:
        for each in numbers:
            study.drop(each)
            trial = study.history[each]
            paid = amounts({r: amount for r, amount in trial.cost.items() if amount})
            cost = f" Its cost of {paid} stays spent." if paid else ""
            click.echo(f"Dropped trial {each}. The models no longer learn from it.{cost}")
    finally:
        study.close()


@click.command()
@numbers_and_study
def rerun(numbers: list[int], storage: str | None, name: str | None) -> None:
    """Evaluate one or more trials again, before new ones.

    The repetition of trial NUMBER gets a new number. The next run, or a worker that is running,
    evaluates it. The models keep the first value (use `farthing drop` to discard it), but forget a
    failure.
    """
    study = open_study(storage, name)
    try:
        for each in numbers:
            study.rerun(each)
        queued = counted_trials(len(study.waiting))
        click.echo(f"Queued again: trial {', '.join(map(str, numbers))}. The queue has {queued}.")
    finally:
        study.close()
