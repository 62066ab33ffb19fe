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
from scipy.special import erfcx

from farthing.gp import Normal
from farthing.normal import SQRT_HALF_PI

__all__ = ["Fitted", "designed", "hazard", "least_squares", "press", "select", "settled"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

UNSETTLED = 1e-9  # a column is a combination of others, or a row alone carries a coefficient
UNKNOWN_SPREAD = 1.0  # sd of ln c while there are no more rows than coefficients
STEPS = 200  # of expectation and maximisation at most
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
        q = np.einsum("ij,jk,ik->i", D, self.inverse, D)
        rest = np.maximum(1.0 - self.weight * q, UNSETTLED)
        variance = np.full(len(D), self.sigma**2)
        if self.freedom > 1:
            gone = self.weight * self.pull**2 / rest
            without = (self.freedom * self.sigma**2 - gone) / (self.freedom - 1)
            variance = np.where(self.weight == 1.0, np.maximum(without, 0.0), variance)
        mean = D @ self.beta - q * self.pull / rest
        return Normal(mean, np.sqrt(variance * (1.0 + q / rest)))


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


def _press_with_each(F: Array, t: Array, chosen: list[int]) -> Array:
    """(k,) PRESS of the chosen features and each other one: one more column of Q, all at once."""
    q, _ = np.linalg.qr(designed(F[:, chosen]))
    length = np.linalg.norm(F, axis=0)
    W = F - q @ (q.T @ F)
    W -= q @ (q.T @ W)  # twice is enough (Kahan)
    rest = np.linalg.norm(W, axis=0)
    usable = rest > UNSETTLED * np.maximum(length, np.finfo(float).tiny)
    usable[chosen] = False
    W = W / np.where(usable, rest, 1.0)
    residual = t - q @ (q.T @ t)
    left = 1.0 - np.einsum("ij,ij->i", q, q)[:, None] - W**2
    usable &= left.min(axis=0) > UNSETTLED
    error = (residual[:, None] - W * (W.T @ residual)) / np.where(usable, left, 1.0)
    return np.where(usable, (error**2).sum(axis=0), np.inf)


def select(F: Array, t: Array, at_most: int, at_least: Bools | None = None) -> list[int]:
    """Forward selection by PRESS, for as long as it drops and n >= k + 3; [] means a constant.

    Censored rows count as what the model so far expects of them; a feature must be settled by the
    exact ones.
    """
    censored = np.zeros(len(t), dtype=np.bool_) if at_least is None else at_least
    exact = ~censored if (~censored).sum() >= 2 else np.ones(len(t), dtype=np.bool_)
    chosen: list[int] = []
    while len(chosen) < at_most and exact.sum() >= len(chosen) + 1 + 3:
        filled = t
        if not exact.all():
            D = designed(F[:, chosen])
            fitted = least_squares(D, t, censored)
            filled = np.where(exact, t, D @ fitted.beta + fitted.pull)
        tries = _press_with_each(F, filled, chosen)
        if not exact.all():
            tries = np.where(settled(F[exact], chosen), tries, np.inf)
        if not len(tries) or tries.min() >= press(F[:, chosen], filled):
            break
        chosen = [*chosen, int(np.argmin(tries))]
    return chosen


def settled(F: Array, chosen: list[int]) -> Bools:
    """(k,) which features, beside the chosen ones, are no combination of them and a constant."""
    q, _ = np.linalg.qr(designed(F[:, chosen]))
    rest = np.linalg.norm(F - q @ (q.T @ F), axis=0)
    return np.asarray(rest > UNSETTLED * np.maximum(np.linalg.norm(F, axis=0), 1e-300))
