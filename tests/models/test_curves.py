"""The joint model of learning curves, compared with dense formulas written with loops."""

from dataclasses import replace

import numpy as np
import pytest

from farthing.models import curves as module
from farthing.models.curve_hyperparameters import CurveHyper, negative_curve_posterior
from farthing.models.curve_values import CurveRows, Scaling, thinned
from farthing.models.curves import fit_curves, refit_curves
from farthing.models.kernel import columns, embed

STEPS = np.array([1, 3, 9, 27, 51])
OPTIONS = np.array([0, 3, 0])
HYPER = CurveHyper(np.array([0.4, 1.3, 0.7]), 0.3, 0.6, 0.9, 0.05, 0.1, 0.4, 0.25, 0.01, 0.7)


def some_rows(n=7, seed=0, d=3, steps=STEPS):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    reached = rng.integers(1, len(steps) + 1, n)
    reached[0] = len(steps)
    trial = np.repeat(np.arange(n), reached)
    rung = np.concatenate([np.arange(k) for k in reached])
    y = np.sin(4 * X[trial, 0]) + 2.0 / (1 + rung) + 0.1 * rng.standard_normal(len(trial))
    return CurveRows(X, trial, rung, y, steps)


def kernel(x, i, t, other_x, j, u, hyper=HYPER, *, noise=True):
    """The covariance of z(i, t) and z(j, u), from the docstring of the module."""
    tau, upsilon = np.log(t) / np.log(51), np.log(u) / np.log(51)

    def k(length):
        q = np.sqrt(3.0) * abs(tau - upsilon) / length
        return (1 + q) * np.exp(-q)

    gaps = [
        float(a != b) if count else (a - b)
        for a, b, count in zip(
            np.where(OPTIONS > 0, np.minimum((x * OPTIONS).astype(int), 2), x),
            np.where(OPTIONS > 0, np.minimum((other_x * OPTIONS).astype(int), 2), other_x),
            OPTIONS,
            strict=True,
        )
    ]
    q = np.sqrt(5.0 * sum((g / length) ** 2 for g, length in zip(gaps, hyper[0], strict=True)))
    m52 = (1 + q + q * q / 3) * np.exp(-q)
    value = hyper.v0 * k(hyper.l2) + m52 * (hyper.v1 + hyper.v2 * k(hyper.l2))
    if i == j:
        value += hyper.v3 + hyper.v4 * k(hyper.l4)
        if noise and t == u:
            value += hyper.noise
    return np.exp(hyper.b * (tau - 1)) * np.exp(hyper.b * (upsilon - 1)) * value


class Dense:
    """The posterior with one dense covariance matrix."""

    def __init__(self, rows, z):
        self.points = [(rows.X[i], i, STEPS[r]) for i, r in zip(rows.trial, rows.rung, strict=True)]
        K = np.array([[kernel(*a, *b) for b in self.points] for a in self.points])
        ones = np.linalg.solve(K, np.ones(len(z)))
        self.K, self.mean = K, ones @ z / ones.sum()
        self.pull = np.linalg.solve(K, z - self.mean)

    def at(self, targets):
        k = np.array([[kernel(*a, *b, noise=False) for b in targets] for a in self.points])
        prior = np.array([[kernel(*a, *b, noise=False) for b in targets] for a in targets])
        return self.mean + k.T @ self.pull, prior - k.T @ np.linalg.solve(self.K, k)


@pytest.fixture
def fitted():
    rows = some_rows()
    model = fit_curves(rows, options=OPTIONS, start=HYPER, learn=False)
    return rows, model, Dense(rows, model.targets[:, 0])


def test_the_posterior_of_watched_trials(fitted):
    rows, model, dense = fitted
    own = np.flatnonzero(model.reached() <= 2)
    assert len(own) >= 2
    mean, covariance, noise = model.coming(rows.X[own], 2, own)
    for i, trial in enumerate(own):
        expected = dense.at([(rows.X[trial], trial, t) for t in STEPS[2:]])
        assert mean[i, :, 0] == pytest.approx(expected[0], abs=1e-8)
        assert covariance[i] == pytest.approx(expected[1], abs=1e-8)
    tau = np.log(STEPS[2:]) / np.log(51)
    assert noise == pytest.approx(HYPER.noise * np.exp(2 * HYPER.b * (tau - 1)))
    final = model.final()
    assert final.mean[own, 0] == pytest.approx(mean[:, -1, 0], abs=1e-9)
    assert final.std[own] ** 2 == pytest.approx(covariance[:, -1, -1], abs=1e-9)


def test_the_posterior_of_new_trials(fitted):
    _, model, dense = fitted
    X = np.random.default_rng(5).random((4, 3))
    mean, covariance, _ = model.coming(X, 0)
    at = model.new.at(X)
    for i, x in enumerate(X):
        expected = dense.at([(x, -1 - i, t) for t in STEPS])
        assert mean[i, :, 0] == pytest.approx(expected[0], abs=1e-8)
        assert covariance[i] == pytest.approx(expected[1], abs=1e-8)
        assert at.mean[i, 0] == pytest.approx(expected[0][-1], abs=1e-8)
        assert at.std[i] ** 2 == pytest.approx(expected[1][-1, -1], abs=1e-8)
    joint = dense.at([(x, -1 - i, 51) for i, x in enumerate(X)])[1]
    assert model.new.covariance(X) == pytest.approx(joint, abs=1e-8)
    rough = model.new.at_best(X)
    assert rough.mean == pytest.approx(at.mean, abs=1e-4)
    assert rough.std == pytest.approx(at.std, abs=1e-3)


def test_values_in_other_units_have_the_same_rough_posterior_in_these_units(fitted):
    _, model, _ = fitted
    small = {name: 1e-6 * getattr(HYPER, name) for name in ("v0", "v1", "v2", "v3", "v4", "noise")}
    units = {"targets": 1e-3 * model.targets, "mean": 1e-3 * model.mean}
    scaled = replace(model, hyper=HYPER._replace(**small), inverse=1e6 * model.inverse, **units)
    X = np.random.default_rng(5).random((4, 3))
    assert 1e3 * scaled.new.at_best(X).std == pytest.approx(model.new.at_best(X).std, rel=1e-3)


def test_the_gradients_of_the_final_value(fitted):
    _, model, _ = fitted
    X = np.random.default_rng(6).random((3, 3))
    _, d_mean, d_std = model.new.slopes(X)
    for j in (0, 2):  # the other coordinate is categorical
        step = 1e-6 * np.eye(3)[j]
        high, low = model.new.at(X + step), model.new.at(X - step)
        assert d_mean[:, j, 0] == pytest.approx((high.mean - low.mean)[:, 0] / 2e-6, abs=1e-6)
        assert d_std[:, j] == pytest.approx((high.std - low.std) / 2e-6, abs=1e-6)
    assert (d_mean[:, 1] == 0).all()


def test_the_gradient_of_the_posterior_of_hyperparameters():
    rows = some_rows(6, seed=3)
    z, _ = Scaling.of(rows.y)
    E, source = embed(rows.X, OPTIONS), columns(OPTIONS)
    theta = HYPER.theta

    def loss(theta):
        return negative_curve_posterior(theta, rows, E, source, z)[0]

    gradient = negative_curve_posterior(theta, rows, E, source, z)[1]
    for j, unit in enumerate(1e-5 * np.eye(len(theta))):
        assert gradient[j] == pytest.approx(
            (loss(theta + unit) - loss(theta - unit)) / 2e-5, abs=1e-5
        )


def test_the_likelihood_is_that_of_a_dense_normal(fitted):
    rows, model, dense = fitted
    z = model.targets[:, 0]
    E, source = embed(rows.X, OPTIONS), columns(OPTIONS)
    value = negative_curve_posterior(HYPER.theta, rows, E, source, z)[0]
    r = z - dense.mean
    sign, log_det = np.linalg.slogdet(dense.K)
    expected = 0.5 * (r @ np.linalg.solve(dense.K, r) + log_det + len(z) * np.log(2 * np.pi))
    prior = np.log([1, 1, 1, 0.2, 0.7, 1, 0.02, 0.04, 0.5, 0.3, 1e-3])
    sds = np.array([1, 1, 1, 1, 0.7, 0.4, 0.7, 0.7, 0.6, 1, 1])
    u = np.append((HYPER.theta[:-1] - prior) / sds, (HYPER.b - 0.5) / 0.5)
    assert sign == 1
    assert value == pytest.approx(expected + 0.5 * u @ u)


def test_a_value_that_arrives_is_a_small_update():
    rows = some_rows()
    model = fit_curves(rows, options=OPTIONS, start=HYPER, learn=False)
    keep = np.ones(len(rows.y), dtype=bool)
    keep[[3, 4]] = False  # the last rungs of trial 0
    less = rows._replace(trial=rows.trial[keep], rung=rows.rung[keep], y=rows.y[keep])
    start = fit_curves(less, options=OPTIONS, start=HYPER, learn=False, scaling=model.scaling)
    updated = start.condition(np.array([0, 0]), np.array([3, 4]), model.targets[[3, 4]])
    again = replace(model, mean=start.mean)  # mu is not learnt again
    vars(again).pop("pull", None)
    X = np.random.default_rng(1).random((5, 3))
    assert updated.new.at(X).mean == pytest.approx(again.new.at(X).mean, abs=1e-8)
    assert updated.new.at(X).std == pytest.approx(again.new.at(X).std, abs=1e-8)
    one_by_one = start
    for rung, row in ((3, 3), (4, 4)):
        one_by_one = one_by_one.condition(np.array([0]), np.array([rung]), model.targets[[row]])
    assert one_by_one.final().mean == pytest.approx(updated.final().mean, abs=1e-8)


def test_fantasies_share_the_rows(fitted):
    _, model, _ = fitted
    own, rungs = np.array([2, 4]), model.reached()[[2, 4]].clip(max=4)
    draws = model.sample(own, rungs, 5, np.random.default_rng(0))
    assert draws.shape == (2, 5)
    together = model.condition(own, rungs, draws)
    for f in range(5):
        alone = model.condition(own, rungs, draws[:, f : f + 1])
        assert together.final().mean[:, f] == pytest.approx(alone.final().mean[:, 0])
    assert (together.final().std <= model.final().std + 1e-9).all()


def test_draws_have_the_joint_covariance(fitted):
    _, model, _ = fitted
    own, rungs = np.array([1, 1, 3]), np.array([3, 4, 4])
    draws = model.sample(own, rungs, 100_000, np.random.default_rng(0))
    mean, covariance = model.covariance(own, rungs)
    noise = HYPER.noise * np.exp(2 * HYPER.b * (np.log(STEPS[rungs]) / np.log(51) - 1))
    assert draws.mean(axis=1) == pytest.approx(mean[:, 0], abs=0.02)
    assert np.cov(draws) == pytest.approx(covariance + np.diag(noise), abs=0.02)


# ---------------------------------------------------------------- learning
def test_learning_finds_what_made_the_data():
    """Trials whose spread grows with the step teach b > 0; learning improves the posterior."""
    rng = np.random.default_rng(4)
    X = rng.random((25, 2))
    trial, rung = np.repeat(np.arange(25), 5), np.tile(np.arange(5), 25)
    tau = np.log(STEPS) / np.log(51)
    y = np.exp(1.5 * (tau[rung] - 1)) * np.sin(6 * X[trial, 0]) - tau[rung]
    rows = CurveRows(X, trial, rung, y, STEPS)
    options = np.zeros(2, dtype=np.int64)
    model = fit_curves(rows, options=options)
    assert 0.8 < model.hyper.b < 2.2
    assert model.hyper.lengthscales[0] < model.hyper.lengthscales[1]  # only the first matters
    z, E = model.targets[:, 0], rows.X
    losses = [
        negative_curve_posterior(h.theta, rows, E, np.arange(2), z)[0]
        for h in (model.hyper, CurveHyper.prior(2))
    ]
    assert losses[0] < losses[1]


def test_spread_that_shrinks_is_not_learnt():
    """All curves reach the same plateau: b stays at 0."""
    rng = np.random.default_rng(4)
    X = rng.random((20, 2))
    trial, rung = np.repeat(np.arange(20), 5), np.tile(np.arange(5), 20)
    y = 5.0 + X[trial, 0] * np.array([1.0, 0.5, 0.2, 0.1, 0.05])[rung]
    model = fit_curves(CurveRows(X, trial, rung, y, STEPS), options=np.zeros(2, dtype=np.int64))
    assert model.hyper.b == pytest.approx(0.0, abs=1e-6)


def test_memory_and_schedule():
    rows = some_rows(30, seed=1)
    first, memory = refit_curves(rows, None, options=OPTIONS)
    assert memory["n"] == len(rows.y)
    assert CurveHyper.from_list(memory["hyper"]).theta == pytest.approx(first.hyper.theta)
    keep = rows.trial < 29
    fewer = rows._replace(trial=rows.trial[keep], rung=rows.rung[keep], y=rows.y[keep])
    again, unchanged = refit_curves(fewer, memory, options=OPTIONS)
    assert unchanged is memory
    assert again.hyper.theta == pytest.approx(first.hyper.theta)
    _, other = refit_curves(rows, {**memory, "n": 10}, options=OPTIONS)
    assert other["n"] == len(rows.y)


def test_subsets_are_whole_trials_with_the_best_of_them():
    rows = some_rows(200, seed=2)
    z, _ = Scaling.of(rows.y)
    some = module._subset(rows, module._lowest(rows, z), 100)
    assert 60 <= some.sum() <= 100
    for i in np.unique(rows.trial[some]):
        assert some[rows.trial == i].all()
    best = rows.trial[np.argmin(z)]
    assert some[rows.trial == best].all()
    assert module._subset(rows, module._lowest(rows, z), 10**6).all()


def test_trials_are_compared_with_those_that_reached_the_same_rung():
    trial, rung = np.array([0, 0, 0, 1, 1, 2, 3]), np.array([0, 1, 2, 0, 1, 0, 0])
    y = np.array([5.0, 3.0, 2.0, 6.0, 2.0, 7.0, 4.0])
    rows = CurveRows(np.zeros((5, 2)), trial, rung, y, np.array([1, 3, 9]))
    # Trial 1 is ahead of 0 at rung 1; at rung 0, 3 is ahead of all others, and 2 is the last.
    assert module._rank(rows, y) == pytest.approx([0.0, 0.0, 0.75, 0.0, np.inf])


def test_values_between_the_first_and_the_last_are_left_out_first():
    rows = some_rows(120, seed=4)
    z, _ = Scaling.of(rows.y)
    rank = module._rank(rows, z)
    first = np.append(True, rows.trial[1:] != rows.trial[:-1])
    last = np.append(first[1:], True)
    between = ~first & ~last
    few = int((first | last).sum()) + 20
    some = module._thinned(rows, rank, few)
    assert some.sum() == few
    assert some[first | last].all()
    assert rank[rows.trial[between & some]].max() <= rank[rows.trial[~some]].min()
    one_each = module._thinned(rows, rank, 130)
    assert one_each.sum() == 130
    assert one_each[last].all()  # of every trial, and the first ones of the best
    kept = one_each & first & ~last
    left_out = ~one_each & first & ~last
    assert rank[rows.trial[kept]].max() <= rank[rows.trial[left_out]].min()
    half = module._thinned(rows, rank, 60)
    assert 40 <= half.sum() <= 60
    assert half[last].sum() == half.sum()
    assert module._thinned(rows, rank, len(rows.y)).all()


def test_late_values_alone_would_mislead():
    """Good trials went on: without their early values, bad ones would seem to become as good."""
    n, steps = 160, np.array([1, 4, 16])
    rng = np.random.default_rng(1)
    level = 3.0 + rng.random(n)
    rung = np.where(level < 3.3, 2, 0)
    trial = np.repeat(np.arange(n), rung + 1)
    at = np.concatenate([np.arange(r + 1) for r in rung])
    y = level[trial] + 0.3 / steps[at] + 0.02 * rng.standard_normal(len(trial))
    rows = CurveRows(rng.random((n, 2)), trial, at, y, steps)
    limit = int(1.3 * n)
    fitted = fit_curves(rows, options=np.zeros(2, dtype=np.int64))
    how = {"options": fitted.options, "start": fitted.hyper, "learn": False}
    some = fit_curves(rows, at_most=limit, **how)
    assert len(some.trial) <= limit < len(trial)
    last = np.append(trial[1:] != trial[:-1], True)
    late = fit_curves(rows._replace(trial=trial[last], rung=at[last], y=y[last]), **how)
    assert len(late.trial) == n
    stopped = (rung == 0) & (some.reached() > 0)
    error = {}
    for name, model in (("some", some), ("late", late)):
        mean = model.scaling.undo(model.final().mean[:, 0])
        error[name] = np.mean((mean - level)[stopped])
    assert abs(error["some"]) < 0.1
    assert error["late"] < -0.2


def test_a_limited_model_still_predicts():
    rows = some_rows(60, seed=8)
    whole = fit_curves(rows, options=OPTIONS, start=HYPER, learn=False)
    how = {"options": OPTIONS, "start": HYPER, "learn": False, "at_most": 40}
    less = fit_curves(rows, **how)
    assert len(less.trial) <= 40 < len(whole.trial)
    gap = np.abs(less.final().mean - whole.final().mean)[less.reached() > 0, 0]
    assert np.median(gap) < 0.1
    left_out = np.flatnonzero(less.reached() == 0)
    needed = fit_curves(rows, needed=left_out[:3], **how).reached()
    assert len(left_out) > 3
    assert (needed[left_out[:3]] == whole.reached()[left_out[:3]]).all()


def test_if_time_is_short_the_model_uses_fewer_values(monkeypatch):
    rows = some_rows(120, seed=3)
    monkeypatch.setattr(module, "LIGHT_AT_MOST", 200)
    assert len(rows.y) > module.LIGHT_AT_MOST
    memory = {"hyper": HYPER.to_list(), "n": len(rows.y)}
    light, _ = refit_curves(rows, memory, options=OPTIONS, seldom=True)
    whole, _ = refit_curves(rows, memory, options=OPTIONS)
    assert len(light.trial) <= module.LIGHT_AT_MOST < len(whole.trial)
    monkeypatch.setattr(module, "MODEL_AT_MOST", 60)
    one_each, _ = refit_curves(rows, memory, options=OPTIONS)
    assert (one_each.reached() > 0).sum() == len(one_each.trial) == len(np.unique(rows.trial))


# ---------------------------------------------------------------- values
def test_scaling():
    y = np.array([0.3, 0.5, 0.4, 0.9, 0.7, 0.2, 0.6, 0.8, 55.0])
    z, scaling = Scaling.of(y)
    assert scaling.most < 55.0  # an outlier is clipped
    assert not scaling.logs
    assert z.mean() == pytest.approx(0.0, abs=1e-12)
    assert z.std() == pytest.approx(1.0)
    assert scaling.undo(scaling.apply(0.45)) == pytest.approx(0.45)
    assert scaling.rate(0.4) == pytest.approx((scaling.apply(0.41) - scaling.apply(0.4)) / 0.01)
    assert scaling.apply(np.array([1e9])) == scaling.apply(scaling.most)


def test_values_over_decades_are_modelled_by_their_logarithms():
    z, scaling = Scaling.of(np.array([1e-4, 1e-3, 1e-2, 0.1]))
    assert scaling.logs
    assert np.diff(z) == pytest.approx(np.diff(z)[0])
    assert scaling.undo(z) == pytest.approx([1e-4, 1e-3, 1e-2, 0.1])
    slope = (scaling.apply(0.01001) - scaling.apply(0.01)) / 1e-5
    assert scaling.rate(0.01) == pytest.approx(slope, rel=1e-3)
    assert not Scaling.of(np.array([-1e-4, 1e-3, 1e-2, 0.1]))[1].logs


def test_a_constant_curve_is_no_problem():
    rows = some_rows()._replace(y=np.full(len(some_rows().y), 3.0))
    model = fit_curves(rows, options=OPTIONS)
    assert model.scaling.undo(model.final().mean) == pytest.approx(3.0)


def test_thinning_keeps_the_first_and_the_last_rung():
    assert thinned((1, 2, 4, 8)) == (1, 2, 4, 8)
    many = tuple(range(1, 31))
    assert len(thinned(many)) == 8
    assert (thinned(many)[0], thinned(many)[-1]) == (1, 30)
