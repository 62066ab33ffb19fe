"""The learning curves of an Optuna study: intermediate values, and what they cost.

Optuna stores no cost of a step. `CostAwarePruner` notes it at its rungs. Between steps whose cost
is known, a step costs its share. Steps may begin at 0 or at 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from optuna.trial import FrozenTrial, TrialState

from farthing.errors import InvalidInput
from farthing.history import CurvePoint
from farthing.steps import Steps

__all__ = ["curve_of", "reached", "without_resume"]


def without_resume(steps: Steps | int) -> Steps:
    """The steps of trainings in Optuna: it cannot resume one, and only complete ones count."""
    return replace(Steps.of(steps), resume="never", value="last")


def _first(trial: FrozenTrial) -> int:
    """1 if the steps of a trial begin at 0: ours begin at 1."""
    return int(0 in trial.intermediate_values)


def reached(trial: FrozenTrial) -> int:
    """The last step that a trial has reported, from 1; 0 without a report."""
    last = trial.last_step
    return 0 if last is None else last + _first(trial)


def curve_of(
    trial: FrozenTrial,
    steps: Steps,
    cost: Mapping[str, float],
    noted: Mapping[int, float] = MappingProxyType({}),
) -> tuple[CurvePoint, ...]:
    """The curve of a trial. A complete one has its value at the last step.

    Args:
        cost: what the trial cost up to now, or until its end.
        noted: the costs at some steps.

    Raises:
        InvalidInput: a step is beyond the last one.
    """
    complete, first = trial.state == TrialState.COMPLETE, _first(trial)
    values = {s + first: v for s, v in trial.intermediate_values.items() if math.isfinite(v)}
    if values and max(values) > steps.last:
        raise InvalidInput(
            f"Trial {trial.number} has reported step {max(values) - first}, but a training has "
            f"{steps.last} steps. Correct steps=..."
        )
    if complete and trial.value is not None and math.isfinite(trial.value):
        values[steps.last] = trial.value
    end = steps.last if complete else max(values, default=1)
    return tuple(
        CurvePoint(step, values[step], _paid(step, end, cost, noted)) for step in sorted(values)
    )


def _paid(
    step: int, end: int, cost: Mapping[str, float], noted: Mapping[int, float]
) -> dict[str, float]:
    """What was paid up to a step: noted, or a share between the nearest steps with known costs."""
    paid = {}
    for resource, total in cost.items():
        known = {0: 0.0, **{s: c for s, c in noted.items() if s < end}, end: total}
        if step in known:
            paid[resource] = known[step]
            continue
        before = max(s for s in known if s < step)
        after = min(s for s in known if s > step)
        share = (step - before) / (after - before)
        paid[resource] = known[before] + share * (known[after] - known[before])
    return paid
