"""What a thought leads to, and what is ready before the first one."""

import math
from dataclasses import replace

import numpy as np
import pytest
from beliefs import pool

from farthing import Float, Space
from farthing.acquisition.protocols import Proposal, Verdict
from farthing.acquisition.search import Effort, candidates, sobol
from farthing.core.settings import Settings
from farthing.core.suggest import OVERRUN_SPREAD, RECENT, Suggestion, warm_up
from farthing.history import History, Trial
from farthing.models.gp import Normal
from farthing.models.normal import max_overrun
from farthing.policies import Random

ON = Verdict(False, "go on")


def suggestion(limit=None, std=0.9):
    """Of a row whose ln c is normal about ln 4."""
    belief = pool([1.0], [0.5], [4.0], 1.2, limit=1000.0)
    predicted = {"cost": Normal(np.array([math.log(4.0)]), np.array([std]))}
    notes = {} if limit is None else {"limit": {"cost": limit}}
    proposal = Proposal(belief.space.rows[0], "so", notes=notes, predicted=predicted)
    return Suggestion(belief, proposal, ON)


@pytest.mark.parametrize("std", [0.9, 0.1])
def test_a_trial_may_cost_what_its_leash_or_its_policy_says_whichever_is_less(std):
    """A model that is sure of itself is not believed: a leash is that of LEASH_SPREAD at least."""
    end = math.exp(max_overrun(math.log(4.0), max(std, OVERRUN_SPREAD), 3.0))
    assert end > 4.0
    limits = {
        limit: suggestion(limit, std).trial(margin=3.0)[0].limit
        for limit in (None, 0.5 * end, 2.0 * end)
    }
    assert limits[None] == {"cost": pytest.approx(end)}
    assert limits[0.5 * end] == {"cost": 0.5 * end}
    assert limits[2.0 * end] == {"cost": pytest.approx(end)}


def test_without_a_leash_the_limit_is_that_of_the_policy_or_there_is_none():
    assert suggestion(7.5).trial()[0].limit == {"cost": 7.5}
    trial, _ = suggestion().trial()
    assert trial.limit == {}
    assert "limit" not in trial.notes


def test_the_first_thought_finds_its_screen_made():
    space = Space({name: Float(0, 1) for name in "abcde"})
    sobol.cache_clear()
    warm_up(Settings.of(space, None, policy=Random()))
    made = sobol.cache_info().misses
    candidates(space, np.random.default_rng(0), np.empty((0, space.d)), Effort())
    assert made == sobol.cache_info().misses == 1


@pytest.mark.parametrize("left", [0.3, 5.0, 900.0])
def test_of_what_nobody_predicted_its_limit_is_held_and_never_more_than_is_left(left):
    belief = pool([1.0], [0.5], [4.0], 1.2, limit=left)
    proposal = Proposal(belief.space.rows[0], "so", notes={"limit": {"cost": 7.5}}, predicted={})
    _, hold = Suggestion(belief, proposal, ON).trial()
    assert hold == {"cost": min(7.5, left)}


def test_of_what_nobody_predicted_what_the_dearest_of_late_has_cost_is_held():
    belief = pool([1.0], [0.5], [4.0], 1.2, limit=900.0)
    x = belief.space.rows[0]
    proposal = Proposal(x, "so", predicted={})
    bills = [9.0, *[2.0] * (RECENT - 1), 3.0]
    trials = [Trial(i, {}, x, "done", 1.0, {"cost": bill}) for i, bill in enumerate(bills)]
    for count, most_expensive in ((RECENT, 9.0), (RECENT + 1, 3.0)):
        told = replace(belief, history=History(tuple(trials[:count])))
        assert Suggestion(told, proposal, ON).trial()[1] == {"cost": most_expensive}
    nobody = replace(belief, history=History())
    assert Suggestion(nobody, proposal, ON).trial()[1] == {"cost": 180.0}  # as the start may
