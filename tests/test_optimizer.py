"""The contract of ask and tell: refused input, suggestions, charges and stops."""

import math
import pickle
import time
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from farthing import Budget, Categorical, Float, Int, Optimizer, Ordinal, Space
from farthing.acquisition.initial_design import propose
from farthing.acquisition.protocols import Verdict
from farthing.core.events import TimePassed
from farthing.core.suggest import believed
from farthing.cost import LogGP
from farthing.errors import FarthingError, InvalidInput, Stopped
from farthing.policies import EI, CArBO, Cooling, EIPerCost, Gittins, Random, Sobol
from farthing.stopping import MaxTrials, NotWorthIt, Target, any_of

SPACE = Space({"a": Float(0, 1), "b": Float(1e-3, 1, log=True)})
MIXED = Space(
    {
        "lr": Float(1e-5, 1e-1, log=True),
        "depth": Int(1, 16),
        "batch": Ordinal([16, 64, 256], log=True),
        "solver": Categorical(["sgd", "adam"]),
        "momentum": Float(0, 0.99, when={"solver": "sgd"}),
    }
)


def bowl(params) -> float:
    return (params["a"] - 0.3) ** 2 + 0.1 * (math.log10(params["b"]) + 1) ** 2


def price(params) -> float:
    return 1.0 + 4.0 * params["a"]


def play(optimizer: Optimizer, count: int, f=bowl, cost=price) -> list:
    """Ask and tell `count` times, and return the points."""
    asked = []
    for _ in range(count):
        trial = optimizer.ask()
        asked.append(trial.x)
        optimizer.tell(trial, f(trial.params), cost=cost(trial.params))
    return asked


def seen(optimizer: Optimizer) -> tuple:
    """Everything that refused input must not change."""
    rows = [(t.number, dict(t.params), t.state, t.value, dict(t.cost)) for t in optimizer.history]
    return rows, optimizer.ledger, optimizer.best


def refuses(optimizer: Optimizer, call, match: str) -> None:
    before = seen(optimizer)
    with pytest.raises(InvalidInput, match=match) as refusal:
        call()
    assert isinstance(refusal.value, FarthingError)
    assert isinstance(refusal.value, ValueError)
    assert str(refusal.value).endswith(".")
    assert "\n" not in str(refusal.value)
    assert seen(optimizer) == before


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"space": {}}, "at least one parameter"),
        ({"space": None}, "at least one parameter"),
        ({"space": {"a": 3}}, "a"),
        ({"budget": "two hours"}, "is not a budget"),
        ({"budget": "3 parsecs"}, "unknown unit"),
        ({"budget": -1}, "positive"),
        ({"budget": math.nan}, "positive"),
        ({"budget": {}}, "no limit"),
        ({"direction": "max"}, "minimize"),
        ({"seed": -1}, "at least 0"),
        ({"seed": 1.5}, "whole number"),
        ({"seed": True}, "whole number"),
        ({"policy": "carb"}, "there is no policy 'carb'"),
        ({"policy": EI}, r"expected an instance. Pass EI\(\.\.\.\)"),
        ({"policy": CArBO()}, "needs a budget"),
        ({"stop": "soon"}, "there is no stopping rule 'soon'"),
        ({"stop": MaxTrials}, r"MaxTrials\(\.\.\.\)"),
        ({"stop": lambda belief, proposal, rng: None}, "Expected a stopping rule"),
        ({"budget": 9, "cost": 3.0}, "function of the parameters"),
        ({"budget": 9, "cost": LogGP}, "function of the parameters"),
        ({"budget": 9, "cost": {"cost": "expensive"}}, "no cost model 'expensive'"),
        # settings without effect
        ({"cost": price}, "has no effect"),
        ({"cost": price, "budget": "9 trials"}, "has no effect"),
        ({"cost": {"usd": price}, "budget": "9s"}, "has no effect"),
        ({"worth": 0.1}, "has no effect"),
        ({"worth": 0.1, "budget": 9, "policy": EIPerCost()}, "has no effect"),
        ({"worth": 0.1, "budget": 9, "policy": Gittins(worth=1.0)}, "has no effect"),
        (
            {"worth": 0.1, "budget": 9, "policy": EI(), "stop": NotWorthIt(worth=1.0)},
            "has no effect",
        ),
        # a worth that is missing or invalid
        ({"budget": 9, "stop": NotWorthIt()}, "worth"),
        ({"budget": 9, "stop": any_of(MaxTrials(9), NotWorthIt())}, "worth"),
        ({"budget": 9, "stop": NotWorthIt(), "worth": -1}, "positive"),
        ({"budget": 9, "stop": NotWorthIt(), "worth": "much"}, "number"),
        ({"budget": "2h", "stop": NotWorthIt(), "worth": "0.01 = $20"}, "usd"),
    ],
)
def test_invalid_settings_are_refused(settings, match):
    with pytest.raises(InvalidInput, match=match) as refusal:
        Optimizer(**{"space": SPACE, **settings})
    assert str(refusal.value).endswith(".")


def test_valid_settings_are_accepted():
    assert isinstance(Optimizer(SPACE).policy, EI)
    assert isinstance(Optimizer(SPACE, "9 trials").policy, EI)
    assert Optimizer(SPACE, "2h").policy == Cooling(first=0.5)
    assert Optimizer(SPACE, "2h, 9 trials").policy == Cooling(first=0.5)
    assert Optimizer(SPACE, "2h", worth=0.1).policy == Gittins()
    earlier = [{"a": a, "b": 0.5, "value": a, "cost": 1.0} for a in (0.1, 0.4, 0.9)]
    assert Optimizer(SPACE, 9, learn_from=earlier).policy == Gittins()
    assert Optimizer(SPACE, Budget(40, "usd")).ledger.limit == 40
    assert Optimizer({"a": Float(0, 1)}).space == Space({"a": Float(0, 1)})
    assert Optimizer(SPACE, 9, policy=Gittins(), worth=0.1).worth == 0.1
    assert Optimizer(SPACE, policy=EIPerCost(), cost=price).ask().predicted_cost > 1.0


def test_a_worth_may_be_a_text_in_the_unit_of_the_budget():
    in_words = Optimizer(SPACE, "$40", stop=NotWorthIt(), worth="0.01 = $20", cost=price)
    in_figures = Optimizer(SPACE, "$40", stop=NotWorthIt(), worth=0.0005, cost=price)
    assert in_words.worth == pytest.approx(0.01 / 20)
    np.testing.assert_array_equal(play(in_words, 6), play(in_figures, 6))
    assert in_words.verdict == in_figures.verdict
    assert in_words.verdict.threshold == pytest.approx(math.log(0.0005))


# ── bad input ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("told", "match"),
    [
        ({"value": math.nan, "cost": 1}, "finite"),
        ({"value": -math.inf, "cost": 1}, "finite"),
        ({"value": "0.5", "cost": 1}, "expected a finite number"),
        ({"value": True, "cost": 1}, "expected a finite number"),
        ({"value": 1j, "cost": 1}, "expected a finite number"),
        ({"value": 10**400, "cost": 1}, "expected a finite number"),
        ({"value": [1.0, 2.0], "cost": 1}, "expected a finite number"),
        ({"cost": 1}, "exactly one"),
        ({"value": 1, "failed": "both", "cost": 1}, "exactly one"),
        ({"value": 1, "killed": True, "cost": 1}, "exactly one"),
        ({"failed": "both", "killed": True, "cost": 1}, "exactly one"),
        ({"failed": "", "cost": 1}, "as a text"),
        ({"failed": True, "cost": 1}, "as a text"),
        ({"value": 1}, "missing"),
        ({"failed": "no memory"}, "missing"),
        ({"killed": True}, "missing"),
        ({"value": 1, "cost": -2.0}, "at least 0"),
        ({"value": 1, "cost": math.nan}, "finite"),
        ({"value": 1, "cost": math.inf}, "finite"),
        ({"value": 1, "cost": "1"}, "finite"),
        ({"value": 1, "cost": {"usd": 1.0}}, "usd"),
        ({"value": 1, "cost": {"cost": 1.0, "trials": 1}}, "trials"),
    ],
)
def test_a_bad_tell_changes_nothing(told, match):
    optimizer = Optimizer(SPACE, 50)
    play(optimizer, 2)
    trial = optimizer.ask()
    refuses(optimizer, lambda: optimizer.tell(trial, **told), match)
    optimizer.tell(trial, 0.5, cost=2.0)  # it can still be told
    assert optimizer.history[2].state == "done"


def test_a_trial_is_told_once_and_only_if_it_was_asked():
    optimizer = Optimizer(SPACE, 50)
    trial = optimizer.ask()
    other = Optimizer(SPACE, 50, policy=Random(), seed=1).ask()
    for stranger in (other, 1, -1, 0.0, None, "0"):
        refuses(optimizer, lambda s=stranger: optimizer.tell(s, 1.0, cost=1.0), "did not return it")
    optimizer.tell(trial, 0.5, cost=2.0)
    for again in (trial, 0):
        refuses(
            optimizer, lambda s=again: optimizer.tell(s, 1.0, cost=1.0), "already has an outcome"
        )
    added = optimizer.add({"a": 0.2, "b": 0.1}, 0.4, cost=1.0)
    refuses(optimizer, lambda: optimizer.tell(added, 1.0, cost=1.0), "already has an outcome")


@pytest.mark.parametrize(
    ("params", "value", "cost", "match"),
    [
        ({}, 1.0, 1.0, "missing"),
        ({"a": 0.5}, 1.0, 1.0, "missing"),
        ({"a": 0.5, "b": 0.1, "c": 1}, 1.0, 1.0, "Unknown parameter 'c'"),
        ({"a": 1.5, "b": 0.1}, 1.0, 1.0, "outside"),
        ({"a": math.nan, "b": 0.1}, 1.0, 1.0, "finite"),
        ({"a": "x", "b": 0.1}, 1.0, 1.0, "number"),
        (None, 1.0, 1.0, "dict"),
        ({"a": 0.5, "b": 0.1}, math.inf, 1.0, "finite"),
        ({"a": 0.5, "b": 0.1}, None, 1.0, "exactly one of a value"),
        ({"a": 0.5, "b": 0.1}, 1.0, -1.0, "at least 0"),
    ],
)
def test_a_bad_add_changes_nothing(params, value, cost, match):
    optimizer = Optimizer(SPACE, 50)
    play(optimizer, 2)
    refuses(optimizer, lambda: optimizer.add(params, value, cost=cost), match)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3"])
def test_a_bad_ask_changes_nothing(count):
    optimizer = Optimizer(SPACE, 50)
    refuses(optimizer, lambda: optimizer.ask(count), "the number of trials")


def test_a_row_that_is_not_in_the_table_is_refused():
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    optimizer = Optimizer(Space.from_rows(rows), 50, cost=lambda params: 1.0)
    refuses(optimizer, lambda: optimizer.add({"a": 1, "b": "y"}, 1.0), "table")
    added = optimizer.add({"a": 2, "b": "y"}, 1.0)
    assert added.params == rows[2]
    left = [optimizer.ask().params for _ in range(2)]
    assert sorted(left, key=str) == rows[:2]  # each untried row once
    assert optimizer.verdict.stop
    assert "every row of the table was tried" in optimizer.verdict.because


def test_a_known_cost_that_is_invalid_is_refused():
    optimizer = Optimizer(SPACE, 50, cost=lambda params: -1.0)
    refuses(optimizer, optimizer.ask, "at least 0")


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


def test_the_reason_of_a_trial():
    optimizer = Optimizer(MIXED, 200, seed=3)
    for number in range(8):
        trial = optimizer.ask()
        assert trial.number == number
        assert trial.because
        assert set(trial.params) <= set(MIXED.parameters)
        assert ("momentum" in trial.params) == (trial.params["solver"] == "sgd")
        np.testing.assert_array_equal(MIXED.encode(trial.params), trial.x)
        if number >= 2:
            assert 0 < trial.predicted_cost < 200
        optimizer.tell(trial, trial.params["depth"], cost=2.0)
    assert optimizer.ledger.spent == 16
    assert optimizer.ledger.left == 184


def test_the_params_of_a_trial_are_the_users_own():
    optimizer = Optimizer(SPACE, 50)
    trial = optimizer.ask()
    asked = dict(trial.params)
    trial.params.pop("a")
    optimizer.tell(trial, 1.0, cost=1.0)
    assert optimizer.history[0].params == asked


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", [EI(), CArBO(), Random(), Sobol()], ids=lambda p: type(p).__name__
)
def test_the_seed_decides_the_suggestions(policy):
    first, again, other = (
        play(Optimizer(SPACE, 60, policy=policy, seed=seed), 9) for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(first, again)
    # With any seed, the initial design begins in the middle of the space.
    begun = 1 if "model" in policy.needs else 0
    assert all(abs(x - y).max() > 1e-6 for x, y in zip(first[begun:], other[begun:], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [EI(), CArBO()], ids=lambda p: type(p).__name__)
def test_results_decide_the_next_suggestion(policy):
    """The same results give the same suggestions, so that a run can be resumed."""
    original = Optimizer(SPACE, 40, policy=policy, seed=2)
    play(original, 10)
    resumed = Optimizer(SPACE, 40, policy=policy, seed=2)
    for trial in original.history:
        asked = resumed.ask()
        np.testing.assert_allclose(asked.x, trial.x, rtol=0, atol=1e-9)
        resumed.tell(asked.number, trial.value, cost=trial.cost)
    np.testing.assert_allclose(resumed.ask().x, original.ask().x, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [EI(), CArBO(), Gittins()], ids=lambda p: type(p).__name__)
def test_a_pickled_optimizer_continues_identically(policy):
    optimizer = Optimizer(MIXED, 60, policy=policy, stop=Target(-50.0), seed=2)
    f, cost = (lambda params: math.log(params["lr"])), (lambda params: 1.0 + params["depth"] / 8)
    play(optimizer, 6, f, cost)
    optimizer.ask()  # one is running
    assert not optimizer.verdict.stop  # and a suggestion is cached
    copy = pickle.loads(pickle.dumps(optimizer))
    assert copy.ledger == optimizer.ledger
    np.testing.assert_array_equal(play(copy, 3, f, cost), play(optimizer, 3, f, cost))
    assert copy.best.number == optimizer.best.number


@dataclass(frozen=True)
class Counting:
    """EI that counts its calls."""

    calls: list = field(default_factory=list)

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset({"model"})

    def propose(self, belief, rng):
        self.calls.append(belief.number)
        return propose(EI(), belief, rng)


def test_verdict_and_ask_share_one_suggestion():
    policy = Counting()
    optimizer = Optimizer(SPACE, 50, policy=policy)
    for number in range(7):
        assert optimizer.verdict is optimizer.verdict
        play(optimizer, 1)
        assert policy.calls == list(range(number + 1))
    optimizer.verdict  # noqa: B018
    optimizer.add({"a": 0.1, "b": 0.1}, 1.0, cost=1.0)  # something new: a new suggestion
    optimizer.verdict  # noqa: B018
    assert policy.calls == [*range(7), 7, 8]


def test_reading_the_verdict_does_not_change_the_suggestion():
    looked, blind = Optimizer(SPACE, 50, seed=1), Optimizer(SPACE, 50, seed=1)
    for _ in range(8):
        assert not looked.verdict.stop
        np.testing.assert_array_equal(play(looked, 1), play(blind, 1))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [EI(), CArBO()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("told", [0, 8])
def test_several_asks_differ_and_are_reserved(policy, told):
    optimizer = Optimizer(SPACE, 100, policy=policy, cost=price)
    play(optimizer, told)
    spent = optimizer.ledger.spent
    trials = [optimizer.ask() for _ in range(5)]
    X = np.array([trial.x for trial in trials])
    apart = np.abs(X[:, None] - X).max(axis=2) + np.eye(5)
    assert apart.min() > 1e-3
    reserved = sum(price(trial.params) for trial in trials)
    assert optimizer.ledger.reserved == pytest.approx(reserved)
    assert optimizer.ledger.left == pytest.approx(100 - spent - reserved)
    for trial in reversed(trials):  # told in any order
        optimizer.tell(trial, bowl(trial.params))
    assert optimizer.ledger.reserved == 0
    assert optimizer.ledger.spent == pytest.approx(spent + reserved)


def test_ask_for_several_is_several_asks():
    batch, single = (Optimizer(SPACE, 100, policy=CArBO(), seed=7) for _ in range(2))
    for optimizer in (batch, single):
        play(optimizer, 7)
    together, one_by_one = batch.ask(3), [single.ask() for _ in range(3)]
    assert [trial.number for trial in together] == [7, 8, 9]
    np.testing.assert_array_equal([t.x for t in together], [t.x for t in one_by_one])
    assert len(batch.history.running) == 3


def test_a_batch_is_no_larger_than_the_budget():
    optimizer = Optimizer(SPACE, "3 trials")
    assert len(optimizer.ask(5)) == 3
    with pytest.raises(Stopped):
        optimizer.ask(2)
    optimizer = Optimizer(SPACE, 10, cost=lambda params: 3.0)
    assert len(optimizer.ask(5)) == 3
    assert optimizer.ledger.reserved == pytest.approx(9)


def test_the_threads_of_blas_are_as_before():
    def threads() -> list[int]:
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    inside, before = [], threads()

    @dataclass(frozen=True)
    class Watching(Counting):
        def propose(self, belief, rng):
            inside.extend(threads())
            return super().propose(belief, rng)

    optimizer = Optimizer(SPACE, 5, policy=Watching(), cost=lambda params: 2.0)
    play(optimizer, 2, cost=lambda params: None)
    assert set(inside) <= {1}
    with pytest.raises(Stopped):
        optimizer.ask()
    assert threads() == before


# ── telling ──────────────────────────────────────────────────────────────────────────────────────


def test_a_trial_can_be_told_by_its_number():
    optimizer = Optimizer(SPACE, 50)
    optimizer.ask(2)
    optimizer.tell(1, 0.7, cost=3.0)
    optimizer.tell(np.int64(0), np.float64(0.9), cost=np.float32(2.0))
    assert [trial.value for trial in optimizer.history] == [0.9, 0.7]
    assert [dict(trial.cost) for trial in optimizer.history] == [{"cost": 2.0}, {"cost": 3.0}]
    assert optimizer.best.number == 1


def test_a_known_cost_need_not_be_reported_but_a_reported_one_is_charged():
    optimizer = Optimizer(SPACE, 50, cost=price)
    first, second = optimizer.ask(2)
    optimizer.tell(first, 1.0)
    assert optimizer.ledger.spent == price(first.params)
    optimizer.tell(second, 1.0, cost=0.25)
    assert optimizer.ledger.spent == price(first.params) + 0.25


def test_no_cost_is_required_if_nothing_uses_it():
    for optimizer in (
        Optimizer(SPACE),
        Optimizer(SPACE, "9 trials"),
        Optimizer(SPACE, policy=EI()),
    ):
        play(optimizer, 7, cost=lambda params: None)
        assert optimizer.best is not None
    optimizer = Optimizer(SPACE)
    optimizer.tell(optimizer.ask(), 1.0, cost=4.0)  # a reported cost is stored
    assert optimizer.ledger.spent == 4.0
    optimizer = Optimizer(SPACE, policy=EIPerCost())
    optimizer.ask()
    refuses(optimizer, lambda: optimizer.tell(0, 1.0), "missing")


@pytest.mark.slow
def test_failures_are_charged_and_avoided():
    """Half of the space fails, and the halves differ in nothing else."""
    optimizer = Optimizer(SPACE, 200, policy=EI(), seed=1)
    for _ in range(26):
        trial = optimizer.ask()
        if trial.params["a"] > 0.5:
            optimizer.tell(trial, failed="out of memory", cost=2.0)
        else:
            optimizer.tell(trial, math.log(trial.params["b"] / 0.1) ** 2, cost=1.0)
    failed = optimizer.history.having("failed")
    assert optimizer.ledger.spent == 26 + len(failed)
    assert all(t.error == "out of memory" and t.value is None for t in failed)
    assert len(failed) > 0
    assert sum(t.number >= 16 for t in failed) <= 2  # a uniform choice would make five of ten
    assert len({t.x.tobytes() for t in optimizer.history}) == 26  # and none is repeated exactly
    assert optimizer.best.params["a"] <= 0.5


def test_the_first_trials_may_all_fail():
    for policy in (EI(), CArBO(), Gittins()):
        optimizer = Optimizer(SPACE, 100, policy=policy)
        for _ in range(8):
            optimizer.tell(optimizer.ask(), failed="no", cost=2.0)
        assert optimizer.best is None
        play(optimizer, 4)
        assert optimizer.best is not None


def test_a_killed_trial_has_a_lower_bound_for_a_cost():
    """Killed at 5: the full cost is above 5, and so is the prediction."""
    space = Space({"a": Float(0, 1)})

    def predicted(**told) -> float:
        optimizer = Optimizer(space, 1000, policy=Sobol())
        rng = np.random.default_rng(3)
        for _ in range(16):
            trial = optimizer.ask()
            cost = float(np.exp(rng.normal(0.5, 0.7)))
            if abs(trial.params["a"] - 0.7) < 0.1:
                optimizer.tell(trial, **told, cost=5.0)
            else:
                optimizer.tell(trial, 1.0, cost=cost)
        assert optimizer.ledger.spent == sum(t.cost["cost"] for t in optimizer.history)
        belief = believed(optimizer._settings, optimizer._look())
        return float(belief.predicted(np.array([0.7]))["cost"].mean[0])

    assert predicted(killed=True) > predicted(value=1.0) + 0.05  # of ln c


def test_external_evaluations_are_learnt_from_and_not_charged():
    optimizer = Optimizer(SPACE, 50, policy=CArBO(), seed=2)
    rng = np.random.default_rng(0)
    for x in SPACE.sample(8, rng):
        params = SPACE.decode(x)
        trial = optimizer.add(params, bowl(params), cost=price(params))
        assert trial.state == "done"
        assert trial.params == params
    assert optimizer.ledger.spent == 0
    assert optimizer.best.value == min(t.value for t in optimizer.history)
    trial = optimizer.ask()
    assert trial.number == 8
    assert "uniform" not in trial.because  # no initial design is needed
    assert trial.predicted_cost == pytest.approx(price(trial.params), rel=0.5)
    blind = Optimizer(SPACE, 50, policy=EI())
    blind.add({"a": 0.1, "b": 0.1}, 1.0)  # the policy needs no cost
    assert dict(blind.history[0].cost) == {}


# ── the ledger ───────────────────────────────────────────────────────────────────────────────────

EVENTS = st.lists(st.sampled_from(["ask", "tell", "fail", "kill", "add", "verdict"]), max_size=25)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True)
@given(EVENTS, st.integers(0, 3), st.booleans())
def test_spent_and_reserved_and_left_are_the_limit(events, seed, known):
    cost = {"usd": lambda params: 0.5 + params["a"]} if known else None
    budget = {"usd": 8.0, "trials": 12}
    optimizer = Optimizer(SPACE, budget, policy=Random(), cost=cost, seed=seed)
    paid = 0.0
    for event in events:
        running = optimizer.history.running
        if event == "ask" and not optimizer.verdict.stop:
            optimizer.ask()
        elif event == "verdict":
            optimizer.verdict  # noqa: B018
        elif event == "add":
            optimizer.add({"a": 0.5, "b": 0.1}, 1.0, cost=3.0)
        elif event in ("tell", "fail", "kill") and running:
            trial = running[seed % len(running)]
            told = {"tell": {"value": 1.0}, "fail": {"failed": "no"}, "kill": {"killed": True}}
            price = 0.5 + trial.params["a"]
            optimizer.tell(trial, **told[event], cost=price)
            paid += price
        for account in (optimizer.ledger[name] for name in optimizer.ledger):
            total = account.spent + account.reserved + account.left
            assert total == pytest.approx(account.limit, abs=1e-12)
        started = [t for t in optimizer.history if t.origin != "imported"]
        assert optimizer.ledger["usd"].spent == pytest.approx(paid)
        trials = optimizer.ledger["trials"]
        assert trials.spent + trials.reserved == len(started)
        assert trials.reserved == len(optimizer.history.running)
        if not optimizer.history.running:
            assert optimizer.ledger["usd"].reserved == 0
        if known:
            assert optimizer.ledger["usd"].spent + optimizer.ledger["usd"].reserved <= 8 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Random(), EI(), CArBO()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("budget", [3.0, 17.3])
def test_a_known_cost_is_never_overspent(policy, budget):
    optimizer = Optimizer(SPACE, budget, policy=policy, cost=price, seed=3)
    while not optimizer.verdict.stop:
        trial = optimizer.ask()
        assert optimizer.ledger.spent + price(trial.params) <= budget * (1 + 1e-9)
        optimizer.tell(trial, bowl(trial.params))
    assert optimizer.ledger.spent <= budget * (1 + 1e-9)
    assert optimizer.ledger.left < 1.1  # the cheapest costs 1: it stopped because nothing fits
    assert optimizer.verdict.because


def test_several_limits_all_hold():
    optimizer = Optimizer(
        SPACE, {"s": 1e4, "usd": 12.0}, cost={"usd": lambda params: 2.0 - params["a"]}, seed=1
    )
    count = 0
    while not optimizer.verdict.stop:
        trial = optimizer.ask()
        refuses(optimizer, lambda t=trial: optimizer.tell(t, 1.0), "'s' is missing")
        refuses(optimizer, lambda t=trial: optimizer.tell(t, 1.0, cost={"eur": 1}), "eur")
        optimizer.tell(trial, bowl(trial.params), cost={"s": 10.0})
        count += 1
    assert 6 <= count <= 12
    assert optimizer.ledger["usd"].spent <= 12.0 * (1 + 1e-9)
    assert optimizer.ledger["usd"].left < 1.0 + 1e-9
    account = optimizer.ledger["s"]
    assert account.spent == pytest.approx(10.0 * count + account.overhead)
    assert account.overhead > 0
    assert optimizer.ledger.spent == account.spent  # of the first resource


def test_a_budget_of_trials():
    optimizer = Optimizer(SPACE, "4 trials", policy=EIPerCost())
    play(optimizer, 2)
    optimizer.tell(optimizer.ask(), failed="a failure is a trial, too", cost=1.0)
    optimizer.ask()
    assert optimizer.verdict.stop
    assert "4 trials" in optimizer.verdict.because
    with pytest.raises(Stopped, match="4 trials"):
        optimizer.ask()
    assert optimizer.ledger["trials"].spent == 3
    assert optimizer.ledger["cost"].spent > 3


def test_overhead_is_charged_to_seconds_only():
    seconds, dollars = Optimizer(SPACE, "1h"), Optimizer(SPACE, "$40")
    for optimizer in (seconds, dollars):
        play(optimizer, 6)
    told = sum(trial.cost["s"] for trial in seconds.history)
    assert seconds.ledger.overhead > 0
    assert seconds.ledger.spent == pytest.approx(told + seconds.ledger.overhead)
    assert dollars.ledger.overhead == 0
    suggestion = seconds.ledger.overhead
    optimizer = Optimizer(SPACE, "1h", stop=MaxTrials(1))
    play(optimizer, 1)
    suggestion = optimizer.ledger.overhead
    with pytest.raises(Stopped):
        optimizer.ask()  # this suggestion takes time, too
    assert optimizer.ledger.overhead > suggestion


def test_a_suggestion_is_charged_once():
    """Also if several events follow it."""
    begun = time.perf_counter()
    optimizer = Optimizer(SPACE, "1h")
    play(optimizer, 8)
    assert 0 < optimizer.ledger.overhead <= time.perf_counter() - begun


def test_on_the_clock_overhead_is_separate_from_other_time():
    """Ten seconds pass before a trial is told: all are charged, and none is overhead."""
    optimizer = Optimizer(SPACE, "1h", policy=EI())
    trial = optimizer.ask()
    suggestion = optimizer.seen.overhead_s
    with optimizer.on_the_clock():
        optimizer._session.clock._charged -= 10.0
        optimizer.tell(trial, 1.0, cost=10.0)
        assert optimizer.ledger.spent > 10.0
        assert optimizer.seen.overhead_s == suggestion > 0
        optimizer.ask()
        assert optimizer.seen.overhead_s > suggestion


def test_edits_charge_no_time():
    optimizer = Optimizer(SPACE, "1h")
    optimizer.enqueue({"a": 0.5})
    assert (optimizer.ledger.spent, optimizer.seen.elapsed_s) == (0.0, 0.0)
    optimizer.ask()
    assert optimizer.ledger.overhead > 0


def test_external_evaluations_charge_no_time():
    optimizer = Optimizer(SPACE, "1h")
    with optimizer.on_the_clock():
        optimizer._session.clock._charged -= 1000.0
        optimizer.add({"a": 0.5, "b": 0.1}, 1.0)
        assert optimizer.ledger.spent == 0.0
        optimizer.ask()
        assert optimizer.ledger.spent >= 1000.0


@pytest.mark.parametrize("noisy", [True, False])
def test_finding_the_best_of_noisy_values_is_overhead(noisy):
    optimizer = Optimizer(SPACE, "1h", noisy=noisy, policy=Random())
    for k in range(6):
        optimizer.add({"a": k / 6, "b": 0.1}, float(k))
    assert optimizer.best is not None
    optimizer.tell(optimizer.ask(), 1.0, cost=1.0)
    before = optimizer._session.clock.unpaid
    assert optimizer.best is not None
    assert (optimizer._session.clock.unpaid > before) == noisy


def test_a_worker_that_ends_does_not_pay_for_waiting():
    ends, asks = Optimizer(SPACE, "1h"), Optimizer(SPACE, "1h")
    for optimizer, event in ((ends, lambda: ends.commit(TimePassed())), (asks, asks.ask)):
        with optimizer.on_the_clock():
            optimizer._session.clock._charged -= 1000.0
            event()
    assert ends.ledger.spent < 500.0
    assert asks.ledger.spent >= 1000.0


@dataclass(frozen=True)
class Drawing:
    """A policy and rule that record their first random number."""

    drawn: list = field(default_factory=list)

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief, rng):
        self.drawn.append(rng.random())
        return Random().propose(belief, rng)

    def __call__(self, belief, proposal, rng):
        self.drawn.append(rng.random())
        return Verdict(False, "go on")


def test_every_suggestion_and_every_verdict_has_its_own_random_stream():
    streams = Drawing()
    play(Optimizer(SPACE, 100, policy=streams, stop=streams), 3)
    play(Optimizer(SPACE, 100, policy=streams, stop=streams, seed=1), 3)
    assert len(set(streams.drawn)) == len(streams.drawn) >= 12


def test_the_reservation_of_a_trial_is_its_80_percent_quantile():
    optimizer = Optimizer(SPACE, 100, policy=EIPerCost())
    play(optimizer, 6, cost=lambda params: math.exp(3 * params["a"] + math.sin(99 * params["b"])))
    before = optimizer.seen
    x = optimizer.ask().x
    (m,), (s,) = believed(optimizer._settings, before).predicted(x)["cost"]
    assert s > 0.05
    reserved = optimizer.ledger["cost"].reserved
    assert reserved == pytest.approx(math.exp(m + NormalDist().inv_cdf(0.8) * s))


# ── stopping ─────────────────────────────────────────────────────────────────────────────────────


def test_a_rule_can_be_overruled_but_not_the_ledger():
    optimizer = Optimizer(SPACE, 20, cost=lambda params: 2.0, stop=MaxTrials(3))
    play(optimizer, 3, cost=lambda params: None)
    assert optimizer.verdict.stop
    assert "3 of at most 3" in optimizer.verdict.because
    before = seen(optimizer)
    with pytest.raises(Stopped, match="3 of at most 3"):
        optimizer.ask()
    with pytest.raises(Stopped):
        optimizer.ask(2)
    assert seen(optimizer) == before
    while optimizer.ledger.left:
        optimizer.tell(optimizer.ask(anyway=True), 1.0)
    assert len(optimizer.history) == 10
    for count in (None, 2):
        with pytest.raises(Stopped, match="the budget of 20 is spent"):
            optimizer.ask(count, anyway=True)


def test_nothing_affordable_has_its_own_reason():
    optimizer = Optimizer(SPACE, 10, cost=lambda params: 4.0)
    play(optimizer, 2, cost=lambda params: None)
    assert optimizer.verdict.stop
    assert "nothing affordable" in optimizer.verdict.because
    assert optimizer.ledger.left == 2


def test_a_stop_is_revoked_if_running_trials_turn_out_cheap():
    optimizer = Optimizer(SPACE, 10, cost=lambda params: 5.0)
    first, second = optimizer.ask(2)
    assert optimizer.verdict.stop
    with pytest.raises(Stopped):
        optimizer.ask()
    optimizer.tell(first, 1.0, cost=1.0)
    optimizer.tell(second, 1.0, cost=1.0)
    assert not optimizer.verdict.stop


# ── direction and noise ──────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("policy", [EI(), CArBO()], ids=lambda p: type(p).__name__)
def test_maximising_is_minimising_the_negative(policy):
    down = Optimizer(SPACE, 60, policy=policy, stop=Target(-1e9), seed=1)
    up = Optimizer(SPACE, 60, policy=policy, stop=Target(1e9), direction="maximize", seed=1)
    asked_down = play(down, 10)
    asked_up = play(up, 10, lambda params: -bowl(params))
    np.testing.assert_array_equal(asked_down, asked_up)
    assert up.best.value == -down.best.value
    assert up.best.value == max(trial.value for trial in up.history)


def test_with_noise_the_best_has_the_best_posterior_mean():
    rng = np.random.default_rng(0)
    space = Space({"a": Float(0, 1)})
    lucky, honest = (Optimizer(space, 60, noisy=noisy, policy=Random()) for noisy in (False, True))
    for optimizer in (lucky, honest):
        for a in np.linspace(0, 1, 40):
            noise = float(rng.normal(0, 0.05))
            optimizer.add({"a": a}, (a - 0.3) ** 2 + noise)
        optimizer.add({"a": 0.9}, -0.15)  # far from the valley, and very lucky
    assert lucky.best.params == {"a": 0.9}
    assert abs(honest.best.params["a"] - 0.3) < 0.2
    best = honest.best
    honest.ask()
    assert honest.best is best  # pending trials change nothing
    honest.tell(40 + 1, 5.0, cost=60.0)
    assert honest.verdict.stop
    assert abs(honest.best.params["a"] - 0.3) < 0.2  # nor does a spent budget


def test_with_noise_three_equal_values_beat_a_single_slightly_lower_one():
    exact, noisy = (
        Optimizer(Space({"a": Float(0, 1)}), noisy=n, policy=Random()) for n in (False, True)
    )
    for optimizer in (exact, noisy):
        for a in (0.3, 0.4, 0.5, 0.6, 0.7):
            optimizer.add({"a": a}, 1.0 - 20 * (a - 0.5) ** 2)
        optimizer.add({"a": 0.1}, -1.0005)
        for _ in range(3):
            optimizer.add({"a": 0.9}, -1.0)
    assert (exact.best.params, noisy.best.params) == ({"a": 0.1}, {"a": 0.9})


# ── difficult objectives ──────────────────────────────────────────────────────────────

HARD = {
    "constant": (lambda i: 1.0, lambda i: 1.0),
    "one outlier": (lambda i: 1e300 if i == 3 else float(i % 5), lambda i: 1.0),
    "best is an outlier": (lambda i: -1e300 if i == 3 else float(i % 5), lambda i: 1.0),
    "tiny values": (lambda i: 1e-200 * (i % 5), lambda i: 1.0),
    "costs over twelve decades": (lambda i: float(i % 7), lambda i: 10.0 ** (i % 13 - 6)),
}


@pytest.mark.slow
@pytest.mark.parametrize("policy", [EI(), CArBO(), Gittins()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("case", HARD)
def test_difficult_results_still_lead_to_valid_suggestions(case, policy):
    value, cost = HARD[case]
    optimizer = Optimizer(MIXED, 1e9, policy=policy)
    for i in range(14):
        trial = optimizer.ask()
        assert np.isfinite(trial.x).all()
        np.testing.assert_array_equal(MIXED.encode(trial.params), trial.x)  # it is in the space
        optimizer.tell(trial, value(i), cost=cost(i))
    optimizer.add(optimizer.history[0].params, value(0), cost=cost(0))  # a duplicate
    trial = optimizer.ask()
    assert np.isfinite(trial.predicted_cost)
    assert trial.predicted_cost > 0


def test_external_evaluations_may_have_an_unknown_cost():
    optimizer = Optimizer(SPACE, "$9", policy=EIPerCost())
    trial = optimizer.add({"a": 0.5, "b": 0.1}, 1.5)
    assert (trial.state, trial.value, dict(trial.cost)) == ("done", 1.5, {})
    assert optimizer.best.value == 1.5
    play(optimizer, 3, cost=lambda params: 0.5)
    assert optimizer.ledger.spent == 1.5
