"""The prior mean of earlier studies, and the process with a prior mean, against slow formulas."""

from dataclasses import replace

import numpy as np
import pytest
from oracles import differences

from farthing.acquisition.posterior_samples import draw
from farthing.earlier import Source
from farthing.models.gp import fit
from farthing.models.prior_mean import (
    CHANCE,
    MOST,
    PRIOR_ACCURACY,
    PRIOR_COUNT,
    SURE,
    Mixture,
    effects,
    model_of,
    prior_mean,
)

OPTIONS = np.array([0, 0, 3])
rng = np.random.default_rng(7)


def points(n, seed=0):
    X = np.random.default_rng(seed).random((n, 3))
    X[:, 2] = (np.floor(3 * X[:, 2]) + 0.5) / 3
    return X


def value(X):
    return (X[:, 0] - 0.3) ** 2 + 0.5 * (X[:, 1] - 0.7) ** 2 + 0.1 * (X[:, 2] > 0.4)


def source(name="a", n=25, seed=1, change=lambda y: y):
    X = points(n, seed)
    return Source(name, X, change(value(X)))


SOURCES = (source("a"), source("b", 20, 2, lambda y: 5 + 100 * y), source("c", 15, 3, lambda y: -y))
X, Y = points(9, 11), value(points(9, 11))


def matern(A, B, lengthscales, variance):
    """The kernel in a double loop."""
    out = np.empty((len(A), len(B)))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            gap = np.where(OPTIONS > 0, (a != b) * 1.0, a - b) / lengthscales
            q = np.sqrt(5) * np.linalg.norm(gap)
            out[i, j] = variance * (1 + q + q * q / 3) * np.exp(-q)
    return out


def posterior(gp, mean_of, at):
    """The posterior mean at some points for any prior mean function, by plain linear algebra."""
    K = matern(gp.X, gp.X, gp.lengthscales, gp.variance) + gp.noise * np.eye(len(gp.X))
    rest = gp.shift + gp.scale * gp.targets[:, 0] - mean_of(gp.X)
    ones = np.linalg.solve(K, np.ones(len(K)))
    constant = ones @ rest / ones.sum()
    k = matern(at, gp.X, gp.lengthscales, gp.variance)
    return mean_of(at) + constant + k @ np.linalg.solve(K, rest - constant)


def test_the_posterior_is_that_of_a_slow_oracle():
    prior = prior_mean(SOURCES, OPTIONS, X, Y).mean
    gp = fit(X, Y, options=OPTIONS, prior=prior)
    at = points(12, 5)
    assert gp.at(at).mean[:, 0] == pytest.approx(posterior(gp, prior.at, at), abs=1e-9)
    plain = replace(gp, prior=None)
    assert gp.at(at).std == pytest.approx(plain.at(at).std)  # a mean does not change the variance
    assert np.abs(gp.at(at).mean - plain.at(at).mean).max() > 1e-3


def test_observed_values_enter_later_as_at_once():
    prior = prior_mean(SOURCES, OPTIONS, X, Y).mean
    gp = fit(X, Y, options=OPTIONS, prior=prior)
    some = replace(gp, X=gp.X[:6], targets=gp.targets[:6], L=gp.L[:6, :6])
    again = some.condition_all(gp.X[6:], gp.shift + gp.scale * gp.targets[6:])
    at = points(8, 6)
    for one, other in zip(again.at(at), gp.at(at), strict=True):
        assert one == pytest.approx(other, abs=1e-9)


def test_bounds_hold_with_a_prior_mean():
    gp = fit(X, Y, options=OPTIONS, prior=prior_mean(SOURCES, OPTIONS, X, Y).mean)
    at = points(40, 8)
    exact, bound = gp.at(at), gp.at_best(at)
    assert (bound.mean <= exact.mean).all()
    assert (bound.std >= exact.std).all()
    assert gp.least(at) == pytest.approx(exact.mean, abs=1e-3)


def test_left_out_rows_are_predicted_from_the_others():
    prior = prior_mean(SOURCES, OPTIONS, X, Y).mean
    gp = fit(X, Y, options=OPTIONS, prior=prior)
    for i in range(len(X)):
        keep = np.arange(len(X)) != i
        others = replace(gp, X=gp.X[keep], targets=gp.targets[keep])
        expected = posterior(others, prior.at, gp.X[[i]])
        assert gp.left_out().mean[i] == pytest.approx(expected[0], abs=1e-9)


def test_gradients_are_differences():
    prior = prior_mean((*SOURCES, lacking()), OPTIONS, X, Y).mean
    gp = fit(X, Y, options=OPTIONS, prior=prior)
    at = points(6, 9)
    numbers = np.flatnonzero(OPTIONS == 0)
    by_steps = differences(lambda Z: gp.at(Z).mean[:, 0], at)
    assert gp.slopes(at)[1][:, numbers, 0] == pytest.approx(by_steps[:, numbers], abs=1e-6)
    paths = draw(gp, ("x", "y", "z"), 6, np.random.default_rng(0))
    along = differences(lambda Z: np.diag(paths.at(Z)).copy(), at)
    value_, slope = paths.along(at, np.arange(6))
    assert value_ == pytest.approx(np.diag(paths.at(at)))
    assert slope[:, numbers] == pytest.approx(along[:, numbers], abs=1e-5)


def test_one_product_evaluates_each_source_as_its_own_process_does():
    mixture = prior_mean((*SOURCES[:2], lacking()), OPTIONS, X, Y).mean
    at = points(7, 15)
    each = np.column_stack([model.at(at) for model in mixture.models])
    assert len(mixture.models) == 3
    assert mixture.parts(at) == pytest.approx(each, abs=1e-9)
    assert mixture.at(at) == pytest.approx(each @ mixture.weights, abs=1e-9)


def test_sampled_paths_scatter_about_the_posterior():
    gp = fit(X, Y, options=OPTIONS, prior=prior_mean(SOURCES, OPTIONS, X, Y).mean)
    at = points(5, 10)
    paths = draw(gp, ("x", "y", "z"), 4000, np.random.default_rng(1))
    found = gp.shift + gp.scale * paths.at(at)
    mean, std = gp.at(at)
    assert found.mean(axis=1) == pytest.approx(mean[:, 0], abs=6 * std.max() / np.sqrt(4000))


# ── weights ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("which", range(3))
def test_the_accuracy_is_the_expected_share_of_ordered_pairs(which):
    model = model_of(SOURCES[which], OPTIONS)
    draws = model.gp.sample(X, 4000, np.random.default_rng(2))
    pairs = [(i, j) for i in range(len(X)) for j in range(len(X)) if Y[i] < Y[j]]
    share = np.mean([np.mean(draws[:, i] < draws[:, j]) for i, j in pairs])
    assert model.accuracy(X, Y) == pytest.approx(share, abs=0.02)


def test_the_trust_follows_from_the_accuracy():
    found = prior_mean(SOURCES, OPTIONS, X, Y)
    for each in SOURCES:
        a = model_of(each, OPTIONS, 500).accuracy(X, Y)
        count = len(X) - 1
        expected = (PRIOR_COUNT * PRIOR_ACCURACY + count * a) / (PRIOR_COUNT + count)
        trust = min(max((expected - CHANCE) / (SURE - CHANCE), 0), 1)
        assert found.trust[each.name] == pytest.approx(trust)


def test_the_weights_are_the_trusts_times_the_spread_of_the_values_here():
    found = prior_mean(SOURCES[:2], OPTIONS, X, Y)
    z = (Y - Y.mean()) / Y.std()
    each = [model_of(s, OPTIONS, 750).at(X) for s in SOURCES[:2]]
    trust = np.array([found.trust[model.name] for model in found.mean.models])
    w = trust / trust.sum()
    order = [s.name for s in SOURCES[:2]]
    e = sum(w[k] * each[order.index(m.name)] for k, m in enumerate(found.mean.models))
    e = e - e.mean()
    b = (sum(e * z) + 2.0) / (sum(e * e) + 2.0)
    assert found.mean.weights == pytest.approx(Y.std() * trust.max() * b * w)


def test_a_negated_source_loses_all_trust_and_a_good_one_keeps_it():
    trust = prior_mean(SOURCES, OPTIONS, X, Y).trust
    assert trust["c"] == 0.0
    assert trust["a"] > 0.9
    assert [m.name for m in prior_mean(SOURCES, OPTIONS, X, Y).mean.models].count("c") == 0
    only = prior_mean(SOURCES[2:], OPTIONS, X, Y)
    assert only.mean is None
    assert only.trust == {"c": 0.0}


def test_before_the_first_values_every_source_has_the_stated_trust():
    found = prior_mean(SOURCES, OPTIONS, np.empty((0, 3)), np.empty(0))
    stated = (PRIOR_ACCURACY - CHANCE) / (SURE - CHANCE)
    assert list(found.trust.values()) == pytest.approx([stated] * 3)
    assert len(found.mean.models) == 3


def test_the_order_of_the_sources_does_not_matter():
    many = [source(f"s{i}", 12, 20 + i) for i in range(MOST + 3)]
    at = points(10, 12)
    one = prior_mean(many, OPTIONS, X, Y)
    other = prior_mean(many[::-1], OPTIONS, X, Y)
    assert len(one.mean.models) == MOST == 5  # as the documentation says
    assert one.mean.at(at) == pytest.approx(other.mean.at(at), rel=1e-12)
    assert one.trust == pytest.approx(other.trust)


def test_units_and_levels_of_a_source_do_not_matter():
    at = points(10, 12)
    one = prior_mean([source()], OPTIONS, X, Y)
    other = prior_mean([source(change=lambda y: 1000 + 64 * y)], OPTIONS, X, Y)
    assert other.mean.at(at) == pytest.approx(one.mean.at(at), abs=1e-5)
    scaled = prior_mean([source()], OPTIONS, X, 1024 * Y - 3)
    assert scaled.mean.at(at) == pytest.approx(1024 * one.mean.at(at), rel=1e-9)


def test_relabelled_categories_give_the_same_prior_mean():
    order = np.array([2, 0, 1])

    def relabelled(points):
        moved = points.copy()
        moved[:, 2] = (order[np.floor(3 * points[:, 2]).astype(int)] + 0.5) / 3
        return moved

    at, here = points(10, 12), [replace(s, x=relabelled(s.x)) for s in SOURCES]
    one = prior_mean(SOURCES, OPTIONS, X, Y)
    other = prior_mean(here, OPTIONS, relabelled(X), Y)
    assert other.mean.at(relabelled(at)) == pytest.approx(one.mean.at(at), abs=1e-6)


# ── sources that lack something ────────────────────────────────────────────────────────────────


def lacking():
    full = source("lacking", 30, 4)
    x = full.x.copy()
    x[:, 1] = np.nan
    return replace(full, x=x)


def test_a_source_without_a_parameter_predicts_from_the_others():
    found = prior_mean([lacking()], OPTIONS, X, Y)
    at = points(5, 13)
    moved = at.copy()
    moved[:, 1] = 0.99
    assert found.mean.at(moved) == pytest.approx(found.mean.at(at))
    assert found.mean.slopes(at)[1][:, 1].tolist() == [0.0] * 5
    assert np.ptp(found.mean.at(at)) > 0


def test_a_source_with_too_few_values_or_without_known_parameters_does_not_count():
    few = Source("few", points(3), np.array([1.0, np.nan, np.nan]))
    nothing = Source("nothing", np.full((4, 3), np.nan), np.arange(4.0))
    found = prior_mean([few, nothing], OPTIONS, X, Y)
    assert found.mean is None
    assert found.trust == {"few": 0.0, "nothing": 0.0}


def test_trials_without_a_value_are_left_out():
    full = source("a", 25)
    x, y = np.vstack([full.x, points(4, 30)]), np.append(full.y, [np.nan] * 4)
    at = points(5, 13)
    assert (
        model_of(Source("a", x, y), OPTIONS).at(at).tolist()
        == model_of(full, OPTIONS).at(at).tolist()
    )


def test_a_large_source_keeps_its_best_rows_and_a_spread_of_the_others():
    big = source("big", 300, 5)
    rows = model_of(big, OPTIONS, 40).gp.X
    assert len(rows) == 40
    best = big.x[np.argsort(big.y)[:20]]
    assert all((rows == x).all(axis=1).any() for x in best)


def test_a_source_is_fitted_once():
    twin = replace(SOURCES[0], x=SOURCES[0].x.copy())
    assert model_of(SOURCES[0], OPTIONS) is model_of(twin, OPTIONS)
    assert model_of(SOURCES[0], OPTIONS) is not model_of(replace(twin, y=2 * twin.y), OPTIONS)


# ── effects ────────────────────────────────────────────────────────────────────────────────────


def test_the_effect_of_a_source_is_the_change_of_the_posterior_without_it():
    prior = prior_mean(SOURCES[:2], OPTIONS, X, Y).mean
    gp = fit(X, Y, options=OPTIONS, prior=prior)
    x = points(1, 14)[0]
    found = effects(gp, x)
    for k, model in enumerate(prior.models):
        rest = Mixture(prior.models, np.where(np.arange(2) == k, 0.0, prior.weights))
        moved = posterior(gp, prior.at, x[None]) - posterior(gp, rest.at, x[None])
        assert found[model.name] == pytest.approx(moved[0], abs=1e-9)
    assert effects(fit(X, Y, options=OPTIONS), x) == {}
