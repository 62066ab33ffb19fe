"""Maximisation of surfaces with known maxima, or compared with fine grids."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farthing import Categorical, Float, Int, Ordinal, Space
from farthing.acquisition.search import (
    FEWEST_ROWS,
    Effort,
    Found,
    Rated,
    _flip,
    candidates,
    climb,
    is_among,
    maximise,
    sobol,
)

NOWHERE = -np.inf


def cube(d):
    return Space({f"p{j}": Float(3, 7) for j in range(d)})


def none(d):
    return np.empty((0, d))


def search(surface, space, *, seed=0, tried=None, near=None, **settings):
    empty = none(space.d)
    return maximise(
        surface,
        space,
        np.random.default_rng(seed),
        tried=empty if tried is None else np.asarray(tried, dtype=float),
        near=empty if near is None else np.asarray(near, dtype=float),
        **settings,
    )


@dataclass(frozen=True)
class Waves:
    """sum_j 0.4 cos(9 t_j) - 3 t_j^2, t = x - top: many maxima, the highest at `top`."""

    top: np.ndarray
    limit: float = np.inf  # of sum_j x_j

    def at(self, X):
        t = X - self.top
        score = (0.4 * np.cos(9 * t) - 3 * t**2).sum(axis=1)
        return Rated(score, X.sum(axis=1) - self.limit)

    def slopes(self, X):
        t = X - self.top
        return self.at(X), -3.6 * np.sin(9 * t) - 6 * t, np.ones_like(X)

    def highest(self):
        """The maximum by coordinate on a grid, because the surface is a sum over coordinates."""
        x = np.linspace(0, 1, 20001)
        t = x - np.asarray(self.top)[:, None]
        best = (0.4 * np.cos(9 * t) - 3 * t**2).argmax(axis=1)
        return x[best]


@dataclass(frozen=True)
class Bowl:
    """-weight |x - top|^2 with a linear limit: the constrained maximum is a projection."""

    top: np.ndarray
    limit: float = np.inf  # of slope . x
    slope: np.ndarray | float = 1.0
    weight: float = 1.0

    def at(self, X):
        score = -self.weight * ((X - self.top) ** 2).sum(axis=1)
        return Rated(score, (self.slope * X).sum(axis=1) - self.limit)

    def slopes(self, X):
        return (
            self.at(X),
            -2 * self.weight * (X - self.top),
            np.broadcast_to(self.slope, X.shape).astype(float),
        )


@dataclass(frozen=True)
class Plain:
    """Any function of rows, for spaces that are enumerated."""

    score: callable
    shortfall: callable = lambda X: np.full(len(X), NOWHERE)

    def at(self, X):
        return Rated(self.score(X), self.shortfall(X))


# ---------------------------------------------------------------- continuous
TOPS = {
    "inside": [0.31, 0.77, 0.12, 0.64, 0.45, 0.83],
    "on a face": [0.31, 1.0, 0.12, 0.0, 0.45, 0.83],
    "beyond a face": [0.31, 1.07, 0.12, -0.05, 0.45, 0.83],
    "in a corner": [0.0, 1.0, 1.0, 0.0, 1.0, 0.0],
}


@pytest.mark.parametrize("place", TOPS)
@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_highest_of_many_maxima(place, d, seed):
    surface = Waves(np.array(TOPS[place][:d]))
    found = search(surface, cube(d), seed=seed)
    highest = surface.highest()
    np.testing.assert_allclose(found.X[0], highest, atol=1e-3)
    assert found.score[0] >= surface.at(highest[None]).score[0] - 1e-6
    np.testing.assert_array_equal(found.score, surface.at(found.X).score)
    assert np.all(np.diff(found.score) <= 0)


@pytest.mark.parametrize("d", [2, 5])
def test_the_points_found_are_valid(d):
    space = cube(d)
    found = search(Waves(np.array(TOPS["inside"][:d])), space)
    np.testing.assert_array_equal(space.snap(found.X), found.X)
    assert found.X.min() >= 0
    assert found.X.max() <= 1


def test_a_narrow_peak_is_found_near_a_good_point():
    """The peak is too narrow for the screen, but next to a known point."""

    class Needle(Bowl):
        def at(self, X):
            r2 = ((X - self.top) ** 2).sum(axis=1)
            return Rated(np.exp(-r2 / 2e-5), np.full(len(X), NOWHERE))

        def slopes(self, X):
            rated = self.at(X)
            return rated, -(X - self.top) / 1e-5 * rated.score[:, None], np.zeros_like(X)

    top = np.array([0.71, 0.23, 0.57])
    blind = search(Needle(top), cube(3))
    assert blind.score[0] < 0.9
    found = search(Needle(top), cube(3), near=[top + np.array([0.003, -0.002, 0.001])])
    assert found.score[0] > 1 - 1e-6


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_a_flat_and_a_steep_surface(scale):
    """Scores are logarithms or in units of the data: 0.001 is small, but must still work."""
    top = np.array([0.71, 0.23, 0.57])
    found = search(Bowl(top, weight=scale), cube(3))
    assert np.abs(found.X[0] - top).max() < 0.02 / np.sqrt(min(scale, 1.0) * 1e3)


@dataclass(frozen=True)
class Shifted(Waves):
    """0.01 times the waves, plus a constant."""

    shift: float = 0.0

    def at(self, X):
        rated = super().at(X)
        return rated._replace(score=0.01 * rated.score + self.shift)

    def slopes(self, X):
        _, gradient, d_shortfall = super().slopes(X)
        return self.at(X), 0.01 * gradient, d_shortfall


@pytest.mark.parametrize("shift", [-40.0, 3.0, 1000.0])
def test_a_constant_added_to_the_score_changes_nothing(shift):
    """Different units of value or cost add a constant to a logarithmic score."""
    top = np.array(TOPS["inside"][:3])
    there, here = (search(Shifted(top, shift=by), cube(3)).X[0] for by in (shift, 0.0))
    np.testing.assert_allclose(there, here, atol=1e-6)


def test_the_result_depends_on_the_seed_only():
    surface = Waves(np.array(TOPS["inside"][:3]))
    one, same, other = (search(surface, cube(3), seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.X, same.X)
    assert not np.array_equal(one.X, other.X)


# ---------------------------------------------------------------- climbing
@pytest.mark.parametrize("d", [1, 3, 6])
def test_a_climb_ends_at_a_local_maximum(d):
    """The gradient is zero, or points out of the cube."""
    surface = Waves(np.array(TOPS["beyond a face"][:d]))
    starts = np.random.default_rng(2).random((12, d))
    alone = [climb(surface, x[None], np.ones((1, d), dtype=bool), (200,)) for x in starts]
    ends = np.vstack(alone)  # climbing together, starts that cannot win stop early
    assert np.all(surface.at(ends).score >= surface.at(starts).score)
    _, gradient, _ = surface.slopes(ends)
    outward = ((ends == 0) & (gradient < 0)) | ((ends == 1) & (gradient > 0))
    assert np.abs(np.where(outward, 0.0, gradient)).max() < 0.01  # a possible gain of 3e-6
    if d > 1:
        assert outward.any()
    assert len(np.unique(ends.round(2), axis=0)) > 1  # to different maxima


def test_only_the_free_coordinates_move():
    surface = Waves(np.array([0.31, 0.77, 0.12]))
    starts = np.random.default_rng(3).random((8, 3))
    free = np.random.default_rng(4).random((8, 3)) < 0.5
    ends = climb(surface, starts, free, (60,))
    np.testing.assert_array_equal(ends[~free], starts[~free])
    moved = free & (starts != ends)
    assert moved.sum() > 0.8 * free.sum()


def test_every_start_has_an_end():
    surface = Waves(np.array([0.31, 0.77, 0.12]))
    starts = np.random.default_rng(3).random((9, 3))
    ends = climb(surface, starts, np.ones((9, 3), dtype=bool), (4, 4, 30))
    assert ends.shape == (9, 3)


def test_a_surface_that_is_nan_in_some_region():
    class PartlyNaN(Bowl):
        def at(self, X):
            rated = super().at(X)
            return rated._replace(score=np.where(X[:, 0] < 0.5, np.nan, rated.score))

        def slopes(self, X):
            rated = self.at(X)
            gradient = np.where(np.isnan(rated.score)[:, None], np.nan, -2 * (X - self.top))
            return rated, gradient, np.zeros_like(X)

    found = search(PartlyNaN(np.array([0.45, 0.8])), cube(2))
    np.testing.assert_allclose(found.X[0], [0.5, 0.8], atol=0.01)


# ---------------------------------------------------------------- affordable points
@pytest.mark.parametrize("d", [2, 4, 6])
@pytest.mark.parametrize("weight", [1.0, 100.0])
def test_a_maximum_on_the_boundary_of_the_affordable_region(d, weight):
    """The projection of `top` on the limit, in closed form."""
    top = np.linspace(0.6, 0.9, d)
    surface = Bowl(top, limit=top.sum() - 0.3 * d, weight=weight)
    found = search(surface, cube(d))
    np.testing.assert_allclose(found.X[0], top - 0.3, atol=1e-3)
    assert found.score[0] == pytest.approx(-weight * d * 0.3**2, abs=1e-4)
    assert np.all(surface.at(found.X).shortfall <= 0)


def test_a_boundary_and_a_bound_at_once():
    # Without the bound x2 >= 0, the projection on x1 + 3 x2 <= 0.9 would have x2 < 0.
    surface = Bowl(np.array([1.5, 0.1]), limit=0.9, slope=np.array([1.0, 3.0]))
    found = search(surface, cube(2))
    np.testing.assert_allclose(found.X[0], [0.9, 0.0], atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_many_maxima_under_a_limit(seed):
    surface = Waves(np.array([0.71, 0.83]), limit=0.8)
    x = np.linspace(0, 1, 801)
    grid = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    rated = surface.at(grid)
    best = rated.score[rated.shortfall <= 0].max()
    found = search(surface, cube(2), seed=seed)
    assert found.score[0] >= best - 1e-3
    assert np.all(surface.at(found.X).shortfall <= 0)


def test_if_nothing_is_affordable_nothing_is_found():
    found = search(Bowl(np.array([0.5, 0.5, 0.5]), limit=-1e-3), cube(3))
    assert found.X.shape == (0, 3)
    assert found.score.shape == (0,)


def test_a_tiny_affordable_region_is_found():
    """It contains no screened point: only a climb towards lower shortfall finds it."""

    class Sliver(Bowl):
        def at(self, X):
            distance = ((X - [0.613, 0.277]) ** 2).sum(axis=1)
            return Rated(-X[:, 0], distance - 1e-6)

        def slopes(self, X):
            slope = np.zeros_like(X)
            slope[:, 0] = -1.0
            return self.at(X), slope, 2 * (X - [0.613, 0.277])

    found = search(Sliver(np.zeros(2)), cube(2))
    assert np.linalg.norm(found.X[0] - [0.613, 0.277]) <= 1e-3


# ---------------------------------------------------------------- tried points
def test_a_tried_point_is_never_returned():
    space = Space({"k": Int(1, 6), "kind": Categorical(["a", "b"])})
    surface = Bowl(np.array([0.3, 0.25]))
    tried = none(2)
    for _ in range(12):
        found = search(surface, space, tried=tried)
        assert not is_among(found.X, tried).any()
        tried = np.vstack([tried, found.X[:1]])
    assert len(np.unique(tried, axis=0)) == 12
    scores = surface.at(tried).score
    assert np.all(np.diff(scores) <= 1e-12)  # each time the best remaining point
    assert len(search(surface, space, tried=tried).X) == 0


def test_next_to_a_tried_maximum_a_neighbour_is_returned():
    surface = Bowl(np.array([0.25, 0.5]))
    found = search(surface, cube(2), tried=[[0.25, 0.5]])
    assert 1e-8 < np.abs(found.X[0] - [0.25, 0.5]).max() < 0.05


def test_options_that_were_not_screened_are_found_next_to_a_continuous_parameter():
    @dataclass(frozen=True)
    class Steps:
        """Higher with each option, and towards x = 0.3."""

        def at(self, X):
            return Rated(X[:, 1] - (X[:, 0] - 0.3) ** 2, np.full(len(X), -1.0))

        def slopes(self, X):
            slope = np.column_stack([-2.0 * (X[:, 0] - 0.3), np.zeros(len(X))])
            return self.at(X), slope, np.zeros_like(X)

    space = Space({"x": Float(0, 1), "kind": Categorical(list("abcd"))})
    first = np.column_stack([np.linspace(0.0, 1.0, 9), np.full(9, 0.125)])
    found = search(Steps(), space, screened=first)
    np.testing.assert_allclose(found.X[0], [0.3, 0.875], atol=1e-4)


@given(st.integers(0, 1000), st.sampled_from([9, FEWEST_ROWS + 1]))
@settings(max_examples=20, deadline=None)
def test_is_among(seed, rows):
    rng = np.random.default_rng(seed)
    X, tried = (rng.integers(0, 3, size=(size, 2)) / 2 for size in (rows, 4))
    expected = [any((x == t).all() for t in tried) for x in X]
    assert is_among(X, tried).tolist() == expected
    assert is_among(-0.0 * X, tried).tolist() == [any((t == 0).all() for t in tried)] * rows
    assert not is_among(X, none(2)).any()


def test_is_among_many_rows():
    rng = np.random.default_rng(0)
    X, tried = rng.random((3000, 2)).round(2), rng.random((200, 2)).round(2) * 0.9
    tried = np.vstack([tried, X[::7]])
    points = {tuple(t) for t in tried}
    expected = [tuple(x) in points for x in X]
    assert 400 < sum(expected) < 3000
    assert is_among(X, tried).tolist() == expected


# ---------------------------------------------------------------- tables
TABLE = Space.from_rows(
    [{"x": float(x), "kind": kind} for x in np.linspace(2, 3, 41) for kind in ("a", "b", "c")]
)


def test_a_table_is_enumerated():
    rng = np.random.default_rng(0)
    score, shortfall = rng.normal(size=123), rng.normal(size=123)
    number = {row.tobytes(): i for i, row in enumerate(TABLE.rows)}

    def column(values):
        return lambda X: values[[number[x.tobytes()] for x in X]]

    tried = TABLE.rows[rng.permutation(123)[:30]]
    found = search(Plain(column(score), column(shortfall)), TABLE, tried=tried)
    allowed = [i for i in range(123) if shortfall[i] <= 0 and not is_among(TABLE.rows[[i]], tried)]
    order = sorted(allowed, key=lambda i: -score[i])
    np.testing.assert_array_equal(found.X, TABLE.rows[order])
    np.testing.assert_array_equal(found.score, score[order])


def test_the_first_of_equal_rows_wins():
    found = search(Plain(lambda X: np.round(X[:, 0])), TABLE)
    np.testing.assert_array_equal(found.X[0], TABLE.rows[TABLE.rows[:, 0] > 0.5][0])
    assert len(found.X) == 123


def test_rows_without_a_score_are_left_out():
    def score(X):
        return np.where(X[:, 0] > 0.9, np.nan, np.where(X[:, 0] > 0.8, -np.inf, X[:, 0]))

    found = search(Plain(score), TABLE)
    assert found.score.max() == TABLE.rows[TABLE.rows[:, 0] <= 0.8, 0].max()
    assert np.isfinite(found.score).all()


def test_a_long_table():
    space = Space.from_rows([{"i": i} for i in range(9001)])
    seen = []

    def score(X):
        seen.append(len(X))
        return -np.abs(X[:, 0] - 0.71)

    found = search(Plain(score), space)
    assert space.decode(found.X[0]) == {"i": 6390}
    assert max(seen) <= 4096
    assert sum(seen) == 9001


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("within", [0.0, 0.7, 2.5])
def test_a_table_with_upper_bounds_of_the_scores(seed, within):
    """The best rows are the same, and only rows that can be among them are scored."""
    space = Space.from_rows([{"i": i} for i in range(6000)])
    rng = np.random.default_rng(seed)
    score, shortfall = np.round(rng.normal(size=6000), 2), rng.normal(size=6000)
    score[:9] = np.nan
    ceiling = np.where(np.isnan(score), 9.0, score + rng.exponential(0.3, size=6000))
    seen = []

    def index(X):
        return np.searchsorted(space.rows[:, 0], X[:, 0])

    def look(X):
        seen.append(index(X))
        return score[index(X)]

    surface = Plain(look, lambda X: shortfall[index(X)])
    every = search(surface, space)
    seen.clear()
    found = search(surface, space, screened=space.rows, ceiling=ceiling, within=within)
    expected = every.score >= every.score[0] - within
    assert expected.sum() >= 1
    np.testing.assert_array_equal(found.X[: expected.sum()], every.X[expected])
    np.testing.assert_array_equal(found.score[: expected.sum()], every.score[expected])
    assert max(map(len, seen)) <= 4096
    scored = np.concatenate(seen)
    assert len(scored) == len(set(scored)) < 3000  # none twice


def test_with_infinite_upper_bounds_all_rows_are_scored():
    space = Space.from_rows([{"i": i} for i in range(5000)])
    surface = Plain(lambda X: -np.abs(X[:, 0] - 0.71), lambda X: X[:, 0] - 0.5)
    found = search(surface, space, screened=space.rows, ceiling=np.full(5000, np.inf))
    every = search(surface, space)
    np.testing.assert_array_equal(found.X, every.X)
    none = search(surface, space, screened=space.rows, ceiling=np.full(5000, -np.inf))
    assert len(none.X) <= 256


def test_a_table_of_which_all_rows_were_tried():
    assert len(search(Plain(lambda X: X[:, 0]), TABLE, tried=TABLE.rows).X) == 0


# ---------------------------------------------------------------- mixed and conditional
MIXED = Space(
    {
        "x": Float(2, 3),
        "kind": Categorical(["a", "b", "c"]),
        "k": Int(1, 5),
        "o": Ordinal([1, 10, 100], log=True),
        "z": Float(-4, -3, when={"kind": "b"}),
    }
)


@dataclass(frozen=True)
class Landscape:
    """The best x and z depend on every discrete coordinate, and the best kind depends on k."""

    limit: float = np.inf  # of x + k

    def _optimum(self, X):
        kind = np.minimum((3 * X[:, 1]).astype(int), 2)
        x = np.array([0.2, 0.55, 0.9])[kind] - 0.15 * X[:, 2]
        height = np.array([0.5, 0.9, 0.7])[kind] - (X[:, 2] - 0.4 * kind) ** 2
        return x, height - 0.3 * np.abs(X[:, 3] - 0.5), kind == 1

    def at(self, X):
        x, height, has_z = self._optimum(X)
        score = height - 8 * (X[:, 0] - x) ** 2 - has_z * 6 * (X[:, 4] - 0.8) ** 2
        return Rated(score, X[:, 0] + X[:, 2] - self.limit)

    def slopes(self, X):
        x, _, has_z = self._optimum(X)
        gradient = np.zeros_like(X)
        gradient[:, 0] = -16 * (X[:, 0] - x)
        gradient[:, 2] = -16 * (X[:, 0] - x) * 0.15  # the gradient of the relaxed k
        gradient[:, 4] = -12 * has_z * (X[:, 4] - 0.8)
        short = np.zeros_like(X)
        short[:, [0, 2]] = 1.0
        return self.at(X), gradient, short


@cache
def fine_grid(space):
    x = np.linspace(0, 1, 61)
    axes = [x if levels is None else levels for levels in space.levels]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, space.d)
    return np.unique(space.snap(grid), axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [np.inf, 0.9, 0.35])
def test_a_mixed_space_is_searched_as_well_as_by_a_fine_grid(limit):
    surface, grid = Landscape(limit), fine_grid(MIXED)
    rated = surface.at(grid)
    best = rated.score[rated.shortfall <= 0].max()
    for seed in range(3):
        found = search(surface, MIXED, seed=seed)
        assert found.score[0] >= best - 2e-3
        assert np.all(surface.at(found.X).shortfall <= 0)
        np.testing.assert_array_equal(MIXED.snap(found.X), found.X)
        assert "z" in MIXED.decode(found.X[0]) or found.X[0, 4] == 0.5


def test_no_climb_changes_options_or_inactive_coordinates():
    """There are no points between two options, and an inactive parameter has no value."""
    evaluated = []

    class Tempting(Landscape):
        """A surface whose gradient also has entries for options and inactive coordinates."""

        def slopes(self, X):
            evaluated.append(X.copy())
            rated, gradient, short = Landscape.slopes(self, X)
            return rated, gradient + np.array([0, 3.0, 0, 0, 3.0]), short

    search(Tempting(), MIXED)
    X = np.vstack(evaluated)
    assert set(X[:, 1]) <= set(MIXED.levels[1])
    inactive = ~MIXED.active(X)
    assert inactive.any()
    assert set(X[inactive]) == {0.5}


def test_the_most_promising_of_many_neighbours_are_polished():
    """The best kind needs another x: at the present x, two of the 29 combinations are better."""
    space = Space({"x": Float(3, 7), "kind": Categorical(range(15)), "o": Categorical(range(15))})
    place, height = np.full(15, 0.3), -np.arange(15.0)
    height[[7, 11]], place[11] = [-0.1, 1.0], 0.9

    class Places(Plain):
        def at(self, X):
            kind, other = np.minimum((15 * X[:, 1:].T).astype(int), 14)
            t = X[:, 0] - place[kind]
            return Rated(height[kind] - other - 4 * t**2, np.full(len(X), NOWHERE))

        def slopes(self, X):
            gradient = np.zeros_like(X)
            kind = np.minimum((15 * X[:, 1]).astype(int), 14)
            gradient[:, 0] = -8 * (X[:, 0] - place[kind])
            return self.at(X), gradient, np.zeros_like(X)

    here = space.encode({"x": 3 + 4 * 0.3, "kind": 0, "o": 0})[None]
    start = Found(here, np.zeros(1))
    found = _flip(Places(None), space, start, none(3), None, Effort(flips=1))
    assert found.score[0] == pytest.approx(1.0, abs=1e-6)
    best = space.decode(found.X[0])
    assert best == {"x": pytest.approx(3 + 4 * 0.9, abs=1e-3), "kind": 11, "o": 0}


def test_a_space_without_continuous_coordinates():
    space = Space(
        {
            "k": Int(1, 30),
            "kind": Categorical(["a", "b", "c", "d"]),
            "o": Ordinal([3, 30, 300]),
            "m": Int(5, 9),
        }
    )
    top = np.array([0.66, 0.625, 0.9, 0.1])
    surface = Bowl(top)
    best = surface.at(fine_grid(space)).score.max()
    assert search(surface, space).score[0] == pytest.approx(best, abs=1e-12)


def test_an_int_with_too_many_values_to_list():
    space = Space({"n": Int(1, 10**6), "x": Float(2, 3)})
    found = search(Bowl(np.array([0.4321, 0.8])), space)
    assert space.decode(found.X[0])["n"] == pytest.approx(432_100, abs=2_000)
    np.testing.assert_array_equal(space.snap(found.X), found.X)


# ---------------------------------------------------------------- screening
def test_sobol_is_always_the_same_and_even():
    X = sobol(64, 3)
    np.testing.assert_array_equal(X, sobol(64, 3))
    for column in X.T:
        assert sorted((column * 64).astype(int)) == list(range(64))
    assert sobol(100, 2).shape == (100, 2)


def test_candidates_are_valid_and_around_good_points():
    near = MIXED.snap(np.array([[0.31, 0.5, 0.5, 0.5, 0.21]]))
    effort = Effort(screen=64, around=128)
    X = candidates(MIXED, np.random.default_rng(0), near, effort)
    assert X.shape == (192, 5)
    np.testing.assert_array_equal(MIXED.snap(X), X)
    around = X[64:]
    assert not is_among(around, X[:64]).all()
    close = np.abs(around - near) < 0.05
    assert close[:, 0].mean() > 0.5 > (np.abs(X[:64] - near) < 0.05)[:, 0].mean()
    assert len(candidates(MIXED, np.random.default_rng(0), none(5), effort)) == 64
    other = candidates(MIXED, np.random.default_rng(1), near, effort)
    assert not np.array_equal(X[:64], other[:64])


def test_the_effort_bounds_the_number_of_points():
    calls = []

    @dataclass(frozen=True)
    class Counting(Waves):
        def at(self, X):
            calls.append(len(X))
            return super().at(X)

    search(Counting(np.array([0.3, 0.6])), cube(2), effort=Effort(screen=32, around=0, starts=3))
    assert calls[0] == 32
    assert max(calls[1:]) <= 4
