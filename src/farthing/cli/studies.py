"""`farthing studies`, `rename` and `delete`: the studies of a database."""

from __future__ import annotations

from datetime import datetime
from textwrap import shorten as shortened
from typing import Any

import click

from farthing.cli.options import format_option, locate, no_database, open_study, storage_option
from farthing.cli.output import print_rows
from farthing.errors import InvalidInput
from farthing.view.formatting import account_line, counted_trials, first_line, spent

__all__ = ["delete", "rename", "studies"]

MAX_REASON = 60  # characters of a stop reason in the table


@click.command()
@storage_option
@format_option
def studies(storage: str | None, kind: str) -> None:
    """List the studies of a database."""
    from farthing.storage import is_missing
    from farthing.study import Study

    url, _ = locate(storage, "")
    if is_missing(url):
        raise InvalidInput(no_database(url))
    found = Study.overview(url)
    print_rows([_plain(each) for each in found], kind, table=[_words(each) for each in found])


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    ledger = facts["ledger"]
    return {
        "name": facts["name"],
        "created_at": facts["created_at"],
        "trials": facts["trials"],
        "best": facts["best"],
        "spent": {resource: ledger[resource].spent for resource in ledger},
        "ended": facts["ended"],
        "stop_kind": facts["stop_kind"],
    }


def _words(facts: dict[str, Any]) -> dict[str, Any]:
    running = facts["trials"].get("running", 0)
    ended = first_line(facts["ended"] or "not ended")
    state = f"{running} running" if running else shortened(ended, MAX_REASON, placeholder=" ...")
    return {
        "name": facts["name"],
        "created": datetime.fromtimestamp(facts["created_at"]).strftime("%Y-%m-%d %H:%M"),
        "trials": sum(facts["trials"].values()),
        "best": facts["best"],
        "spent": spent(facts["ledger"]) or "nothing",
        "state": state,
    }


@click.command()
@click.argument("name")
@click.argument("new")
@storage_option
def rename(name: str, new: str, storage: str | None) -> None:
    """Rename study NAME to NEW."""
    study = open_study(storage, name)
    try:
        study.rename(new)
        click.echo(f"Renamed study {name!r} to {new!r}.")
    finally:
        study.close()


@click.command()
@click.argument("name", required=False)
@storage_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete(name: str | None, storage: str | None, yes: bool) -> int:
    """Delete study NAME and all its trials.

    The command asks for confirmation. If the database has only one study, NAME can be left out,
    but not together with --yes.
    """
    if yes and name is None:
        raise InvalidInput("--yes needs the name of the study: farthing delete NAME --yes.")
    study = open_study(storage, name)
    try:
        name = study.name
        ledger, history = study.ledger, study.history
        paid = "; ".join(account_line(ledger, resource) for resource in ledger)
        running = f" {counted_trials(len(history.running))} running." if history.running else ""
        if not yes:
            click.echo(f"Study {name!r}: {counted_trials(len(history))}; {paid}.{running}")
            if not click.confirm("Delete it permanently?"):
                click.echo("Nothing was deleted.")
                return 1
        study.delete()
        click.echo(f"Deleted study {name!r}.")
        if study.logs.is_dir():
            click.echo(f"The output of its trials is still in {study.logs}.")
        return 0
    finally:
        study.close()
