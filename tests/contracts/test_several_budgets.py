"""Several limited resources: a point must be affordable in all, and the scarcest one counts."""

from dataclasses import replace

import numpy as np
import pytest
from beliefs import Given, known, line
from methods import Circumstances, as_a_whole, examples_in
from scipy.stats import norm

from farthing import Budget, Float, Optimizer, Space, policies
from farthing.acquisition.belief import Z_AFFORDABLE
from farthing.acquisition.scores import log_ei_per_cost, maximise_score
from farthing.core.suggest import believed
from farthing.policies import EI, EIPerCost, Rollout

SPACE = Space({"x": Float(0, 4), "z": Float(0, 4)})
POINTS = [SPACE.decode(x) for x in SPACE.sample(8, np.random.default_rng(3))]
POLICIES = as_a_whole(examples_in(policies))
MODEL_BASED = [name for name in POLICIES if name not in ("Random", "Sobol", "LatinHypercube")]


def value(p):
    return float(np.sin(1.7 * p["x"]) + 0.2 * (p["z"] - 1) ** 2)


def energy(p):
    return float(np.exp(0.5 * p["x"]))


def money(p):
    return float(1 + 2 * p["z"])


def optimizer(name, budget, cost):
    circumstances = Circumstances(points=tuple(POINTS[:1]))
    made = Optimizer(SPACE, budget, policy=POLICIES[name](circumstances), cost=cost, seed=4)
    for p in POINTS:
        made.add(p, value(p))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", MODEL_BASED)
@pytest.mark.parametrize("second", ["the same again", "plenty"])
def test_a_second_resource_that_does_not_bind_changes_nothing(name, second):
    """The same cost with the same limit, or a limit that is never reached."""
    alone = optimizer(name, {"kWh": 60.0}, {"kWh": energy}).ask()
    cost, limit = (energy, 60.0) if second == "the same again" else (money, 1e12)
    both = optimizer(name, {"kWh": 60.0, "usd": limit}, {"kWh": energy, "usd": cost}).ask()
    np.testing.assert_allclose(both.x, alone.x, atol=1e-5)
    assert both.predicted["kWh"] == pytest.approx(alone.predicted["kWh"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_no_resource_is_overspent(name):
    """With known costs the run ends when one resource is spent, and neither is overspent."""
    made = optimizer(name, {"kWh": 25.0, "usd": 40.0}, {"kWh": energy, "usd": money})
    total = {"kWh": 0.0, "usd": 0.0}
    while not made.verdict.stop:
        assert len(made.history) < 60
        trial = made.ask()
        made.tell(trial, value(trial.params))
        for resource, cost in (("kWh", energy), ("usd", money)):
            total[resource] += cost(trial.params)
            assert made.ledger[resource].spent == pytest.approx(total[resource])
            assert made.ledger[resource].left >= -1e-6
    assert any(made.ledger[r].left < 2.0 for r in total)


def test_the_scarcer_resource_decides_what_is_expensive():
    """Of two equal rows one costs energy and the other money: the choice follows the budget."""
    space = line(2)
    belief = known(
        space,
        objective=Given(space.rows, np.array([0.0, 0.0]), np.array([1.0, 1.0])),
        cost={
            "kWh": Given(space.rows, np.log([8.0, 2.0]), np.zeros(2)),
            "usd": Given(space.rows, np.log([2.0, 8.0]), np.zeros(2)),
        },
        best=np.array([0.5]),
        budget=Budget({"kWh": 10.0, "usd": 100.0}),
    )
    rng = np.random.default_rng(0)
    assert EIPerCost().propose(belief, rng).x == space.rows[1]
    less_money = replace(
        belief, ledger=known(space, budget=Budget({"kWh": 100.0, "usd": 10.0})).ledger
    )
    assert EIPerCost().propose(less_money, rng).x == space.rows[0]
    too_little = replace(
        belief, ledger=known(space, budget=Budget({"kWh": 7.0, "usd": 7.0})).ledger
    )
    assert (
        EIPerCost().propose(too_little, rng).x is None
    )  # each row is unaffordable in one resource


def test_every_resource_is_affordable_with_the_stated_probability():
    rng = np.random.default_rng(1)
    space = line(60)
    mean, std = rng.normal(0, 0.7, (2, 60)), rng.uniform(0.1, 1.0, (2, 60))
    belief = known(
        space,
        objective=Given(space.rows, rng.normal(size=60), np.ones(60)),
        cost={
            resource: Given(space.rows, mean[k], std[k])
            for k, resource in enumerate(("kWh", "usd"))
        },
        best=np.array([0.0]),
        budget=Budget({"kWh": 2.0, "usd": 1.5}),
    )
    fits = [
        norm.cdf((np.log(left) - m) / s) for left, m, s in zip((2.0, 1.5), mean, std, strict=True)
    ]
    affordable = np.minimum(*fits) >= norm.cdf(Z_AFFORDABLE)
    np.testing.assert_array_equal(belief.costs(space.rows)[1] <= 0, affordable)
    assert 5 < affordable.sum() < 55
    found = maximise_score(belief, log_ei_per_cost(1.0), rng)
    assert len(found.X) == affordable.sum()


def test_the_share_is_that_of_the_scarcest():
    made = optimizer("EIPerCost", {"kWh": 30.0, "usd": 20.0}, {"kWh": energy, "usd": money})
    belief = believed(made._settings, made._look())
    X = SPACE.sample(50, np.random.default_rng(2))
    params = [SPACE.decode(x) for x in X]
    shares = [max(energy(p) / 30.0, money(p) / 20.0) for p in params]
    np.testing.assert_allclose(np.exp(belief.costs(X)[0].mean), shares, rtol=1e-9)


def test_looking_ahead_keeps_every_budget():
    """If the money pays for one more evaluation only, looking two ahead is EI."""
    cost = {"kWh": lambda p: 1.0, "usd": lambda p: 6.0}
    last, more = (optimizer("Rollout", {"kWh": 1e3, "usd": usd}, cost) for usd in (10.0, 1e3))
    here, there = (believed(made._settings, made._look()) for made in (last, more))
    rng = np.random.default_rng
    ei = EI().propose(here, rng(0))
    assert Rollout(2).propose(here, rng(0)).score == pytest.approx(np.exp(ei.score), rel=1e-6)
    assert Rollout(2).propose(there, rng(0)).score > 1.05 * np.exp(ei.score)


def test_trials_are_one_of_the_budgets():
    made = optimizer("Rollout", {"kWh": 1e3, "trials": 3}, {"kWh": energy})
    for left in (2, 1, 0):
        trial = made.ask()
        made.tell(trial, value(trial.params))
        assert made.ledger["trials"].left == left
    assert made.verdict.stop
