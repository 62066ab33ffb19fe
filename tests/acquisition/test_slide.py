"""Constrained ascent, compared with closed forms and with scipy's SLSQP."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize

from farthing.acquisition.ascent import Rated, slide


@dataclass(frozen=True)
class Hill:
    """score g'x - |x - low|^2 bend;  shortfall (x - top)'A(x - top)/2 - depth: a hill of EI."""

    g: np.ndarray
    top: np.ndarray
    A: np.ndarray
    depth: float
    bend: float = 0.0
    low: float = 0.4

    def at(self, X):
        t = X - self.top
        score = X @ self.g - self.bend * ((X - self.low) ** 2).sum(axis=1)
        return Rated(score, 0.5 * np.einsum("si,ij,sj->s", t, self.A, t) - self.depth)

    def slopes(self, X):
        score = self.g - 2.0 * self.bend * (X - self.low)
        return self.at(X), score, (X - self.top) @ self.A


def hill(seed, d, *, narrow, top=None, bend=0.0):
    """A hill of width `narrow` with rotated axes."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    A = Q @ np.diag(np.geomspace(1.0, 10.0, d)) @ Q.T / narrow**2
    top = np.full(d, 0.5) if top is None else top
    return Hill(rng.standard_normal(d), top, A, depth=0.36, bend=bend)


def slid(surface, X, steps=30, free=None):
    X = np.atleast_2d(X)
    free = np.ones(X.shape, dtype=bool) if free is None else free
    return slide(surface, X, free, steps, np.full(X.shape[1], 0.3), surface.depth)


def ellipsoid(d, narrow):
    """A hill, its constrained maximum top + sqrt(2 depth / g'A^-1 g) A^-1 g, and three points.

    They lie at 0, 0.5 and 1.5 times the distance from the top to the boundary.
    """
    surface = hill(d, d, narrow=narrow)
    way = np.linalg.solve(surface.A, surface.g)
    highest = surface.top + np.sqrt(2 * surface.depth / (surface.g @ way)) * way
    apart = np.random.default_rng(1).standard_normal((3, d))
    apart /= np.sqrt(np.einsum("si,ij,sj->s", apart, surface.A, apart) / 2 / surface.depth)[:, None]
    return surface, highest, surface.top + apart * np.array([[1e-9], [0.5], [1.5]])


@pytest.mark.parametrize("narrow", [1e-3, 0.02, 0.3])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_the_highest_point_of_an_ellipsoid(d, narrow):
    surface, highest, starts = ellipsoid(d, narrow)
    ends = slid(surface, starts[:2], steps=40)
    np.testing.assert_allclose(ends, np.tile(highest, (2, 1)), atol=1e-2 * narrow)
    score, shortfall = surface.at(ends)
    assert np.all(shortfall <= 0)
    np.testing.assert_allclose(score, surface.g @ highest, atol=1e-6)


@pytest.mark.parametrize("narrow", [1e-3, 0.02, 0.3])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_from_outside_the_first_slide_ends_inside(d, narrow):
    surface, highest, starts = ellipsoid(d, narrow)
    inside = slid(surface, starts[2:])
    assert surface.at(starts[2:]).shortfall[0] > 0.2
    assert surface.at(inside).shortfall[0] <= 0
    assert surface.at(slid(surface, inside)).score[0] == pytest.approx(
        surface.g @ highest, abs=1e-6
    )


@pytest.mark.parametrize("seed", range(8))
def test_same_maximum_as_slsqp_with_active_bounds(seed):
    rng = np.random.default_rng(100 + seed)
    d = 5
    top = rng.choice([0.0, 0.5, 1.0], d)
    surface = hill(seed, d, narrow=0.3, top=top, bend=0.4)
    result = minimize(
        lambda x: -surface.at(x[None]).score[0],
        top,
        bounds=[(0, 1)] * d,
        constraints={"type": "ineq", "fun": lambda x: -surface.at(x[None]).shortfall[0]},
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-14},
    )
    end = slid(surface, top, steps=25)
    assert np.all((end >= 0) & (end <= 1))
    assert surface.at(end).shortfall[0] <= 0
    assert surface.at(end).score[0] == pytest.approx(-result.fun, abs=1e-5)
    np.testing.assert_allclose(end[0], result.x, atol=3e-3)


def test_an_interior_maximum_is_found():
    surface = Hill(np.zeros(3), np.full(3, 0.5), np.eye(3), depth=0.36, bend=2.0)
    end = slid(surface, np.array([0.55, 0.5, 0.45]))
    np.testing.assert_allclose(end[0], 0.4, atol=1e-3)


def test_only_the_free_coordinates_move():
    surface = hill(3, 4, narrow=0.2)
    start = surface.top + np.array([[0.0, 0.01, 0.0, 0.0], [0.0, 0.01, 0.0, 0.0]])
    free = np.array([[True, False, True, True], [False] * 4])
    ends = slid(surface, start, free=free)
    np.testing.assert_array_equal(ends[0, 1], start[0, 1])
    np.testing.assert_array_equal(ends[1], start[1])
    assert surface.at(ends).score[0] > surface.at(start).score[0] + 0.01


def test_a_steep_start_does_not_slow_the_others():
    """The last coordinate, which is not free, sets how steep the surface is at a start."""

    class Uneven(Hill):
        def at(self, X):
            score, shortfall = Hill.at(self, X)
            return Rated(score * 1e6 ** X[:, -1], shortfall)

        def slopes(self, X):
            _, score, shortfall = Hill.slopes(self, X)
            return self.at(X), score * 1e6 ** X[:, -1:], shortfall

    plain = hill(5, 2, narrow=0.1)
    A = np.zeros((3, 3))
    A[:2, :2] = plain.A
    surface = Uneven(np.append(plain.g, 0.0), np.full(3, 0.5), A, plain.depth)
    free = np.array([[True, True, False]])
    starts = np.array([[0.5, 0.52, 0.0], [0.52, 0.5, 1.0]])
    together = slid(surface, starts, free=np.repeat(free, 2, axis=0))
    alone = np.vstack([slid(surface, x, free=free) for x in starts])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_starts_together_end_where_each_ends_alone():
    surface = hill(5, 3, narrow=0.1, bend=0.5)
    starts = surface.top + 0.02 * np.random.default_rng(2).standard_normal((5, 3))
    together = slid(surface, starts)
    alone = np.vstack([slid(surface, x) for x in starts])
    np.testing.assert_allclose(surface.at(together).score, surface.at(alone).score, atol=1e-6)
