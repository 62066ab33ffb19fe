import numpy as np
import pytest
from beliefs import NOTHING, Given, done, known, line

from farthing import Budget, Float, History, Ledger, Optimizer, Space, Stopped
from farthing.acquisition.protocols import Proposal
from farthing.policies import (
    EI,
    ConfidenceBound,
    EIPerCost,
    LatinHypercube,
    Random,
    Sobol,
    Thompson,
)
from farthing.stopping import OutOfBudget

SOMETHING = Proposal(np.array([0.0]), "why not")
RNG = np.random.default_rng(0)


def judge(ledger, proposal=SOMETHING, **settings):
    return OutOfBudget()(known(line(3), ledger=ledger, **settings), proposal, RNG)


def test_without_a_budget_it_does_not_stop():
    assert not judge(Ledger.of(None)).stop


def test_the_number_is_what_is_left():
    ledger = Ledger.of(Budget("$40")).charge(None, {"usd": 15.5})
    verdict = judge(ledger)
    assert not verdict.stop
    assert (verdict.number, verdict.threshold) == (24.5, 0.0)
    assert verdict.because == "$24.50 of $40.00 left"


@pytest.mark.parametrize("paid", [40.0, 41.5])
def test_the_budget_is_spent(paid):
    verdict = judge(Ledger.of(Budget("$40")).charge(None, {"usd": paid}))
    assert verdict.stop
    assert verdict.number == 0.0
    assert verdict.because == "the budget of $40.00 is spent"


def test_reservations_are_named():
    ledger = Ledger.of(Budget("$40")).charge(None, {"usd": 25}).reserve(1, {"usd": 15})
    verdict = judge(ledger)
    assert verdict.stop
    assert (
        verdict.because == "the budget of $40.00 is spent, $15.00 of it reserved for running trials"
    )


def test_trials_are_whole():
    ledger = Ledger.of(Budget({"trials": 2})).charge(None, {})
    assert judge(ledger).number == 1
    assert not judge(ledger).stop
    verdict = judge(ledger.charge(None, {}))
    assert verdict.stop
    assert (verdict.number, verdict.threshold) == (0, 1)


def test_any_resource_may_run_out():
    ledger = Ledger.of(Budget({"s": 100.0, "usd": 5.0})).charge(None, {"s": 1.0, "usd": 5.0})
    assert judge(ledger).stop
    assert "$5.00" in judge(ledger).because


def test_nothing_affordable_is_left():
    verdict = judge(Ledger.of(Budget("$40")).charge(None, {"usd": 38}), NOTHING)
    assert verdict.stop
    assert verdict.because == (
        "nothing affordable is left: no untried point fits into $2.00 with 80 % certainty"
    )
    assert verdict.number == 2.0


def test_every_row_was_tried():
    rows = line(3).rows
    history = History(tuple(done(i, x, 1.0) for i, x in enumerate(rows)))
    verdict = judge(Ledger.of(Budget("$40")), NOTHING, history=history)
    assert verdict.because == "every row of the table was tried (3)"
    # One row three times is not every row.
    history = History(tuple(done(i, rows[0], 1.0) for i in range(3)))
    verdict = judge(Ledger.of(Budget("$40")), NOTHING, history=history)
    assert verdict.because.startswith("nothing affordable is left")


def test_every_configuration_was_tried():
    belief = known(Space({"x": Float(2, 3)}))
    verdict = OutOfBudget()(belief, NOTHING, RNG)
    assert verdict.stop
    assert verdict.because == "every configuration of the space was tried"


@pytest.mark.parametrize(
    "policy",
    [Random(), Sobol(), LatinHypercube(), EI(), EIPerCost(), ConfidenceBound(), Thompson()],
    ids=lambda policy: type(policy).__name__,
)
def test_nothing_starts_that_is_not_affordable(policy):
    """P(c <= left) >= 0.8, also for policies that ignore costs."""

    class Spread:
        """ln c = 1 + x with a spread of 0.5, whatever was paid."""

        memory = None

        def fit(self, evidence):
            return self

        def log_at(self, X):
            return Given(X, 1.0 + X[:, 0], np.full(len(X), 0.5)).log_at(X)

        def slopes(self, X):
            slope = np.zeros(X.shape)
            slope[:, 0] = 1.0
            return self.log_at(X), slope, np.zeros(X.shape)

    space = Space({"x": Float(0, 1), "z": Float(2, 3)})
    margin = 0.5 * 0.8416212335729143

    def optimizer(log_left):
        made = Optimizer(space, budget=float(np.exp(log_left)), cost=Spread(), policy=policy)
        for x in np.linspace(0.05, 0.95, 6):
            made.add({"x": x, "z": 2 + x}, (x - 2) ** 2, cost=3.0)
        return made

    trial = optimizer(1.3 + margin).ask()
    assert trial.x[0] <= 0.3 + 1e-6
    nothing = optimizer(1.0 + margin - 1e-3)
    assert nothing.verdict.stop
    assert nothing.verdict.because.startswith("nothing affordable is left")
    with pytest.raises(Stopped, match="nothing affordable"):
        nothing.ask(anyway=True)


# ── only one cost is known ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("paid", "stop"), [([4.0], True), ([3.0], False), ([2.9], False), ([4.0, 1.9], False)]
)
def test_a_second_trial_of_4_is_not_started_with_2_left(paid, stop):
    """From two costs on, a model predicts what is affordable."""
    optimizer = Optimizer({"x": Float(0, 1)}, 6.0 if len(paid) == 1 else 9.0, policy=Random())
    for cost in paid:
        optimizer.tell(optimizer.ask(), 1.0, cost=cost)
    assert optimizer.verdict.stop == stop
    if stop:
        reason = "nothing affordable is left: the only trial so far cost 4, 2 is left"
        assert optimizer.verdict.because == reason


def test_a_known_cost_is_not_guessed_from_one_trial():
    optimizer = Optimizer({"x": Float(0, 1)}, 6.0, cost=lambda p: 4 - 3 * p["x"], policy=Random())
    optimizer.tell(optimizer.ask(), 1.0, cost=4.0)
    assert not optimizer.verdict.stop
