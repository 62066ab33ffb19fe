"""`farthing status`, `best` and `trials`: a study while it runs, or afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

import click

from farthing.cli.options import format_option, open_study, study_argument
from farthing.cli.output import print_one, print_rows
from farthing.cli.watch import watch
from farthing.core.parts import counted_value, with_counted_value
from farthing.data.tabular import columns_of, row
from farthing.history import TrialState
from farthing.view.formatting import (
    account_line,
    accounts,
    amounts,
    best_line,
    counted,
    first_line,
    shown_params,
    time_line,
    why_no_best,
)
from farthing.view.learnt import Learnt, learnt_line
from farthing.view.saved import Saved

if TYPE_CHECKING:
    from farthing.core.settings import Settings
    from farthing.history import Trial
    from farthing.study import Study

__all__ = ["best", "status", "trials"]


@click.command()
@study_argument
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
    if facts["saved"]:
        lines["saved"] = str(Saved(**facts["saved"]))
    if "learnt" in facts:
        lines["learnt"] = f"from {learnt_line(tuple(Learnt(**each) for each in facts['learnt']))}"
    if "s" not in ledger:
        lines["time"] = time_line(facts["elapsed_s"], facts["overhead_s"])
    if study.best is not None:
        lines["best"] = best_line(study.best)
    elif history.done:
        lines["best"] = why_no_best(study.current_settings.bounds, history)
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
            so_far += f", {trial.curve[-1].value:.6g} at step {trial.step}"
        lines[f"trial {trial.number}"] = f"{so_far}{expected} at {shown_params(trial.params)}"
    if any(trial.run.log is not None for trial in history):
        lines["logs"] = str(study.logs)
    return lines


@click.command()
@study_argument
@format_option
def best(storage: str | None, name: str | None, kind: str) -> int:
    """Show the best trial so far."""
    study = open_study(storage, name)
    try:
        found = study.best
        if found is None:
            why = "no trial has returned a value"
            if study.history.done:
                why = why_no_best(study.current_settings.bounds, study.history)
            click.echo(
                f"{why[:1].upper()}{why[1:]}{'' if study.history.done else ' yet'}.", err=True
            )
            return 1
        print_one(row(found), kind, table=_detail_lines(row(found)))
        return 0
    finally:
        study.close()


@click.command()
@study_argument
@format_option
@click.option(
    "--state",
    multiple=True,
    type=click.Choice(get_args(TrialState)),
    help="Only trials in this state: running, paused, done, failed, killed or lost.",
)
@click.option(
    "--sort",
    type=click.Choice(["number", "value", "cost"]),
    help="Sort by number, by value (best first) or by cost (highest first).  "
    "[default: number; with --best: value]",
)
@click.option(
    "--best", "count", type=click.IntRange(1), metavar="N", help="Only the N best trials."
)
def trials(
    storage: str | None,
    name: str | None,
    kind: str,
    state: tuple[str, ...],
    sort: str | None,
    count: int | None,
) -> None:
    """List all trials.

    \b
    farthing trials --best 10
    farthing trials --sort cost --state failed

    `farthing explain` shows the whole error of a trial, and why it was suggested.
    """
    study = open_study(storage, name)
    try:
        settings, current = study.facts
        found = [t for t in current.history if not state or t.state in state]
        if count is not None:
            found = [t for t in found if counted_value(settings, t) is not None]
        found = [with_counted_value(settings, trial) for trial in found]
        if count is not None:
            found = _sorted(found, "value", settings)[:count]
        found = _sorted(found, sort or ("number" if count is None else "value"), settings)
        rows = [row(trial) for trial in found]
        columns = columns_of(study.space.names, study.ledger.resources, study.history)
        names = [each.name for each in settings.bounds]
        has_curves = any(row.get("curve") for row in rows)
        lines = [_table_row(row, names, has_curves) for row in rows]
        print_rows(rows, kind, table=lines, columns=columns, shortened=("error", "params"))
    finally:
        study.close()


def _sorted(trials: list[Trial], by: str, settings: Settings) -> list[Trial]:
    """Trials in order; those without a value or a cost are last."""

    def key(trial: Trial) -> tuple[bool, float, int]:
        place: dict[str, float | None] = {
            "number": 0.0,
            "value": None if trial.value is None else settings.sign * trial.value,
            "cost": _negated(trial.cost.get(settings.cost_resources[0])),
        }
        at = place[by]
        return at is None, at or 0.0, trial.number

    return sorted(trials, key=key)


def _negated(amount: float | None) -> float | None:
    return None if amount is None else -amount


def _table_row(facts: dict[str, Any], measured: list[str], has_curves: bool) -> dict[str, Any]:
    """A trial as a row of a table, with a column for each quantity that is `measured`.

    With curves, it has the last step and the value there. The value of a trial may be its best one.
    """
    curve = facts.get("curve")
    last = {"step": facts.get("step"), "last": curve[-1]["value"] if curve else None}
    return {
        "trial": facts["number"],
        "state": facts["state"],
        "value": facts["value"],
        **(last if has_curves else {}),
        **{name: facts["metrics"].get(name) for name in measured},
        "cost": amounts(facts["cost"]),
        "expected": amounts(facts["predicted"]),
        "error": first_line(facts["error"]) if facts["error"] else "",
        "params": shown_params(facts["params"]),
    }


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
