"""Steps, Bool, conditions of any depth and allowed combinations, alone and together."""

import hashlib
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from farthing import (
    Bool,
    Categorical,
    Float,
    Int,
    InvalidInput,
    Optimizer,
    Ordinal,
    Space,
    at_least,
    at_most,
    between,
    minimize,
)
from farthing.acquisition.search import neighbours
from farthing.models.features import around, log_features
from farthing.policies import Random
from farthing.space.conditions import Range

# ── steps ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        (Float(0.1, 0.9, step=0.1), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
        (Float(-0.2, 0.1, step=0.1), [-0.2, -0.1, 0.0, 0.1]),
        (Float(0, 0.1 + 0.2, step=0.1), [0.0, 0.1, 0.2, 0.3]),
        (Float(0, 1, step=1 / 3), [0.0, 1 / 3, 2 / 3, 1.0]),
        (Float(1e-5, 3e-5, step=1e-5), [1e-5, 2e-5, 3e-5]),
        (Int(16, 80, step=16), [16, 32, 48, 64, 80]),
        (Int(-3, 3, step=3), [-3, 0, 3]),
    ],
)
def test_a_step_lists_clean_values_of_their_kind(parameter, values):
    space = Space({"v": parameter})
    decoded = [space.decode(x)["v"] for x in space.points(100)]
    assert decoded == values
    assert list(map(repr, decoded)) == list(map(repr, values))
    assert np.array_equal(space.levels[0], space.points(100)[:, 0])
    assert np.allclose(space.natural(space.points(100))[:, 0], values, rtol=1e-15)
    assert np.allclose(space.levels[0], np.linspace(0, 1, len(values)), rtol=1e-15)


def test_a_number_with_many_steps_has_its_natural_values():
    space = Space({"v": Float(0, 1e4, step=0.5)})
    X = space.sample(50, np.random.default_rng(0))
    decoded = [space.decode(x)["v"] for x in X]
    assert space.natural(X)[:, 0] == pytest.approx(decoded, rel=1e-12)


def test_a_computed_value_counts_as_the_step_that_it_means():
    space = Space({"v": Float(0.1, 0.9, step=0.1)})
    assert space.decode(space.encode({"v": 0.1 + 0.2})) == {"v": 0.3}
    with pytest.raises(InvalidInput, match=r"0\.35 is not a value of .*; the nearest is 0\.[34]"):
        space.encode({"v": 0.35})
    for bad in (0.0, 1.0, True, math.nan, "0.3"):
        with pytest.raises(InvalidInput):
            space.encode({"v": bad})


@pytest.mark.parametrize("parameter", [Float(0, 5, step=0.001), Int(0, 50_000, step=10)])
def test_many_steps_are_not_listed_and_still_exact(parameter):
    space = Space({"v": parameter})
    assert space.levels == (None,)
    assert space.points(10_000) is None
    X = space.sample(200, np.random.default_rng(0))
    assert np.array_equal(space.snap(X), X)
    for x in X:
        value = space.decode(x)["v"]
        steps = (value - parameter.low) / parameter.step
        assert abs(steps - round(steps)) < 1e-9
        assert len(repr(value)) <= 5
        assert np.array_equal(space.encode({"v": value}), x)
    ahead, behind = around(space, 0, X[:, 0])  # slopes of costs compare different values
    assert (space.snap(ahead[:, None]) > space.snap(behind[:, None])).all()


def test_every_step_is_equally_likely():
    space = Space({"v": Int(0, 30, step=10)})
    X = space.spread((np.arange(400)[:, None] + 0.5) / 400)
    assert np.unique(X, return_counts=True)[1].tolist() == [100] * 4


def test_a_step_of_one_is_an_int():
    assert Int(1, 9, step=1) == Int(1, 9)


def test_the_features_of_a_coarse_step_are_finite():
    """A bin of half a step around the lowest value would reach below zero."""
    space = Space({"v": Int(1, 21, step=10)})
    assert np.isfinite(log_features(space, np.linspace(0, 1, 9)[:, None]).F).all()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Float(0.1, 0.85, step=0.1), r"Use 0\.8 or 0\.9 for high"),
        (lambda: Int(1, 10, step=20), "Use 21 for high"),
        (lambda: Int(16, 500, step=16), "Use 496 or 512 for high"),
        (lambda: Float(1, 10, step=1, log=True), "equal steps are not equally far apart"),
        (lambda: Int(1, 9, step=2, log=True), "step and log exclude each other"),
        (lambda: Float(0, 1, step=0), "step must be positive"),
        (lambda: Int(0, 4, step=-2), "step must be positive"),
        (lambda: Int(0, 10, step=2.5), "2.5 is not a whole number"),
        (lambda: Float(0, 1, step="0.1"), "is not a number"),
        (lambda: Float(0, 1, step=1e-17), "too many steps"),
    ],
)
def test_bad_steps_are_refused(make, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make()


# ── Bool ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_bool_is_a_categorical_of_false_and_true():
    space = Space({"flag": Bool()})
    assert Bool() == Categorical([False, True])
    assert [space.decode(x)["flag"] for x in space.points(9)] == [False, True]
    assert space.decode(space.encode({"flag": np.True_}))["flag"] is True
    assert space.categorical.all()
    assert repr(Bool(when={"a": 1})) == "Bool(when={'a': 1})"
    assert repr(Categorical([0, 1])) == "Categorical([0, 1])"
    assert repr(Categorical([True, False])) == "Categorical([True, False])"


# ── conditions ───────────────────────────────────────────────────────────────────────────────────

DEEP = {
    "rate": Float(0, 1, when={"flag": True}),
    "flag": Bool(when={"layers": at_least(2)}),
    "layers": Int(1, 5, when={"net": ["mlp", "cnn"]}),
    "net": Categorical(["tree", "mlp", "cnn"]),
    "width": Float(0, 1),
    "narrow": Int(1, 2000, when={"width": at_most(0.25)}),
    "middle": Ordinal(["s", "m", "l"], when={"narrow": between(10, 1500), "net": "mlp"}),
    "large": Ordinal([1, 10], when={"middle": at_least("m")}),
}


def holds(name, params, parameters):
    """Whether a parameter is active, from the values: an oracle that uses no coordinates."""
    return all(
        parent in params and _agrees(params[parent], given, parameters[parent])
        for parent, given in (parameters[name].when or {}).items()
    )


def _agrees(value, given, parameter):
    if isinstance(given, list):
        return any(_agrees(value, each, parameter) for each in given)
    if not isinstance(given, Range):
        return value == given
    rank = list(getattr(parameter, "values", [])).index if isinstance(value, str) else float
    low = given.low is None or rank(given.low) <= rank(value)
    return low and (given.high is None or rank(value) <= rank(given.high))


def check(space, X):
    """Every point is valid, is preserved by the round trip, and has what its conditions say."""
    assert np.array_equal(space.snap(X), X)
    active = space.active(X)
    for x, on in zip(X, active, strict=True):
        params = space.decode(x)
        assert np.array_equal(space.encode(params), x)
        assert space.decode(space.encode(params)) == params
        assert set(params) == {name for name, each in zip(space.names, on, strict=True) if each}
        named = {n for each in space.allowed or () for n in each}
        for name in set(space.names) - named:
            assert (name in params) == holds(name, params, space.parameters)
        if space.allowed:
            assert {n: v for n, v in params.items() if n in named} in space.allowed


def test_conditions_of_any_depth():
    space = Space(DEEP)
    X = space.sample(400, np.random.default_rng(1))
    check(space, X)
    seen = {frozenset(space.decode(x)) for x in X}
    assert any({"rate", "large"} <= each for each in seen)
    assert any("layers" in each and "flag" not in each for each in seen)
    tree = {"net": "tree", "width": 0.9}
    assert space.decode(space.encode(tree)) == tree
    with pytest.raises(InvalidInput, match=r"'flag' is only active when .*at_least\(2\)"):
        space.encode({**tree, "flag": True})
    with pytest.raises(InvalidInput, match="'rate' is missing"):
        space.encode({"net": "mlp", "layers": 2, "flag": True, "width": 0.5})


def test_a_parent_that_is_inactive_activates_nothing():
    """The coordinate of an inactive parent is 1/2, which is also the coordinate of a value."""
    space = Space(
        {
            "a": Bool(),
            "b": Int(1, 3, when={"a": True}),
            "c": Float(0, 1, when={"b": 2}),
        }
    )
    assert space.encode({"a": True, "b": 2, "c": 0.0})[1] == space.encode({"a": False})[1] == 0.5
    assert space.decode([0.25, 0.5, 0.0]) == {"a": False}


def test_the_ends_of_a_range_are_included():
    for parent in (Int(1, 9), Int(1, 10**6), Int(1, 9, step=2), Float(1, 9), Ordinal([1, 3, 5, 9])):
        space = Space({"p": parent, "c": Float(0, 1, when={"p": between(3, 5)})})
        assert set(space.decode(space.encode({"p": 3, "c": 0.0}))) == {"p", "c"}
        assert set(space.decode(space.encode({"p": 5, "c": 0.0}))) == {"p", "c"}
        for outside in (1, 9):
            assert set(space.decode(space.encode({"p": outside}))) == {"p"}


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"a": Int(1, 5, when={"b": 1}), "b": Int(1, 5, when={"a": 1})}, "cycle.*a -> b -> a"),
        ({"a": Int(1, 5, when={"z": 1})}, "names 'z', but the parameters are"),
        ({"a": Int(1, 5), "b": Bool(when={"a": at_least(6)})}, "no value of .* is at least 6"),
        ({"a": Int(1, 5), "b": Bool(when={"a": between(2.2, 2.8)})}, "is from 2.2 to 2.8"),
        ({"a": Float(0, 1), "b": Bool(when={"a": at_most(-1)})}, "is at most -1"),
        ({"a": Float(0, 1), "b": Bool(when={"a": 0.5})}, "names the Float 'a'.*at_least"),
        ({"a": Bool(), "b": Bool(when={"a": at_least(1)})}, "has no order. List its options"),
        ({"a": Ordinal(["s", "l"]), "b": Bool(when={"a": at_least("x")})}, "'x' is not a value"),
        ({"a": Int(1, 5), "b": Bool(when={"a": at_least("x")})}, "'x' is not a number"),
        (
            {
                "a": Int(1, 5),
                "b": Bool(when={"a": at_most(2)}),
                "c": Bool(when={"a": at_least(4), "b": True}),
            },
            "'c': its `when` .* is never true, because no value of 'a' agrees",
        ),
    ],
)
def test_impossible_conditions_are_refused(parameters, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Space(parameters)


@pytest.mark.parametrize(
    "make",
    [
        lambda: between(3, 2),
        lambda: at_least(None),
        lambda: at_most(math.nan),
        lambda: at_least(1j),
    ],
)
def test_bad_ranges_are_refused(make):
    with pytest.raises(InvalidInput):
        Space({"a": Int(1, 5), "b": Bool(when={"a": make()})})


# ── allowed combinations ─────────────────────────────────────────────────────────────────────────

SOLVERS = [
    {"solver": "sgd", "momentum": 0.9, "nesterov": True},
    {"solver": "sgd", "momentum": 0.5, "nesterov": False},
    {"solver": "adam"},
]
COMBINED = Space(
    {
        "lr": Float(1e-4, 1, log=True),
        "nesterov": Bool(),
        "solver": Categorical(["adam", "sgd"]),
        "momentum": Float(0, 1),
        "decay": Float(0, 1, when={"momentum": at_least(0.6)}),
    },
    allowed=SOLVERS,
)


def test_only_the_allowed_combinations_occur_and_the_others_are_free():
    X = COMBINED.sample(300, np.random.default_rng(0))
    check(COMBINED, X)
    drawn = [COMBINED.decode(x) for x in X]
    assert {"decay" in each for each in drawn} == {True, False}
    assert all(("decay" in each) == (each.get("momentum", 0) >= 0.6) for each in drawn)
    assert len({each["lr"] for each in drawn}) == len(drawn)
    counts = [sum(set(c.items()) <= set(each.items()) for each in drawn) for c in SOLVERS]
    assert sum(counts) == 300
    assert min(counts) > 70


def test_the_map_of_uniform_numbers_is_even_over_combinations():
    U = np.full((300, COMBINED.d), 0.3)
    U[:, COMBINED.names.index("solver")] = (np.arange(300) + 0.5) / 300
    drawn = [COMBINED.decode(x).get("momentum") for x in COMBINED.spread(U)]
    assert [drawn.count(m) for m in (0.9, 0.5, None)] == [100, 100, 100]


def test_a_given_value_selects_a_combination_that_has_it():
    base = np.full(COMBINED.d, 0.5)
    for values, solver in [({"momentum": 0.9}, "sgd"), ({"solver": "adam"}, "adam")]:
        params = COMBINED.decode(COMBINED.completed(values, base))
        assert params["solver"] == solver
        assert values.items() <= params.items()
    with pytest.raises(InvalidInput, match="No allowed combination has"):
        COMBINED.completed({"momentum": 0.9, "solver": "adam"}, base)
    with pytest.raises(InvalidInput, match="is not an allowed combination; the nearest is"):
        COMBINED.encode({"lr": 0.1, "solver": "adam", "momentum": 0.9})


def test_the_points_of_a_finite_space_with_combinations():
    space = Space(
        {"a": Int(1, 3), "b": Categorical(["x", "y"]), "c": Int(1, 4)},
        allowed=[{"a": 1, "b": "x"}, {"a": 3, "b": "y"}],
    )
    points = space.points(8)
    assert {tuple(space.decode(x).values()) for x in points} == {
        (a, b, c) for a, b in ((1, "x"), (3, "y")) for c in range(1, 5)
    }
    assert len(points) == 8
    assert space.points(7) is None


def test_the_values_of_combinations_have_the_types_of_their_parameters():
    space = Space(
        {"m": Float(0, 2), "s": Float(0, 1, step=0.1), "x": Float(0, 1)},
        allowed=[{"m": 1, "s": 0.1 + 0.2}, {"m": np.float64(0.5)}],
    )
    assert repr(space.allowed) == "({'m': 1.0, 's': 0.3}, {'m': 0.5})"
    x = space.encode({"m": 1, "s": 0.1 * 3, "x": 0.5})
    assert space.decode(x) == {"m": 1.0, "s": 0.3, "x": 0.5}
    assert np.array_equal(space.completed({"s": 0.1 * 3}, np.full(3, 0.5)), x)


def test_the_search_can_change_a_combination_as_a_whole():
    """One coordinate at a time would lead back: no combination has one half of each."""
    space = Space(
        {"a": Categorical("pq"[i] for i in range(2)), "b": Categorical(["p", "q"]), "c": Bool()},
        allowed=[{"a": "p", "b": "p"}, {"a": "q", "b": "q"}],
    )
    around_x = neighbours(space, space.encode({"a": "p", "b": "p", "c": False}))
    found = [space.decode(x) for x in space.snap(around_x)]
    assert {"a": "q", "b": "q", "c": False} in found
    assert {"a": "p", "b": "p", "c": True} in found


def test_combinations_of_all_parameters_are_a_table():
    parameters = {"b": Float(0, 1), "a": Int(1, 3)}
    rows = [{"b": 0.5}, {"b": 0.25, "a": 2}]
    space = Space(parameters, allowed=rows)
    assert space.allowed == tuple(rows)
    assert [space.decode(x) for x in space.rows] == rows
    assert space == Space.from_rows(rows, parameters)
    turned = Space(dict(reversed(parameters.items())), allowed=rows)
    assert [turned.decode(x) for x in turned.rows] == rows


def test_rows_with_the_same_coordinates_stay_different_and_keep_their_conditions():
    """An absent value and a middle value have the same coordinate, so one point is moved."""
    parameters = {"k": Bool(), "n": Int(1, 3), "c": Float(0, 1, when={"n": 2}), "d": Float(0, 1)}
    for allowed in ([{"k": True}, {"k": True, "n": 2}], [{"k": True, "n": 2}, {"k": True}]):
        space = Space(parameters, allowed=allowed)
        check(space, space.sample(40, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("allowed", "sentence"),
    [
        ([], "allowed: .*no rows"),
        ([{}], "allowed: The combinations are empty"),
        ([{"solvr": "sgd"}], "names 'solvr'; the parameters are"),
        ([{"solver": "lbfgs"}], "'solver': 'lbfgs' is not a value"),
        ([{"solver": "sgd"}, {"solver": "sgd"}], "the same as row 0"),
        ([{"rate": 0.1}], "Leave `when` out"),
        ([{"solver": "adam"}], "'rate': its `when` .* is never true, because no allowed"),
        ({"solver": "sgd"}, "list of dicts"),
    ],
)
def test_bad_combinations_are_refused(allowed, sentence):
    parameters = {
        "solver": Categorical(["sgd", "adam"]),
        "rate": Float(0, 1, when={"solver": "sgd"}),
    }
    with pytest.raises(InvalidInput, match=sentence):
        Space(parameters, allowed=allowed)


def test_a_space_with_combinations_pickles_compares_and_prints():
    assert pickle.loads(pickle.dumps(COMBINED)) == COMBINED
    assert Space(COMBINED.parameters) != COMBINED
    assert Space(COMBINED.parameters, allowed=SOLVERS[:2]) != COMBINED
    turned = [dict(reversed(each.items())) for each in SOLVERS]
    assert Space(COMBINED.parameters, allowed=turned) == COMBINED
    assert repr(COMBINED).endswith("{'solver': 'adam'}])")


# ── properties of any space ──────────────────────────────────────────────────────────────────────

KINDS = [
    lambda when: Float(0.5, 3, when=when),
    lambda when: Float(1e-3, 1, log=True, when=when),
    lambda when: Float(0.1, 0.7, step=0.1, when=when),
    lambda when: Int(1, 4, when=when),
    lambda when: Int(1, 5000, log=True, when=when),
    lambda when: Int(0, 40, step=10, when=when),
    lambda when: Ordinal([1, 2, 8], log=True, when=when),
    lambda when: Ordinal(["s", "m", "l"], when=when),
    lambda when: Categorical(["p", "q", "r"], when=when),
    lambda when: Bool(when=when),
]


@st.composite
def spaces(draw):
    """A space of two to five parameters with conditions on each other, and perhaps combinations."""
    parameters, values = {}, {}
    combined = draw(st.sampled_from([0, 0, 1, 2]))
    for name in "abcde"[: draw(st.integers(2, 5))]:
        when = {}
        if len(parameters) >= combined and parameters:
            for parent in draw(st.sets(st.sampled_from(sorted(parameters)), max_size=2)):
                when[parent] = draw(conditions(parameters[parent], values[parent]))
        make = draw(st.sampled_from(KINDS))
        parameters[name] = make(when or None)
        alone = Space({name: make(None)})
        X = np.linspace(0, 1, 4)[:, None]
        values[name] = list(dict.fromkeys(alone.decode(x)[name] for x in X))
    allowed = None
    if combined:
        rows = {n: st.sampled_from(values[n]) for n in list(parameters)[:combined]}
        first, *rest = list(rows)
        row = st.fixed_dictionaries({first: rows[first]}, optional={n: rows[n] for n in rest})
        allowed = draw(st.lists(row, min_size=1, max_size=4, unique_by=lambda r: tuple(r.items())))
    order = draw(st.permutations(sorted(parameters)))
    try:
        return Space({name: parameters[name] for name in order}, allowed=allowed)
    except InvalidInput:  # conditions that exclude each other
        reject()


def conditions(parameter, values):
    several = st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)
    if isinstance(parameter, Categorical):
        return several
    ranges = [at_least(values[-1]), at_most(values[0]), at_least(values[0])]
    if isinstance(parameter, Float) and parameter.step is None:
        return st.sampled_from(ranges)
    return st.one_of(several, st.sampled_from(ranges))


@pytest.mark.slow
@settings(max_examples=150)
@given(space=spaces(), seed=st.integers(0, 2**32 - 1))
def test_every_point_of_any_space_is_valid_and_preserved(space, seed):
    rng = np.random.default_rng(seed)
    U = rng.random((6, space.d))
    for X in (space.sample(6, rng), space.snap(U), space.spread(U)):
        check(space, X)
    assert np.array_equal(np.isnan(space.natural(X)) | space.active(X), np.ones(X.shape, bool))


@pytest.mark.slow
@settings(max_examples=100)
@given(space=spaces(), seed=st.integers(0, 2**32 - 1))
def test_inactive_parameters_never_matter(space, seed):
    rng = np.random.default_rng(seed)
    X = space.sample(6, rng)
    inactive = ~space.active(X) & ~space.combined
    moved = np.where(inactive, rng.random(X.shape), X)
    assert (X[inactive] == 0.5).all()
    assert np.array_equal(space.snap(moved), X)
    assert [space.decode(x) for x in moved] == [space.decode(x) for x in X]


@pytest.mark.slow
@settings(max_examples=100)
@given(space=spaces(), data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_permuting_parameters_permutes_points(space, data, seed):
    order = data.draw(st.permutations(range(space.d)))
    names = [space.names[j] for j in order]
    allowed = None if space.rows is not None else space.allowed
    if space.rows is not None:
        space = Space(space.parameters)
    other = Space({name: space.parameters[name] for name in names}, allowed=allowed)
    U = np.random.default_rng(seed).random((8, space.d))
    for there, here in (
        (other.snap(U[:, order]), space.snap(U)),
        (other.spread(U[:, order]), space.spread(U)),
        (other.active(other.snap(U[:, order])), space.active(space.snap(U))),
    ):
        assert np.array_equal(there, here[:, order])
    assert [other.decode(u) for u in U[:, order]] == [space.decode(u) for u in U]


OLD = Space(  # without log scales, whose last bit may depend on the processor
    {
        "x": Float(-3, 5),
        "k": Int(1, 16),
        "n": Int(0, 10**6),
        "o": Ordinal([1, 4, 9.5]),
        "r": Ordinal(["s", "m", "l"]),
        "c": Categorical(["u", "v", "w"]),
        "m": Float(0, 0.99, when={"c": "u"}),
        "h": Int(1, 8, when={"c": ["u", "v"], "k": [3, 4, 5]}),
    }
)
RECORDED = "c7f1f343d7676d09"


def coordinates_of(space):
    U = np.random.default_rng(5).random((500, space.d))
    parts = (space.snap(U), space.spread(U), space.active(space.snap(U)).astype(float))
    return hashlib.sha256(np.concatenate(parts).tobytes()).hexdigest()[:16]


def test_spaces_of_earlier_versions_have_the_same_coordinates():
    """The hash was recorded with version 0.2.0, before steps, ranges and combinations."""
    assert coordinates_of(OLD) == RECORDED


# ── studies ──────────────────────────────────────────────────────────────────────────────────────

EVERYTHING = Space(
    {
        "lr": Float(1e-4, 1, log=True),
        "width": Int(16, 128, step=16),
        "drop": Float(0.0, 0.5, step=0.1, when={"layers": at_least(2)}),
        "layers": Int(1, 4),
        "norm": Bool(when={"layers": at_least(3)}),
        "eps": Float(0, 1, when={"norm": True}),
        "solver": Categorical(["sgd", "adam", "lion"]),
        "momentum": Float(0, 1),
    },
    allowed=[
        {"solver": "sgd", "momentum": 0.9},
        {"solver": "sgd", "momentum": 0.5},
        {"solver": "adam"},
        {"solver": "lion", "momentum": 0.99},
    ],
)


def loss(p):
    """Lowest, about 0, for lr=0.01, width=64, three layers with drop=0.2 and norm, sgd and 0.5."""
    return (
        math.log10(p["lr"] / 0.01) ** 2
        + ((p["width"] - 64) / 64) ** 2
        + (p["layers"] - 3) ** 2
        + (4 * (p["drop"] - 0.2) ** 2 if "drop" in p else 0.5)
        + (0.3 * p["eps"] if p.get("norm") else 0.4)
        + {"sgd": 0.0, "adam": 0.5, "lion": 0.8}[p["solver"]]
        + abs(p.get("momentum", 0.5) - 0.5)
    )


@pytest.mark.slow
def test_minimize_over_a_space_with_everything():
    result = minimize(loss, EVERYTHING, "40 trials", seed=1)
    check(EVERYTHING, np.array([trial.x for trial in result.history]))
    assert len({trial.x.tobytes() for trial in result.history}) == 40
    random = minimize(loss, EVERYTHING, "40 trials", seed=1, policy=Random())
    assert result.best.value < random.best.value
    assert result.best.params["solver"] == "sgd"
    assert result.best.params["momentum"] == 0.5


def test_enqueued_and_given_configurations_of_such_a_space():
    optimizer = Optimizer(EVERYTHING, "9 trials", start=[{"solver": "lion"}], policy=Random())
    first = optimizer.ask()
    assert (first.params["solver"], first.params["momentum"]) == ("lion", 0.99)
    optimizer.enqueue({"layers": 2, "drop": 0.1 + 0.2})
    assert optimizer.ask().params["drop"] == 0.3
    for bad, sentence in [
        ({"drop": 0.3}, "only active when"),
        ({"layers": 1, "drop": 0.3}, "only active when"),
        ({"solver": "adam", "momentum": 0.9}, "No allowed combination"),
    ]:
        with pytest.raises(InvalidInput, match=sentence):
            optimizer.enqueue(bad)
