import numpy as np
import pytest

from farthing.cost import Evidence, Flops, Linear, LogGP, ResidualGP, SelectedGP
from farthing.errors import InvalidInput
from farthing.models import gp
from farthing.models.gp import Hyper
from farthing.models.regression import designed, least_squares
from farthing.space.space import Float, Int, Space

ROUNDS = np.array([16.0, 64, 256, 32, 128, 8])
DEPTH = np.array([2.0, 4, 6, 8, 3, 5])
COST = np.array([0.42, 1.9, 7.7, 1.55, 2.6, 0.31])
F = np.log(np.column_stack([ROUNDS, DEPTH]))
SPACE = Space({"a": Float(1, 100, log=True), "b": Float(1, 3), "c": Int(1, 8)})


def evidence(n, seed=0, noise=0.1, memory=None):
    """A power law in a, and a bump in b that a linear model cannot fit."""
    rng = np.random.default_rng(seed)
    X = SPACE.sample(n, rng)
    cost = truth(X) * np.exp(noise * rng.standard_normal(n))
    return Evidence(SPACE, X, cost, np.zeros(n, dtype=bool), memory)


def truth(X):
    return SPACE.natural(X)[:, 0] ** 1.2 * np.exp(np.sin(5 * X[:, 1]))


def test_oracle():  # [residual-gp-cost]
    fitted = least_squares(designed(F), np.log(COST), np.zeros(6, dtype=bool))
    residuals = np.log(COST) - designed(F) @ fitted.beta
    np.testing.assert_allclose(
        residuals,
        [0.08597234116, 0.03228452888, 0.01973856651, 0.06400355152, -0.1023814658, -0.09961752222],
        rtol=1e-8,
    )
    np.testing.assert_allclose(F.mean(axis=0), [3.812309493, 1.443115459], rtol=1e-9)
    np.testing.assert_allclose(F.std(axis=0), [1.183774172, 0.4543292085], rtol=1e-9)
    Z = (F - F.mean(axis=0)) / F.std(axis=0)
    z = (np.log([100.0, 4.0]) - F.mean(axis=0)) / F.std(axis=0)
    process = gp.build(Z, residuals, Hyper(np.ones(2), 0.01, 1e-4, 0.0))
    mean, std = process.at(z[None])
    assert mean[0, 0] == pytest.approx(-0.004469702061, rel=1e-8)
    assert std[0] ** 2 == pytest.approx(0.001257756904, rel=1e-8)
    total = designed(np.log([[100.0, 4.0]])) @ fitted.beta + mean[0]
    assert total[0] == pytest.approx(0.9910614467, rel=1e-9)
    assert np.exp(total[0]) == pytest.approx(2.694092591, rel=1e-9)


def test_it_is_the_trend_plus_a_process_on_the_residuals():
    given = evidence(25)
    model, curve = ResidualGP().fit(given), Linear().fit(given)
    rest = np.log(given.cost) - curve.trend(given.X).mean
    process = gp.fit(given.X, rest, options=SPACE.options, noisy=True, clip=False)
    X = SPACE.sample(20, np.random.default_rng(1))
    mean, std = model.log_at(X)
    below, (above, spread) = curve.trend(X), process.at(X)
    np.testing.assert_allclose(mean, below.mean + above[:, 0], rtol=1e-9)
    noise = np.sqrt(process.noise) * process.scale
    k = curve.optimism
    expected = np.sqrt(below.std**2 + (k * spread) ** 2 + (k * noise) ** 2)
    np.testing.assert_allclose(std, expected, rtol=1e-9)


def error(learner, given, X):
    mean, _ = learner.fit(given).log_at(X)
    return np.sqrt(np.mean((mean - np.log(truth(X))) ** 2))


def test_it_learns_the_curvature_that_a_linear_model_misses():
    X = SPACE.sample(300, np.random.default_rng(2))
    plane, both = (
        np.mean([error(learner, evidence(40, seed), X) for seed in range(4)])
        for learner in (Linear(), ResidualGP())
    )
    assert both < 0.6 * plane


def test_it_keeps_the_slope_that_a_process_loses_away_from_the_data():
    X = SPACE.sample(400, np.random.default_rng(2))
    far = X[X[:, 0] > 0.8]

    def cheap(seed):
        given = evidence(60, seed)
        near = given.X[:, 0] < 0.5
        return Evidence(SPACE, given.X[near], given.cost[near], given.at_least[near])

    process, both = (
        np.mean([error(learner, cheap(seed), far) for seed in range(4)])
        for learner in (LogGP(), ResidualGP())
    )
    assert both < 0.6 * process


def test_the_trend_may_come_from_another_learner():
    model = ResidualGP(Flops(lambda params: params["a"] ** 1.2)).fit(evidence(30))
    X = SPACE.sample(100, np.random.default_rng(3))
    assert np.sqrt(np.mean((model.log_at(X).mean - np.log(truth(X))) ** 2)) < 0.3
    assert model.about == (
        "a weighted sum of 1 of 1 operation counts, and a Gaussian process on the residuals"
    )


def test_a_learner_without_a_trend_is_rejected():
    with pytest.raises(InvalidInput, match=r"of=LogGP\(\)\): its model has no trend.*Linear\(\)"):
        ResidualGP(LogGP()).fit(evidence(5))


def test_with_too_few_costs_it_is_the_trend():
    X = SPACE.sample(5, np.random.default_rng(3))
    assert ResidualGP().fit(evidence(0)) is None
    for n in (1, 2):
        one, two = ResidualGP().fit(evidence(n)).log_at(X), Linear().fit(evidence(n)).log_at(X)
        np.testing.assert_array_equal(one.mean, two.mean)


@pytest.mark.parametrize("n", [6, 14])
def test_left_out_is_fitting_the_others(n):
    """Both stages predict each row without it, with the same features and hyperparameters."""
    given = evidence(n, 5)
    model = ResidualGP(Linear(features=["a"])).fit(given)
    mean, _ = model.left_out()
    t = np.log(given.cost)
    s = model.gp.scale
    hyper = Hyper(model.gp.lengthscales, model.gp.variance * s**2, model.gp.noise * s**2, None)
    for i in range(n):
        others = np.arange(n) != i
        curve = Linear(features=["a"]).fit(
            Evidence(SPACE, given.X[others], given.cost[others], given.at_least[others])
        )
        rest = t[others] - curve.trend(given.X[others]).mean
        process = gp.build(given.X[others], rest, hyper, options=SPACE.options)
        there = given.X[i : i + 1]
        expected = curve.trend(there).mean[0] + process.at(there).mean[0, 0]
        assert mean[i] == pytest.approx(expected, rel=1e-6, abs=1e-8)


# ---------------------------------------------------------------- on selected parameters
def test_a_process_on_the_selected_parameters_is_flat_in_the_others():
    given = evidence(40)
    model = SelectedGP(features=["a", "b"]).fit(given)
    X = SPACE.sample(10, np.random.default_rng(4))
    moved = X.copy()
    moved[:, 2] = 0.5
    np.testing.assert_array_equal(model.log_at(X).mean, model.log_at(moved).mean)
    _, d_mean, d_std = model.slopes(X)
    np.testing.assert_array_equal(d_mean[:, 2], 0.0)
    np.testing.assert_array_equal(d_std[:, 2], 0.0)
    alone = gp.fit(given.X[:, :2], np.log(given.cost), noisy=True, clip=False)
    np.testing.assert_allclose(model.log_at(X).mean, alone.at(X[:, :2]).mean[:, 0], rtol=1e-9)
    assert model.about == "a Gaussian process on a, b"


def test_the_selection_is_that_of_the_linear_model():
    given = evidence(30, 1)
    chosen = {
        SPACE.names[int(j)] for j in Linear().fit(given).source[list(Linear().fit(given).chosen)]
    }
    assert set(SelectedGP().fit(given).names) == chosen


def test_hyperparameters_of_other_parameters_are_not_used():
    given = evidence(40)
    one = SelectedGP(features=["a", "b"]).fit(given)
    two = SelectedGP(features=["a", "c"]).fit(given._replace(memory=one.memory))
    fresh = SelectedGP(features=["a", "c"]).fit(given)
    assert two.memory == fresh.memory
    assert two.memory["columns"] == [0, 2]


def test_if_no_parameter_predicts_the_cost_it_is_a_constant():
    rng = np.random.default_rng(0)
    given = evidence(4)._replace(cost=np.exp(rng.standard_normal(4)))
    model = SelectedGP(at_most=0).fit(given)
    X = SPACE.sample(5, rng)
    np.testing.assert_allclose(model.log_at(X).mean, np.log(given.cost).mean(), rtol=1e-9)
