"""The seam of cost models: a learner turns evidence into a model of ln c."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from farthing.errors import InvalidInput
from farthing.models.gp import FitMemory, Normal
from farthing.space.space import Space

__all__ = [
    "Bounded",
    "CostLearner",
    "CostModel",
    "Evidence",
    "Explained",
    "Following",
    "KnownBeforehand",
    "LeavesOut",
    "Trend",
    "TrendLearner",
]

Array = NDArray[np.float64]
Slopes = tuple[Normal, Array, Array]  # of m points, and the gradients (m, d) of mean and std


class Evidence(NamedTuple):
    """Costs paid at n points, and what the learner remembered of the last time.

    Attributes:
        X: (n, d) points of the unit cube.
        cost: (n,) amounts paid, positive.
        at_least: (n,) True where the evaluation was killed: the true cost is at least that.
        previous: (n, d) the point evaluated before each, NaN where there was none.
        last: (d,) the point evaluated last, which the next one follows; NaN: none was.
        seldom: there is little time: what was learnt the last time will do for longer.
    """

    space: Space
    X: Array
    cost: Array
    at_least: NDArray[np.bool_]
    memory: FitMemory | None = None
    previous: Array | None = None
    last: Array | None = None
    seldom: bool = False

    def log_cost(self) -> Array:
        """ln c (n,), of costs that have one."""
        if len(wrong := np.flatnonzero(~(np.isfinite(self.cost) & (self.cost > 0)))):
            raise InvalidInput(
                f"The cost {self.cost[wrong[0]]} of {self.space.decode(self.X[wrong[0]])} cannot "
                "be learnt from: expected a positive number. Leave that evaluation out, or give "
                "what it really used."
            )
        return np.log(self.cost)


class CostModel(Protocol):
    """ln c(x) ~ N(mean, std^2), at the points of the cube."""

    @property
    def memory(self) -> FitMemory | None:
        """What to remember for the next fit; plain JSON values."""

    def log_at(self, X: Array) -> Normal:
        """Mean and standard deviation of ln c at X (m, d)."""

    def slopes(self, X: Array) -> Slopes:
        """`log_at` and the gradients (m, d) of its mean and of its standard deviation."""

    def condition(self, x: Array, cost: float) -> CostModel:
        """The model after one more cost."""


class Trend(CostModel, Protocol):
    """A cost model of few coefficients: a curve, and the noise of a bill about it."""

    @property
    def noise(self) -> float:
        """Standard deviation of ln c about the curve."""

    @property
    def optimism(self) -> float:
        """By how much its residuals are too small, because it was chosen by them; at least 1."""

    def trend(self, X: Array) -> Normal:
        """The curve at X (m, d), with the uncertainty of its coefficients alone."""

    def trend_slopes(self, X: Array) -> Slopes:
        """`trend` with gradients."""

    def moved(self) -> Array:
        """(n, n) how far the curve at row i moves if row j of the evidence is left out."""

    def condition(self, x: Array, cost: float) -> Trend:
        """The model after one more cost."""


class CostLearner(Protocol):
    """What a user hands over as `cost=`."""

    def fit(self, evidence: Evidence) -> CostModel | None:
        """A model, or None while there is too little evidence for any."""


class TrendLearner(Protocol):
    """A learner of a curve of few coefficients: `Linear`, `Flops`, `Transfer`."""

    def fit(self, evidence: Evidence) -> Trend | None:
        """A curve, or None while there is too little evidence for any."""


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


@runtime_checkable
class Bounded(Protocol):
    """What a model may also say: a bound of its mean, for less work than the mean itself."""

    def least(self, X: Array) -> Array:
        """(m,) no larger than the mean that `log_at(X)` gives, and hardly smaller."""


@runtime_checkable
class Explained(Protocol):
    """What a model may also say: what it is made of, and whether less than was asked for."""

    @property
    def because(self) -> str:
        """Why it is a simpler model than was asked for, or which was chosen; "" if neither."""

    @property
    def about(self) -> str:
        """What it is, in a few words: `linear in width, epochs`."""


@runtime_checkable
class LeavesOut(Protocol):
    """What a model may also say: each bill as predicted by the others, without fitting anew."""

    def left_out(self) -> Normal:
        """ln c (n,) of each row of the evidence, features and hyperparameters kept."""


# ── a curve, and the noise of a bill about it ──────────────────────────────────────────────────


def billed(curve: Normal, noise: float) -> Normal:
    """A bill: the curve and the noise, sqrt(std^2 + noise^2)."""
    return Normal(curve.mean, np.hypot(curve.std, noise))


def billed_slopes(slopes: Slopes, noise: float) -> Slopes:
    """The same with gradients."""
    curve, d_mean, d_std = slopes
    bill = billed(curve, noise)
    share = np.divide(curve.std, bill.std, where=bill.std > 0, out=np.zeros_like(bill.std))
    return bill, d_mean, d_std * share[:, None]
