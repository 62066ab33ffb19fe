import json
from dataclasses import replace

import numpy as np
import pytest

from farthing import Float, Optimizer
from farthing.history import History, Outcome, Trial


def trial(number, state="running", **fields):
    return Trial(number, {"a": number}, np.array([number / 10]), state, **fields)


def history():
    return History(
        (
            trial(0, "done", value=3.0, cost={"s": 2.0}, notes={"phase": "start", "rate": 1}),
            trial(1, "failed", error="out of memory", notes={"rate": 2}),
            trial(2, "running", notes={"other": {"hyper": [1.0, 2.0]}}),
            trial(3, "killed", cost={"s": 60.0}),
            trial(4, "done", value=-1.0),
        )
    )


def numbers(trials):
    return [t.number for t in trials]


def test_trials_are_found_by_number_and_state():
    known = history()
    assert len(known) == 5
    assert numbers(known) == [0, 1, 2, 3, 4]
    assert known[3].state == "killed"
    assert numbers(known.done) == [0, 4]
    assert numbers(known.running) == [2]
    assert numbers(known.having("failed", "killed")) == [1, 3]
    assert known.having() == ()
    assert numbers(History()) == []


def test_a_trial_says_where_it_came_from():
    optimizer = Optimizer({"x": Float(0, 1)}, 9)
    optimizer.enqueue({"x": 0.5})
    assert [trial.origin for trial in optimizer.ask(2)] == ["enqueued", "design"]


def test_adding_makes_another_history():
    known = history()
    more = known.adding(trial(5))
    assert numbers(more) == [0, 1, 2, 3, 4, 5]
    assert len(known) == 5


def test_replacing_changes_one_trial_and_keeps_the_order():
    known = history()
    changed = known.replacing(replace(known[2], state="done", value=7.0, cost={"s": 1.0}))
    assert numbers(changed) == [0, 1, 2, 3, 4]
    assert (changed[2].state, changed[2].value, changed[2].cost) == ("done", 7.0, {"s": 1.0})
    assert changed[2].params == known[2].params
    assert changed[2].notes == known[2].notes
    assert known[2].state == "running"
    assert [a is b for a, b in zip(known, changed, strict=True)] == [True, True, False, True, True]


def test_the_last_note_is_the_most_recent_of_its_name():
    known = history()
    assert known.last_note("rate") == 2
    assert known.last_note("phase") == "start"
    assert json.loads(json.dumps(known.last_note("other"))) == {"hyper": [1.0, 2.0]}
    assert known.last_note("nothing") is None
    assert known.adding(trial(5, notes={"rate": None})).last_note("rate") is None


def test_a_trial_knows_its_start_and_its_predicted_cost():
    known = history()
    assert [t.is_start for t in known] == [True, False, False, False, False]
    assert known[0].predicted_cost is None
    assert trial(1, predicted={"usd": 3.0, "s": 9.0}).predicted_cost == 3.0


def test_trials_and_histories_are_immutable():
    known = history()
    for value, name in [(known, "trials"), (known[0], "value"), (Outcome(1.0), "value")]:
        with pytest.raises(AttributeError):
            setattr(value, name, None)


def test_trials_are_compared_by_identity():
    """Their points are arrays, which do not compare to a single bool."""
    assert trial(1) != trial(1)
    known = history()
    assert known[0] in known.trials
