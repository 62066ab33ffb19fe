"""The initial design for every policy that needs a model; other policies propose at once."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from beliefs import done, known, two_points

from farthing import (
    Categorical,
    Float,
    History,
    Int,
    InvalidInput,
    Optimizer,
    Space,
    Stopped,
)
from farthing.acquisition.belief import START
from farthing.acquisition.initial_design import (
    _far_from_kills_first,
    cap,
    propose,
    start,
)
from farthing.acquisition.protocols import Proposal
from farthing.core.suggest import believed
from farthing.cost import Known
from farthing.policies import EI, Gittins, Random, Sobol, StartWith, Thompson

SPACE = Space({"x": Float(2, 5), "k": Int(1, 3), "kind": Categorical(["a", "b", "c", "d"])})


def rng():
    return np.random.default_rng(0)


def played(count, cost=lambda x: 1.0, space=SPACE, budget=100.0, **settings):
    """The first trials of a run, and the optimizer."""
    optimizer = Optimizer(space, budget, policy=EI(), **settings)
    trials = []
    for _ in range(count):
        trials.append(optimizer.ask())
        optimizer.tell(trials[-1], float(trials[-1].x.sum()), cost=float(cost(trials[-1].x)))
    return trials, optimizer


def test_the_design_begins_in_the_middle_and_continues_near_it():
    (first, second, *_), _ = played(3)
    np.testing.assert_array_equal(first.x, SPACE.snap(np.full((1, 3), 0.5))[0])
    assert first.because == "the middle of the space (point 1 of 4 of the initial design)"
    assert abs(second.x[0] - first.x[0]) <= 0.25
    assert "costs are unknown so far" in second.because
    assert not np.array_equal(second.x, first.x)
    assert all(trial.is_start for trial in (first, second))


def test_every_option_is_tried_before_one_is_tried_again():
    space = Space(
        {
            "x": Float(0, 1),
            "a": Categorical(["u", "v"]),
            "b": Categorical(["p", "q", "r", "s"]),
            "c": Categorical([1, 2, 3], when={"a": "v"}),
        }
    )
    for seed in range(10):
        trials, _ = played(START, space=space, seed=seed)
        assert Counter(t.params["a"] for t in trials) == {"u": 2, "v": 2}
        assert {t.params["b"] for t in trials} == {"p", "q", "r", "s"}
        assert len({t.params["c"] for t in trials if "c" in t.params}) == 2  # where it is active


def test_the_design_begins_on_the_side_that_is_declared_cheap():
    space = Space(
        {
            "width": Int(4, 256, log=True, cost="increases"),
            "tolerance": Float(1e-6, 1e-1, log=True, cost="decreases"),
            "rate": Float(0, 1),
        }
    )
    (first,), _ = played(1, space=space)
    assert first.params["width"] < 12
    assert first.params["tolerance"] > 1e-2
    assert first.params["rate"] == 0.5
    assert "declared cheap" in first.because
    with pytest.raises(InvalidInput, match="'increases' or 'decreases'"):
        Float(0, 1, cost="grows")


def test_given_points_come_first_and_are_completed():
    given = [{"k": 3}, {"x": 2.25, "kind": "d"}]
    (first, second, third), _ = played(3, start=given)
    assert (first.params["k"], first.params["x"]) == (3, 3.5)
    assert (second.params["x"], second.params["kind"], second.params["k"]) == (2.25, "d", 2)
    assert first.because == "point 1 of 2 that the user gave to start with"
    assert "the user gave" not in third.because


def test_a_given_value_of_a_table_is_that_of_a_row():
    """Nearer rows to the middle have other values."""
    rows = [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "y"}, {"a": 5, "b": "x"}]
    (first, second), _ = played(2, space=Space.from_rows(rows), start=[{"a": 2}, {"a": 5}])
    assert (first.params, second.params) == (rows[2], rows[3])
    with pytest.raises(InvalidInput, match="No row of the table has"):
        played(1, space=Space.from_rows(rows), start=[{"a": 5, "b": "y"}])


def test_expensive_points_are_left_out_once_costs_are_known():
    """The cost grows a thousandfold along x. Uniform points would pay the mean cost."""
    space, paid = Space({"x": Float(0, 1), "y": Float(0, 1)}), []
    for seed in range(20):
        trials, _ = played(START, lambda x: 10 ** (3 * x[0]), space, budget=2000.0, seed=seed)
        paid.append(sum(10 ** (3 * trial.x[0]) for trial in trials))
    uniform = START * (10**3 - 1) / np.log(10**3)
    assert np.median(paid) < 0.7 * uniform
    known = Optimizer(space, 100.0, policy=EI(), cost=lambda p: 10 ** (3 * p["x"]))
    for _ in range(START):  # the middle costs 32, more than a tenth of the budget
        trial = known.ask()
        assert 10 ** (3 * trial.x[0]) <= trial.limit["cost"] * (1 + 1e-9)
        known.tell(trial, float(trial.x.sum()))


@pytest.mark.slow
def test_the_cheaper_of_two_draws_within_the_cap_is_taken():
    """The smaller of two uniform numbers has the mean 1/3."""
    space = Space({"x": Float(0, 1)})
    third = []
    for seed in range(200):
        optimizer = Optimizer(space, 1e6, policy=EI(), cost=lambda p: 10 ** (3 * p["x"]), seed=seed)
        for _ in range(3):
            trial = optimizer.ask()
            optimizer.tell(trial, float(trial.x.sum()))
        third.append(trial.x[0])
    assert abs(np.mean(third) - 1 / 3) < 0.06
    assert max(third) > 0.75  # the expensive side is explored, too


def test_once_a_fifth_of_the_budget_is_spent_the_design_takes_the_cheapest_points():
    space, third = Space({"x": Float(0, 1)}), []
    for seed in range(20):
        cost = Known(lambda p: 11.0 + p["x"])
        optimizer = Optimizer(space, 100.0, policy=EI(), cost=cost, seed=seed)
        optimizer.tell(optimizer.ask(), 1.0)
        optimizer.tell(optimizer.ask(), failed="no value")
        assert optimizer.ledger.spent > 20
        trial = optimizer.ask()
        assert trial.is_start
        third.append(trial.x[0])
    assert max(third) < 0.15  # the smallest of 64 uniform numbers; of two the mean would be 1/3


def test_the_first_trial_may_cost_a_third_of_the_budget_and_all_of_them_a_quarter():
    optimizer = Optimizer(SPACE, {"usd": 90.0, "trials": 50}, policy=EI())
    limits = []
    for _ in range(3):
        trial = optimizer.ask()
        limits.append(dict(trial.limit))
        optimizer.tell(trial, killed=True, cost=trial.limit["usd"])
    assert limits == [{"usd": 30.0}, {"usd": 4.5}, {"usd": 4.5}]  # far from the first one
    trial = optimizer.ask()
    assert trial.limit["usd"] == 51.0  # all that is left, so that a trial can return a value
    optimizer.tell(trial, 1.0, cost=1.0)
    belief = believed(optimizer._settings, optimizer._store.look())
    assert cap(belief)["usd"] == 4.5  # the quarter is used up
    free = Optimizer(SPACE, policy=EI())
    assert free.ask().limit == {}


def test_once_there_is_a_value_a_trial_that_may_be_killed_leaves_a_share_for_the_next():
    optimizer = Optimizer(SPACE, 100.0, policy=EI())
    optimizer.tell(optimizer.ask(), 1.0, cost=3.0)
    for most in (10.0, 7.0, 5.0):  # 25 in all
        belief = believed(optimizer._settings, optimizer._store.look())
        assert cap(belief) == {"cost": pytest.approx(most)}
        optimizer.tell(optimizer.ask(), killed=True, cost=most)


@pytest.mark.parametrize(("killed_at", "places"), [(4.0, [0.1, 0.9, 0.52]), (6.0, [0.1, 0.9])])
def test_near_a_killed_trial_nothing_starts_that_the_rest_cannot_pay(killed_at, places):
    """A trial was killed at 0.5. Of the budget of 10, either 6 or 4 are left."""
    optimizer = Optimizer({"x": Float(0, 1)}, 10.0, policy=EI())
    trial = optimizer.ask()
    assert trial.params["x"] == 0.5
    optimizer.tell(trial, killed=True, cost=killed_at)
    belief = believed(optimizer._settings, optimizer._store.look())
    X = np.array([[0.52], [0.1], [0.9]])
    assert _far_from_kills_first(belief, X).ravel().tolist() == places


def test_if_the_budget_pays_for_one_evaluation_only_one_may_finish():
    """Each costs 3.2 of 6. Three trials are killed, the fourth is not."""
    optimizer = Optimizer(SPACE, 6.0, policy=EI())
    while not optimizer.history.done:
        trial = optimizer.ask()
        if trial.limit["cost"] < 3.2:
            optimizer.tell(trial, killed=True, cost=trial.limit["cost"])
        else:
            optimizer.tell(trial, 1.0, cost=3.2)
    assert [t.state for t in optimizer.history] == ["killed"] * 3 + ["done"]


@pytest.mark.slow
@pytest.mark.parametrize(("cost", "killed"), [(4.2, 3), (2.6, 0), (1.6, 0), (0.3, 0)])
def test_in_a_small_budget_a_trial_may_cost_as_much_as_the_others(cost, killed):
    """A third of 12 is 4: trials are killed there only while costs are unknown."""
    optimizer = Optimizer(SPACE, 12.0, policy=EI())
    while optimizer.ledger.left > cost and not optimizer.verdict.stop:
        trial = optimizer.ask()
        if cost > trial.limit.get("cost", 12.0):
            optimizer.tell(trial, killed=True, cost=trial.limit["cost"])
        else:
            optimizer.tell(trial, float(trial.x[0]), cost=cost * (1 + 0.1 * float(trial.x[0])))
    assert len(optimizer.history.having("killed")) == killed


def test_the_cap_follows_the_lower_median_cost_up_to_a_share_of_the_budget():
    def limit(*costs, budget=100.0):
        optimizer = Optimizer(SPACE, budget, policy=EI())
        for cost in costs:
            optimizer.tell(optimizer.ask(), 1.0, cost=cost)
        return cap(believed(optimizer._settings, optimizer._store.look()))["cost"]

    assert limit(4.0) == 10.0  # a tenth of the budget
    assert limit(6.0) == 12.0  # twice the median
    assert limit(9.0) == 15.0  # three twentieths of the budget
    assert limit(16.0) == pytest.approx(1.5 * 16.0)
    assert limit(9.0, 4.0) == 10.0  # the lower of two
    assert limit(6.0, 6.0) == 12.0
    assert limit(6.0, 6.5, 6.0) == pytest.approx(9.0)  # the quarter leaves less
    assert limit(6.0, 1.0, 7.0) == pytest.approx(11.0)
    assert limit(60.0) == 40.0  # all that is left


def test_the_design_ends_once_it_has_spent_a_fifth_of_the_budget():
    _, optimizer = played(3, lambda x: 7.0)  # 21 of 100
    assert not optimizer.ask().is_start
    _, optimizer = played(3, lambda x: 6.0)
    assert optimizer.ask().is_start


@pytest.mark.slow
def test_the_worst_of_many_designs_uses_a_quarter_of_the_budget():
    """Costs span four decades. Trials are killed at their limit, as workers do it."""
    space = Space({"x": Float(0, 1), "y": Float(0, 1)})
    used = []
    for seed in range(60):
        drawn = np.random.default_rng(seed)
        slope, level = drawn.uniform(-4, 4, 2), drawn.uniform(-2, 2)
        median = 10**level
        optimizer = Optimizer(space, 100 * median, policy=EI(), seed=seed)
        while (trial := optimizer.ask()).is_start and optimizer.ledger.used < 1:
            cost = median * 10 ** float(slope @ (trial.x - 0.5))
            if cost > trial.limit["cost"]:
                optimizer.tell(trial, killed=True, cost=trial.limit["cost"])
            else:
                optimizer.tell(trial, float(trial.x.sum()), cost=cost)
        used.append(optimizer.ledger.spent / optimizer.ledger.limit)
    assert max(used) <= 0.25
    assert np.median(used) <= 0.1


@dataclass(frozen=True)
class Middle:
    """A policy that proposes the middle and reports whether there was a model."""

    needs: frozenset
    reads: frozenset = frozenset({"model"})

    def propose(self, belief, rng):
        because = "no model" if belief.objective is None else "a model"
        return Proposal(np.full(belief.space.d, 0.5), because, 3.0, {"middle": True})


def test_a_policy_that_needs_a_model_is_not_called_before_there_is_one():
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
def test_the_predicted_cost_is_added(policy):
    for belief in (two_points(lambda x: 1 + 9 * x), known(SPACE)):
        proposal = propose(policy, belief, rng())
        assert proposal.predicted.keys() == belief.cost.keys()
        for mean, std in proposal.predicted.values():
            np.testing.assert_allclose(mean, np.log([1 + 9 * proposal.x[0]]))
            np.testing.assert_array_equal(std, [0.0])


def test_no_proposal_has_no_predicted_cost():
    cost = {"cost": Known(lambda p: p["x"]).bind(SPACE)}

    @dataclass(frozen=True)
    class Nothing(Middle):
        def propose(self, belief, rng):
            return Proposal(None, "nothing is left")

    proposal = propose(Nothing(frozenset()), known(SPACE, cost=cost), rng())
    assert (proposal.x, proposal.because, proposal.predicted) == (None, "nothing is left", {})


def test_after_the_given_points_comes_the_initial_design():
    points = [{"x": 3.0, "k": 2, "kind": "b"}]
    policy = StartWith(points, then=EI())
    first = propose(policy, known(SPACE), rng())
    assert SPACE.decode(first.x) == points[0]
    history = History((done(0, first.x, 1.0),))
    second = propose(policy, known(SPACE, history=history), rng())
    assert second.notes["phase"] == "start"
    assert "of 4 of the initial design" in second.because


def test_a_parameter_without_effect_is_still_varied():
    """So no trial needs to explore for its sake, even if almost no improvement is expected."""
    optimizer = Optimizer({"a": Float(0, 1), "b": Float(0, 1)}, 1e9, cost=lambda params: 1.0)
    for _ in range(30):
        trial = optimizer.ask()
        optimizer.tell(trial, (trial.params["a"] - 0.3) ** 2)
    assert optimizer.best.value < 1e-6
    assert np.ptp([trial.params["b"] for trial in optimizer.history.trials[20:]]) > 0.5


# ── parallel trials ────────────────────────────────────────────────────────────────────────────


def test_a_trial_without_a_predicted_cost_reserves_its_cap():
    """All trials of the design together reserve at most the budget, whatever the batch size."""
    optimizer = Optimizer(SPACE, 100.0)
    batch = optimizer.ask(40)
    assert [dict(trial.predicted) for trial in batch] == [{}] * len(batch)
    reserved = [optimizer.ledger.reserved_for(trial.number)["cost"] for trial in batch]
    assert reserved == pytest.approx([100 / 3] + [5.0] * 13 + [5 / 3])  # a third; then a twentieth
    with pytest.raises(Stopped, match=r"100 is spent, 100 of it reserved for running trials"):
        optimizer.ask()
    for trial in batch[:2]:
        optimizer.tell(trial, 1.0, cost=0.5)
    assert optimizer.ledger.left == pytest.approx(100 / 3 + 5 - 1)
    assert optimizer.ask().predicted["cost"] < 30.0  # now there is a cost model


def test_without_a_predicted_cost_a_trial_reserves_the_highest_cost_so_far():
    optimizer = Optimizer(SPACE, 100.0, policy=Random())
    first, second = optimizer.ask(2)
    assert optimizer.ledger.reserved == pytest.approx(100 / 3 + 5.0)
    optimizer.tell(first, 1.0, cost=3.0)
    third = optimizer.ask()
    assert dict(third.predicted) == {}  # one cost is too few for a model
    assert optimizer.ledger.reserved_for(third.number)["cost"] == pytest.approx(3.0)
    assert optimizer.ledger.reserved_for(second.number)["cost"] == pytest.approx(5.0)


def test_a_reservation_does_not_end_the_initial_design():
    """Two values suffice for a model only if a fifth of the budget is spent, not just reserved."""
    optimizer = Optimizer(SPACE, 100.0)
    batch = optimizer.ask(6)
    for trial in batch[:2]:
        optimizer.tell(trial, trial.x[0], cost=0.5)
    assert optimizer.ledger.used > 0.2
    assert optimizer.ask().is_start
    for trial in batch[2:5]:
        optimizer.tell(trial, trial.x[0], cost=0.5)
    assert not optimizer.ask().is_start


POLICIES = (EI(), Gittins(), Thompson(), Random(), Sobol())


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_the_last_points_of_a_large_grid_are_found(policy):
    """If all but five of 600 points were tried, a screen of some hundred points misses them."""
    space = Space({"j": Int(1, 300, log=True), "k": Categorical(["x", "y"])})
    everything = [space.decode(x) for x in space.points(600)]
    left = {400, 577, 590, 596, 599}
    optimizer = Optimizer(space, policy=policy, seed=1)
    rows = [p | {"value": p["j"] / 300, "cost": 1.0} for p in everything]
    optimizer.import_trials([row for i, row in enumerate(rows) if i not in left])
    found = optimizer.ask(9)
    assert sorted(everything.index(dict(trial.params)) for trial in found) == sorted(left)
    reason = r"every configuration of the space was tried \(600, 5 of them still running\)"
    with pytest.raises(Stopped, match=reason):
        optimizer.ask()


def test_the_last_points_of_a_grid_must_be_affordable():
    space = Space({"j": Int(1, 300, log=True)})
    optimizer = Optimizer(space, 50.0, policy=Random(), cost=lambda params: params["j"] / 2)
    rows = [{"j": j, "value": 1.0} for j in range(1, 301) if j not in (80, 90, 120, 300)]
    optimizer.import_trials(rows)
    assert optimizer.ask(9)[0].params in ({"j": 80}, {"j": 90})
    with pytest.raises(Stopped, match="nothing affordable is left"):
        optimizer.ask()
