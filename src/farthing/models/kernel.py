"""The Matern-5/2 kernel with one lengthscale per coordinate: its value and its slope.

    z      an embedded point over the lengthscales: numbers unchanged, categoricals as one-hot /
           sqrt(2), so that |z - z'|^2 adds [x_j != x'_j] / l_j^2 for a categorical coordinate
    q    = sqrt(5) |z - z'|
    k    = v (1 + q + q^2/3) exp(-q)
    s    = (5/3) v (1 + q) exp(-q):   dk/dz = -s (z - z'),   dk/d ln l_j = s (z_j - z'_j)^2

Rasmussen and Williams 2006, eq. 4.17. Squared distances are expanded into
products: their rounding errors do little harm, because k is smooth in q^2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["columns", "distances", "embed", "matern", "matern_slopes", "pulled"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


def columns(options: Ints) -> Ints:
    """(e,) coordinate of each embedded column: a categorical has one column per option."""
    return np.repeat(np.arange(len(options)), np.maximum(options, 1))


def embed(X: Array, options: Ints) -> Array:
    """(m, d) -> (m, e): numbers unchanged, categoricals as one-hot / sqrt(2)."""
    if not options.any():
        return X
    source = columns(options)
    count = options[source]
    option = np.arange(len(source)) - np.searchsorted(source, source)  # of each column
    E = X[:, source]
    hot = np.minimum((E * count).astype(np.int64), count - 1) == option
    return np.where(count, hot / np.sqrt(2.0), E)


def distances(Z1: Array, Z2: Array) -> Array:
    """q between rows, (m, n)."""
    q = Z1 @ Z2.T
    q *= -2.0
    q += np.einsum("ij,ij->i", Z1, Z1)[:, None]
    q += np.einsum("ij,ij->i", Z2, Z2)
    np.maximum(q, 0.0, out=q)
    q *= 5.0
    return np.sqrt(q, out=q)


def matern(q: Array, variance: float) -> Array:
    """k(q)."""
    return _value(q, _decay(q, variance))


def matern_slopes(q: Array, variance: float) -> tuple[Array, Array]:
    """k(q) and s(q)."""
    decay = _decay(q, variance)
    slope = q + 1.0
    slope *= decay
    slope *= 5.0 / 3.0
    return _value(q, decay), slope


def _decay(q: Array, variance: float) -> Array:
    decay = np.exp(-q)
    decay *= variance
    return decay


def _value(q: Array, decay: Array) -> Array:
    k = q / 3.0
    k += 1.0
    k *= q
    k += 1.0
    k *= decay
    return k


def pulled(slopes: Array, Z: Array, centres: Array) -> Array:
    """sum_i w_i dk(z, z_i)/dz, (..., m, e), given w s(q), (..., m, n), and z_i, the centres."""
    gradient: Array = slopes @ centres
    gradient -= slopes.sum(axis=-1, keepdims=True) * Z
    return gradient
