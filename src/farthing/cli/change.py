"""`farthing change`: a larger budget, or different settings, for an existing study."""

from __future__ import annotations

from typing import Any

import click

from farthing.budget.units import format_amount
from farthing.cli.options import GroupedCommand, open_study, study_name
from farthing.cli.output import print_changes
from farthing.cli.run import run
from farthing.errors import InvalidInput

__all__ = ["change"]

FIXED = (
    *(
        "metric",
        "maximize",
        "name",
        "workers",
        "tries",
        "log",
        "config",
        "quiet",
        "kind",
        "command",
    ),
    "trust",
)


@click.command(
    cls=GroupedCommand,
    context_settings={"ignore_unknown_options": False},
    params=[option for option in run.params if option.name not in FIXED],
)
@click.argument("study", metavar="[NAME]", required=False)
@click.option("--name", hidden=True)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def change(study: str | None, name: str | None, command: tuple[str, ...], **options: Any) -> None:
    """Change the budget or other settings of a study.

    \b
    farthing change svm --budget +10m
    farthing change svm --budget '2h, $40' --timeout none

    NAME is the study. It can be left out if the database has only one. A budget without a sign
    replaces the total; with + or - it changes the total by that amount. The value `none` removes a
    setting. A new command follows --.

    A parameter may get a wider range or more options. The direction and the metric cannot change.

    Running workers apply a new budget, policy and stopping rule at once. Settings that affect how
    trials run, such as --timeout, apply to workers that start later.
    """
    from farthing.cli.mistakes import check_quoted
    from farthing.cli.request import change as change_settings

    check_quoted(options, (study, *command[:1]))
    opened = open_study(options.pop("storage"), study_name(study, name))
    try:
        changed = change_settings(opened, options, command)
        if not changed and not (command or any(options.values())):
            raise InvalidInput(
                "There is nothing to change. Name at least one setting, such as --budget +10m."
            )
        print_changes(changed)
        if not changed:
            click.echo("Nothing changed: already set.")
        ledger = opened.ledger
        for resource in (r for r in ledger if ledger[r].overspent and "budget" in changed):
            account = ledger[resource]
            click.echo(
                f"{format_amount(resource, account.spent + account.reserved)} are already spent or "
                "reserved. No new trial will start, and running trials are killed."
            )
    finally:
        opened.close()
