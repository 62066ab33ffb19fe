"""Linear regression of a few coefficients on a few rows, some of them known only from below.

    t = D b + s e,   D (n, p) the design: a column of ones, then features
    exact rows:     t_i was seen
    censored rows:  only t_i > l_i is known (Tobin 1958)

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

UNSETTLED = 1e-9  # a column is a combination of others, or a row alone carries a coefficient
UNKNOWN_SPREAD = 1.0  # sd of ln c while there are no more rows than coefficients
STEPS = 200  # of expectation and maximisation at most
PARTS = 10  # rows are left out in so many parts, selection and all
CHANCE = 4.0  # K / n^2 times this is what the best of K columns of noise takes off PRESS
CONVERGED = 1e-9  # change of a step, in standard deviations


def designed(F: Array) -> Array:
    """Features with a column of ones before them."""
    return np.column_stack([np.ones(len(F)), F])


def hazard(a: Array) -> Array:
    """phi(a) / (1 - Phi(a)), safe in the tails: E[z | z > a] of a standard normal z."""
    return np.asarray(1.0 / (SQRT_HALF_PI * erfcx(np.asarray(a) / np.sqrt(2.0))))


# ── fitting ────────────────────────────────────────────────────────────────────────────────────


class Fitted(NamedTuple):
    """Coefficients, and what is known about them.

    Attributes:
        beta: (p,).
        inverse: (p, p) (D' W D)^-1; the coefficients' covariance is sigma^2 times it.
        sigma: sd of a row about the plane.
        pull: (n,) how far each row would move the plane: t - D b, or s times the hazard.
        weight: (n,) W: 1 of an exact row, the share of its information of a censored one.
        freedom: exact rows less coefficients.
    """

    beta: Array
    inverse: Array
    sigma: float
    pull: Array
    weight: Array
    freedom: int

    def plane(self, D: Array) -> Normal:
        """D b with the uncertainty of the coefficients alone: sigma sqrt(d' (D'WD)^-1 d)."""
        spread = np.einsum("ij,jk,ik->i", D, self.inverse, D)
        return Normal(D @ self.beta, self.sigma * np.sqrt(np.maximum(spread, 0.0)))

    def left_out(self, D: Array) -> Normal:
        """Each row as predicted by a fit of the others, to first order where it is censored.

        m_i - q g / (1 - w q), q = d' (D'WD)^-1 d, g the pull; variance s_(i)^2 (1 + q / (1 - w q))
        """
        q, rest = self._leverage(D)
        variance = np.full(len(D), self.sigma**2)
        if self.freedom > 1:
            gone = self.weight * self.pull**2 / rest
            without = (self.freedom * self.sigma**2 - gone) / (self.freedom - 1)
            variance = np.where(self.weight == 1.0, np.maximum(without, 0.0), variance)
        mean = D @ self.beta - q * self.pull / rest
        return Normal(mean, np.sqrt(variance * (1.0 + q / rest)))

    def moved(self, D: Array) -> Array:
        """(n, n) how far D b at row i moves if row j is left out."""
        _, rest = self._leverage(D)
        return -(D @ self.inverse @ D.T) * (self.pull / rest)

    def _leverage(self, D: Array) -> tuple[Array, Array]:
        """q = d' (D'WD)^-1 d and 1 - w q."""
        q = np.einsum("ij,jk,ik->i", D, self.inverse, D)
        return q, np.maximum(1.0 - self.weight * q, UNSETTLED)


def least_squares(D: Array, t: Array, at_least: Bools) -> Fitted:
    """Maximum likelihood of b and s; with nothing censored it is least squares.

    Expectation and maximisation: with a = (l - D b) / s, a censored row is taken for
    E[t | t > l] = D b + s hazard(a), and its variance s^2 (1 + a hazard - hazard^2) counts in s.
    s^2 is then enlarged by n / (n - p), n the exact rows. With fewer than two exact rows the bounds
    are all there is, and count as seen.
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
    """The coefficients, s, the pulls and the weights after expectation and maximisation."""
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


# ── choosing ───────────────────────────────────────────────────────────────────────────────────


def press(F: Array, t: Array) -> float:
    """Leave-one-out squared error of least squares on F (n, k), an intercept included.

    Infinite where a coefficient is not settled by the rows, or would not be without one of them.
    """
    D = designed(F)
    q, r = np.linalg.qr(D)
    leverage = np.einsum("ij,ij->i", q, q)
    pivots = np.abs(np.diag(r)) / np.linalg.norm(D, axis=0)
    if pivots.min() < UNSETTLED or leverage.max() > 1.0 - UNSETTLED:
        return np.inf
    residual = t - q @ (q.T @ t)
    return float(np.sum((residual / (1.0 - leverage)) ** 2))


def _forward(F: Array, t: Array, rows: Bools, at_most: int) -> NDArray[np.int64]:
    """(B, at_most) features chosen forward by PRESS from each of B sets of rows; -1: no more.

    One more feature is one more column of Q, so every candidate's PRESS comes from one product;
    rows that a selection does not see are zeros.
    """
    B, many = len(rows), rows.sum(axis=1)
    W, y = F * rows[:, :, None], t * rows  # (B, n, K), (B, n)
    length = np.linalg.norm(W, axis=1)
    Q = (rows / np.sqrt(np.maximum(many, 1))[:, None])[:, :, None]
    residual = y - rows * (y.sum(axis=1) / np.maximum(many, 1))[:, None]
    left = 1.0 - Q[:, :, 0] ** 2
    error = np.where(many > 1, ((residual / np.maximum(left, UNSETTLED)) ** 2).sum(axis=1), np.inf)
    chosen = np.full((B, at_most), -1)
    going = np.ones(B, dtype=np.bool_)
    for k in range(min(at_most, F.shape[1])):
        going &= many >= max(k + 4, 3 * (k + 1))
        if not going.any():
            break
        V = W - Q @ (Q.transpose(0, 2, 1) @ W)
        V -= Q @ (Q.transpose(0, 2, 1) @ V)  # twice is enough (Kahan)
        rest = np.linalg.norm(V, axis=1)
        usable = rest > UNSETTLED * np.maximum(length, np.finfo(float).tiny)
        V /= np.where(usable, rest, 1.0)[:, None, :]
        over = left[:, :, None] - V**2
        usable &= over.min(axis=1) > UNSETTLED
        step = np.einsum("bnk,bn->bk", V, residual)
        wrong = (residual[:, :, None] - V * step[:, None, :]) / np.maximum(over, UNSETTLED)
        tries = np.where(usable, (wrong**2).sum(axis=1), np.inf)
        best = tries.argmin(axis=1)
        each = np.arange(B)
        going &= tries[each, best] * (1.0 + CHANCE * F.shape[1] / many**2) < error
        error = np.where(going, tries[each, best], error)
        chosen[:, k] = np.where(going, best, -1)
        v = V[each, :, best] * going[:, None]
        residual = residual - v * np.einsum("bn,bn->b", v, residual)[:, None]
        left = left - v**2
        Q = np.concatenate([Q, v[:, :, None]], axis=2)
    return chosen


def select(F: Array, t: Array, at_most: int, at_least: Bools | None = None) -> list[int]:
    """Forward selection by PRESS, while it drops and n >= k + 3, 3 k; [] means a constant.

    It has to drop below 1 / (1 + 4 K / n^2) of what it was: of K columns one does by chance.
    Censored rows count as what is expected of them, by a constant first and then by the features
    that this chose; a feature must be settled by the exact ones.
    """
    censored = np.zeros(len(t), dtype=np.bool_) if at_least is None else at_least
    exact = ~censored if (~censored).sum() >= 2 else np.ones(len(t), dtype=np.bool_)
    whole = np.ones((1, len(t)), dtype=np.bool_)
    if exact.all():
        return [int(k) for k in _forward(F, t, whole, at_most)[0] if k >= 0]
    seen = F * settled(F[exact], [])
    at_most = min(at_most, int(exact.sum()) - 3, int(exact.sum()) // 3)
    chosen: list[int] = []
    for _ in range(2):
        found = _forward(seen, _filled(F, t, chosen, censored), whole, max(at_most, 0))[0]
        chosen = []
        for k in found[found >= 0]:
            if settled(F[exact], chosen)[k]:
                chosen.append(int(k))
    return chosen


def _filled(F: Array, t: Array, chosen: list[int], at_least: Bools) -> Array:
    """The rows as a plane of the chosen features expects them."""
    D = designed(F[:, chosen])
    fitted = least_squares(D, t, at_least)
    return np.where(at_least, D @ fitted.beta + fitted.pull, t)


def optimism(F: Array, t: Array, chosen: list[int], at_most: int, at_least: Bools) -> float:
    """By how much s is larger than the residuals of a selection say, at least 1.

    The features were chosen by the rows they are then fitted to. With up to ten parts of the rows
    left out in turn, selection and all, it is the root mean square of their errors over what
    `left_out` expects with the features kept; at most so much that s is that of a constant.
    """
    if not chosen:
        return 1.0
    D = designed(F[:, chosen])
    fitted = least_squares(D, t, at_least)
    said = float(np.mean(fitted.left_out(D).std ** 2))
    if not said > 0.0:
        return 1.0
    most = least_squares(D[:, :1], t, at_least).sigma / fitted.sigma
    if at_least.any():
        t = _filled(F, t, chosen, at_least)
    part = np.empty(len(t), dtype=np.int64)
    part[np.argsort(t, kind="stable")] = np.arange(len(t)) % PARTS  # in whatever order they came
    rows = part != np.arange(min(PARTS, len(t)))[:, None]  # (B, n)
    again = _forward(F, t, rows, at_most)
    columns = np.where(again >= 0, again + 1, 0)  # 0: a column of zeros
    padded = np.column_stack([np.zeros(len(t)), F])
    E = np.concatenate(
        [np.ones((len(rows), len(t), 1)), padded[:, columns].transpose(1, 0, 2)], axis=2
    )
    beta = np.linalg.pinv(E * rows[:, :, None]) @ (t * rows)[:, :, None]
    error = (t - (E @ beta)[:, :, 0])[~rows]
    return max(1.0, min(float(np.sqrt(np.mean(error**2) / said)), most))


def settled(F: Array, chosen: list[int]) -> Bools:
    """(k,) which features, beside the chosen ones, are no combination of them and a constant."""
    q, _ = np.linalg.qr(designed(F[:, chosen]))
    rest = np.linalg.norm(F - q @ (q.T @ F), axis=0)
    return np.asarray(rest > UNSETTLED * np.maximum(np.linalg.norm(F, axis=0), 1e-300))


# ── robustly ───────────────────────────────────────────────────────────────────────────────────


class Robust(NamedTuple):
    """Coefficients of a robust fit, and the weight (n,) it gave each row: 1 unless far off."""

    beta: Array
    weight: Array


def huber(D: Array, t: Array, *, delta: float | None = None, nonnegative: bool = True) -> Robust:
    """argmin sum rho(t_i - d_i b), rho(r) = r^2/2 within delta and delta (|r| - delta/2) beyond.

    By weights min(1, delta / |r|) found again and again (Huber 1964), b >= 0 if `nonnegative`.
    delta by default is 1.345 median|r| / 0.6745, found again with them. The columns are scaled
    first: a count of flops may be 1e6.
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
            break  # more than half of the rows lie on the plane, or nothing moves any more
        weight = np.minimum(1.0, limit / np.maximum(size, np.finfo(float).tiny))
    return Robust(beta * unit / scale, weight)


def _solved(A: Array, y: Array, nonnegative: bool) -> Array:
    found = nnls(A, y)[0] if nonnegative else np.linalg.lstsq(A, y, rcond=None)[0]
    return np.asarray(found, dtype=np.float64)
