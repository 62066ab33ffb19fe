from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from beliefs import chosen, done, known, letter, line, pool, random_pool, toy

from farthing import Budget, Float, History, Ledger, Optimizer, Space
from farthing.core.suggest import believed
from farthing.errors import InvalidInput
from farthing.policies import EI, Cooling, EIPerCost
from farthing.policies.cooling import exponent


def spent(limit, start, more=0.0):
    """A ledger and a history, after an initial design of cost `start` and trials of cost `more`."""
    ledger = Ledger.of(Budget(limit)).charge(None, {"cost": start})
    first = done(0, [0.1], 1.0, cost=start, notes={"phase": "start"})
    return {
        "ledger": ledger.charge(None, {"cost": more}) if more else ledger,
        "history": History((first, done(1, [0.2], 1.0, cost=more)) if more else (first,)),
    }


def cooled_to(alpha, limit=1e6):
    start = limit / 8
    return spent(limit, start, (1 - alpha) * (limit - start))


# ---------------------------------------------------------------- the exponent
@pytest.mark.parametrize(
    ("more", "reserved", "alpha"),
    [
        (0.0, 0.0, 1.0),
        (27.5, 0.0, 0.6857142857),
        (17.5, 10.0, 0.6857142857),  # what is reserved counts as used
        (87.5, 0.0, 0.0),
        (97.5, 0.0, 0.0),  # raw -0.1142857143
    ],
)
def test_the_exponent(more, reserved, alpha):  # [cooling-exponent]
    settings = spent(100.0, 12.5, more)
    if reserved:
        settings["ledger"] = settings["ledger"].reserve(7, {"cost": reserved})
    assert exponent(toy(**settings)) == pytest.approx(alpha, abs=1e-10)


def test_without_a_limit_it_does_not_cool():
    assert exponent(toy(ledger=Ledger.of(None).charge(None, {"cost": 1e9}))) == 1.0


def test_the_start_is_at_most_what_was_spent():
    """Workers share wall-clock time: three starts of 10 s each, but 12 s spent."""
    ledger = Ledger.of(Budget("100s")).pay({"s": 12.0})
    start = [done(i, [0.1], 1.0, cost=None, notes={"phase": "start"}) for i in range(3)]
    history = History(tuple(replace(trial, cost={"s": 10.0}) for trial in start))
    assert exponent(known(line(3), ledger=ledger, history=history)) == 1.0
    used = ledger.reserve(3, {"s": 40.0})  # 12 s spent and 40 s reserved
    expected = (100 - 52) / (100 - 12)
    assert exponent(known(line(3), ledger=used, history=history)) == pytest.approx(expected)
    ledger = ledger.pay({"s": 28.0})
    expected = (100 - 40) / (100 - 30)
    assert exponent(known(line(3), ledger=ledger, history=history)) == pytest.approx(expected)


def test_the_exponent_is_0_if_only_the_start_was_affordable():
    for paid in (10.0, 12.0):
        assert exponent(toy(**spent(10.0, paid))) == 0.0


@pytest.mark.slow
def test_it_agrees_with_costs_added_by_hand():
    """A run with failed, killed, running and imported trials and three limits."""
    space = Space({"x": Float(2, 5), "k": Float(1, 2)})
    budget = {"usd": 240.0, "kWh": 90.0, "trials": 40}
    optimizer = Optimizer(space, budget, policy=Cooling(), seed=2)
    rng, totals, start = np.random.default_rng(0), Counter(), Counter()
    for x in (2.5, 4.5):
        optimizer.add({"x": x, "k": 1.5}, x, cost={"usd": 70.0, "kWh": 1.0})
    scarcest = set()
    for _ in range(12):
        trial, waiting = optimizer.ask(2)
        cost = {"usd": rng.uniform(1, 8), "kWh": rng.uniform(0.5, 5)}
        kind = rng.integers(6)
        outcome = {"failed": "no memory"} if kind == 0 else {"killed": True} if kind == 1 else {}
        optimizer.tell(trial, **(outcome or {"value": trial.params["x"] ** 2}), cost=cost)
        ledger = optimizer.ledger
        for counts in (totals, start) if trial.is_start else (totals,):
            counts.update(cost | {"trials": 1})
        alphas = {
            name: (limit - totals[name] - ledger[name].reserved) / (limit - start[name])
            for name, limit in budget.items()
        }
        scarcest.add(min(alphas, key=alphas.get))
        alpha = exponent(believed(optimizer._settings, optimizer._look()))
        assert alpha == pytest.approx(min(alphas.values()), rel=1e-12)
        optimizer.tell(waiting, waiting.params["x"] ** 2, cost=cost)
        for counts in (totals, start) if waiting.is_start else (totals,):
            counts.update(cost | {"trials": 1})
    assert alpha < 0.5
    assert len(scarcest) > 1
    assert start["trials"] >= 2


# ---------------------------------------------------------------- the choices
@pytest.mark.parametrize(
    ("alpha", "row"),
    [
        (1.0, "D"),
        (0.6857142857, "D"),
        (0.5758572608 + 1e-7, "D"),
        (0.5758572608 - 1e-7, "C"),
        (0.5, "C"),
        (0.08580968045 + 1e-7, "C"),
        (0.08580968045 - 1e-7, "A"),
        (0.001, "A"),
    ],
)
def test_choices_on_the_toy_pool(alpha, row):  # [cooling-exponent]
    belief = toy(**cooled_to(alpha))
    assert letter(Cooling(), belief) == row
    proposal = Cooling().propose(belief, np.random.default_rng(0))
    assert proposal.notes["alpha"] == pytest.approx(alpha, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_it_starts_as_ei_per_cost_and_ends_as_ei(seed):
    hot, cold = (
        random_pool(np.random.default_rng(seed), **cooled_to(alpha, limit=1e12))
        for alpha in (1.0, 1e-8)
    )
    assert chosen(Cooling(), hot) == chosen(EIPerCost(), hot)
    assert chosen(Cooling(), cold) == chosen(EI(), cold)


def test_what_is_reserved_cools_too():
    settings = spent(1e6, 1e6 / 8)
    assert letter(Cooling(), toy(**settings)) == "D"
    settings["ledger"] = settings["ledger"].reserve(3, {"cost": 0.5e6})
    assert letter(Cooling(), toy(**settings)) == "C"


def test_when_all_is_spent_nothing_is_proposed():
    belief = toy(**spent(100.0, 12.5, 87.5))
    assert Cooling().propose(belief, np.random.default_rng(0)).x is None


def test_the_last_of_the_budget_is_not_overspent():
    # With exponent 0 it would take row 0, but what is left pays only for row 1.
    settings = spent(1e6, 1.0, 1e6 - 6.0)
    belief = pool([1.0, 1.2], [0.5, 0.5], [10.0, 4.0], 1.5, **settings)
    assert chosen(Cooling(), belief) == 1


# ---------------------------------------------------------------- the exponent at the start
@pytest.mark.parametrize("first", [0.0, 0.3, 0.5, 2.0])
@pytest.mark.parametrize("left", [1.0, 0.5, 0.1])
def test_the_exponent_starts_at_first(first, left):
    """EI / c^(first a_k) is EIPerCost with that alpha."""
    belief = random_pool(np.random.default_rng(4), **cooled_to(left))
    assert exponent(belief) == pytest.approx(left)
    assert chosen(Cooling(first), belief) == chosen(EIPerCost(first * left), belief)
    proposal = Cooling(first).propose(belief, np.random.default_rng(0))
    assert proposal.notes["alpha"] == pytest.approx(first * left)
    assert f"falls from {first:g} to 0" in proposal.because


@pytest.mark.parametrize("first", [-0.1, float("nan"), float("inf")])
def test_a_bad_first_exponent_is_refused(first):
    with pytest.raises(InvalidInput, match="at least 0"):
        Cooling(first=first)
