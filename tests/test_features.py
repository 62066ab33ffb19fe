"""The log features of a space, and the neighbours that differences are taken between."""

import numpy as np
import pytest

from farthing import Categorical, Float, Int, Ordinal, Space
from farthing.features import around

SPACE = Space(
    {
        "rate": Float(1e-4, 1e-1, log=True),
        "many": Int(1, 1001),  # one more than are listed
        "few": Int(1, 5),
        "solver": Categorical(["sgd", "adam"]),
        "batch": Ordinal([16, 64, 256], log=True),
    }
)


def test_on_a_continuous_coordinate_a_difference_is_the_slope():
    """Of a steep curve: a longer step would see its bend."""
    x = np.array([0.2, 0.5, 0.9])
    after, before = around(SPACE, 0, x)
    slope = (np.exp(50 * after) - np.exp(50 * before)) / (after - before)
    assert slope == pytest.approx(50 * np.exp(50 * x), rel=1e-6)


def test_of_integers_too_many_to_list_it_is_another_one():
    X = SPACE.sample(200, np.random.default_rng(0))
    for end, further in zip(around(SPACE, 1, X[:, 1]), (1, -1), strict=True):
        moved = X.copy()
        moved[:, 1] = end
        for x, other in zip(X, moved, strict=True):
            here, there = SPACE.decode(x)["many"], SPACE.decode(other)["many"]
            assert there - here == further or here in (1, 1001)


@pytest.mark.parametrize(("name", "values"), [("few", [1, 2, 3, 4, 5]), ("batch", [16, 64, 256])])
def test_of_a_list_it_is_the_next_value(name, values):
    j = SPACE.names.index(name)
    after, before = around(SPACE, j, SPACE.levels[j])
    levels = list(SPACE.levels[j])
    assert [values[levels.index(x)] for x in after] == [*values[1:], values[-1]]
    assert [values[levels.index(x)] for x in before] == [values[0], *values[:-1]]


@pytest.mark.parametrize("j", range(SPACE.d))
def test_it_never_leaves_the_cube(j):
    ends = np.array([0.0, 1.0]) if SPACE.levels[j] is None else SPACE.levels[j][[0, -1]]
    after, before = around(SPACE, j, ends)
    assert after[1] == ends[1]
    assert before[0] == ends[0]
