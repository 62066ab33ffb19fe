"""`farthing status`, `best` and `trials`: look at a study while it runs or afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from farthing.cli.options import as_data, open_study, where
from farthing.cli.output import print_one, print_rows
from farthing.tabular import row
from farthing.words import account_line, amounts, best_line, counted, first_line, shown_params

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = ["best", "status", "trials"]


@click.command()
@where
@as_data
def status(storage: str | None, name: str | None, kind: str) -> None:
    """What was spent, what is running, and how far it has come."""
    study = open_study(storage, name)
    try:
        facts = study.summary()
        print_one(facts, kind, table=_in_words(study, facts))
    finally:
        study.close()


def _in_words(study: Study, facts: dict[str, Any]) -> dict[str, str]:
    ledger, history = study.ledger, study.history
    words = {
        "study": study.name,
        "state": first_line(facts["state"]),
        "trials": counted(history) or "none",
        "budget": "; ".join(account_line(ledger, resource) for resource in ledger),
    }
    if study.best is not None:
        words["best"] = best_line(study.best)
    for trial in history.running:
        expected = f" of about {amounts(trial.predicted)}" if trial.predicted else ""
        so_far = amounts(trial.cost) or "no time yet"
        words[f"trial {trial.number}"] = f"{so_far}{expected} at {shown_params(trial.params)}"
    return words


@click.command()
@where
@as_data
def best(storage: str | None, name: str | None, kind: str) -> int:
    """The best trial so far."""
    study = open_study(storage, name)
    try:
        found = study.best
        if found is None:
            click.echo("No trial has returned a value yet.", err=True)
            return 1
        print_one(row(found), kind, table=_words(row(found)))
        return 0
    finally:
        study.close()


@click.command()
@where
@as_data
@click.option("--state", multiple=True, help="Only trials in this state.")
def trials(storage: str | None, name: str | None, kind: str, state: tuple[str, ...]) -> None:
    """Every trial, what it cost, and why it was chosen."""
    study = open_study(storage, name)
    try:
        rows = [row(trial) for trial in study.history if not state or trial.state in state]
        print_rows(rows, kind, table=[_words(row) for row in rows])
    finally:
        study.close()


def _words(facts: dict[str, Any]) -> dict[str, Any]:
    """A trial as a line of a table."""
    words = {
        "number": facts["number"],
        "state": facts["state"],
        "value": facts["value"],
        "cost": amounts(facts["cost"]),
        "expected": amounts(facts["predicted"]),
        "params": shown_params(facts["params"]),
        "because": facts["because"],
    }
    return words | ({"error": first_line(facts["error"])} if facts["error"] else {})
