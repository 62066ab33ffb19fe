"""Formulas of one normal variable, safe in the tails.

    phi, Phi   standard normal density and distribution function
    h(u)     = phi(u) + u Phi(u)                       expected (Z + u)+ for Z ~ N(0, 1)
    EI       = std h(u),  u = (best - mean) / std       expected improvement when minimising
    g        : EI(g) = price                            Gittins index (Pandora's box)
    ln c     ~ N(log_mean, log_std^2)                   a cost known up to a log-normal

EI: Jones et al. 1998, eq. 15; ln EI: Ament et al. 2023; g: Weitzman 1979, Xie et al. 2025, eq. 3.
Everything is elementwise and in logarithms: EI itself underflows at u = -38. `*_slopes` give the
value followed by its partial derivatives, in the order of the arguments.
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
    "leash",
    "log_affordable",
    "log_affordable_slopes",
    "log_ei",
    "log_ei_rate",
    "log_ei_slopes",
    "log_h",
    "mean_residual_cost",
    "shrunk_correlation",
]

Array = NDArray[np.float64]

LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
PHI_AT_0 = 1.0 / np.sqrt(2.0 * np.pi)
SQRT_HALF_PI = np.sqrt(0.5 * np.pi)
DIRECT_ABOVE = -1.0  # phi + u Phi loses no digits here
SERIES_BELOW = (
    -1e4
)  # 1 + u R(u) has lost half of its digits; the series is exact to 1e-12 from here


def _mills(u: Array) -> Array:
    """R(u) = Phi(u) / phi(u), for u <= 0."""
    return np.asarray(SQRT_HALF_PI * erfcx(-u / np.sqrt(2.0)))


def h(u: Array) -> Array:
    """h(u) itself: full precision down to u = -38, where it underflows; quicker than ln h."""
    return np.asarray(np.exp(-0.5 * u * u) * PHI_AT_0 + u * ndtr(u))


def log_h(u: ArrayLike) -> Array:
    """ln h(u), h(u) = phi(u) + u Phi(u)."""
    return _log_h_slope(np.asarray(u, dtype=np.float64))[0]


def d_log_h(u: ArrayLike) -> Array:
    """d ln h / du = Phi(u) / h(u)."""
    return _log_h_slope(np.asarray(u, dtype=np.float64))[1]


def _log_h_slope(u: Array) -> tuple[Array, Array]:
    """ln h and Phi/h. With Mills' ratio R = Phi/phi: h/phi = 1 + u R, Phi/h = R / (1 + u R).

    Below -1e4 their series: h/phi = 1/u^2 - 3/u^4, Phi/h = |u| + 2/|u|.
    """
    u = np.minimum(np.maximum(u, -1e153), 1e153)  # whose squares are finite
    high = np.maximum(u, DIRECT_ABOVE)
    cdf = ndtr(high)
    h = np.exp(-0.5 * high * high) * PHI_AT_0 + high * cdf
    least = u.min() if u.size else 0.0
    if least > DIRECT_ABOVE:
        return np.log(h), cdf / h
    low = np.minimum(u, DIRECT_ABOVE)
    middle = np.maximum(low, SERIES_BELOW)
    ratio = _mills(middle)
    over = 1.0 + middle * ratio
    tail, slope = np.log(over), ratio / over
    if least < SERIES_BELOW:
        far = np.minimum(low, SERIES_BELOW)
        is_far = u < SERIES_BELOW
        tail = np.where(is_far, np.log1p(-3.0 / (far * far)) - 2.0 * np.log(-far), tail)
        slope = np.where(is_far, -far - 2.0 / far, slope)
    direct = u > DIRECT_ABOVE
    value = np.where(direct, np.log(h), tail - 0.5 * low * low - LOG_SQRT_2PI)
    return value, np.where(direct, cdf / h, slope)


def log_ei(mean: ArrayLike, std: ArrayLike, best: ArrayLike) -> Array:
    """ln EI = ln std + ln h((best - mean) / std)."""
    std = np.asarray(std, dtype=np.float64)
    return np.asarray(np.log(std) + log_h((best - np.asarray(mean)) / std))


def log_ei_slopes(mean: ArrayLike, std: ArrayLike, best: ArrayLike) -> tuple[Array, Array, Array]:
    """ln EI and its partials: d/dmean = -(Phi/h)/std, d/dstd = (1 - u Phi/h)/std = (phi/h)/std."""
    std = np.asarray(std, dtype=np.float64)
    u = (best - np.asarray(mean)) / std
    value, slope = _log_h_slope(u)
    # phi / h computed in logs: 1 - u Phi/h cancels completely in the lower tail.
    density = np.exp(-0.5 * u * u - LOG_SQRT_2PI - value)
    return np.log(std) + value, -slope / std, density / std


def h_inverse(log_r: ArrayLike, *, steps: int = 60) -> Array:
    """z with h(z) = r, given ln r: bracketed Newton on ln h(z) - ln r, vectorised.

    Bracket: r < phi(0): [-sqrt(-2 ln(r sqrt(2 pi))), 0], as h <= phi; otherwise [r - phi(0), r].
    ln h is concave and increasing, so Newton from the left converges monotonically.
    """
    log_r = np.asarray(log_r, dtype=np.float64)
    large = log_r > 4.0  # h(z) = z to the last digit
    sought = np.where(large, 0.0, log_r)
    r = np.exp(sought)
    small = sought < np.log(PHI_AT_0)
    low = np.where(small, -np.sqrt(np.maximum(-2.0 * (sought + LOG_SQRT_2PI), 0.0)), r - PHI_AT_0)
    high = np.where(small, 0.0, r)
    z = low
    for _ in range(steps):
        value, slope = _log_h_slope(z)
        residual = value - sought
        low = np.where(residual <= 0.0, z, low)
        high = np.where(residual >= 0.0, z, high)
        step = z - residual / slope
        step = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        settled = np.abs(step - z) <= 4e-16 * np.maximum(np.abs(z), 1e-3)
        z = step
        if settled.all():
            break
    return np.asarray(np.where(large, np.exp(np.minimum(log_r, 352.0)), z))


def gittins(mean: ArrayLike, std: ArrayLike, log_price: ArrayLike) -> Array:
    """The Gittins index g: EI(mean, std; g) = price, so g = mean + std h^-1(price / std)."""
    return gittins_slopes(mean, std, log_price)[0]


def gittins_slopes(
    mean: ArrayLike, std: ArrayLike, log_price: ArrayLike
) -> tuple[Array, Array, Array, Array]:
    """g and its partials: 1, -(phi/Phi)(z), std (h/Phi)(z), those of EI(mean, std; g) = price."""
    std = np.asarray(std, dtype=np.float64)
    z = h_inverse(np.asarray(log_price) - np.log(std))
    to_std = -np.exp(-0.5 * z * z - LOG_SQRT_2PI - log_ndtr(z))
    return np.asarray(mean) + std * z, np.ones_like(z), to_std, std / d_log_h(z)


def expected_cost(log_mean: ArrayLike, log_std: ArrayLike, cap: ArrayLike = np.inf) -> Array:
    """ln E[min(c, cap)] of a log-normal cost; ln E[c] = m + s^2/2 without a cap.

    E[min(c, cap)] = exp(m + s^2/2) Phi((ln cap - m - s^2)/s) + cap Phi((m - ln cap)/s)
    """
    m = np.asarray(log_mean, dtype=np.float64)
    s = np.asarray(log_std, dtype=np.float64)
    if np.isinf(cap).all():
        return np.asarray(m + 0.5 * s * s)
    log_cap = np.log(cap)
    safe = np.maximum(s, 1e-12)
    below = m + 0.5 * s * s + log_ndtr((log_cap - m - s * s) / safe)
    above = log_cap + log_ndtr((m - log_cap) / safe)
    return np.where(s < 1e-12, np.minimum(m, log_cap), np.logaddexp(below, above))


def expected_cost_slopes(
    log_mean: ArrayLike, log_std: ArrayLike, cap: float = np.inf
) -> tuple[Array, Array, Array]:
    """ln E[min(c, cap)] and its partials in m and s.

    dE/dm = E[c; c < cap], dE/ds = s E[c; c < cap] - cap phi((ln cap - m)/s).
    """
    m = np.asarray(log_mean, dtype=np.float64)
    s = np.asarray(log_std, dtype=np.float64)
    value = expected_cost(m, s, cap)
    if np.isinf(cap):
        return value, np.ones_like(value), s + np.zeros_like(value)
    log_cap = np.log(cap)
    safe = np.maximum(s, 1e-12)
    to_m = np.exp(m + 0.5 * s * s + log_ndtr((log_cap - m - s * s) / safe) - value)
    to_m = np.where(s < 1e-12, (m < log_cap).astype(np.float64), to_m)
    t = (log_cap - m) / safe
    at_cap = np.where(s < 1e-12, 0.0, np.exp(log_cap - 0.5 * t * t - LOG_SQRT_2PI - value))
    return value, to_m, s * to_m - at_cap


def log_ei_rate(
    mean: ArrayLike,
    std: ArrayLike,
    best: ArrayLike,
    log_mean: ArrayLike,
    log_std: ArrayLike,
    *,
    alpha: float = 1.0,
    rho: ArrayLike = 0.0,
) -> Array:
    """ln E[(best - f)+ c^-alpha] where corr(f, ln c) = rho.

    f | c^-alpha-weighted is normal with its mean moved by -alpha rho std s:
    -alpha m + alpha^2 s^2 / 2 + ln EI(mean - alpha rho std s, std).
    """
    m, s = np.asarray(log_mean, dtype=np.float64), np.asarray(log_std, dtype=np.float64)
    moved = np.asarray(mean) - alpha * np.asarray(rho) * np.asarray(std) * s
    return np.asarray(log_ei(moved, std, best) - alpha * m + 0.5 * alpha**2 * s * s)


def shrunk_correlation(one: ArrayLike, other: ArrayLike, *, weight: float = 10.0) -> float:
    """Correlation of n pairs of residuals, times n / (n + weight): 0 without evidence.

    Of the left-out residuals of an objective and of ln c it is the rho of `log_ei_rate`.
    """
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    a, b = a - a.mean() if len(a) else a, b - b.mean() if len(b) else b
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length * len(a) / (len(a) + weight) if length > 0 else 0.0


def log_affordable(log_mean: ArrayLike, log_std: ArrayLike, cap: float) -> Array:
    """ln P(c <= cap) = ln Phi((ln cap - m)/s)."""
    return log_affordable_slopes(log_mean, log_std, cap)[0]


def log_affordable_slopes(
    log_mean: ArrayLike, log_std: ArrayLike, cap: float
) -> tuple[Array, Array, Array]:
    """ln P(c <= cap) and its partials in m and s."""
    m = np.asarray(log_mean, dtype=np.float64)
    s = np.asarray(log_std, dtype=np.float64)
    if np.isinf(cap):
        zero = np.zeros(np.broadcast_shapes(m.shape, s.shape))
        return zero, zero, zero
    safe = np.maximum(s, 1e-12)
    # A known cost equal to the cap is affordable: give equality the benefit of a rounding error.
    t = (np.log(cap) - m + 1e-12) / safe
    value = log_ndtr(t)
    up = np.maximum(t, 0.0)
    ratio = np.where(
        t > 0.0, np.exp(-0.5 * up * up) * PHI_AT_0 / ndtr(up), 1.0 / _mills(np.minimum(t, 0.0))
    )
    known = s < 1e-12
    to_m = np.where(known, 0.0, -ratio / safe)
    to_s = np.where(known, 0.0, -ratio * t / safe)
    return np.where(known, np.where(t >= 0.0, 0.0, -np.inf), value), to_m, to_s


def mean_residual_cost(log_mean: float, log_std: float, log_paid: float) -> float:
    """ln E[c - t | c > t] of a log-normal cost of which ln t is paid already.

    E[c - t | c > t] = exp(m + s^2/2) Phi(s - a) / Phi(-a) - t,   a = (ln t - m)/s
    """
    a = (log_paid - log_mean) / log_std
    ahead = log_mean + 0.5 * log_std**2 + log_ndtr(log_std - a) - log_ndtr(-a)
    return float(ahead + np.log(-np.expm1(min(log_paid - ahead, -1e-15))))


def leash(log_mean: float, log_std: float, margin: float) -> float:
    """ln of the cost from which on a trial is expected to cost, still, more than margin E[c].

    The largest t with E[c - t | c > t] <= margin E[c]. The mean residual of a log-normal falls at
    first and then grows for ever, so beyond t going on is never again worth what it was.
    """
    wanted = np.log(margin) + log_mean + 0.5 * log_std**2
    low, high = log_mean, log_mean + 1.0
    while mean_residual_cost(log_mean, log_std, high) <= wanted:
        low, high = high, high + 1.0
    if mean_residual_cost(log_mean, log_std, low) > wanted:
        return low  # so uncertain that the median is far enough
    for _ in range(50):
        middle = 0.5 * (low + high)
        if mean_residual_cost(log_mean, log_std, middle) <= wanted:
            low = middle
        else:
            high = middle
    return low
