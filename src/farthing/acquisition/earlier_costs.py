"""The cost model that starts from the costs of earlier studies, in the coordinates of the cube.

    ln c = u + b g(x) + e,   e ~ N(0, s^2)

    g    mean over at most MOST sources of the posterior mean of ln c, each a Gaussian process with
         censored rows; the sources' levels are part of u, so they may have other units
    u    the level of this task: flat prior, so that the first cost decides
    b    how much of the shape is handed over, b ~ N(1, SHAPE^2)
    s^2  the variance of a source's ln c about its level and the mean of the other sources; it
         counts as TABLE_COUNTS residuals

`ResidualGP(EarlierCost(...))` also learns a new shape. Before the first cost here there is no
model, because the unit of the costs is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import CostLearner, Evidence, Slopes, with_noise, with_noise_slopes
from farthing.cost.residual_gp import ResidualGP
from farthing.earlier import Source
from farthing.models.gp import FitMemory, Normal
from farthing.models.prior_mean import Mixture, SourceModel, cost_model_of
from farthing.models.regression import hazard

__all__ = ["EarlierCost", "cost_shape", "with_shapes"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LEVEL = 1e3  # sd of u: flat
SHAPE = 0.5  # sd of b
ONE_SOURCE = 0.5  # s if there is one source only
LEAST_NOISE = 1e-3
MOST = 5  # sources that give the shape, the largest ones
ROWS = 450  # of all of them together: costs are smoother than values
TABLE_COUNTS = 3  # the sources' s^2 counts as much as this many costs
IMPUTATIONS = 10


def cost_shape(sources: Sequence[Source], resource: str, options: Ints) -> Mixture | None:
    """g, in ln c; None if no source has costs."""
    largest = sorted(sources, key=lambda each: (-len(each.x), each.name))[:MOST]
    found = [cost_model_of(source, resource, options, ROWS // MOST) for source in largest]
    models = tuple(model for model in found if model is not None)
    return _average(models) if models else None


def _average(models: tuple[SourceModel, ...]) -> Mixture:
    return Mixture(models, np.array([model.gp.scale for model in models]) / len(models))


@lru_cache(maxsize=16)
def _noise(models: tuple[SourceModel, ...]) -> float:
    """s: how well the others predict a source, apart from its level."""
    if len(models) == 1:
        return ONE_SOURCE
    squares, count = 0.0, 0
    for i, model in enumerate(models):
        X = np.full((len(model.gp.X), len(model.has)), 0.5)
        X[:, model.has] = model.gp.X
        others = _average(models[:i] + models[i + 1 :]).at(X)
        rest = model.gp.scale * model.gp.targets[:, 0] - others
        squares += float(((rest - rest.mean()) ** 2).sum())
        count += len(rest) - 1
    return max(float(np.sqrt(squares / max(count, 1))), LEAST_NOISE)


@dataclass(frozen=True)
class _EarlierCost:
    """A fitted `EarlierCost`."""

    shape: Mixture
    table_noise: float
    X: Array  # (n, d)
    log_cost: Array  # (n,)
    at_least: Bools  # (n,)
    memory: FitMemory | None = None
    optimism: float = 1.0

    @property
    def about(self) -> str:
        return f"the shape of earlier studies, with a level from {len(self.log_cost)} costs"

    @cached_property
    def _g(self) -> Array:
        return self.shape.at(self.X)

    def _design(self, g: Array) -> Array:
        return np.column_stack([np.ones(len(g)), g - self._centre])

    @cached_property
    def _centre(self) -> float:
        return float(self._g.mean())

    def _solve(self, D: Array, t: Array, noise: float) -> tuple[Array, Array]:
        """Posterior mean (2,) and covariance (2, 2) of (u, b)."""
        precision = np.diag([LEVEL**-2, SHAPE**-2])
        covariance = np.asarray(np.linalg.inv(precision + D.T @ D / noise**2))
        return covariance @ (precision @ [0.0, 1.0] + D.T @ t / noise**2), covariance

    @cached_property
    def _learnt(self) -> tuple[Array, Array, float, Array]:
        """Mean and covariance of (u, b), s, and ln c with bounds replaced by expectations."""
        D, t, noise = self._design(self._g), self.log_cost.copy(), self.table_noise
        exact = ~self.at_least
        for _ in range(IMPUTATIONS if self.at_least.any() else 2):
            beta, _ = self._solve(D, t, noise)
            rest = (t - D @ beta)[exact]
            scatter = TABLE_COUNTS * self.table_noise**2 + float(rest @ rest)
            noise = float(np.sqrt(scatter / (TABLE_COUNTS + len(rest))))
            below = (D @ beta)[self.at_least]
            t[self.at_least] = below + noise * hazard(
                (self.log_cost[self.at_least] - below) / noise
            )
        return (*self._solve(D, t, noise), noise, t)

    @property
    def noise(self) -> float:
        return self._learnt[2]

    def trend(self, X: Array) -> Normal:
        """u + b g, with the standard deviation of its coefficients."""
        return self._plane(self.shape.at(np.asarray(X, dtype=np.float64)))

    def _plane(self, g: Array) -> Normal:
        beta, covariance, _, _ = self._learnt
        D = self._design(g)
        return Normal(D @ beta, np.sqrt(np.einsum("ij,jk,ik->i", D, covariance, D)))

    def trend_slopes(self, X: Array) -> Slopes:
        """`trend` with gradients."""
        beta, covariance, _, _ = self._learnt
        g, d_g = self.shape.slopes(np.asarray(X, dtype=np.float64))
        plane = self._plane(g)
        d_std = (self._design(g) @ covariance[:, 1] / plane.std)[:, None] * d_g
        return plane, beta[1] * d_g, d_std

    def log_at(self, X: Array) -> Normal:
        return with_noise(self.trend(X), self.noise)

    def slopes(self, X: Array) -> Slopes:
        return with_noise_slopes(self.trend_slopes(X), self.noise)

    def _without(self) -> list[tuple[Array, Array]]:
        """Mean and covariance of (u, b) if the cost of each row is left out."""
        _, _, noise, t = self._learnt
        D, every = self._design(self._g), np.arange(len(t))
        return [self._solve(D[every != i], t[every != i], noise) for i in every]

    def moved(self) -> Array:
        D, beta = self._design(self._g), self._learnt[0]
        return np.array([D @ (other - beta) for other, _ in self._without()]).T

    def left_out(self) -> Normal:
        D = self._design(self._g)
        pairs = [(d @ beta, d @ cov @ d) for d, (beta, cov) in zip(D, self._without(), strict=True)]
        mean, variance = np.array(pairs).reshape(-1, 2).T
        return Normal(mean, np.sqrt(variance + self.noise**2))

    def condition(self, x: Array, cost: float) -> _EarlierCost:
        return replace(
            self,
            X=np.vstack([self.X, np.atleast_2d(x)]),
            log_cost=np.append(self.log_cost, np.log(cost)),
            at_least=np.append(self.at_least, False),
        )


@dataclass(frozen=True)
class EarlierCost:
    """Learn ln c from the shape of earlier studies, and its level from the costs of this task.

    Attributes:
        sources: the earlier studies.
        resource: whose cost it is.
    """

    sources: tuple[Source, ...]
    resource: str

    def fit(self, evidence: Evidence) -> _EarlierCost | None:
        """A model of ln c; None before the first cost, or if no source has costs."""
        shape = cost_shape(self.sources, self.resource, evidence.space.options)
        if shape is None or not len(evidence.cost):
            return None
        X = evidence.X.reshape(-1, evidence.space.d)
        return _EarlierCost(shape, _noise(shape.models), X, evidence.log_cost(), evidence.at_least)


def with_shapes(
    learners: Mapping[str, CostLearner], sources: tuple[Source, ...]
) -> Mapping[str, CostLearner]:
    """The learners that begin with the shape of the sources' costs, if there are any."""
    if not any(source.cost for source in sources):
        return learners
    return {resource: ResidualGP(EarlierCost(sources, resource)) for resource in learners}
