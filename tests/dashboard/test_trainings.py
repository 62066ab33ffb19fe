"""What the dashboard says about a study whose trainings run in parts."""

import pytest
from parts import RoundRobin
from runs import seen

from farthing import Float, Optimizer, Steps
from farthing.core.events import Renewed
from farthing.history import CurvePoint
from farthing.view.web import answers, key_figures, trial_columns


@pytest.fixture
def study():
    """Trial 0 is paused at step 2, and trial 1 runs its second part."""
    optimizer = Optimizer({"x": Float(0, 1)}, "$9", policy=RoundRobin(2), steps=Steps(8))
    for _ in range(3):
        trial = optimizer.ask()
        optimizer.tell(trial, (trial.number + 1) / trial.until, cost=0.5)
    optimizer.ask(lease=1e6)
    curve = (CurvePoint(2, 0.75, {"usd": 0.25}),)
    optimizer.commit(Renewed(1, 1e6, {"usd": 0.25}, {"usd": 0.25}, curve=curve))
    return seen(optimizer)


def test_running_steps_and_what_was_saved(study):
    facts = key_figures(*study)
    (running,) = facts["running"]
    assert running["number"] == 1
    assert running["cost"] == {"usd": 0.75}
    assert (running["last"], running["step"]) == (0.75, 2)
    assert facts["saved"].startswith("about $3.00: 6 of 16 steps not run, by pausing 1 training.")


@pytest.mark.parametrize(
    ("reports", "last"),
    [
        (({"step": 3, "value": 0.5}, {"step": 4, "value": 0.25}), (4, 0.25)),
        (({"step": "a", "value": 1},), (None, None)),
        (({"step": 1, "value": float("nan")},), (None, None)),
        ((), (None, None)),
    ],
)
def test_the_last_report_of_a_trial_without_steps(reports, last):
    optimizer = Optimizer({"x": Float(0, 1)}, "$9")
    optimizer.ask(lease=1e6)
    optimizer.commit(Renewed(0, 1e6, {"usd": 0.25}, {"usd": 0.25}, reports=reports))
    (running,) = key_figures(*seen(optimizer))["running"]
    assert (running["step"], running["last"]) == last


def test_the_curves_of_running_and_paused_trainings_are_drawn(study):
    found = answers.figures_answer("running", *study, [], None)["figures"]
    (learning,) = [figure for figure in found if figure["name"] == "learning"]
    texts = [
        text
        for layer in learning["panels"][0]["layers"]
        if layer["kind"] == "points"
        for text in layer["texts"]
    ]
    assert "trial 1, running; step 2: 0.75 for $0.75 so far" in texts
    assert "trial 0, paused at step 2; step 2: 0.5 for $1.00 so far" in texts
    columns = {column["key"]: column for column in trial_columns(*study, [0, 1])["columns"]}
    assert columns["step"]["values"] == [2, 2]
    assert columns["last value"]["values"] == [0.5, 0.75]


def test_a_trial_has_its_own_curve(study):
    settings, state = study
    answer = answers.log_answer(settings, state, state.history[0], "")
    assert answer["figure"]["name"] == "learning"
    assert "trial 1" not in str(answer["figure"])
    assert answer["latest"] == "The last value is 0.5 at step 2"
