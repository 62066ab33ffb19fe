"""`farthing status`, `best` and `trials`: a study while it runs, or afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

import click

from farthing.cli.options import format_option, open_study, study_options
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
    state_of,
    time_line,
)

if TYPE_CHECKING:
    from farthing.study import Study

__all__ = ["best", "status", "trials"]


@click.command()
@study_options
@format_option
@click.option(
    "--watch", "watched", is_flag=True, help="Update the display until the study has stopped."
)
def status(storage: str | None, name: str | None, kind: str, watched: bool) -> None:
    """Show the state, the budget and the running trials."""
    study = open_study(storage, name)
    try:
        if watched:
            watch(study)
            return
        facts = study.summary()
        changes = {"changes": study.changes} if study.changes else {}
        print_one({**facts, **changes}, kind, table=_status_lines(study, facts))
    finally:
        study.close()


def _status_lines(study: Study, facts: dict[str, Any]) -> dict[str, str]:
    ledger, history = study.ledger, study.history
    lines = {
        "study": study.name,
        "state": first_line(facts["state"]),
        "trials": counted(history) or "none",
        "budget": "; ".join(account_line(ledger, r) for r in accounts(ledger)) or "none",
    }
    if "s" not in ledger:
        lines["time"] = time_line(facts["elapsed_s"], facts["overhead_s"])
    if study.best is not None:
        lines["best"] = best_line(study.best)
    if study.waiting:
        lines["waiting"] = "; ".join(map(shown_params, study.waiting))
    for i, change in enumerate(study.changes, start=1):
        when = datetime.fromtimestamp(change["at"]).strftime("%Y-%m-%d %H:%M")
        settings = [f"{name} {was} -> {now}" for name, (was, now) in change["said"].items()]
        lines[f"change {i}"] = f"{when}, after {change['trials']} trials: {'; '.join(settings)}"
    for trial in history.running:
        expected = f" of about {amounts(trial.predicted)}" if trial.predicted else ""
        so_far = amounts(trial.cost) or "no time yet"
        if trial.step:
            so_far += f", step {trial.step}"
        lines[f"trial {trial.number}"] = f"{so_far}{expected} at {shown_params(trial.params)}"
    if any(trial.run.log is not None for trial in history):
        lines["logs"] = str(study.logs)
    return lines


@click.command()
@study_options
@format_option
def best(storage: str | None, name: str | None, kind: str) -> int:
    """Show the best trial so far."""
    study = open_study(storage, name)
    try:
        found = study.best
        if found is None:
            click.echo("No trial has returned a value yet.", err=True)
            return 1
        print_one(row(found), kind, table=_detail_lines(row(found)))
        return 0
    finally:
        study.close()


@click.command()
@study_options
@format_option
@click.option(
    "--state",
    multiple=True,
    type=click.Choice(get_args(TrialState)),
    help="Only trials in this state: running, paused, done, failed, killed or lost.",
)
def trials(storage: str | None, name: str | None, kind: str, state: tuple[str, ...]) -> None:
    """List all trials.

    `farthing explain` shows why a trial was suggested.
    """
    study = open_study(storage, name)
    try:
        rows = [row(trial) for trial in study.history if not state or trial.state in state]
        columns = columns_of(study.space.names, study.ledger.resources, study.history)
        print_rows(rows, kind, table=[_table_row(row) for row in rows], columns=columns, fits=True)
    finally:
        study.close()


def _table_row(facts: dict[str, Any]) -> dict[str, Any]:
    """A trial as a row of a table."""
    cells = {
        "trial": facts["number"],
        "state": state_of(facts["state"], facts.get("step")),
        "value": facts["value"],
        "cost": amounts(facts["cost"]),
        "expected": amounts(facts["predicted"]),
        "params": shown_params(facts["params"]),
    }
    if facts["error"]:
        cells["params"] = f"{shown(first_line(facts['error']))}  {cells['params']}"
    return cells


def _detail_lines(facts: dict[str, Any]) -> dict[str, Any]:
    """A trial, one line for each of its values."""
    return {
        "trial": facts["number"],
        "value": facts["value"],
        "params": shown_params(facts["params"]),
        **({"metrics": shown_params(facts["metrics"])} if facts["metrics"] else {}),
        **({"cost": amounts(facts["cost"])} if facts["cost"] else {}),
        **({"expected": amounts(facts["predicted"])} if facts["predicted"] else {}),
        "because": facts["because"],
        **({"log": facts["log"]} if facts["log"] else {}),
    }
