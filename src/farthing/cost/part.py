"""The cost of a part of a training: start-up + steps x rate(x).

A cost learner learns the cost of all steps of a training without its start-up, R(x) = T rate(x).
The steps of a part are a share of T:

    ln c = ln(startup + share R),    to first order about the mean of ln R
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import CostModel, DependsOnPrevious, Slopes, about_of, because_of, least_of
from farthing.history import CurvePoint
from farthing.models.gp import FitMemory, Normal

__all__ = ["PartCost", "rate_of", "startup_of"]

Array = NDArray[np.float64]
Curve = Sequence[CurvePoint]


@dataclass(frozen=True)
class PartCost:
    """The cost of a share of the steps of a training, which starts anew.

    Attributes:
        model: predicts ln R, the cost of all steps without the start-up.
        startup: what a training costs before its first step.
        share: the share of the steps.
    """

    model: CostModel
    startup: float = 0.0
    share: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.model, DependsOnPrevious):
            object.__setattr__(self, "after", self._after)

    def _after(self, x: Array) -> PartCost:
        assert isinstance(self.model, DependsOnPrevious)
        return replace(self, model=self.model.after(x))

    @property
    def memory(self) -> FitMemory | None:
        """What the next fit starts from."""
        return self.model.memory

    @property
    def about(self) -> str:
        """What the model is, in a few words."""
        return about_of(self.model, "")

    @property
    def because(self) -> str:
        """Why the model is simpler than requested."""
        return because_of(self.model)

    def _moved(self, mean: Array) -> tuple[Array, Array]:
        """ln(startup + share R) at ln R = mean, and its derivative."""
        steps = mean + np.log(self.share)
        if not self.startup > 0.0:
            return steps, np.ones_like(mean)
        moved = np.logaddexp(np.log(self.startup), steps)
        return moved, np.exp(steps - moved)

    def log_at(self, X: Array) -> Normal:
        """Mean and standard deviation of ln c at X (m, d)."""
        mean, std = self.model.log_at(X)
        moved, slope = self._moved(mean)
        return Normal(moved, slope * std)

    def least(self, X: Array) -> Array:
        """(m,) no larger than the mean of ln c."""
        return self._moved(least_of(self.model, X))[0]

    def slopes(self, X: Array) -> Slopes:
        """`log_at` and the gradients (m, d) of its mean and of its standard deviation."""
        (mean, std), d_mean, d_std = self.model.slopes(X)
        moved, slope = self._moved(mean)
        bend = (slope * (1.0 - slope) * std)[:, None]
        steep = slope[:, None]
        return Normal(moved, slope * std), steep * d_mean, steep * d_std + bend * d_mean

    def condition(self, x: Array, cost: float) -> PartCost:
        """The model after one more observed cost of such a part."""
        steps = max(cost - self.startup, 0.05 * cost) / self.share
        return replace(self, model=self.model.condition(x, steps))


def startup_of(curves: Sequence[Curve], resource: str) -> float:
    """What a training costs before its first step: the median over trainings with two reports.

    Each says c_1 - t_1 (c_k - c_1) / (t_k - t_1), from its first and its last report.
    """
    found = []
    for curve in curves:
        if len(curve) > 1:
            first, last = curve[0], curve[-1]
            paid, all_paid = first.cost.get(resource, 0.0), last.cost.get(resource, 0.0)
            rate = (all_paid - paid) / (last.step - first.step)
            found.append(min(max(paid - first.step * rate, 0.0), paid))
    return float(np.median(found)) if found else 0.0


def rate_of(step: int, cost: Mapping[str, Any], resource: str, startup: float) -> float:
    """The cost of one step of a training that has paid `cost` up to a step."""
    paid = float(cost.get(resource, 0.0))
    return max(paid - startup, 0.05 * paid) / step
