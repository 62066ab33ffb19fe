"""The warped cost model: a Gaussian process on ln c (Lee et al. 2020, section 3).

    ln c(x) ~ GP, so c(x) is log-normal and never negative.

A lower bound (a killed trial) is a censored row (censored.py). If all costs are equal, the model
predicts the same cost without spread. A spread would leave the last evaluation of a budget unspent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import Evidence, Slopes, with_noise, with_noise_slopes
from farthing.models.censored import fit_censored
from farthing.models.gp import GP, FitMemory, Normal

__all__ = ["LogGP"]

Array = NDArray[np.float64]

MIN_EQUAL = 3  # equal costs from which the model is a constant


@dataclass(frozen=True)
class _LogGPCost:
    """A fitted `LogGP`; its std includes the noise of an observed cost."""

    gp: GP
    memory: FitMemory | None
    X: Array  # (n, d) of all the evidence
    rows: NDArray[np.int64]  # the rows of X that the process uses
    constant: bool = False  # whether all costs are equal
    because: str = ""
    about: str = "a Gaussian process on ln c"

    @property
    def noise(self) -> float:
        """Standard deviation of ln c about the latent function."""
        return float(np.sqrt(self.gp.noise) * self.gp.scale)

    def log_at(self, X: Array) -> Normal:
        mean, std = self.gp.at(X)
        if self.constant:
            return Normal(mean[:, 0], np.zeros_like(std))
        return with_noise(Normal(mean[:, 0], std), self.noise)

    def least(self, X: Array) -> Array:
        return self.gp.least(X)[:, 0]

    def slopes(self, X: Array) -> Slopes:
        (mean, std), d_mean, d_std = self.gp.slopes(X)
        if self.constant:
            return Normal(mean[:, 0], np.zeros_like(std)), d_mean[:, :, 0], np.zeros_like(d_std)
        return with_noise_slopes((Normal(mean[:, 0], std), d_mean[:, :, 0], d_std), self.noise)

    def left_out(self) -> Normal:
        mean, std = self.log_at(self.X)  # exact for the rows that the process does not use
        used = len(self.rows)
        mean[self.rows], std[self.rows] = (part[:used] for part in self.gp.left_out())
        return Normal(mean, std)

    def condition(self, x: Array, cost: float) -> _LogGPCost:
        constant = self.constant and bool(np.isclose(np.log(cost), self.gp.at(x[None]).mean))
        return replace(self, gp=self.gp.condition(x, np.log(cost)), constant=constant)


@dataclass(frozen=True)
class LogGP:
    """Learn ln c with a Gaussian process."""

    def fit(self, evidence: Evidence) -> _LogGPCost | None:
        """A model of ln c, or None with fewer than two costs."""
        space, X, cost, at_least, memory, *_ = evidence
        log_cost = evidence.log_cost()
        if len(log_cost) < 2:
            return None
        # Noisy: repeated evaluations of one configuration rarely cost the same.
        gp, memory, rows = fit_censored(
            X, log_cost, at_least, memory, options=space.options, seldom=evidence.seldom
        )
        constant = len(X) >= MIN_EQUAL and not at_least.any() and bool((cost == cost[0]).all())
        return _LogGPCost(gp, memory, X, rows, constant)
