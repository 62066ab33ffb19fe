"""The cost of a fit: proportional to integers such as the number of trees, until costs show others.

    ln c(x) = sum_j b_j ln v_j + r(x),    b_j ~ N(1, SLOPE_SD^2),  r ~ GP

v_j are the integers that have positive values only. Far from all candidates, a Gaussian process on
ln c returns to the usual cost. Where a fit cannot be killed, a candidate with a hundred times as
many trees would then use up the budget. The slopes b are the posterior means, given residuals of
standard deviation RESIDUAL_SD.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost import CostModel, Evidence, LogGP
from farthing.cost.model import Slopes, because_of, least_of
from farthing.models.features import log_features
from farthing.models.gp import FitMemory, Normal
from farthing.space.space import Space

__all__ = ["FitCost"]

Array = NDArray[np.float64]

SLOPE_SD = 0.5
RESIDUAL_SD = 0.5


@dataclass(frozen=True)
class _WithTrend:
    """A fitted `FitCost`."""

    space: Space
    features: tuple[int, ...]  # the columns of the log features that the trend uses
    slope: Array
    rest: CostModel  # of ln c without the trend
    about: str = "proportional to integers at first, and a Gaussian process on the residuals"

    @property
    def memory(self) -> FitMemory | None:
        return self.rest.memory

    @property
    def because(self) -> str:
        return because_of(self.rest)

    def trend(self, X: Array) -> Array:
        """(m,) what the integers add to ln c."""
        return np.asarray(log_features(self.space, X).F[:, self.features] @ self.slope)

    def log_at(self, X: Array) -> Normal:
        mean, std = self.rest.log_at(X)
        return Normal(mean + self.trend(X), std)

    def least(self, X: Array) -> Array:
        return least_of(self.rest, X) + self.trend(X)

    def slopes(self, X: Array) -> Slopes:
        (mean, std), d_mean, d_std = self.rest.slopes(X)
        _, gradients, source = log_features(self.space, X)
        steeper = d_mean.copy()
        for feature, slope in zip(self.features, self.slope, strict=True):
            steeper[:, source[feature]] += slope * gradients[:, feature]
        return Normal(mean + self.trend(X), std), steeper, d_std

    def condition(self, x: Array, cost: float) -> _WithTrend:
        rest = cost * float(np.exp(-self.trend(x[None])[0]))
        return replace(self, rest=self.rest.condition(x, rest))


@dataclass(frozen=True)
class FitCost:
    """Learn ln c with a Gaussian process and a trend in some integers.

    Attributes:
        integers: names of parameters.
    """

    integers: tuple[str, ...]

    def fit(self, evidence: Evidence) -> CostModel | None:
        """A model of ln c, or None with fewer than two costs."""
        F, _, source = log_features(evidence.space, evidence.X)
        names = evidence.space.names
        features = tuple(k for k, j in enumerate(source) if names[j] in self.integers)
        chosen = F[:, features]
        slope = _slopes(chosen[~evidence.at_least], evidence.log_cost()[~evidence.at_least])
        rest = LogGP().fit(evidence._replace(cost=evidence.cost * np.exp(-chosen @ slope)))
        return None if rest is None else _WithTrend(evidence.space, features, slope, rest)


def _slopes(F: Array, log_cost: Array) -> Array:
    """(k,) the posterior mean of the slopes, given n costs; the level of the costs is free."""
    k = F.shape[1]
    if not len(F):
        return np.ones(k)
    F, y = F - F.mean(axis=0), log_cost - log_cost.mean()
    weight = (RESIDUAL_SD / SLOPE_SD) ** 2
    return np.asarray(np.linalg.solve(F.T @ F + weight * np.eye(k), F.T @ y + weight * np.ones(k)))
