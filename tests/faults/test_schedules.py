"""Eight asynchronous workers in random schedules: no point twice, nothing beyond the budget.

The number of a schedule draws its space, budget, policy and order of asks (single trials and
batches), renewals, values, failures, kills and losses.
"""

import math
import pickle
from collections import Counter
from dataclasses import dataclass, field

import cloudpickle
import numpy as np
import pytest
from processes import FOREVER

from farthing import Categorical, Float, Int, Optimizer, Ordinal, Space, Stopped, Study
from farthing.core.events import Told
from farthing.cost import Linear
from farthing.policies import (
    EI,
    CArBO,
    ConfidenceBound,
    ContextualEI,
    Cooling,
    CostEffectiveDesign,
    EIPerCost,
    Gittins,
    LatinHypercube,
    Random,
    Rollout,
    Sobol,
    Thompson,
)

WORKERS = 8
SCHEDULES = 1000
PARTS = 5  # tests, so that several processes can run them
STEPS = 14  # of a schedule
LARGEST = 5  # batch
TINY_COST = 1e-12  # of a trial that was killed when it started

_u = np.random.default_rng(0).random(14)
SPACES = {
    "continuous": Space({"a": Float(0, 1), "b": Float(1e-3, 1, log=True)}),
    "mixed": Space(
        {
            "a": Float(0, 1),
            "k": Categorical(["x", "y", "z"]),
            "n": Int(1, 9),
            "m": Float(0, 1, when={"k": "x"}),
        }
    ),
    "integers": Space({"i": Int(0, 3), "j": Ordinal([1, 2, 4])}),
    "conditional": Space(
        {
            "k": Categorical(["x", "y", "z"]),
            "i": Int(0, 5, when={"k": "x"}),
            "j": Int(1, 4, log=True, when={"k": "y"}),
        }
    ),
    "table": Space.from_rows([{"u": float(u), "v": v} for v, u in enumerate(_u)]),
}
POINTS = {"integers": 12, "conditional": 11, "table": 14}  # their number
DESIGNS = (Random(), Sobol(), LatinHypercube(), CostEffectiveDesign())
POLICIES = (
    *(EI(), EIPerCost(), ContextualEI(), Gittins(), Thompson(), ConfidenceBound()),
    *(*DESIGNS, Cooling(), CArBO(), Rollout(horizon=2)),
)
# The mean cost is about 1 of either resource.
BUDGETS = (
    {"usd": 9.0},
    {"usd": 30.0},
    {"usd": 12.0, "kWh": 10.0},
    {"kWh": 8.0, "trials": 9},
    {"trials": 13},
)


def numbers_of(params):
    return [len(v) * ord(v) % 7 if isinstance(v, str) else v for _, v in sorted(params.items())]


def price(params):
    """The cost of an evaluation by resource."""
    wave = math.fsum(math.cos(3 * v + i) for i, v in enumerate(numbers_of(params)))
    usd, kWh = 0.4 + 0.3 * (1 + math.cos(wave)), 0.3 + 0.5 * (1 + math.sin(wave))
    return {"usd": usd, "kWh": kWh, "cost": usd}


def dollars(params):
    return price(params)["usd"]


def kilowatt_hours(params):
    return price(params)["kWh"]


KNOWN = {"usd": dollars, "kWh": kilowatt_hours}


def value(params):
    return math.fsum(math.sin(2 * v + i) for i, v in enumerate(numbers_of(params)))


@dataclass
class Schedule:
    """A running schedule, and what must hold at every moment."""

    optimizer: Optimizer
    renews: bool = True  # if not, the known cost must be reserved in full
    used: dict[int, dict[str, float]] = field(default_factory=dict)  # cost so far by running trial

    @property
    def cost_resources(self):
        return [r for r in self.optimizer.ledger if r != "trials"]

    def cost_of(self, trial, share=1.0):
        return {r: share * price(trial.params)[r] for r in self.cost_resources}

    def ask(self, rng, handle, worker):
        size = int(rng.integers(0, LARGEST + 1))
        terms = {"worker": str(worker), "lease": FOREVER}
        batch = handle.ask(size, **terms) if size else [handle.ask(**terms)]
        assert 1 <= len(batch) <= max(size, 1)
        for trial in batch:
            self.used[trial.number] = dict.fromkeys(self.cost_resources, 0.0)
        return batch

    def advance(self, rng, handle, trial):
        """A worker continues a trial; return True if it has ended."""
        share = float(rng.choice([0.5, 1.0, 1.0]))
        ahead, used = self.cost_of(trial, share), self.used[trial.number]
        ahead = {r: max(ahead[r], used[r]) for r in ahead}
        if self.renews and handle.renew(trial, lease=FOREVER, cost=used, ahead=ahead) is not None:
            spent = {r: max(amount, TINY_COST) for r, amount in used.items()}
            handle.tell(trial, killed=True, cost=spent)  # as a worker does that respects the budget
            return True
        self.used[trial.number] = ahead
        if share < 1.0:
            return False
        how = rng.choice(["value", "failed", "killed", "lost"], p=[0.7, 0.1, 0.1, 0.1])
        if how == "value":
            handle.tell(trial, value(trial.params), cost=ahead)
        elif how == "lost":
            handle.commit(Told(trial, "lost", None, ahead, "gone", by_user=False))
        else:
            handle.tell(trial, cost=ahead, **{how: "no" if how == "failed" else True})
        return True

    def check(self):
        history, ledger = self.optimizer.history, self.optimizer.ledger
        evaluated = [t for t in history if t.state != "lost"]
        points = Counter(tuple(t.params.items()) for t in evaluated)
        assert max(points.values(), default=1) == 1, points
        for resource in ledger:
            account = ledger[resource]
            reserved = math.fsum(r.get(resource, 0.0) for r in ledger.reservations.values())
            assert math.isclose(account.reserved, reserved, abs_tol=1e-12)
            if math.isfinite(account.limit):
                total = account.spent + account.reserved + account.left - account.overspent
                assert math.isclose(total, account.limit, rel_tol=1e-12)
                assert account.overspent <= 1e-9 * account.limit, resource
        for resource in self.cost_resources:
            ended = [t.cost.get(resource, 0.0) for t in history if t.state != "running"]
            assert math.isclose(ledger[resource].spent, math.fsum(ended), abs_tol=1e-9)

    def check_end(self, space, reason):
        """If nothing runs and nothing may start, there is a reason."""
        optimizer, ledger = self.optimizer, self.optimizer.ledger
        tried = {tuple(t.params.items()) for t in optimizer.history if t.state != "lost"}
        if space in POINTS and len(tried) == POINTS[space]:
            return
        assert ledger.used_up or "nothing affordable" in reason, reason
        costs = (optimizer._settings.cost or {"learnt": None}).values()
        if all(cost in KNOWN.values() for cost in costs) and not ledger.used_up:
            points = optimizer.space.points(1000)
            for params in map(optimizer.space.decode, [] if points is None else points):
                if tuple(params.items()) not in tried:
                    assert any(price(params)[r] > ledger[r].left for r in self.cost_resources)


def drawn(number):
    """The settings of a schedule and the generator for its order."""
    rng = np.random.default_rng([number, WORKERS])
    policy = POLICIES[number % len(POLICIES)]
    # Searching an infinite space takes longer than enumerating one, so it is drawn less often.
    infinite = rng.random() < (0.4 if policy in DESIGNS else 0.07)
    space = str(rng.choice([name for name in SPACES if (name in POINTS) != infinite]))
    budget = dict(BUDGETS[rng.integers(len(BUDGETS))])
    if "budget" in policy.needs and not set(budget) - {"trials"}:
        budget = {"usd": 20.0}
    resources = [r for r in budget if r != "trials"]
    kind, cost = rng.choice(["known", "linear", "process"], p=[0.55, 0.3, 0.15]), None
    if resources and kind == "known":
        cost = {r: KNOWN[r] for r in resources}
    elif resources and kind == "linear":
        cost = {r: Linear() for r in resources}
    renews = cost is None or kind != "known" or rng.random() < 0.5
    settings = {"policy": policy, "cost": cost, "seed": number}
    if resources and kind != "known" and number % 2:  # without it, workers wait for the first cost
        settings["max_cost"] = {r: budget[r] / 4 for r in resources}
    return space, budget, settings, renews, rng


def run(schedule, space, rng, handles):
    """Random workers take the next step. At the end, the remaining trials are reported."""
    busy = {worker: [] for worker in range(WORKERS)}
    stopped = ""
    for _ in range(STEPS):
        worker = int(rng.integers(WORKERS))
        handle, mine = handles[worker], busy[worker]
        if not mine:
            try:
                mine.extend(schedule.ask(rng, handle, worker))
            except Stopped as reason:
                stopped = str(reason)
                if not any(busy.values()):
                    schedule.check_end(space, stopped)
                    break
        elif schedule.advance(rng, handle, trial := mine[rng.integers(len(mine))]):
            mine.remove(trial)
        schedule.check()
    for worker, mine in busy.items():
        for trial in mine:
            while not schedule.advance(rng, handles[worker], trial):
                pass
    schedule.check()
    assert all(schedule.optimizer.ledger[r].reserved == 0 for r in schedule.optimizer.ledger)
    return stopped


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_point_twice_and_nothing_beyond_the_budget(part):
    counts, largest = Counter(), 0
    for number in range(part, SCHEDULES, PARTS):
        space, budget, settings, renews, rng = drawn(number)
        optimizer = Optimizer(SPACES[space], budget, **settings)
        counts[space] += 1
        schedule = Schedule(optimizer, renews)
        counts["stopped"] += bool(run(schedule, space, rng, [optimizer] * WORKERS))
        counts.update(trial.state for trial in optimizer.history)
        largest = max(largest, len(optimizer.history))
    assert all(counts[space] for space in SPACES)  # every case occurred
    assert all(counts[state] for state in ("done", "failed", "killed", "lost", "stopped"))
    assert largest >= 12


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_no_point_twice_and_nothing_beyond_the_budget_in_a_database(url, number):
    space, budget, settings, renews, rng = drawn(number)
    study = Study.create(url, name="study", space=SPACES[space], budget=budget, **settings)
    handles = [pickle.loads(cloudpickle.dumps(study)) for _ in range(WORKERS)]
    run(Schedule(study, renews), space, rng, handles)
    assert len(study.history) >= 5
    for each in (study, *handles):
        each.close()
