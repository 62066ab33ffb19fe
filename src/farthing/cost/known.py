"""A cost that is known beforehand: a price list, a number of flops, a formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import Evidence
from farthing.errors import InvalidInput
from farthing.gp import Memory, Normal
from farthing.space import Float, Space

__all__ = ["Known"]

Array = NDArray[np.float64]

STEP = 1e-5  # of the cube, for differences on continuous coordinates
LEAP = 1e-3  # on those of an Int with too many values to list: to its next value at least
REMEMBER = 100_000  # configurations whose cost is kept


@dataclass(frozen=True)
class _KnownCost:
    """A `Known` bound to its space."""

    space: Space
    f: Callable[[Mapping[str, Any]], float]
    memo: dict[bytes, float]
    memory: Memory | None = None

    def price(self, x: Array) -> float:
        """The cost at one snapped point."""
        key = x.tobytes()
        if key not in self.memo:
            params = self.space.decode(x)
            cost = self.f(params)
            if not (isinstance(cost, Real) and np.isfinite(cost) and cost > 0):
                raise InvalidInput(
                    f"the known cost of {params} is {cost}: a cost must be a positive number. "
                    "Return what the evaluation will cost, or leave cost= out to have it learnt."
                )
            if len(self.memo) >= REMEMBER:
                self.memo.clear()
            self.memo[key] = float(cost)
        return self.memo[key]

    def log_at(self, X: Array) -> Normal:
        snapped = np.ascontiguousarray(self.space.snap(X))
        return Normal(np.log([self.price(x) for x in snapped]), np.zeros(len(snapped)))

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        X = self.space.snap(X)
        gradient = np.zeros(X.shape)
        for j in np.flatnonzero(self.space.options == 0):
            ahead, behind = X.copy(), X.copy()
            ahead[:, j], behind[:, j] = self._around(int(j), X[:, j])
            width = ahead[:, j] - behind[:, j]
            rise = self.log_at(ahead).mean - self.log_at(behind).mean
            gradient[:, j] = np.divide(rise, width, where=width > 0, out=np.zeros(len(X)))
        return self.log_at(X), gradient, np.zeros_like(gradient)

    def _around(self, j: int, x: Array) -> tuple[Array, Array]:
        """Coordinates after and before x (m,): the next levels, or a small step away."""
        levels = self.space.levels[j]
        if levels is None:
            step = STEP if isinstance(self.space.parameters[self.space.names[j]], Float) else LEAP
            return np.minimum(x + step, 1.0), np.maximum(x - step, 0.0)
        here = np.searchsorted(levels, x)
        return levels[np.minimum(here + 1, len(levels) - 1)], levels[np.maximum(here - 1, 0)]

    def condition(self, x: Array, cost: float) -> _KnownCost:
        return self


@dataclass(frozen=True)
class Known:
    """Cost as a function of the parameters, `Known(lambda params: params["epochs"] * 0.1)`.

    The function is called at snapped parameters, remembered, and differenced on numeric
    coordinates; a thought calls it at most (screened points + polished steps x (2d + 1)) times.
    """

    f: Callable[[Mapping[str, Any]], float]
    _bound: dict[int, _KnownCost] = field(default_factory=dict, repr=False, compare=False)

    def bind(self, space: Space) -> _KnownCost:
        """The model on a space, the same one each time so that it remembers."""
        if id(space) not in self._bound or self._bound[id(space)].space is not space:
            self._bound[id(space)] = _KnownCost(space, self.f, {})
        return self._bound[id(space)]

    def fit(self, evidence: Evidence) -> _KnownCost:
        """The same function, whatever was paid so far."""
        return self.bind(evidence.space)

    def price_at(self, space: Space, x: Array) -> float:
        """The function's value at a snapped point."""
        return self.bind(space).price(x)
