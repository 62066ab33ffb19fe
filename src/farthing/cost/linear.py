"""The low-variance cost model: linear in log features (Guinet et al. 2020, section 3.2).

    ln c = b_0 + sum_k b_k phi_k,   phi_k of features.py
    var  = s^2 (1 + phi' (D'WD)^-1 phi),   s^2 = RSS / (n - k - 1)

At most three features, chosen forward by PRESS = sum (r_i / (1 - H_ii))^2 (Allen 1974), the
closed-form leave-one-out error, for as long as it drops by more than chance and n >= k + 3, 3 k;
the paper does not say how its "most significant" ones are found. s is then enlarged by what
choosing again, without some of the bills, shows it to be too small. A cost known only from below is
a censored row (regression.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import Evidence, Slopes, billed, billed_slopes
from farthing.errors import InvalidInput
from farthing.models.features import log_features
from farthing.models.gp import FitMemory, Normal
from farthing.models.regression import Fitted, designed, least_squares, optimism, select, settled
from farthing.space.space import Space

__all__ = ["Linear"]

Array = NDArray[np.float64]

AT_MOST = 3


@dataclass(frozen=True)
class _LinearCost:
    """A fitted `Linear`."""

    space: Space
    F: Array  # (n, k) all features
    log_cost: Array  # (n,)
    at_least: NDArray[np.bool_]  # (n,)
    source: NDArray[np.int64]  # (k,) coordinate of each feature
    chosen: tuple[int, ...]
    fitted: Fitted
    optimism: float = 1.0
    because: str = ""
    memory: FitMemory | None = None

    @property
    def about(self) -> str:
        names = [self.space.names[j] for j in dict.fromkeys(self.source[list(self.chosen)])]
        return f"linear in {', '.join(names)}" if names else "constant"

    @property
    def noise(self) -> float:
        """Standard deviation of a bill about the plane."""
        return self.optimism * self.fitted.sigma

    def trend(self, X: Array) -> Normal:
        """The plane, with the uncertainty of its coefficients alone."""
        D = designed(log_features(self.space, X).F[:, list(self.chosen)])
        mean, std = self.fitted.plane(D)
        return Normal(mean, self.optimism * std)

    def trend_slopes(self, X: Array) -> Slopes:
        """`trend` with gradients: d std = s phi' (D'WD)^-1 d phi / sqrt(phi' (D'WD)^-1 phi)."""
        chosen = list(self.chosen)
        F, slopes, _ = log_features(self.space, X)
        D = designed(F[:, chosen])
        mean, std = self.fitted.plane(D)
        plane = Normal(mean, self.optimism * std)
        scaled = self.noise**2 * (D @ self.fitted.inverse)[:, 1:]
        to_std = np.divide(scaled, plane.std[:, None], where=scaled != 0, out=np.zeros_like(scaled))
        d_mean, d_std = np.zeros(np.shape(X)), np.zeros(np.shape(X))
        for k, feature in enumerate(chosen):
            j = self.source[feature]
            d_mean[:, j] += self.fitted.beta[1 + k] * slopes[:, feature]
            d_std[:, j] += to_std[:, k] * slopes[:, feature]
        return plane, d_mean, d_std

    def log_at(self, X: Array) -> Normal:
        return billed(self.trend(X), self.noise)

    def slopes(self, X: Array) -> Slopes:
        return billed_slopes(self.trend_slopes(X), self.noise)

    def left_out(self) -> Normal:
        return self.fitted.left_out(designed(self.F[:, list(self.chosen)]))

    def moved(self) -> Array:
        """-d_i' (D'WD)^-1 d_j g_j / (1 - w_j q_j), as in `Fitted.left_out`."""
        return self.fitted.moved(designed(self.F[:, list(self.chosen)]))

    def condition(self, x: Array, cost: float) -> _LinearCost:
        F = np.vstack([self.F, log_features(self.space, np.atleast_2d(x)).F])
        log_cost, at_least = np.append(self.log_cost, np.log(cost)), np.append(self.at_least, False)
        fitted = least_squares(designed(F[:, list(self.chosen)]), log_cost, at_least)
        return replace(self, F=F, log_cost=log_cost, at_least=at_least, fitted=fitted)


@dataclass(frozen=True)
class Linear:
    """Learn ln c as a linear function of a few log features.

    Attributes:
        features: names of parameters, `Linear(features=["width", "epochs"])`; None: those that
            predict best when one bill is left out. With too few bills for all of the list, those
            of it are taken that predict best.
        at_most: how many are chosen; 0 is a constant cost.
    """

    features: Sequence[str] | None = None
    at_most: int = AT_MOST

    def __post_init__(self) -> None:
        if isinstance(self.at_most, bool) or not isinstance(self.at_most, int) or self.at_most < 0:
            raise InvalidInput(f"at_most={self.at_most!r}: expected a whole number of at least 0.")
        if isinstance(self.features, str) or (self.features is not None and not self.features):
            raise InvalidInput(
                f"features={self.features!r}: expected a list of names of parameters, such as "
                '["width", "epochs"], or None to have them chosen.'
            )
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))

    def fit(self, evidence: Evidence) -> _LinearCost | None:
        """A model of ln c, or None while nothing was paid."""
        asked = self._asked(evidence.space)
        if not len(evidence.cost):
            return None
        F, _, source = log_features(evidence.space, evidence.X)
        log_cost = evidence.log_cost()
        chosen, because = self._choose(evidence, F, log_cost, source, asked)
        at_least = evidence.at_least
        fitted = least_squares(designed(F[:, chosen]), log_cost, at_least)
        hopeful = 1.0
        if asked is None:
            hopeful = optimism(F, log_cost, chosen, self.at_most, at_least)
        return _LinearCost(
            evidence.space, F, log_cost, at_least, source, tuple(chosen), fitted, hopeful, because
        )

    def _asked(self, space: Space) -> set[int] | None:
        """The coordinates of the fixed list."""
        if self.features is None:
            return None
        if unknown := [name for name in self.features if name not in space.names]:
            raise InvalidInput(
                f"Linear(features=...) names {unknown[0]!r}, but the parameters are "
                f"{list(space.names)}."
            )
        return {space.names.index(name) for name in self.features}

    def _choose(
        self,
        evidence: Evidence,
        F: Array,
        log_cost: Array,
        source: NDArray[np.int64],
        asked: set[int] | None,
    ) -> tuple[list[int], str]:
        """The features to use, and what is less than was asked for."""
        if asked is None:
            return select(F, log_cost, self.at_most, evidence.at_least), ""
        listed = [k for k, j in enumerate(source) if j in asked]
        exact = ~evidence.at_least if (~evidence.at_least).sum() >= 2 else slice(None)
        rows = F[exact]
        if len(rows) < len(listed) + 2:
            found = select(F[:, listed], log_cost, len(listed), evidence.at_least)
            return [listed[k] for k in found], (
                f"{len(rows)} costs are too few for {len(listed)} features, {len(found)} are used"
            )
        chosen: list[int] = []
        for k in listed:
            if settled(rows, chosen)[k]:
                chosen.append(k)
        names = {evidence.space.names[source[k]] for k in set(listed) - set(chosen)}
        because = f"{', '.join(sorted(names))} told nothing of its own" if names else ""
        return chosen, because
