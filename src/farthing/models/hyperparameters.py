"""The hyperparameters of a Gaussian process and their maximum a posteriori estimate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import minimize

from farthing.models.kernel import columns, distances, embed, matern_slopes

__all__ = ["Hyper", "factor", "learnt", "negative_posterior"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# Mean (without ln(d)/2) and sd of ln l (Hvarfner et al. 2024, with BoTorch's constants).
LENGTHSCALE_PRIOR = (np.sqrt(2.0), np.sqrt(3.0))
VARIANCE_PRIOR = (0.0, 1.0)  # mean and sd of ln v, for standardised targets
NOISE_PRIOR = (-4.0, 1.0)  # of ln noise if the objective is noisy, as in BoTorch
NUGGET_PRIOR = (-5.0, 1.5)  # if it is not: roughness that the kernel lacks (docs/decisions.md)
LENGTHSCALE_BOX = (np.log(0.02), np.log(300.0))
VARIANCE_BOX = (np.log(0.02), np.log(100.0))
NOISE_BOX = (np.log(1e-6), np.log(2.0))
JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)  # relative to v
START_NOISE = 1e-3
BOTH_STARTS_UP_TO = 15  # rows up to which L-BFGS also starts from the default


class Hyper(NamedTuple):
    """Hyperparameters of standardised targets; `mean=None` selects the least-squares estimate."""

    lengthscales: Array  # (d,)
    variance: float
    noise: float
    mean: float | None = None

    def to_list(self) -> list[float]:
        """Plain numbers, for storing with a trial."""
        return [*map(float, self.lengthscales), float(self.variance), float(self.noise)]

    @staticmethod
    def from_list(numbers: list[float]) -> Hyper:
        """The inverse of `to_list`."""
        return Hyper(np.asarray(numbers[:-2]), numbers[-2], numbers[-1])


def factor(K: Array, variance: float) -> Array:
    """Lower Cholesky factor of K, with the smallest jitter that makes it positive definite."""
    for jitter in JITTERS:
        if jitter:
            K = K + jitter * variance * np.eye(len(K))
        L, info = lapack.dpotrf(K, lower=1, clean=1)
        if info == 0:
            return np.asarray(L)
    raise np.linalg.LinAlgError(f"a {len(K)} x {len(K)} kernel matrix is not positive definite")


# ── the posterior ──────────────────────────────────────────────────────────────────────────────


def _default_start(d: int) -> Array:
    mean, sd = LENGTHSCALE_PRIOR
    mode = mean + 0.5 * np.log(d) - sd**2  # mode of the density in l, not in ln l
    return np.concatenate([np.full(d, mode), [0.0, np.log(START_NOISE)]])


def learnt(
    X: Array,
    targets: Array,
    options: Ints,
    *,
    noisy: bool,
    start: Hyper | None,
    extra: Array | float = 0.0,
) -> Hyper:
    """Maximise likelihood x prior over (ln l, ln v, ln noise): the best L-BFGS-B run."""
    d = X.shape[1]
    noise_prior = NOISE_PRIOR if noisy else NUGGET_PRIOR
    box: Array = np.array([LENGTHSCALE_BOX] * d + [VARIANCE_BOX, NOISE_BOX])
    starts = []
    if start is not None:
        noise = max(start.noise, START_NOISE)  # at its lower bound the gradient vanishes
        starts.append(np.log([*start.lengthscales, start.variance, noise]))
    if start is None or len(X) <= BOTH_STARTS_UP_TO:
        starts.append(_default_start(d))
    E = embed(X, options)
    source = columns(options)

    def loss(theta: Array) -> tuple[float, Array]:
        return negative_posterior(theta, E, source, targets, noise_prior, extra)

    results = [
        minimize(
            loss,
            np.clip(first, box[:, 0], box[:, 1]),
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            options={"maxiter": 60, "ftol": 1e-6, "gtol": 1e-3},
        )
        for first in starts
    ]
    theta = np.exp(min(results, key=lambda result: float(result.fun)).x)
    return Hyper(theta[:d], float(theta[d]), float(theta[d + 1]))


def negative_posterior(
    theta: Array,
    E: Array,
    source: Ints,
    targets: Array,
    noise_prior: tuple[float, float],
    extra: Array | float = 0.0,
) -> tuple[float, Array]:
    """-ln p(y | theta) - ln p(theta) and its gradient, with the constant mean profiled out.

    Rasmussen and Williams 2006, eq. 5.8 and 5.9.
    With r = y - mean, a = K^-1 r:  -ln p = r'a/2 + sum ln L_ii + n/2 ln 2 pi,
    d(-ln p) = -tr((a a' - K^-1) dK)/2,  dK/d ln l_j = s (z_j - z'_j)^2.
    """
    n, d = len(E), len(theta) - 2
    variance, noise = float(np.exp(theta[d])), float(np.exp(theta[d + 1]))
    Z = E * np.exp(-theta[:d])[source]
    K, slope = matern_slopes(distances(Z, Z), variance)
    np.fill_diagonal(K, variance + noise + extra)
    L = factor(K, variance)
    inverse, _ = lapack.dpotri(L, lower=1)
    inverse += np.tril(inverse, -1).T
    ones = inverse.sum(0)
    mean = float(ones @ targets / ones.sum())
    residual = targets - mean
    a = inverse @ residual
    value = 0.5 * residual @ a + np.log(np.diag(L)).sum() + 0.5 * n * np.log(2.0 * np.pi)
    pull = np.multiply.outer(a, a)
    pull -= inverse
    diagonal = np.diag(pull).copy()
    pull *= slope
    # sum_ij P_ij (z_i - z_j)^2 = 2 sum_i z_i^2 (P 1)_i - 2 sum_i z_i (P z)_i
    squares = 2.0 * (np.einsum("ij,ij,i->j", Z, Z, pull.sum(0)) - (Z * (pull @ Z)).sum(0))
    gradient = np.empty(d + 2)
    gradient[:d] = -0.5 * np.bincount(source, squares, minlength=d)
    gradient[d] = -0.5 * (residual @ a - n - float(np.sum((noise + extra) * diagonal)))
    gradient[d + 1] = -0.5 * noise * float(diagonal.sum())
    prior, d_prior = _log_prior(theta, d, noise_prior)
    return float(value - prior), gradient - d_prior


def _log_prior(theta: Array, d: int, noise_prior: tuple[float, float]) -> tuple[float, Array]:
    """ln p(l, v, noise) and its gradient: log-normal densities in l, as in BoTorch, not in ln l."""
    mean, sd = LENGTHSCALE_PRIOR
    means = np.concatenate(
        [np.full(d, mean + 0.5 * np.log(d)), [VARIANCE_PRIOR[0], noise_prior[0]]]
    )
    sds = np.concatenate([np.full(d, sd), [VARIANCE_PRIOR[1], noise_prior[1]]])
    u = (theta - means) / sds
    value = -theta - np.log(sds) - 0.5 * np.log(2.0 * np.pi) - 0.5 * u * u
    return float(value.sum()), -1.0 - u / sds
