"""`farthing status`, `best` and `trials`: look at a study while it runs or afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

import click

from farthing.cli.options import as_data, open_study, where
from farthing.cli.output import print_one, print_rows
from farthing.cli.watch import watch
from farthing.data.tabular import columns_of, row
from farthing.history import TrialState
from farthing.view.formatting import (
    account_line,
    accounts,
    amounts,
    best_line,
    counted,
    first_line,
    shown,
    shown_params,
    time_line,
)

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = ["best", "status", "trials"]


@click.command()
@where
@as_data
@click.option("--watch", "watched", is_flag=True, help="Go on looking until the study has stopped.")
def status(storage: str | None, name: str | None, kind: str, watched: bool) -> None:
    """What was spent, what is running, and how far it has come."""
    study = open_study(storage, name)
    try:
        if watched:
            watch(study)
            return
        facts = study.summary()
        changes = {"changes": study.changes} if study.changes else {}
        print_one({**facts, **changes}, kind, table=_in_words(study, facts))
    finally:
        study.close()


def _in_words(study: Study, facts: dict[str, Any]) -> dict[str, str]:
    ledger, history = study.ledger, study.history
    words = {
        "study": study.name,
        "state": first_line(facts["state"]),
        "trials": counted(history) or "none",
        "budget": "; ".join(account_line(ledger, r) for r in accounts(ledger)) or "none",
    }
    if "s" not in ledger:
        words["time"] = time_line(facts["elapsed_s"], facts["overhead_s"])
    if study.best is not None:
        words["best"] = best_line(study.best)
    if study.waiting:
        words["waiting"] = "; ".join(map(shown_params, study.waiting))
    for i, change in enumerate(study.changes, start=1):
        when = datetime.fromtimestamp(change["at"]).strftime("%Y-%m-%d %H:%M")
        said = [f"{name} {was} -> {now}" for name, (was, now) in change["said"].items()]
        words[f"change {i}"] = f"{when}, after {change['trials']} trials: {'; '.join(said)}"
    for trial in history.running:
        expected = f" of about {amounts(trial.predicted)}" if trial.predicted else ""
        so_far = amounts(trial.cost) or "no time yet"
        words[f"trial {trial.number}"] = f"{so_far}{expected} at {shown_params(trial.params)}"
    if any(trial.run.log is not None for trial in history):
        words["printed"] = str(study.logs)
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
        print_one(row(found), kind, table=_in_full(row(found)))
        return 0
    finally:
        study.close()


@click.command()
@where
@as_data
@click.option(
    "--state",
    multiple=True,
    type=click.Choice(get_args(TrialState)),
    help="Only trials in this state: running, done, failed, killed or lost.",
)
def trials(storage: str | None, name: str | None, kind: str, state: tuple[str, ...]) -> None:
    """Every trial, a line each; `explain` says why it was chosen."""
    study = open_study(storage, name)
    try:
        rows = [row(trial) for trial in study.history if not state or trial.state in state]
        columns = columns_of(study.space.names, study.ledger.resources, study.history)
        print_rows(rows, kind, table=[_words(row) for row in rows], columns=columns, fits=True)
    finally:
        study.close()


def _words(facts: dict[str, Any]) -> dict[str, Any]:
    """A trial as a line of a table, at most as wide as the screen."""
    words = {
        "trial": facts["number"],
        "state": facts["state"],
        "value": facts["value"],
        "cost": amounts(facts["cost"]),
        "expected": amounts(facts["predicted"]),
        "params": shown_params(facts["params"]),
    }
    if facts["error"]:
        words["params"] = f"{shown(first_line(facts['error']))}  {words['params']}"
    return words


def _in_full(facts: dict[str, Any]) -> dict[str, Any]:
    """A trial as a few lines."""
    return {
        "trial": facts["number"],
        "value": facts["value"],
        "params": shown_params(facts["params"]),
        **({"metrics": shown_params(facts["metrics"])} if facts["metrics"] else {}),
        **({"cost": amounts(facts["cost"])} if facts["cost"] else {}),
        **({"expected": amounts(facts["predicted"])} if facts["predicted"] else {}),
        "because": facts["because"],
        **({"printed": facts["log"]} if facts["log"] else {}),
    }
