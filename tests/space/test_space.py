import copy
import math
import pickle
import sys
from collections.abc import Mapping
from typing import get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farthing.errors import InvalidInput
from farthing.space.space import Categorical, Float, Int, Ordinal, Space

MIXED = Space(
    {
        "lr": Float(1e-5, 1e-1, log=True),
        "depth": Int(1, 16),
        "batch": Ordinal([16, 64, 256], log=True),
        "solver": Categorical(["sgd", "adam", "lbfgs"]),
        "momentum": Float(0, 0.99, when={"solver": "sgd"}),
        "warm": Int(1, 10**6, log=True, when={"solver": ["sgd", "adam"], "depth": {3, 4, 5}}),
    }
)

FLOATS = [
    Float(5, 6),
    Float(-3e6, -1),
    Float(-5, 10),
    Float(0, 1),
    Float(0, 10),
    Float(1e5, 1e5 + 1),
    Float(1e-5, 1e-1, log=True),
    Float(1e-200, 1e200, log=True),
    Float(0.999, 1.001, log=True),
    Float(3e8, 4e8, log=True),
    Float(1e-30, 3e-30),
    Float(-1e150, 1e150),
]

INTS = [
    Int(-7, 12),
    Int(0, 1),
    Int(1, 1000),
    Int(1, 1000, log=True),
    Int(3, 5, log=True),
    Int(-(10**9), 10**9),
    Int(1, 10**9, log=True),
    Int(1, 1001, log=True),
    Int(2**40 - 5000, 2**40, log=True),
    Int(1_700_000_000_000, 1_700_000_100_000),
]

LISTS = [
    Ordinal([16, 64, 256], log=True),
    Ordinal([-3.5, 0, 0.1, 7]),
    Ordinal(["small", "medium", "large"]),
    Ordinal([False, True]),
    Ordinal([7]),
    Ordinal(["only"]),
    Ordinal([1, "two", None]),
    Categorical(["a", "b", "c"]),
    Categorical([True, False]),
    Categorical([None, "balanced", 3, 0.5, (1, 2)]),
    Categorical(["only"]),
]


def unit() -> st.SearchStrategy[float]:
    return st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.5, 5e-324, 1e-17, math.nextafter(1, 0)])


def one(parameter: object) -> Space:
    return Space({"p": parameter})


# -------------------------------------------------------------------------- coordinates of values


@pytest.mark.parametrize(
    ("parameter", "value", "coordinate"),
    [
        (Float(5, 6), 5.25, 0.25),
        (Float(-3e6, -1), -1, 1.0),
        (Float(1e-5, 1e-1, log=True), 1e-3, 0.5),
        (Float(0.01, 100, log=True), 0.1, 0.25),
        (Int(-7, 12), -7, 0.5 / 20),
        (Int(-7, 12), 12, 19.5 / 20),
        (Int(10**6, 2 * 10**6), 1_500_000, 0.5),
        (Int(1, 4, log=True), 2, math.log(2 / 0.5) / math.log(4.5 / 0.5)),
        (Int(1, 10**6, log=True), 1000, math.log(1000 / 0.5) / math.log(1_000_000.5 / 0.5)),
        (Ordinal([16, 64, 256], log=True), 64, 0.5),
        (Ordinal([-1, 0, 3]), 0, 0.25),
        (Ordinal(["s", "m", "l", "xl"]), "m", 1 / 3),
        (Ordinal([7]), 7, 0.5),
        (Ordinal(["only"]), "only", 0.5),
        (Categorical(["a", "b", "c", "d"]), "c", 0.625),
    ],
)
def test_values_have_the_coordinates_of_the_formula(parameter, value, coordinate):
    np.testing.assert_allclose(one(parameter).encode({"p": value}), [coordinate], rtol=1e-14)


def test_type_checkers_accept_a_dict_of_several_kinds():
    """mypy infers the common base class for the values of such a dict."""
    kinds = (Float, Int, Ordinal, Categorical)
    common = next(each for each in Float.__mro__ if all(issubclass(k, each) for k in kinds))
    assert common is not object
    assert get_type_hints(Space.__init__)["parameters"] == Mapping[str, common]


def test_attributes():
    assert MIXED.names == ("lr", "depth", "batch", "solver", "momentum", "warm")
    assert MIXED.d == 6
    assert MIXED.categorical.tolist() == [False, False, False, True, False, False]
    assert MIXED.rows is None
    lr, depth, batch, solver, momentum, warm = MIXED.levels
    assert lr is momentum is warm is None  # warm has a million values
    np.testing.assert_allclose(depth, (np.arange(16) + 0.5) / 16)
    np.testing.assert_allclose(batch, [0, 0.5, 1])
    np.testing.assert_allclose(solver, [1 / 6, 3 / 6, 5 / 6])
    assert one(Int(1, 1000)).levels[0].shape == (1000,)
    assert one(Int(1, 1001)).levels[0] is None


# ------------------------------------------------------------------------------------ round trips


@pytest.mark.slow
@pytest.mark.parametrize("parameter", FLOATS, ids=repr)
@settings(max_examples=60)
@given(data=st.data())
def test_floats_are_preserved_by_the_round_trip(parameter, data):
    space = one(parameter)
    x = space.snap(np.array([[data.draw(unit())]]))[0]
    params = space.decode(x)
    assert type(params["p"]) is float
    assert parameter.low <= params["p"] <= parameter.high
    assert space.encode(params).tolist() == x.tolist()
    assert space.decode(space.encode(params)) == params
    assert space.snap(x[None])[0].tolist() == x.tolist()

    value = data.draw(st.floats(parameter.low, parameter.high))
    once = space.encode({"p": value})
    assert 0 <= once[0] <= 1
    assert space.snap(once[None])[0].tolist() == once.tolist()
    assert space.encode(space.decode(once)).tolist() == once.tolist()
    ends = np.array([parameter.low, parameter.high])
    cell = 32 * np.finfo(float).eps  # at most, in units of the largest number of the scale
    if parameter.log:
        tolerance = cell * value * max(1.0, np.ptp(np.log(ends)), *abs(np.log(ends)))
    else:
        tolerance = cell * max(np.ptp(ends), *abs(ends))
    assert abs(space.decode(once)["p"] - value) <= tolerance


@pytest.mark.parametrize("parameter", FLOATS, ids=repr)
def test_the_ends_of_a_float_are_exact(parameter):
    space = one(parameter)
    assert space.decode([0.0]) == {"p": parameter.low}
    assert space.decode([1.0]) == {"p": parameter.high}
    assert space.encode({"p": parameter.low}).tolist() == [0.0]
    assert space.encode({"p": parameter.high}).tolist() == [1.0]


@given(st.floats(0, 1))
def test_every_float_of_the_unit_interval_is_preserved(value):
    assert one(Float(0, 1)).decode(one(Float(0, 1)).encode({"p": value})) == {"p": value}


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameter",
    [Float(-5, 10), Float(0, 15), Float(1e-5, 1e-1, log=True), Float(-3e6, -1), Float(5, 6)],
    ids=repr,
)
@given(data=st.data())
def test_typed_numbers_are_decoded_as_typed(parameter, data):
    digits = data.draw(st.integers(1, 12 - math.ceil(math.log10(parameter.high - parameter.low))))
    value = round(data.draw(st.floats(parameter.low, parameter.high)), digits)
    if parameter.low <= value <= parameter.high:
        assert one(parameter).decode(one(parameter).encode({"p": value})) == {"p": value}


def test_short_numbers_stay_short():
    space = one(Float(1e-5, 1e-1, log=True))
    assert repr(space.decode(space.encode({"p": 3e-4}))["p"]) == "0.0003"
    assert repr(one(Float(-5, 10)).decode([0.02])["p"]) == "-4.7"


@pytest.mark.slow
@pytest.mark.parametrize("parameter", INTS, ids=repr)
@settings(max_examples=50)
@given(data=st.data())
def test_integers_are_preserved_by_the_round_trip(parameter, data):
    space = one(parameter)
    ends = st.sampled_from([parameter.low, parameter.high])
    value = data.draw(st.integers(parameter.low, parameter.high) | ends)
    x = space.encode({"p": value})
    assert 0 < x[0] < 1
    back = space.decode(x)["p"]
    assert back == value
    assert type(back) is int
    assert space.snap(x[None]).tolist() == [x.tolist()]
    assert space.natural(x[None]).tolist() == [[value]]


@pytest.mark.parametrize("parameter", INTS, ids=repr)
def test_snapped_integers_encode_to_the_same_bits_in_bulk(parameter):
    space = one(parameter)
    X = space.snap(np.random.default_rng(3).random((1003, 1)))
    again = np.array([space.encode(space.decode(x)) for x in X])
    assert (again == X).all()
    assert (space.snap(X) == X).all()


@pytest.mark.parametrize("parameter", LISTS, ids=repr)
def test_listed_values_are_preserved_by_the_round_trip(parameter):
    space = one(parameter)
    values = parameter.options if isinstance(parameter, Categorical) else parameter.values
    coordinates = [space.encode({"p": value})[0] for value in values]
    assert coordinates == space.levels[0].tolist() == sorted(coordinates)
    for value, x in zip(values, coordinates, strict=True):
        back = space.decode([x])["p"]
        assert back is value
        assert space.snap(np.array([[x]])).tolist() == [[x]]


@settings(max_examples=100)
@given(st.lists(unit(), min_size=6, max_size=6))
def test_mixed_and_conditional_points_are_preserved_by_the_round_trip(u):
    U = np.array([u])
    for x in (MIXED.snap(U)[0], MIXED.spread(U)[0]):
        params = MIXED.decode(x)
        assert MIXED.encode(params).tolist() == x.tolist()
        assert MIXED.decode(MIXED.encode(params)) == params
        assert ("momentum" in params) == (params["solver"] == "sgd")
        assert ("warm" in params) == (params["solver"] != "lbfgs" and params["depth"] in (3, 4, 5))
    assert MIXED.decode(U[0]) == MIXED.decode(MIXED.snap(U)[0])


def test_numpy_scalars_go_in_and_python_values_come_out():
    space = Space({"x": Float(0, 4), "n": Int(0, 9), "c": Categorical(np.array(["a", "b"]))})
    params = {"x": np.float32(0.5), "n": np.int64(3), "c": np.str_("b")}
    back = space.decode(space.encode(params))
    assert back == {"x": 0.5, "n": 3, "c": "b"}
    assert [type(value) for value in back.values()] == [float, int, str]
    assert Ordinal(np.array([1, 2, 4])).values == (1, 2, 4)
    assert type(Ordinal(np.array([1, 2, 4])).values[0]) is int


# ----------------------------------------------------------------------------- snap, spread, sample


def test_snap_takes_the_nearest_level():
    space = Space(
        {"n": Int(2, 6, log=True), "o": Ordinal([1, 2, 10]), "c": Categorical(["ab", "c"])}
    )
    X = np.random.default_rng(0).random((300, 3))
    for j, column in enumerate(space.snap(X).T):
        distance = np.abs(X[:, j, None] - space.levels[j])
        assert (space.levels[j][distance.argmin(axis=1)] == column).all()


def test_snap_of_a_large_log_integer_takes_the_nearest_level():
    space = one(Int(1, 5000, log=True))
    levels = np.array([space.encode({"p": v})[0] for v in range(1, 5001)])
    X = np.random.default_rng(0).random((500, 1))
    assert (space.snap(X)[:, 0] == levels[np.abs(X - levels).argmin(axis=1)]).all()


def test_snap_clips_moves_floats_by_ulps_only_and_leaves_its_argument_alone():
    space = Space({"a": Float(5, 6), "b": Float(-3e6, -1), "c": Float(1e-9, 1, log=True)})
    X = np.random.default_rng(0).uniform(-0.2, 1.2, (200, 3))
    before = X.copy()
    np.testing.assert_allclose(space.snap(X), np.clip(X, 0, 1), rtol=0, atol=1e-13)
    assert (before == X).all()


def test_inactive_coordinates_are_in_the_middle():
    X = MIXED.snap(np.random.default_rng(1).random((400, 6)))
    active = MIXED.active(X)
    sgd, lbfgs = MIXED.levels[3][0], MIXED.levels[3][2]
    assert (active[:, :4]).all()
    assert (active[:, 4] == (X[:, 3] == sgd)).all()
    deep = np.isin(X[:, 1], MIXED.levels[1][2:5])
    assert (active[:, 5] == (deep & (X[:, 3] != lbfgs))).all()
    assert (X[~active] == 0.5).all()
    assert 0 < active[:, 5].sum() < active[:, 4].sum() < 400


@pytest.mark.parametrize("draw", ["spread", "sample"])
def test_every_level_is_equally_likely(draw):
    space = Space(
        {
            "n": Int(-7, 12),
            "o": Ordinal([1, 2, 1000]),
            "c": Categorical(["a", "b", "c"]),
            "big": Int(0, 9999),
            "x": Float(2, 3),
        }
    )
    rng = np.random.default_rng(5)
    X = space.sample(6000, rng) if draw == "sample" else space.spread(rng.random((6000, 5)))
    for j, k in enumerate([20, 3, 3]):
        counts = np.array([(X[:, j] == level).sum() for level in space.levels[j]])
        assert counts.sum() == 6000
        expected = 6000 / k
        assert np.abs(counts - expected).max() < 4.5 * math.sqrt(expected)
    for j in (3, 4):
        tenths = np.histogram(X[:, j], bins=10, range=(0, 1))[0]
        assert np.abs(tenths - 600).max() < 4.5 * math.sqrt(600)


def test_spread_is_the_quantile_map():
    space = Space({"o": Ordinal([1, 2, 1000]), "n": Int(5, 8)})
    U = np.array([[0.0, 0.0], [0.33, 0.249], [0.34, 0.251], [0.67, 0.6], [1.0, 1.0]])
    assert [space.decode(x) for x in space.spread(U)] == [
        {"o": 1, "n": 5},
        {"o": 1, "n": 5},
        {"o": 2, "n": 6},
        {"o": 1000, "n": 7},
        {"o": 1000, "n": 8},
    ]


@pytest.mark.parametrize("high", [1000, 100_000])
def test_an_integer_on_a_log_scale_is_spread_by_its_share_of_the_scale(high):
    space = one(Int(1, high, log=True))
    values = space.natural(space.sample(8000, np.random.default_rng(2)))[:, 0]
    for v in (1, 2, 7):
        share = math.log((v + 0.5) / (v - 0.5)) / math.log((high + 0.5) / 0.5)
        assert abs((values == v).sum() - 8000 * share) < 4.5 * math.sqrt(8000 * share)


def test_sampling_is_reproducible_from_the_rng():
    a, b = (MIXED.sample(50, np.random.default_rng(9)) for _ in range(2))
    assert (a == b).all()
    assert not (a == MIXED.sample(50, np.random.default_rng(10))).all()


def test_natural_values_are_the_decoded_ones():
    space = Space(
        {
            "lr": Float(1e-5, 1e-1, log=True),
            "x": Float(-8, -7),
            "n": Int(1, 10**6, log=True),
            "small": Int(-3, 3, when={"c": "a"}),
            "o": Ordinal([0.5, 8]),
            "rank": Ordinal(["low", "high"]),
            "c": Categorical(["a", "b"]),
        }
    )
    X = space.sample(60, np.random.default_rng(4))
    natural = space.natural(X)
    assert np.isnan(natural[:, 5:]).all()
    for x, numbers in zip(X, natural, strict=True):
        params = space.decode(x)
        for j, name in enumerate(space.names[:5]):
            if name in params:
                np.testing.assert_allclose(numbers[j], params[name], rtol=1e-13)
            else:
                assert math.isnan(numbers[j])
    assert 0 < np.isnan(natural[:, 3]).sum() < 60


# ----------------------------------------------------------------------------------------- tables


def test_a_table_gives_its_rows_back():
    rows = [
        {"solver": "sgd", "lr": 0.1, "momentum": 0.9, "n": 1, "flag": True},
        {"solver": "adam", "lr": 0.01, "momentum": None, "n": 3, "flag": False},
        {"solver": "adam", "lr": 0.001, "n": 2, "momentum": math.nan, "flag": True},
        {
            "solver": "sgd",
            "lr": np.float64(0.0001),
            "momentum": 0.5,
            "n": np.int64(4),
            "flag": True,
        },
    ]
    space = Space.from_rows(rows)
    plain = [
        {"solver": "sgd", "lr": 0.1, "momentum": 0.9, "n": 1, "flag": True},
        {"solver": "adam", "lr": 0.01, "n": 3, "flag": False},
        {"solver": "adam", "lr": 0.001, "n": 2, "flag": True},
        {"solver": "sgd", "lr": 0.0001, "momentum": 0.5, "n": 4, "flag": True},
    ]
    assert space.names == ("solver", "lr", "momentum", "n", "flag")
    assert space.categorical.tolist() == [True, False, False, False, True]
    assert space.parameters["lr"] == Ordinal([0.0001, 0.001, 0.01, 0.1], log=True)
    assert space.parameters["n"] == Ordinal([1, 2, 3, 4])
    for row, given_row, x in zip(plain, rows, space.rows, strict=True):
        assert space.decode(x) == row
        assert [type(v) for v in space.decode(x).values()] == [
            type(row[k]) for k in space.decode(x)
        ]
        assert space.encode(row).tolist() == space.encode(given_row).tolist() == x.tolist()
    np.testing.assert_allclose(space.rows[:, 1], [1, 2 / 3, 1 / 3, 0])
    np.testing.assert_allclose(space.rows[:, 2], [1, 0.5, 0.5, 0])
    np.testing.assert_allclose(space.rows[:, 3], [0, 2 / 3, 1 / 3, 1])
    assert space.active(space.rows)[:, 2].tolist() == [True, False, False, True]
    natural = space.natural(space.rows)
    np.testing.assert_array_equal(natural[:, 2], [0.9, np.nan, np.nan, 0.5])
    np.testing.assert_array_equal(natural[:, 3], [1, 3, 2, 4])
    assert np.isnan(natural[:, [0, 4]]).all()


class Frame:
    """The one method of a data frame that Farthing uses."""

    def __init__(self, records):
        self.records = records

    def to_dict(self, orient):
        assert orient == "records"
        return self.records


@pytest.mark.parametrize("given", [3, "rows", {"a": [1, 2]}])
def test_other_things_than_rows_are_refused(given):
    with pytest.raises(InvalidInput, match="must be a list of dicts, or a data frame"):
        Space.from_rows(given)


def test_a_data_frame_is_a_table():
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert Space.from_rows(Frame(rows)) == Space.from_rows(rows)


CELLS = st.one_of(
    st.none(),
    st.integers(-5, 5),
    st.floats(-10, 10),
    st.sampled_from(["a", "b"]),
    st.just(math.nan),
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.fixed_dictionaries({"k": st.integers(0, 3)}, optional={"a": CELLS, "b": CELLS})))
def test_any_table_round_trips(rows):
    there = [{n: v for n, v in row.items() if v is not None and v == v} for row in rows]
    rows = [row for i, row in enumerate(rows) if there[i] not in there[:i]]  # without duplicates
    columns = {n for row in rows for n in row}
    filled = {n for row in rows for n, v in row.items() if v is not None and v == v}
    if not rows or columns != filled:
        with pytest.raises(InvalidInput):
            Space.from_rows(rows)
        return
    space = Space.from_rows(rows)
    assert ((space.rows >= 0) & (space.rows <= 1)).all()
    assert (space.snap(space.rows) == space.rows).all()
    for row, x in zip(rows, space.rows, strict=True):
        assert space.decode(x) == {n: v for n, v in row.items() if v is not None and v == v}
        assert space.encode(row).tolist() == x.tolist()


def test_rows_with_the_same_coordinates_get_distinct_points():
    rows = [{"a": 1, "b": b} for b in (2, 3, 4)] + [
        {"a": 1}
    ]  # 3 is in the middle, like an absent value
    space = Space.from_rows(rows)
    assert [space.decode(x) for x in space.rows] == rows
    assert len({x.tobytes() for x in space.rows}) == 4
    np.testing.assert_allclose(space.rows[3], space.rows[1])


def test_rows_closer_than_a_tick_get_distinct_points():
    values = [math.nextafter(10, 0), 10.0, math.nextafter(-5, 0), -5.0]
    values += [10 - 4e-15, 10 - 6e-15, 1e-16, 2e-16, 3e-16]
    space = Space.from_rows([{"x": v} for v in values], {"x": Float(-5, 10)})
    assert [space.decode(x)["x"] for x in space.rows] == values
    assert ((space.rows >= 0) & (space.rows <= 1)).all()
    assert (space.snap(space.rows) == space.rows).all()


def test_numbers_too_close_for_levels_still_make_a_table():
    rows = [{"x": v} for v in (-1.0, 0.3, 0.1 + 0.2, 0, 3e-17, 1.0)]
    space = Space.from_rows(rows)
    assert space.parameters["x"] == Float(-1, 1)
    assert [space.decode(x) for x in space.rows] == rows
    np.testing.assert_allclose(space.rows[:, 0], [0, 0.65, 0.65, 0.5, 0.5, 1], atol=1e-14)


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1}, {"a": 2}, {"a": 1}],
        [{"a": 1}, {"a": 2}, {"a": 1.0}],
        [{"a": 1, "b": None}, {"a": 2, "b": 3}, {"a": 1}],
    ],
)
def test_duplicate_rows_are_refused(rows):
    with pytest.raises(InvalidInput, match=r"Row 2 is the same as row 0\. Leave one of them out"):
        Space.from_rows(rows)


def test_constant_columns_are_in_the_middle():
    space = Space.from_rows([{"a": 1, "b": 4.5, "c": "x"}, {"a": 2, "b": 4.5, "c": "x"}])
    assert space.rows.tolist() == [[0.0, 0.5, 0.5], [1.0, 0.5, 0.5]]


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ([1, 2, 3, 4], False),
        ([1, 10, 100], True),
        ([0, 1, 10, 100], False),
        ([-1, -10, -100], False),
        ([16, 32, 64, 128], True),
        ([3, 4], False),
        ([100, 101, 102], False),
        ([1e-300, 1, 1e300], True),
    ],
)
def test_a_log_scale_is_inferred_from_the_gaps(values, log):
    rows = [{"v": v} for v in reversed(values)]
    assert Space.from_rows(rows).parameters["v"] == Ordinal(sorted(values), log=log)


def test_given_parameters_override_inferred_ones():
    rows = [{"x": 0.25, "n": 3, "c": None}, {"x": 0.5, "n": 7, "c": "on"}]
    parameters = {"x": Float(0, 1), "n": Categorical([3, 7, 9]), "c": Categorical([None, "on"])}
    space = Space.from_rows(rows, parameters)
    assert space.rows.tolist() == [[0.25, 1 / 6, 0.25], [0.5, 0.5, 0.75]]
    assert [space.decode(x) for x in space.rows] == rows
    assert Space.from_rows(rows, {"x": Float(0, 1)}).rows[:, 0].tolist() == [0.25, 0.5]


def brute_nearest(space, X):
    numbers = ((X[:, None] - space.rows) ** 2)[:, :, ~space.categorical].sum(axis=2)
    mismatches = 0
    for j in np.flatnonzero(space.categorical):
        nearest = np.abs(X[:, j, None] - space.levels[j]).argmin(axis=1)
        mismatches = mismatches + (space.levels[j][nearest][:, None] != space.rows[:, j])
    return numbers + mismatches


def test_snap_takes_the_nearest_row(monkeypatch):
    monkeypatch.setattr("farthing.space.table.CHUNK", 1000)  # several chunks
    rng = np.random.default_rng(8)
    rows = [
        {"x": float(x), "y": float(y), "c": "abcd"[int(c)]}
        for x, y, c in zip(
            rng.random(90), rng.lognormal(size=90), rng.integers(4, size=90), strict=True
        )
    ]
    space = Space.from_rows(rows)
    X = rng.uniform(-0.1, 1.1, (200, 3))
    distance = brute_nearest(space, np.clip(X, 0, 1))
    assert (space.snap(X) == space.rows[distance.argmin(axis=1)]).all()
    assert space.decode(X[0]) == rows[distance[0].argmin()]


def test_spread_and_sample_are_even_over_a_full_grid():
    rows = [{"a": a, "b": b, "c": c} for a in (1, 2, 50) for b in range(4) for c in "xyz"]
    space = Space.from_rows(rows)
    rng = np.random.default_rng(6)
    for X in (space.spread(rng.random((7200, 3))), space.sample(7200, rng)):
        counts = np.array([(row == X).all(axis=1).sum() for row in space.rows])
        assert counts.sum() == 7200
        assert np.abs(counts - 200).max() < 4.5 * math.sqrt(200)


def test_a_row_that_is_not_in_the_table_is_refused_and_the_nearest_is_named():
    space = Space.from_rows(
        [{"lr": 0.1, "s": "a"}, {"lr": 0.01, "s": "a"}, {"lr": 0.001, "s": "b"}]
    )
    with pytest.raises(InvalidInput, match=r"nearest is row 1, \{'lr': 0.01, 's': 'a'\}"):
        space.encode({"lr": 0.012, "s": "a"})
    with pytest.raises(InvalidInput, match="nearest is row 2"):
        space.encode({"lr": -5, "s": "b"})
    with pytest.raises(InvalidInput, match="nearest is row 0"):
        space.encode({"lr": 0.1, "s": ["unhashable"]})
    with pytest.raises(InvalidInput, match="not in the table"):
        space.encode({"lr": 0.1})
    with pytest.raises(InvalidInput, match="Unknown parameter 'z'"):
        space.encode({"lr": 0.1, "s": "a", "z": 1})


def test_a_large_table_is_built_and_searched():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 40, (20_000, 6)).tolist()
    rows = [dict(zip("abcdef", map(float, row), strict=True)) for row in table]
    space = Space.from_rows(rows)
    assert space.rows.shape == (20_000, 6)
    assert space.decode(space.rows[12_345]) == rows[12_345]
    X = rng.random((150, 6))
    chosen = space.snap(X)
    some = rng.integers(20_000, size=500)
    best = ((X[:, None] - space.rows[some]) ** 2).sum(axis=2).min(axis=1)
    assert (((X - chosen) ** 2).sum(axis=1) <= best + 1e-12).all()


# ----------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Space({}), "at least one parameter"),
        (lambda: Space([("x", Float(0, 1))]), "at least one parameter"),
        (lambda: Space({"x": 3}), "'x': 3 is not a parameter"),
        (lambda: Space({"x": Float}), "'x'.*is not a parameter"),
        (lambda: Space({3: Float(0, 1)}), "3 cannot name"),
        (lambda: Space({"": Float(0, 1)}), "'' cannot name"),
        (lambda: Float(1, 1), r"Float\(low=1, high=1\): low must be less than high"),
        (lambda: Float(2, 1), "low must be less than high"),
        (lambda: Int(5, 5), "low must be less than high"),
        (lambda: Float(0, math.inf), "inf is not finite"),
        (lambda: Float(math.nan, 1), "nan is not finite"),
        (lambda: Float(0, 10**400), "is not finite"),
        (lambda: Float(-1e308, 1e308), "wider than a float"),
        (lambda: Float(1, 1 + 1e-14), "too close"),
        (lambda: Float(0, 1e-300), "Use another unit"),
        (lambda: Float(1e-300, 1, log=True), "Use another unit"),
        (lambda: Float(False, True), "False is not a number"),
        (lambda: Float("0", 1), "'0' is not a number"),
        (lambda: Float(0, 1, log="yes"), "log must be True or False"),
        (
            lambda: Float(0, 1, log=True),
            r"Float\(low=0, high=1, log=True\): a log scale needs low > 0.*such as 1e-6\.",
        ),
        (lambda: Int(0, 8, log=True), r"a log scale needs low > 0.*such as 1\."),
        (lambda: Int(0.5, 8), "0.5 is not a whole number"),
        (lambda: Int(0, math.inf), "inf is not a whole number"),
        (lambda: Int(0, True), "True is not a whole number"),
        (lambda: Int(0, 2**45), "too many integers"),
        (lambda: Int(2**45, 2**45 + 5, log=True), "too many integers"),
        (lambda: Int(2**60, 2**60 + 5), "too many integers"),
        (lambda: Categorical([]), "must not be empty"),
        (lambda: Categorical(["a", "b", "a"]), "must all be different"),
        (lambda: Categorical([1, True]), "must all be different"),
        (lambda: Categorical("abc"), "must be a list"),
        (lambda: Categorical({"a", "b"}), "must be a list"),
        (lambda: Categorical(3), "must be a list"),
        (lambda: Categorical([[1], [2]]), "cannot be compared"),
        (lambda: Categorical([([],), 2]), "cannot be compared"),
        (lambda: Categorical([math.nan, 1.0]), "cannot be compared"),
        (lambda: Ordinal([]), "must not be empty"),
        (lambda: Ordinal([3, 2, 1]), "must increase"),
        (lambda: Ordinal([1, 1.0]), "must all be different"),
        (lambda: Ordinal(["a", "a"]), "must all be different"),
        (lambda: Ordinal([1, math.inf]), "must be finite"),
        (lambda: Ordinal([1, 10**400]), "not finite"),
        (lambda: Ordinal([0, 1], log=True), "needs values > 0"),
        (lambda: Ordinal(["a", "b"], log=True), "needs numbers"),
        (lambda: Ordinal([-1e308, 0, 1e308]), "wider than a float"),
        (lambda: Ordinal([-1, 1e-20, 2e-20]), "too close"),
        (lambda: Float(0, 1, when="solver"), "`when` must map"),
        (lambda: Float(0, 1, when={}), "`when` must map"),
        (lambda: Space.from_rows([]), "no rows"),
        (lambda: Space.from_rows([{}]), "no columns"),
        (lambda: Space.from_rows([{"a": 1}, {}]), "Row 1 has no values"),
        (lambda: Space.from_rows([{"a": 1, "b": None}]), "Column 'b' has no values"),
        (lambda: Space.from_rows([{"a": math.inf}]), "Column 'a'.*finite"),
        (lambda: Space.from_rows([{"a": [1]}]), "Row 0 holds a list"),
        (lambda: Space.from_rows([3]), "Row 0 is 3, not a dict"),
        (lambda: Space.from_rows({"a": [1, 2]}), "list of dicts"),
        (lambda: Space.from_rows(7), "list of dicts"),
        (lambda: Space.from_rows([{1: 2}]), "1 cannot name"),
        (lambda: Space.from_rows([{"a": 2}], {"b": Int(0, 3)}), "no column 'b'"),
        (lambda: Space.from_rows([{"a": 5}], {"a": Int(0, 3)}), "'a': 5 is not a value of Int"),
        (lambda: Space.from_rows([{"a": 5}], {"a": 3}), "'a': 3 is not a parameter"),
        (
            lambda: Space.from_rows([{"a": 1, "b": 1}], {"a": Int(0, 3, when={"b": 1})}),
            "Leave `when` out",
        ),
    ],
)
def test_bad_spaces_are_refused(make, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make()


@pytest.mark.parametrize(
    ("when", "sentence"),
    [
        ({"unknown": 1}, "'child': its `when` names 'unknown'"),
        ({"child": 1}, "names itself"),
        ({"real": 1.0}, "names the Float 'real'"),
        ({"solver": "lbfgs"}, "'lbfgs' is not a value of"),
        ({"solver": ["sgd", "lbfgs"]}, "'lbfgs' is not a value of"),
        ({"solver": []}, "is never true"),
        ({"depth": 17}, "17 is not a value of"),
        ({"depth": True}, "True is not a number"),
    ],
)
def test_bad_conditions_are_refused(when, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Space(
            {
                "child": Float(0, 1, when=when),
                "real": Float(0, 2),
                "solver": Categorical(["sgd", "adam"]),
                "depth": Int(1, 16),
            }
        )


GOOD = {"lr": 0.01, "depth": 3, "batch": 64, "solver": "sgd", "momentum": 0.5, "warm": 10}


def test_valid_params_are_accepted():
    assert MIXED.decode(MIXED.encode(GOOD)) == GOOD


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"bogus": 1}, "Unknown parameter 'bogus'; the parameters are"),
        ({"lr": None}, "'lr': None is not a number"),
        ({"lr": "0.1"}, "'lr': '0.1' is not a number"),
        ({"lr": True}, "'lr': True is not a number"),
        ({"lr": math.nan}, "'lr': nan is not finite"),
        ({"lr": 0.2}, "'lr': 0.2 is outside"),
        ({"lr": np.float64(1e-6)}, "'lr': .*is outside"),
        ({"depth": 0}, "'depth': 0 is not a value of"),
        ({"depth": 2.5}, "'depth': 2.5 is not a value of"),
        ({"depth": True}, "'depth': True is not a number"),
        ({"depth": math.nan}, "'depth': nan is not a value of"),
        ({"batch": 32}, "'batch': 32 is not a value of"),
        ({"batch": [16]}, "'batch'.*is not a value of"),
        ({"warm": 0}, "'warm': 0 is outside"),
        ({"warm": 1.5}, "'warm': 1.5 is not a whole number"),
        ({"warm": True}, "'warm': True is not a whole number"),
        ({"warm": math.nan}, "'warm': nan is not a whole number"),
        ({"warm": "x"}, "'warm': 'x' is not a whole number"),
        ({"solver": "newton"}, "'solver': 'newton' is not a value of"),
        ({"solver": "adam"}, "'momentum' is only active when"),
        ({"depth": 9}, "'warm' is only active when"),
    ],
)
def test_bad_params_are_refused(change, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        MIXED.encode({**GOOD, **change})


@pytest.mark.parametrize("name", GOOD)
def test_missing_params_are_refused(name):
    with pytest.raises(InvalidInput, match=f"'{name}' is missing"):
        MIXED.encode({k: v for k, v in GOOD.items() if k != name})


def test_invalid_points_are_refused():
    with pytest.raises(InvalidInput, match="not a dict"):
        MIXED.encode([0.5] * 6)
    for x in ([0.5], np.full((1, 6), 0.5), [math.nan] * 6):
        with pytest.raises(InvalidInput, match="6 finite numbers"):
            MIXED.decode(x)


# ------------------------------------------------------------------------------------ as a value

TABLE = Space.from_rows([{"a": 1, "b": "x"}, {"a": 20, "b": None}, {"a": 400, "b": "y"}])


@pytest.mark.parametrize("space", [MIXED, TABLE], ids=["mixed", "table"])
def test_a_space_pickles_copies_and_compares(space):
    for again in (pickle.loads(pickle.dumps(space)), copy.deepcopy(space)):
        assert again == space
        assert hash(again) == hash(space)
        X = space.sample(20, np.random.default_rng(0))
        assert [again.decode(x) for x in X] == [space.decode(x) for x in X]
    assert space != 3


def test_different_spaces_differ():
    a, b = Float(0, 1), Float(0, 2)
    assert Space({"x": a}) == Space({"x": Float(0.0, 1.0)})
    assert Space({"x": a}) != Space({"x": b})
    assert Space({"x": a, "y": b}) != Space({"y": b, "x": a})
    rows = [{"a": 1}, {"a": 2}]
    assert Space.from_rows(rows) != Space.from_rows(rows[::-1])
    assert Space.from_rows(rows) != Space({"a": Ordinal([1, 2])})


def test_repr_is_the_call_that_makes_the_space():
    assert repr(MIXED).startswith(
        "Space({'lr': Float(low=1e-05, high=0.1, log=True), 'depth': Int("
    )
    assert eval(repr(MIXED)) == MIXED
    assert repr(TABLE).startswith("Space.from_rows(<3 rows>, {'a': Ordinal([1, 20, 400], log=True)")
    assert len(repr(one(Ordinal(range(10_000))))) < 200


def test_a_space_is_immutable():
    with pytest.raises(AttributeError):
        MIXED.d = 3
    with pytest.raises(AttributeError):
        Float(0, 1).low = -1.0
    with pytest.raises(TypeError):
        MIXED.parameters["lr"] = Float(0, 1)
    with pytest.raises(ValueError, match="read-only"):
        TABLE.rows[0] = 0.3
    point = TABLE.encode({"a": 1, "b": "x"})
    point[0] = 0.9
    assert TABLE.rows[0, 0] == 0.0
    options = ["a", "b"]
    parameter = Categorical(options)
    options.append("c")
    assert parameter.options == ("a", "b")


def test_an_option_may_be_a_tuple_and_still_be_named_in_a_condition():
    space = Space(
        {
            "shape": Categorical([(1, 2), (3, 4), "flat"]),
            "only": Float(2, 3, when={"shape": (1, 2)}),
            "either": Float(2, 3, when={"shape": [(1, 2), "flat"]}),
        }
    )
    assert set(space.decode(space.encode({"shape": (3, 4)}))) == {"shape"}
    params = {"shape": "flat", "either": 2.5}
    assert space.decode(space.encode(params)) == params
    params = {"shape": (1, 2), "either": 2.5, "only": 2.25}
    assert space.decode(space.encode(params)) == params


# ---------------------------------------------------------------- all points
def test_all_points_of_a_finite_space():
    space = Space(
        {
            "k": Categorical(["x", "y", "z"]),
            "i": Int(0, 5, when={"k": "x"}),
            "j": Ordinal([1, 2, 4], when={"k": "y"}),
        }
    )
    points = space.points(1000)
    found = [space.decode(x) for x in points]
    expected = [{"k": "x", "i": i} for i in range(6)] + [{"k": "y", "j": j} for j in (1, 2, 4)]
    expected.append({"k": "z"})
    assert sorted(map(str, found)) == sorted(map(str, expected))
    np.testing.assert_array_equal(points, space.snap(points))
    assert space.points(53) is None  # the grid has 3 x 6 x 3 points
    assert Space({"a": Float(0, 1), "i": Int(0, 3)}).points(1000) is None
    rows = Space.from_rows([{"u": 0.3}, {"u": 0.1}])
    np.testing.assert_array_equal(rows.points(1), rows.rows)


@pytest.mark.parametrize("low", [1e-280, 1.0, 1e306, 1.7e308])
@pytest.mark.parametrize("high", [1.1e306, 9.9e307, sys.float_info.max])
def test_log_bounds_near_the_largest_number(low, high):
    if low >= high:
        return
    space = Space({"x": Float(low, high, log=True)})
    for x in np.linspace(0, 1, 41):
        value = space.decode(np.array([x]))["x"]
        assert low <= value <= high
        assert space.encode({"x": value})[0] == pytest.approx(x, abs=1e-6)
