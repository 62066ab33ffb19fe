"""Facts about a study and a trial as plain values; later trials change no explanation."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from beliefs import pool, random_pool
from clocks import Clock

from farthing import Budget, Float, Int, Optimizer, Space
from farthing.budget.ledger import Ledger
from farthing.core.state import State
from farthing.core.suggest import believed
from farthing.data.tabular import row
from farthing.errors import InvalidInput
from farthing.history import History, StopReason, Trial
from farthing.models.normal import log_ei
from farthing.policies import EI, EIPerCost, Gittins, Random
from farthing.view.facts import _ledger_before, _promise, explanation
from farthing.view.formatting import time_of
from farthing.view.result import Result, summary

SPACE = Space({"a": Float(2, 3), "k": Int(1, 9)})
PROMISE = {
    *("expected_improvement", "share_of_the_most", "on_the_front", "cheaper_on_the_front"),
    *("front", "alpha"),
}


def bowl(params):
    return (params["a"] - 2.3) ** 2 + 0.01 * params["k"]


def price(params):
    return 0.1 + 0.05 * params["k"]


def make(budget="$10", **settings):
    return Optimizer(SPACE, budget, **{"policy": EIPerCost(), **settings})


def play(optimizer, count, *, sign=1.0, f=bowl):
    for _ in range(count):
        trial = optimizer.ask()
        cost = dict.fromkeys(optimizer._settings.cost_resources, price(trial.params))
        optimizer.tell(trial, sign * f(trial.params), cost=cost)


def explain(optimizer, number):
    return explanation(optimizer._settings, optimizer._store.look(), number)


def result_of(optimizer, reason="enough"):
    why = StopReason("rule", reason)
    return Result(optimizer.best, why, optimizer.ledger, optimizer.history)


def unchanged(before, after):
    """Assert that what was known when a trial was suggested is the same."""
    ended = {"state", "value", "counted_value", "cost", "improved_by", "error"}
    assert before.keys() == after.keys()
    for name in before.keys() - ended:
        assert after[name] == pytest.approx(before[name]), name


# ── a study ────────────────────────────────────────────────────────────────────────────────────


def test_a_summary_has_the_spending_and_the_running_trials():
    optimizer = make({"usd": 10, "trials": 9}, policy=Random())
    play(optimizer, 2)
    optimizer.tell(optimizer.ask(), failed="why", cost=0.5)
    running = optimizer.ask()
    facts = summary("svm", result_of(optimizer))
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["name"], facts["state"], facts["stop_kind"]) == ("svm", "running", None)
    assert facts["trials"] == {"done": 2, "failed": 1, "running": 1}
    paid = sum(trial.cost["usd"] for trial in optimizer.history if trial.cost)
    usd, trials = facts["budget"]["usd"], facts["budget"]["trials"]
    assert (usd["limit"], usd["spent"], usd["overhead"]) == (10.0, pytest.approx(paid), 0.0)
    assert usd["spent"] + usd["reserved"] + usd["left"] == pytest.approx(10.0)
    assert usd["reserved"] > 0
    assert (trials["spent"], trials["reserved"], trials["left"]) == (3.0, 1.0, 5.0)
    best = min(optimizer.history.done, key=lambda trial: trial.value)
    expected = {"number": best.number, "value": best.value, "params": dict(best.params)}
    assert facts["best"] == expected
    (shown,) = facts["running"]
    assert (shown["number"], shown["params"]) == (running.number, dict(running.params))
    assert (shown["cost"], shown["predicted"]) == ({}, dict(running.predicted))
    optimizer.tell(running, 1.0, cost=0.5)
    ended = summary("svm", result_of(optimizer))
    assert (ended["state"], ended["stop_kind"]) == ("enough", "rule")


def test_a_summary_without_trials_and_without_a_limit():
    facts = summary("", result_of(make(None, policy=EI()), "it has not ended"))
    assert json.loads(json.dumps(facts)) == facts  # JSON has no Infinity
    assert (facts["best"], facts["trials"], facts["running"]) == (None, {}, [])
    account = facts["budget"]["cost"]
    assert (account["limit"], account["left"], account["spent"]) == (None, None, 0.0)
    assert facts["state"] == "it has not ended"


@pytest.mark.slow
@pytest.mark.parametrize("noisy", [False, True])
def test_the_best_is_the_best_in_the_user_s_direction(noisy):
    minimising = make(noisy=noisy)
    maximising = make(noisy=noisy, direction="maximize")
    play(minimising, 8)
    play(maximising, 8, sign=-1.0)
    low, high = (summary("", result_of(each))["best"] for each in (minimising, maximising))
    assert (low["number"], low["params"]) == (high["number"], high["params"])
    assert low["value"] == -high["value"]
    if not noisy:
        assert low["value"] == min(trial.value for trial in minimising.history)


def test_a_result_as_text(monkeypatch):
    Clock(monkeypatch, suggestion=0.002)
    optimizer = make("60s, 9 trials", policy=Random())
    empty = str(result_of(optimizer, "interrupted")).splitlines()
    assert empty[:2] == ["stopped: interrupted", "best:    no trial returned a value"]
    # Overhead is charged from the first verdict on, so the test only checks the form.
    assert empty[2].startswith("spent:   ")
    assert empty[2].endswith(" of it overhead; 0 trials")
    trial = optimizer.ask()
    optimizer.tell(trial, 0.25, cost=12.5)
    optimizer.tell(optimizer.ask(), failed="why", cost=1.5)
    result = result_of(optimizer, "the budget is spent")
    lines = str(result).splitlines()
    assert lines[0] == "stopped: the budget is spent"
    assert lines[1].startswith("best:    0.25 (trial 0) at a=")
    assert "14.0 s of 1 m 00 s, 2 of 9 trials" in lines[2]
    assert lines[2].endswith("of it overhead; 2 trials (1 done, 1 failed)")
    dollars = make(policy=Random())
    dollars.tell(dollars.ask(), 1.0, cost=0.5)
    assert "spent:   $0.50 of $10.00; 1 trial (1 done); " in str(result_of(dollars))
    assert "spent:   nothing; 0 trials" in str(result_of(make(None, policy=EI())))


def test_a_result_has_its_spending_and_a_data_frame():
    optimizer = make(policy=Random())
    play(optimizer, 3)
    result = result_of(optimizer)
    assert result.spent == optimizer.ledger.spent > 0
    frame = result.dataframe()
    assert list(frame["value"]) == [trial.value for trial in optimizer.history]
    assert list(frame["param_k"]) == [trial.params["k"] for trial in optimizer.history]


# ── a trial ────────────────────────────────────────────────────────────────────────────────────


def test_without_a_model_there_is_no_expected_improvement():
    optimizer = make()
    play(optimizer, 1)
    facts = explain(optimizer, 0)
    trial = optimizer.history[0]
    assert json.loads(json.dumps(facts)) == facts
    assert not PROMISE & facts.keys()
    assert (facts["best_before"], facts["improved_by"], facts["running_then"]) == (None, None, [])
    assert (facts["value"], facts["cost"]) == (trial.value, dict(trial.cost))
    assert (facts["because"], facts["params"]) == (trial.because, dict(trial.params))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "settings"),
    [
        ("$10", {}),
        ("$10", {"direction": "maximize"}),
        ("$10", {"noisy": True}),
        ("$10, 9kWh, 40 trials", {"policy": Gittins()}),
        ("40 trials", {"policy": EI()}),
        (None, {"policy": EI()}),
    ],
    ids=["minimize", "maximize", "noisy", "several", "trials", "unlimited"],
)
def test_with_a_model_a_trial_is_compared_with_other_points(budget, settings):
    optimizer = make(budget, **settings)
    sign = -1.0 if settings.get("direction") == "maximize" else 1.0
    play(optimizer, 6, sign=sign)
    running = optimizer.ask()
    values = [trial.value for trial in optimizer.history.done]
    facts = explain(optimizer, running.number)
    assert json.loads(json.dumps(facts)) == facts
    assert facts.keys() >= PROMISE
    assert facts["best_before"] == (max(values) if sign < 0 else min(values))
    assert (facts["state"], facts["value"], facts["improved_by"]) == ("running", None, None)
    assert facts["expected_improvement"] > 0
    assert 0 < facts["share_of_the_most"] <= 1
    assert 0 <= facts["cheaper_on_the_front"] <= facts["front"]
    assert facts["predicted"] == dict(running.predicted)
    if facts["alpha"] is not None:
        low, high = facts["alpha"]
        assert 0 <= low <= (math.inf if high is None else high)
    better = facts["best_before"] - sign * 0.125
    cost = dict.fromkeys(optimizer._settings.cost_resources, 0.5)
    optimizer.tell(running, better, cost=cost)
    ended = explain(optimizer, running.number)
    assert ended["improved_by"] == pytest.approx(0.125)
    unchanged(facts, ended)


@pytest.mark.parametrize("seed", range(3))
def test_the_front_by_comparing_every_pair(seed):
    belief = random_pool(np.random.default_rng(seed))
    ei = np.exp(log_ei(belief.objective.mean, belief.objective.std, 2.6))
    cost, rows = np.exp(belief.cost["cost"].mean), range(len(ei))
    on = [not any(cost[j] <= cost[i] and ei[j] > ei[i] for j in rows) for i in rows]
    assert 1 < sum(on) < len(on)
    for i in rows:
        facts = _promise(belief, Trial(0, {}, belief.space.rows[i]))
        assert facts["on_the_front"] == on[i]
        assert facts["front"] == sum(on)
        assert facts["cheaper_on_the_front"] == sum(on[j] and cost[j] < cost[i] for j in rows)
        assert facts["expected_improvement"] == pytest.approx(ei[i])
        assert facts["share_of_the_most"] == pytest.approx(ei[i] / ei.max())


@pytest.mark.parametrize("seed", range(3))
def test_the_range_of_exponents_is_open_only_for_the_cheapest_point(seed):
    """EI / c^alpha selects the point for every alpha in the range."""
    belief = random_pool(np.random.default_rng(seed))
    log_improvement = log_ei(belief.objective.mean, belief.objective.std, 2.6)
    log_cost = belief.cost["cost"].mean
    ends = []
    for i, x in enumerate(belief.space.rows):
        alpha = _promise(belief, Trial(0, {}, x))["alpha"]
        if alpha is None:
            continue
        low, high = alpha
        ends.append(high)
        assert (high is None) == (i == np.argmin(log_cost))
        middle = low + 1.0 if high is None else 0.5 * (low + high)
        assert np.argmax(log_improvement - middle * log_cost) == i
    assert len(ends) > 1


def test_points_that_what_is_left_does_not_pay_for_are_not_compared():
    """The last point promises more, and costs twice what is left."""
    belief = pool([3.0, 3.0, 1.0], [1.0, 1.0, 1.0], [1.0, 2.0, 20.0], 2.6, limit={"cost": 10.0})
    facts = _promise(belief, Trial(0, {}, belief.space.rows[0]))
    assert (facts["share_of_the_most"], facts["front"]) == (pytest.approx(1.0), 1)


def test_the_spending_before_a_trial_is_the_cost_of_earlier_trials():
    optimizer = make("$10", policy=Random())
    play(optimizer, 4)
    state = optimizer._store.look()
    paid = [price(trial.params) for trial in optimizer.history]
    for trial in optimizer.history:
        spent = _ledger_before(state, trial)["usd"].spent
        assert spent == pytest.approx(sum(paid[: trial.number]))


def test_a_worse_value_improves_by_nothing():
    optimizer = make()
    play(optimizer, 2)
    optimizer.tell(optimizer.ask(), 99.0, cost=0.5)
    assert explain(optimizer, 2)["improved_by"] == 0.0


def test_two_directions_are_explained_alike():
    minimising, maximising = make(), make(direction="maximize")
    play(minimising, 7)
    play(maximising, 7, sign=-1.0)
    low, high = explain(minimising, 6), explain(maximising, 6)
    assert low["best_before"] == -high["best_before"]
    for name in PROMISE:
        assert low[name] == pytest.approx(high[name])


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_later_trials_change_no_explanation(direction):
    optimizer = make(direction=direction, policy=EIPerCost())
    sign = -1.0 if direction == "maximize" else 1.0
    play(optimizer, 6, sign=sign)
    first, second = optimizer.ask(), optimizer.ask()
    then = [explain(optimizer, number) for number in (6, 7)]
    assert then[0]["running_then"] == []
    assert then[1]["running_then"] == [6]
    assert then[0]["expected_improvement"] > 0
    optimizer.tell(second, 0.5, cost=0.25)
    optimizer.tell(first, failed="why", cost=0.75)
    play(optimizer, 5, sign=sign)
    optimizer.add({"a": 2.5, "k": 3}, sign * 0.001, cost=0.125)
    for facts, number in zip(then, (6, 7), strict=True):
        unchanged(facts, explain(optimizer, number))
    # The test can only fail if later trials would make a difference.
    assert explain(optimizer, 11)["expected_improvement"] != then[0]["expected_improvement"]


def test_costs_of_external_trials_are_not_part_of_the_spending():
    """Imported trials have costs that the ledger does not contain."""
    source = make(policy=Random())
    play(source, 8, f=lambda params: 1 / params["k"])  # expensive points are better
    optimizer = make("$1")
    optimizer.import_trials([row(trial) for trial in source.history])
    optimizer.add({"a": 2.25, "k": 9}, running=True)
    trial = optimizer.ask()
    then = explain(optimizer, trial.number)
    optimizer.tell(trial, 0.5, cost=0.875)
    optimizer.tell(8, 0.25, cost=0.125)
    now = explain(optimizer, trial.number)
    unchanged(then, now)
    assert now["running_then"] == [8]
    assert optimizer.ledger.spent == 0.875


def test_an_unknown_trial_is_an_error():
    optimizer = make()
    with pytest.raises(InvalidInput, match="no trial 0: the study has none yet"):
        explain(optimizer, 0)
    play(optimizer, 2)
    for number in (2, -1):
        with pytest.raises(InvalidInput, match=rf"no trial {number}: the study has 0 to 1\."):
            explain(optimizer, number)


def test_the_expected_improvement_is_that_of_the_model():
    """Compare with a numerical integral over the same posterior."""
    optimizer = make("40 trials", policy=EI())
    play(optimizer, 6)
    trial = optimizer.ask()
    state = optimizer._store.look()
    facts = explain(optimizer, trial.number)
    belief = believed(optimizer._settings, State(state.ledger, History(state.history.trials[:6])))
    mean, std = (part[0] for part in belief.objective.at(trial.x[None]))
    draws = mean[0] + np.linspace(-12 * std, 12 * std, 200_001)
    density = np.exp(-0.5 * ((draws - mean[0]) / std) ** 2) / (std * math.sqrt(2 * math.pi))
    gain = np.maximum(belief.best[0] - draws, 0.0) * density
    expected = float(np.sum(gain) * (draws[1] - draws[0]))
    assert facts["expected_improvement"] == pytest.approx(expected, rel=1e-4)


def test_the_times_are_those_of_the_account_of_seconds_if_there_is_one():
    account = State(
        Ledger.of(Budget("60s")).charge(None, {"s": 7.0}), elapsed_s=9.0, overhead_s=4.0
    )
    assert time_of(account) == (7.0, 0.0)
    assert time_of(replace(account, ledger=Ledger.of(Budget("$9")))) == (9.0, 4.0)
