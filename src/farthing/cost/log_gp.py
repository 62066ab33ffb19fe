"""The warped cost model: a Gaussian process on ln c (Lee et al. 2020, section 3).

    ln c(x) ~ GP, so c(x) is log-normal and never negative.

A cost known only from below is a censored row (censored.py). Where all bills are the same, so is
the next: a spread that nothing has shown would leave the last evaluation of a budget unspent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.cost.model import Evidence, Slopes, billed, billed_slopes
from farthing.models.censored import fit_censored
from farthing.models.gp import GP, FitMemory, Normal

__all__ = ["LogGP"]

Array = NDArray[np.float64]

ALIKE = 3  # bills that tell so


@dataclass(frozen=True)
class _LogGPCost:
    """A fitted `LogGP`; its spread includes the noise of the bill, not only of the model."""

    gp: GP
    memory: FitMemory | None
    X: Array  # (n, d) of all the evidence
    rows: NDArray[np.int64]  # those that the process holds
    constant: bool = False  # whether all bills are the same
    because: str = ""
    about: str = "a Gaussian process on ln c"

    @property
    def noise(self) -> float:
        """Standard deviation of a bill about the curve."""
        return float(np.sqrt(self.gp.noise) * self.gp.scale)

    def log_at(self, X: Array) -> Normal:
        mean, std = self.gp.at(X)
        if self.constant:
            return Normal(mean[:, 0], np.zeros_like(std))
        return billed(Normal(mean[:, 0], std), self.noise)

    def least(self, X: Array) -> Array:
        return self.gp.least(X)[:, 0]

    def slopes(self, X: Array) -> Slopes:
        (mean, std), d_mean, d_std = self.gp.slopes(X)
        if self.constant:
            return Normal(mean[:, 0], np.zeros_like(std)), d_mean[:, :, 0], np.zeros_like(d_std)
        return billed_slopes((Normal(mean[:, 0], std), d_mean[:, :, 0], d_std), self.noise)

    def left_out(self) -> Normal:
        mean, std = self.log_at(self.X)  # right for the rows beyond what a process uses
        held = len(self.rows)
        mean[self.rows], std[self.rows] = (part[:held] for part in self.gp.left_out())
        return Normal(mean, std)

    def condition(self, x: Array, cost: float) -> _LogGPCost:
        constant = self.constant and bool(np.isclose(np.log(cost), self.gp.at(x[None]).mean))
        return replace(self, gp=self.gp.condition(x, np.log(cost)), constant=constant)


@dataclass(frozen=True)
class LogGP:
    """Learn ln c with a Gaussian process."""

    def fit(self, evidence: Evidence) -> _LogGPCost | None:
        """A model of ln c, or None while fewer than two costs are known."""
        space, X, cost, at_least, memory, *_ = evidence
        log_cost = evidence.log_cost()
        if len(log_cost) < 2:
            return None
        # Noisy: the same evaluation hardly ever costs the same twice.
        gp, memory, rows = fit_censored(
            X, log_cost, at_least, memory, options=space.options, seldom=evidence.seldom
        )
        constant = len(X) >= ALIKE and not at_least.any() and bool((cost == cost[0]).all())
        return _LogGPCost(gp, memory, X, rows, constant)
