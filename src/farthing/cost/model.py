"""The seam of cost models: a learner turns evidence into a model of ln c."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from farthing.gp import Memory, Normal
from farthing.space import Space

__all__ = ["CostLearner", "CostModel", "Evidence", "Following", "KnownBeforehand"]

Array = NDArray[np.float64]


class Evidence(NamedTuple):
    """Costs paid at n points, and what the learner remembered of the last time.

    Attributes:
        X: (n, d) points of the unit cube.
        cost: (n,) amounts paid, positive.
        at_least: (n,) True where the evaluation was killed: the true cost is at least that.
        previous: (n, d) the point evaluated before each, NaN where there was none.
        last: (d,) the point evaluated last, which the next one follows; NaN: none was.
    """

    space: Space
    X: Array
    cost: Array
    at_least: NDArray[np.bool_]
    memory: Memory | None = None
    previous: Array | None = None
    last: Array | None = None


class CostModel(Protocol):
    """ln c(x) ~ N(mean, std^2), at the points of the cube."""

    @property
    def memory(self) -> Memory | None:
        """What to remember for the next fit; plain JSON values."""

    def log_at(self, X: Array) -> Normal:
        """Mean and standard deviation of ln c at X (m, d)."""

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        """`log_at` and the gradients (m, d) of its mean and of its standard deviation."""

    def condition(self, x: Array, cost: float) -> CostModel:
        """The model after one more cost."""


class CostLearner(Protocol):
    """What a user hands over as `cost=`."""

    def fit(self, evidence: Evidence) -> CostModel | None:
        """A model, or None while there is too little evidence for any."""


@runtime_checkable
class KnownBeforehand(Protocol):
    """What a learner may also say: the bill, before it is paid. It need not be told then."""

    def price_at(self, space: Space, x: Array, previous: Array | None = None) -> float:
        """What an evaluation at x (d,) will cost after one at `previous`; None: the first."""


@runtime_checkable
class Following(Protocol):
    """What a model may also say whose costs depend on the evaluation before, c(x | previous x).

    It is fitted for what follows the last evaluation; `condition(x, cost)` is for what follows x.
    """

    def after(self, x: Array) -> CostModel:
        """The model of costs that follow an evaluation at x (d,)."""
