"""Earlier trials as points of the present space: each kind of parameter, units, missing ones."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farthing import Bool, Categorical, Float, Int, InvalidInput, Ordinal, Space
from farthing.earlier import LEAST, MOST, Evaluation, Source, matched, moved

LR = Space({"lr": Float(1e-4, 1e-1, log=True)})


def rows(name, values, **others):
    return [Evaluation({name: value, **others}, float(i), {}) for i, value in enumerate(values)]


def column(space, values, name="p"):
    """The coordinates of these values, without the rows that are left out."""
    full = matched("old", rows(name, values), space, ())
    return full.x[:, space.names.index(name)].tolist()


# ── each kind of parameter ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        (Float(-2, 2), [-2.0, -0.5, 0, 2]),
        (Float(1e-4, 1, log=True), [1e-4, 0.01, 0.5, 1]),
        (Float(0, 1, step=0.1), [0.0, 0.3, 1.0]),
        (Int(1, 9), [1, 4, 9]),
        (Int(1, 5000, log=True), [1, 70, 5000]),
        (Ordinal([16, 32, 64], log=True), [16, 32, 64]),
        (Ordinal(["low", "middle", "high"]), ["low", "high", "middle"]),
        (Categorical(["a", "b", ("c", 1)]), ["b", ("c", 1), "a"]),
        (Bool(), [True, False, True]),
    ],
    ids=str,
)
def test_a_value_of_the_space_has_its_own_coordinate(parameter, values):
    space = Space({"p": parameter})
    assert column(space, values) == [float(space.encode({"p": each})[0]) for each in values]


def test_numbers_are_matched_by_value_whatever_their_kind():
    """A Float of an earlier study becomes an Int here, also between two values of the grid."""
    space = Space({"p": Int(1, 9)})
    assert column(space, [1.0, 2.5, 9.0]) == pytest.approx([0.5 / 9, 2 / 9, 8.5 / 9])
    space = Space({"p": Ordinal([10, 1000], log=True)})
    assert column(space, [10, 100, 1000]) == pytest.approx([0.0, 0.5, 1.0])
    space = Space({"p": Categorical([16, 32])})
    assert column(space, [16.0, 32.0, 16]) == [0.25, 0.75, 0.25]


@given(st.lists(st.floats(-4, 4), min_size=LEAST, max_size=20), st.floats(0.1, 3), st.booleans())
def test_what_is_inside_keeps_its_value_and_what_is_outside_is_left_out(values, width, whole):
    space = Space({"p": Float(-width, width)})
    there = [round(value) if whole else value for value in values]
    inside = [value for value in there if abs(value) <= width]
    if len(inside) < LEAST:
        with pytest.raises(InvalidInput, match=r"trials? with a value in this space, but 3 are"):
            matched("old", rows("p", there), space, ())
        return
    source = matched("old", rows("p", there), space, ())
    assert [space.decode(x)["p"] for x in source.x] == pytest.approx(inside, abs=1e-9)
    left = len(there) - len(inside)
    expected = f"{len(inside)} of {len(there)} trials, {left} with p outside its range"
    assert source.about == (expected if left else f"{len(there)} trials")


@given(st.permutations(["a", "b", "c", "d"]), st.lists(st.sampled_from("abcd"), min_size=3))
def test_relabelled_categories_are_matched_by_label(options, labels):
    """The order of the options, which is their coordinate, does not matter."""
    space = Space({"p": Categorical(options)})
    source = matched("old", rows("p", labels), space, ())
    assert [space.decode(x)["p"] for x in source.x] == labels


def test_an_option_that_is_missing_here_leaves_its_trials_out():
    space = Space({"p": Categorical(["a", "b"])})
    source = matched("old", rows("p", ["a", "z", "b", "a", "z"]), space, ())
    assert source.about == "3 of 5 trials, 2 with another p"
    assert source.y.tolist() == [0.0, 2.0, 3.0]
    sizes = Space({"p": Categorical([16, 32])})
    assert matched("old", rows("p", [16, 64, 32, 16]), sizes, ()).about.endswith("1 with another p")


@pytest.mark.parametrize("value", ["text", None, True, math.inf, [1]])
def test_what_is_no_number_leaves_its_trial_out(value):
    source = matched("old", rows("lr", [0.01, value, 0.02, 0.03]), LR, ())
    what = "lr outside its range" if value == math.inf else "another lr"
    assert source.about == f"3 of 4 trials, 1 with {what}"


# ── several parameters ─────────────────────────────────────────────────────────────────────────


def test_new_parameters_are_free_and_missing_ones_are_ignored():
    space = Space({"new": Int(1, 3), "lr": LR.parameters["lr"], "too": Bool()})
    source = matched("old", rows("lr", [1e-3, 1e-2, 1e-4], m=0.9), space, (), ["m", "depth"])
    assert source.about == "3 trials; new and too are new here; m and depth ignored"
    assert np.isnan(source.x[:, [0, 2]]).all()
    assert source.x[:, 1] == pytest.approx([1 / 3, 2 / 3, 0.0])


def test_a_row_without_a_parameter_that_others_have_is_left_out():
    space = Space({"a": Float(0, 1), "b": Float(0, 1)})
    given = [*rows("a", [0.1, 0.2, 0.3], b=0.5), Evaluation({"a": 0.4}, 1.0, {})]
    assert matched("old", given, space, ()).about == "3 of 4 trials, 1 without b"


TREE = Space(
    {
        "solver": Categorical(["adam", "sgd"]),
        "momentum": Float(0, 1, when={"solver": "sgd"}),
        "nesterov": Bool(when={"solver": "sgd"}),
    }
)
SGD = {"solver": "sgd", "momentum": 0.9, "nesterov": True}


def test_inactive_parameters_are_encoded_as_the_space_does():
    given = [{"solver": "adam"}, SGD, {**SGD, "momentum": 0.1}, {"solver": "adam"}]
    source = matched("old", [Evaluation(p, 1.0, {}) for p in given], TREE, ())
    assert source.x.tolist() == [TREE.encode(params).tolist() for params in given]


def test_a_parameter_that_was_unconditional_is_inactive_where_it_is_here():
    given = [{**SGD, "solver": "adam"}, SGD, SGD, SGD]
    source = matched("old", [Evaluation(p, 1.0, {}) for p in given], TREE, ())
    assert source.x[0].tolist() == TREE.encode({"solver": "adam"}).tolist()


def test_an_active_parameter_that_is_missing_leaves_the_trial_out():
    given = [{"solver": "sgd", "momentum": 0.9}, SGD, SGD, SGD]
    source = matched("old", [Evaluation(p, 1.0, {}) for p in given], TREE, ())
    assert source.about == "3 of 4 trials, 1 without nesterov"


def test_without_its_parent_a_parameter_keeps_its_value_and_may_be_missing():
    given = [{"momentum": 0.25}, {"momentum": 0.75, "nesterov": True}, {"nesterov": False}]
    source = matched("old", [Evaluation(p, 1.0, {}) for p in given], TREE, ())
    assert source.about == "3 trials; solver is new here"
    assert np.isnan(source.x[:, 0]).all()
    assert source.x[:, 1:].tolist() == [[0.25, 0.5], [0.75, 0.75], [0.5, 0.25]]


def test_a_table_of_rows_takes_trials_between_its_rows():
    space = Space.from_rows([{"p": 1.0, "q": 5.0}, {"p": 2.0, "q": 7.0}, {"p": 3.0, "q": 6.0}])
    source = matched("old", rows("p", [1.0, 2.5, 3.0], q=6.0), space, ())
    assert source.x[:, 0] == pytest.approx([0.0, 0.75, 1.0])


# ── values, costs and units ────────────────────────────────────────────────────────────────────


def test_costs_in_the_same_unit_are_used_by_resource():
    given = [
        Evaluation({"lr": 1e-3}, 1.0, {"s": 3.0, "usd": 0.5}),
        Evaluation({"lr": 1e-2}, 2.0, {"s": 4.0}),
        Evaluation({"lr": 1e-2}, math.nan, {"s": 9.0}, censored=True),
        Evaluation({"lr": 1e-4}, 3.0, {"usd": 0.1, "kWh": 7.0}),
    ]
    source = matched("old", given, LR, ("usd", "s", "eur"))
    assert set(source.cost) == {"usd", "s"}
    np.testing.assert_equal(source.cost["usd"], [0.5, np.nan, np.nan, 0.1])
    np.testing.assert_equal(source.cost["s"], [3.0, 4.0, 9.0, np.nan])
    assert source.censored.tolist() == [False, False, True, False]
    np.testing.assert_equal(source.y, [1.0, 2.0, np.nan, 3.0])
    assert source.about == "4 trials"


@pytest.mark.parametrize(
    ("there", "needed", "cost", "about"),
    [
        ({"s": 2.0}, ("usd",), {"usd": [2.0] * 3}, "costs in s stand for usd"),
        ({"s": 2.0, "kWh": 1.0}, ("usd",), {}, "costs in s and kWh ignored"),
        ({}, ("usd",), {}, "without costs"),
        ({"s": 2.0}, (), {}, ""),
    ],
)
def test_one_cost_in_another_unit_stands_for_the_cost_here(there, needed, cost, about):
    given = [Evaluation({"lr": 1e-3}, 1.0, there)] * 3
    source = matched("old", given, LR, needed)
    assert {resource: each.tolist() for resource, each in source.cost.items()} == cost
    assert source.about == "; ".join(filter(None, ["3 trials", about]))


def test_a_source_without_a_common_parameter_is_refused():
    with pytest.raises(InvalidInput, match=r"'old' has no parameter of this space\. It has p, q;"):
        matched("old", rows("p", [1, 2, 3]), LR, (), ["q"])


def test_too_few_values_are_refused_with_the_reasons():
    given = [*rows("lr", [1e-3, 1e-2, 1.0]), "that have not ended", Evaluation({}, 1.0, {})]
    with pytest.raises(InvalidInput, match="2 trials with a value in this space, but 3") as error:
        matched("old", given, LR, ())
    for reason in ("1 with lr outside its range", "1 that have not ended", "1 without lr"):
        assert reason in str(error.value)


def test_of_a_long_table_rows_evenly_spaced_by_rank_are_copied():
    values = np.random.default_rng(0).permutation(np.arange(10 * MOST, dtype=float))
    given = [Evaluation({"lr": 1e-3}, value, {}) for value in values]
    source = matched("old", given, LR, ())
    assert source.about == f"{MOST} of {10 * MOST} trials, {9 * MOST} left out to save space"
    kept = np.sort(source.y)
    assert kept[0] == 0
    assert kept[-1] == 10 * MOST - 1
    assert np.ptp(np.diff(kept)) <= 1
    assert [y for y in values if y in set(source.y)] == source.y.tolist()  # in their order


# ── the fingerprint ────────────────────────────────────────────────────────────────────────────


def a_source(**changes):
    given = [Evaluation({"lr": 10.0**-k}, float(k), {"s": 1.0 + k}) for k in (1, 2, 3, 4)]
    return replace(matched("old", given, LR, ("s",)), **changes)


def test_the_fingerprint_depends_on_every_row_and_not_on_the_name():
    source = a_source()
    assert a_source().fingerprint == source.fingerprint == a_source(name="new").fingerprint
    others = [
        a_source(fingerprint="", y=source.y + 1),
        a_source(fingerprint="", x=1 - source.x),
        a_source(fingerprint="", cost={"usd": source.cost["s"]}),
        a_source(fingerprint="", cost={"s": source.cost["s"] * 2}),
        a_source(fingerprint="", censored=~source.censored),
    ]
    assert len({source.fingerprint, *(each.fingerprint for each in others)}) == 6


def test_sources_are_equal_if_their_names_and_rows_are():
    assert a_source() == a_source()
    assert hash(a_source()) == hash(a_source())
    assert a_source() != a_source(name="new")
    assert a_source() != a_source(fingerprint="", y=np.zeros(4))
    assert a_source() != "old"


def test_nan_and_zero_have_one_fingerprint_each():
    def of(y):
        return Source("s", np.zeros((2, 1)), np.array(y)).fingerprint

    assert of([0.0, math.nan]) == of([-0.0, -math.nan])


# ── a space that has grown ─────────────────────────────────────────────────────────────────────


def test_a_source_moves_with_a_space_that_grows():
    before = Space(
        {
            "f": Float(1, 2),
            "g": Float(0.1, 1, log=True),
            "i": Int(1, 4),
            "c": Categorical(["a", "b"]),
            "m": Float(0, 1, when={"c": "b"}),
            "new": Float(0, 1),
        }
    )
    after = Space(
        {
            "new": Float(0, 1),
            "c": Categorical(["z", "b", "a"]),
            "f": Float(0, 4),
            "g": Float(0.01, 1, log=True),
            "i": Int(1, 40),
            "m": Float(0, 2, when={"c": "b"}),
        }
    )
    common = {"f": 1.5, "g": 0.2, "i": 3}
    given = [{**common, "c": "a"}, {**common, "c": "b", "m": 1.0}, {**common, "c": "b", "m": 0.3}]
    given = [Evaluation({**params, "i": i + 1.5}, 1.0, {}) for i, params in enumerate(given)]
    source = matched("old", given, before, ())
    expected = matched("old", given, after, ())
    found = moved(source, before, after)
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-9)
    assert np.isnan(found.x[:, 0]).all()
    assert found.fingerprint not in (source.fingerprint, "")
