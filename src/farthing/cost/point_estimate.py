"""The cost of the papers: exp(mean of ln c), without uncertainty (Lee et al. 2020, section 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost.log_gp import LogGP
from farthing.cost.model import (
    CostLearner,
    CostModel,
    DependsOnPrevious,
    Evidence,
    KnownBeforehand,
)
from farthing.models.gp import FitMemory, Normal

__all__ = ["PointEstimate"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _PointEstimateModel:
    """The mean of another model, with a standard deviation of 0."""

    model: CostModel

    def __post_init__(self) -> None:
        if isinstance(self.model, DependsOnPrevious):
            object.__setattr__(self, "after", self._after)

    def _after(self, x: Array) -> _PointEstimateModel:
        assert isinstance(self.model, DependsOnPrevious)
        return replace(self, model=self.model.after(x))

    @property
    def memory(self) -> FitMemory | None:
        return self.model.memory

    def log_at(self, X: Array) -> Normal:
        mean, std = self.model.log_at(X)
        return Normal(mean, np.zeros_like(std))

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        (mean, std), d_mean, d_std = self.model.slopes(X)
        return Normal(mean, np.zeros_like(std)), d_mean, np.zeros_like(d_std)

    def condition(self, x: Array, cost: float) -> _PointEstimateModel:
        return replace(self, model=self.model.condition(x, cost))


@dataclass(frozen=True)
class PointEstimate:
    """Use exp(mean) of another model as the cost in acquisition, stopping and budget."""

    learner: CostLearner = LogGP()

    def __post_init__(self) -> None:
        if isinstance(self.learner, KnownBeforehand):
            # On the instance, not the class: `PointEstimate` of a learnt cost has no `price_at`.
            object.__setattr__(self, "price_at", self.learner.price_at)

    def fit(self, evidence: Evidence) -> _PointEstimateModel | None:
        """The other learner's model with a standard deviation of 0."""
        model = self.learner.fit(evidence)
        return None if model is None else _PointEstimateModel(model)
