"""What costs nothing, what does not say what it cost, and what says it in a unit of its own."""

import math

import numpy as np
import pytest
from contract_problem import AS_IT_IS, FIRST, PARAMETERS, RULES, value_of

from farthing import Budget, Float, InvalidInput, Ledger, Optimizer, Outcome, Space, Study, minimize
from farthing.acquisition.belief import paid
from farthing.core.transition import FREE_IN_A_ROW
from farthing.cost import Known
from farthing.policies import EIPerCost, Gittins, Random
from farthing.stopping import MaxTrials

LINE = {"x": Float(0, 1)}


def half_free(params):
    """Cached on one half of the space."""
    return 0.0 if params["a"] < 1 else 1.0 + params["a"]


# ── through every method ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("known", [True, False], ids=["known", "learnt"])
def test_every_policy_takes_costs_of_nothing(name, known):
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


@pytest.mark.parametrize("name", RULES)
def test_every_rule_takes_costs_of_nothing(name):
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


def test_where_everything_was_free_nothing_is_known_of_costs():
    optimizer = Optimizer(LINE, "$5", policy=Gittins())
    for _ in range(8):
        trial = optimizer.ask()
        assert trial.predicted == {}
        optimizer.tell(trial, trial.params["x"], cost=0)
    assert (optimizer.ledger.spent, optimizer.ledger.left) == (0.0, 5.0)


def test_what_was_free_teaches_nothing_of_what_the_others_cost():
    """ln 0 is no number; and what was cached says nothing of what was not."""
    one, other = (Optimizer(LINE, "$50", policy=Random()) for _ in range(2))
    for k in range(7):
        for optimizer in (one, other):
            trial = optimizer.ask()
            cost = 0.0 if k in (2, 5) else 1.0 + trial.params["x"]
            if optimizer is other and k in (2, 5):
                optimizer.tell(trial, failed="lost", cost=0)  # nothing to learn a cost from
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


def test_nothing_is_paid_for_nothing():
    ledger = Ledger.of(Budget("$5")).reserve(0, {"usd": 2.0}).charge(0, {"usd": 0.0})
    assert (ledger.spent, ledger.reserved, ledger.left) == (0.0, 0.0, 5.0)


# ── a run that costs nothing ───────────────────────────────────────────────────────────────────


def test_a_run_that_would_never_end_pauses_and_can_go_on(tmp_path):
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


# ── in a unit of its own, or not at all ────────────────────────────────────────────────────────


def nth(n, outcome):
    """An objective whose n-th evaluation ends otherwise."""
    count = iter(range(1000))

    def objective(params):
        return outcome(params) if next(count) == n else Outcome(params["x"], cost=1.0)

    return objective


@pytest.mark.parametrize(
    ("cost", "state", "said"),
    [
        ({"eur": 3}, "failed", "it says what it cost in eur, but what is counted here is usd"),
        ({"usd": 1.0, "kWh": 2.0}, "done", None),
        (-1.0, "failed", "its cost is -1.0: expected a number of at least 0"),
        (math.nan, "failed", "its cost is NaN"),
        ("much", "failed", "its cost is 'much'"),
        (0, "done", None),
    ],
)
def test_minimize_does_not_die_of_one_cost(cost, state, said):
    result = minimize(
        nth(2, lambda p: Outcome(p["x"], cost=cost)), LINE, "$6, 5 trials", policy=Random()
    )
    assert [trial.state for trial in result.history] == ["done", "done", state, "done", "done"]
    assert said is None or result.history[2].error.startswith(said)


def test_what_says_it_in_a_strange_unit_is_done_where_the_cost_is_known():
    result = minimize(
        lambda p: Outcome(p["x"], cost={"eur": 1}),
        LINE,
        "$6, 3 trials",
        cost=lambda p: 1.0,
        policy=Random(),
    )
    assert [trial.state for trial in result.history] == ["done"] * 3
    assert result.spent == 3.0


def test_minimize_keeps_what_was_paid_when_a_cost_is_missing():
    result = minimize(nth(2, lambda p: p["x"]), LINE, "$6", policy=Random())
    assert [trial.state for trial in result.history] == ["done"] * 3
    assert result.stop_reason.sentence.startswith("trial 2 did not say what it cost in usd")
    assert result.best.value == min(trial.value for trial in result.history)
    with pytest.raises(InvalidInput, match="trial 0 did not say what it cost in usd"):
        minimize(lambda p: p["x"], LINE, "$6", policy=Random())


def test_a_study_pauses_after_the_first_value_without_its_cost_and_goes_on(url):
    study = Study.create(url, name="s", space=LINE, budget="$6", policy=Random())
    result = study.run(lambda params: params["x"])
    assert [trial.state for trial in result.history] == ["done"]
    assert "did not say what it cost in usd" in result.stop_reason.sentence
    result = study.run(lambda params: Outcome(params["x"], cost=2.0))
    assert len(result.history.done) >= 3
    assert result.history[0].value is not None
