"""What pages are given to show: figures, key figures and the columns of trials."""

import json
import math
from dataclasses import replace

import pytest
from runs import played, seen

from farthing import Categorical, Float, Optimizer
from farthing.history import History, Run
from farthing.policies import Random
from farthing.stopping import NotWorthIt
from farthing.view.primitives import Band, Figure, Heat, Line, Panel, Points, Segments, axis, named
from farthing.view.web import figure_values, forecast_values, key_figures, trial_columns
from farthing.view.web.answers import figures_answer
from farthing.view.web.key_figures import time_left


def column_of(answer, key):
    (column,) = [each for each in answer["columns"] if each["key"] == key]
    if "values" in column:
        return column["values"]
    return [None if at is None else column["words"][at] for at in column["at"]]


def test_every_kind_of_layer_keeps_its_values():
    layers = (
        Line((0.0, 1.0), (2.0, math.nan), "best", "a line", step=True),
        Points((1.0,), (2.0,), "done", texts=("a point",)),
        Segments((0.0,), (1.0,), (0.0,), "failed", thick=0.5),
        Band((0.0, 1.0), (0.0, 1.0), (2.0, 3.0), "second"),
        Heat((0.0,), (1.0,), ((math.inf,),), "z", False),
    )
    panel = Panel(axis("x", (0.0, 1.0)), named("y", ["a", "b"]), layers, "a panel")
    values = figure_values(Figure("f", "title", (panel,), "caption"))
    json.dumps(values, allow_nan=False)
    (drawn,) = values["panels"]
    assert [layer["kind"] for layer in drawn["layers"]] == [
        "line",
        "points",
        "segments",
        "band",
        "heat",
    ]
    assert drawn["layers"][0]["y"] == [2.0, None]
    assert drawn["layers"][0]["step"]
    assert drawn["layers"][1]["texts"] == ["a point"]
    assert drawn["layers"][4]["z"] == [[None]]
    assert drawn["y"]["names"] == ["a", "b"]
    assert drawn["x"]["ticks"][0] == [0.0, "0"]


def test_columns_of_some_trials():
    settings, state = seen(played(8))
    answer = trial_columns(settings, state, [5, 2])
    trials = [state.history[5], state.history[2]]
    assert answer["count"] == 8
    assert answer["numbers"] == [5, 2]
    assert column_of(answer, "state") == [trial.state for trial in trials]
    assert column_of(answer, "cost.usd") == [trial.cost["usd"] for trial in trials]
    assert column_of(answer, "depth") == [trial.params["depth"] for trial in trials]
    assert column_of(answer, "feasible") == [1, 1]
    kinds = {column["key"]: column["kind"] for column in answer["columns"]}
    assert kinds["rate"] == "param"
    assert kinds["ended"] == kinds["feasible"] == "hidden"


def test_values_that_are_difficult_to_send():
    """Long texts, great integers, truth values, and parameters named like another column."""
    space = {
        "state": Float(0, 1),
        "big": Categorical([2**60, 2**61]),
        "flag": Categorical([True, False]),
        "\u202etext": Categorical(["<b>" * 1000, "x"]),
    }
    optimizer = Optimizer(space, "$9", policy=Random())
    for _ in range(6):
        trial = optimizer.ask()
        optimizer.tell(trial, 1.0, cost=0.1)
    settings, state = seen(optimizer)
    measured = Run(metrics={"loss": math.nan, "note": "fine"})
    trials = tuple(replace(trial, run=measured) for trial in state.history)
    state = replace(state, history=History(trials))
    answer = trial_columns(settings, state, range(6))
    text = json.dumps(answer, allow_nan=False, ensure_ascii=False)
    assert "\u202e" not in text
    assert len(text) < 20_000
    assert column_of(answer, "state") == ["done"] * 6
    assert all(isinstance(value, float) for value in column_of(answer, "state 2"))
    assert set(column_of(answer, "flag")) <= {"True", "False"}
    assert column_of(answer, "big") == [str(trial.params["big"]) for trial in state.history]
    assert column_of(answer, "loss") == [None] * 6
    assert column_of(answer, "note") == ["fine"] * 6


def test_trials_that_violate_a_constraint_are_not_feasible():
    optimizer = Optimizer({"x": Float(0, 1)}, "$9", policy=Random(), constraints={"size": "<= 1"})
    for size in (0.5, 2.0):
        optimizer.tell(optimizer.ask(), 1.0, cost=1.0, constraints={"size": size})
    settings, state = seen(optimizer)
    answer = trial_columns(settings, state, [0, 1])
    assert column_of(answer, "feasible") == [1, 0]
    assert column_of(answer, "size") == [0.5, 2.0]


def test_the_time_left_is_that_of_the_scarcest_resource():
    _, state = seen(played(4, costs=("usd", "s"), broken=()))
    usd, s = state.ledger["usd"], state.ledger["s"]
    elapsed = s.spent
    expected = min((200 - usd.spent) * elapsed / usd.spent, (200 - s.spent) * elapsed / s.spent)
    assert time_left(state) == pytest.approx(expected)
    assert time_left(seen(Optimizer({"x": Float(0, 1)}, "$9")).state) is None


def test_key_figures_without_a_value():
    settings, state = seen(Optimizer({"x": Float(0, 1)}, "$9"))
    facts = key_figures(settings, state)
    assert facts["best"] is None
    assert facts["why_no_best"] == "no trial returned a value"
    assert facts["phase"] == "idle"
    assert facts["accounts"] == [
        {"resource": "usd", "limit": 9.0, "spent": 0.0, "overhead": 0.0, "reserved": 0.0}
    ]
    assert forecast_values(settings, state)["sentence"] == (
        "there is no model yet to predict its result"
    )


@pytest.mark.parametrize(("worth", "worth_it"), [(1e-9, True), (1e9, False), (None, None)])
def test_whether_one_more_trial_is_worth_it(worth, worth_it):
    found = forecast_values(*seen(played(8, broken=(), worth=worth, stop=worth and NotWorthIt())))
    assert found["worth_it"] is worth_it
    assert found["gain"] > 0
    assert found["cost"]["usd"] > 0


@pytest.mark.parametrize(("behind", "words"), [(1, "are 1 change old"), (2, "are 2 changes old")])
def test_a_page_says_how_old_its_figures_are(behind, words):
    settings, state = Optimizer({"x": Float(0, 1)}, 10).facts
    slow = [Figure("prospect", "t", (), "", "nothing yet")]
    assert words in figures_answer("stopping", settings, state, slow, behind)["note"]


def test_a_page_says_that_more_figures_are_being_made():
    """When only the first of them are ready, no complete set has been made."""
    settings, state = Optimizer({"x": Float(0, 1)}, 10).facts
    slow = [Figure("predictions", "t", (), "", "nothing yet")]
    for tab, words in (("parameters", "being fitted"), ("running", "")):
        assert words in figures_answer(tab, settings, state, slow, None)["note"]
    assert figures_answer("parameters", settings, state, slow, 0)["note"] == ""
