"""Trials as rows: every format preserves them, and a lower bound stays a lower bound."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farthing import Bool, Categorical, Float, Int, Optimizer, Ordinal, Space, Study
from farthing.budget.ledger import Ledger
from farthing.core.events import Added, Moment
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import believed
from farthing.core.transition import apply
from farthing.data.tabular import (
    learnt_from,
    parsed,
    read_rows,
    record,
    row,
    to_csv,
    to_frame,
    to_json,
)
from farthing.errors import InvalidInput
from farthing.history import CurvePoint, History, Run, Trial
from farthing.policies import Random

ODD = ['a,"b"', "two\r\nlines", "ünï 漢", " blank ", "=1+1", 7, "7", 1.5, (50,), (50, (20, "x"))]
SPACE = Space(
    {
        "lr": Float(1e-5, 1e-1, log=True),
        "depth": Int(1, 16),
        "batch": Ordinal([16, 64, 256], log=True),
        "size": Ordinal(["small", "large"]),
        "layers": Categorical([*ODD, None, True, ""]),
        # Named like columns of a row, and often inactive.
        "value": Float(0, 1, when={"layers": ["7", True]}),
        "cost": Int(0, 5, when={"size": "small"}),
        "state": Categorical(["running", "done"]),
        "error": Categorical(["a", "b"], when={"depth": [1, 2, 3, 4]}),
    }
)
SIMPLE = Space({"a": Float(2, 3), "k": Int(1, 9)})


def make(space=SPACE, budget="$10, 90s", **settings):
    return Settings.of(space, budget, **{"policy": Random(), **settings})


def through_file(text, path):
    path.write_text(text, encoding="utf-8", newline="")
    return read_rows(path)


def all_formats(trials, path):
    """The rows of the same trials in every format."""
    rows = [row(trial) for trial in trials]
    return {
        "list": rows,
        "json": through_file(to_json(rows), path / "trials.json"),
        "csv": through_file(to_csv(rows), path / "trials.csv"),
        "frame": read_rows(to_frame(trials)),
    }


def a_history(space, size, seed, states=("done", "failed", "killed")):
    rng = np.random.default_rng(seed)
    trials = []
    for number, x in enumerate(space.sample(size, rng)):
        state = states[number % len(states)]
        trials.append(
            Trial(
                *(number, space.decode(x), x, state),
                value=float(rng.normal()) if state == "done" else None,
                cost={"usd": float(rng.lognormal()), "s": 1 / 3},
                predicted={"usd": 1.0},
                because="a reason, 'quoted'",
                error='it said "no",\nand went' if state == "failed" else None,
                notes={"phase": "start"},
                run=Run(worker="here:7", run_s=0.5, reports=({"step": 1},)),
            )
        )
    return tuple(trials)


def same(mine, theirs):
    assert np.array_equal(mine.x, theirs.x)
    assert mine.params == theirs.params
    assert [type(value) for value in mine.params.values()] == [
        type(value) for value in theirs.params.values()
    ]
    for name in ("state", "value", "cost", "error"):
        assert getattr(mine, name) == getattr(theirs, name), name


# ── writing and reading ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["list", "json", "csv", "frame"])
def test_every_format_preserves_trials(kind, tmp_path):
    trials = a_history(SPACE, 90, seed=1)
    options = {trial.params["layers"] for trial in trials}
    assert options == {*ODD, None, True, ""}  # else the test would not cover them
    if kind == "csv":  # which cannot distinguish None from "", or 7 from "7"
        trials = [trial for trial in trials if trial.params["layers"] not in (None, 7)]
    found, prices = learnt_from(all_formats(trials, tmp_path)[kind], make())
    assert prices == ()
    assert len(found) == len(trials)
    for mine, theirs in zip(found, trials, strict=True):
        same(mine, theirs)
        assert (mine.number, mine.because) == (-1, "imported with its result")
    absent = {name for name in SPACE.names if any(name not in trial.params for trial in found)}
    assert absent == {"value", "cost", "error"}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_numbers_are_preserved_exactly(seed):
    space = Space({"a": Float(-1e300, 1e300), "b": Float(1e-12, 1e9, log=True), "k": Int(-9, 9)})
    trials = a_history(space, 4, seed)
    rows = [row(trial) for trial in trials]
    for text in (to_csv(rows), to_json(rows)):
        for mine, theirs in zip(
            learnt_from(parsed(text, "it"), make(space))[0], trials, strict=True
        ):
            same(mine, theirs)


def test_rows_of_a_table_space_are_preserved(tmp_path):
    space = Space.from_rows(
        [{"a": 0.1, "s": "u"}, {"a": 0.2, "s": None}, {"a": 1 / 3, "s": "v"}, {"a": 1 / 3}]
    )
    trials = a_history(space, 8, seed=0)
    for rows in all_formats(trials, tmp_path).values():
        for mine, theirs in zip(learnt_from(rows, make(space))[0], trials, strict=True):
            same(mine, theirs)


def test_importing_an_optimizer_equals_importing_its_rows(tmp_path):
    source = Optimizer(SPACE, "$10, 90s", policy=Random())
    for k in range(6):
        told = [{"value": k / 7}, {"failed": "why"}, {"killed": True}][k % 3]
        source.tell(source.ask(), **told, cost={"usd": 0.1, "s": 1.0})
    source.ask()
    study = Study.create(
        tmp_path / "a.db", name="a", space=SPACE, budget="$10, 90s", policy=Random()
    )
    assert study.import_trials(source).taken == 6
    onwards = Optimizer(SPACE, "$10, 90s", policy=Random())
    assert onwards.import_trials(study).taken == 6
    for mine, theirs in zip(onwards.history, source.history, strict=False):
        same(mine, theirs)
    assert len(onwards.history) == len(study.history) == 6
    assert onwards.ledger.spent == study.ledger.spent == 0
    study.close()


# ── writing ────────────────────────────────────────────────────────────────────────────────────


def test_a_record_has_every_field_as_a_plain_value():
    trial = a_history(SPACE, 3, seed=1)[2]
    whole = record(trial)
    assert json.loads(json.dumps(whole))["number"] == 2
    assert row(trial).items() <= whole.items()
    assert (whole["state"], whole["censored"], whole["retry"]) == ("killed", 1, 0)
    assert (whole["worker"], whole["run_s"], whole["reports"]) == ("here:7", 0.5, [{"step": 1}])
    assert record(a_history(SPACE, 1, seed=1)[0])["censored"] == 0
    known = {*Trial.__dataclass_fields__, *Run.__dataclass_fields__} - {"x", "run"}
    assert whole.keys() == known - {"waits", "elsewhere"} | {"censored", "step"}


def test_a_training_is_shown_with_its_step_and_its_curve():
    whole = a_history(SPACE, 1, seed=1)[0]
    assert not {"step", "curve"} & row(whole).keys()
    points = (CurvePoint(1, 0.5, {"usd": 1.0}), CurvePoint(4, 0.25, {"usd": 3.0}))
    training = row(replace(whole, state="paused", curve=points))
    assert (training["state"], training["step"]) == ("paused", 4)
    assert training["curve"][1] == {"step": 4, "value": 0.25, "cost": {"usd": 3.0}}
    assert training.items() <= record(replace(whole, state="paused", curve=points)).items()


def test_each_parameter_and_each_resource_has_a_column():
    trials = a_history(SIMPLE, 2, seed=0)
    header = to_csv([row(trial) for trial in trials]).splitlines()[0].split(",")
    frame = to_frame(trials)
    assert header[:7] == ["number", "state", "param_a", "param_k", "value", "cost_usd", "cost_s"]
    assert [*header, "predicted_cost"] == list(frame.columns)
    assert list(frame["predicted_cost"]) == [1.0, 1.0]
    assert to_csv([]) == "\n"


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def learnt(rows, space=SIMPLE, budget="$10, 90s", **switches):
    trials, prices = learnt_from(rows, make(space, budget), **switches)
    return trials, prices


def test_a_row_may_use_plain_names_and_no_state():
    (trial,), prices = learnt([{"a": 2.5, "k": 3, "value": 0.5, "cost": 2, "colour": "red"}])
    assert (trial.params, trial.value, trial.cost) == ({"a": 2.5, "k": 3}, 0.5, {"usd": 2.0})
    assert (trial.state, trial.error, prices) == ("done", None, ())
    assert trial.is_start
    (trial,), _ = learnt([{"a": 2.5, "k": 3, "value": 0.5, "cost": {"s": 1, "kWh": 3}}])
    assert trial.cost == {"s": 1.0}  # kWh is not in the budget
    (trial,), _ = learnt([{"a": 2.5, "k": 3, "value": 0.5}])
    assert trial.cost == {}


def test_a_row_without_a_value_is_a_cost():
    trials, (price, bound) = learnt(
        [
            {"a": 2.5, "k": 3, "cost": 2},
            {"a": 2.5, "k": 4, "cost_s": 7, "censored": 1},
            {"a": 2.5, "k": 5},  # has neither
        ]
    )
    assert trials == ()
    assert (price.cost, price.at_least) == ({"usd": 2.0}, False)
    assert (bound.cost, bound.at_least) == ({"s": 7.0}, True)
    assert np.array_equal(price.x, SIMPLE.encode({"a": 2.5, "k": 3}))


@pytest.mark.parametrize("state", ["done", "failed", "killed", "running", "lost"])
@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("costs", [True, False])
def test_what_is_learnt_from_each_state(state, values, costs):
    cells = {"a": 2.5, "k": 3, "state": state, "cost": 2.0, "error": "why"}
    cells |= {"value": 0.5} if state == "done" else {}
    trials, prices = learnt([cells], values=values, costs=costs)
    if state in ("running", "paused", "lost") or (state == "killed" and not costs):
        assert (trials, prices) == ((), ())
    elif values:
        (trial,) = trials
        assert (trial.state, trial.cost) == (state, {"usd": 2.0} if costs else {})
        assert trial.error == ("why" if state == "failed" else None)
        assert prices == ()
    elif costs:
        (price,) = prices
        assert trials == ()
        assert (price.cost, price.at_least) == ({"usd": 2.0}, state == "killed")
    else:
        assert (trials, prices) == ((), ())


def test_a_failure_without_an_error_gets_one():
    (trial,), _ = learnt([{"a": 2.5, "k": 3, "state": "failed"}])
    assert trial.error == "it failed, and the imported row does not say why"


@pytest.mark.parametrize(
    ("cells", "match"),
    [
        ({"state": "finished"}, r"Row 1: state is 'finished': expected one of running, paused"),
        ({"k": "3.7"}, r"3\.7 is not a value of Int"),
        ({"k": "many"}, "k is 'many': expected a number"),
        ({"k": "1e999"}, "inf is not a value of Int"),
        ({"k": 10}, "k"),
        ({"a": "wide"}, "a is 'wide': expected a number"),
        ({"a": ""}, "'a' is missing"),
        ({"value": "good"}, "value is 'good': expected a number"),
        ({"value": "nan"}, "finite"),
        ({"cost": "expensive"}, "cost is 'expensive'"),
        ({"cost": -1}, "at least 0"),
        ({"cost_usd": math.inf}, "finite"),
        ({"a": None, "k": None}, "it has no column for a parameter; the columns are a, k, value"),
    ],
)
def test_an_invalid_cell_is_refused_with_its_row(cells, match):
    good = {"a": "2.5", "k": "3", "value": "0.5"}
    with pytest.raises(InvalidInput, match=match) as refusal:
        learnt([good, {**good, **cells}])
    assert str(refusal.value).startswith("Row 1: ")
    assert str(refusal.value).endswith(".")


def test_texts_are_converted_to_values():
    (trial,), _ = learnt([{"a": "2.50", "k": "3.0", "value": "5e-1", "cost": " 2 "}])
    assert (trial.params, trial.value, trial.cost) == ({"a": 2.5, "k": 3}, 0.5, {"usd": 2.0})
    assert type(trial.params["k"]) is int
    (trial,), _ = learnt([{"a": np.float64(2.5), "k": np.int64(3), "value": np.float32(0.5)}])
    assert [type(value) for value in trial.params.values()] == [float, int]


def test_parameters_with_the_names_of_columns():
    space = Space({"value": Float(0, 1), "cost": Int(0, 9), "state": Categorical(["done", "x"])})
    own = {"value": 0.25, "cost": 3, "state": "x"}
    trials, prices = learnt([own], space)
    assert (trials, prices) == ((), ())  # it has neither a value nor a cost
    _, (price,) = learnt([{**own, "cost_usd": 2.0}], space)
    assert np.array_equal(price.x, space.encode(own))
    both = {f"param_{name}": value for name, value in own.items()}
    (trial,), _ = learnt([{**both, "value": 7.0, "cost": 2.0, "state": "failed"}], space)
    assert (trial.params, trial.state, trial.cost) == (own, "failed", {"usd": 2.0})
    (trial,), _ = learnt([{"params": own, "value": 7.0, "cost": 2.0}], space)
    assert (trial.params, trial.value, trial.cost) == (own, 7.0, {"usd": 2.0})


def test_an_empty_cell_is_the_option_none_if_there_is_one():
    space = Space({"a": Categorical([None, "x"]), "b": Float(0, 1, when={"a": "x"})})
    text = "a,b,value\n,,1\nx,0.5,2\n"
    trials, _ = learnt(parsed(text, "it"), space)
    assert [trial.params for trial in trials] == [{"a": None}, {"a": "x", "b": 0.5}]
    trials, _ = learnt([{"params": {"a": None, "b": None}, "value": 1}], space)
    assert [trial.params for trial in trials] == [{"a": None}]
    with pytest.raises(InvalidInput, match="'a' is missing"):  # no such column at all
        learnt([{"b": 0.5, "value": 1}], space)


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_bytes("\ufeffa,k,value\r\n2.5,3,0.5\r\n".encode())
    (trial,), _ = learnt(read_rows(path))
    assert trial.params == {"a": 2.5, "k": 3}
    path.write_bytes('\ufeff[{"a": 2.5, "k": 3, "value": 0.5}]'.encode())
    (other,), _ = learnt(read_rows(str(path)))
    same(other, trial)


def test_a_short_line_has_empty_cells():
    trials, prices = learnt(parsed("a,k,value,cost\n2.5,3\n2.25,4,0.5\n2.75,5,,2\n", "it"))
    assert [(trial.params["k"], trial.cost) for trial in trials] == [(4, {})]
    assert [price.cost for price in prices] == [{"usd": 2.0}]


def test_missing_values_of_a_data_frame():
    frame = pd.DataFrame(
        {
            "a": [2.25, 2.5, 2.75],
            "k": pd.array([3, 4, 5], dtype="Int64"),
            "value": pd.array([0.5, pd.NA, pd.NA], dtype="Float64"),
            "state": ["done", "killed", None],
            "cost": [np.nan, 2.0, 3.0],
        }
    )
    rows = [{**cells, "error": pd.NA, "cost_s": pd.NaT} for cells in read_rows(frame)]
    (first, second), (price,) = learnt(rows)
    assert (first.state, first.value, first.cost) == ("done", 0.5, {})
    assert (second.state, second.cost) == ("killed", {"usd": 2.0})
    assert (price.cost, price.at_least) == ({"usd": 3.0}, False)


@pytest.mark.parametrize("source", [3, None, {"a": 1}, ["a"], [[1, 2]], object()])
def test_a_source_without_rows_is_refused(source):
    with pytest.raises(InvalidInput, match="contains no evaluations"):
        read_rows(source)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"a": 1}', "a JSON list of objects"),
        ("[1, 2]", "a JSON list of objects"),
        ("[{", "cannot be read"),
    ],
)
def test_json_that_is_not_a_list_of_objects_is_refused(text, match, tmp_path):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InvalidInput, match=rf"bad\.json.*{match}"):
        read_rows(tmp_path / "bad.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "noise.csv").write_bytes(b"\xff\xfe\x00a")
    for name in ("nowhere.csv", "noise.csv"):
        with pytest.raises(InvalidInput, match=rf"{name}' cannot be read"):
            read_rows(tmp_path / name)


# ── lower bounds ───────────────────────────────────────────────────────────────────────────────

LINE = Space({"a": Float(0, 1)})
CUT = 0.5  # the cost at which the external evaluations were killed; they would have cost 8


def external_trials():
    """Cheap at the left, and killed early at the right."""
    points = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.8, 0.9, 1.0]
    trials = []
    for number, a in enumerate(points):
        killed = a > 0.6
        cost = {"usd": CUT if killed else 1.0 + 8.0 * a}
        state, value = ("killed", None) if killed else ("done", a)
        x = LINE.encode({"a": a})
        trials.append(Trial(number, {"a": a}, x, state, value=value, cost=cost))
    return trials


def as_study(path):
    study = Study.create(path / "a.db", name="a", space=LINE, budget="$90", policy=Random())
    made, history = study._settings, external_trials()
    study._store.commit(lambda state, now: apply(made, state, Added(tuple(history)), Moment(now)))
    assert [trial.state for trial in study.history].count("killed") == 3
    return study


def expected_log_cost(optimizer, a):
    belief = believed(optimizer._settings, optimizer._store.look())
    return float(belief.predicted(LINE.encode({"a": a}))["usd"].mean[0])


def sources(path):
    trials = external_trials()
    rows = [row(trial) for trial in trials]
    plain = [
        {"a": t.params["a"], "value": t.value, "cost": t.cost["usd"], "state": t.state}
        for t in trials
    ]
    (path / "a.csv").write_text(to_csv(rows))
    (path / "a.json").write_text(to_json(rows))
    return {
        "csv": path / "a.csv",
        "json": path / "a.json",
        "rows": rows,
        "dicts": plain,
        "frame": to_frame(trials),
        "own frame": pd.DataFrame(plain),
        "study": as_study(path),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "json", "rows", "dicts", "frame", "own frame", "study"])
@pytest.mark.parametrize("values", [True, False])
def test_the_cost_of_a_killed_trial_is_a_lower_bound_in_every_format(kind, values, tmp_path):
    learner = Optimizer(LINE, "$90", policy=Random())
    source = sources(tmp_path)[kind]
    assert learner.import_trials(source, values=values).taken == 9
    state = learner._store.look()
    killed = [trial.cost for trial in state.history if trial.state == "killed"]
    bounds = [dict(price.cost) for price in state.prices if price.at_least]
    assert (killed if values else bounds) == [{"usd": CUT}] * 3
    assert len(state.prices) == (0 if values else 9)
    # As exact costs they would make the right end the cheapest region.
    exact = Optimizer(LINE, "$90", policy=Random())
    exact.import_trials([{**r, "state": "failed", "censored": 0} for r in sources_as_exact()])
    for a in (0.8, 0.9, 1.0):
        assert expected_log_cost(exact, a) < math.log(1.0)
        assert expected_log_cost(learner, a) > math.log(2.0)
    assert expected_log_cost(learner, 0.2) == pytest.approx(math.log(2.6), abs=0.3)


def sources_as_exact():
    return [row(trial) for trial in external_trials()]


def test_a_database_stores_lower_bounds(tmp_path):
    study = Study.create(tmp_path / "b.db", name="b", space=LINE, budget="$90", policy=Random())
    study.import_trials(sources_as_exact(), values=False)
    study.close()
    again = Study.open(tmp_path / "b.db", "b")
    assert [price.at_least for price in again._store.look().prices] == [False] * 6 + [True] * 3
    again.close()


def test_nothing_is_learnt_from_running_and_lost_trials(tmp_path):
    trials = a_history(SIMPLE, 6, seed=0, states=("running", "lost"))
    for rows in all_formats(trials, tmp_path).values():
        for values in (True, False):
            assert learnt(rows, values=values) == ((), ())
    made = make(SIMPLE)
    nothing = believed(made, State(Ledger.of(made.budget), History()))
    assert nothing.cost == {}


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        *(("true", True), ("True", True), ("1", True), (1, True), (1.0, True), (np.True_, True)),
        *(("false", False), ("FALSE", False), ("0", False), (0, False), ("no", False)),
    ],
)
def test_a_bool_is_read_from_texts_and_numbers(cell, value):
    (trial,), _ = learnt([{"flag": cell, "value": 1}], Space({"flag": Bool()}))
    assert trial.params == {"flag": value}
    assert type(trial.params["flag"]) is bool


def test_steps_and_combinations_are_read_from_a_file():
    space = Space(
        {"s": Float(0, 1, step=0.1), "a": Categorical(["x", "y"]), "n": Int(1, 9)},
        allowed=[{"a": "x", "n": 3}, {"a": "y"}],
    )
    trials, _ = learnt(parsed("s,a,n,value\n0.30000000000000004,x,3,1\n0.2,y,,2\n", "it"), space)
    assert [space.decode(trial.x) for trial in trials] == [
        {"s": 0.3, "a": "x", "n": 3},
        {"s": 0.2, "a": "y"},
    ]
    with pytest.raises(InvalidInput, match=r"Row 0: .*is not an allowed combination"):
        learnt(parsed("s,a,n,value\n0.2,y,3,1\n", "it"), space)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1 x", "@sum", "\t=1", "'=1", "''@", "a=1", ""])
def test_a_text_is_no_formula_and_is_read_back(text):
    written = to_csv([{"note": text, "value": -1.5}])
    assert written.splitlines()[1][:1] not in "=+-@\t\r" or not text
    assert written.rstrip().endswith("-1.5")  # a number stays a number
    assert parsed(written, "f") == [{"note": text, "value": "-1.5"}]
