"""The low-variance cost model: linear in log features (Guinet et al. 2020, section 3.2).

    ln c = b_0 + sum_k b_k phi_k,   phi_k = ln of a positive parameter, or the coordinate itself,
                                    or [option] of a categorical
    var  = s^2 (1 + phi' (F'F)^-1 phi),   s^2 = RSS / (n - k - 1)

At most three features, chosen forward by PRESS = sum (r_i / (1 - H_ii))^2 (Allen 1974), the
closed-form leave-one-out error, for as long as it drops and n >= k + 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import Evidence
from farthing.gp import Memory, Normal
from farthing.space import Categorical, Float, Int, Ordinal, Space

__all__ = ["Linear"]

Array = NDArray[np.float64]

AT_MOST = 3
STEP = 1e-6
UNSETTLED = 1e-9  # a column is a combination of others, or a row alone carries a coefficient
UNKNOWN_SPREAD = 1.0  # sd of ln c after a single cost: nothing is known of the spread yet


def _is_positive(parameter: Categorical | Float | Int | Ordinal) -> bool:
    if isinstance(parameter, Categorical):
        return False
    if isinstance(parameter, Ordinal):
        return all(isinstance(v, (int, float)) and v > 0 for v in parameter.values)
    return parameter.low > 0


def features(space: Space, X: Array) -> tuple[Array, Array]:
    """(m, k) log features of snapped points, and the coordinate (k,) each of them comes from."""
    natural = space.natural(X)
    columns: list[Array] = []
    source: list[int] = []
    for j, name in enumerate(space.names):
        count = int(space.options[j])
        if count:
            index = np.minimum((X[:, j] * count).astype(np.int64), count - 1)
            columns.extend((index == option).astype(np.float64) for option in range(1, count))
            source.extend([j] * (count - 1))
            continue
        value = natural[:, j]
        if _is_positive(space.parameters[name]):
            column = np.log(value, where=value > 0, out=np.full_like(value, np.nan))
        else:
            column = X[:, j]
        columns.append(np.where(np.isnan(column), 0.0, column))
        source.append(j)
    return np.stack(columns, axis=1), np.array(source)


def press(F: Array, t: Array) -> float:
    """Leave-one-out squared error of least squares on F (n, k), an intercept included.

    Infinite where a coefficient is not settled by the rows, or would not be without one of them.
    """
    design = np.column_stack([np.ones(len(t)), F])
    q, r = np.linalg.qr(design)
    leverage = np.einsum("ij,ij->i", q, q)
    pivots = np.abs(np.diag(r)) / np.linalg.norm(design, axis=0)
    if pivots.min() < UNSETTLED or leverage.max() > 1.0 - UNSETTLED:
        return np.inf
    residual = t - q @ (q.T @ t)
    return float(np.sum((residual / (1.0 - leverage)) ** 2))


def select(F: Array, t: Array, at_most: int = AT_MOST) -> list[int]:
    """Forward selection by PRESS; [] means a constant."""
    chosen: list[int] = []
    error = press(F[:, []], t)
    while len(chosen) < at_most and len(t) >= len(chosen) + 1 + 3:
        usable = [k for k in range(F.shape[1]) if k not in chosen and np.ptp(F[:, k]) > 0]
        tries = {k: press(F[:, [*chosen, k]], t) for k in usable}
        if not tries or min(tries.values()) >= error:
            break
        best = min(tries, key=lambda k: tries[k])
        chosen, error = [*chosen, best], tries[best]
    return chosen


@dataclass(frozen=True)
class _LinearCost:
    """A fitted `Linear`."""

    space: Space
    F: Array  # (n, k) all features
    source: Array  # (k,) coordinate of each feature
    log_cost: Array  # (n,)
    chosen: tuple[int, ...]
    beta: Array  # intercept first
    inverse: Array  # (F'F)^-1 of the chosen design
    sigma: float
    memory: Memory | None = None

    def _from_features(self, F: Array) -> Normal:
        design = np.column_stack([np.ones(len(F)), F[:, list(self.chosen)]])
        spread = 1.0 + np.einsum("ij,jk,ik->i", design, self.inverse, design)
        return Normal(design @ self.beta, self.sigma * np.sqrt(spread))

    def log_at(self, X: Array) -> Normal:
        return self._from_features(features(self.space, self.space.snap(X))[0])

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        X = np.asarray(X, dtype=np.float64)
        d_mean, d_std = np.zeros(X.shape), np.zeros(X.shape)
        for j in {int(self.source[k]) for k in self.chosen}:
            if self.space.options[j]:
                continue
            ahead, behind = X.copy(), X.copy()
            ahead[:, j] = np.minimum(ahead[:, j] + STEP, 1.0)
            behind[:, j] = np.maximum(behind[:, j] - STEP, 0.0)
            high, low, width = self.log_at(ahead), self.log_at(behind), ahead[:, j] - behind[:, j]
            d_mean[:, j] = (high.mean - low.mean) / width
            d_std[:, j] = (high.std - low.std) / width
        return self.log_at(X), d_mean, d_std

    def condition(self, x: Array, cost: float) -> _LinearCost:
        F = np.vstack([self.F, features(self.space, np.atleast_2d(x))[0]])
        return _solve(replace(self, F=F, log_cost=np.append(self.log_cost, np.log(cost))))


def _solve(model: _LinearCost) -> _LinearCost:
    """Least squares on the chosen features."""
    n, k = len(model.log_cost), len(model.chosen)
    design = np.column_stack([np.ones(n), model.F[:, list(model.chosen)]])
    inverse = np.linalg.pinv(design.T @ design)
    beta = np.asarray(np.linalg.lstsq(design, model.log_cost, rcond=None)[0], dtype=np.float64)
    residual = model.log_cost - design @ beta
    freedom = n - k - 1
    sigma = float(np.sqrt(residual @ residual / freedom)) if freedom > 0 else UNKNOWN_SPREAD
    return replace(model, beta=beta, inverse=inverse, sigma=sigma)


@dataclass(frozen=True)
class Linear:
    """Learn ln c as a linear function of at most three log features, chosen automatically.

    A cost known only to be at least so much enters as that much.
    """

    def fit(self, evidence: Evidence) -> _LinearCost | None:
        """A model of ln c, or None while nothing was paid."""
        if not len(evidence.cost):
            return None
        F, source = features(evidence.space, evidence.X)
        log_cost = np.log(evidence.cost)
        chosen = tuple(select(F, log_cost))
        empty = np.zeros(0)
        return _solve(
            _LinearCost(evidence.space, F, source, log_cost, chosen, empty, empty, sigma=0.0)
        )
