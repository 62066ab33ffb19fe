"""Interfaces of cost models: a learner turns the costs paid so far into a model of ln c.

CostLearner        fits a model; the user passes one as `cost=`
CostModel          predicts ln c; its docstring lists the optional methods
Trend              a cost model of a few coefficients, which `ResidualGP` can correct
KnownBeforehand    a learner that knows the cost of an evaluation before it runs
DependsOnPrevious  a model whose costs depend on the evaluation before
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from farthing.errors import InvalidInput
from farthing.models.gp import FitMemory, Normal
from farthing.space.space import Space

__all__ = [
    "CostLearner",
    "CostModel",
    "DependsOnPrevious",
    "Evidence",
    "KnownBeforehand",
    "Trend",
]

Array = NDArray[np.float64]
Slopes = tuple[Normal, Array, Array]  # at m points, and the gradients (m, d) of mean and std


class Evidence(NamedTuple):
    """Costs paid at n points, and what the learner stored after its last fit.

    Attributes:
        X: (n, d) points of the unit cube.
        cost: (n,) amounts paid, positive.
        at_least: (n,) True if the evaluation was killed: `cost` is then a lower bound.
        memory: the `memory` of the last fitted model, None before the first fit.
        previous: (n, d) the point evaluated before each row, NaN before the first evaluation.
        last: (d,) the point evaluated last, which the next one follows; NaN if there is none.
        seldom: whether time for suggesting is short: relearn hyperparameters less often.
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
        """ln c (n,).

        Raises:
            InvalidInput: a cost is not a positive number.
        """
        if len(wrong := np.flatnonzero(~(np.isfinite(self.cost) & (self.cost > 0)))):
            raise InvalidInput(
                f"The cost {self.cost[wrong[0]]} of {self.space.decode(self.X[wrong[0]])} cannot "
                "be learnt from: expected a positive number. Leave that evaluation out, or give "
                "what it really used."
            )
        return np.log(self.cost)


class CostModel(Protocol):
    """ln c(x) ~ N(mean, std^2) at points x of the unit cube.

    A model may also have the following members. Farthing uses them where they exist.

        least(X)    (m,) a lower bound of the mean of `log_at(X)` that is cheaper to compute and
                    almost as large; without it the search computes the mean
        left_out()  `Normal` of ln c (n,): each row of the evidence as predicted from the other
                    rows, with the same features and hyperparameters; `AutoCost` needs it
        about       what the model is, in a few words, such as "linear in width, epochs"
        because     why the model is simpler than requested, or why it was chosen; "" by default
    """

    @property
    def memory(self) -> FitMemory | None:
        """What the next fit starts from; plain JSON values."""

    def log_at(self, X: Array) -> Normal:
        """Mean and standard deviation of ln c at X (m, d)."""

    def slopes(self, X: Array) -> Slopes:
        """`log_at` and the gradients (m, d) of its mean and of its standard deviation."""

    def condition(self, x: Array, cost: float) -> CostModel:
        """The model after one more observed cost."""


@runtime_checkable
class Trend(CostModel, Protocol):
    """A cost model of a few coefficients: a curve, and the noise of a cost about it."""

    @property
    def noise(self) -> float:
        """Standard deviation of ln c about the curve."""

    @property
    def optimism(self) -> float:
        """Factor, at least 1, by which selecting features made the residuals too small."""

    def trend(self, X: Array) -> Normal:
        """The curve at X (m, d), with the uncertainty of its coefficients alone."""

    def trend_slopes(self, X: Array) -> Slopes:
        """`trend` with gradients."""

    def moved(self) -> Array:
        """(n, n) the change of the curve at row i if row j of the evidence is left out."""

    def condition(self, x: Array, cost: float) -> Trend:
        """The model after one more observed cost."""


class CostLearner(Protocol):
    """The argument `cost=` of a study: it fits a cost model to the evidence."""

    def fit(self, evidence: Evidence) -> CostModel | None:
        """A model, or None if the evidence is too small for this learner."""


@runtime_checkable
class KnownBeforehand(Protocol):
    """A learner that knows the cost of an evaluation before it runs.

    A trial then does not have to report its cost.
    """

    def price_at(self, space: Space, x: Array, previous: Array | None = None) -> float:
        """The cost of an evaluation at x (d,) after one at `previous`, None for the first."""


@runtime_checkable
class DependsOnPrevious(Protocol):
    """A model whose costs depend on the evaluation before, c(x | previous x).

    A fitted model predicts the evaluation after the last one. `condition(x, cost)` returns a model
    of the evaluation after x.
    """

    def after(self, x: Array) -> CostModel:
        """The model of costs that follow an evaluation at x (d,)."""


# ── optional members ───────────────────────────────────────────────────────────────────────────


def least_of(model: CostModel, X: Array) -> Array:
    """(m,) no larger than the mean of ln c: `model.least(X)`, or the mean itself."""
    least = getattr(model, "least", None)
    return np.asarray(model.log_at(X).mean if least is None else least(X))


def about_of(model: CostModel, default: str) -> str:
    """`model.about`: what the model is, in a few words."""
    return str(getattr(model, "about", default))


def because_of(model: CostModel) -> str:
    """`model.because`: why the model is simpler than requested, or why it was chosen."""
    return str(getattr(model, "because", ""))


# ── noise ──────────────────────────────────────────────────────────────────────────────────────


def with_noise(curve: Normal, noise: float) -> Normal:
    """An observed cost, given the latent curve: std = sqrt(curve.std^2 + noise^2)."""
    return Normal(curve.mean, np.hypot(curve.std, noise))


def with_noise_slopes(slopes: Slopes, noise: float) -> Slopes:
    """`with_noise` with gradients."""
    curve, d_mean, d_std = slopes
    observed = with_noise(curve, noise)
    share = np.divide(
        curve.std, observed.std, where=observed.std > 0, out=np.zeros_like(observed.std)
    )
    return observed, d_mean, d_std * share[:, None]
