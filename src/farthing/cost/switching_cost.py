"""A learnt cost that depends on the evaluation before (Lee et al. 2021, section 6.3).

    ln c(x | x') = m(x, x - x'),  m another cost model, x' the point evaluated before

A numeric coordinate adds its difference as (x_j - x'_j + 1) / 2, a categorical one adds x'_j. This
is the same information as (x, x'), but x = x' has the same differences everywhere. The first
evaluation counts as one with x = x'.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost.log_gp import LogGP
from farthing.cost.model import CostLearner, CostModel, Evidence
from farthing.models.gp import FitMemory, Normal
from farthing.space.space import Categorical, Float, Parameter, Space

__all__ = ["SwitchingCost"]

Array = NDArray[np.float64]


def of_both(space: Space) -> Space:
    """The space of a point and its differences to the point before."""
    moves: dict[str, Parameter] = {
        f"{name}, before" if count else f"{name}, moved": Categorical(range(int(count)))
        if count
        else Float(-1.0, 1.0)
        for name, count in zip(space.names, space.options, strict=True)
    }
    return Space({**space.parameters, **moves})


def joined(space: Space, X: Array, previous: Array) -> Array:
    """(m, 2d): X and its differences to `previous`, (m, d) or (d,); NaN counts as X itself."""
    before = np.where(np.isnan(previous), X, previous)
    moves = np.where(space.options > 0, before, 0.5 * (X - before + 1.0))
    return np.hstack([X, moves])


@dataclass(frozen=True)
class _SwitchingCostModel:
    """A fitted `SwitchingCost`, for the evaluation after one at `last`."""

    space: Space
    model: CostModel
    last: Array  # (d,) NaN before the first evaluation

    @property
    def memory(self) -> FitMemory | None:
        return self.model.memory

    def log_at(self, X: Array) -> Normal:
        return self.model.log_at(joined(self.space, X, self.last))

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        normal, *slopes = self.model.slopes(joined(self.space, X, self.last))
        d = self.space.d
        # A step in x is half a step in the coordinate of its difference.
        moves = (self.space.options == 0) & ~np.isnan(self.last)
        d_mean, d_std = (part[:, :d] + 0.5 * moves * part[:, d:] for part in slopes)
        return normal, d_mean, d_std

    def condition(self, x: Array, cost: float) -> _SwitchingCostModel:
        both = joined(self.space, x[None], self.last)[0]
        return replace(self, model=self.model.condition(both, cost), last=x)

    def after(self, x: Array) -> _SwitchingCostModel:
        return replace(self, last=x)


@dataclass(frozen=True)
class SwitchingCost:
    """Learn a cost that depends on the evaluation before, such as the cost of switching."""

    learner: CostLearner = LogGP()

    def fit(self, evidence: Evidence) -> _SwitchingCostModel | None:
        """The learner's model of points and differences."""
        space, X = evidence.space, evidence.X
        previous = np.full(X.shape, np.nan) if evidence.previous is None else evidence.previous
        model = self.learner.fit(
            Evidence(
                of_both(space),
                joined(space, X, previous),
                evidence.cost,
                evidence.at_least,
                evidence.memory,
            )
        )
        last = np.full(space.d, np.nan) if evidence.last is None else evidence.last
        return None if model is None else _SwitchingCostModel(space, model, last)
