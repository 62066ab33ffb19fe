"""The warped cost model: a Gaussian process on ln c (Lee et al. 2020, section 3).

    ln c(x) ~ GP, so c(x) is log-normal and never negative.

An evaluation that was killed tells only that ln c > b. Its place in the fit is taken by
E[ln c | ln c > b] = m + s phi(a) / (1 - Phi(a)), a = (b - m)/s, under the model of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from farthing.cost.model import Evidence
from farthing.gp import GP, Memory, Normal, fit, refit
from farthing.normal import LOG_SQRT_2PI

__all__ = ["LogGP"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _LogGPCost:
    """A fitted `LogGP`; its spread includes the noise of the bill, not only of the model."""

    gp: GP
    memory: Memory | None

    @property
    def _noise(self) -> float:
        return self.gp.noise * self.gp.scale**2

    def _bill(self, latent: Normal) -> Normal:
        """The one column of the process, with the noise."""
        return Normal(latent.mean[:, 0], np.sqrt(latent.std**2 + self._noise))

    def log_at(self, X: Array) -> Normal:
        return self._bill(self.gp.at(X))

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        latent, d_mean, d_std = self.gp.slopes(X)
        bill = self._bill(latent)
        return bill, d_mean[:, :, 0], d_std * (latent.std / bill.std)[:, None]

    def condition(self, x: Array, cost: float) -> _LogGPCost:
        return replace(self, gp=self.gp.condition(x, np.log(cost)))


@dataclass(frozen=True)
class LogGP:
    """Learn ln c with a Gaussian process."""

    def fit(self, evidence: Evidence) -> _LogGPCost | None:
        """A model of ln c, or None while fewer than two costs are known."""
        space, X, cost, at_least, memory, *_ = evidence
        if len(cost) < 2:
            return None
        log_cost = np.log(cost)
        options = space.options
        exact = ~at_least if (~at_least).sum() >= 2 else np.ones_like(at_least)
        # Noisy: the same evaluation hardly ever costs the same twice.
        gp, memory = refit(
            X[exact], log_cost[exact], memory, options=options, noisy=True, clip=False
        )
        model = _LogGPCost(gp, memory)
        if exact.all():
            return model
        mean, std = model.log_at(X[~exact])
        a = (log_cost[~exact] - mean) / std
        guess = mean + std * np.exp(-0.5 * a * a - LOG_SQRT_2PI - log_ndtr(-a))
        log_cost = log_cost.copy()
        log_cost[~exact] = np.maximum(guess, log_cost[~exact])
        # Guesses take their place in the posterior, but nothing is learnt from them.
        gp = fit(X, log_cost, options=options, clip=False, start=gp.hyper, learn=False)
        return _LogGPCost(gp, memory)
