"""Linear regression of a few coefficients on a few rows, of which some are only lower bounds.

    t = D b + s e,   D (n, p) the design: a column of ones, then features
    exact rows:     t_i is observed
    censored rows:  only t_i > l_i is observed (Tobin 1958)

PRESS = sum (r_i / (1 - H_ii))^2 is the leave-one-out error in closed form (Allen 1974).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import erfcx

from farthing.models.gp import Normal
from farthing.models.normal import SQRT_HALF_PI

__all__ = [
    "Fitted",
    "Robust",
    "designed",
    "hazard",
    "huber",
    "least_squares",
    "optimism",
    "press",
    "select",
    "settled",
]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

SINGULAR = 1e-9  # below it a column depends on others, or one row alone determines a coefficient
UNKNOWN_SPREAD = 1.0  # sd of ln c if there are no more rows than coefficients
STEPS = 200  # maximum number of iterations
FOLDS = 10  # for cross-validation of the selection
CHANCE = 4.0  # the best of K noise columns lowers PRESS by about CHANCE K / n^2
CONVERGED = 1e-9  # change in one iteration, in standard deviations


def designed(F: Array) -> Array:
    """The design matrix: a column of ones, then the features."""
    return np.column_stack([np.ones(len(F)), F])


def hazard(a: Array) -> Array:
    """phi(a) / (1 - Phi(a)) = E[z | z > a] for a standard normal z, accurate in the tails."""
    return np.asarray(1.0 / (SQRT_HALF_PI * erfcx(np.asarray(a) / np.sqrt(2.0))))


# ── fitting ────────────────────────────────────────────────────────────────────────────────────


class Fitted(NamedTuple):
    """Coefficients and their uncertainty.

    Attributes:
        beta: (p,).
        inverse: (p, p) (D' W D)^-1; the coefficients' covariance is sigma^2 times it.
        sigma: sd of a row about the plane.
        pull: (n,) residual of each row, t - D b, or s times the hazard if it is censored.
        weight: (n,) W: 1 for an exact row, its share of that information for a censored row.
        freedom: degrees of freedom, the number of exact rows minus that of coefficients.
    """

    beta: Array
    inverse: Array
    sigma: float
    pull: Array
    weight: Array
    freedom: int

    def plane(self, D: Array) -> Normal:
        """D b with the uncertainty of the coefficients alone, sigma sqrt(d' (D'WD)^-1 d)."""
        spread = np.einsum("ij,jk,ik->i", D, self.inverse, D)
        return Normal(D @ self.beta, self.sigma * np.sqrt(np.maximum(spread, 0.0)))

    def left_out(self, D: Array) -> Normal:
        """Leave-one-out predictions (n,), to first order for censored rows.

        Mean m_i - q g / (1 - w q), q = d' (D'WD)^-1 d, g the pull; variance
        s_(i)^2 (1 + q / (1 - w q)).
        """
        q, rest = self._leverage(D)
        variance = np.full(len(D), self.sigma**2)
        if self.freedom > 1:
            removed = self.weight * self.pull**2 / rest
            without = (self.freedom * self.sigma**2 - removed) / (self.freedom - 1)
            variance = np.where(self.weight == 1.0, np.maximum(without, 0.0), variance)
        mean = D @ self.beta - q * self.pull / rest
        return Normal(mean, np.sqrt(variance * (1.0 + q / rest)))

    def moved(self, D: Array) -> Array:
        """(n, n) the change of D b at row i if row j is left out."""
        _, rest = self._leverage(D)
        return -(D @ self.inverse @ D.T) * (self.pull / rest)

    def _leverage(self, D: Array) -> tuple[Array, Array]:
        """q = d' (D'WD)^-1 d and 1 - w q."""
        q = np.einsum("ij,jk,ik->i", D, self.inverse, D)
        return q, np.maximum(1.0 - self.weight * q, SINGULAR)


def least_squares(D: Array, t: Array, at_least: Bools) -> Fitted:
    """Maximum likelihood of b and s, by least squares if no row is censored.

    Censored rows need expectation maximisation. With a = (l - D b) / s, a censored row counts as
    E[t | t > l] = D b + s hazard(a), and its variance s^2 (1 + a hazard - hazard^2) adds to s^2.
    Then s^2 is multiplied by n / (n - p), where n is the number of exact rows. With fewer than two
    exact rows, the bounds count as observed values.
    """
    n, p = D.shape
    if (~at_least).sum() < 2:
        at_least = np.zeros(n, dtype=np.bool_)
    solve: Array = np.linalg.pinv(D).astype(np.float64)
    beta = solve @ t
    s = float(np.sqrt(np.mean((t - D @ beta) ** 2)))
    weight = np.ones(n)
    pull = t - D @ beta
    if at_least.any():
        beta, s, pull, weight = _expected(D, t, at_least, solve, beta, s)
    exact = n - int(at_least.sum())
    freedom = exact - p
    sigma = s * np.sqrt(exact / freedom) if freedom > 0 else UNKNOWN_SPREAD
    inverse: Array = np.linalg.pinv(D.T @ (weight[:, None] * D)).astype(np.float64)
    return Fitted(beta, inverse, float(sigma), pull, weight, freedom)


def _expected(
    D: Array, t: Array, at_least: Bools, solve: Array, beta: Array, s: float
) -> tuple[Array, float, Array, Array]:
    """The coefficients, s, the pulls and the weights after expectation maximisation."""
    n, low, smallest = len(t), t[at_least], 1e-9 * max(1.0, float(np.ptp(t)))
    filled = t.copy()
    s = max(s, smallest)
    for _ in range(STEPS):
        a = (low - (D @ beta)[at_least]) / s
        over = hazard(a)
        filled[at_least] = (D @ beta)[at_least] + s * over
        variance = s * s * np.maximum(1.0 + a * over - over * over, 0.0)
        before = D @ beta
        beta = solve @ filled
        residual = filled - D @ beta
        s_before, s = s, max(float(np.sqrt((residual @ residual + variance.sum()) / n)), smallest)
        if max(np.abs(D @ beta - before).max(), abs(s - s_before)) < CONVERGED * s:
            break
    a = (low - (D @ beta)[at_least]) / s
    over = hazard(a)
    pull, weight = t - D @ beta, np.ones(n)
    pull[at_least] = s * over
    weight[at_least] = np.clip(over * (over - a), 0.0, 1.0)
    return beta, s, pull, weight


# ── selection ──────────────────────────────────────────────────────────────────────────────────


def press(F: Array, t: Array) -> float:
    """Leave-one-out squared error of least squares on F (n, k) with an intercept.

    Infinite if the rows, or the rows without one of them, do not determine every coefficient.
    """
    D = designed(F)
    q, r = np.linalg.qr(D)
    leverage = np.einsum("ij,ij->i", q, q)
    pivots = np.abs(np.diag(r)) / np.linalg.norm(D, axis=0)
    if pivots.min() < SINGULAR or leverage.max() > 1.0 - SINGULAR:
        return np.inf
    residual = t - q @ (q.T @ t)
    return float(np.sum((residual / (1.0 - leverage)) ** 2))


def _forward(F: Array, t: Array, rows: Bools, at_most: int) -> NDArray[np.int64]:
    """(B, at_most) features from forward selection by PRESS on each of B sets of rows; -1: none.

    One more feature is one more column of Q, so one product gives the PRESS of every candidate.
    Rows outside a set are zeros.
    """
    B, counts = len(rows), rows.sum(axis=1)
    W, y = F * rows[:, :, None], t * rows  # (B, n, K), (B, n)
    length = np.linalg.norm(W, axis=1)
    Q = (rows / np.sqrt(np.maximum(counts, 1))[:, None])[:, :, None]
    residual = y - rows * (y.sum(axis=1) / np.maximum(counts, 1))[:, None]
    left = 1.0 - Q[:, :, 0] ** 2
    error = np.where(counts > 1, ((residual / np.maximum(left, SINGULAR)) ** 2).sum(axis=1), np.inf)
    chosen = np.full((B, at_most), -1)
    going = np.ones(B, dtype=np.bool_)
    for k in range(min(at_most, F.shape[1])):
        going &= counts >= max(k + 4, 3 * (k + 1))
        if not going.any():
            break
        V = W - Q @ (Q.transpose(0, 2, 1) @ W)
        V -= Q @ (Q.transpose(0, 2, 1) @ V)  # orthogonalising twice is enough (Kahan)
        rest = np.linalg.norm(V, axis=1)
        usable = rest > SINGULAR * np.maximum(length, np.finfo(float).tiny)
        V /= np.where(usable, rest, 1.0)[:, None, :]
        over = left[:, :, None] - V**2
        usable &= over.min(axis=1) > SINGULAR
        step = np.einsum("bnk,bn->bk", V, residual)
        wrong = (residual[:, :, None] - V * step[:, None, :]) / np.maximum(over, SINGULAR)
        tries = np.where(usable, (wrong**2).sum(axis=1), np.inf)
        best = tries.argmin(axis=1)
        each = np.arange(B)
        going &= tries[each, best] * (1.0 + CHANCE * F.shape[1] / counts**2) < error
        error = np.where(going, tries[each, best], error)
        chosen[:, k] = np.where(going, best, -1)
        v = V[each, :, best] * going[:, None]
        residual = residual - v * np.einsum("bn,bn->b", v, residual)[:, None]
        left = left - v**2
        Q = np.concatenate([Q, v[:, :, None]], axis=2)
    return chosen


def select(F: Array, t: Array, at_most: int, at_least: Bools | None = None) -> list[int]:
    """Forward selection by PRESS, while it drops, n >= k + 3 and n >= 3 k; [] means a constant.

    PRESS has to drop below 1 / (1 + 4 K / n^2) of its value, because one of K columns lowers it by
    chance. Censored rows count as their expectation, first under a constant and then under the
    features that this selects. The exact rows alone must determine the coefficient of a feature.
    """
    censored = np.zeros(len(t), dtype=np.bool_) if at_least is None else at_least
    exact = ~censored if (~censored).sum() >= 2 else np.ones(len(t), dtype=np.bool_)
    whole = np.ones((1, len(t)), dtype=np.bool_)
    if exact.all():
        return [int(k) for k in _forward(F, t, whole, at_most)[0] if k >= 0]
    usable = F * settled(F[exact], [])
    at_most = min(at_most, int(exact.sum()) - 3, int(exact.sum()) // 3)
    chosen: list[int] = []
    for _ in range(2):
        found = _forward(usable, _filled(F, t, chosen, censored), whole, max(at_most, 0))[0]
        chosen = []
        for k in found[found >= 0]:
            if settled(F[exact], chosen)[k]:
                chosen.append(int(k))
    return chosen


def _filled(F: Array, t: Array, chosen: list[int], at_least: Bools) -> Array:
    """t, with censored rows replaced by their expectation under the chosen features."""
    D = designed(F[:, chosen])
    fitted = least_squares(D, t, at_least)
    return np.where(at_least, D @ fitted.beta + fitted.pull, t)


def optimism(F: Array, t: Array, chosen: list[int], at_most: int, at_least: Bools) -> float:
    """The factor, at least 1, by which selection makes s too small.

    The selection and the fit use the same rows. Cross-validation in up to ten folds repeats the
    selection. The factor is its root mean square error over the one that `left_out` expects, which
    keeps the features. It is limited so that s is at most that of a constant.
    """
    if not chosen:
        return 1.0
    D = designed(F[:, chosen])
    fitted = least_squares(D, t, at_least)
    expected = float(np.mean(fitted.left_out(D).std ** 2))
    if not expected > 0.0:
        return 1.0
    most = least_squares(D[:, :1], t, at_least).sigma / fitted.sigma
    if at_least.any():
        t = _filled(F, t, chosen, at_least)
    fold = np.empty(len(t), dtype=np.int64)
    fold[np.argsort(t, kind="stable")] = np.arange(len(t)) % FOLDS  # independent of the row order
    rows = fold != np.arange(min(FOLDS, len(t)))[:, None]  # (B, n)
    again = _forward(F, t, rows, at_most)
    columns = np.where(again >= 0, again + 1, 0)  # 0: a column of zeros
    padded = np.column_stack([np.zeros(len(t)), F])
    E = np.concatenate(
        [np.ones((len(rows), len(t), 1)), padded[:, columns].transpose(1, 0, 2)], axis=2
    )
    beta = np.linalg.pinv(E * rows[:, :, None]) @ (t * rows)[:, :, None]
    error = (t - (E @ beta)[:, :, 0])[~rows]
    return max(1.0, min(float(np.sqrt(np.mean(error**2) / expected)), most))


def settled(F: Array, chosen: list[int]) -> Bools:
    """(k,) whether each feature is linearly independent of the chosen ones and a constant."""
    q, _ = np.linalg.qr(designed(F[:, chosen]))
    rest = np.linalg.norm(F - q @ (q.T @ F), axis=0)
    return np.asarray(rest > SINGULAR * np.maximum(np.linalg.norm(F, axis=0), 1e-300))


# ── robust fit ─────────────────────────────────────────────────────────────────────────────────


class Robust(NamedTuple):
    """Coefficients of a robust fit, and the weight (n,) of each row: below 1 for outliers."""

    beta: Array
    weight: Array


def huber(D: Array, t: Array, *, delta: float | None = None, nonnegative: bool = True) -> Robust:
    """argmin sum rho(t_i - d_i b), rho(r) = r^2/2 within delta and delta (|r| - delta/2) beyond.

    Iteratively reweighted least squares with weights min(1, delta / |r|) (Huber 1964), and b >= 0
    if `nonnegative`. By default delta is 1.345 median|r| / 0.6745, updated in each iteration. The
    columns are scaled first, because a count of flops may be 1e6.
    """
    scale = np.maximum(np.abs(D).max(axis=0), np.finfo(float).tiny)
    unit = max(float(np.abs(t).max()), np.finfo(float).tiny)
    A, y = D / scale, t / unit
    weight = np.ones(len(t))
    beta = np.zeros(D.shape[1])
    for _ in range(STEPS):
        root = np.sqrt(weight)
        before = beta
        beta = _solved(root[:, None] * A, root * y, nonnegative)
        size = np.abs(y - A @ beta)
        limit = 1.345 * float(np.median(size)) / 0.6745 if delta is None else delta / unit
        if limit < 1e-12 or np.abs(A @ (beta - before)).max() < 1e-13:
            break  # more than half of the rows lie on the plane, or the fit has converged
        weight = np.minimum(1.0, limit / np.maximum(size, np.finfo(float).tiny))
    return Robust(beta * unit / scale, weight)


def _solved(A: Array, y: Array, nonnegative: bool) -> Array:
    found = nnls(A, y)[0] if nonnegative else np.linalg.lstsq(A, y, rcond=None)[0]
    return np.asarray(found, dtype=np.float64)
