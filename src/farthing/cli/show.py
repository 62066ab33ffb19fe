"""`farthing status`, `best` and `trials`: look at a study while it runs or afterwards."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from farthing.cli.display import account_line, first_line
from farthing.cli.options import as_data, open_study, where
from farthing.cli.output import amounts, print_one, print_rows, shown_params

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = ["best", "status", "trial_rows", "trials"]

COLUMNS = (
    *("number", "state", "params", "value", "cost", "censored", "predicted", "because", "error"),
    *("attempt", "worker", "seed", "think_s", "queue_s", "run_s", "cpu_s", "peak_mb"),
)


@click.command()
@where
@as_data
def status(storage: str | None, name: str | None, kind: str) -> None:
    """What was spent, what is running, and how far it has come."""
    study = open_study(storage, name)
    try:
        print_one(_facts(study), kind, table=_in_words(study))
    finally:
        study.close()


def _facts(study: Study) -> dict[str, Any]:
    """The study as plain values."""
    history, ledger, best = study.history, study.ledger, study.best
    running = history.running
    return {
        "name": study.name,
        "state": "running" if running else study.result().stop_reason,
        "trials": dict(Counter(trial.state for trial in history)),
        "budget": {
            resource: {
                "limit": account.limit if math.isfinite(account.limit) else None,
                "spent": account.spent,
                "reserved": account.reserved,
                "left": account.left if math.isfinite(account.limit) else None,
                "thinking": account.thinking,
            }
            for resource in ledger
            for account in [ledger[resource]]
        },
        "best": None
        if best is None
        else {"number": best.number, "value": best.value, "params": dict(best.params)},
        "running": [
            {
                "number": trial.number,
                "params": dict(trial.params),
                "cost": dict(trial.cost),
                "predicted": dict(trial.predicted),
            }
            for trial in running
        ],
    }


def _in_words(study: Study) -> dict[str, str]:
    facts, found = _facts(study), study.best
    states = ", ".join(f"{count} {state}" for state, count in facts["trials"].items())
    words = {"study": study.name, "state": first_line(facts["state"]), "trials": states or "none"}
    accounts = [account_line(study.ledger, resource) for resource in study.ledger]
    words["budget"] = "; ".join(accounts)
    if found is not None:
        at = shown_params(found.params)
        words["best"] = f"{found.value:.6g} (trial {found.number}) at {at}"
    for trial in study.history.running:
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
        row = next(row for row in trial_rows(study) if row["number"] == found.number)
        print_one(row, kind, table=_words(row))
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
        rows = [row for row in trial_rows(study) if not state or row["state"] in state]
        print_rows(rows, kind, table=[_words(row) for row in rows])
    finally:
        study.close()


def trial_rows(study: Study) -> list[dict[str, Any]]:
    """What is stored of every trial, the parts a person may want first."""
    return [{name: record[name] for name in COLUMNS} for record in study.records()]


def _words(row: dict[str, Any]) -> dict[str, Any]:
    """A trial as a line of a table."""
    words = {
        "number": row["number"],
        "state": row["state"],
        "value": row["value"],
        "cost": amounts(row["cost"]),
        "expected": amounts(row["predicted"]),
        "params": shown_params(row["params"]),
        "because": row["because"],
    }
    return words | ({"error": first_line(row["error"])} if row["error"] else {})
