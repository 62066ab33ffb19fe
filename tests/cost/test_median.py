import numpy as np

from farthing.cost import Evidence, Linear, LogGP, Median
from farthing.normal import expected_cost
from farthing.space import Categorical, Float, Space

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
        model = Median(learner).fit(evidence(12))
        np.testing.assert_array_equal(model.log_at(X).mean, other.log_at(X).mean)
        np.testing.assert_array_equal(model.log_at(X).std, 0.0)
        normal, d_mean, d_std = model.slopes(X)
        np.testing.assert_array_equal(normal.mean, other.slopes(X)[0].mean)
        np.testing.assert_array_equal(normal.std, 0.0)
        np.testing.assert_array_equal(d_mean, other.slopes(X)[1])
        np.testing.assert_array_equal(d_std, 0.0)
        assert other.log_at(X).std.min() > 0


def test_the_cost_is_then_the_papers():
    X = SPACE.sample(5, np.random.default_rng(1))
    model = Median().fit(evidence(12))
    np.testing.assert_array_equal(expected_cost(*model.log_at(X)), model.log_at(X).mean)


def test_it_learns_and_remembers_as_the_other_does():
    X = SPACE.sample(5, np.random.default_rng(2))
    other, model = LogGP().fit(evidence(12)), Median().fit(evidence(12))
    assert model.memory == other.memory
    after = model.condition(X[0], 7.0).log_at(X)
    np.testing.assert_array_equal(after.mean, other.condition(X[0], 7.0).log_at(X).mean)
    np.testing.assert_array_equal(after.std, 0.0)


def test_where_the_other_has_no_model_there_is_none():
    assert Median().fit(evidence(1)) is None
    assert Median(Linear()).fit(evidence(1)) is not None
