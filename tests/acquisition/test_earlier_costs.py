"""The cost model that begins with the shape of earlier studies."""

from dataclasses import replace

import numpy as np
import pytest
from oracles import differences

from farthing.acquisition.earlier_costs import MOST, EarlierCost, cost_shape, with_shapes
from farthing.cost import Evidence, LogGP, ResidualGP
from farthing.earlier import Source
from farthing.space.space import Float, Space

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1)})


def cost(X):
    return np.exp(3.0 * X[:, 0] - X[:, 1])


def source(name, seed, factor=1.0, n=25):
    X = np.random.default_rng(seed).random((n, 2))
    return Source(name, X, np.zeros(n), {"cost": factor * cost(X)})


SOURCES = (source("one", 0), source("two", 1, 1000.0), source("three", 2, 0.01))


def evidence(n, factor=7.0, seed=9):
    X = np.random.default_rng(seed).random((n, 2))
    return Evidence(SPACE, X, factor * cost(X), np.zeros(n, dtype=bool))


def test_one_cost_gives_the_level_and_the_sources_give_the_shape():
    model = EarlierCost(SOURCES, "cost").fit(evidence(1))
    at = np.random.default_rng(3).random((20, 2))
    mean, std = model.log_at(at)
    assert mean == pytest.approx(np.log(7.0 * cost(at)), abs=0.35)
    assert (std > 0).all()
    alone = LogGP().fit(evidence(2)).log_at(at).mean
    error = np.abs(mean - np.log(7.0 * cost(at))).mean()
    assert error < 0.3 * np.abs(alone - np.log(7.0 * cost(at))).mean()


def test_before_the_first_cost_there_is_no_model():
    assert EarlierCost(SOURCES, "cost").fit(evidence(0)) is None


def test_units_of_the_sources_do_not_matter():
    at = np.random.default_rng(3).random((5, 2))
    other = tuple(replace(s, cost={"cost": 256.0 * s.cost["cost"]}) for s in SOURCES)
    one, two = (EarlierCost(s, "cost").fit(evidence(3)).log_at(at) for s in (SOURCES, other))
    assert two.mean == pytest.approx(one.mean, abs=1e-4)


def test_a_source_with_another_resource_gives_its_shape():
    other = tuple(replace(s, cost={"s": s.cost["cost"]}) for s in SOURCES)
    at = np.random.default_rng(3).random((5, 2))
    one, two = (EarlierCost(s, "cost").fit(evidence(3)).log_at(at) for s in (SOURCES, other))
    assert two.mean.tolist() == one.mean.tolist()


def test_coefficients_are_those_of_the_normal_equations():
    given = evidence(6)
    model = EarlierCost(SOURCES, "cost").fit(given)
    g = cost_shape(SOURCES, "cost", SPACE.options).at(given.X)
    s2 = model.noise**2
    # Rows of the prior: u / 1000 = 0 and (b - 1) / 0.5 = 0, each with variance 1.
    A = np.vstack([np.column_stack([np.ones(6), g - g.mean()]) / np.sqrt(s2), np.diag([1e-3, 2.0])])
    t = np.append(np.log(given.cost) / np.sqrt(s2), [0.0, 2.0])
    beta = np.linalg.lstsq(A, t, rcond=None)[0]
    assert model.trend(given.X).mean == pytest.approx(beta[0] + beta[1] * (g - g.mean()), abs=1e-6)


def test_gradients_are_differences():
    at = np.random.default_rng(4).random((6, 2))
    for learner in (EarlierCost(SOURCES, "cost"), ResidualGP(EarlierCost(SOURCES, "cost"))):
        model = learner.fit(evidence(6))
        _, d_mean, d_std = model.slopes(at)
        by_steps = differences(lambda Z, m=model: np.column_stack(m.log_at(Z)), at)
        assert d_mean == pytest.approx(by_steps[:, :, 0], abs=1e-5)
        assert d_std == pytest.approx(by_steps[:, :, 1], abs=1e-5)


def test_left_out_costs_are_predicted_from_the_others():
    given = evidence(6)
    model = EarlierCost(SOURCES, "cost").fit(given)
    moved, below = model.moved(), model.trend(given.X).mean
    assert moved.shape == (6, 6)
    assert model.left_out().mean == pytest.approx(below + np.diag(moved), abs=1e-9)
    for j in range(6):
        error = np.log(given.cost[j]) - below[j]
        assert np.sign(moved[j, j]) == -np.sign(error)  # without its cost, the curve is farther


def test_a_killed_trial_raises_the_level():
    given = evidence(4)
    killed = given._replace(at_least=np.array([False, False, False, True]))
    low = killed._replace(cost=np.append(given.cost[:3], 0.01 * given.cost[3]))
    at = np.full((1, 2), 0.5)
    exact, bound, useless = (
        EarlierCost(SOURCES, "cost").fit(each).log_at(at).mean[0] for each in (given, killed, low)
    )
    assert bound > exact
    assert useless == pytest.approx(
        EarlierCost(SOURCES, "cost")
        .fit(evidence(4)._replace(X=given.X[:3], cost=given.cost[:3], at_least=given.at_least[:3]))
        .log_at(at)
        .mean[0],
        abs=0.1,
    )


def test_one_more_cost_is_as_if_it_had_been_there():
    given = evidence(5)
    first = Evidence(SPACE, given.X[:4], given.cost[:4], given.at_least[:4])
    learner = EarlierCost(SOURCES, "cost")
    at = np.random.default_rng(5).random((4, 2))
    later = learner.fit(first).condition(given.X[4], given.cost[4])
    assert later.log_at(at).mean == pytest.approx(learner.fit(given).log_at(at).mean)


def test_a_shape_that_misleads_is_given_up():
    wrong = tuple(replace(s, cost={"cost": 1.0 / s.cost["cost"]}) for s in SOURCES)
    model = ResidualGP(EarlierCost(wrong, "cost")).fit(evidence(15))
    at = np.random.default_rng(6).random((20, 2))
    truth = np.log(7.0 * cost(at))
    assert np.corrcoef(model.log_at(at).mean, truth)[0, 1] > 0.9


def test_the_shape_has_few_sources_and_the_largest_ones():
    many = [source(f"s{i}", i, n=10 + i) for i in range(MOST + 3)]
    names = [model.name for model in cost_shape(many, "cost", SPACE.options).models]
    assert names == [f"s{i}" for i in range(MOST + 2, 2, -1)]


def test_sources_without_costs_change_no_learner():
    bare = tuple(replace(s, cost={}) for s in SOURCES)
    learners = {"usd": LogGP()}
    assert with_shapes(learners, bare) is learners
    assert with_shapes(learners, ()) is learners
    assert isinstance(with_shapes(learners, SOURCES)["usd"], ResidualGP)
