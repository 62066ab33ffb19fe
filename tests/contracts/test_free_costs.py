"""Trials that cost nothing, that report no cost, or that report it in another unit."""

import math

import numpy as np
import pytest
from contract_problem import AS_IT_IS, FIRST, PARAMETERS, RULES, value_of

from farthing import Budget, Float, InvalidInput, Ledger, Optimizer, Outcome, Space, Study, minimize
from farthing.acquisition.paid_costs import paid
from farthing.core.endings import FREE_IN_A_ROW
from farthing.cost import Known
from farthing.policies import EIPerCost, Gittins, Random
from farthing.stopping import MaxTrials

LINE = {"x": Float(0, 1)}


def half_free(params):
    """The cost is 0 on one half of the space, as for cached results."""
    return 0.0 if params["a"] < 1 else 1.0 + params["a"]


# ── with every method ──────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("known", [True, False], ids=["known", "learnt"])
def test_every_policy_accepts_a_cost_of_0(name, known):
    space = Space(PARAMETERS["continuous"])
    policy = AS_IT_IS.made(name, "continuous")
    optimizer = Optimizer(space, 60.0, policy=policy, cost=half_free if known else None)
    spent = 0.0
    for _ in range(8):
        trial = optimizer.ask()
        assert np.isfinite(trial.x).all()
        assert all(math.isfinite(amount) and amount > 0 for amount in trial.predicted.values())
        cost = half_free(trial.params)
        optimizer.tell(trial, value_of(trial.params), cost=cost)
        spent += cost
    assert optimizer.ledger.spent == pytest.approx(spent)
    assert math.isfinite(optimizer.ledger.reserved)


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_every_rule_accepts_a_cost_of_0(name):
    optimizer = Optimizer(
        Space(PARAMETERS["continuous"]),
        60.0,
        policy=EIPerCost(),
        stop=AS_IT_IS.made(name, "continuous"),
    )
    for k in range(8):
        trial = optimizer.ask(anyway=True)
        optimizer.tell(trial, value_of(trial.params), cost=0.0 if k % 2 else 1.0)
    verdict = optimizer.verdict
    assert verdict.because
    assert "nan" not in verdict.because.lower()


def test_if_everything_was_free_no_cost_is_predicted():
    optimizer = Optimizer(LINE, "$5", policy=Gittins())
    for _ in range(8):
        trial = optimizer.ask()
        assert trial.predicted == {}
        optimizer.tell(trial, trial.params["x"], cost=0)
    assert (optimizer.ledger.spent, optimizer.ledger.left) == (0.0, 5.0)


def test_free_trials_do_not_change_predicted_costs():
    """ln 0 is not finite, and a cached result says nothing about the cost of others."""
    one, other = (Optimizer(LINE, "$50", policy=Random()) for _ in range(2))
    for k in range(7):
        for optimizer in (one, other):
            trial = optimizer.ask()
            cost = 0.0 if k in (2, 5) else 1.0 + trial.params["x"]
            if optimizer is other and k in (2, 5):
                optimizer.tell(trial, failed="lost", cost=0)  # no cost to learn from
            else:
                optimizer.tell(trial, 1.0, cost=cost)
    assert len(list(paid(one.history, "usd"))) == 5
    predicted = [each.ask().predicted["usd"] for each in (one, other)]
    assert predicted[0] == predicted[1]


def test_a_price_list_may_have_free_entries():
    known = Known(lambda params: 0.0 if params["x"] < 0.5 else 2.0).bind(Space(LINE))
    mean, std = known.log_at(np.array([[0.25], [0.75]]))
    assert mean[1] == math.log(2)
    assert mean[0] < -20
    assert np.isfinite(mean).all()
    assert (std == 0).all()
    assert np.isfinite(known.slopes(np.array([[0.25], [0.5], [0.75]]))[1]).all()
    with pytest.raises(InvalidInput, match="expected a number of at least 0"):
        Known(lambda params: -1.0).bind(Space(LINE)).log_at(np.array([[0.5]]))
    optimizer = Optimizer(LINE, "$5", cost=lambda params: 0.0, policy=EIPerCost())
    optimizer.tell(optimizer.ask(), 1.0)
    assert dict(optimizer.history[0].cost) == {"usd": 0.0}


def test_a_cost_of_0_releases_the_reservation():
    ledger = Ledger.of(Budget("$5")).reserve(0, {"usd": 2.0}).charge(0, {"usd": 0.0})
    assert (ledger.spent, ledger.reserved, ledger.left) == (0.0, 0.0, 5.0)


# ── a run that costs nothing ───────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_run_that_would_never_end_pauses_and_can_continue(tmp_path):
    result = minimize(lambda p: Outcome(p["x"], cost=0), LINE, "$5", policy=Random())
    assert len(result.history) == FREE_IN_A_ROW
    assert result.stop_reason.sentence.startswith("100 trials in a row cost nothing")
    assert result.best is not None
    for limit in ({"stop": MaxTrials(103)}, {"budget": "$5, 103 trials"}):
        settings = {"budget": "$5", "policy": Random(), **limit}
        result = minimize(lambda p: Outcome(p["x"], cost=0), LINE, **settings)
        assert len(result.history) == 103
    some = iter(range(1000))
    result = minimize(
        lambda p: Outcome(p["x"], cost=float(next(some) % 50 == 49)), LINE, "$4", policy=Random()
    )
    assert len(result.history) >= 150


# ── in another unit, or no cost at all ────────────────────────────────────────────────────────


def nth(n, outcome):
    """An objective whose n-th evaluation returns `outcome`."""
    count = iter(range(1000))

    def objective(params):
        return outcome(params) if next(count) == n else Outcome(params["x"], cost=1.0)

    return objective


@pytest.mark.parametrize(
    ("cost", "state", "error"),
    [
        ({"eur": 3}, "failed", "it reports its cost in eur, but this study counts usd"),
        ({"usd": 1.0, "kWh": 2.0}, "done", None),
        (-1.0, "failed", "its cost is -1.0: expected a number of at least 0"),
        (math.nan, "failed", "its cost is NaN"),
        ("much", "failed", "its cost is 'much'"),
        (0, "done", None),
    ],
)
def test_one_invalid_cost_does_not_end_minimize(cost, state, error):
    result = minimize(
        nth(2, lambda p: Outcome(p["x"], cost=cost)), LINE, "$6, 5 trials", policy=Random()
    )
    assert [trial.state for trial in result.history] == ["done", "done", state, "done", "done"]
    assert error is None or result.history[2].error.startswith(error)


def test_a_cost_in_another_unit_is_ignored_if_the_cost_is_known():
    result = minimize(
        lambda p: Outcome(p["x"], cost={"eur": 1}),
        LINE,
        "$6, 3 trials",
        cost=lambda p: 1.0,
        policy=Random(),
    )
    assert [trial.state for trial in result.history] == ["done"] * 3
    assert result.spent == 3.0


def test_minimize_keeps_the_results_if_a_cost_is_missing():
    result = minimize(nth(2, lambda p: p["x"]), LINE, "$6", policy=Random())
    assert [trial.state for trial in result.history] == ["done"] * 3
    assert result.stop_reason.sentence.startswith("trial 2 did not report its cost in usd")
    assert result.best.value == min(trial.value for trial in result.history)
    with pytest.raises(InvalidInput, match="trial 0 did not report its cost in usd"):
        minimize(lambda p: p["x"], LINE, "$6", policy=Random())


def test_a_study_pauses_after_the_first_value_without_a_cost_and_continues(url):
    study = Study.create(url, name="s", space=LINE, budget="$6", policy=Random())
    result = study.run(lambda params: params["x"])
    assert [trial.state for trial in result.history] == ["done"]
    assert "did not report its cost in usd" in result.stop_reason.sentence
    result = study.run(lambda params: Outcome(params["x"], cost=2.0))
    assert len(result.history.done) >= 3
    assert result.history[0].value is not None
