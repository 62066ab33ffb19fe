import pickle

import numpy as np
import pytest

from farthing import InvalidInput, Optimizer
from farthing.core.suggest import _with_imported
from farthing.cost import Evidence, Known, KnownBeforehand, Linear, LogGP, PointEstimate
from farthing.history import PricePoint
from farthing.models.normal import expected_cost
from farthing.policies import Random
from farthing.space.space import Categorical, Float, Space

SPACE = Space({"a": Float(2, 50, log=True), "kind": Categorical(["x", "y"])})


def evidence(n, memory=None):
    rng = np.random.default_rng(n)
    X = SPACE.sample(n, rng)
    cost = SPACE.natural(X)[:, 0] * (1 + X[:, 1]) * np.exp(0.2 * rng.standard_normal(n))
    return Evidence(SPACE, X, cost, np.zeros(n, dtype=bool), memory)


def test_the_mean_of_another_model_without_its_spread():
    X = SPACE.sample(20, np.random.default_rng(0))
    for learner in (LogGP(), Linear()):
        other = learner.fit(evidence(12))
        model = PointEstimate(learner).fit(evidence(12))
        np.testing.assert_array_equal(model.log_at(X).mean, other.log_at(X).mean)
        np.testing.assert_array_equal(model.log_at(X).std, 0.0)
        normal, d_mean, d_std = model.slopes(X)
        np.testing.assert_array_equal(normal.mean, other.slopes(X)[0].mean)
        np.testing.assert_array_equal(normal.std, 0.0)
        np.testing.assert_array_equal(d_mean, other.slopes(X)[1])
        np.testing.assert_array_equal(d_std, 0.0)
        assert other.log_at(X).std.min() > 0


def test_the_cost_is_that_of_the_papers():
    X = SPACE.sample(5, np.random.default_rng(1))
    model = PointEstimate().fit(evidence(12))
    np.testing.assert_array_equal(expected_cost(*model.log_at(X)), model.log_at(X).mean)


def test_it_learns_and_stores_memory_like_the_other_model():
    X = SPACE.sample(5, np.random.default_rng(2))
    other, model = LogGP().fit(evidence(12)), PointEstimate().fit(evidence(12))
    assert model.memory == other.memory
    after = model.condition(X[0], 7.0).log_at(X)
    np.testing.assert_array_equal(after.mean, other.condition(X[0], 7.0).log_at(X).mean)
    np.testing.assert_array_equal(after.std, 0.0)


def test_if_the_other_learner_has_no_model_there_is_none():
    assert PointEstimate().fit(evidence(1)) is None
    assert PointEstimate(Linear()).fit(evidence(1)) is not None


def twice(params):
    return 2 * params["a"]


def test_a_cost_known_beforehand_stays_known():
    x = SPACE.encode({"a": 10.0, "kind": "x"})
    for learner in (
        Known(twice),
        PointEstimate(Known(twice)),
        PointEstimate(PointEstimate(Known(twice))),
    ):
        for same in (learner, pickle.loads(pickle.dumps(learner))):
            assert isinstance(same, KnownBeforehand)
            assert same.price_at(SPACE, x) == pytest.approx(20.0)
    assert PointEstimate(Known(twice)) == PointEstimate(Known(twice))
    for learner in (
        LogGP(),
        Linear(),
        PointEstimate(),
        PointEstimate(Linear()),
        PointEstimate(PointEstimate()),
    ):
        assert not isinstance(learner, KnownBeforehand)


@pytest.mark.parametrize("cost", [Known(twice), PointEstimate(Known(twice)), twice])
def test_a_cost_known_beforehand_need_not_be_reported(cost):
    optimizer = Optimizer(SPACE, 100.0, policy=Random(), cost=cost)
    trial = optimizer.ask()
    optimizer.tell(trial, 1.0)
    assert optimizer.ledger.spent == pytest.approx(2 * trial.params["a"])


def test_a_learnt_cost_must_be_reported():
    optimizer = Optimizer(SPACE, 100.0, policy=Random(), cost=PointEstimate())
    trial = optimizer.ask()
    with pytest.raises(InvalidInput, match="cost in 'cost' is missing"):
        optimizer.tell(trial, 1.0)


@pytest.mark.parametrize("learner", [Known(twice), PointEstimate(Known(twice))])
def test_imported_costs_do_not_change_a_known_cost(learner):
    learners = Optimizer(SPACE, 100.0, cost=learner)._settings.learners
    x = SPACE.encode({"a": 10.0, "kind": "x"})
    assert _with_imported(learners, [PricePoint(x, {"cost": 3.0})]) == {"cost": learner}
    learners = Optimizer(SPACE, 100.0, cost=PointEstimate())._settings.learners
    assert _with_imported(learners, [PricePoint(x, {"cost": 3.0})]) != learners
