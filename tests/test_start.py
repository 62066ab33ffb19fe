"""The start is made for every policy that needs a model, in one place; others are asked at once."""

from dataclasses import dataclass

import numpy as np
import pytest
from beliefs import done, known, two_points

from farthing import Categorical, Float, History, Int, Space
from farthing.cost import Known
from farthing.decision import Proposal
from farthing.policies import EI, Random, StartWith
from farthing.start import propose, start

SPACE = Space({"x": Float(2, 5), "k": Int(1, 3), "kind": Categorical(["a", "b", "c", "d"])})


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("number", [0, 3, 4])
def test_the_start(number):
    history = History(tuple(done(i, [i / 9, 0.5, 0.125], 1.0) for i in range(number)))
    proposal = start(known(SPACE, history=history), rng())
    assert proposal.because == f"uniform point {number + 1} of the 5 a model starts from"
    assert proposal.notes == {"phase": "start"}


def test_a_start_that_goes_on_says_so():
    history = History(tuple(done(i, [i / 9, 0.5, 0.125], 1.0) for i in range(6)))
    proposal = start(known(SPACE, history=history), rng())
    assert "too little to learn from" in proposal.because


def test_it_is_uniform_as_random_search_is():
    belief = known(SPACE)
    np.testing.assert_array_equal(start(belief, rng()).x, Random().propose(belief, rng()).x)


@dataclass(frozen=True)
class Middle:
    """A policy that proposes the middle and says whether it saw a model."""

    needs: frozenset
    reads: frozenset = frozenset()
    models: bool = True

    def propose(self, belief, rng):
        because = "no model" if belief.objective is None else "a model"
        return Proposal(np.full(belief.space.d, 0.5), because, 3.0, {"middle": True})


def test_who_needs_a_model_is_not_asked_before_there_is_one():
    needing, other = Middle(frozenset({"model"})), Middle(frozenset({"cost"}))
    assert propose(needing, known(SPACE), rng()).notes == {"phase": "start"}
    assert propose(other, known(SPACE), rng()).because == "no model"
    for policy in (needing, other):
        proposal = propose(policy, two_points(), rng())
        assert (proposal.because, proposal.score) == ("a model", 3.0)
        assert proposal.notes == {"middle": True}
    before = propose(EI(), known(SPACE), rng())
    np.testing.assert_array_equal(before.x, start(known(SPACE), rng()).x)


@pytest.mark.parametrize("policy", [EI(), Random(), Middle(frozenset())], ids=repr)
def test_what_it_will_cost_is_added(policy):
    for belief in (two_points(lambda x: 1 + 9 * x), known(SPACE)):
        proposal = propose(policy, belief, rng())
        assert proposal.predicted.keys() == belief.cost.keys()
        for mean, std in proposal.predicted.values():
            np.testing.assert_allclose(mean, np.log([1 + 9 * proposal.x[0]]))
            np.testing.assert_array_equal(std, [0.0])


def test_where_nothing_is_proposed_nothing_is_predicted():
    cost = {"cost": Known(lambda p: p["x"]).bind(SPACE)}

    @dataclass(frozen=True)
    class Nothing(Middle):
        def propose(self, belief, rng):
            return Proposal(None, "nothing is left")

    proposal = propose(Nothing(frozenset()), known(SPACE, cost=cost), rng())
    assert (proposal.x, proposal.because, proposal.predicted) == (None, "nothing is left", {})


def test_after_the_given_points_the_start_is_made_for_the_policy_that_follows():
    points = [{"x": 3.0, "k": 2, "kind": "b"}]
    policy = StartWith(points, then=EI())
    first = propose(policy, known(SPACE), rng())
    assert SPACE.decode(first.x) == points[0]
    history = History((done(0, first.x, 1.0),))
    second = propose(policy, known(SPACE, history=history), rng())
    assert second.because == "uniform point 2 of the 5 a model starts from"
