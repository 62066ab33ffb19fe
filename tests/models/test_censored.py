import numpy as np
import pytest
from oracles import matern52
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.stats import norm

from farthing.models import gp
from farthing.models import hyperparameters as hyper
from farthing.models.censored import fit_censored, sites
from farthing.models.gp import Hyper

NUMBERS = np.zeros(2, dtype=np.int64)


# ---------------------------------------------------------------- sites
def with_sites(mean, covariance, target, variance):
    """The normal posterior after observing the targets with their variances."""
    gain = covariance @ np.linalg.inv(covariance + np.diag(variance))
    return mean + gain @ (target - mean), covariance - gain @ covariance


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1e-4, 0.3])
@pytest.mark.parametrize("sigmas", [-4.0, -1.0, 0.0, 2.0, 6.0])
def test_one_site_gives_the_exact_mean_and_variance(noise, sigmas):
    m, v = 1.3, 0.7
    low = m + sigmas * np.sqrt(v)
    target, variance = sites(np.array([m]), np.array([[v]]), noise, np.array([low]))
    mean, covariance = with_sites(np.array([m]), np.array([[v]]), target, variance)

    def density(f):
        return norm.pdf(f, m, np.sqrt(v)) * norm.cdf((f - low) / np.sqrt(noise))

    ends = (min(m, low) - 8 * np.sqrt(v), max(m, low) + 8 * np.sqrt(v))
    total, first = (
        quad(lambda f, k=k: f**k * density(f), *ends, epsabs=0, limit=500, points=[m, low])[0]
        for k in (0, 1)
    )
    centre = first / total
    second = quad(
        lambda f: (f - centre) ** 2 * density(f), *ends, epsabs=0, limit=500, points=[m, low]
    )[0]
    assert mean[0] == pytest.approx(centre, rel=1e-6)
    assert covariance[0, 0] == pytest.approx(second / total, rel=1e-4)
    assert variance[0] >= noise


def test_several_sites_against_draws():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3, 3))
    covariance, mean, noise = A @ A.T + 0.2 * np.eye(3), np.array([0.0, 1.0, -0.5]), 0.1
    low = np.array([0.5, 0.8, 0.3])
    f = rng.multivariate_normal(mean, covariance, 400_000)
    weight = norm.cdf((f - low) / np.sqrt(noise)).prod(axis=1)
    exactly = (weight[:, None] * f).sum(axis=0) / weight.sum()
    spread = (weight[:, None] * (f - exactly) ** 2).sum(axis=0) / weight.sum()
    after, covered = with_sites(mean, covariance, *sites(mean, covariance, noise, low))
    np.testing.assert_allclose(after, exactly, atol=0.05)
    np.testing.assert_allclose(np.diag(covered), spread, rtol=0.12)


@pytest.mark.parametrize("low", [-1e3, -40.0, 40.0, 1e3, 1e6])
def test_bounds_far_away_are_finite(low):
    target, variance = sites(np.zeros(2), np.array([[1.0, 0.9], [0.9, 1.0]]), 0.01, np.full(2, low))
    assert np.all(np.isfinite(target))
    assert np.all(variance >= 0.01)
    if low < 0:
        assert np.all(variance > 1e6)  # the bound adds no information
    else:
        mean, _ = with_sites(np.zeros(2), np.array([[1.0, 0.9], [0.9, 1.0]]), target, variance)
        np.testing.assert_allclose(mean, low, rtol=0.02)


def test_the_same_bound_twice_at_the_same_point():
    target, variance = sites(np.zeros(2), np.ones((2, 2)), 0.04, np.ones(2))
    mean, _ = with_sites(np.zeros(2), np.ones((2, 2)), target, variance)
    once, _ = with_sites(
        np.zeros(1), np.ones((1, 1)), *sites(np.zeros(1), np.ones((1, 1)), 0.04, np.ones(1))
    )
    assert mean[0] > once[0] > 1.0


# ---------------------------------------------------------------- extra variance per row
def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, 3.0 + 2.0 * np.sin(4 * X[:, 0]) + X[:, 1], 0.5 * rng.random(n)


def test_a_row_with_more_noise_by_dense_algebra():
    X, y, extra = rows(9)
    fitted = gp.fit(X, y, noisy=True, clip=False, extra=extra)
    s, (lengths, v, noise, mean) = fitted.scale, fitted.hyper
    Xs = np.random.default_rng(1).random((5, 2))
    z = (y - fitted.shift) / s
    K = matern52(X, X, lengths, v) + np.diag(noise + extra / s**2)
    Ks = matern52(X, Xs, lengths, v)
    expected = fitted.shift + s * (mean + Ks.T @ np.linalg.solve(K, z - mean))
    np.testing.assert_allclose(fitted.at(Xs).mean[:, 0], expected, rtol=1e-9)


def test_equal_extra_is_noise():
    X, y, _ = rows(8)
    hyper = Hyper(np.array([0.5, 0.8]), 1.0, 0.3, None)
    one = gp.fit(X, y, clip=False, start=hyper, learn=False)
    own = np.full(8, 0.2 * one.scale**2)
    less = hyper._replace(noise=0.1)
    two = gp.fit(X, y, clip=False, start=less, learn=False, extra=own)
    np.testing.assert_allclose(two.at(X).mean, one.at(X).mean, rtol=1e-12)


def test_the_slope_of_the_posterior_density_with_extra():
    X, y, extra = rows(10)
    z, source = (y - y.mean()) / y.std(), np.arange(2)
    theta = np.log([0.4, 0.9, 1.3, 0.05])

    def loss(theta):
        return hyper.negative_posterior(theta, X, source, z, (-4.0, 1.0), extra)

    slope = approx_fprime(theta, lambda t: loss(t)[0], 1e-7)
    np.testing.assert_allclose(loss(theta)[1], slope, rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------- fitting
def test_without_censored_rows_it_is_refit():
    X, y, _ = rows(20)
    one, memory = gp.refit(X, y, None, noisy=True, clip=False)
    two = fit_censored(X, y, np.zeros(20, dtype=bool), None, options=NUMBERS)
    assert two.memory == memory
    np.testing.assert_array_equal(two.gp.at(X).mean, one.at(X).mean)
    np.testing.assert_array_equal(two.rows, np.arange(20))


def test_hyperparameters_are_not_relearnt_before_it_is_due():
    X, y, _ = rows(40)
    at_least = np.arange(40) % 5 == 0
    first = fit_censored(X[:38], y[:38], at_least[:38], None, options=NUMBERS)
    second = fit_censored(X, y, at_least, first.memory, options=NUMBERS)
    assert second.memory == first.memory
    assert second.gp.hyper.to_list() == first.gp.hyper.to_list()


def test_rows_killed_at_random_times_do_not_bias_the_fit():
    """The bounds lie below the true values; the exact rows make up for them."""
    X, y, _ = rows(40, 3)
    rng = np.random.default_rng(4)
    at_least = rng.random(40) < 0.4
    seen = np.where(at_least, y - 2.0 * rng.random(40), y)
    Xs = np.random.default_rng(5).random((50, 2))
    truth = 3.0 + 2.0 * np.sin(4 * Xs[:, 0]) + Xs[:, 1]
    errors = [
        np.sqrt(
            np.mean(
                (
                    fit_censored(X, seen, censored, None, options=NUMBERS).gp.at(Xs).mean[:, 0]
                    - truth
                )
                ** 2
            )
        )
        for censored in (at_least, np.zeros(40, dtype=bool))
    ]
    assert errors[0] < 0.3 * errors[1]
