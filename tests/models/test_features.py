"""The log features of a space, and the neighbouring points of finite differences."""

import numpy as np
import pytest

from farthing import Categorical, Float, Int, Ordinal, Space
from farthing.models.features import around, is_positive, log_features

SPACE = Space(
    {
        "rate": Float(1e-4, 1e-1, log=True),
        "many": Int(1, 1001),  # one value more than are listed
        "few": Int(1, 5),
        "solver": Categorical(["sgd", "adam"]),
        "batch": Ordinal([16, 64, 256], log=True),
    }
)


@pytest.mark.parametrize(
    ("parameter", "positive"),
    [
        (Float(1e-9, 1), True),
        (Float(0, 1), False),
        (Int(1, 5), True),
        (Int(0, 5), False),
        (Ordinal([0.5, 2]), True),
        (Ordinal([0, 1, 2]), False),
        (Ordinal(["small", "large"]), False),
        (Categorical([1, 2]), False),
    ],
)
def test_only_positive_numbers_have_logarithms(parameter, positive):
    assert is_positive(parameter) is positive


def test_a_feature_is_a_logarithm_a_coordinate_or_an_option():
    space = Space(
        {
            "rate": Float(1e-4, 1e-1, log=True),
            "shift": Float(-1, 3),
            "batch": Ordinal([16, 64, 256]),
            "size": Ordinal(["small", "medium", "large"]),
            "solver": Categorical(["sgd", "adam", "lbfgs"]),
        }
    )
    params = [
        {"rate": 1e-3, "shift": 0.0, "batch": 64, "size": "large", "solver": "sgd"},
        {"rate": 1e-1, "shift": 3.0, "batch": 16, "size": "small", "solver": "adam"},
        {"rate": 1e-2, "shift": -1.0, "batch": 256, "size": "medium", "solver": "lbfgs"},
    ]
    X = np.array([space.encode(each) for each in params])
    found = log_features(space, X)
    assert found.source.tolist() == [0, 1, 2, 3, 4, 4]
    expected = [
        [np.log(1e-3), 0.25, np.log(64), 1.0, 0, 0],
        [np.log(1e-1), 1.0, np.log(16), 0.0, 1, 0],
        [np.log(1e-2), 0.0, np.log(256), 0.5, 0, 1],
    ]
    np.testing.assert_allclose(found.F, expected, atol=1e-12)
    across = (256 - 16) / np.array([64, 16, 256])  # d ln v / dx, v = 16 + 240 x
    for k, slope in enumerate((np.log(1e3), 1.0, across, 1.0, 0.0, 0.0)):
        np.testing.assert_allclose(found.slopes[:, k], slope, atol=1e-9)


def test_an_inactive_parameter_has_feature_0_or_the_middle():
    there = {"solver": "sgd"}
    space = Space(
        {
            "solver": Categorical(["sgd", "adam"]),
            "momentum": Float(0, 0.99, when=there),
            "warm": Int(1, 9, when=there),
        }
    )
    found = log_features(space, np.array([space.encode({"solver": "adam"})]))
    assert found.F.tolist() == [[1.0, 0.5, 0.0]]
    assert found.slopes.tolist() == [[0.0, 0.0, 0.0]]
    one = log_features(Space({"only": Categorical(["a"])}), np.array([[0.5]]))
    assert one.F.shape == one.slopes.shape == (1, 0)


def test_on_a_continuous_coordinate_a_difference_is_the_slope():
    """The curve is steep: a longer step would see its curvature."""
    x = np.array([0.2, 0.5, 0.9])
    after, before = around(SPACE, 0, x)
    slope = (np.exp(50 * after) - np.exp(50 * before)) / (after - before)
    assert slope == pytest.approx(50 * np.exp(50 * x), rel=1e-6)


def test_neighbours_of_integers_too_many_to_list_are_other_integers():
    X = SPACE.sample(200, np.random.default_rng(0))
    for end, further in zip(around(SPACE, 1, X[:, 1]), (1, -1), strict=True):
        moved = X.copy()
        moved[:, 1] = end
        for x, other in zip(X, moved, strict=True):
            here, there = SPACE.decode(x)["many"], SPACE.decode(other)["many"]
            assert there - here == further or here in (1, 1001)


@pytest.mark.parametrize(("name", "values"), [("few", [1, 2, 3, 4, 5]), ("batch", [16, 64, 256])])
def test_neighbours_of_listed_values_are_the_next_values(name, values):
    j = SPACE.names.index(name)
    after, before = around(SPACE, j, SPACE.levels[j])
    levels = list(SPACE.levels[j])
    assert [values[levels.index(x)] for x in after] == [*values[1:], values[-1]]
    assert [values[levels.index(x)] for x in before] == [values[0], *values[:-1]]


@pytest.mark.parametrize("j", range(SPACE.d))
def test_neighbours_stay_in_the_unit_cube(j):
    ends = np.array([0.0, 1.0]) if SPACE.levels[j] is None else SPACE.levels[j][[0, -1]]
    after, before = around(SPACE, j, ends)
    assert after[1] == ends[1]
    assert before[0] == ends[0]
