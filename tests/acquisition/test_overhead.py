"""The overhead of suggestions: how much work one may do, and the step without a model."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from beliefs import done, known
from clocks import Clock

from farthing import Budget, Categorical, Float, History, Int, Ledger, Optimizer, Space, minimize
from farthing.acquisition.belief import START, believe
from farthing.acquisition.overhead import depth, step
from farthing.acquisition.scores import look
from farthing.core import asking
from farthing.cost import LogGP
from farthing.policies import Gittins
from farthing.stopping import NotWorthIt

SPACE = Space({"x": Float(2, 5), "k": Int(1, 3), "kind": Categorical(["a", "b", "c", "d"])})


def ledger(trials, overhead, limit=100.0):
    return Ledger.of(Budget({"s": limit})).pay({"s": trials + overhead}, overhead={"s": overhead})


@pytest.mark.parametrize(
    ("trials", "overhead", "suggest_s", "expected"),
    [
        (0.0, 0.0, 0.0, "whole"),
        (0.0, 0.4, 0.1, "whole"),  # 0.5 % of the budget is always allowed
        (0.0, 0.4, 0.2, "light"),
        (0.0, 0.9, 0.2, "none"),
        (80.0, 3.8, 0.2, "whole"),  # and a twentieth of the cost of trials
        (80.0, 3.8, 0.3, "light"),
        (80.0, 7.9, 0.2, "none"),
        (80.0, 0.0, 8.1, "none"),  # including the next suggestion
    ],
)
def test_how_much_work_a_suggestion_may_do(trials, overhead, suggest_s, expected):
    assert depth(ledger(trials, overhead), suggest_s, share=0.05) == expected


def test_trainings_use_a_model_four_times_as_long():
    for overhead, expected in ((12.0, "light"), (15.7, "light"), (15.9, "none")):
        account = ledger(80.0, overhead)
        assert depth(account, 0.2, share=0.05, trainings=True) == expected
        assert depth(account, 0.2, share=0.05) == "none"


def test_only_a_budget_of_seconds_limits_the_overhead():
    assert depth(Ledger.of(Budget("$5")), 1e9, share=0.05) == "whole"
    assert depth(Ledger.of(None), 1e9, share=0.05) == "whole"


def test_a_step_is_from_the_best_point_or_anywhere_and_always_valid():
    best, *others = done(0, [0.3, 0.5, 0.125], 1.0), done(1, [0.9, 0.0, 0.625], 4.0)
    others = [replace(others[0], number=k) for k in range(1, 1000)]
    belief = known(SPACE, history=History((best, *others)), y=np.array([1.0] + [4.0] * 999))
    lengths, kinds = [], Counter()
    for seed in range(300):
        x = step(belief, np.random.default_rng(seed)).x
        np.testing.assert_array_equal(SPACE.snap(x[None])[0], x)
        lengths.append(abs(x[0] - 0.3))
        kinds[SPACE.decode(x)["kind"]] += 1
    assert np.quantile(lengths, 0.3) < 1e-3  # many are small,
    assert np.quantile(lengths, 0.9) > 0.1  # some are not
    assert kinds["a"] > 200
    assert len(kinds) > 2


def test_before_there_is_a_value_a_step_is_uniform():
    points = [step(known(SPACE), np.random.default_rng(seed)).x[0] for seed in range(100)]
    assert min(points) < 0.1
    assert max(points) > 0.9


@pytest.mark.slow
def test_a_fast_objective_is_evaluated_without_models(monkeypatch):
    """Hundreds of evaluations cost a fraction of the budget of seconds, and they are made.

    A model-based suggestion takes 0.1 s here, a step 0.001 s.
    """
    clock = Clock(monkeypatch)
    monkeypatch.setattr("farthing.running.in_process.time", clock)
    suggest = asking.suggest

    def timed(*arguments):
        suggestion = suggest(*arguments)
        is_step = suggestion.proposal is not None and "a step from" in suggestion.proposal.because
        clock.now += 0.001 if is_step else 0.1
        return suggestion

    monkeypatch.setattr(asking, "suggest", timed)

    def bowl(params):
        clock.now += 0.001
        return (params["a"] - 0.3) ** 2 + (params["b"] - 0.7) ** 2

    result = minimize(bowl, {"a": Float(0, 1), "b": Float(0, 1)}, "2s")
    steps = sum("a step from the best point" in trial.because for trial in result.history)
    assert steps > 0.8 * len(result.history)
    assert len(result.history) > 300
    assert 1.9 < result.spent < 2.2  # the last suggestion finds that nothing is left
    drawn = np.random.default_rng(0).random((20 * len(result.history), 2))
    at_random = ((drawn - [0.3, 0.7]) ** 2).sum(axis=1).min()
    assert result.best.value < at_random  # as good as twenty times as many random points


def test_if_trials_are_expensive_every_suggestion_uses_the_models():
    optimizer = Optimizer({"a": Float(0, 1)}, {"s": 1e6})
    for _ in range(9):
        trial = optimizer.ask()
        assert "step from" not in trial.because
        assert "little time" not in trial.because
        optimizer.tell(trial, trial.params["a"] ** 2, cost=1e4)


def test_the_models_are_used_again_once_trials_become_expensive():
    optimizer = Optimizer({"a": Float(0, 1)}, {"s": 1e4}, overhead=0.05)
    optimizer._store.commit(
        lambda state, now: state.__class__(
            **{**vars(state), "ledger": state.ledger.charge_overhead(400.0), "suggest_s": 1.0}
        )
    )
    for k in range(12):
        trial = optimizer.ask()
        assert ("step from" in trial.because) == (k >= START)  # the initial design needs no model
        optimizer.tell(trial, math.sin(trial.params["a"]), cost=0.01)
    trial = optimizer.ask()
    optimizer.tell(trial, 0.0, cost=9000.0)
    assert "step from" not in optimizer.ask().because


def believed_after(n, more, *, light):
    """The belief `more` trials after the models were fitted to n trials."""
    rng = np.random.default_rng(4)
    X = SPACE.sample(n + more, rng)
    trials = [
        replace(done(k, x, float(np.sin(5 * x[0]) + x[1])), cost={"usd": float(np.exp(x[0]))})
        for k, x in enumerate(X)
    ]
    money, learners = Ledger.of(Budget("$90")), {"usd": LogGP()}
    first = believe(SPACE, History(tuple(trials[:n])), money, learners=learners)
    trials[n - 1] = replace(trials[n - 1], notes=first.notes())
    return believe(SPACE, History(tuple(trials)), money, learners=learners, light=light)


@pytest.mark.parametrize(
    ("more", "light", "learnt_at"), [(2, False, 14), (2, True, 12), (6, True, 18)]
)
def test_a_light_suggestion_fits_hyperparameters_less_often(more, light, learnt_at):
    belief = believed_after(12, more, light=light)
    assert {name: memory["n"] for name, memory in belief.memories.items()} == {
        "objective": learnt_at,
        "cost:usd": learnt_at,
    }


def test_a_light_suggestion_scores_fewer_points_and_skips_the_bound_that_is_only_printed():
    whole, light = (believed_after(12, 2, light=light) for light in (False, True))
    points = [len(look(belief, np.random.default_rng(0)).X) for belief in (whole, light)]
    assert points[1] < 0.3 * points[0]
    reasons = []
    for belief in (whole, light):
        proposal = Gittins(1e-9).propose(belief, np.random.default_rng(0))
        verdict = NotWorthIt(1e-9)(belief, proposal, np.random.default_rng(0))
        assert not verdict.stop
        reasons.append(verdict.because)
    assert "is expected to cost at most" in reasons[0]
    assert "was not estimated" in reasons[1]
