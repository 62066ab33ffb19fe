"""A Gaussian process on the residuals of a low-variance model (Guinet et al. 2020, GP-LV).

Figure 9 of Lee et al. 2020 shows such a model.

    ln c(x) = trend(x) + r(x),  r ~ GP fitted to ln c_i - trend(x_i)
    var     = var r(x) + variance of the trend's coefficients + noise of an observed cost

Both stages work on ln c. The process alone would ignore that the trend is uncertain, so the
variance of its coefficients is added. Far from the data the prediction is the trend; a process on
ln c would return to the average there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost.linear import Linear
from farthing.cost.model import (
    CostLearner,
    CostModel,
    Evidence,
    Slopes,
    Trend,
    about_of,
    because_of,
    with_noise,
    with_noise_slopes,
)
from farthing.errors import InvalidInput
from farthing.models.censored import fit_censored
from farthing.models.gp import GP, FitMemory, Normal

__all__ = ["ResidualGP"]

Array = NDArray[np.float64]

MIN_COSTS = 3  # with fewer there is nothing to learn from the residuals


@dataclass(frozen=True)
class _ResidualGPCost:
    """A fitted `ResidualGP`."""

    curve: Trend
    gp: GP  # on the residuals
    memory: FitMemory | None
    X: Array  # (n, d) of all the evidence
    rows: NDArray[np.int64]  # the rows of X that the process uses

    @property
    def because(self) -> str:
        return because_of(self.curve)

    @property
    def about(self) -> str:
        return f"{about_of(self.curve, 'a trend')}, and a Gaussian process on the residuals"

    @property
    def noise(self) -> float:
        """Standard deviation of ln c about the sum of trend and process."""
        return self.curve.optimism * float(np.sqrt(self.gp.noise) * self.gp.scale)

    def log_at(self, X: Array) -> Normal:
        below, (mean, std) = self.curve.trend(X), self.gp.at(X)
        spread = np.hypot(below.std, self.curve.optimism * std)
        return with_noise(Normal(below.mean + mean[:, 0], spread), self.noise)

    def slopes(self, X: Array) -> Slopes:
        below, d_below, d_below_std = self.curve.trend_slopes(X)
        (mean, std), d_mean, d_std = self.gp.slopes(X)
        std, d_std = self.curve.optimism * std, self.curve.optimism * d_std
        total = Normal(below.mean + mean[:, 0], np.hypot(below.std, std))
        both = d_below_std * below.std[:, None] + d_std * std[:, None]
        return with_noise_slopes(
            (total, d_below + d_mean[:, :, 0], both / total.std[:, None]), self.noise
        )

    def left_out(self) -> Normal:
        """Both stages without each row: the trend of the others, and so their residuals, change."""
        mean, std = self.log_at(self.X)
        below, rows, used = self.curve.trend(self.X), self.rows, len(self.rows)
        if len(self.gp.X) == used:
            rest = self.gp.left_out(self.curve.moved()[np.ix_(rows, rows)])
            mean[rows] = below.mean[rows] + rest.mean
            std[rows] = np.hypot(below.std[rows], rest.std)
        return Normal(mean, std)

    def condition(self, x: Array, cost: float) -> _ResidualGPCost:
        residual = np.log(cost) - self.curve.trend(np.atleast_2d(x)).mean
        return replace(self, gp=self.gp.condition(x, residual))


@dataclass(frozen=True)
class ResidualGP:
    """Learn ln c as a low-variance trend and a Gaussian process on its residuals.

    Attributes:
        of: the learner of the trend: `Linear()`, `Flops(...)` or `Transfer(...)`.
    """

    of: CostLearner = Linear()

    def fit(self, evidence: Evidence) -> CostModel | None:
        """A model of ln c; the trend alone with fewer than three costs."""
        curve = self.of.fit(evidence)
        if curve is None or len(evidence.cost) < MIN_COSTS:
            return curve
        if not isinstance(curve, Trend):
            raise InvalidInput(
                f"ResidualGP(of={self.of!r}): its model has no trend. Use a learner whose model "
                "follows the interface Trend, such as Linear(), Flops(...) or Transfer(...)."
            )
        residual = evidence.log_cost() - curve.trend(evidence.X).mean
        gp, memory, rows = fit_censored(
            evidence.X,
            residual,
            evidence.at_least,
            evidence.memory,
            options=evidence.space.options,
            seldom=evidence.seldom,
        )
        return _ResidualGPCost(curve, gp, memory, evidence.X, rows)
