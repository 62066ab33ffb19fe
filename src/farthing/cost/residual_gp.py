"""A Gaussian process on what a low-variance model leaves (Guinet et al. 2020, GP-LV).

Lee et al. 2020 draw it in figure 9.

    ln c(x) = trend(x) + r(x),  r ~ GP fitted to ln c_i - trend(x_i)
    var     = var r(x) + the variance of the trend's coefficients + the noise of a bill

Two stages, both in logs: the second would make the variance of the trend too small by itself, so
that of its coefficients is added. Away from the data it is the trend, where a process on ln c goes
back to the average.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost.linear import Linear
from farthing.cost.model import (
    Evidence,
    Explained,
    Slopes,
    Trend,
    TrendLearner,
    billed,
    billed_slopes,
)
from farthing.models.censored import fit_censored
from farthing.models.gp import GP, FitMemory, Normal

__all__ = ["ResidualGP"]

Array = NDArray[np.float64]

AT_LEAST = 3  # costs: of fewer a process on what is left would learn nothing


@dataclass(frozen=True)
class _ResidualGPCost:
    """A fitted `ResidualGP`."""

    curve: Trend
    gp: GP  # on the residuals
    memory: FitMemory | None
    X: Array  # (n, d) of all the evidence
    rows: NDArray[np.int64]  # those that the process holds

    @property
    def because(self) -> str:
        return self.curve.because if isinstance(self.curve, Explained) else ""

    @property
    def about(self) -> str:
        below = self.curve.about if isinstance(self.curve, Explained) else "a curve"
        return f"{below}, and a Gaussian process on the rest"

    @property
    def noise(self) -> float:
        """Standard deviation of a bill about the curve and the process."""
        return self.curve.optimism * float(np.sqrt(self.gp.noise) * self.gp.scale)

    def log_at(self, X: Array) -> Normal:
        below, (mean, std) = self.curve.trend(X), self.gp.at(X)
        spread = np.hypot(below.std, self.curve.optimism * std)
        return billed(Normal(below.mean + mean[:, 0], spread), self.noise)

    def slopes(self, X: Array) -> Slopes:
        below, d_below, d_below_std = self.curve.trend_slopes(X)
        (mean, std), d_mean, d_std = self.gp.slopes(X)
        std, d_std = self.curve.optimism * std, self.curve.optimism * d_std
        total = Normal(below.mean + mean[:, 0], np.hypot(below.std, std))
        both = d_below_std * below.std[:, None] + d_std * std[:, None]
        return billed_slopes(
            (total, d_below + d_mean[:, :, 0], both / total.std[:, None]), self.noise
        )

    def left_out(self) -> Normal:
        """Both stages without the row: what the curve then leaves of the others is another."""
        mean, std = self.log_at(self.X)
        below, rows, held = self.curve.trend(self.X), self.rows, len(self.rows)
        if len(self.gp.X) == held:
            rest = self.gp.left_out(self.curve.moved()[np.ix_(rows, rows)])
            mean[rows] = below.mean[rows] + rest.mean
            std[rows] = np.hypot(below.std[rows], rest.std)
        return Normal(mean, std)

    def condition(self, x: Array, cost: float) -> _ResidualGPCost:
        rest = np.log(cost) - self.curve.trend(np.atleast_2d(x)).mean
        return replace(self, gp=self.gp.condition(x, rest))


@dataclass(frozen=True)
class ResidualGP:
    """Learn ln c as a low-variance curve and a Gaussian process on what it leaves.

    Attributes:
        of: the learner of the curve: `Linear()`, `Flops(...)` or `Transfer(...)`.
    """

    of: TrendLearner = Linear()

    def fit(self, evidence: Evidence) -> _ResidualGPCost | Trend | None:
        """A model of ln c; the curve alone while fewer than three costs are known."""
        curve = self.of.fit(evidence)
        if curve is None or len(evidence.cost) < AT_LEAST:
            return curve
        rest = evidence.log_cost() - curve.trend(evidence.X).mean
        gp, memory, rows = fit_censored(
            evidence.X,
            rest,
            evidence.at_least,
            evidence.memory,
            options=evidence.space.options,
            seldom=evidence.seldom,
        )
        return _ResidualGPCost(curve, gp, memory, evidence.X, rows)
