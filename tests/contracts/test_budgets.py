"""Budgets of one to three resources are kept by every policy, however fast evaluations are.

    python tests/contracts/test_budgets.py 10000

plays that many random cases. The costs of money and energy are known or learnt, and seconds are
told: evaluations take from a microsecond to seconds, so that suggestions are whole, light or
without a model (`acquisition/overhead.py`).
"""

import sys

import numpy as np
import pytest

from farthing import (
    Categorical,
    Float,
    Int,
    Optimizer,
    Outcome,
    Space,
    Stopped,
    minimize,
    policies,
)
from farthing.acquisition.protocols import Proposal
from farthing.core.suggest import believed

POLICIES = [
    policies.EI(),
    policies.EIPerCost(),
    policies.Cooling(),
    policies.Gittins(),
    policies.Random(),
    policies.Sobol(),
    policies.Thompson(),
    policies.ConfidenceBound(),
    policies.CArBO(),
]
SPACES = [
    Space({"x": Float(0, 1)}),
    Space({"x": Float(0, 1), "k": Int(1, 9), "s": Categorical(["u", "v"])}),
    Space({"k": Int(1, 12)}),
    Space.from_rows([{"x": float(x), "s": s} for x in np.linspace(0, 1, 9) for s in "uv"]),
]


def level(params):
    """A number from 0 to 1 on which the cost depends."""
    return params["x"] if "x" in params else params["k"] / 12


def play(case: int, trials: int = 12) -> list[str]:
    """Play one random case; the violations that were seen."""
    rng = np.random.default_rng([case, 23])
    space = SPACES[rng.integers(len(SPACES))]
    span, base = rng.uniform(0, 3), 10 ** rng.uniform(-3, 3)
    costs = {
        name: lambda p, scale=base * 10 ** rng.uniform(-1, 1): scale * 10 ** (span * level(p))
        for name in rng.permutation(["usd", "kWh"])[: rng.integers(0, 3)]
    }
    known = {name: cost for name, cost in costs.items() if rng.random() < 0.7}
    limits = {name: cost({"x": 0.5, "k": 6}) * rng.uniform(1, 8) for name, cost in costs.items()}
    speed = 10 ** rng.uniform(-6, 0.5)
    if rng.random() < 0.6 or not limits:
        limits["s"] = speed * rng.uniform(2, 40) + 0.05
    policy = POLICIES[rng.integers(len(POLICIES))]
    queue = [space.decode(x) for x in space.sample(2, rng)] if rng.random() < 0.3 else []
    optimizer = Optimizer(
        space, limits, policy=policy, cost=known or None, seed=case, start=queue[:1]
    )
    for params in queue[1:]:
        optimizer.enqueue(params)
    wrong = list[str]()
    for _ in range(trials):
        before = optimizer.ledger
        try:
            trial = optimizer.ask()
        except Stopped:
            break
        if before.used_up:
            wrong.append(f"trial {trial.number} started with {before.used_up} used up")
        for name in known:
            if known[name](trial.params) > before[name].left * (1 + 1e-6):
                wrong.append(f"trial {trial.number}: {trial.because}: {name} exceeds what is left")
        paid = {name: cost(trial.params) for name, cost in costs.items()}
        paid |= {"s": speed * rng.uniform(0.5, 2)} if "s" in limits else {}
        optimizer.tell(trial, float(rng.normal()), cost=paid)
    for name in known:
        if optimizer.ledger[name].spent > limits[name] * (1 + 1e-6):
            wrong.append(f"{name}: {optimizer.ledger[name].spent} of {limits[name]}")
    return [f"case {case} ({policy}): {each}" for each in wrong]


@pytest.mark.parametrize("case", range(40))
def test_a_known_cost_never_exceeds_what_is_left_of_any_resource(case):
    assert play(case) == []


@pytest.mark.parametrize("seed", range(4))
def test_money_is_kept_where_time_is_limited_too(seed):
    """Evaluations take microseconds, so that most suggestions are steps without a model."""
    cost = {"usd": lambda p: p["x"] + 0.1}
    result = minimize(
        lambda p: (p["x"] - 0.3) ** 2,
        {"x": Float(0, 1)},
        "$5, 2s",
        cost=cost,
        seed=seed,
        overhead=1e-6,
    )
    assert any(trial.notes.get("effort") == "none" for trial in result.history)
    assert result.ledger.spent <= 5 * (1 + 1e-9)


def test_a_policy_that_ignores_costs_gets_an_affordable_point_instead():
    class MostExpensive:
        needs = reads = frozenset()

        def propose(self, belief, rng):
            return Proposal(np.array([1.0]), "the most expensive point")

    optimizer = Optimizer(
        {"x": Float(0, 1)}, "$1", policy=MostExpensive(), cost=lambda p: 0.1 + p["x"]
    )
    trial = optimizer.ask()
    assert trial.params["x"] <= 0.9
    assert "another one is taken" in trial.because


def test_the_cheap_side_is_explored_before_the_end():
    """Five trials cost $0.45 to $0.60, and $0.33 is left: a trend says that x = 0 is cheaper."""
    result = minimize(
        lambda p: Outcome((p["x"] - 0.3) ** 2, cost=p["x"] + 0.1),
        {"x": Float(0, 1)},
        "$3",
        policy=policies.Gittins(),
    )
    costs = [trial.cost["usd"] for trial in result.history]
    assert min(costs[:5]) > 0.44
    assert len(costs) > 5
    assert "linear trend" in result.history[5].because
    assert result.ledger.spent <= 3
    assert result.ledger.left < 0.1


# ── the cap of the initial design ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pays", [3.0, 3.2, 4.17, 6.0, 11.0, 40.0])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_constant_cost_is_not_killed_by_the_start_if_the_budget_pays_for_three(pays, workers):
    for seed in range(5):
        optimizer = Optimizer(
            {"x": Float(0, 1), "s": Categorical(["u", "v"])}, {"worker_s": 6.0 * pays}, seed=seed
        )
        ended = 0
        while ended < min(int(pays), 8):
            for trial in optimizer.ask(workers, lease=1e9):
                assert trial.limit.get("worker_s", np.inf) >= 6.0 * (1 - 1e-9)
                optimizer.tell(trial, float(trial.x[0]), cost=6.0)
                ended += 1


def test_a_trial_near_a_killed_one_has_a_higher_limit_or_does_not_start():
    """Costs are 40 of 100 everywhere, so every trial of the start is killed at its limit."""
    for seed in range(30):
        optimizer = Optimizer({"x": Float(0, 1), "y": Float(0, 1)}, 100.0, seed=seed)
        killed = []
        while True:
            try:
                trial = optimizer.ask()
            except Stopped:
                break
            limit = trial.limit.get("cost", np.inf)
            for x, cost in killed:
                if np.abs(x - trial.x).max() <= 0.25:
                    assert limit > cost
            if limit >= 40.0:
                optimizer.tell(trial, 1.0, cost=40.0)
                break
            optimizer.tell(trial, killed=True, cost=limit)
            killed.append((trial.x, limit))
        assert [t.state for t in optimizer.history][-1] == "done"


def test_max_cost_replaces_the_cap_of_the_start_and_bounds_every_reservation():
    optimizer = Optimizer({"x": Float(0, 1)}, "$100", max_cost="$4")
    batch = optimizer.ask(30, lease=1e9)
    assert len(batch) == 25
    assert {trial.limit["usd"] for trial in batch} == {4.0}
    assert {trial.limit_by["usd"] for trial in batch} == {"max_cost"}
    for trial in batch:
        optimizer.tell(trial, float(trial.x[0]), cost=3.9 * (0.1 + 0.9 * float(trial.x[0])))
    more = optimizer.ask(2, lease=1e9)
    assert all(optimizer.ledger.reserved_for(trial.number)["usd"] <= 4.0 for trial in more)


def test_no_more_is_reserved_than_a_trial_can_cost():
    """The costs differ by so much that their 80 % quantile is higher."""
    optimizer = Optimizer(
        {"x": Float(0, 1)}, {"usd": 100.0}, policy=policies.Random(), max_cost={"usd": 4.0}, seed=0
    )
    for cost in (0.02, 3.9, 0.02, 3.9, 0.02, 3.9):
        optimizer.tell(optimizer.ask(lease=1e9), 1.0, cost=cost)
    trial = optimizer.ask(lease=1e9)
    assert optimizer.ledger.reserved_for(trial.number)["usd"] == 4.0


@pytest.mark.parametrize("unit", ["usd", "kWh", "cost"])
def test_while_costs_are_unknown_a_worker_starts_one_trial_and_waits(unit):
    optimizer = Optimizer({"x": Float(0, 1)}, {unit: 2.0}, policy=policies.Random())
    [trial] = optimizer.ask(16, lease=1e9)
    assert optimizer.ledger[unit].left == 0
    with pytest.raises(Stopped, match="reserved for running trials"):
        optimizer.ask(lease=1e9)
    optimizer.tell(trial, 1.0, cost=0.1)
    assert len(optimizer.ask(16, lease=1e9)) == 9  # 0.2 each: one cost is too few for a model
    measured = Optimizer({"x": Float(0, 1)}, {"worker_s": 2.0}, policy=policies.Random())
    assert len(measured.ask(16, lease=1e9)) == 3  # they are killed at a third of the budget


# ── killed trials ────────────────────────────────────────────────────────────────────────────────


def hanging(trial):
    return trial.params["mode"] == "hang"


@pytest.mark.parametrize("policy", [policies.Gittins(), policies.EI(), policies.Random()])
@pytest.mark.parametrize("seed", range(3))
def test_an_option_that_was_killed_twice_and_never_finished_is_not_tried_again(policy, seed):
    space = {"mode": Categorical(["ok", "hang"]), "x": Float(0, 1)}
    optimizer = Optimizer(space, 40.0, policy=policy, seed=seed)
    for _ in range(20):
        try:
            trial = optimizer.ask()
        except Stopped:
            break
        if hanging(trial):
            optimizer.tell(trial, killed=True, cost=3.0)
        else:
            optimizer.tell(trial, (trial.params["x"] - 0.4) ** 2, cost=0.5)
    assert sum(map(hanging, optimizer.history)) <= 2
    assert len(optimizer.history.done) >= 12


def test_if_every_option_hangs_none_is_closed():
    optimizer = Optimizer({"mode": Categorical(["a", "b"]), "x": Float(0, 1)}, 1000.0)
    for _ in range(8):
        optimizer.tell(optimizer.ask(), killed=True, cost=1.0)
    assert not believed(optimizer._settings, optimizer._store.look()).closed


def test_a_kill_at_the_users_limit_makes_its_neighbourhood_unlikely_to_return_a_value():
    """A kill by the initial design or by the end of the budget says nothing about the value."""

    def log_success(killed_by):
        optimizer = Optimizer({"x": Float(0, 1)}, 1000.0, policy=policies.EI())
        for x in (0.1, 0.3, 0.5, 0.6):
            optimizer.add({"x": x}, x, cost=1.0)
        trial = optimizer.ask()
        optimizer.tell(trial, killed=True, cost=3.0)
        history = optimizer._store.look().history
        killed = history[len(history) - 1]
        killed.notes["killed_by"] = killed_by
        belief = believed(optimizer._settings, optimizer._store.look())
        return float(belief.log_success(killed.x[None] + 0.01)[0])

    for rule in ("timeout", "max_overrun", "max_cost", "user"):
        assert log_success(rule) < np.log(0.2)
    for rule in ("start", "end"):
        assert log_success(rule) == 0


if __name__ == "__main__":
    count = int(sys.argv[1])
    bad = 0
    for case in range(count):
        for violation in play(case):
            bad += 1
            print(violation, flush=True)
        if case % 500 == 499:
            print(f"{case + 1} cases, {bad} violations", flush=True)
