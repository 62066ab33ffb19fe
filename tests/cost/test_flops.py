import numpy as np
import pytest

from farthing import InvalidInput, Optimizer
from farthing.cost import CNNFlops, Evidence, Flops, LogGP, MLPFlops
from farthing.policies import Random
from farthing.space.space import Float, Int, Space

SPACE = Space(
    {
        "width_1": Int(10, 300, log=True),
        "width_2": Int(10, 300, log=True),
        "layers": Int(1, 2),
        "epochs": Int(1, 20),
        "rate": Float(1e-4, 1e-1, log=True),
    }
)
WORK = MLPFlops(["width_1", "width_2"], layers="layers", inputs=64, outputs=10, times=["epochs"])


def seconds(params):
    """Training time: 1e5 flops per second, plus half a second to start."""
    quad, linear = WORK(params)
    return 0.5 + quad / 1e5 + linear / 2e4


def evidence(n, seed=0, noise=0.05, killed=()):
    rng = np.random.default_rng(seed)
    X = SPACE.sample(n, rng)
    cost = [seconds(SPACE.decode(x)) for x in X] * np.exp(noise * rng.standard_normal(n))
    at_least = np.zeros(n, dtype=bool)
    at_least[list(killed)] = True
    return Evidence(SPACE, X, cost, at_least)


# ---------------------------------------------------------------- counting
def test_perceptrons():  # [mlp-flops]
    assert MLPFlops([10, 20, 30, 40])({}) == (2000, 100)
    assert MLPFlops(["a", "b"], inputs=784, outputs=10)({"a": 64, "b": 32})[0] == 52544
    params = {"w1": 10, "w2": 20, "w3": 30, "w4": 40, "layers": 2, "epochs": 3}
    four = MLPFlops(["w1", "w2", "w3", "w4"])
    assert four(params) == (2000, 100)
    assert MLPFlops(["w1", "w2", "w3", "w4"], layers="layers")(params) == (200, 30)
    assert MLPFlops(["w1", "w2", "w3", "w4"], times=["epochs", 2])(params) == (12000, 600)
    assert MLPFlops(["w1"])(params) == (0, 10)


def test_convolutions():  # [cnn-flops]
    conv, pool, quad, linear = CNNFlops(28, 1, 3, [8, 16], [1, 0.5], widths=[10])({})
    assert (conv, pool) == (959616, 12544)
    assert quad == 6272 * 10  # the perceptron's input is 6272
    assert linear == 6282
    params = {"r": 3, "m1": 8, "m2": 16, "p": 0.5, "n": 10, "epochs": 4}
    named = CNNFlops(28, 1, "r", ["m1", "m2"], [1, "p"], widths=["n"], times=["epochs"])
    assert named(params) == (4 * conv, 4 * pool, 4 * quad, 4 * linear)
    assert CNNFlops(28, 3, 3, [8])({})[0] == 28**2 * 9 * 3 * 8
    assert CNNFlops(28, 1, 3, [8])({})[1] == 28**2 * 8  # no pooling


# ---------------------------------------------------------------- learning
def test_the_weights_of_the_counts_are_learnt():
    model = Flops(WORK).fit(evidence(30, noise=0.0))
    np.testing.assert_allclose(model.weights, [1e-5, 5e-5, 0.5], rtol=1e-4)
    X = SPACE.sample(20, np.random.default_rng(1))
    truth = [seconds(SPACE.decode(x)) for x in X]
    np.testing.assert_allclose(np.exp(model.log_at(X).mean), truth, rtol=1e-4)


def test_it_says_how_many_counts_have_a_weight():
    both = Flops(WORK).fit(evidence(30, noise=0.0))
    assert both.about == "a weighted sum of 2 of 2 operation counts"
    one = Flops(WORK).fit(evidence(30, 2, noise=0.3))
    assert (one.weights[1], one.about) == (0.0, "a weighted sum of 1 of 2 operation counts")


def test_with_eight_costs_it_is_better_than_a_process():
    """The claim of CArBO: low-variance models are best if there are few data."""
    X = SPACE.sample(200, np.random.default_rng(1))
    truth = np.log([seconds(SPACE.decode(x)) for x in X])

    def error(learner):
        means = [learner.fit(evidence(8, seed)).log_at(X).mean for seed in range(5)]
        return np.mean([np.sqrt(np.mean((mean - truth) ** 2)) for mean in means])

    assert error(Flops(WORK)) < 0.3 * error(LogGP())


def test_weights_are_never_negative_and_predictions_never_zero():
    rng = np.random.default_rng(2)
    given = evidence(15)._replace(cost=np.exp(rng.standard_normal(15)))
    model = Flops([WORK, lambda params: 1.0 / params["epochs"]]).fit(given)
    assert np.all(model.weights >= 0)
    lowest = Flops(lambda params: params["epochs"]).fit(
        evidence(15)._replace(cost=SPACE.natural(evidence(15).X)[:, 3] * 3.0)
    )
    assert np.all(np.isfinite(lowest.log_at(SPACE.sample(50, rng)).mean))


def test_a_prediction_is_at_least_a_tenth_of_the_least_cost():
    space = Space({"a": Float(0.0, 10.0)})
    X = np.array([[0.8], [0.9], [1.0], [0.85]])
    cost = 5.0 * 10 * X[:, 0]
    model = Flops(lambda params: params["a"]).fit(Evidence(space, X, cost, np.zeros(4, dtype=bool)))
    assert np.exp(model.log_at(np.array([[0.0]])).mean[0]) == pytest.approx(4.0, rel=1e-6)


def test_an_outlier_has_bounded_influence():
    given = evidence(20)
    spoilt = given._replace(cost=np.where(np.arange(20) == 3, 50 * given.cost.max(), given.cost))
    X = SPACE.sample(50, np.random.default_rng(3))
    one, two = (Flops(WORK).fit(e).log_at(X).mean for e in (given, spoilt))
    assert np.abs(one - two).mean() < 0.15


def test_killed_costs_are_bounds():
    given = evidence(30)
    limit = np.quantile(given.cost, 0.6)
    cut = given.cost > limit
    X = SPACE.sample(100, np.random.default_rng(4))
    truth = np.log([seconds(SPACE.decode(x)) for x in X])
    capped = given._replace(cost=np.minimum(given.cost, limit))
    as_exact = Flops(WORK).fit(capped).log_at(X).mean
    as_bounds = Flops(WORK).fit(capped._replace(at_least=cut)).log_at(X).mean
    expensive = truth > np.log(limit)
    assert np.mean((as_bounds - truth)[expensive]) > 0.5 * np.mean((as_exact - truth)[expensive])


def test_the_spread_covers_new_costs():
    inside = []
    for seed in range(20):
        model = Flops(WORK).fit(evidence(20, seed, noise=0.3))
        new = evidence(100, 1000 + seed, noise=0.3)
        mean, std = model.log_at(new.X)
        inside.append(np.mean(np.abs(np.log(new.cost) - mean) < 1.2816 * std))
    assert 0.7 < np.mean(inside) < 0.9


def test_left_out_is_fitting_the_others():
    """To first order, for costs of similar size."""
    space = Space({"a": Float(1.0, 1.05)})
    X = np.array([[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0]]).T
    signs = np.array(
        [1, -1, -1, 1, 1, -1, -1, 1]
    )  # equal absolute residuals, so all weights are equal
    cost = np.array([2.0 + 3.0 * space.decode(x)["a"] for x in X]) * np.exp(1e-4 * signs)
    killed = np.zeros(8, dtype=bool)

    def fitted(rows):
        return Flops(lambda p: p["a"]).fit(Evidence(space, X[rows], cost[rows], killed[rows]))

    model = fitted(np.arange(8))
    here = model.log_at(X).mean
    alone = [fitted(np.delete(np.arange(8), i)).log_at(X[i : i + 1]).mean[0] for i in range(8)]
    np.testing.assert_allclose(model.left_out().mean - here, alone - here, rtol=0.1)


def test_a_feature_is_called_once_per_combination_of_its_inputs():
    seen = []

    def work(params):
        seen.append((params["epochs"], params.get("width_1")))
        return params["epochs"] * params["width_1"]

    learner = Flops(work)
    model = learner.fit(evidence(20))
    X = SPACE.sample(200, np.random.default_rng(1))
    _, d_mean, _ = model.slopes(X)
    many = len(seen)
    assert (
        many == len(set(seen)) + 1
    )  # once each, and the first again, when its inputs were not yet known
    moved = X.copy()
    moved[:, 4] = 0.123  # the rate, which the feature does not read
    np.testing.assert_array_equal(model.log_at(moved).mean, model.log_at(X).mean)
    learner.fit(evidence(20)).log_at(X)
    assert len(seen) == many
    np.testing.assert_array_equal(d_mean[:, [1, 2, 4]], 0.0)
    assert np.all(d_mean[:, [0, 3]] > 0)


def test_a_feature_that_reads_more_parameters_later():
    def work(params):
        return params["width_2"] if params["layers"] == 2 else params["width_1"]

    given = evidence(40)
    truth = np.array([work(SPACE.decode(x)) for x in given.X], dtype=float)
    model = Flops(work).fit(given._replace(cost=3.0 * truth))
    X = SPACE.sample(100, np.random.default_rng(1))
    expected = [3.0 * work(SPACE.decode(x)) for x in X]
    np.testing.assert_allclose(np.exp(model.log_at(X).mean), expected, rtol=1e-6)


def test_a_feature_may_read_all_parameters():
    model = Flops(lambda params: sum(v for v in params.values())).fit(evidence(20))
    assert model.counted.read == set(SPACE.names)


# ---------------------------------------------------------------- bad input
def test_with_too_few_costs_it_uses_fewer_counts_and_says_so():
    model = Flops(WORK).fit(evidence(3))
    assert model.because == "3 costs are too few for 2 operation counts, using the first 1"
    assert np.all(np.isfinite(model.log_at(evidence(9).X).mean))
    alone = Flops(WORK).fit(evidence(1))
    np.testing.assert_allclose(np.exp(alone.log_at(evidence(5).X).mean), evidence(1).cost[0])
    assert Flops(WORK).fit(evidence(0)) is None


def test_dependent_counts_are_left_out_and_reported():
    model = Flops([WORK, WORK, lambda params: 7.0]).fit(evidence(30, noise=0.0))
    assert model.because == "3 of 5 operation counts depend on the others"
    np.testing.assert_allclose(model.weights, [1e-5, 5e-5, 0.5], rtol=1e-3)


def test_a_feature_that_fails_is_named():
    with pytest.raises(InvalidInput, match=r"failed at \{.*'epochs'.*KeyError: 'depth'"):
        Flops(lambda params: params["depth"]).fit(evidence(4))


@pytest.mark.parametrize("count", [np.nan, np.inf, -1.0, "much", [1.0, -1.0]])
def test_a_feature_with_an_invalid_count_is_named(count):
    with pytest.raises(InvalidInput, match="cost feature"):
        Flops(lambda params: count).fit(evidence(4))


def test_features_are_functions():
    for wrong in ([], ["width_1"], [MLPFlops]):
        with pytest.raises(InvalidInput, match="expected functions of the parameters"):
            Flops(wrong)


def test_the_proposal_says_why_a_model_is_simpler():
    optimizer = Optimizer(SPACE, 1000.0, policy=Random(), cost=Flops(WORK))
    for _ in range(2):
        trial = optimizer.ask()
        optimizer.tell(trial, 1.0, cost=seconds(trial.params))
    assert "2 costs are too few for 2 operation counts" in optimizer.ask().because
