"""A Gaussian process whose kernel has an additive part, with priors of its own: an experiment.

    k = v [(1 - a) m(q) + (a/d) sum_j m(sqrt(d) q_j)]

q_j is the distance in coordinate j alone, m the Matern-5/2 kernel with variance 1, and a the share
of the additive part, whose lengthscales are sqrt(d) shorter. `using` puts the process in the place
of `models/gp.py`. The odds a / (1 - a) are stored behind the d lengthscales of `Hyper`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit

from farthing.models import gp, hyperparameters
from farthing.models.gp import GP, VARIANCE_FLOOR, Normal
from farthing.models.hyperparameters import (
    BOTH_STARTS_UP_TO,
    LENGTHSCALE_BOX,
    NOISE_BOX,
    START_NOISE,
    VARIANCE_BOX,
    Hyper,
    factor,
)
from farthing.models.kernel import columns, distances, embed, matern, matern_slopes, pulled

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARE_BOX = (-6.0, 6.0)  # of logit a
NO_SHARE = -30.0  # logit a of a kernel without the additive part


class Priors(NamedTuple):
    """Mean and sd of ln l (without ln(d)/2), ln v, ln noise and logit a (None: a = 0)."""

    lengthscale: tuple[float, float]
    variance: tuple[float, float]
    noise: tuple[float, float]
    share: tuple[float, float] | None


def present(*, noisy: bool, additive: bool) -> Priors:
    """The priors of the library, of costs (noisy) or of objectives."""
    noise = hyperparameters.NOISE_PRIOR if noisy else hyperparameters.NUGGET_PRIOR
    scale = hyperparameters.LENGTHSCALE_PRIOR
    share = (0.0, 1.5) if additive else None
    return Priors((float(scale[0]), float(scale[1])), hyperparameters.VARIANCE_PRIOR, noise, share)


# ── the kernel ─────────────────────────────────────────────────────────────────────────────────


def apart(Z1: Array, Z2: Array, source: Ints) -> Array:
    """(d, m, n): sqrt(d) q_j, the scaled distance in each coordinate."""
    d = int(source[-1]) + 1
    difference = Z1.T[:, :, None] - Z2.T[:, None, :]
    if len(source) == d:
        return np.sqrt(5.0 * d) * np.abs(difference)
    squares = np.add.reduceat(difference**2, np.searchsorted(source, np.arange(d)), axis=0)
    return np.asarray(np.sqrt(5.0 * d * squares))


def kernel(Z1: Array, Z2: Array, source: Ints, variance: float, share: float) -> Array:
    """(m, n)."""
    k = matern(distances(Z1, Z2), variance * (1.0 - share))
    Q = apart(Z1, Z2, source)
    return np.asarray(k + matern(Q, variance * share / len(Q)).sum(axis=0))


def kernel_slopes(
    Z1: Array, Z2: Array, source: Ints, variance: float, share: float
) -> tuple[Array, Array, Array]:
    """k, and s (m, n) and s_j (d, m, n) with dk/dz_j = -(s + s_j) (z_j - z'_j)."""
    k, slope = matern_slopes(distances(Z1, Z2), variance * (1.0 - share))
    Q = apart(Z1, Z2, source)
    parts, slopes = matern_slopes(Q, variance * share / len(Q))
    slopes *= len(Q)
    return k + parts.sum(axis=0), slope, slopes


@dataclass(frozen=True)
class AdditiveGP(GP):
    """A posterior with this kernel; it needs a `Hyper` with the odds of a."""

    @property
    def lengthscales(self) -> Array:
        """(d,)."""
        return self.hyper.lengthscales[:-1]

    @property
    def share(self) -> float:
        """a."""
        odds = float(self.hyper.lengthscales[-1])
        return odds / (1.0 + odds)

    def _kernel(self, Z1: Array, Z2: Array) -> Array:
        return kernel(Z1, Z2, columns(self.options), self.variance, self.share)

    def at(self, X: Array) -> Normal:
        """As in GP."""
        k = self._kernel(self.embedded(X), self._Z)
        half = self._half(k)
        return self._answer(X, k @ self._A, self.variance - np.einsum("ij,ij->i", half, half))

    def at_best(self, X: Array) -> Normal:
        """Not a bound, but `at` itself."""
        return self.at(X)

    def least(self, X: Array) -> Array:
        """The mean itself."""
        return self.at(X).mean

    def slopes(self, X: Array) -> tuple[Normal, Array, Array]:
        """As in GP."""
        Z, source = self.embedded(X), columns(self.options)
        k, slope, slopes = kernel_slopes(Z, self._Z, source, self.variance, self.share)
        half = self._half(k)
        normal = self._answer(X, k @ self._A, self.variance - np.einsum("ij,ij->i", half, half))
        f = self._A.shape[1]
        weights = np.empty((f + 1, *k.shape))
        weights[:f] = self._A.T[:, None, :]
        np.matmul(half, self._L_inverse, out=weights[f])
        z, centres = self.to_cube(Z), self._centres
        gradients = pulled(weights * slope, z, centres)
        steps = centres.T[:, None, :] - z.T[:, :, None]  # (d, m, n)
        steps *= slopes
        gradients += np.einsum("fmn,dmn->fmd", weights, steps, optimize=True)
        d_std = gradients[f] * (-self.scale / (normal.std / self.scale))[:, None]
        return normal, self.scale * gradients[:f].transpose(1, 2, 0), d_std

    def standard_covariance(self, X: Array) -> Array:
        """As in GP."""
        Z = self.embedded(X)
        half = solve_triangular(self.L, self._kernel(Z, self._Z).T, lower=True, check_finite=False)
        return np.asarray(self._kernel(Z, Z) - half.T @ half)

    def condition_all(self, X: Array, Y: Array) -> GP:
        """As in GP."""
        Z = self.embedded(X)
        B = solve_triangular(self.L, self._kernel(Z, self._Z).T, lower=True, check_finite=False)
        rest = self._kernel(Z, Z)
        np.fill_diagonal(rest, self.variance + self.noise)
        corner = gp._root(rest - B.T @ B, VARIANCE_FLOOR * self.variance)
        L = np.block([[self.L, np.zeros(B.shape)], [B.T, corner]])
        targets = np.broadcast_to((Y - self.shift) / self.scale, (len(X), np.shape(Y)[1]))
        f = max(targets.shape[1], self.targets.shape[1])
        rows = [np.broadcast_to(part, (len(part), f)) for part in (self.targets, targets)]
        return replace(
            self,
            X=np.vstack([self.X, X]),
            targets=np.vstack(rows),
            L=np.asfortranarray(L),
        )


def posterior(
    X: Array,
    targets: Array,
    hyper: Hyper,
    *,
    options: Ints,
    shift: float,
    scale: float,
    extra: Array | float = 0.0,
    prior: None = None,
) -> GP:
    """As `gp._posterior`, without a prior mean."""
    made = AdditiveGP(X, targets, options, hyper, shift, scale, np.eye(0))
    Z = made.embedded(X)
    K = made._kernel(Z, Z)
    np.fill_diagonal(K, hyper.variance + hyper.noise + extra)
    L = factor(K, hyper.variance)
    if hyper.mean is None:
        hyper = hyper._replace(mean=gp._generalised_mean(L, targets))
    return AdditiveGP(X, targets, options, hyper, shift, scale, L)


# ── hyperparameters ────────────────────────────────────────────────────────────────────────────


def learnt(
    X: Array,
    targets: Array,
    options: Ints,
    *,
    noisy: bool,
    start: Hyper | None,
    extra: Array | float = 0.0,
    objective: Priors,
    cost: Priors,
) -> Hyper:
    """As `hyperparameters.learnt`, over (ln l, logit a, ln v, ln noise); costs are the noisy."""
    d, priors = X.shape[1], cost if noisy else objective
    share = (NO_SHARE, NO_SHARE) if priors.share is None else SHARE_BOX
    box: Array = np.array([LENGTHSCALE_BOX] * d + [share, VARIANCE_BOX, NOISE_BOX])
    starts = []
    if start is not None:
        noise = max(start.noise, START_NOISE)
        starts.append(np.log([*start.lengthscales, start.variance, noise]))
    if start is None or len(X) <= BOTH_STARTS_UP_TO:
        mean, sd = priors.lengthscale
        middle = priors.share[0] if priors.share else NO_SHARE
        mode = mean + 0.5 * np.log(d) - sd**2
        starts.append(np.array([*[mode] * d, middle, 0.0, np.log(START_NOISE)]))
    E, source = embed(X, options), columns(options)
    results = [
        minimize(
            negative_posterior,
            np.clip(first, box[:, 0], box[:, 1]),
            args=(E, source, targets, priors, extra),
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            options={"maxiter": 60, "ftol": 1e-6, "gtol": 1e-3},
        )
        for first in starts
    ]
    theta = np.exp(min(results, key=lambda result: float(result.fun)).x)
    return Hyper(theta[: d + 1], float(theta[d + 1]), float(theta[d + 2]))


def negative_posterior(
    theta: Array,
    E: Array,
    source: Ints,
    targets: Array,
    priors: Priors,
    extra: Array | float = 0.0,
) -> tuple[float, Array]:
    """-ln p(y | theta) - ln p(theta) and its gradient, as in `hyperparameters`.

    dK/d ln l_j = s (z_j - z'_j)^2 + s_j q_j^2 / 5, and dK/d logit a = (1 - a) additive part -
    a other part, of which K is the sum.
    """
    n, d = len(E), len(theta) - 3
    share, variance, noise = float(expit(theta[d])), *map(float, np.exp(theta[d + 1 :]))
    Z = E * np.exp(-theta[:d])[source]
    whole, slope = matern_slopes(distances(Z, Z), variance * (1.0 - share))
    Q = apart(Z, Z, source)
    parts, slopes = matern_slopes(Q, variance * share / d)
    added = parts.sum(axis=0)
    K = whole + added
    np.fill_diagonal(K, variance + noise + extra)
    L = factor(K, variance)
    inverse, _ = lapack.dpotri(L, lower=1)
    inverse += np.tril(inverse, -1).T
    ones = inverse.sum(0)
    residual = targets - float(ones @ targets / ones.sum())
    a = inverse @ residual
    value = 0.5 * residual @ a + np.log(np.diag(L)).sum() + 0.5 * n * np.log(2.0 * np.pi)
    pull = np.multiply.outer(a, a) - inverse
    diagonal = np.diag(pull).copy()
    P = pull * slope
    squares = 2.0 * (np.einsum("ij,ij,i->j", Z, Z, P.sum(0)) - (Z * (P @ Z)).sum(0))
    gradient = np.empty(d + 3)
    gradient[:d] = np.bincount(source, squares, minlength=d)
    gradient[:d] += np.einsum("ij,kij->k", pull, slopes * Q * Q) / 5.0
    gradient[d] = np.sum(pull * ((1.0 - share) * added - share * whole))
    gradient[d + 1] = residual @ a - n - float(np.sum((noise + extra) * diagonal))
    gradient[d + 2] = noise * float(diagonal.sum())
    prior, d_prior = _log_prior(theta, d, priors)
    return float(value - prior), -0.5 * gradient - d_prior


def _log_prior(theta: Array, d: int, priors: Priors) -> tuple[float, Array]:
    """Log-normal densities in l, v and noise, and a normal density in logit a."""
    share = priors.share or (NO_SHARE, 1.0)
    mean, sd = priors.lengthscale
    pairs = [(mean + 0.5 * np.log(d), sd)] * d + [share, priors.variance, priors.noise]
    means, sds = np.array(pairs).T
    jacobian = np.ones(d + 3)
    jacobian[d] = 0.0
    u = (theta - means) / sds
    value = -jacobian * theta - np.log(sds) - 0.5 * np.log(2.0 * np.pi) - 0.5 * u * u
    return float(value.sum()), -jacobian - u / sds


def using(objective: Priors, cost: Priors) -> AbstractContextManager[Any]:
    """While it lasts, every process that the library fits has this kernel and these priors."""
    learn = partial(learnt, objective=objective, cost=cost)
    return patch.multiple(gp, _posterior=posterior, learnt=learn)
