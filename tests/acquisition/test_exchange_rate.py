from itertools import pairwise

import numpy as np
import pytest
from beliefs import toy, two_points
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import POOL_BEST, POOL_COST, POOL_MEAN, POOL_STD

from farthing import Budget, Float, InvalidInput, Optimizer, Space
from farthing.acquisition.exchange_rate import (
    Boxes,
    boxes_of,
    exchange_rate_of_budget,
    expected_spending,
    with_rate_of_budget,
)
from farthing.models.normal import gittins, log_ei
from farthing.policies import EI, EIPerCost, Gittins
from farthing.stopping import MaxTrials, NotWorthIt

POOL = Boxes(POOL_MEAN, POOL_STD, POOL_COST)
COSTS = {1e-3: 34.66052054, 1e-4: 114.6004837, 2e-3: 11.3778742}  # [pool-expected-cost]
LOSSES = {1e-3: 0.1757962319, 1e-4: 0.1182509660, 2e-3: 0.1998377315}  # [weitzman-optimality]


# ---------------------------------------------------------------- expected cost
@pytest.mark.parametrize("worth", COSTS)
def test_the_expected_cost_of_the_pool(worth):  # [pool-expected-cost]
    assert expected_spending(POOL, POOL_BEST, worth) == pytest.approx(COSTS[worth], abs=1e-7)


@pytest.mark.parametrize(
    ("budget", "worth"), [(30, 0.001551578156), (60, 0.0006149187044), (20, 0.001609034095)]
)
def test_the_rate_of_a_budget(budget, worth):  # [pool-expected-cost]
    """A budget of 20 falls into the jump at EI_B / c_B."""
    assert exchange_rate_of_budget(POOL, POOL_BEST, budget) == pytest.approx(worth, rel=1e-9)


@pytest.mark.parametrize("budget", [15, 30, 60, 100])
def test_a_rate_is_found_to_eleven_digits(budget):
    """At a slightly lower rate the expected cost exceeds the budget."""
    rate = exchange_rate_of_budget(POOL, POOL_BEST, budget)
    assert expected_spending(POOL, POOL_BEST, rate) <= budget
    assert expected_spending(POOL, POOL_BEST, rate * (1 - 2e-11)) > budget


def simulated(worth, seed, draws, choose=None, openings=None):
    """Best value and cost of opening boxes of the pool, in the order of `choose` or by index."""
    rng = np.random.default_rng(seed)
    f = POOL_MEAN + POOL_STD * rng.standard_normal((draws, 5))
    g = gittins(POOL_MEAN, POOL_STD, np.log(worth * POOL_COST))
    order = np.argsort(g if choose is None else -choose)
    best, cost = np.full(draws, POOL_BEST), np.zeros(draws)
    for k, box in enumerate(order):
        going = best > g[box] if openings is None else np.full(draws, k < openings)
        cost += np.where(going, POOL_COST[box], 0.0)
        best = np.where(going, np.minimum(best, f[:, box]), best)
    return best, cost


@pytest.mark.parametrize("worth", COSTS)
def test_simulated_openings_have_the_expected_cost(worth):
    # [pool-expected-cost], [weitzman-optimality]
    draws = 200_000
    best, cost = simulated(worth, 0, draws)
    assert cost.mean() == pytest.approx(COSTS[worth], abs=5 * cost.std() / np.sqrt(draws))
    loss = best + worth * cost
    assert loss.mean() == pytest.approx(LOSSES[worth], abs=5 * loss.std() / np.sqrt(draws))


@pytest.mark.parametrize("worth", LOSSES)
def test_the_loss_is_that_of_the_capped_boxes(worth):  # [weitzman-optimality], Weitzman 1979
    draws = 400_000
    f = POOL_MEAN + POOL_STD * np.random.default_rng(1).standard_normal((draws, 5))
    g = gittins(POOL_MEAN, POOL_STD, np.log(worth * POOL_COST))
    capped = np.minimum(POOL_BEST, np.maximum(f, g).min(axis=1))
    assert capped.mean() == pytest.approx(LOSSES[worth], abs=5 * capped.std() / np.sqrt(draws))


@pytest.mark.slow
@pytest.mark.parametrize("worth", LOSSES)
def test_no_other_order_or_number_of_openings_does_better(worth):  # [weitzman-optimality]
    draws = 100_000
    ei = np.exp(log_ei(POOL_MEAN, POOL_STD, POOL_BEST))
    for choose in (ei, ei / POOL_COST, None):
        for openings in range(6):
            best, cost = simulated(worth, 2, draws, choose, openings)
            loss = best + worth * cost
            assert loss.mean() > LOSSES[worth] - 4 * loss.std() / np.sqrt(draws)
    best, cost = simulated(worth, 2, draws, ei)  # greedy, with the same stop
    assert (best + worth * cost).mean() > LOSSES[worth] - 4 * loss.std() / np.sqrt(draws)


boxes = st.integers(1, 8).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(-1, 1), min_size=n, max_size=n),
        st.lists(st.floats(0.05, 1), min_size=n, max_size=n),
        st.lists(st.floats(0.1, 20), min_size=n, max_size=n),
    )
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(boxes, st.floats(-1, 1))
def test_the_expected_cost_falls_to_zero_as_the_rate_grows(drawn, best):
    some = Boxes(*map(np.array, drawn))
    top = float(np.exp(log_ei(some.mean, some.std, best) - np.log(some.cost)).max())
    spent = [expected_spending(some, best, top * share) for share in (1e-4, 0.01, 0.3, 0.9, 1.001)]
    assert spent[-1] == 0.0
    assert all(a >= b - 1e-9 for a, b in pairwise(spent))
    assert 0.0 <= spent[0] <= some.cost.sum() * (1 + 1e-9)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(boxes, st.floats(-1, 1), st.floats(0.01, 0.99))
def test_the_rate_is_the_least_that_keeps_the_budget(drawn, best, share):
    some = Boxes(*map(np.array, drawn))
    budget = share * some.cost.sum()
    rate = exchange_rate_of_budget(some, best, budget)
    assert expected_spending(some, best, rate) <= budget * (1 + 1e-9)
    top = float(np.exp(log_ei(some.mean, some.std, best) - np.log(some.cost)).max())
    if rate > 2e-6 * top:
        assert expected_spending(some, best, rate * (1 - 1e-6)) > budget * (1 - 1e-6)


# ---------------------------------------------------------------- a belief as boxes
def test_the_boxes_of_a_process_are_its_innovations():
    """Their standard deviations are those given the boxes before, by dense conditioning."""
    belief = two_points(lambda x: 1 + x)
    found = boxes_of(belief, np.random.default_rng(0))
    assert len(found.mean) > 5
    assert np.all(np.diff(found.std) <= 1e-12)  # largest first
    gp = belief.objective
    points = []
    for mean, std, cost in zip(*(part[:6] for part in found[:3]), strict=True):
        x = np.array([[cost - 1.0]])  # the point follows from its cost
        assert gp.at(x).mean[0, 0] == pytest.approx(mean, abs=1e-9)
        if points:
            C = gp.covariance(np.vstack([*points, x]))
            left = C[-1, -1] - C[-1, :-1] @ np.linalg.solve(C[:-1, :-1], C[:-1, -1])
        else:
            left = gp.covariance(x)[0, 0]
        assert std == pytest.approx(np.sqrt(left), rel=1e-4)
        points.append(x)


def test_without_an_affordable_point_there_is_no_box_and_nothing_to_spend_on():
    found = boxes_of(two_points(lambda x: 2 + x, budget=Budget(1.0)), np.random.default_rng(0))
    assert [len(part) for part in found[:3]] == [0, 0, 0]
    assert expected_spending(found, 0.0, 0.1) == 0.0


def test_neighbouring_points_add_little_to_one_box():
    """400 rows of a smooth function are not 400 independent boxes."""
    space = Space.from_rows([{"x": x} for x in np.linspace(0, 1, 400)])
    from beliefs import known

    from farthing.cost import Known

    cost = {"cost": Known(lambda p: 1.0).bind(space)}
    belief = known(space, objective=two_points().objective, cost=cost, best=np.array([-0.1]))
    found = boxes_of(belief, np.random.default_rng(0))
    assert (found.std > 0.1).sum() < 10


# ---------------------------------------------------------------- worth="budget"
def run(budget, **settings):
    optimizer = Optimizer(
        Space({"x": Float(0, 1), "z": Float(0, 1)}),
        budget=budget,
        policy=settings.pop("policy", Gittins()),
        worth="budget",
        seed=1,
        **settings,
    )
    while not optimizer.verdict.stop and len(optimizer.history) < 30:
        trial = optimizer.ask()
        x, z = trial.params.values()
        optimizer.tell(trial, float((x - 0.3) ** 2 + np.sin(5 * z)), cost=1 + x)
    return optimizer


def rates(optimizer):
    notes = [trial.notes.get("memories", {}).get("worth") for trial in optimizer.history]
    return [note["rate"] for note in notes if note is not None]


def test_the_rate_is_computed_once_and_stored():
    optimizer = run(15.0, stop=MaxTrials(9))
    assert len(optimizer.history) == 9
    found = rates(optimizer)
    # From the first model-based trial on.
    assert len(found) == sum(not trial.is_start for trial in optimizer.history) >= 4
    assert len(set(found)) == 1
    assert "if one more unit of cost is worth " in optimizer.history[8].because


def test_a_larger_budget_gives_a_smaller_rate():
    found = [rates(run(budget, stop=MaxTrials(6)))[0] for budget in (16.0, 18.0, 20.0)]
    assert found[0] > found[1] > found[2] > 0


def test_without_any_cost_there_is_a_provisional_rate():
    optimizer = Optimizer(
        Space({"x": Float(0, 1)}), 15.0, policy=Gittins(), stop=NotWorthIt(), worth="budget"
    )
    rows = [{"x": x, "value": float(np.sin(9 * x))} for x in np.linspace(0, 1, 7)]
    assert optimizer.import_trials(rows).taken == 7
    assert optimizer.verdict.because.endswith("no costs are known yet")
    trial = optimizer.ask()
    assert "worth" not in trial.notes["memories"]
    for cost in (2.0, 2.5):
        optimizer.tell(trial, 0.5, cost=cost)
        trial = optimizer.ask(anyway=True)
    assert trial.notes["memories"]["worth"]["rate"] > 0


@pytest.mark.slow
def test_policy_and_rule_read_the_same_rate():
    optimizer = run(200.0, stop=NotWorthIt())
    rate = rates(optimizer)[0]
    assert f"more than the {rate:.3g} it is worth" in optimizer.verdict.because or (
        f"at most the {rate:.3g} it is worth" in optimizer.verdict.because
    )


@pytest.mark.parametrize("budget", [None, "30 trials"])
def test_worth_budget_needs_a_budget_of_a_cost(budget):
    with pytest.raises(InvalidInput, match="needs a budget of a resource"):
        Optimizer(Space({"x": Float(0, 1)}), budget, policy=Gittins(), worth="budget")


def test_a_rate_without_effect_is_refused():
    with pytest.raises(InvalidInput, match="has no effect"):
        Optimizer(Space({"x": Float(0, 1)}), 10.0, policy=EI(), worth="budget")


@pytest.mark.parametrize(
    ("worth", "message"),
    [
        (0, "worth=0"),
        (-1.0, "worth=-1.0"),
        ("0 = $20", "worth='0 = \\$20'"),
        ("0.01 = 2h", "the price is in s, but the cost is measured in usd"),
        ("0.01", "NUMBER = PRICE"),
        ("a bit = $20", "NUMBER = PRICE"),
    ],
)
def test_an_invalid_worth_is_refused(worth, message):
    with pytest.raises(InvalidInput, match=message):
        Optimizer(
            Space({"x": Float(0, 1)}), "$40", policy=EIPerCost(), stop=NotWorthIt(), worth=worth
        )


def test_the_pool_as_boxes():
    """Independent rows are their own boxes."""
    belief = toy()
    order = np.argsort(-POOL_STD)

    class Independent(type(belief.objective)):
        def covariance(self, X):
            return np.diag(self.log_at(X).std ** 2)

    objective = Independent(belief.space.rows, POOL_MEAN, POOL_STD)
    from dataclasses import replace

    found = boxes_of(replace(belief, objective=objective), np.random.default_rng(0))
    np.testing.assert_allclose(found.mean, POOL_MEAN[order])
    np.testing.assert_allclose(found.std, POOL_STD[order])
    np.testing.assert_allclose(found.cost, POOL_COST[order])


def test_the_rate_follows_from_the_cost_budget_and_not_from_the_number_of_trials():
    def rate(**limits):
        return with_rate_of_budget(two_points(lambda x: 1 + x, budget=Budget(limits))).worth

    assert rate(cost=1.5) > rate(cost=3.0)
    assert rate(trials=50, cost=3.0) == rate(cost=3.0, trials=50) == rate(cost=3.0)
