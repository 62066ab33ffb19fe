"""The pages of a study whose trainings run in parts."""

import pytest
from parts import RoundRobin
from runs import seen

from farthing import Float, Optimizer, Steps
from farthing.core.events import Renewed
from farthing.history import CurvePoint

pages = pytest.importorskip("farthing.dashboard.pages")


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


def test_the_head_shows_running_steps_and_what_was_saved(study):
    head = pages.study_part("study", "head", *study, {})
    assert "trial 1: $0.75, 0.75 at step 2" in head
    assert "Saved: about $3.00: 6 of 16 steps not run, by pausing 1 training." in head


def test_the_curves_of_running_and_paused_trainings_are_drawn(study):
    quick = pages.study_part("study", "quick", *study, {})
    assert "trial 1, running; step 2: 0.75 for $0.75 so far" in quick
    assert "trial 0, paused at step 2; step 2: 0.5 for $1.00 so far" in quick
    table = pages.study_part("study", "trials", *study, {})
    assert "last value" in table


def test_the_page_of_a_trial_has_its_own_curve(study):
    settings, state = study
    part = pages.log_part(settings, state, state.history[0], "")
    assert 'data-figure="learning"' in part
    assert "trial 0, paused" in part
    assert "trial 1" not in part
    assert "The last value is 0.5 at step 2" in part
