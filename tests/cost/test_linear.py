import numpy as np
import pytest
from oracles import differences

from farthing.cost import Evidence, Linear
from farthing.errors import InvalidInput
from farthing.models.features import log_features
from farthing.models.regression import designed, least_squares, press, select
from farthing.space.space import Categorical, Float, Int, Ordinal, Space

ROUNDS = np.array([16.0, 64, 256, 32, 128, 8])
DEPTH = np.array([2.0, 4, 6, 8, 3, 5])
RATE = np.array([0.1, 0.3, 0.03, 0.2, 0.5, 0.05])
COST = np.array([0.42, 1.9, 7.7, 1.55, 2.6, 0.31])
F = np.log(np.column_stack([ROUNDS, DEPTH, RATE]))
T = np.log(COST)

BOOSTING = Space(
    {
        "rounds": Int(4, 512, log=True),
        "depth": Int(1, 9),
        "rate": Float(0.01, 1.0, log=True),
    }
)


def evidence(space, X, cost, killed=False):
    return Evidence(space, X, np.asarray(cost, dtype=float), np.full(len(X), killed))


def boosting():
    rows = [
        {"rounds": int(a), "depth": int(b), "rate": c}
        for a, b, c in zip(ROUNDS, DEPTH, RATE, strict=True)
    ]
    return evidence(BOOSTING, np.array([BOOSTING.encode(row) for row in rows]), COST)


def press_by_leaving_out(F, t):
    """Every row predicted by a fit to the others."""
    total = 0.0
    for i in range(len(t)):
        others = np.delete(np.arange(len(t)), i)
        design = np.column_stack([np.ones(len(t)), F])
        beta = np.linalg.lstsq(design[others], t[others], rcond=None)[0]
        total += (t[i] - design[i] @ beta) ** 2
    return total


# ---------------------------------------------------------------- a worked example
@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        ([], 10.24632836),
        ([0], 0.7088033405),
        ([1], 12.44367477),
        ([2], 22.4010209),
        ([0, 1], 0.1881332706),
        ([0, 2], 49.15807693),
        ([0, 1, 2], 11.2989989),
    ],
)
def test_press_oracle(chosen, error):  # [low-variance-cost]
    assert press(F[:, chosen], T) == pytest.approx(error, rel=1e-8)
    assert press_by_leaving_out(F[:, chosen], T) == pytest.approx(error, rel=1e-8)


def test_selection_and_coefficients_oracle():  # [low-variance-cost]
    assert select(F, T, 3) == [0, 1]
    model = least_squares(designed(F[:, :2]), T, np.zeros(6, dtype=bool))
    np.testing.assert_allclose(model.beta, [-3.715422004, 0.8648284686, 0.5253363889], rtol=1e-9)
    assert 3 * model.sigma**2 == pytest.approx(0.03332521515, rel=1e-9)
    t = model.beta / (model.sigma * np.sqrt(np.diag(model.inverse)))
    np.testing.assert_allclose(t, [-19.95266371, 23.50875286, 5.480736154], rtol=1e-9)


def test_prediction_oracle():  # [low-variance-cost]
    model = Linear().fit(boosting())
    assert model.chosen == (0, 1)
    x = BOOSTING.encode({"rounds": 100, "depth": 4, "rate": 0.7})
    mean, hopeful = model.log_at(x[None])
    assert mean[0] == pytest.approx(0.9955311488, rel=1e-9)
    assert np.exp(mean[0]) == pytest.approx(2.706161334, rel=1e-9)
    fixed = Linear(features=["rounds", "depth"]).fit(boosting())
    mean, std = fixed.log_at(x[None])
    assert mean[0] == pytest.approx(0.9955311488, rel=1e-9)
    # The variance of a new cost: s^2 (1 + phi' (F'F)^-1 phi), by solving the normal equations.
    design = np.column_stack([np.ones(6), F[:, :2]])
    phi = np.array([1.0, np.log(100), np.log(4)])
    spread = 1 + phi @ np.linalg.solve(design.T @ design, phi)
    assert std[0] == pytest.approx(np.sqrt(0.03332521515 / 3 * spread), rel=1e-9)
    # Selection by the same costs adds uncertainty.
    assert hopeful[0] == pytest.approx(model.optimism * std[0], rel=1e-9)
    assert model.optimism > 2.0


def test_selection_is_reflected_in_the_uncertainty():
    """Ten candidate features, one relevant, eight costs: intervals cover new costs."""
    space = Space({f"p{k}": Float(1, 2) for k in range(10)})
    inside, naive = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = space.sample(208, rng)
        cost = np.exp(2.0 * X[:, 0] + 0.3 * rng.standard_normal(208))
        model = Linear().fit(evidence(space, X[:8], cost[:8]))
        mean, std = model.log_at(X[8:])
        off = np.abs(mean - np.log(cost[8:]))
        inside.append(np.mean(off < 1.2816 * std))
        naive.append(np.mean(off < 1.2816 * std / model.optimism))
    assert np.mean(naive) < 0.68
    assert 0.7 < np.mean(inside) < 0.9


# ---------------------------------------------------------------- selection
@pytest.mark.parametrize("n", [5, 8, 20])
def test_press_by_leaving_out(n):
    rng = np.random.default_rng(n)
    F, t = rng.normal(3.0, 2.0, (n, 2)), rng.normal(5.0, 1.0, n)
    for chosen in ([], [0], [0, 1]):
        slow = press_by_leaving_out(F[:, chosen], t)
        assert press(F[:, chosen], t) == pytest.approx(slow, rel=1e-8)


def test_at_most_three_features_are_chosen_and_the_right_ones():
    rng = np.random.default_rng(1)
    F = rng.normal(2.0, 1.0, (40, 8))
    t = 5.0 + 2.0 * F[:, 6] - 3.0 * F[:, 1] + 0.01 * rng.standard_normal(40)
    assert set(select(F, t, 3)[:2]) == {1, 6}
    t = F @ np.arange(8.0)
    assert select(F, t, 3)[0] == 7
    assert len(select(F, t, 3)) == 3


def test_no_feature_is_selected_for_noise():
    rng = np.random.default_rng(2)
    chosen = [len(select(rng.random((30, 2)), rng.standard_normal(30), 3)) for _ in range(40)]
    assert np.mean(chosen) < 0.5


def test_a_feature_needs_enough_costs():
    """n >= k + 3 for k features."""
    for n, most in [(1, 0), (2, 0), (3, 0), (4, 1), (5, 2), (6, 3), (9, 3)]:
        F = np.random.default_rng(n).normal(size=(n, 6))
        t = F @ np.array([9.0, 7.0, 5.0, 3.0, 1.0, 0.5])
        assert len(select(F, t, 3)) <= most


def test_a_feature_that_varies_in_one_row_only_is_not_chosen():
    """Without that row nothing determines its coefficient."""
    t = np.log([1.0, 1.1, 0.9, 1.05, 60.0, 0.95])
    alone = (np.arange(6) == 4).astype(float)[:, None]
    assert press(alone, t) == np.inf
    assert select(alone, t, 3) == []
    twice = np.array([0, 0, 0, 1, 1, 0.0])[:, None]
    assert np.isfinite(press(twice, t))


def test_a_feature_that_repeats_another_is_not_chosen():
    rng = np.random.default_rng(3)
    first = rng.normal(4.0, 1.0, 20)
    F = np.column_stack([first, first + np.log(2), 3 * first - 1, np.full(20, 7.0)])
    assert len(select(F, 1.5 * first + 0.1 * rng.standard_normal(20), 3)) == 1
    assert press(F[:, :2], first) == np.inf


# ---------------------------------------------------------------- features
MIXED = Space(
    {
        "rate": Float(1e-4, 1.0, log=True),
        "offset": Float(-3.0, 2.0),
        "batch": Ordinal([16, 64, 256]),
        "quality": Ordinal(["low", "medium", "high"]),
        "solver": Categorical(["sgd", "adam", "lbfgs"]),
        "momentum": Float(0.1, 0.9, when={"solver": "sgd"}),
        "layers": Int(0, 5),
    }
)


def test_features_of_every_kind():
    params = {"rate": 0.01, "offset": 1.0, "batch": 64, "quality": "high", "layers": 0}
    X = np.array(
        [
            MIXED.encode({**params, "solver": "sgd", "momentum": 0.5}),
            MIXED.encode({**params, "solver": "adam"}),
            MIXED.encode({**params, "solver": "lbfgs"}),
        ]
    )
    F, _, source = log_features(MIXED, X)
    np.testing.assert_array_equal(source, [0, 1, 2, 3, 4, 4, 5, 6])
    shared = [np.log(0.01), 0.8, np.log(64), 1.0]
    layers = 1 / 12  # the centre of the first of six bins
    expected = [
        [*shared, 0, 0, np.log(0.5), layers],
        [*shared, 1, 0, 0, layers],
        [*shared, 0, 1, 0, layers],
    ]
    np.testing.assert_allclose(F, expected, rtol=1e-12, atol=1e-12)


def test_power_laws_and_expensive_options_are_recovered():
    rng = np.random.default_rng(4)
    X, Xs = MIXED.sample(40, rng), MIXED.sample(40, rng)

    def cost(X):
        natural = MIXED.natural(X)
        lbfgs = X[:, 4] > 2 / 3
        return 7.0 * natural[:, 0] ** 0.5 * natural[:, 2] ** -1.2 * np.where(lbfgs, 9.0, 1.0)

    model = Linear().fit(evidence(MIXED, X, cost(X)))
    np.testing.assert_allclose(model.log_at(Xs).mean, np.log(cost(Xs)), rtol=1e-9)
    assert model.log_at(Xs).std.max() < 1e-9


def test_a_conditional_parameter_counts_only_if_it_is_active():
    rng = np.random.default_rng(5)
    X = MIXED.sample(60, rng)
    momentum = MIXED.natural(X)[:, 5]
    cost = np.where(np.isnan(momentum), 4.0, 4.0 * np.nan_to_num(momentum, nan=1.0) ** 2)
    model = Linear().fit(evidence(MIXED, X, cost))
    assert [int(model.source[k]) for k in model.chosen] == [5]
    np.testing.assert_allclose(model.log_at(X).mean, np.log(cost), rtol=1e-9)


def test_the_cost_is_that_of_the_nearest_valid_point():
    """Also if the parent of a condition lies between its values."""
    space = Space({"a": Int(1, 3), "b": Float(1, 10, when={"a": 2})})
    rng = np.random.default_rng(6)
    X = space.sample(30, rng)
    cost = np.nan_to_num(space.natural(X)[:, 1], nan=1.0)
    model = Linear().fit(evidence(space, X, cost))
    inside = np.array([[0.45, 0.7], [0.5, 0.7], [0.6, 0.7]])
    np.testing.assert_allclose(np.exp(model.log_at(inside).mean), 7.3, rtol=1e-9)


# ---------------------------------------------------------------- slopes and updates
def rough(space, n, seed):
    rng = np.random.default_rng(seed)
    X = space.sample(n, rng)
    return evidence(space, X, np.exp(X[:, 0] + 2 * X[:, 1] + 0.2 * rng.standard_normal(n)))


@pytest.mark.parametrize("chosen", [["rate", "offset"], ["batch", "layers", "quality"], None])
def test_slopes_equal_finite_differences_also_between_discrete_values(chosen):
    """Features are smooth between discrete values, so that gradient ascent sees a slope."""
    model = Linear(features=chosen).fit(rough(MIXED, 40, 7))
    Xs = 0.01 + 0.98 * np.random.default_rng(8).random((30, MIXED.d))
    normal, d_mean, d_std = model.slopes(Xs)
    np.testing.assert_array_equal(normal.mean, model.log_at(Xs).mean)
    by_mean = differences(lambda S: model.log_at(S).mean, Xs, 1e-5)
    by_std = differences(lambda S: model.log_at(S).std, Xs, 1e-5)
    numbers = MIXED.options == 0
    numbers[5] = False  # the nearest option of another parameter decides whether it is active
    np.testing.assert_allclose(d_mean[:, numbers], by_mean[:, numbers], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(d_std[:, numbers], by_std[:, numbers], rtol=1e-5, atol=1e-9)
    assert np.abs(d_mean).max() > 0.1
    np.testing.assert_array_equal(d_mean[:, 4], 0.0)  # options have no direction


def test_a_slope_between_whole_numbers_is_that_of_the_logarithm():
    space = Space({"trees": Int(2, 9), "depth": Ordinal([1, 2, 64], log=True)})
    rng = np.random.default_rng(3)
    X = space.sample(30, rng)
    natural = space.natural(X)
    cost = natural[:, 0] ** 1.5 * natural[:, 1] ** 0.5
    model = Linear().fit(evidence(space, X, cost))
    Xs = rng.random((10, 2))
    _, d_mean, _ = model.slopes(Xs)
    np.testing.assert_allclose(d_mean[:, 0], 1.5 * 8 / (1.5 + 8 * Xs[:, 0]), rtol=1e-9)
    np.testing.assert_allclose(d_mean[:, 1], 0.5 * np.log(64), rtol=1e-9)


def test_slopes_at_the_boundary():
    model = Linear().fit(rough(MIXED, 40, 7))
    _, d_mean, _ = model.slopes(np.array([[0.0] * MIXED.d, [1.0] * MIXED.d]))
    k = model.chosen.index(0)
    np.testing.assert_allclose(d_mean[:, 0], model.fitted.beta[1 + k] * np.log(1e4), rtol=1e-6)


def test_one_more_cost_is_a_fit_with_the_same_features():
    whole = boosting()
    fitted = Linear().fit(whole._replace(X=whole.X[:5], cost=whole.cost[:5]))
    model = fitted.condition(whole.X[5], whole.cost[5])
    assert model.chosen == fitted.chosen
    design = np.column_stack([np.ones(6), F[:, list(model.chosen)]])
    beta = np.linalg.lstsq(design, T, rcond=None)[0]
    np.testing.assert_allclose(model.fitted.beta, beta, rtol=1e-9)
    assert len(fitted.log_cost) == 5


def test_few_costs():
    whole = boosting()

    def first(n):
        return whole._replace(X=whole.X[:n], cost=whole.cost[:n], at_least=whole.at_least[:n])

    assert Linear().fit(first(0)) is None
    mean, std = Linear().fit(first(1)).log_at(whole.X)
    np.testing.assert_allclose(mean, T[0], rtol=1e-12)
    assert np.all(std >= 1.0)  # one cost says nothing about the spread
    for n in (2, 3):
        mean, std = Linear().fit(first(n)).log_at(whole.X)
        np.testing.assert_allclose(mean, T[:n].mean(), rtol=1e-12)
        expected = T[:n].std(ddof=1) * np.sqrt(1 + 1 / n)
        np.testing.assert_allclose(std, expected, rtol=1e-12)


def test_if_all_were_killed_the_bounds_count_as_costs():
    whole = boosting()
    X = whole.X
    one = Linear().fit(whole).log_at(X).mean
    other = Linear().fit(whole._replace(at_least=np.ones(6, dtype=bool))).log_at(X).mean
    np.testing.assert_array_equal(one, other)


# ---------------------------------------------------------------- a fixed list
def test_a_fixed_list_is_used():
    model = Linear(features=["depth", "rounds"]).fit(boosting())
    assert model.chosen == (0, 1)
    assert model.because == ""
    assert model.about == "linear in rounds, depth"
    np.testing.assert_allclose(
        model.fitted.beta, [-3.715422004, 0.8648284686, 0.5253363889], rtol=1e-9
    )
    worse = Linear(features=["rate"]).fit(boosting())
    assert worse.chosen == (2,)


def test_an_option_brings_all_its_features():
    model = Linear(features=["solver"]).fit(rough(MIXED, 30, 1))
    assert [int(model.source[k]) for k in model.chosen] == [4, 4]


def test_with_too_few_costs_it_uses_fewer_features_and_says_so():
    whole = boosting()
    few = whole._replace(X=whole.X[:4], cost=whole.cost[:4], at_least=whole.at_least[:4])
    model = Linear(features=["rounds", "depth", "rate"]).fit(few)
    assert len(model.chosen) <= 1
    assert model.because == f"4 costs are too few for 3 features, using {len(model.chosen)}"


def test_a_redundant_feature_is_left_out_and_reported():
    space = Space({"a": Float(1, 9), "b": Float(1, 9), "c": Float(1, 9)})
    X = space.sample(20, np.random.default_rng(1))
    X[:, 1], X[:, 2] = X[:, 0], 0.5  # a copy, and a constant
    cost = np.exp(X[:, 0])
    model = Linear(features=["a", "b", "c"]).fit(evidence(space, X, cost))
    assert model.about == "linear in a"
    assert model.because == "b, c not used: constant or redundant"
    assert np.all(np.isfinite(model.log_at(space.sample(5, np.random.default_rng(2))).std))


def test_invalid_lists_are_rejected():
    with pytest.raises(InvalidInput, match="has 'width', but the parameters are"):
        Linear(features=["width"]).fit(boosting())
    with pytest.raises(InvalidInput, match="expected a list of parameter names"):
        Linear(features="rounds")
    with pytest.raises(InvalidInput, match="at_most=-1"):
        Linear(at_most=-1)


@pytest.mark.parametrize("at_most", [0, 1, 2, 3])
def test_at_most_limits_the_number_of_features(at_most):
    rng = np.random.default_rng(1)
    space = Space({f"p{k}": Float(1, 2) for k in range(5)})
    X = space.sample(40, rng)
    model = Linear(at_most=at_most).fit(evidence(space, X, np.exp(X @ np.arange(1.0, 6.0))))
    assert len(model.chosen) == at_most


def test_the_unit_of_cost_only_shifts_the_mean():
    whole = boosting()
    Xs = BOOSTING.sample(20, np.random.default_rng(9))
    one = Linear().fit(whole).log_at(Xs)
    for k in (1e-9, 60.0, 1e9):
        other = Linear().fit(whole._replace(cost=k * COST)).log_at(Xs)
        np.testing.assert_allclose(other.mean, one.mean + np.log(k), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other.std, one.std, rtol=1e-9)
