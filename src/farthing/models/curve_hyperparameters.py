"""The kernel of a joint model of learning curves, and its hyperparameters (see curves.py).

They are the maximum a posteriori under normal priors of their logarithms, and of b itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import minimize

from farthing.models.curve_values import CurveRows
from farthing.models.hyperparameters import factor
from farthing.models.kernel import columns, distances, embed, matern_slopes

__all__ = [
    "CurveHyper",
    "Tables",
    "inverted",
    "learnt_curves",
    "negative_curve_posterior",
    "row_kernel",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SQRT3 = np.sqrt(3.0)

# Mean and sd of the logarithm; b itself is normal.
NAMES = ("v1", "v2", "l2", "v3", "v4", "l4", "v0", "noise")
PRIOR = {
    "v1": (0.2, 1.0),
    "v2": (0.7, 0.7),
    "l2": (1.0, 0.4),
    "v3": (0.02, 0.7),
    "v4": (0.04, 0.7),
    "l4": (0.5, 0.6),
    "v0": (0.3, 1.0),
    "noise": (1e-3, 1.0),
}
LENGTHSCALE_PRIOR = (0.0, 1.0)
SPREAD_PRIOR = (0.5, 0.5)  # of b
SPREAD_BOX = (0.0, 2.5)  # b >= 0: otherwise a plateau teaches that all curves converge
LENGTHSCALE_BOX = (np.log(0.05), np.log(100.0))
STEP_LENGTH_BOX = (np.log(0.05), np.log(20.0))
VARIANCE_BOX = (np.log(1e-5), np.log(50.0))
NOISE_BOX = (np.log(1e-6), np.log(1.0))
BOTH_STARTS_UP_TO = 15  # rows up to which the search also starts from the prior


class CurveHyper(NamedTuple):
    """Hyperparameters (module docstring)."""

    lengthscales: Array  # (d,)
    v1: float
    v2: float
    l2: float
    v3: float
    v4: float
    l4: float
    v0: float
    noise: float
    b: float

    def to_list(self) -> list[float]:
        """Plain numbers, for storing with a trial."""
        return [*map(float, self.lengthscales), *map(float, self[1:])]

    @staticmethod
    def from_list(numbers: Sequence[float]) -> CurveHyper:
        """The inverse of `to_list`."""
        d = len(numbers) - len(CurveHyper._fields) + 1
        return CurveHyper(np.asarray(numbers[:d], dtype=np.float64), *numbers[d:])

    @staticmethod
    def prior(d: int) -> CurveHyper:
        """The means of the priors."""
        return CurveHyper.from_list([1.0] * d + [PRIOR[n][0] for n in NAMES] + [SPREAD_PRIOR[0]])

    @property
    def theta(self) -> Array:
        """(d + 9,) logarithms, and b."""
        return np.append(np.log([*self.lengthscales, *self[1:-1]]), self.b)

    @staticmethod
    def of_theta(theta: Array) -> CurveHyper:
        """The inverse of `theta`."""
        return CurveHyper.from_list([*np.exp(theta[:-1]), float(theta[-1])])


def _tau(steps: Ints) -> Array:
    return np.asarray(np.log(steps) / np.log(max(int(steps[-1]), 2)))


class Tables(NamedTuple):
    """The parts of the kernel between rungs, (J, J) each, and s, (J,)."""

    common: Array  # v0 k
    shared: Array  # v1 + v2 k
    own: Array  # v3 + v4 k
    s: Array

    @staticmethod
    def of(hyper: CurveHyper, steps: Ints) -> Tables:
        """The tables of these hyperparameters."""
        tau = _tau(steps)
        gap = SQRT3 * np.abs(tau[:, None] - tau)
        k2, k4 = _matern32(gap / hyper.l2), _matern32(gap / hyper.l4)
        return Tables(
            hyper.v0 * k2,
            hyper.v1 + hyper.v2 * k2,
            hyper.v3 + hyper.v4 * k4,
            np.exp(hyper.b * (tau - 1.0)),
        )


def _matern32(q: Array) -> Array:
    return np.asarray((1.0 + q) * np.exp(-q))


def row_kernel(
    hyper: CurveHyper, rows: CurveRows, similarity: Array, tables: Tables
) -> tuple[Array, Array]:
    """The covariance of the rows with noise, (N, N), and s of each row, (N,)."""
    at = np.ix_(rows.rung, rows.rung)
    K = tables.shared[at]
    K *= similarity[np.ix_(rows.trial, rows.trial)]
    K += tables.common[at]
    K += np.where(rows.trial[:, None] == rows.trial, tables.own[at], 0.0)
    K[np.diag_indices_from(K)] += hyper.noise
    s = tables.s[rows.rung]
    K *= np.multiply.outer(s, s)
    return K, s


def inverted(K: Array, variance: float) -> tuple[Array, Array]:
    """K^-1 and its Cholesky factor."""
    L = factor(K, variance)
    inverse, _ = lapack.dpotri(L, lower=1)
    inverse += np.tril(inverse, -1).T
    return np.asarray(inverse), L


def learnt_curves(rows: CurveRows, z: Array, options: Ints, start: CurveHyper | None) -> CurveHyper:
    """The hyperparameters of largest likelihood x prior: the best L-BFGS-B run."""
    d = rows.X.shape[1]
    step, variance = STEP_LENGTH_BOX, VARIANCE_BOX
    box = np.array(
        [LENGTHSCALE_BOX] * d
        + [variance, variance, step, variance, variance, step, variance, NOISE_BOX, SPREAD_BOX]
    )
    starts = [] if start is None else [start.theta]
    if start is None or len(z) <= BOTH_STARTS_UP_TO:
        starts.append(CurveHyper.prior(d).theta)
    used, trial = np.unique(rows.trial, return_inverse=True)
    rows = rows._replace(X=rows.X[used], trial=trial)
    E, source = embed(rows.X, options), columns(options)
    results = [
        minimize(
            lambda theta: negative_curve_posterior(theta, rows, E, source, z),
            np.clip(first, box[:, 0], box[:, 1]),
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            options={"maxiter": 40 if start is None else 15, "ftol": 1e-5, "gtol": 1e-3},
        )
        for first in starts
    ]
    return CurveHyper.of_theta(min(results, key=lambda result: float(result.fun)).x)


def negative_curve_posterior(
    theta: Array, rows: CurveRows, E: Array, source: Ints, z: Array
) -> tuple[float, Array]:
    """-ln p(z | theta) - ln p(theta) and its gradient, with mu profiled out.

    d(-ln p) = -tr(P dK)/2 with P = a a' - K^-1. All of dK but the part of the lengthscales are
    tables between rungs, so the sums of P over pairs of rungs suffice.

    Args:
        E: (n, e) embedded configurations of the trials.
        source: (e,) the coordinate of each embedded column.
    """
    hyper = CurveHyper.of_theta(theta)
    d, N, J = len(hyper.lengthscales), len(z), len(rows.steps)
    tables = Tables.of(hyper, rows.steps)
    Z = E / hyper.lengthscales[source]
    similarity, slope = matern_slopes(distances(Z, Z), 1.0)
    np.fill_diagonal(similarity, 1.0)
    K, s = row_kernel(hyper, rows, similarity, tables)
    inverse, L = inverted(K, float(K.max()))
    ones = inverse.sum(axis=0)
    residual = z - float(ones @ z / ones.sum())
    a = inverse @ residual
    value = 0.5 * residual @ a + np.log(np.diag(L)).sum() + 0.5 * N * np.log(2.0 * np.pi)
    P = np.multiply.outer(a, a)
    P -= inverse
    tau = _tau(rows.steps)
    to_b = 2.0 * float((tau[rows.rung] - 1.0) @ np.einsum("ij,ij->i", P, K))
    P *= np.multiply.outer(s, s)
    to_noise = float(np.trace(P)) * hyper.noise
    at_rung = np.zeros((N, J))
    at_rung[np.arange(N), rows.rung] = 1.0
    same = rows.trial[:, None] == rows.trial
    common = at_rung.T @ P @ at_rung
    own = at_rung.T @ np.where(same, P, 0.0) @ at_rung
    at_trial = np.zeros((N, len(E)))
    at_trial[np.arange(N), rows.trial] = 1.0
    by_trial = at_trial.T @ (P * tables.shared[np.ix_(rows.rung, rows.rung)]) @ at_trial
    by_trial *= slope
    squares = 2.0 * (np.einsum("ij,ij,i->j", Z, Z, by_trial.sum(0)) - (Z * (by_trial @ Z)).sum(0))
    P *= similarity[np.ix_(rows.trial, rows.trial)]
    shared = at_rung.T @ P @ at_rung
    gap = SQRT3 * np.abs(tau[:, None] - tau)
    q2, q4 = gap / hyper.l2, gap / hyper.l4
    k2, k4 = _matern32(q2), _matern32(q4)
    bend2, bend4 = q2 * q2 * np.exp(-q2), q4 * q4 * np.exp(-q4)
    gradient = -0.5 * np.array(
        [
            *np.bincount(source, squares, minlength=d),
            hyper.v1 * shared.sum(),
            hyper.v2 * (shared * k2).sum(),
            ((hyper.v2 * shared + hyper.v0 * common) * bend2).sum(),
            hyper.v3 * own.sum(),
            hyper.v4 * (own * k4).sum(),
            hyper.v4 * (own * bend4).sum(),
            hyper.v0 * (common * k2).sum(),
            to_noise,
            to_b,
        ]
    )
    means = np.array(
        [LENGTHSCALE_PRIOR[0]] * d + [np.log(PRIOR[name][0]) for name in NAMES] + [SPREAD_PRIOR[0]]
    )
    sds = np.array(
        [LENGTHSCALE_PRIOR[1]] * d + [PRIOR[name][1] for name in NAMES] + [SPREAD_PRIOR[1]]
    )
    u = (theta - means) / sds
    return float(value + 0.5 * u @ u), gradient + u / sds
