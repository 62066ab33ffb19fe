"""Constraints on quantities that trials measure, such as latency_ms <= 10.

The measured quantities are metrics of a trial, so that a constraint can limit any of them. A trial
is feasible if it returned a value and meets every constraint.

    excess     = measured - bound for "<=", bound - measured for ">="; met if it is at most 0
    violation  = sum over constraints of max(excess, 0) / max |excess| over the trials
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farthing.errors import InvalidInput
from farthing.history import Trial

__all__ = [
    "Constraint",
    "are_feasible",
    "constraint_of",
    "infeasible_because",
    "is_feasible",
    "split_constraint",
    "violations",
]

Array = NDArray[np.float64]

LARGEST = 1e150  # measured values are clipped here, as the values of the objective are
CONDITION = re.compile(r"\s*(<=|>=)\s*(\S+)\s*")
WHOLE = re.compile(r"\s*([^<>=]*[^<>=\s])\s*([<>=].*)", re.DOTALL)
EXAMPLE = '{"latency_ms": "<= 10"}'


@dataclass(frozen=True)
class Constraint:
    """A bound of a measured quantity.

    Attributes:
        name: the quantity, a metric of the trials.
        sign: +1 for "<=", -1 for ">=".
        bound: in the units of the quantity; a value equal to it meets the constraint.
    """

    name: str
    sign: float
    bound: float

    @property
    def condition(self) -> str:
        """The condition as a text that preserves the bound exactly: "<= 10.0"."""
        return f"{'<=' if self.sign > 0 else '>='} {self.bound!r}"

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.sign > 0 else '>='} {self.bound:g}"

    def measured(self, trial: Trial) -> float:
        """The measured quantity of a trial; NaN if the trial has none."""
        found = trial.run.metrics.get(self.name)
        if isinstance(found, bool) or not isinstance(found, int | float):
            return math.nan
        return float(min(max(found, -LARGEST), LARGEST))

    def excess(self, trial: Trial) -> float:
        """How far a trial is beyond the bound: met if at most 0; NaN if nothing was measured."""
        return self.sign * (self.measured(trial) - self.bound)


def constraint_of(name: str, condition: object) -> Constraint:
    """The constraint of a name and a condition such as "<= 10".

    Raises:
        InvalidInput: it is not a constraint.
    """
    found = CONDITION.fullmatch(condition) if isinstance(condition, str) else None
    try:
        bound = float(found[2]) if found else math.nan
    except ValueError:
        bound = math.nan
    if found is None or not math.isfinite(bound) or abs(bound) > LARGEST:
        raise InvalidInput(
            f"constraints={{{name!r}: {condition!r}}}: expected '<= NUMBER' or '>= NUMBER' for "
            f"each measured quantity, such as {EXAMPLE}."
        )
    return Constraint(name, 1.0 if found[1] == "<=" else -1.0, bound)


def split_constraint(text: str) -> tuple[str, str]:
    """The name and the condition of a text such as "latency_ms <= 10"."""
    found = WHOLE.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"constraints={text!r}: expected NAME <= NUMBER or NAME >= NUMBER, such as "
            "'latency_ms <= 10'."
        )
    return found[1], found[2]


def is_feasible(constraints: Sequence[Constraint], trial: Trial) -> bool:
    """Whether a trial returned a value and meets all constraints."""
    return trial.state == "done" and all(each.excess(trial) <= 0.0 for each in constraints)


def are_feasible(constraints: Sequence[Constraint], trials: Sequence[Trial]) -> NDArray[np.bool_]:
    """(n,) whether each trial is feasible."""
    return np.array([is_feasible(constraints, trial) for trial in trials], dtype=np.bool_)


def violations(constraints: Sequence[Constraint], trials: Sequence[Trial]) -> Array:
    """(n,) the violation of each trial, which does not depend on units; inf if not measured."""
    total = np.zeros(len(trials))
    for each in constraints:
        excess = np.array([each.excess(trial) for trial in trials], dtype=np.float64)
        largest = float(np.abs(excess[np.isfinite(excess)]).max(initial=0.0)) or 1.0
        total += np.where(np.isnan(excess), np.inf, np.maximum(excess, 0.0) / largest)
    return total


def infeasible_because(constraints: Sequence[Constraint], trials: Sequence[Trial]) -> str:
    """Why none of the trials that returned a value is feasible, and how far the nearest one is."""
    done = [trial for trial in trials if trial.state == "done"]
    nearest = done[int(np.argmin(violations(constraints, done)))]
    missed = []
    for each in constraints:
        excess = each.excess(nearest)
        if math.isnan(excess):
            missed.append(f"{each.name} was not measured")
        elif excess > 0.0:
            side = "above" if each.sign > 0 else "below"
            value = each.measured(nearest)
            missed.append(
                f"{each.name} = {value:.6g}, {excess:.3g} {side} the bound {each.bound:g}"
            )
    return (
        f"no trial meets the constraints; trial {nearest.number} comes nearest: {'; '.join(missed)}"
    )
