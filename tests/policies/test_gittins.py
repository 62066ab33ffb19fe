import sys
from dataclasses import replace

import numpy as np
import pytest
from beliefs import (
    Given,
    chosen,
    done,
    known,
    letter,
    line,
    one_column,
    pool,
    random_pool,
    toy,
    two_points,
)
from oracles import POOL_BEST, POOL_COST, POOL_MEAN, POOL_STD
from scipy.stats import norm

from farthing import Budget, Categorical, Float, History, InvalidInput, Optimizer, Space
from farthing.acquisition.belief import believe
from farthing.cost import LogGP
from farthing.models.normal import expected_cost, gittins, log_affordable, log_ei
from farthing.policies import EIPerCost, Gittins
from farthing.policies.gittins import _first_worth, decayed
from farthing.stopping import NotWorthIt

INDICES = {  # of A to E
    1e-2: (1.2, 0.6199865449, 0.337609852, 0.2389248919, 0.58),
    1e-3: (0.2899471561, 0.2033316735, 0.04888365694, 0.07594801917, 0.2976466098),
    1e-4: (0.1097653652, 0.046843319, -0.1383912303, -0.04438304416, 0.2216471694),
}


@pytest.mark.parametrize(("worth", "row"), [(1e-2, "D"), (1e-3, "C"), (1e-4, "C")])
def test_choices_on_the_toy_pool(worth, row):  # [pool-gittins-indices]
    assert letter(Gittins(worth), toy()) == row
    assert letter(Gittins(), toy(worth=worth)) == row  # the setting
    assert letter(Gittins(worth), toy(worth=0.5)) == row  # its own comes first
    assert letter(EIPerCost(), toy()) == "D"  # for any worth: the same stop, but another choice


@pytest.mark.parametrize("worth", INDICES)
@pytest.mark.parametrize("row", range(5))
def test_an_index_is_the_certain_value_that_is_as_good(
    worth, row
):  # [gittins-root] [pool-gittins-indices]
    """Against a value that is certain and free, whose index is itself, the choice switches at g."""
    index = INDICES[worth][row]
    for sure, choice in ((index + 1e-9, 0), (index - 1e-9, 1)):
        mean, std, cost = (
            [column[row], other]
            for column, other in ((POOL_MEAN, sure), (POOL_STD, 1e-13), (POOL_COST, 1e-12))
        )
        assert chosen(Gittins(worth), pool(mean, std, cost, POOL_BEST)) == choice


def test_halving_on_the_toy_pool():  # [pool-gittins-decay]
    worth = decayed(0.1, np.log(0.01133397354), floor=0.0)
    assert worth == 0.1 / 2**4 == 0.00625
    index = gittins(POOL_MEAN, POOL_STD, np.log(worth * POOL_COST))
    assert index.min() == pytest.approx(0.2000168868, abs=1e-9)
    assert index.min() < POOL_BEST <= gittins(0.35, 0.15, np.log(2 * worth * 2.0))


def with_note(worth):
    """P and a row that was tried at the rate `worth`."""
    return pool(
        [*POOL_MEAN, 0.9],
        [*POOL_STD, 0.01],
        [*POOL_COST, 5.0],
        POOL_BEST,
        history=History((done(0, [1.0], 0.25, notes={"worth": worth}),)),
    )


def test_dynamic_decay_on_the_toy_pool():  # [pool-gittins-decay]
    proposal = Gittins().propose(with_note(0.1), np.random.default_rng(0))
    assert proposal.notes["worth"] == 0.00625
    assert chosen(Gittins(), with_note(0.1)) == 3
    # The rate stays if some point is worth its cost.
    proposal = Gittins().propose(with_note(0.01), np.random.default_rng(0))
    assert proposal.notes["worth"] == 0.01
    proposal = Gittins().propose(with_note(0.0113339), np.random.default_rng(0))
    assert proposal.notes["worth"] == 0.0113339
    proposal = Gittins().propose(with_note(0.0113340), np.random.default_rng(0))
    assert proposal.notes["worth"] == 0.0113340 / 2


def test_the_first_rate_is_a_tenth_of_the_scale_of_values_per_cost():
    history = History((done(0, [0.0], 0.3), done(1, [1.0], 0.3)))
    for value, price in ((1.0, 1.0), (3.0, 1000.0)):
        belief = pool(
            value * np.array([0.3, 0.2, 0.3]),
            value * np.array([0.01, 0.5, 0.01]),
            price * np.array([4.0, 0.1, 6.0]),
            value * 0.3,
            history=history,
        )
        object.__setattr__(belief.objective, "scale", value * 0.7)
        proposal = Gittins().propose(belief, np.random.default_rng(0))
        assert proposal.notes["worth"] == pytest.approx(0.1 * 0.7 * value / (5.0 * price))


def test_values_near_the_largest_float_have_a_finite_first_rate():
    """An infinite one is halved for ever."""
    history = History((done(0, [0.0], 0.3), done(1, [1.0], 0.3)))
    belief = pool(
        np.array([0.3, 0.2, 0.3]),
        np.array([0.01, 0.5, 0.01]),
        np.array([4e-9, 1e-10, 6e-9]),
        0.3,
        history=history,
    )
    object.__setattr__(belief.objective, "scale", 1e305)
    assert _first_worth(belief) == sys.float_info.max


@pytest.mark.slow
@pytest.mark.parametrize("halvings", [0, 1, 2, 5])
def test_dynamic_decay_on_the_line(halvings):
    """Against max EI / c of a fine grid, whether or not the points of smallest g suffice."""
    belief = two_points(lambda x: 1 + 9 * x)
    grid = np.linspace(0, 1, 20001)[:, None]
    outlook = belief.outlook(grid)
    most = (log_ei(outlook.mean[:, 0], outlook.std, belief.best) - np.log(1 + 9 * grid[:, 0])).max()
    for share in (0.55, 0.75, 0.97):  # of the maximum, after the halvings
        worth = float(np.exp(most) * share * 2.0**halvings)
        first, last = belief.history
        noted = History((first, replace(last, notes={"worth": worth})))
        proposal = Gittins().propose(replace(belief, history=noted), np.random.default_rng(0))
        assert proposal.notes["worth"] == worth / 2**halvings


@pytest.mark.parametrize("seed", range(8))
def test_the_rate_ends_just_below_the_highest_ei_per_cost(seed):
    rng = np.random.default_rng(seed)
    log_most = rng.normal(-5.0, 10.0)
    worth = decayed(np.exp(log_most + 9.0), log_most, floor=0.0)
    assert 0.5 * np.exp(log_most) <= worth < np.exp(log_most)
    assert decayed(worth, log_most, floor=0.0) == worth
    assert decayed(np.exp(log_most), log_most, floor=0.0) == pytest.approx(0.5 * np.exp(log_most))


def test_the_rate_has_a_floor_if_no_improvement_is_expected():
    assert 0.5e-9 < decayed(0.1, -1e5, floor=1e-9) <= 1e-9


def test_worth_is_per_unit_of_the_first_resource_however_scarce_another_is():
    rows = line(3)
    objective = Given(rows.rows, np.array([0.5, 0.4, 0.3]), np.full(3, 0.5))

    def about(**prices):
        cost = {r: Given(rows.rows, np.log(price), np.zeros(3)) for r, price in prices.items()}
        limits = {"s": 1000.0, "usd": 10.0}
        budget = Budget({resource: limits[resource] for resource in prices})
        return known(rows, objective=objective, cost=cost, budget=budget, best=np.array([0.5]))

    seconds, dollars = np.array([1.0, 20.0, 80.0]), np.array([9.0, 5.0, 1.0])
    # In shares of the scarcest resource, the last row would be the cheapest.
    assert chosen(Gittins(0.01), about(usd=dollars, s=seconds)) == 2
    assert chosen(Gittins(0.01), about(s=seconds)) == 0
    assert chosen(Gittins(0.01), about(s=seconds, usd=dollars)) == 0


@pytest.mark.parametrize("seed", range(5))
def test_ten_times_the_cost_at_a_tenth_of_the_worth_changes_nothing(seed):
    belief = random_pool(np.random.default_rng(seed))
    expensive = pool(
        belief.objective.mean, belief.objective.std, 10 * np.exp(belief.cost["cost"].mean), 2.6
    )
    for worth in (1.0, 0.1, 1e-3, 1e-6):
        assert chosen(Gittins(worth), belief) == chosen(Gittins(worth / 10), expensive)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_smallest_index(seed):
    belief = random_pool(np.random.default_rng(seed))
    rows = belief.space.rows
    for worth in (1.0, 1e-2, 1e-5):
        price = np.log(worth) + belief.cost["cost"].log_at(rows).mean
        index = gittins(*one_column(belief.objective, rows), price)
        assert chosen(Gittins(worth), belief) == np.argmin(index)


def test_only_what_is_affordable():
    assert letter(Gittins(1e-4), toy(limit=9.0)) == "D"
    assert Gittins(1e-4).propose(toy(limit=1.0), np.random.default_rng(0)).x is None
    assert (
        Gittins()
        .propose(toy(limit=1.0, history=History((done(0, [1.0], 0.3),))), np.random.default_rng(0))
        .x
        is None
    )


def test_it_reads_the_setting_if_it_has_no_worth_of_its_own():
    assert Gittins().reads == {"worth"}
    assert Gittins(0.1).reads == frozenset()


# ---------------------------------------------------------------- boxes to open
def expected_cost_of_playing(worth):
    """E[cost] of opening boxes of P by index until the best value is below the next index.

    P(open k) = [best > g_k] prod_{j < k} P(f_j > g_k), in the order of the index.
    """
    index = gittins(POOL_MEAN, POOL_STD, np.log(worth * POOL_COST))
    order = np.argsort(index)
    total = 0.0
    for k, box in enumerate(order):
        above = norm.sf(index[box], POOL_MEAN[order[:k]], POOL_STD[order[:k]])
        total += POOL_COST[box] * (index[box] < POOL_BEST) * above.prod()
    return total


def test_the_expected_cost_of_playing():  # [pool-expected-cost]
    for worth, cost in ((1e-3, 34.66052054), (1e-4, 114.6004837), (2e-3, 11.3778742)):
        assert expected_cost_of_playing(worth) == pytest.approx(cost, rel=1e-8)
    for worth, budget in ((0.001551578156, 30.0), (0.0006149187044, 60.0)):
        assert expected_cost_of_playing(worth) == pytest.approx(budget, rel=1e-8)
    jump = 0.001609034095  # EI / c of B; the expected cost jumps here and is never 20
    assert expected_cost_of_playing(jump - 1e-12) > 20 > expected_cost_of_playing(jump + 1e-12)
    costs = [expected_cost_of_playing(worth) for worth in np.geomspace(1e-6, 0.1, 60)]
    assert np.all(np.diff(costs) <= 0)
    assert expected_cost_of_playing(0.01133397355) == 0 < expected_cost_of_playing(0.01133397353)


@pytest.mark.parametrize("worth", [1e-3, 1e-4])
def test_policy_and_rule_play_by_the_index(worth):  # [pool-gittins-indices] [pool-expected-cost]
    index = gittins(POOL_MEAN, POOL_STD, np.log(worth * POOL_COST))
    order = np.argsort(index)
    assert worth != 1e-3 or "".join("ABCDE"[i] for i in order) == "CDBAE"
    lengths = set()
    for seed in range(12):
        values = np.random.default_rng(seed).normal(POOL_MEAN, POOL_STD)
        best, opened, history = POOL_BEST, [], History()
        while True:
            belief = pool(POOL_MEAN, POOL_STD, POOL_COST, best, history=history)
            proposal = Gittins(worth).propose(belief, np.random.default_rng(0))
            if NotWorthIt(worth)(belief, proposal, np.random.default_rng(0)).stop:
                break
            opened.append(chosen(Gittins(worth), belief))
            best = min(best, values[opened[-1]])
            history = history.adding(done(len(opened) - 1, proposal.x, best))
        until = [
            k
            for k in range(6)
            if k == 5 or min(POOL_BEST, *values[order[:k]], 9) <= index[order[k]]
        ]
        assert opened == order[: until[0]].tolist()
        lengths.add(len(opened))
    assert len(lengths) > 1


@pytest.mark.parametrize("worth", [0.0, -1.0, np.nan, np.inf])
def test_an_invalid_worth_is_refused(worth):
    with pytest.raises(InvalidInput, match="expected a positive, finite number"):
        Gittins(worth)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "budget"), [(12, "$2000"), (150, "$2000"), (150, "$3")])
def test_of_a_large_table_the_row_of_smallest_index(n, budget):
    """With a learnt cost: against the index of every row, by bisection in double precision."""
    drawn = Space(
        {"a": Float(0, 1), "b": Float(1e-3, 1, log=True), "c": Categorical(["u", "v", "w"])}
    )
    X = drawn.sample(6000, np.random.default_rng(n))
    space = Space.from_rows([drawn.decode(x) for x in X], dict(drawn.parameters))
    optimizer = Optimizer(space, budget, policy=Gittins(0.01))
    for x in space.rows[:n]:
        value = np.sin(9 * x[0]) + (x[1] - 0.4) ** 2 + x[2]
        optimizer.add(space.decode(x), value, cost=float(np.exp(2 * x[0] - x[1])))
    learners = {"usd": LogGP()}
    belief = believe(space, optimizer.history, optimizer.ledger, learners=learners)
    trial = optimizer.ask()
    rows = space.rows[n:]
    (mean, std), (cost, shortfall) = belief.objective.at(rows), belief.costs(rows)
    log_price = np.log(0.01) + expected_cost(*cost, belief.cap)
    log_price -= log_affordable(*cost, belief.cap)
    low, high = np.full(len(rows), -60.0), np.full(len(rows), 60.0)
    for _ in range(60):  # ln EI(g) = ln price
        g = 0.5 * (low + high)
        enough = log_ei(mean[:, 0], std, g) >= log_price
        low, high = np.where(enough, low, g), np.where(enough, g, high)
    index = np.where(shortfall <= 0, high, np.inf)
    assert np.isfinite(index).sum() > 100
    np.testing.assert_array_equal(trial.x, rows[np.argmin(index)])
