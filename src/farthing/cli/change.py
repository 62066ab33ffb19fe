"""`farthing change`: more budget, or other settings, for a study that was begun."""

from __future__ import annotations

from typing import Any

import click

from farthing.budget.units import format_amount
from farthing.cli.options import named, open_study
from farthing.cli.output import say_changes
from farthing.cli.run import run
from farthing.errors import InvalidInput

__all__ = ["change"]

FIXED = ("metric", "maximize", "workers", "tries", "config", "quiet", "kind", "command", "trust")


@click.command(
    context_settings={"ignore_unknown_options": False},
    params=[option for option in run.params if option.name not in FIXED],
)
@click.argument("study", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def change(study: str | None, command: tuple[str, ...], **options: Any) -> None:
    """Give a study more budget, or other settings.

    \b
    farthing change svm --budget +10m
    farthing change svm --budget '2h, $40' --timeout none

    STUDY is its name. A budget is all that may be spent, or with a sign how much more or less than
    until now. `none` takes a setting back. Another command stands after --. A parameter can become
    wider and get more options; direction and metric are fixed. Workers that are running take up
    the budget and the way to choose at once, how trials are run when they start again.
    """
    from farthing.cli.request import change as change_as_told

    storage, name = options.pop("storage"), named(study, options.pop("name"))
    opened = open_study(storage, name)
    try:
        changed = change_as_told(opened, options, command)
        if not changed and not (command or any(options.values())):
            raise InvalidInput("There is nothing to change. Say what, such as --budget +10m.")
        say_changes(changed)
        if not changed:
            click.echo("Nothing changed: it is so already.")
        ledger = opened.ledger
        for resource in (r for r in ledger if ledger[r].left < 0 and "budget" in changed):
            account = ledger[resource]
            click.echo(
                f"{format_amount(resource, account.spent + account.reserved)} are spent or held "
                f"already: nothing will start any more, and what is running is killed."
            )
    finally:
        opened.close()
