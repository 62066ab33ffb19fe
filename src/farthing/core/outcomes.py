"""Checks of what users and engines report about trials: outcomes and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.core.events import Price
from farthing.core.settings import Settings
from farthing.cost import KnownBeforehand
from farthing.errors import InvalidInput
from farthing.history import IMPORTED, History, Run, StopReason, Trial, TrialState

__all__ = [
    "added_trial",
    "checked_cost",
    "external_trial",
    "find_unfinished",
    "measured_metrics",
    "missing_cost",
    "missing_cost_reason",
    "outcome_of",
    "reported_constraints",
    "unknown_units",
]

Array = NDArray[np.float64]

CONSTRAINTS = "constraints"  # the key of a result under which measured quantities may be
MAX_COST = 1e300  # so that no sum of costs is infinite


# ── costs ────────────────────────────────────────────────────────────────────────────────────────


def checked_cost(
    settings: Settings,
    cost: Price,
    x: Array,
    *,
    required: bool,
    previous: Array | None = None,
    share: float = 1.0,
) -> dict[str, float]:
    """The cost of an evaluation by resource.

    Costs that are known beforehand need not be reported.

    Args:
        x: the point that was evaluated.
        required: whether to refuse a missing cost that the budget or the policy needs.
        previous: the point that was evaluated before x.
        share: the part of a whole evaluation, whose known cost is to be paid.
    """
    resources = settings.cost_resources
    reported: Mapping[str, Any] = {}
    if cost is not None:
        reported = dict(cost) if isinstance(cost, Mapping) else {resources[0]: cost}
    paid = {}
    for resource, amount in reported.items():
        if resource not in resources:
            raise InvalidInput(
                f"A cost in {resource!r} was reported, but this study counts "
                f"{', '.join(resources)}. Report the cost in these units."
            )
        what, advice = f"The cost in {resource!r}", "Report what the evaluation really used."
        paid[resource] = _finite(amount, what, advice)
        if not 0 <= paid[resource] <= MAX_COST:
            raise InvalidInput(
                f"{what} is {amount!r}: expected at least 0, and at most {MAX_COST:g}. {advice}"
            )
    for resource, learner in settings.learners.items():
        if resource not in paid and isinstance(learner, KnownBeforehand):
            paid[resource] = share * learner.price_at(settings.space, x, previous)
    if required and (missing := missing_cost(settings, paid)):
        raise InvalidInput(
            f"The cost in {missing!r} is missing, which the budget or the policy needs. "
            "Call tell(trial, value, cost=...), or return Outcome(value, cost=...)."
        )
    return paid


def missing_cost(settings: Settings, paid: Mapping[str, float]) -> str | None:
    """A resource whose cost is required and missing in `paid`; None if there is none."""
    return next((resource for resource in settings.required_costs if resource not in paid), None)


def missing_cost_reason(settings: Settings, number: int, missing: str) -> StopReason:
    """Why a study stops after a trial that has a value but no cost in a required resource."""
    unit = "" if missing == "cost" else f" in {missing}"
    amount = f'{{"{missing}": ...}}' if unit else "..."
    how = "return Outcome(value, cost=...)"
    if settings.steps is not None:
        how = "call trial.report(step, value, cost=...)"
    return StopReason(
        "cost_missing",
        f"trial {number} did not report its cost{unit}, which the budget or the policy needs. "
        f'Report {{"cost": {amount}}}, {how}, or set a rate.',
    )


def unknown_units(
    settings: Settings, reported: Mapping[str, float], paid: Mapping[str, float]
) -> str | None:
    """Why a reported cost does not give the cost that is required.

    Returns:
        The explanation if only costs in other units were reported, else None.
    """
    others = [name for name in reported if name and name not in settings.cost_resources]
    known = {r for r, each in settings.learners.items() if isinstance(each, KnownBeforehand)}
    missing = [r for r in settings.required_costs if r not in {*paid, *known}]
    if not (others and missing):
        return None
    return (
        f"it reports its cost in {', '.join(others)}, but this study counts "
        f"{', '.join(settings.cost_resources)}"
    )


# ── outcomes ─────────────────────────────────────────────────────────────────────────────────────


def outcome_of(
    value: float | None, failed: str | None, killed: bool, what: str
) -> tuple[TrialState, float | None]:
    """The final state of a trial, and its value.

    Args:
        what: what errors call the trial.
    """
    given = (value is not None, failed is not None, bool(killed))
    if sum(given) != 1:
        raise InvalidInput(
            "Report exactly one of a value, failed='why', or killed=True; "
            f"got value={value!r}, failed={failed!r}, killed={killed!r}."
        )
    if failed is not None and not (isinstance(failed, str) and failed):
        raise InvalidInput(
            f"failed={failed!r}: expected the reason as a text, such as failed='out of memory'."
        )
    if not given[0]:
        return "failed" if given[1] else "killed", None
    advice = "If the evaluation went wrong, report failed='why' instead."
    return "done", _finite(value, f"The value of {what}", advice)


def _finite(value: object, what: str, advice: str) -> float:
    """A float from any number, also from NumPy or a tensor library; texts are refused."""
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} is {value!r}: expected a finite number. {advice}") from None
    if not np.isfinite(number):
        raise InvalidInput(f"{what} is {number}: expected a finite number. {advice}")
    return number


# ── constraints ──────────────────────────────────────────────────────────────────────────────────


def measured_metrics(settings: Settings, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of a trial with a value, among them every quantity that is constrained.

    The quantities are entries of `metrics`, or of the mapping under its key "constraints".

    Raises:
        InvalidInput: a quantity is missing or not a finite number, or the study does not know it.
    """
    names = [each.name for each in settings.bounds]
    given = metrics.get(CONSTRAINTS)
    if not isinstance(given, Mapping):
        given = {}
        if not names:
            return dict(metrics)
    if unknown := [name for name in given if name not in names]:
        known = f"has constraints on {', '.join(names)}" if names else "has no constraints"
        raise InvalidInput(
            f"The constraint {unknown[0]!r} is unknown: the study {known}"
            f"{_nearest(unknown[0], names)}. Correct the name, report the quantity as a metric, or "
            f"set constraints={{{unknown[0]!r}: '<= ...'}}."
        )
    found = {name: metric for name, metric in metrics.items() if name != CONSTRAINTS or not given}
    for name in names:
        if name not in given and name not in metrics:
            raise InvalidInput(
                f"The constraint {name!r} was not measured{_nearest(name, [*metrics])}. Return "
                f"Outcome(value, constraints={{{name!r}: ...}}), call "
                f"tell(..., constraints={{{name!r}: ...}}), or print {name!r} as a key of the "
                "JSON result."
            )
        what, advice = f"The measured {name!r}", "Report what was measured, or failed='why'."
        found[name] = _finite(given.get(name, metrics.get(name)), what, advice)
    return found


def _nearest(name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name, names, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


# ── external evaluations ─────────────────────────────────────────────────────────────────────────


def added_trial(
    settings: Settings,
    params: Mapping[str, Any],
    value: float | None,
    *,
    cost: Price,
    failed: str | None,
    killed: bool,
    running: bool,
    constraints: Mapping[str, float] | None = None,
) -> Trial:
    """The trial for the arguments of `Optimizer.add`. Its cost may be unknown."""
    ended = not (value is None and failed is None and not killed and cost is None)
    if running and (ended or constraints):
        raise InvalidInput(
            "add(running=True): a running evaluation has no outcome and no cost yet. "
            "Call tell() with them after it has ended."
        )
    state: TrialState = "running"
    if not running:
        state, value = outcome_of(value, failed, killed, "the evaluation")
    metrics = reported_constraints(state, constraints)
    return external_trial(settings, params, state, value, cost=cost, error=failed, metrics=metrics)


def reported_constraints(
    state: TrialState, constraints: Mapping[str, float] | None
) -> dict[str, Any]:
    """The argument `constraints` of `tell` and `add` as metrics of a trial.

    Raises:
        InvalidInput: it is not a mapping, or the trial has no value.
    """
    if constraints is not None and not isinstance(constraints, Mapping):
        raise InvalidInput(
            f"constraints={constraints!r}: expected the measured quantities, such as "
            '{"latency_ms": 12.0}.'
        )
    if constraints and state != "done":
        raise InvalidInput(
            "Constraints were reported without a value. They belong to a trial that returned one."
        )
    return {CONSTRAINTS: dict(constraints)} if constraints else {}


def external_trial(
    settings: Settings,
    params: Mapping[str, Any],
    state: TrialState,
    value: float | None = None,
    *,
    cost: Price = None,
    error: str | None = None,
    metrics: Mapping[str, Any] = MappingProxyType({}),
) -> Trial:
    """An external evaluation as a trial that has no number yet."""
    x = settings.space.encode(params)
    return Trial(
        number=-1,
        params=settings.space.decode(x) if settings.space.rows is not None else dict(params),
        x=x,
        state=state,
        value=value,
        cost={} if state == "running" else checked_cost(settings, cost, x, required=False),
        because=IMPORTED,
        error=error,
        notes={"phase": "start"},
        origin="imported",
        run=Run(metrics=measured_metrics(settings, metrics) if state == "done" else {}),
    )


# ── which trial ──────────────────────────────────────────────────────────────────────────────────


def find_unfinished(history: History, trial: Trial | int) -> Trial:
    """The trial that an outcome is reported for. A lost trial may still get one."""
    number = trial.number if isinstance(trial, Trial) else trial
    is_known = isinstance(number, int | np.integer) and 0 <= number < len(history)
    found = history[int(number)] if is_known else None
    if found is None or (isinstance(trial, Trial) and not _is_same(trial, found)):
        raise InvalidInput(
            f"Trial {number!r} is unknown: ask() did not return it. Pass what ask() returned, or "
            "call add(params, value) for an external evaluation."
        )
    if found.state == "paused" and not (isinstance(trial, Trial) and _is_same_part(trial, found)):
        raise InvalidInput(
            f"Trial {number} is paused at step {found.step}. ask() returns it when it is resumed; "
            "report that part then."
        )
    if found.state not in ("running", "paused", "lost"):
        raise InvalidInput(
            f"Trial {number} already has an outcome ({found.state}). Report a trial only once."
        )
    return found


def _is_same_part(reported: Trial, stored: Trial) -> bool:
    """Whether a paused trial was reported by the worker that ran its last part."""
    return reported.run.asked_at == stored.run.asked_at


def _is_same(reported: Trial, stored: Trial) -> bool:
    """Whether two trials are the same one, even if the space has grown in between."""
    return np.array_equal(reported.x, stored.x) or (
        reported.run.asked_at > 0
        and (reported.run.asked_at, reported.run.seed) == (stored.run.asked_at, stored.run.seed)
    )
