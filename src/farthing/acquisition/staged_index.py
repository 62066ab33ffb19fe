"""The staged Gittins index: what a trial is worth that can be stopped at every rung.

The final value of a trial is N(m, s^2) now. Rung k costs price p_k (the exchange rate times its
cost) and moves the expected final value by a normal amount with standard deviation sigma_k, which
is known in advance; the squares of all sigma add up to s^2. If g is the value that can be had
without this trial, going on is worth, with u = g - m,

    W_J(u) = max(u, 0)                                        after the last rung
    W_k(u) = max(0, V_k(u)),  V_k(u) = E W_{k+1}(u - sigma_{k+1} Z) - p_{k+1}

The index is g = m + a_0, where a_k is the root of V_k: to go on is worth it exactly if g is above
the index. With one rung it is the index of Weitzman 1979. Several rungs are the chains with a price
per step of Gupta et al. 2019, where trials are independent.

W_k is 0 below a_k and smooth above it. It is a piecewise cubic through its values and slopes at
NODES points from a_k on, and the expectation of a piecewise cubic is exact: with D1, D2, D3 the
jumps of its first three derivatives at a node v, and z = (u - v) / sigma, each node adds

    D1 sigma h(z) + D2 sigma^2 h2(z) + D3 sigma^3 h3(z),
    h = z Phi + phi,    h2 = (Phi + z h) / 2,    h3 = (h + z h2) / 3,

where h2 and h3 are the integrals of h. The error of the index is about 1e-6 s (docs/decisions.md).

Two bounds need no recursion. If the next rung revealed everything, the index would be lower; if
everything had to be paid at once, it would be higher (`index_bounds`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from farthing.models.normal import PHI_AT_0, gittins, h

__all__ = ["index_bounds", "revealed", "staged_index", "staged_thresholds"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

NODES = 21  # of a piecewise cubic
UPPER = 5.0  # in standard deviations: beyond it W has slope 1
WIDTH = 1.5  # in units of sigma: half of the region around a kink where the nodes are dense
LEAST_PRICE = 1e-12  # in standard deviations: a rung that costs less counts as costing this
LEAST_SHARE = 1e-4  # of the standard deviation that a rung reveals at least
LEAST_EIGENVALUE = 1e-8  # of a covariance, relative to its largest
TOLERANCE = 1e-8  # of a root, in standard deviations
NEWTON_STEPS = 40  # at most, to find a root


def revealed(covariance: Array, noise: Array) -> Array:
    """(..., J): the standard deviations by which the coming rungs move the expected final value.

    With L L' = C + noise, the k-th is |L^-1 C[:, last]|_k: what observing rung k tells about the
    last one after the rungs before it. The last rung reveals all that is left of C[last, last].

    Args:
        covariance: (..., J, J) joint posterior covariance C of the coming rungs.
        noise: (..., J) variance of the noise of an observation.
    """
    J = covariance.shape[-1]
    total = covariance[..., -1, -1]
    observed = covariance[..., : J - 1, : J - 1].copy()
    k = np.arange(J - 1)
    observed[..., k, k] += noise[..., : J - 1] + 1e-10 * total[..., None]
    try:
        root = np.linalg.cholesky(observed)
    except np.linalg.LinAlgError:  # after many fantasies, by rounding errors
        root = np.linalg.cholesky(_definite(observed))
    sigma = np.empty(covariance.shape[:-1])
    last = covariance[..., : J - 1, -1:]
    sigma[..., : J - 1] = np.abs(np.linalg.solve(root, last)[..., 0]) if J > 1 else 0.0
    left = total - (sigma[..., : J - 1] ** 2).sum(axis=-1)
    sigma[..., -1] = np.sqrt(np.maximum(left, 0.0))
    return sigma


def _definite(C: Array) -> Array:
    """Symmetric matrices (..., J, J), eigenvalues at least LEAST_EIGENVALUE of the largest."""
    values, vectors = np.linalg.eigh(C)
    values = np.maximum(values, LEAST_EIGENVALUE * values[..., -1:])
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def index_bounds(mean: Array, std: Array, first: Array, total: Array) -> tuple[Array, Array]:
    """A lower and an upper bound of the index, (m,) each.

    Below: everything is revealed for the price of the next rung. Above: everything is paid at once.

    Args:
        first: (m,) price of the next rung.
        total: (m,) price of all coming rungs.
    """
    std = np.maximum(std, np.finfo(float).tiny)
    least = LEAST_PRICE * std
    low = gittins(mean, std, np.log(np.maximum(first, least)))
    return low, gittins(mean, std, np.log(np.maximum(total, least)))


def staged_index(mean: Array, sigma: Array, price: Array, rungs: Ints | None = None) -> Array:
    """(m,) the index of trials with J coming rungs each: the smaller, the better.

    Args:
        mean: (m,) expected final values.
        sigma: (m, J) what each rung reveals.
        price: (m, J) what each rung costs, in units of the objective.
        rungs: (m,) the number of coming rungs of each, which are the last columns; None: J.
    """
    m, J = sigma.shape
    if J == 1:
        return gittins(mean, sigma[:, 0], np.log(price[:, 0]))
    if rungs is None:
        rungs = np.full(m, J)
    order = np.argsort(-rungs, kind="stable")
    found = np.empty(m)
    found[order] = staged_thresholds(sigma[order], price[order], rungs[order])[
        np.arange(m), J - rungs[order]
    ]
    return np.asarray(mean + found)


def staged_thresholds(
    sigma: Array, price: Array, rungs: Ints | None = None, nodes: int = NODES
) -> Array:
    """(m, J): a_0 to a_{J-1}; after k rungs, go on exactly if g - m is above a_k.

    Args:
        rungs: (m,) the number of coming rungs of each, in descending order: the last columns.
    """
    m, J = sigma.shape
    counts = np.full(m, J) if rungs is None else rungs
    used = np.arange(J) >= (J - counts)[:, None]
    scale = np.sqrt((np.where(used, sigma, 0.0) ** 2).sum(axis=1))
    scale = np.where(scale > 0.0, scale, 1.0)[:, None]
    s = np.maximum(np.where(used, sigma, 0.0) / scale, LEAST_SHARE)
    p = np.maximum(np.where(used, price, 0.0) / scale, LEAST_PRICE)
    ahead = np.sqrt(np.cumsum((s * s)[:, ::-1], axis=1)[:, ::-1])  # (m, J) sd of rungs k to J
    owed = np.cumsum(p[:, ::-1], axis=1)[:, ::-1]
    low, high = index_bounds(np.zeros((m, J)), ahead, p, owed)
    found = np.zeros((m, J))
    found[:, J - 1] = high[:, J - 1]
    steps = np.linspace(0.0, 1.0, nodes)
    cubic: _Cubic | None = None
    kink = np.zeros(m)
    for k in range(J - 1, 0, -1):
        n = int((counts > J - k).sum())  # trials that have a rung before this one
        if n == 0:
            break
        a, kink = found[:n, k], kink[:n]
        # Beyond all thresholds and some standard deviations, W has slope 1.
        top = np.maximum(found[:n, k:].max(axis=1), 0.0) + UPPER * ahead[:n, k]
        V = _nodes(a, top, kink, WIDTH * s[:n, k], steps)
        if cubic is None:
            z = V / s[:n, -1:]
            value, slope = s[:n, -1:] * h(z), ndtr(z)
        else:
            value, slope = cubic.first(n).expected(V, s[:n, k])
        value = value - p[:n, k, None]
        value[:, 0] = 0.0
        cubic, kink = _Cubic.through(V, value, slope), a
        found[:n, k - 1] = cubic.root(s[:n, k - 1], p[:n, k - 1], low[:n, k - 1], high[:n, k - 1])
    return found * scale


def _nodes(low: Array, high: Array, kink: Array, width: Array, steps: Array) -> Array:
    """(m, nodes) from low to high, dense around the kink: equal steps of asinh((v - kink)/width).

    V_k is W_{k+1}, which has a kink at a_{k+1}, smoothed by a normal of standard deviation
    sigma_{k+1}. Its curvature is there.
    """
    first, last = np.arcsinh((low - kink) / width), np.arcsinh((high - kink) / width)
    V = kink[:, None] + width[:, None] * np.sinh(first[:, None] + (last - first)[:, None] * steps)
    V[:, 0] = low
    return V


class _Cubic(NamedTuple):
    """Piecewise cubics, one per trial: 0 below the first node, linear above the last one.

    `jump` is the slope at the first node; `second` and `third` are the jumps of these derivatives.
    """

    nodes: Array
    jump: Array
    second: Array
    third: Array

    @staticmethod
    def through(nodes: Array, value: Array, slope: Array) -> _Cubic:
        """The cubics with these values and slopes at the nodes."""
        width = nodes[:, 1:] - nodes[:, :-1]
        rise = (value[:, 1:] - value[:, :-1]) / width
        left, right = slope[:, :-1], slope[:, 1:]
        third = (6.0 * (left + right) - 12.0 * rise) / width**2
        second = np.zeros_like(nodes)
        second[:, :-1] = (6.0 * rise - 4.0 * left - 2.0 * right) / width
        second[:, 1:] -= (-6.0 * rise + 2.0 * left + 4.0 * right) / width
        jumps = np.zeros_like(nodes)
        jumps[:, :-1] = third
        jumps[:, 1:] -= third
        return _Cubic(nodes, slope[:, 0], second, jumps)

    def first(self, n: int) -> _Cubic:
        """The cubics of the first n trials."""
        return _Cubic(*(part[:n] for part in self))

    def expected(self, u: Array, sigma: Array) -> tuple[Array, Array]:
        """E W(u - sigma Z) and its slope in u, (m, q) each, for u of that shape."""
        sigma = sigma[:, None]
        z = (u[:, :, None] - self.nodes[:, None, :]) / sigma[:, :, None]  # (m, q, nodes)
        below = ndtr(z)
        one = z * z
        one *= -0.5
        np.exp(one, out=one)
        one *= PHI_AT_0
        one += z * below  # h
        two = z * one
        two += below
        two *= 0.5
        start = one[:, :, 0], below[:, :, 0]
        second = (self.second * sigma)[:, :, None]
        third = (self.third * sigma**2)[:, :, None]
        slope = (one @ second + two @ third)[:, :, 0] + self.jump[:, None] * start[1]
        z *= two
        z += one
        z /= 3.0
        value = (two @ second + z @ third)[:, :, 0] + self.jump[:, None] * start[0]
        return value * sigma, slope

    def root(self, sigma: Array, price: Array, low: Array, high: Array) -> Array:
        """(m,) u with E W(u - sigma Z) = price: Newton's method on logarithms, from below."""
        u, log_price = low.copy(), np.log(price)
        for _ in range(NEWTON_STEPS):
            value, slope = (part[:, 0] for part in self.expected(u[:, None], sigma))
            value = np.maximum(value, np.finfo(float).tiny)
            with np.errstate(over="ignore"):  # an infinite step ends at `low` or `high`
                step = (log_price - np.log(value)) * value / np.maximum(slope, np.finfo(float).tiny)
            after = np.clip(u + step, low, high)
            done = np.abs(after - u) < TOLERANCE
            u = after
            if done.all():
                break
        return u
