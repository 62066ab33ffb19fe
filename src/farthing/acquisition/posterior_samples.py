"""Sample paths of the posterior of a Gaussian process, and their minima.

Matheron's rule (Wilson et al. 2020) corrects a draw from the prior by the data. Random features
(Rahimi and Recht 2007) give the prior draw:

    f(x) = sqrt(2 v / F) sum_i w_i cos(omega_i . z + b_i)  +  k(x, X) K^-1 (y - f(X) - noise)

omega has the spectral density of Matern-5/2, a Student t with 5 degrees of freedom. The draws for a
coordinate depend on the name of its parameter, not on its position: permuting parameters permutes
the path. Values are standardised as in the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from farthing.acquisition.ascent import Rated, climb
from farthing.acquisition.search import CHUNK, Effort, candidates
from farthing.models.gp import GP
from farthing.models.kernel import distances, matern, matern_slopes, pulled
from farthing.space.space import Space

__all__ = ["Paths", "draw", "minima"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

FEATURES = 1024
CERTAIN = 5.0  # standard deviations: a row is skipped if its value is surely above another one
CUTS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)  # shares of an ascent that are tried, with constraints
STEPS = (12,)  # of the climb from the best screened point of each path


@dataclass(frozen=True)
class Paths:
    """p sample paths that share their random features."""

    gp: GP
    centres: Array  # (n, e) the data, embedded
    omega: Array  # (e, F)
    phase: Array  # (F,)
    weight: Array  # (F, p) including the factor sqrt(2 v / F)
    correction: Array  # (n, p)

    def at(self, X: Array) -> Array:
        """(m, p) the value of every path at every point."""
        Z = self.gp.embedded(X)
        prior = np.cos(Z @ self.omega + self.phase) @ self.weight
        k = matern(distances(Z, self.centres), self.gp.variance)
        return np.asarray(self.gp.expected(X) + prior + k @ self.correction)

    def along(self, X: Array, which: Ints) -> tuple[Array, Array]:
        """(m,) value of path which[i] at row i of X, and its gradient in the cube, (m, d)."""
        Z = self.gp.embedded(X)
        weight, correction = self.weight[:, which].T, self.correction[:, which].T
        wave = Z @ self.omega + self.phase
        prior = np.einsum("if,if->i", np.cos(wave), weight)
        d_prior = -(np.sin(wave) * weight) @ self.omega.T
        k, slope = matern_slopes(distances(Z, self.centres), self.gp.variance)
        data = np.einsum("in,in->i", k, correction)
        d_data = pulled(slope * correction, Z, self.centres)
        value, gradient = self.gp.mean + prior + data, self.gp.to_cube(d_prior + d_data)
        if self.gp.prior is None:
            return value, gradient
        more, d_more = self.gp.prior.slopes(X)
        return value + more / self.gp.scale, gradient + d_more / self.gp.scale


def draw(gp: GP, names: Sequence[str], count: int, rng: np.random.Generator) -> Paths:
    """`count` posterior sample paths; if the process has fantasies, given the first of them."""
    key = int(rng.integers(2**32))
    omega = np.vstack(
        [
            np.random.default_rng([key, crc32(name.encode())]).standard_normal(
                (max(int(options), 1), FEATURES)
            )
            for name, options in zip(names, gp.options, strict=True)
        ]
    )
    freedom = 5.0  # 2 nu
    omega *= np.sqrt(freedom / rng.chisquare(freedom, FEATURES))
    phase = rng.uniform(0.0, 2.0 * np.pi, FEATURES)
    weight = rng.standard_normal((FEATURES, count)) * np.sqrt(2.0 * gp.variance / FEATURES)
    centres = gp.embedded(gp.X)
    prior = np.cos(centres @ omega + phase) @ weight
    noise = np.sqrt(gp.noise) * rng.standard_normal(prior.shape)
    correction, _ = lapack.dpotrs(
        gp.L, gp.targets[:, :1] - gp.expected(gp.X) - prior - noise, lower=1
    )
    return Paths(gp, centres, omega, phase, weight, np.asarray(correction))


Bounds = Sequence[tuple[Paths, float]]  # paths of the constraints, and their upper bounds


def minima(
    paths: Paths, space: Space, near: Array, rng: np.random.Generator, bounds: Bounds = ()
) -> Array:
    """(p,) the minimum of each path: over all rows of a table, or by screening and ascent.

    With bounds it is the minimum over the points where path i of every constraint is within its
    bound, and over `near`, whose values were measured. An ascent that leaves this region is cut
    back to it.

    Args:
        near: (k, d) further points to search at and around.
    """
    if bounds:
        return _bounded_minima(paths, space, near, rng, bounds)
    if space.rows is not None:
        rows = np.vstack([space.rows[_may_be_lowest(paths.gp, space.rows)], near])
        parts = range(0, len(rows), CHUNK)
        lows = [paths.at(rows[i : i + CHUNK]).min(axis=0) for i in parts]
        return np.asarray(np.min(lows, axis=0))
    X = np.vstack([candidates(space, rng, near, Effort()), near])
    value = paths.at(X)
    lowest = X[value.argmin(axis=0)]
    free = space.active(lowest) & (space.options == 0)
    ends = climb(_Downhill(paths), lowest, free, STEPS, paths.gp.lengthscales)
    found, _ = paths.along(space.snap(ends), np.arange(len(ends)))
    return np.asarray(np.minimum(value.min(axis=0), found))


def _bounded_minima(
    paths: Paths, space: Space, near: Array, rng: np.random.Generator, bounds: Bounds
) -> Array:
    here = paths.at(near)
    if space.rows is not None:
        parts = range(0, len(space.rows), CHUNK)
        lows = [_within(paths, space.rows[i : i + CHUNK], bounds).min(axis=0) for i in parts]
        return np.asarray(np.minimum(np.min(lows, axis=0), here.min(axis=0)))
    X = np.vstack([near, candidates(space, rng, near, Effort())])
    value = _within(paths, X, bounds)
    value[: len(near)] = here
    lowest = X[value.argmin(axis=0)]
    found = value.min(axis=0)
    free = space.active(lowest) & (space.options == 0)
    ends = climb(_Downhill(paths), lowest, free, STEPS, paths.gp.lengthscales)
    each = np.arange(len(ends))
    for share in CUTS:
        points = space.snap(lowest + share * (ends - lowest))
        inside = np.all([path.along(points, each)[0] <= most for path, most in bounds], axis=0)
        found = np.where(inside, np.minimum(found, paths.along(points, each)[0]), found)
    return np.asarray(found)


def _within(paths: Paths, X: Array, bounds: Bounds) -> Array:
    """(m, p) the value of every path at every point, inf where a constraint is not met."""
    met = np.all([path.at(X) <= most for path, most in bounds], axis=0)
    return np.where(met, paths.at(X), np.inf)


def _may_be_lowest(gp: GP, rows: Array) -> NDArray[np.bool_]:
    """Whether mean - CERTAIN std of each row is at most the least mean + CERTAIN std."""
    parts = [gp.at(rows[i : i + CHUNK]) for i in range(0, len(rows), CHUNK)]
    mean = np.concatenate([part.mean[:, 0] for part in parts])
    spread = CERTAIN * np.concatenate([part.std for part in parts])
    return np.asarray(mean - spread <= (mean + spread).min())


@dataclass(frozen=True)
class _Downhill:
    """Minus path i at row i: one climb for each path, one call per step for all of them."""

    paths: Paths

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        value, slope = self.paths.along(X, np.arange(len(X)))
        return Rated(-value, np.full(len(X), -np.inf)), -slope, np.zeros_like(slope)
