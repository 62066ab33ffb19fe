"""A Gaussian process on values of which some are only lower bounds.

    t = f(x) + e,  e ~ N(0, noise)                         exact rows: t is observed
    P(t > low | f) = Phi((f - low) / sqrt(noise))          censored rows: only t > low is observed

Expectation propagation (Minka 2001; Rasmussen and Williams 2006, section 3.6) replaces each
censored row by a normal site. With the cavity N(m, v) of the other rows,
z = (m - low) / sqrt(noise + v) and h = phi(z) / Phi(z),

    target   = m + sqrt(noise + v) / (z + h)
    variance = (noise + v) / (h (z + h)) - v,  at least the noise.

With one censored row this gives the exact posterior mean and variance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.models.gp import GP, FitMemory, Hyper, fit, is_due, kept, refit
from farthing.models.regression import hazard

__all__ = ["Censored", "fit_censored", "sites"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

FAINT = 1e6  # noise variance, relative to var(y), that removes a row from the fit
STEPS = 100
DAMPING = 0.8
CONVERGED = 1e-7  # change of a site's effect on the mean, in standard deviations
TAIL = 1e4  # below -TAIL, z + h = 1/|z| to half of the digits


def sites(mean: Array, covariance: Array, noise: float, low: Array) -> tuple[Array, Array]:
    """Targets and variances (k,) of the sites for t > low, if f ~ N(mean, covariance)."""
    k = len(low)
    precision, shifted = np.zeros(k), np.zeros(k)  # sites: 1/variance, target/variance
    target, variance = mean.copy(), np.full(k, np.inf)
    for _ in range(STEPS):
        S = np.linalg.solve(np.eye(k) + covariance * precision, covariance)
        m = mean + S @ (shifted - precision * mean)
        v = np.maximum(np.diag(S), 1e-12 * np.diag(covariance))
        cavity = 1.0 / np.maximum(1.0 / v - precision, 1e-12 / np.diag(covariance))
        centre = cavity * (m / v - shifted)
        root = np.sqrt(noise + cavity)
        z = (centre - low) / root
        h = hazard(-z)
        gap = np.where(z < -TAIL, 1.0 / np.maximum(-z, 1.0), z + h)
        target = centre + root / gap
        with np.errstate(divide="ignore", over="ignore"):
            variance = np.maximum(root**2 / (h * gap) - cavity, noise)
        new_precision = 1.0 / variance
        new_shifted = np.where(np.isfinite(variance), target, 0.0) * new_precision
        moved = np.abs(new_shifted - shifted - (new_precision - precision) * m) * np.sqrt(v)
        precision = precision + DAMPING * (new_precision - precision)
        shifted = shifted + DAMPING * (new_shifted - shifted)
        if moved.max() < CONVERGED:
            break
    return target, variance


class Censored(NamedTuple):
    """A posterior, the memory for the next fit, and the rows that the posterior uses."""

    gp: GP
    memory: FitMemory
    rows: NDArray[np.int64]


def fit_censored(
    X: Array,
    y: Array,
    at_least: Bools,
    memory: FitMemory | None,
    *,
    options: NDArray[np.int64],
    seldom: bool = False,
) -> Censored:
    """`gp.refit` of noisy values without clipping; y is a lower bound where `at_least`.

    The sites of censored rows enter the fit of the hyperparameters, and are then computed again.
    With fewer than two exact rows, the bounds count as observed values.
    """
    if not at_least.any() or (~at_least).sum() < 2:
        gp, memory = refit(X, y, memory, options=options, noisy=True, clip=False, seldom=seldom)
        return Censored(gp, memory, kept(y, seldom=seldom))
    faint = np.where(at_least, FAINT * max(float(np.var(y)), 1.0), 0.0)
    hyper = None if memory is None else Hyper.from_list(memory["hyper"])

    def fitted(values: Array, extra: Array, start: Hyper | None, *, learn: bool) -> GP:
        return fit(
            X,
            values,
            options=options,
            noisy=True,
            clip=False,
            start=start,
            learn=learn,
            extra=extra,
            seldom=seldom,
        )

    def replaced(values: Array, start: Hyper | None) -> tuple[Hyper, Array, Array]:
        """Hyperparameters, and targets and extra variances of all rows, given the exact rows."""
        exact = fitted(values, faint, start, learn=start is None)
        where = X[at_least]
        noise = exact.noise * exact.scale**2
        mean = exact.at(where).mean[:, 0]
        target, variance = sites(mean, exact.covariance(where), noise, y[at_least])
        values, extra = y.copy(), np.zeros(len(y))
        values[at_least] = target
        extra[at_least] = np.minimum(variance - noise, faint[at_least])
        return exact.hyper, values, extra

    hyper, values, extra = replaced(y, hyper)
    if memory is None or is_due(memory, len(y), seldom=seldom):
        hyper = fitted(values, extra, hyper, learn=True).hyper
        memory = {"hyper": hyper.to_list(), "n": len(y)}
        hyper, values, extra = replaced(values, hyper)
    return Censored(fitted(values, extra, hyper, learn=False), memory, kept(values, seldom=seldom))
