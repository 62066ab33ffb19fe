"""A cost that is known beforehand, such as a price list, a number of flops or a formula.

ln c(x) = ln function(x),   without spread; function(x, x') if it takes the previous point too
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import Evidence
from farthing.errors import InvalidInput
from farthing.models.gp import FitMemory, Normal
from farthing.space.space import Float, Space

__all__ = ["Known"]

Array = NDArray[np.float64]

STEP = 1e-5  # of the unit cube, for finite differences on continuous coordinates
LEAP = 1e-3  # on the coordinate of a number with too many values to list: at least its next value
FREE = 1e-12  # units of cost: the lowest cost in a logarithm or a quotient
REMEMBER = 100_000  # configurations whose cost is cached
REMEMBER_LAST = 1_000  # previous points for which costs are cached


@dataclass(frozen=True)
class _KnownCost:
    """A `Known` on a space."""

    space: Space
    f: Callable[[Mapping[str, Any]], float]
    memo: dict[bytes, float]
    decoded: dict[bytes, dict[str, Any]] | None = None  # a cache for `_KnownMove`
    memory: FitMemory | None = None

    def _params(self, x: Array, key: bytes) -> dict[str, Any]:
        if self.decoded is None:
            return self.space.decode(x)
        if key not in self.decoded:
            if len(self.decoded) >= REMEMBER:
                self.decoded.clear()
            self.decoded[key] = self.space.decode(x)
        return self.decoded[key]

    def price(self, x: Array) -> float:
        """The cost at one valid point."""
        key = x.tobytes()
        if key not in self.memo:
            params = self._params(x, key)
            try:
                cost = self.f(params)
            except Exception as error:  # the user's function may raise anything
                raise InvalidInput(
                    f"The cost function failed at {params}: {type(error).__name__}: {error}. "
                    "It must accept the parameters as a dict and return their cost."
                ) from error
            if not (isinstance(cost, Real) and np.isfinite(cost) and cost >= 0):
                raise InvalidInput(
                    f"The cost function returned {cost} at {params}: expected a number of at least "
                    "0. Return the cost of the evaluation, or omit cost= to learn it."
                )
            if len(self.memo) >= REMEMBER:
                self.memo.clear()
            self.memo[key] = float(cost)
        return self.memo[key]

    def log_at(self, X: Array) -> Normal:
        snapped = np.ascontiguousarray(self.space.snap(X))
        prices = np.maximum([self.price(x) for x in snapped], FREE)
        return Normal(np.log(prices), np.zeros(len(snapped)))

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
        """Coordinates after and before x (m,): the neighbouring values, or a small step away."""
        levels = self.space.levels[j]
        if levels is None:
            parameter = self.space.parameters[self.space.names[j]]
            step = STEP if isinstance(parameter, Float) and parameter.step is None else LEAP
            return np.minimum(x + step, 1.0), np.maximum(x - step, 0.0)
        here = np.searchsorted(levels, x)
        return levels[np.minimum(here + 1, len(levels) - 1)], levels[np.maximum(here - 1, 0)]

    def condition(self, x: Array, cost: float) -> _KnownCost:
        return self


@dataclass(frozen=True)
class _KnownMove:
    """A `Known` of two points, on a space and after the point evaluated last."""

    space: Space
    f: Callable[[Mapping[str, Any], Mapping[str, Any] | None], float]
    memos: dict[bytes, dict[bytes, float]]  # {previous point: {point: cost}}
    decoded: dict[bytes, dict[str, Any]] = field(default_factory=dict)
    last: Array | None = None
    memory: FitMemory | None = None

    @cached_property
    def _here(self) -> _KnownCost:
        """The cost as a function of one point."""
        before = None if self.last is None else self.space.decode(self.last)
        if len(self.memos) >= REMEMBER_LAST:
            self.memos.clear()
        key = b"" if self.last is None else self.last.tobytes()
        memo = self.memos.setdefault(key, {})
        return _KnownCost(self.space, lambda params: self.f(params, before), memo, self.decoded)

    def price(self, x: Array) -> float:
        """The cost at one valid point."""
        return self._here.price(x)

    def log_at(self, X: Array) -> Normal:
        return self._here.log_at(X)

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        return self._here.slopes(X)

    def condition(self, x: Array, cost: float) -> _KnownMove:
        return self.after(x)

    def after(self, x: Array) -> _KnownMove:
        return replace(self, last=np.ascontiguousarray(self.space.snap(x[None])[0]))


def _takes_two(f: Callable[..., float]) -> bool:
    """Whether a function takes the previous parameters too."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in parameters) == 2


@dataclass(frozen=True)
class Known:
    """Cost as a function of the parameters, `Known(lambda params: params["epochs"] * 0.1)`.

    A function of two arguments also gets the parameters evaluated before, None at the first trial:
    `Known(lambda params, before: 1.0 if before is None else distance(params, before))`.

    The function gets valid parameters, and its values are cached. Gradients on numeric coordinates
    are finite differences. A suggestion calls it at most (screened points + polishing steps x
    (2d + 1)) times.
    """

    f: Callable[..., float]
    _bound: dict[int, _KnownCost | _KnownMove] = field(
        default_factory=dict, repr=False, compare=False
    )

    def bind(self, space: Space, last: Array | None = None) -> _KnownCost | _KnownMove:
        """The model on a space, the same object each time so that its cache is kept."""
        if id(space) not in self._bound or self._bound[id(space)].space is not space:
            kind = _KnownMove if _takes_two(self.f) else _KnownCost
            self._bound[id(space)] = kind(space, self.f, {})
        bound = self._bound[id(space)]
        if last is None or np.isnan(last).any() or isinstance(bound, _KnownCost):
            return bound
        return bound.after(last)

    def fit(self, evidence: Evidence) -> _KnownCost | _KnownMove:
        """The function itself: the costs paid so far do not matter."""
        return self.bind(evidence.space, evidence.last)

    def price_at(self, space: Space, x: Array, previous: Array | None = None) -> float:
        """The function's value at a valid point."""
        return self.bind(space, previous).price(x)
