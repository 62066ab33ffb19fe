"""The trial of a suggestion: its limit, its reservation, and the warm-up before the first."""

import math
from dataclasses import replace

import numpy as np
import pytest
from beliefs import pool

from farthing import Budget, Float, Ledger, Optimizer, Space, Steps
from farthing.acquisition.protocols import Proposal, Verdict
from farthing.acquisition.search import Effort, candidates, sobol
from farthing.core.settings import Settings
from farthing.core.suggest import OVERRUN_SPREAD, RECENT, Suggestion, suggest, warm_up
from farthing.history import History, Trial
from farthing.models.gp import Normal
from farthing.models.normal import max_overrun
from farthing.policies import Random

ON = Verdict(False, "go on")


def suggestion(limit=None, std=0.9):
    """A proposal whose ln c is normal about ln 4."""
    belief = pool([1.0], [0.5], [4.0], 1.2, limit=1000.0)
    predicted = {"cost": Normal(np.array([math.log(4.0)]), np.array([std]))}
    notes = {} if limit is None else {"limit": {"cost": limit}}
    proposal = Proposal(belief.space.rows[0], "so", notes=notes, predicted=predicted)
    return Suggestion(belief, proposal, ON)


@pytest.mark.parametrize("std", [0.9, 0.1])
def test_the_limit_is_the_lower_of_max_overrun_and_the_policys_limit(std):
    """The limit assumes a standard deviation of OVERRUN_SPREAD at least."""
    end = math.exp(max_overrun(math.log(4.0), max(std, OVERRUN_SPREAD), 3.0))
    assert end > 4.0
    limits = {
        limit: suggestion(limit, std).trial(margin=3.0)[0].limit
        for limit in (None, 0.5 * end, 2.0 * end)
    }
    assert limits[None] == {"cost": pytest.approx(end)}
    assert limits[0.5 * end] == {"cost": 0.5 * end}
    assert limits[2.0 * end] == {"cost": pytest.approx(end)}


def test_without_max_overrun_the_limit_is_that_of_the_policy_or_none():
    assert suggestion(7.5).trial()[0].limit == {"cost": 7.5}
    trial, _ = suggestion().trial()
    assert trial.limit == {}
    assert "limit" not in trial.notes


def test_warm_up_makes_the_screening_points():
    space = Space({name: Float(0, 1) for name in "abcde"})
    sobol.cache_clear()
    warm_up(Settings.of(space, None, policy=Random()))
    made = sobol.cache_info().misses
    candidates(space, np.random.default_rng(0), np.empty((0, space.d)), Effort())
    assert made == sobol.cache_info().misses == 1


@pytest.mark.parametrize("left", [0.3, 5.0, 900.0])
def test_without_a_prediction_the_limit_is_reserved_and_never_more_than_is_left(left):
    belief = pool([1.0], [0.5], [4.0], 1.2, limit=left)
    proposal = Proposal(belief.space.rows[0], "so", notes={"limit": {"cost": 7.5}}, predicted={})
    _, hold = Suggestion(belief, proposal, ON).trial()
    assert hold == {"cost": min(7.5, left)}


def test_without_a_prediction_the_highest_recent_cost_is_reserved():
    belief = pool([1.0], [0.5], [4.0], 1.2, limit=900.0)
    x = belief.space.rows[0]
    proposal = Proposal(x, "so", predicted={})
    costs = [9.0, *[2.0] * (RECENT - 1), 3.0]
    trials = [Trial(i, {}, x, "done", 1.0, {"cost": cost}) for i, cost in enumerate(costs)]
    for count, most_expensive in ((RECENT, 9.0), (RECENT + 1, 3.0)):
        told = replace(belief, history=History(tuple(trials[:count])))
        assert Suggestion(told, proposal, ON).trial()[1] == {"cost": most_expensive}
    without_trials = replace(belief, history=History())
    assert Suggestion(without_trials, proposal, ON).trial()[1] == {
        "cost": 300.0
    }  # the cap of the initial design


def test_cheap_trainings_are_promoted_without_a_model():
    """Steps take microseconds, so that a model would cost more than it gains."""
    optimizer = Optimizer({"x": Float(0, 1)}, "3s", steps=9)
    for _ in range(60):
        trial = optimizer.ask()
        optimizer.tell(trial, trial.params["x"] + 1 / trial.until, cost=1e-6)
    quick = [trial for trial in optimizer.history if trial.notes.get("effort") == "none"]
    assert len(quick) > 20
    assert max(trial.step for trial in optimizer.history) == 9
    ranked = sorted(quick, key=lambda trial: trial.params["x"])
    half = len(ranked) // 2
    assert sum(t.step for t in ranked[:half]) > 2 * sum(t.step for t in ranked[half:])


def test_suggestions_for_trainings_may_take_longer():
    """An overhead of a tenth of the cost of trials: a quick suggestion, but with a model."""
    ledger = Ledger.of(Budget("1000s")).pay({"s": 110.0}, overhead={"s": 10.0})
    steps, found = Steps(9), {}
    for staged in (True, False):
        optimizer = Optimizer({"x": Float(0, 1)}, "100s", steps=steps if staged else None)
        for _ in range(20):
            trial = optimizer.ask()
            optimizer.tell(trial, trial.params["x"] + 1 / (trial.until or 9), cost=1.0)
        state = replace(optimizer._look(), ledger=ledger, suggest_s=0.0)
        found[staged] = suggest(optimizer._settings, state)
    assert found[True].belief.light
    assert found[True].belief.trainings is not None
    assert "would cost more than it gains" not in found[True].proposal.because
    assert "would cost more than it gains" in found[False].proposal.because
