"""The state of an Optuna study, from which Farthing suggests the next trial.

A trial of our sampler has a record in its system attributes: the whole proposal, its expected cost,
and the notes for the next suggestion. (Other processes see a running trial only with the parameters
that it has suggested so far.) The next proposal is thus a function of what Optuna has stored, in
any process. A trial without a record is external: another sampler made it, and it costs nothing
here.

A pruned trial counts as if its value were no better than the median, and its cost is a lower bound.
A trial that did not report its cost is charged with the predicted one. So is a running trial whose
process has died, from which nothing is learnt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from farthing.budget.ledger import Ledger
from farthing.budget.rates import rate_of
from farthing.core.outcomes import checked_cost, missing_cost
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.cost import KnownBeforehand
from farthing.errors import InvalidInput
from farthing.history import IMPORTED, PRUNED, History, Run, Trial, origin_of
from farthing.history import TrialState as OurState
from farthing.integrations.optuna_curves import curve_of
from farthing.integrations.optuna_process import has_died
from farthing.integrations.optuna_space import Translation
from farthing.running import Pricing, Usage
from farthing.running.output import costs_of, number_of
from farthing.space.parameters import plain

__all__ = [
    "CONSTRAINTS",
    "COST",
    "RECORD",
    "SECONDS",
    "STOPPED",
    "UNKNOWN",
    "constraint_names",
    "cost_of",
    "declined",
    "is_lost",
    "ledger_of",
    "metrics_of",
    "outcome_of",
    "reported_cost",
    "state_of",
]

COST = "cost"  # the user attribute in which an objective reports its cost
SECONDS = "farthing:seconds"  # the user attribute with the measured seconds
RECORD = "farthing"  # the system attribute with the proposal
STOPPED = "farthing:stopped"  # the user attribute of a study with the reason why it stopped
CONSTRAINTS = "constraints"  # the system attribute of Optuna with constraint values

MIN_COST = 1e-9  # a cost is positive
FOREVER_S = 1e9  # seconds; a longer time cannot be added to a date
UNKNOWN = 0.05  # of the budget: a cost that nobody knows or predicts

Interval = tuple[datetime, datetime]


def state_of(
    trials: Iterable[FrozenTrial],
    translation: Translation,
    settings: Settings,
    now: datetime,
    here: Sequence[int] = (),
) -> State:
    """The state of all trials except the one that is to be chosen.

    Args:
        now: the end of the time that running trials have used.
        here: the numbers of the trials that run in this process.
    """
    trials = [trial for trial in trials if not declined(trial)]
    history, suggest_s = History(), 0.0
    for trial in trials:
        record = trial.system_attrs.get(RECORD)
        if record is not None:
            suggest_s = record.get("suggest_s", record["think_s"])
        known = _trial(trial, record, translation, settings, len(history))
        if known is not None:
            history = history.adding(known)
    ledger = ledger_of(trials, settings, now, here, translation, reserve=True)
    return State(ledger, history, suggest_s=suggest_s)


def ledger_of(
    trials: Iterable[FrozenTrial],
    settings: Settings,
    now: datetime,
    here: Sequence[int] = (),
    translation: Translation | None = None,
    *,
    reserve: bool = False,
) -> Ledger:
    """The costs of the trials that our sampler suggested.

    Seconds count while at least one of them was running, overhead included. If the objective
    reports its own seconds, these count, and the overhead. A trial that did not report its cost is
    charged with the predicted one, or else with the highest cost so far.

    Args:
        reserve: whether to reserve the expected costs of running trials.
    """
    ledger, passed, overhead = Ledger.of(settings.budget), list[Interval](), 0.0
    highest: dict[str, float] = {}
    for trial in trials:
        record = trial.system_attrs.get(RECORD)
        if record is None or declined(trial) or trial.datetime_start is None:
            continue
        lost = is_lost(trial)
        ended = lost or trial.state.is_finished()
        reported = _by_name(reported_cost(trial), settings)
        overhead += record["think_s"]
        if "s" in reported:
            ledger = ledger.charge_overhead(record["think_s"])
        elif lost and "s" in ledger:  # nobody knows when it ended
            expected = _charge_for(record, "s", highest, ledger)
            latest = trial.datetime_complete or now
            until = trial.datetime_start + timedelta(seconds=min(expected, FOREVER_S))
            passed.append((trial.datetime_start, min(until, max(latest, trial.datetime_start))))
        elif ended or trial.number in here:
            passed.append((trial.datetime_start, trial.datetime_complete or now))
        if ended:
            paid = cost_of(trial, settings, translation)
            for resource in ledger.limited_resources:
                if resource not in (*paid, "s") and not _is_known(settings, resource):
                    paid[resource] = _charge_for(record, resource, highest, ledger)
            highest |= {r: max(amount, highest.get(r, 0.0)) for r, amount in paid.items()}
            paid = {r: a for r, a in paid.items() if r != "s" or r in reported}
            ledger = ledger.charge(None, paid)
        elif reserve:  # trials share wall-clock time, so they do not reserve it
            amounts = {r: a for r, a in record["hold"].items() if r in ledger and r != "s"}
            ledger = ledger.reserve(trial.number, amounts)
    if "s" in ledger and passed:
        elapsed = _covered(passed)
        ledger = ledger.pay({"s": elapsed}, overhead={"s": min(overhead, elapsed)})
    return ledger


def _charge_for(
    record: Mapping[str, Any], resource: str, highest: Mapping[str, float], ledger: Ledger
) -> float:
    """The charge for a trial whose cost is not known: predicted, or else the highest so far."""
    limit = ledger[resource].limit
    unknown = highest.get(resource) or (UNKNOWN * limit if math.isfinite(limit) else MIN_COST)
    return _expected(record, resource) or unknown


def is_lost(trial: FrozenTrial) -> bool:
    """Whether the process of a trial has died: Optuna says so, or it is gone from this machine."""
    if trial.state == TrialState.RUNNING:
        return has_died((trial.system_attrs.get(RECORD) or {}).get("process"))
    measured = SECONDS in trial.user_attrs or COST in trial.user_attrs
    return trial.state == TrialState.FAIL and not measured


def _expected(record: Mapping[str, Any], resource: str) -> float:
    """The cost that was predicted or reserved for a proposal; 0 if neither is known."""
    if not record.get("names"):  # enqueued, or drawn at random
        return 0.0
    found = record["predicted"].get(resource) or record["hold"].get(resource)
    return float(found or 0.0)


def cost_of(
    trial: FrozenTrial, settings: Settings, translation: Translation | None = None
) -> dict[str, float]:
    """The cost of a finished trial: reported, measured in seconds, or known beforehand."""
    reported, seconds = reported_cost(trial), trial.user_attrs.get(SECONDS)
    ours = RECORD in trial.system_attrs
    if seconds is None and trial.duration is not None and not (ours and is_lost(trial)):
        # Of another sampler, whose own time is included. A row that was added has no duration.
        seconds = trial.duration.total_seconds() or None
    if seconds is None:
        paid = _by_name(reported, settings)
    elif settings.cost_resources[0] == "cost" and not reported:
        paid = {"cost": max(float(seconds), MIN_COST)}
    else:
        rate = {} if settings.rate is None else rate_of(settings.rate)
        usage = Usage(float(seconds), float(seconds), 0.0)
        paid = Pricing(rate).cost(usage, reported, settings.resources)
    if translation is not None and missing_cost(settings, paid):
        with suppress(InvalidInput):  # the trial does not fit this space
            x = translation.point(trial.params)
            paid = checked_cost(settings, paid, x, required=False)
    return paid


def outcome_of(trial: FrozenTrial) -> tuple[OurState, float | None]:
    """Our state of a trial, and its value.

    A pruned trial is killed: its cost is a lower bound. A failed trial without a measured time is
    lost: its process died.
    """
    if is_lost(trial):
        return "lost", None
    match trial.state:
        case TrialState.COMPLETE:
            value = trial.value
            assert value is not None
            return ("done", float(value)) if math.isfinite(value) else ("failed", None)
        case TrialState.PRUNED:
            return "killed", None
        case TrialState.FAIL:
            return "failed", None
        case _:
            return "running", None


def _trial(
    trial: FrozenTrial,
    record: Mapping[str, Any] | None,
    translation: Translation,
    settings: Settings,
    number: int,
) -> Trial | None:
    """Our trial; None if it does not fit this space, or if nothing is known of it."""
    if trial.state == TrialState.WAITING:
        return None
    params = trial.params
    if trial.state != TrialState.COMPLETE and record is not None:
        params = {**record["params"], **params}  # it has not suggested all of them, or did not
    try:
        x = translation.point(params)
    except InvalidInput:  # outside of this space
        return None
    ours = translation.space.decode(x)
    state, value = outcome_of(trial)
    cost = cost_of(trial, settings, translation) if trial.state.is_finished() else {}
    curve = () if settings.steps is None else curve_of(trial, settings.steps, cost)
    if trial.state == TrialState.PRUNED and curve:
        state, value = "paused", curve[-1].value
    record = record or {}
    notes = record.get("notes", {"phase": "start"})
    if record.get("names") != translation.signature:  # the notes are of another space
        notes = {key: note for key, note in notes.items() if key == "phase"}
    if state == "killed":
        notes = {**notes, "killed_by": PRUNED}
    return Trial(
        number=number,
        params=ours,
        x=x,
        state=state,
        value=value,
        cost=cost,
        predicted=record.get("predicted", {}),
        because=record.get("because", IMPORTED),
        error="it failed" if state == "failed" else None,
        notes=notes,
        origin=origin_of(notes) if "because" in record else "imported",
        run=Run(metrics=metrics_of(trial)) if settings.constraints else Run(),
        curve=curve,
        until=None if settings.steps is None or state != "running" else settings.steps.last,
    )


def declined(trial: FrozenTrial) -> bool:
    """Whether it was not evaluated, because the budget was spent."""
    return "declined" in (trial.system_attrs.get(RECORD) or {})


def metrics_of(trial: FrozenTrial) -> dict[str, float]:
    """The numbers among the user attributes, and the constraints, which are met up to 0."""
    numbers = {name: number_of(plain(value)) for name, value in trial.user_attrs.items()}
    measured = {name: number for name, number in numbers.items() if number is not None}
    for key, value in trial.system_attrs.items():
        if key == CONSTRAINTS:  # of constraints_func
            measured |= {f"constraint {i}": float(each) for i, each in enumerate(value or ())}
        elif key.startswith(f"{CONSTRAINTS}:"):  # of set_constraint
            measured[f"constraint {key.partition(':')[2]}"] = float(value)
    return measured


def constraint_names(trials: Iterable[FrozenTrial]) -> list[str]:
    """The constraints of Optuna that any trial has, by their name among the metrics."""
    keys = {
        name: None
        for trial in trials
        if any(key.startswith(CONSTRAINTS) for key in trial.system_attrs)
        for name in metrics_of(trial)
        if name.startswith("constraint ") and name not in trial.user_attrs
    }
    return list(keys)


def reported_cost(trial: FrozenTrial, *, strict: bool = False) -> dict[str, float]:
    """The cost that the objective reported, by resource; a plain number has the key "".

    Args:
        strict: whether to raise InvalidInput for what is no cost; else it counts as not reported,
            because nobody can change the attributes of a trial that has ended.
    """
    given = trial.user_attrs.get(COST)
    cost = {r: plain(a) for r, a in given.items()} if isinstance(given, Mapping) else plain(given)
    try:
        return costs_of(cost)
    except (ValueError, TypeError, OverflowError):
        if not strict:
            return {}
        raise InvalidInput(
            f"Trial {trial.number}: its cost is {given!r}. Expected a number of at least 0, or "
            '{resource: amount}, in trial.set_user_attr("cost", ...).'
        ) from None


def _is_known(settings: Settings, resource: str) -> bool:
    return isinstance(settings.learners.get(resource), KnownBeforehand)


def _by_name(reported: Mapping[str, float], settings: Settings) -> dict[str, float]:
    """The costs by resource: a plain number is in the first one; unknown resources are left out."""
    named = {
        resource or settings.cost_resources[0]: max(amount, MIN_COST)
        for resource, amount in reported.items()
    }
    return {
        resource: amount
        for resource, amount in named.items()
        if resource in settings.cost_resources
    }


def _covered(intervals: Iterable[Interval]) -> float:
    """The seconds that at least one of the intervals covers."""
    total, until = 0.0, datetime.min
    for start, end in sorted(intervals):
        if end > until:
            total += (end - max(start, until)).total_seconds()
            until = end
    return total
