"""The low-variance cost model: linear in log features (Guinet et al. 2020, section 3.2).

    ln c = b_0 + sum_k b_k phi_k,   phi_k of features.py
    var  = s^2 (1 + phi' (D'WD)^-1 phi),   s^2 = RSS / (n - k - 1)

The paper does not say how it finds the "most significant" features. Here forward selection adds at
most three, by PRESS = sum (r_i / (1 - H_ii))^2, the closed-form leave-one-out error (Allen 1974).
It continues while PRESS drops by more than chance, n >= k + 3 and n >= 3 k. Selection makes s too
small. Repeating the selection without some of the costs shows by how much, and s is multiplied by
that factor. A lower bound (a killed trial) is a censored row (regression.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import Evidence, Slopes, with_noise, with_noise_slopes
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
        """Standard deviation of ln c about the plane."""
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
        return with_noise(self.trend(X), self.noise)

    def slopes(self, X: Array) -> Slopes:
        return with_noise_slopes(self.trend_slopes(X), self.noise)

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
        features: names of parameters, `Linear(features=["width", "epochs"])`; None selects those
            with the lowest leave-one-out error. If there are too few costs for the whole list, the
            model uses those of the list with the lowest leave-one-out error.
        at_most: the maximum number of selected features; 0 is a constant cost.
    """

    features: Sequence[str] | None = None
    at_most: int = AT_MOST

    def __post_init__(self) -> None:
        if isinstance(self.at_most, bool) or not isinstance(self.at_most, int) or self.at_most < 0:
            raise InvalidInput(f"at_most={self.at_most!r}: expected an integer of at least 0.")
        if isinstance(self.features, str) or (self.features is not None and not self.features):
            raise InvalidInput(
                f"features={self.features!r}: expected a list of parameter names, such as "
                '["width", "epochs"], or None to select them automatically.'
            )
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))

    def fit(self, evidence: Evidence) -> _LinearCost | None:
        """A model of ln c, or None if there is no cost yet."""
        requested = self._requested(evidence.space)
        if not len(evidence.cost):
            return None
        F, _, source = log_features(evidence.space, evidence.X)
        log_cost = evidence.log_cost()
        chosen, because = self._choose(evidence, F, log_cost, source, requested)
        at_least = evidence.at_least
        fitted = least_squares(designed(F[:, chosen]), log_cost, at_least)
        enlarged = 1.0
        if requested is None:
            enlarged = optimism(F, log_cost, chosen, self.at_most, at_least)
        return _LinearCost(
            evidence.space, F, log_cost, at_least, source, tuple(chosen), fitted, enlarged, because
        )

    def _requested(self, space: Space) -> set[int] | None:
        """The coordinates in `features`, None if they are to be selected."""
        if self.features is None:
            return None
        if unknown := [name for name in self.features if name not in space.names]:
            raise InvalidInput(
                f"Linear(features=...) has {unknown[0]!r}, but the parameters are "
                f"{list(space.names)}. Use their names."
            )
        return {space.names.index(name) for name in self.features}

    def _choose(
        self,
        evidence: Evidence,
        F: Array,
        log_cost: Array,
        source: NDArray[np.int64],
        requested: set[int] | None,
    ) -> tuple[list[int], str]:
        """The features to use, and why some of the requested ones are not used."""
        if requested is None:
            return select(F, log_cost, self.at_most, evidence.at_least), ""
        listed = [k for k, j in enumerate(source) if j in requested]
        exact = ~evidence.at_least if (~evidence.at_least).sum() >= 2 else slice(None)
        rows = F[exact]
        if len(rows) < len(listed) + 2:
            found = select(F[:, listed], log_cost, len(listed), evidence.at_least)
            return [listed[k] for k in found], (
                f"{len(rows)} costs are too few for {len(listed)} features, using {len(found)}"
            )
        chosen: list[int] = []
        for k in listed:
            if settled(rows, chosen)[k]:
                chosen.append(k)
        names = {evidence.space.names[source[k]] for k in set(listed) - set(chosen)}
        because = f"{', '.join(sorted(names))} not used: constant or redundant" if names else ""
        return chosen, because
