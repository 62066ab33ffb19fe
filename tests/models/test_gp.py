import json

import numpy as np
import pytest
from beliefs import one_column
from oracles import dense_gp, dense_lml, dense_mean, differences, matern52
from scipy.stats import lognorm, norm

from farthing.models import gp
from farthing.models import hyperparameters as hyper
from farthing.models.gp import GP, Hyper
from farthing.models.kernel import columns, embed

GRID = np.array([[0.0], [0.25], [0.5], [0.75], [1.0]])
MIXED = np.array([0, 3, 0, 2])  # options of a space of two numbers and two categoricals


def two_points():
    """The GP of [two-point-gp]."""
    return gp.build([[0.2], [0.8]], [0.5, -0.1], Hyper(np.array([0.3]), 1.0, 1e-6, 0.0))


def points(count, rng, options):
    """Random points of the unit cube, with categorical coordinates at the centres of options."""
    X = rng.random((count, len(options)))
    for j in np.flatnonzero(options):
        X[:, j] = (rng.integers(options[j], size=count) + 0.5) / options[j]
    return X


def smooth(X):
    """A function of any number of coordinates, away from zero."""
    weights = np.arange(1, X.shape[1] + 1)
    return 40.0 + 3.0 * np.sin(3.0 * X @ weights) + (X**2) @ weights


def drawn(X, lengthscales, seed):
    """A draw of the prior with unit variance at X."""
    K = matern52(X, X, lengthscales) + 1e-8 * np.eye(len(X))
    return np.linalg.cholesky(K) @ np.random.default_rng(seed).standard_normal(len(X))


def loss(theta, X, targets, options, *, noisy=False):
    """The negative log posterior density of the hyperparameters, and its gradient."""
    prior = hyper.NOISE_PRIOR if noisy else hyper.NUGGET_PRIOR
    return hyper.negative_posterior(
        np.asarray(theta), embed(X, options), columns(options), targets, prior
    )


def theta_of(hyper):
    return np.log(hyper.to_list())


class FixedGenerator:
    """A random generator that returns the given numbers."""

    def __init__(self, z):
        self.z = np.asarray(z)

    def standard_normal(self, shape):
        return self.z.reshape(shape)


@pytest.fixture
def learnt_from(monkeypatch):
    """A list that collects the points of every hyperparameter search."""
    seen, learn = [], gp.learnt

    def watched(X, *arguments, **settings):
        seen.append(X)
        return learn(X, *arguments, **settings)

    monkeypatch.setattr(gp, "learnt", watched)
    return seen


# ---------------------------------------------------------------- the posterior
def test_posterior_oracle():  # [two-point-gp]
    mean, std = one_column(two_points(), GRID)
    expected = [0.3729467222, 0.4815213932, 0.1840737526, -0.07579633818, -0.100287935]
    np.testing.assert_allclose(mean, expected, rtol=1e-9)
    expected = [0.4675506345, 0.04267902143, 0.5177321903, 0.04267902143, 0.4675506345]
    np.testing.assert_allclose(std**2, expected, rtol=1e-9)
    # The prior covariance at a distance of 0.1, from a posterior whose only point is far away.
    far = gp.build([[90.0]], [0.0], Hyper(np.array([0.3]), 1.0, 1e-6, 0.0))
    assert far.covariance(np.array([[0.5], [0.6]]))[0, 1] == pytest.approx(0.9161679075, rel=1e-9)


def test_likelihood_oracle():  # [two-point-gp]
    model = two_points()
    weights = np.linalg.solve(model.L @ model.L.T, model.targets[:, 0])
    likelihood = -0.5 * model.targets[:, 0] @ weights - np.log(np.diag(model.L)).sum()
    assert likelihood - np.log(2 * np.pi) == pytest.approx(-1.967788374, rel=1e-9)
    slow = dense_lml(np.array([[0.2], [0.8]]), np.array([0.5, -0.1]), 0.3, 1.0, 1e-6)
    assert slow == pytest.approx(-1.967788374, rel=1e-9)


@pytest.mark.parametrize("options", [np.zeros(1, int), np.zeros(5, int), MIXED], ids=str)
def test_posterior_by_dense_algebra(options):
    rng = np.random.default_rng(4)
    X, Xs = points(20, rng, options), points(30, rng, options)
    y = smooth(X)
    lengthscales = rng.uniform(0.2, 2.0, len(options))
    for mean in (7.0, None):
        model = gp.build(X, y, Hyper(lengthscales, 3.0, 1e-3, mean), options=options)
        constant = dense_mean(X, y, lengthscales, 3.0, 1e-3, options > 0) if mean is None else mean
        slow_mean, slow_covariance = dense_gp(
            X, y, Xs, lengthscales, 3.0, 1e-3, constant, options > 0
        )
        np.testing.assert_allclose(one_column(model, Xs).mean, slow_mean, rtol=1e-9)
        np.testing.assert_allclose(model.at(Xs).std ** 2, np.diag(slow_covariance), rtol=1e-8)
        np.testing.assert_allclose(model.covariance(Xs), slow_covariance, atol=1e-9)


def test_posterior_equals_that_of_scikit_learn():
    kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
    from sklearn.gaussian_process import GaussianProcessRegressor

    rng = np.random.default_rng(5)
    X, Xs = rng.random((25, 3)), rng.random((40, 3))
    lengthscales = np.array([0.3, 0.9, 4.0])
    kernel = kernels.ConstantKernel(2.5) * kernels.Matern(lengthscales, nu=2.5)
    theirs = GaussianProcessRegressor(kernel, alpha=1e-4, optimizer=None).fit(X, smooth(X) - 40.0)
    mean, covariance = theirs.predict(Xs, return_cov=True)
    ours = gp.build(X, smooth(X), Hyper(lengthscales, 2.5, 1e-4, 40.0))
    np.testing.assert_allclose(one_column(ours, Xs).mean, mean + 40.0, rtol=1e-9)
    np.testing.assert_allclose(ours.covariance(Xs), covariance, atol=1e-9)
    likelihood = dense_lml(X, smooth(X), lengthscales, 2.5, 1e-4, 40.0)
    assert theirs.log_marginal_likelihood_value_ == pytest.approx(likelihood, rel=1e-9)


def test_posterior_interpolates_the_data_and_returns_to_the_mean():
    rng = np.random.default_rng(6)
    X = rng.random((12, 2)) * 0.4
    model = gp.fit(X, smooth(X))
    here, far = one_column(model, X), one_column(model, np.array([[80.0, -90.0]]))
    np.testing.assert_allclose(here.mean, smooth(X), atol=0.05 * model.scale)
    assert here.std.max() < 0.05 * far.std[0]
    assert far.mean[0] == pytest.approx(model.shift + model.scale * model.mean, rel=1e-12)
    assert far.std[0] == pytest.approx(model.scale * np.sqrt(model.variance), rel=1e-12)


@pytest.mark.parametrize("d", [1, 2, 6])
@pytest.mark.parametrize("noise", [1e-6, 1e-2, 1.0])
def test_slopes_equal_finite_differences_of_the_posterior(d, noise):
    rng = np.random.default_rng(d)
    X, Xs = rng.random((15, d)), rng.random((10, d))
    model = gp.build(X, smooth(X), Hyper(rng.uniform(0.3, 2.0, d), 4.0, noise))
    normal, d_mean, d_std = model.slopes(Xs)
    assert d_mean.shape == (*Xs.shape, 1)
    np.testing.assert_allclose(normal.mean, model.at(Xs).mean, rtol=1e-10)
    np.testing.assert_allclose(normal.std, model.at(Xs).std, rtol=1e-7)
    tolerance = {"rtol": 2e-6, "atol": 2e-6 * np.abs(d_mean).max()}
    np.testing.assert_allclose(d_mean, differences(lambda S: model.at(S).mean, Xs), **tolerance)
    np.testing.assert_allclose(
        d_std, differences(lambda S: model.at(S).std, Xs, 1e-5), rtol=1e-4, atol=1e-5
    )


def test_slopes_of_several_columns_with_categoricals_in_the_users_units():
    rng = np.random.default_rng(8)
    X, Xs = points(15, rng, MIXED), points(12, rng, MIXED)
    model = gp.fit(X, 1e3 * smooth(X), options=MIXED)
    model = model.condition(Xs[0], [4.1e4, 4.4e4, 3.9e4])
    normal, d_mean, d_std = model.slopes(Xs[1:])
    assert d_mean.shape == (11, 4, 3)
    np.testing.assert_allclose(normal.mean, model.at(Xs[1:]).mean, rtol=1e-9)
    numbers = MIXED == 0
    by_mean = differences(lambda S: model.at(S).mean, Xs[1:])[:, numbers]
    by_std = differences(lambda S: model.at(S).std, Xs[1:], 1e-5)[:, numbers]
    np.testing.assert_allclose(d_mean[:, numbers], by_mean, rtol=1e-5, atol=1e-5 * model.scale)
    np.testing.assert_allclose(d_std[:, numbers], by_std, rtol=1e-3, atol=1e-4 * model.scale)
    assert not d_mean[:, ~numbers].any()
    assert not d_std[:, ~numbers].any()


# ---------------------------------------------------------------- one more observation
def test_condition_equals_building_from_all_rows():
    rng = np.random.default_rng(9)
    X, Xs = points(12, rng, MIXED), points(30, rng, MIXED)
    y = smooth(X)
    hyper = Hyper(np.array([0.4, 0.8, 0.5, 1.5]), 9.0, 1e-3, 41.0)
    model = gp.build(X[:5], y[:5], hyper, options=MIXED)
    before = model.at(Xs)
    for x, value in zip(X[5:], y[5:], strict=True):
        model = model.condition(x, value)
    rebuilt = gp.build(X, y, hyper, options=MIXED)
    np.testing.assert_allclose(model.at(Xs).mean, rebuilt.at(Xs).mean, rtol=1e-10)
    np.testing.assert_allclose(model.at(Xs).std, rebuilt.at(Xs).std, rtol=1e-10)
    np.testing.assert_allclose(model.L, rebuilt.L, atol=1e-12)
    first = gp.build(X[:5], y[:5], hyper, options=MIXED).at(Xs)
    np.testing.assert_array_equal(before.mean, first.mean)  # a GP is immutable


def test_condition_keeps_hyperparameters_and_units():
    rng = np.random.default_rng(10)
    X = rng.random((9, 2))
    model = gp.fit(X[:8], smooth(X[:8]))
    after = model.condition(X[8], smooth(X)[8])
    assert after.hyper == model.hyper
    targets = (smooth(X) - model.shift) / model.scale
    rebuilt = gp.build(X, targets, model.hyper)
    Xs = rng.random((20, 2))
    np.testing.assert_allclose(
        after.at(Xs).mean, model.shift + model.scale * rebuilt.at(Xs).mean, rtol=1e-10
    )
    np.testing.assert_allclose(after.at(Xs).std, model.scale * rebuilt.at(Xs).std, rtol=1e-8)


def test_fantasies_are_separate_processes():
    rng = np.random.default_rng(11)
    X, Xs = rng.random((8, 3)), rng.random((25, 3))
    model = gp.fit(X, smooth(X))
    fantasies = rng.normal(42.0, 2.0, (2, 4))
    together = model.condition(Xs[0], fantasies[0]).condition(Xs[1], fantasies[1])
    assert together.at(Xs).mean.shape == (25, 4)
    assert together.at(Xs).std.shape == (25,)
    for f in range(4):
        alone = model.condition(Xs[0], fantasies[0, f]).condition(Xs[1], fantasies[1, f])
        mean = one_column(alone, Xs).mean
        np.testing.assert_allclose(together.at(Xs).mean[:, f], mean, rtol=1e-10)
        np.testing.assert_allclose(together.at(Xs).std, alone.at(Xs).std, rtol=1e-10)
    again = together.condition(Xs[2], 40.0)  # one value, the same in every fantasy
    np.testing.assert_allclose(again.at(Xs[2:3]).mean, 40.0, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 60, 300])
@pytest.mark.parametrize("noise", [1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("length", [0.05, 0.5, 20.0])
def test_at_best_bounds_mean_and_std(n, noise, length):
    """Also with an ill-conditioned factor, with fantasies, and in the user's units."""
    rng = np.random.default_rng(n)
    X, Xs = points(n, rng, MIXED), points(3000, rng, MIXED)
    Xs[:50] = X[rng.integers(n, size=50)]
    model = gp.build(X, smooth(X), Hyper(np.full(4, length), 2.5, noise), options=MIXED)
    for sight in (model, model.condition(Xs[7], [41.0, 45.0, 38.0])):
        (mean, std), best = sight.at(Xs), sight.at_best(Xs)
        assert best.mean.shape == mean.shape
        assert np.all(best.mean <= mean)
        assert np.all(best.std >= std)
        np.testing.assert_array_equal(sight.least(Xs), best.mean)


def test_at_best_is_tight_if_the_factor_is_well_conditioned():
    rng = np.random.default_rng(5)
    X, Xs = points(80, rng, MIXED), points(400, rng, MIXED)
    model = gp.fit(X, smooth(X), options=MIXED)
    (mean, std), best = model.at(Xs), model.at_best(Xs)
    assert np.abs(best.mean - mean).max() < 0.02 * model.scale
    assert np.abs(best.std - std).max() < 0.1 * model.scale
    fewer = gp.fit(X[:9], smooth(X[:9]), options=MIXED)
    assert np.abs(fewer.at_best(Xs).std - fewer.at(Xs).std).max() < 0.005 * fewer.scale


def test_a_repeated_point_does_not_break_the_factor():
    model = two_points()
    for _ in range(5):
        model = model.condition(np.array([0.2]), 0.5)
    mean, std = model.at(GRID)
    np.testing.assert_allclose(mean, two_points().at(GRID).mean, rtol=1e-4)
    assert np.all(np.isfinite(std))


# ---------------------------------------------------------------- sampling
def test_sample_oracle():  # [posterior-sample]
    model = two_points()
    row = [0.4675506345, -0.08534353828, -0.1319681752, -0.01461036882, 0.0190058276]
    np.testing.assert_allclose(model.covariance(GRID)[0], row, rtol=1e-9)
    path = model.sample(GRID, 1, FixedGenerator([0.5, -1, 0.25, 1, -0.5]))[0]
    expected = [0.7148350941, 0.254491617, -0.1879636699, 0.05109756477, -0.7095626439]
    # The expected numbers have ten digits, and a jitter of 1e-9 changes the last ones.
    np.testing.assert_allclose(path, expected, rtol=2e-8)
    assert GRID[np.argmin(path), 0] == 1.0


def test_samples_have_the_moments_of_the_posterior():
    rng = np.random.default_rng(12)
    X, Xs = rng.random((6, 2)), rng.random((4, 2))
    model = gp.fit(X, 50.0 * smooth(X))
    draws = model.sample(Xs, 40_000, rng)
    assert draws.shape == (40_000, 4)
    mean, std = one_column(model, Xs)
    covariance = model.covariance(Xs)
    np.testing.assert_allclose(np.diag(covariance), std**2, rtol=1e-8)
    assert np.all(np.abs(draws.mean(0) - mean) < 4.5 * std / 200)
    product = np.sqrt(covariance**2 + np.outer(std**2, std**2)) / 200  # its standard error
    assert np.all(np.abs(np.cov(draws.T) - covariance) < 4.5 * product)


def test_fantasies_cannot_be_sampled():
    with pytest.raises(ValueError, match="one target column"):
        two_points().condition(np.array([0.5]), [1.0, 2.0]).sample(GRID, 1, FixedGenerator([0.0]))


# ---------------------------------------------------------------- the prior
@pytest.mark.parametrize(("d", "logpdf"), [(1, -1.515259047), (7, -2.35648842)])
def test_prior_oracle(d, logpdf):  # [lengthscale-prior]
    theta = np.log([*[0.5] * d, 2.0, 0.01])
    value, _ = hyper._log_prior(theta, d, hyper.NOISE_PRIOR)
    of_variance, of_noise = lognorm.logpdf(2.0, 1.0), 3.503116176
    total = d * logpdf + of_variance + of_noise  # each has ten digits
    assert value == pytest.approx(total, abs=1e-9 * (d + 1))
    theta[-1] = np.log(0.006737946999)  # the mode of the noise
    assert hyper._log_prior(theta, d, hyper.NOISE_PRIOR)[1][-1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("d", "median", "mode"),
    [(1, 4.113250379, 0.2047866778), (7, 10.88263758, 0.5418146213), (20, None, 0.915833865)],
)
def test_learning_starts_at_the_mode_of_the_prior(d, median, mode):  # [lengthscale-prior]
    start = hyper._default_start(d)
    np.testing.assert_allclose(np.exp(start[:d]), mode, rtol=1e-9)
    _, gradient = hyper._log_prior(start, d, hyper.NOISE_PRIOR)
    np.testing.assert_allclose(gradient[:d], 0.0, atol=1e-12)
    if median is not None:  # at the median of ln l only the Jacobian has a slope
        theta = np.append(np.full(d, np.log(median)), [0.0, 0.0])
        np.testing.assert_allclose(
            hyper._log_prior(theta, d, hyper.NOISE_PRIOR)[1][:d], -1.0, rtol=1e-9
        )


# ---------------------------------------------------------------- learning
@pytest.mark.parametrize("options", [np.zeros(1, int), np.zeros(3, int), MIXED], ids=str)
@pytest.mark.parametrize("log_noise", [-12.0, -4.0, 0.5])
@pytest.mark.parametrize("noisy", [False, True])
def test_likelihood_and_its_gradient(options, log_noise, noisy):
    rng = np.random.default_rng(13)
    X = points(14, rng, options)
    targets = norm.rvs(size=14, random_state=rng) + X.sum(1)
    d = len(options)
    theta = np.concatenate([rng.uniform(-1.5, 1.0, d), [0.4, log_noise]])
    value, gradient = loss(theta, X, targets, options, noisy=noisy)
    numbers = np.exp(theta)
    arguments = (numbers[:d], numbers[d], numbers[d + 1])
    mean = dense_mean(X, targets, *arguments, options > 0)
    likelihood = dense_lml(X, targets, *arguments, mean, options > 0)
    prior = sum(lognorm.logpdf(x, np.sqrt(3), scale=np.exp(2**0.5) * d**0.5) for x in numbers[:d])
    prior += lognorm.logpdf(numbers[d], 1.0)
    centre, sd = (-4.0, 1.0) if noisy else (-5.0, 1.5)
    prior += lognorm.logpdf(numbers[d + 1], sd, scale=np.exp(centre))
    assert value == pytest.approx(-likelihood - prior, rel=1e-9)
    slow = differences(
        lambda thetas: np.array([loss(t, X, targets, options, noisy=noisy)[0] for t in thetas]),
        theta[None],
        1e-5,
    )[0]
    np.testing.assert_allclose(gradient, slow, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("n", [3, 10, 40])
def test_learnt_hyperparameters_beat_random_ones(n, noisy):
    rng = np.random.default_rng(n)
    X = points(n, rng, MIXED)
    model = gp.fit(X, smooth(X) + 0.3 * rng.standard_normal(n), options=MIXED, noisy=noisy)
    targets = model.targets[:, 0]
    learnt, gradient = loss(theta_of(model.hyper), X, targets, MIXED, noisy=noisy)
    box = np.array([hyper.LENGTHSCALE_BOX] * 4 + [hyper.VARIANCE_BOX, hyper.NOISE_BOX])
    for theta in rng.uniform(box[:, 0], box[:, 1], (50, 6)):
        assert learnt <= loss(theta, X, targets, MIXED, noisy=noisy)[0] + 1e-9
    inside = (theta_of(model.hyper) > box[:, 0] + 1e-6) & (theta_of(model.hyper) < box[:, 1] - 1e-6)
    assert np.abs(gradient[inside]).max() < 0.05  # and no small change improves it


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_learnt_lengthscales_have_the_right_order_of_magnitude(seed):
    X = np.random.default_rng(100 + seed).random((80, 2))
    learnt = gp.fit(X, 7.0 - 3.0 * drawn(X, np.array([0.15, 1.5]), seed)).lengthscales
    assert 0.15 / 2.5 < learnt[0] < 0.15 * 2.5
    assert learnt[1] > 3.0 * learnt[0]


def test_noise_is_learnt():
    rng = np.random.default_rng(14)
    X = np.repeat(rng.random((40, 2)), 2, axis=0)
    clean = smooth(X)
    noisy = clean + 0.5 * rng.standard_normal(80)
    model = gp.fit(X, noisy, noisy=True)
    assert 0.25 < np.sqrt(model.noise) * model.scale < 1.0
    model = gp.fit(X, clean, noisy=True)
    assert np.sqrt(model.noise) * model.scale < 0.1


def test_start_hyperparameters_are_kept_without_learning():
    X = np.random.default_rng(15).random((10, 2))
    start = Hyper(np.array([0.11, 0.77]), 1.3, 1e-5)
    model = gp.fit(X, smooth(X), start=start, learn=False)
    assert model.hyper.to_list() == start.to_list()
    assert gp.fit(X, smooth(X), start=start).hyper.to_list() != start.to_list()


# ---------------------------------------------------------------- symmetries
def same_model(one: GP, other: GP, rtol=1e-6):
    np.testing.assert_allclose(other.hyper.to_list(), one.hyper.to_list(), rtol=rtol)


@pytest.mark.parametrize("noisy", [False, True])
def test_order_and_names_of_options_do_not_matter(noisy):
    rng = np.random.default_rng(16)
    X, Xs = points(25, rng, MIXED), points(30, rng, MIXED)
    y = smooth(X)
    relabelled = {1: np.array([2, 0, 1]), 3: np.array([1, 0])}

    def renamed(X):
        out = X.copy()
        for j, new in relabelled.items():
            out[:, j] = (new[(X[:, j] * MIXED[j]).astype(int)] + 0.5) / MIXED[j]
        return out

    assert (renamed(X) != X).any(axis=1).all()
    one = gp.fit(X, y, options=MIXED, noisy=noisy)
    other = gp.fit(renamed(X), y, options=MIXED, noisy=noisy)
    same_model(one, other)
    np.testing.assert_allclose(other.at(renamed(Xs)).mean, one.at(Xs).mean, rtol=1e-7)
    np.testing.assert_allclose(other.at(renamed(Xs)).std, one.at(Xs).std, rtol=1e-5)


def test_all_other_options_are_equally_far():
    options = np.array([5])
    X = ((np.arange(5) + 0.5) / 5)[:, None]
    model = gp.build(X[:1], [1.0], Hyper(np.array([0.7]), 1.0, 1e-6, 0.0), options=options)
    mean = one_column(model, X).mean
    q = np.sqrt(5) / 0.7
    np.testing.assert_allclose(mean[1:], (1 + q + q**2 / 3) * np.exp(-q), rtol=1e-5)
    assert mean[0] == pytest.approx(1.0, rel=1e-5)


def test_coordinates_may_be_permuted():
    rng = np.random.default_rng(17)
    X, Xs = points(20, rng, MIXED), points(20, rng, MIXED)
    order = np.array([3, 0, 2, 1])
    one = gp.fit(X, smooth(X), options=MIXED)
    other = gp.fit(X[:, order], smooth(X), options=MIXED[order])
    np.testing.assert_allclose(other.lengthscales, one.lengthscales[order], rtol=1e-6)
    np.testing.assert_allclose(other.at(Xs[:, order]).mean, one.at(Xs).mean, rtol=1e-7)


def test_rows_may_be_permuted():
    rng = np.random.default_rng(18)
    X, Xs = rng.random((20, 3)), rng.random((20, 3))
    order = rng.permutation(20)
    one, other = gp.fit(X, smooth(X)), gp.fit(X[order], smooth(X)[order])
    same_model(one, other)
    np.testing.assert_allclose(other.at(Xs).mean, one.at(Xs).mean, rtol=1e-7)


@pytest.mark.parametrize("n", [3, 9, 40])
@pytest.mark.parametrize(("a", "b"), [(1e-9, 0.0), (1e9, -4e9), (0.3, 700.0), (1e280, 0.0)])
def test_units_of_the_objective_do_not_matter(n, a, b):
    rng = np.random.default_rng(n)
    X, Xs = rng.random((n, 2)), rng.random((15, 2))
    y = smooth(X) - 41.0
    one, other = gp.fit(X, y), gp.fit(X, a * y + b)
    same_model(one, other)
    atol = 1e-6 * other.scale
    np.testing.assert_allclose(other.at(Xs).mean, a * one.at(Xs).mean + b, rtol=1e-6, atol=atol)
    np.testing.assert_allclose(other.at(Xs).std, a * one.at(Xs).std, rtol=1e-5)
    slopes, others = one.slopes(Xs), other.slopes(Xs)
    for k in (1, 2):
        np.testing.assert_allclose(others[k], a * slopes[k], rtol=1e-4, atol=1e-5 * other.scale)


# ---------------------------------------------------------------- outliers and unusual data
def training_targets(model):
    """The values that a model was fitted to, in the user's units."""
    return model.shift + model.scale * model.targets[:, 0]


def fence(y):
    lower, upper = np.quantile(y, [0.25, 0.75])
    return upper + 1.5 * (upper - lower)


def test_a_bad_outlier_is_clipped():
    rng = np.random.default_rng(19)
    X = rng.random((9, 2))
    y = 40.0 + rng.permutation(9)  # the quartiles are two of the values
    y[4] = 1e6
    np.testing.assert_allclose(training_targets(gp.fit(X, y)), np.minimum(y, fence(y)), rtol=1e-12)
    assert fence(y) < 100.0
    np.testing.assert_allclose(training_targets(gp.fit(X, y, clip=False)), y, rtol=1e-12)
    np.testing.assert_allclose(
        training_targets(gp.fit(X[2:], y[2:])), y[2:], rtol=1e-12
    )  # seven rows are too few for clipping
    eight = training_targets(gp.fit(X[1:], y[1:]))
    assert eight[3] < 100.0
    np.testing.assert_allclose(np.delete(eight, 3), np.delete(y[1:], 3), rtol=1e-12)


def test_refit_believes_the_values_unless_they_are_noisy():
    X = np.random.default_rng(33).random((20, 2))
    y = smooth(X) + np.random.default_rng(34).normal(0.0, 2.0, 20)
    assert gp.refit(X, y, None)[0].noise == gp.fit(X, y).noise
    assert gp.refit(X, y, None, noisy=True)[0].noise > 2 * gp.fit(X, y).noise


def test_refit_clips_outliers_unless_clip_is_false():
    X = np.random.default_rng(31).random((20, 2))
    y = smooth(X)
    y[3] = 1e9
    others = np.delete(y, 3)
    assert training_targets(gp.refit(X, y, None)[0]).max() < others.max() + 2.0 * np.ptp(others)
    assert training_targets(gp.refit(X, y, None, clip=False)[0]).max() == pytest.approx(1e9)


def test_a_good_outlier_is_kept():
    rng = np.random.default_rng(20)
    X = rng.random((12, 2))
    y = smooth(X)
    y[4] = -1e6
    np.testing.assert_allclose(training_targets(gp.fit(X, y)), y, rtol=1e-9, atol=1e-6)


def test_values_inside_the_fence_are_kept():
    rng = np.random.default_rng(21)
    X, y = rng.random((40, 2)), rng.random(40) + 3.0
    np.testing.assert_allclose(training_targets(gp.fit(X, y)), y, rtol=1e-12)


def unusual_data():
    rng = np.random.default_rng(22)
    X = rng.random((12, 2))
    y = smooth(X)
    outlier, lucky = y.copy(), y.copy()
    outlier[3], lucky[3] = 1e300, -1e300
    wide = 10.0 ** np.linspace(-300, 300, 12)
    return {
        "one": (X[:1], y[:1]),
        "two": (X[:2], y[:2]),
        "two equal": (X[:2], np.array([3.0, 3.0])),
        "constant": (X, np.full(12, 7.5)),
        "constant zero": (X, np.zeros(12)),
        "constant huge": (X, np.full(12, -1e300)),
        "nearly constant": (X, 1e8 + 1e-7 * y),
        "duplicates": (np.repeat(X[:4], 3, axis=0), np.repeat(y[:4], 3)),
        "contradicting duplicates": (np.repeat(X[:4], 3, axis=0), y),
        "all in one place": (np.repeat(X[:1], 12, axis=0), y),
        "nearly duplicates": (np.repeat(X[:6], 2, axis=0) + 1e-9 * np.tile([[0], [1]], (6, 1)), y),
        "outlier": (X, outlier),
        "outlier among few": (X[:6], outlier[:6]),
        "lucky outlier": (X, lucky),
        "six hundred orders of magnitude": (X, wide),
        "and both signs": (X, wide * np.tile([1, -1], 6)),
        "all tiny": (X, 1e-300 * y),
        "all subnormal": (X, 1e-310 * y),
        "all huge": (X, 1e300 * y),
    }


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("kind", unusual_data())
def test_unusual_data_gives_finite_predictions(kind, noisy):
    X, y = unusual_data()[kind]
    model = gp.fit(X, y, noisy=noisy)
    rng = np.random.default_rng(23)
    Xs = np.vstack([X, rng.random((20, 2)), [[0.0, 0.0], [1.0, 1.0]]])
    (mean, std), d_mean, d_std = model.slopes(Xs)
    for answer in (*model.at(Xs), mean, std, d_mean, d_std, model.sample(Xs[-20:], 3, rng)):
        assert np.all(np.isfinite(answer))
    assert np.all(std > 0)
    after = model.condition(Xs[-1], y[0]).at(Xs)
    assert np.all(np.isfinite(after.mean))
    assert np.all(np.isfinite(after.std))


def test_constant_data_give_a_constant_mean():
    X = np.random.default_rng(24).random((12, 2))
    mean, _ = gp.fit(X, np.full(12, 7.5)).at(X + 0.01)
    np.testing.assert_allclose(mean, 7.5)


# ---------------------------------------------------------------- many observations
def test_past_the_limit_a_stated_subset_is_used(monkeypatch, learnt_from):
    monkeypatch.setattr(gp, "MODEL_AT_MOST", 20)
    monkeypatch.setattr(gp, "LEARN_AT_MOST", 10)
    rng = np.random.default_rng(25)
    X, y = rng.random((57, 2)), rng.random(57)
    model = gp.fit(X, y)
    index = [int(np.flatnonzero((x == X).all(axis=1))[0]) for x in model.X]
    assert len(index) == 20
    assert index == sorted(set(index))  # in order, without duplicates
    best, rest = np.argsort(y)[:10], np.sort(np.argsort(y)[10:])
    assert set(best) <= set(index)
    others = [i for i in index if i not in best]
    assert {rest[0], rest[-1]} <= set(others)
    gaps = np.diff([list(rest).index(i) for i in others])
    assert gaps.max() - gaps.min() <= 1  # evenly spread over the rest
    np.testing.assert_allclose(training_targets(model), y[index], rtol=1e-12)
    (few,) = learnt_from
    assert len(few) == 10
    assert {tuple(x) for x in X[np.argsort(y)[:5]]} <= {tuple(x) for x in few}
    same = gp.fit(X[index], y[index])
    np.testing.assert_allclose(same.at(X).mean, model.at(X).mean, rtol=1e-9)


def test_up_to_the_limit_everything_is_used(monkeypatch):
    monkeypatch.setattr(gp, "MODEL_AT_MOST", 20)
    rng = np.random.default_rng(26)
    X, y = rng.random((20, 2)), rng.random(20)
    np.testing.assert_array_equal(gp.fit(X, y).X, X)


def test_if_time_is_short_fewer_rows_are_used(monkeypatch):
    monkeypatch.setattr(gp, "LIGHT_AT_MOST", 12)
    X = np.random.default_rng(29).random((30, 2))
    assert len(gp.refit(X, smooth(X), None)[0].X) == 30
    light, _ = gp.refit(X, smooth(X), None, seldom=True)
    assert len(light.X) == 12
    assert smooth(X).argmin() in [np.flatnonzero((x == X).all(axis=1))[0] for x in light.X]


# ---------------------------------------------------------------- memory
def test_hyperparameters_are_learnt_on_a_schedule(learnt_from):
    rng = np.random.default_rng(27)
    X = rng.random((60, 2))
    y = smooth(X)
    memory = None
    for n in range(2, 61):
        before = memory
        model, memory = gp.refit(X[:n], y[:n], memory)
        assert len(model.X) == n
        assert memory["hyper"] == model.hyper.to_list()
        assert (memory is before) == (n not in map(len, learnt_from))
    assert [len(X) for X in learnt_from] == [*range(2, 31), 33, 37, 41, 46, 51, 57]
    assert memory["n"] == 57


def test_if_time_is_short_they_are_relearnt_when_n_has_grown_by_half(learnt_from):
    X = np.random.default_rng(30).random((40, 2))
    memory = None
    for n in range(4, 41):
        _, memory = gp.refit(X[:n], smooth(X[:n]), memory, seldom=True)
    assert [len(X) for X in learnt_from] == [4, 6, 9, 14, 21, 32]


def test_memory_is_plain_json():
    rng = np.random.default_rng(28)
    X = rng.random((34, 2))
    y = smooth(X)
    model, memory = gp.refit(X[:31], y[:31], None)
    stored = json.loads(json.dumps(memory))
    assert stored == memory
    assert stored["n"] == 31
    assert Hyper.from_list(stored["hyper"]).to_list() == model.hyper.to_list()
    one, other = gp.refit(X, y, memory)[0], gp.refit(X, y, stored)[0]
    np.testing.assert_array_equal(one.at(X).mean, other.at(X).mean)
    np.testing.assert_allclose(one.lengthscales, model.lengthscales)  # 34 < 1.1 x 31: kept
