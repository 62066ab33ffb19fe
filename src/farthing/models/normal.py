"""Formulas for one normal variable, accurate in the tails.

    phi, Phi   standard normal density and distribution function
    h(u)     = phi(u) + u Phi(u)                       expected (Z + u)+ for Z ~ N(0, 1)
    EI       = std h(u),  u = (best - mean) / std       expected improvement when minimising
    g        : EI(g) = price                            Gittins index (Pandora's box)
    ln c     ~ N(log_mean, log_std^2)                   a log-normal cost

EI: Jones et al. 1998, eq. 15; ln EI: Ament et al. 2023; g: Weitzman 1979, Xie et al. 2025, eq. 3.
All functions are elementwise. They work with logarithms, because EI itself underflows at u = -38.
`*_slopes` return the value, then its partial derivatives in the order of the arguments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr, ndtr

__all__ = [
    "d_log_h",
    "expected_cost",
    "expected_cost_slopes",
    "gittins",
    "gittins_slopes",
    "h",
    "h_inverse",
    "log_affordable",
    "log_affordable_slopes",
    "log_below",
    "log_below_slopes",
    "log_ei",
    "log_ei_slopes",
    "log_h",
    "max_overrun",
    "mean_residual_cost",
]

Array = NDArray[np.float64]

LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
PHI_AT_0 = 1.0 / np.sqrt(2.0 * np.pi)
SQRT_HALF_PI = np.sqrt(0.5 * np.pi)
SQRT_HALF = np.sqrt(0.5)
LINEAR_ABOVE = 8.5  # beyond it h(u) = u to the last digit
SERIES_BELOW = -1e4  # beyond it 1 + u R(u) loses half its digits, and the series is exact to 1e-12
CERTAIN = 9.0  # ln Phi(9) = -1e-19


def _mills(u: Array) -> Array:
    """R(u) = Phi(u) / phi(u), for u <= 26."""
    return np.asarray(SQRT_HALF_PI * erfcx(u * -SQRT_HALF))


def h(u: Array) -> Array:
    """h(u), faster than ln h, with full precision down to u = -38, where it underflows."""
    return np.asarray(np.exp(-0.5 * u * u) * PHI_AT_0 + u * ndtr(u))


def log_h(u: ArrayLike) -> Array:
    """ln h(u), h(u) = phi(u) + u Phi(u)."""
    return _log_h_slope(np.asarray(u, dtype=np.float64))[0]


def d_log_h(u: ArrayLike) -> Array:
    """d ln h / du = Phi(u) / h(u)."""
    return _log_h_slope(np.asarray(u, dtype=np.float64))[1]


def _log_h_slope(u: Array) -> tuple[Array, Array]:
    """ln h and Phi/h. With Mills' ratio R = Phi/phi: h/phi = 1 + u R, Phi/h = R / (1 + u R).

    Above 8.5 h = u; below -1e4 the series h/phi = 1/u^2 - 3/u^4, Phi/h = |u| + 2/|u|.
    """
    middle = np.minimum(np.maximum(u, SERIES_BELOW), LINEAR_ABOVE)
    ratio = _mills(middle)
    over = 1.0 + middle * ratio
    value = np.log(over) - (0.5 * middle * middle + LOG_SQRT_2PI)
    slope = ratio / over
    inside = middle == u
    if inside.all():
        return value, slope
    far = np.minimum(np.maximum(u, -1e153), 1e153)  # so that squares are finite
    far = np.where(inside, LINEAR_ABOVE, far)
    low, size = far < 0.0, np.abs(far)
    tail = np.log1p(-3.0 / (size * size)) - 2.0 * np.log(size) - 0.5 * size * size - LOG_SQRT_2PI
    value = np.where(inside, value, np.where(low, tail, np.log(size)))
    return value, np.where(inside, slope, np.where(low, size + 2.0 / size, 1.0 / size))


def log_ei(mean: ArrayLike, std: ArrayLike, best: ArrayLike) -> Array:
    """ln EI = ln std + ln h((best - mean) / std)."""
    std = np.asarray(std, dtype=np.float64)
    return np.asarray(np.log(std) + log_h((best - np.asarray(mean)) / std))


def log_ei_slopes(mean: ArrayLike, std: ArrayLike, best: ArrayLike) -> tuple[Array, Array, Array]:
    """ln EI and its partials: d/dmean = -(Phi/h)/std, d/dstd = (1 - u Phi/h)/std = (phi/h)/std."""
    std = np.asarray(std, dtype=np.float64)
    u = (best - np.asarray(mean)) / std
    value, slope = _log_h_slope(u)
    # phi / h is computed in logs, because 1 - u Phi/h cancels completely in the lower tail.
    density = np.exp(-0.5 * u * u - LOG_SQRT_2PI - value)
    return np.log(std) + value, -slope / std, density / std


def h_inverse(log_r: ArrayLike) -> Array:
    """z with h(z) = r, given ln r: one Halley step on ln h(z) - ln r from an accurate guess.

    The error of the guess is at most 1e-5, and the step leaves a constant times its cube. Above 8.5
    h(z) = z.
    """
    log_r = np.asarray(log_r, dtype=np.float64)
    large = log_r > np.log(LINEAR_ABOVE)
    guess = _guess(np.where(large, 0.0, log_r))
    value, slope = _log_h_slope(guess)
    # (ln h)'' / (ln h)' = phi/Phi - Phi/h, in logs as in `log_ei_slopes`
    bend = np.exp(-0.5 * guess * guess - LOG_SQRT_2PI - value) / slope - slope
    step = (value - np.where(large, 0.0, log_r)) / slope
    z = guess - step / (1.0 - 0.5 * step * bend)
    return np.asarray(np.where(large, np.exp(np.minimum(log_r, 352.0)), z))


KNOTS = np.linspace(-40.0, LINEAR_ABOVE, 4096)
LOG_H_AT_KNOTS = log_h(KNOTS)


def _guess(log_r: Array) -> Array:
    """h^-1 interpolated; below the knots from ln h = -z^2/2 - ln sqrt(2 pi) - 2 ln |z| - 3/z^2."""
    z = np.interp(log_r, LOG_H_AT_KNOTS, KNOTS)
    below = log_r < LOG_H_AT_KNOTS[0]
    if below.any():
        t = -2.0 * (np.where(below, log_r, LOG_H_AT_KNOTS[0]) + LOG_SQRT_2PI)
        z = np.where(below, -np.sqrt(t - 2.0 * np.log(t - 2.0 * np.log(t)) - 6.0 / t), z)
    return np.asarray(z)


def gittins(mean: ArrayLike, std: ArrayLike, log_price: ArrayLike) -> Array:
    """The Gittins index g: EI(mean, std; g) = price, so g = mean + std h^-1(price / std)."""
    return gittins_slopes(mean, std, log_price)[0]


def gittins_slopes(
    mean: ArrayLike, std: ArrayLike, log_price: ArrayLike
) -> tuple[Array, Array, Array, Array]:
    """g and its partials 1, -(phi/Phi)(z), std (h/Phi)(z), from EI(mean, std; g) = price."""
    std = np.asarray(std, dtype=np.float64)
    z = h_inverse(np.asarray(log_price) - np.log(std))
    value, slope = _log_h_slope(z)
    to_std = -np.exp(-0.5 * z * z - LOG_SQRT_2PI - value) / slope
    return np.asarray(mean) + std * z, np.ones_like(z), to_std, std / slope


def expected_cost(log_mean: ArrayLike, log_std: ArrayLike, cap: ArrayLike = np.inf) -> Array:
    """ln E[min(c, cap)] of a log-normal cost; ln E[c] = m + s^2/2 without a cap.

    E[min(c, cap)] = exp(m + s^2/2) Phi((ln cap - m - s^2)/s) + cap Phi((m - ln cap)/s)
    """
    return expected_cost_slopes(log_mean, log_std, cap)[0]


def expected_cost_slopes(
    log_mean: ArrayLike, log_std: ArrayLike, cap: ArrayLike = np.inf
) -> tuple[Array, Array, Array]:
    """ln E[min(c, cap)] and its partials in m and s.

    dE/dm = E[c; c < cap], dE/ds = s E[c; c < cap] - cap phi((ln cap - m)/s).
    """
    m = np.asarray(log_mean, dtype=np.float64)
    s = np.asarray(log_std, dtype=np.float64)
    free = np.asarray(m + 0.5 * s * s)
    if np.isinf(cap).all():
        return free, np.ones_like(free), s + np.zeros_like(free)
    log_cap = np.log(cap)
    safe = np.maximum(s, 1e-12)
    t = (log_cap - m) / safe
    if t.size and (t - s).min() > CERTAIN:  # no cost comes near the cap
        return free, np.ones_like(free), np.where(s < 1e-12, 0.0, s + np.zeros_like(free))
    below = free + log_ndtr(t - s)
    value = np.logaddexp(below, log_cap + log_ndtr(-t))
    to_m = np.exp(below - value)
    at_cap = np.exp(log_cap - 0.5 * t * t - LOG_SQRT_2PI - value)
    to_s = s * to_m - at_cap
    known = s < 1e-12
    if known.any():
        value = np.where(known, np.minimum(m, log_cap), value)
        to_m = np.where(known, (m < log_cap).astype(np.float64), to_m)
        to_s = np.where(known, s * to_m, to_s)
    return value, to_m, to_s


def log_affordable(log_mean: ArrayLike, log_std: ArrayLike, cap: float) -> Array:
    """ln P(c <= cap) = ln Phi((ln cap - m)/s)."""
    return log_affordable_slopes(log_mean, log_std, cap)[0]


def log_affordable_slopes(
    log_mean: ArrayLike, log_std: ArrayLike, cap: float
) -> tuple[Array, Array, Array]:
    """ln P(c <= cap) and its partials in m and s."""
    m = np.asarray(log_mean, dtype=np.float64)
    s = np.asarray(log_std, dtype=np.float64)
    zero = np.zeros(np.broadcast_shapes(m.shape, s.shape))
    if np.isinf(cap):
        return zero, zero, zero
    safe = np.maximum(s, 1e-12)
    # A known cost equal to the cap is affordable, even after a rounding error.
    t = (np.log(cap) - m + 1e-12) / safe
    if t.size and t.min() > CERTAIN:
        return zero, zero, zero
    value = log_ndtr(t)
    ratio = 1.0 / _mills(np.minimum(t, CERTAIN))
    known = s < 1e-12
    to_m = np.where(known, 0.0, -ratio / safe)
    to_s = np.where(known, 0.0, -ratio * t / safe)
    return np.where(known, np.where(t >= 0.0, 0.0, -np.inf), value), to_m, to_s


def log_below(mean: ArrayLike, std: ArrayLike, bound: float) -> Array:
    """ln P(z <= bound) of a normal variable z."""
    return np.asarray(log_ndtr((bound - np.asarray(mean, dtype=np.float64)) / np.asarray(std)))


def log_below_slopes(mean: ArrayLike, std: ArrayLike, bound: float) -> tuple[Array, Array, Array]:
    """ln P(z <= bound) and its partials: with t = (bound - mean)/std and r = phi(t)/Phi(t),

    d/dmean = -r/std and d/dstd = -r t/std.
    """
    std = np.asarray(std, dtype=np.float64)
    t = (bound - np.asarray(mean, dtype=np.float64)) / std
    # Above 26 Mills' ratio overflows, and phi is below 1e-147.
    ratio = np.where(t < 26.0, 1.0 / _mills(np.minimum(t, 26.0)), 0.0)
    return np.asarray(log_ndtr(t)), -ratio / std, -ratio * np.minimum(t, 26.0) / std


def mean_residual_cost(log_mean: float, log_std: float, log_paid: float) -> float:
    """ln E[c - t | c > t] of a log-normal cost, if t is already paid, given ln t.

    E[c - t | c > t] = exp(m + s^2/2) Phi(s - a) / Phi(-a) - t,   a = (ln t - m)/s
    """
    a = (log_paid - log_mean) / log_std
    ahead = log_mean + 0.5 * log_std**2 + log_ndtr(log_std - a) - log_ndtr(-a)
    return float(ahead + np.log(-np.expm1(min(log_paid - ahead, -1e-15))))


def max_overrun(log_mean: float, log_std: float, margin: float) -> float:
    """ln of the cost paid above which the expected remaining cost exceeds margin E[c].

    It is the largest t with E[c - t | c > t] <= margin E[c]. The mean residual of a log-normal
    falls at first and then grows without bound, so it stays above the limit beyond t.
    """
    limit = np.log(margin) + log_mean + 0.5 * log_std**2
    low, high = log_mean, log_mean + 1.0
    while mean_residual_cost(log_mean, log_std, high) <= limit:
        low, high = high, high + 1.0
    if mean_residual_cost(log_mean, log_std, low) > limit:
        return low  # the cost is so uncertain that the remaining cost exceeds it at the median
    for _ in range(50):
        middle = 0.5 * (low + high)
        if mean_residual_cost(log_mean, log_std, middle) <= limit:
            low = middle
        else:
            high = middle
    return low
