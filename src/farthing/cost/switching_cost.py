"""A cost that depends on the evaluation before (Lee et al. 2021, section 6.3), learnt.

    ln c(x | x') = another model's, of the points (x, x - x')

A number's move enters as (x_j - x'_j + 1) / 2, an option as the one before. Together with x this is
as much as both points, in the coordinates in which staying where one is looks the same everywhere.
The first evaluation, which follows none, counts as one that did not move.
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
    """The space of a point and of the move that leads to it."""
    moves: dict[str, Parameter] = {
        f"{name}, before" if count else f"{name}, moved": Categorical(range(int(count)))
        if count
        else Float(-1.0, 1.0)
        for name, count in zip(space.names, space.options, strict=True)
    }
    return Space({**space.parameters, **moves})


def joined(space: Space, X: Array, previous: Array) -> Array:
    """(m, 2d): X and the moves from `previous`, (m, d) or (d,); NaN: no move."""
    before = np.where(np.isnan(previous), X, previous)
    moves = np.where(space.options > 0, before, 0.5 * (X - before + 1.0))
    return np.hstack([X, moves])


@dataclass(frozen=True)
class _SwitchingCostModel:
    """A fitted `SwitchingCost`, for what follows an evaluation at `last`."""

    space: Space
    model: CostModel
    last: Array  # (d,) NaN before the first

    @property
    def memory(self) -> FitMemory | None:
        return self.model.memory

    def log_at(self, X: Array) -> Normal:
        return self.model.log_at(joined(self.space, X, self.last))

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        normal, *slopes = self.model.slopes(joined(self.space, X, self.last))
        d = self.space.d
        # A step in x is half a step in the coordinate of its move.
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
    """Learn a cost of moving: what an evaluation costs given the one before it."""

    learner: CostLearner = LogGP()

    def fit(self, evidence: Evidence) -> _SwitchingCostModel | None:
        """The learner's model of points and moves."""
        space, X = evidence.space, evidence.X
        nowhere = np.full(space.d, np.nan)
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
        last = nowhere if evidence.last is None else evidence.last
        return None if model is None else _SwitchingCostModel(space, model, last)
