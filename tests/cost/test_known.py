from collections import Counter

import numpy as np
import pytest
from oracles import differences

from farthing.acquisition.belief import believe
from farthing.acquisition.scores import log_ei_per_cost, maximise_score
from farthing.acquisition.search import Effort
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget
from farthing.cost import Evidence, Known
from farthing.errors import InvalidInput
from farthing.history import History, Trial
from farthing.space.space import Categorical, Float, Int, Ordinal, Space

SPACE = Space(
    {
        "rate": Float(1e-4, 1e-1, log=True),
        "share": Float(0.2, 0.9),
        "depth": Int(3, 12),
        "batch": Ordinal([1, 2, 512], log=True),
        "solver": Categorical(["sgd", "adam", "lbfgs"]),
        "momentum": Float(0.1, 0.9, when={"solver": "sgd"}),
        "trees": Int(10, 40_000),
    }
)


class Price:
    """A cost function that counts its calls for each configuration."""

    def __init__(self, space, f):
        self.space = space
        self.f = f
        self.calls = Counter()

    def __call__(self, params):
        self.space.encode(params)  # raises an error if a parameter is not valid
        self.calls[tuple(sorted(params.items(), key=str))] += 1
        return self.f(params)


def product(params):
    """3 rate^0.5 share^2 depth batch^0.25 trees, times a factor for the solver and its momentum."""
    factor = {"sgd": 1.0, "adam": 2.0, "lbfgs": 7.0}[params["solver"]]
    numbers = 3.0 * params["rate"] ** 0.5 * params["share"] ** 2 * params["depth"]
    return numbers * params["batch"] ** 0.25 * params["trees"] * factor * params.get("momentum", 1)


def bound(price, space=SPACE):
    return Known(price).bind(space)


def test_the_cost_is_that_of_the_function():
    X = np.random.default_rng(0).random((50, SPACE.d))
    mean, std = bound(product).log_at(X)
    np.testing.assert_allclose(np.exp(mean), [product(SPACE.decode(x)) for x in X], rtol=1e-12)
    np.testing.assert_array_equal(std, 0.0)


def test_called_once_for_each_configuration_and_only_at_valid_ones():
    price = Price(SPACE, product)
    model = bound(price)
    X = np.random.default_rng(1).random((40, SPACE.d))
    first = model.log_at(X)
    assert len(price.calls) == 40
    np.testing.assert_array_equal(model.log_at(SPACE.snap(X)).mean, first.mean)
    model.slopes(X)
    assert set(price.calls.values()) == {1}
    numeric = 6
    assert len(price.calls) <= 40 * (2 * numeric + 1)


def test_costs_are_cached_from_one_suggestion_to_the_next():
    price = Price(SPACE, product)
    learner = Known(price)
    X = SPACE.sample(10, np.random.default_rng(2))
    nothing = np.zeros(0)
    evidence = Evidence(SPACE, nothing.reshape(0, SPACE.d), nothing, nothing.astype(bool))
    learner.fit(evidence).log_at(X)
    learner.fit(evidence).log_at(X)
    learner.fit(evidence).condition(X[0], 5.0).log_at(X)
    assert sum(price.calls.values()) == 10


def test_two_spaces_do_not_mix():
    learner = Known(lambda params: params["a"])
    small, large = Space({"a": Float(1, 2)}), Space({"a": Float(100, 200)})
    X = np.array([[0.5]])
    for space, cost in [(small, 1.5), (large, 150.0), (small, 1.5)]:
        assert np.exp(learner.bind(space).log_at(X).mean[0]) == pytest.approx(cost, rel=1e-12)


def test_the_cache_of_a_deleted_space_is_not_used():
    """A new space may get the `id` of a deleted one."""
    learner = Known(lambda params: params["a"])
    for low in range(1, 40):
        space = Space({"a": Float(low, low + 1)})
        assert np.exp(learner.bind(space).log_at(np.array([[0.0]])).mean[0]) == pytest.approx(low)
        del space


def test_slopes_on_continuous_coordinates():
    """ln of rate^0.5 and share^2: d/dx is half the log range, and 2 (high - low) / share."""
    X = SPACE.snap(0.05 + 0.9 * np.random.default_rng(3).random((30, SPACE.d)))
    normal, d_mean, d_std = bound(product).slopes(X)
    np.testing.assert_array_equal(normal.mean, bound(product).log_at(X).mean)
    np.testing.assert_allclose(d_mean[:, 0], 0.5 * np.log(1e3), rtol=1e-6)
    share = 0.2 + 0.7 * X[:, 1]
    np.testing.assert_allclose(d_mean[:, 1], 2 * 0.7 / share, rtol=1e-6)
    sgd = X[:, 4] < 1 / 3
    assert 3 < sgd.sum() < 27
    momentum = 0.1 + 0.8 * X[:, 5]
    np.testing.assert_allclose(d_mean[sgd, 5], 0.8 / momentum[sgd], rtol=1e-6)
    np.testing.assert_array_equal(d_mean[~sgd, 5], 0.0)
    np.testing.assert_array_equal(d_mean[:, 4], 0.0)
    np.testing.assert_array_equal(d_std, 0.0)
    by_differences = differences(lambda S: bound(product).log_at(S).mean, X, 1e-5)
    np.testing.assert_allclose(d_mean[:, :2], by_differences[:, :2], rtol=1e-5)


def test_slopes_of_discrete_coordinates_reach_the_next_values():
    X = SPACE.sample(60, np.random.default_rng(4))
    _, d_mean, _ = bound(product).slopes(X)
    np.testing.assert_allclose(
        d_mean[:, 3], 0.25 * np.log(512), rtol=1e-9
    )  # although the values are not equidistant
    depth = SPACE.natural(X)[:, 2]
    high, low = np.minimum(depth + 1, 12), np.maximum(depth - 1, 3)
    secant = 10 * np.log(high / low) / (high - low)
    np.testing.assert_allclose(d_mean[:, 2], secant, rtol=1e-9)
    trees = SPACE.natural(X)[:, 6]  # too many values to list
    np.testing.assert_allclose(d_mean[:, 6], 39_991 / trees, rtol=0.1)


def test_slopes_at_the_boundary():
    ends = np.array([[0.0] * SPACE.d, [1.0] * SPACE.d])
    _, d_mean, _ = bound(product).slopes(ends)
    np.testing.assert_allclose(d_mean[:, 0], 0.5 * np.log(1e3), rtol=1e-6)
    np.testing.assert_allclose(d_mean[:, 1], 2 * 0.7 / np.array([0.2, 0.9]), rtol=1e-3)


def test_one_value_has_no_slope():
    space = Space({"a": Ordinal([7]), "b": Float(1, 2)})
    _, d_mean, _ = bound(lambda params: params["a"] * params["b"], space).slopes(
        np.full((1, 2), 0.5)
    )
    np.testing.assert_allclose(d_mean, [[0.0, 1 / 1.5]], rtol=1e-6)


@pytest.mark.parametrize("cost", [-1.0, np.nan, np.inf])
def test_a_cost_must_be_a_number_of_at_least_0(cost):
    model = bound(lambda params: cost)
    with pytest.raises(
        InvalidInput, match=rf"returned {cost} at \{{.*'depth'.*\}}: expected a number of at least"
    ):
        model.log_at(np.full((1, SPACE.d), 0.4))


def test_a_suggestion_calls_the_function_a_bounded_number_of_times():
    space = Space({"a": Float(1, 20), "b": Float(-3, 3)})
    price = Price(space, lambda params: params["a"] + abs(params["b"]))
    X = space.sample(8, np.random.default_rng(5))
    history = History(
        tuple(
            Trial(k, space.decode(x), x, "done", float((x**2).sum()), {"cost": 1.0})
            for k, x in enumerate(X)
        )
    )
    belief = believe(space, history, Ledger.of(Budget(60)), learners={"cost": Known(price)})
    found = maximise_score(belief, log_ei_per_cost(), np.random.default_rng(6))
    assert len(found.X)
    effort = Effort()
    climbed, starts = effort.starts, effort.starts
    for steps in effort.steps:
        climbed += steps * starts
        starts = max(2, (starts + 1) // 2)
    at_most = effort.screen + effort.around + climbed * (2 * space.d + 1)
    assert effort.screen < sum(price.calls.values()) <= at_most
    assert set(price.calls.values()) == {1}
