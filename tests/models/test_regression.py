import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import norm

from farthing.models.regression import (
    designed,
    hazard,
    huber,
    least_squares,
    optimism,
    press,
    select,
)


def data(n, seed, k=2, noise=0.4):
    rng = np.random.default_rng(seed)
    F = rng.normal(3.0, 1.0, (n, k))
    return F, 2.0 + F @ np.linspace(0.8, -0.5, k) + noise * rng.standard_normal(n)


def censored(t, share):
    """Censored at a quantile: of all values above it only that bound is observed."""
    limit = np.quantile(t, 1 - share)
    return np.minimum(t, limit), t > limit


# ---------------------------------------------------------------- fitting
def test_without_censored_rows_it_is_least_squares():
    F, t = data(12, 0)
    fitted = least_squares(designed(F), t, np.zeros(12, dtype=bool))
    beta, rss, *_ = np.linalg.lstsq(designed(F), t, rcond=None)
    np.testing.assert_allclose(fitted.beta, beta, rtol=1e-9)
    assert fitted.sigma**2 == pytest.approx(rss[0] / 9, rel=1e-9)
    np.testing.assert_allclose(
        fitted.inverse, np.linalg.inv(designed(F).T @ designed(F)), rtol=1e-8
    )


def by_maximum_likelihood(D, t, at_least):
    """b and s that maximise sum ln N(t; D b, s^2) + sum ln P(t > bound), by a general optimiser."""

    def loss(theta):
        m, s = D @ theta[:-1], np.exp(theta[-1])
        seen = norm.logpdf(t[~at_least], m[~at_least], s).sum()
        return -seen - norm.logsf(t[at_least], m[at_least], s).sum()

    start = np.append(np.linalg.lstsq(D, t, rcond=None)[0], 0.0)
    found = minimize(loss, start, method="BFGS", options={"gtol": 1e-9})
    return found.x[:-1], np.exp(found.x[-1])


@pytest.mark.parametrize(("seed", "share"), [(1, 0.1), (2, 0.3), (3, 0.5)])
def test_censored_rows_enter_the_likelihood(seed, share):
    F, t = data(40, seed)
    seen, at_least = censored(t, share)
    D = designed(F)
    fitted = least_squares(D, seen, at_least)
    beta, s = by_maximum_likelihood(D, seen, at_least)
    np.testing.assert_allclose(fitted.beta, beta, rtol=1e-4, atol=1e-4)
    exact = (~at_least).sum()
    assert fitted.sigma == pytest.approx(s * np.sqrt(exact / (exact - 3)), rel=1e-3)


def test_censoring_the_expensive_half_hardly_changes_the_plane():
    F, t = data(200, 4)
    seen, at_least = censored(t, 0.5)
    truth = [2.0, 0.8, -0.5]
    fitted = least_squares(designed(F), seen, at_least)
    taken = np.linalg.lstsq(designed(F), seen, rcond=None)[
        0
    ]  # as if the bounds were observed values
    wrong, wrong_if_taken = (np.abs(beta - truth)[1:].max() for beta in (fitted.beta, taken))
    assert wrong < 0.1
    assert wrong_if_taken > 0.4
    assert fitted.sigma == pytest.approx(0.4, rel=0.25)


def test_a_censored_row_has_less_information_about_the_coefficients():
    F, t = data(30, 5)
    D, none = designed(F), np.zeros(30, dtype=bool)
    seen, at_least = censored(t, 0.3)
    whole, part = least_squares(D, t, none), least_squares(D, seen, at_least)
    without = least_squares(D[~at_least], seen[~at_least], none[~at_least])
    assert np.all(np.diag(part.inverse) > np.diag(whole.inverse))
    assert np.all(np.diag(part.inverse) < np.diag(without.inverse))


def test_an_uninformative_bound_changes_nothing():
    F, t = data(20, 6)
    at_least = np.arange(20) == 3
    low = np.where(at_least, t - 50.0, t)
    fitted = least_squares(designed(F), low, at_least)
    others = least_squares(designed(F)[~at_least], t[~at_least], np.zeros(19, dtype=bool))
    np.testing.assert_allclose(fitted.beta, others.beta, rtol=1e-6)
    assert fitted.weight[3] == pytest.approx(0.0, abs=1e-12)


def test_hazard():
    for a in (-3.0, 0.0, 2.0, 6.0):
        above = quad(lambda z: z * norm.pdf(z), a, a + 40, epsabs=0)[0] / norm.sf(a)
        assert hazard(np.array(a)) == pytest.approx(above, rel=1e-6)
    far = hazard(np.array([1e4, 1e8, -1e8]))
    np.testing.assert_allclose(far, [1e4, 1e8, 0.0], rtol=1e-7)


# ---------------------------------------------------------------- leave-one-out
@pytest.mark.parametrize("n", [6, 9, 25])
def test_a_row_left_out(n):
    F, t = data(n, n)
    D = designed(F)
    mean, std = least_squares(D, t, np.zeros(n, dtype=bool)).left_out(D)
    for i in range(n):
        others = np.arange(n) != i
        fitted = least_squares(D[others], t[others], np.zeros(n - 1, dtype=bool))
        plane = fitted.plane(D[i : i + 1])
        assert mean[i] == pytest.approx(plane.mean[0], rel=1e-9)
        if n > 6:
            assert std[i] == pytest.approx(np.hypot(plane.std[0], fitted.sigma), rel=1e-7)


def test_a_censored_row_left_out():
    F, t = data(40, 8)
    seen, at_least = censored(t, 0.2)
    D = designed(F)
    mean, _ = least_squares(D, seen, at_least).left_out(D)
    moved = mean - least_squares(D, seen, at_least).plane(D).mean
    for i in range(40):
        others = np.arange(40) != i
        fitted = least_squares(D[others], seen[others], at_least[others])
        exactly = fitted.plane(D[i : i + 1]).mean[0]
        assert mean[i] == pytest.approx(exactly, abs=0.2 * abs(moved[i]) + 0.01)


# ---------------------------------------------------------------- selection
def test_selection_finds_features_of_censored_rows():
    """All expensive rows were killed at a limit; taken as exact, they would show no slope."""
    rng = np.random.default_rng(9)
    F = rng.normal(3.0, 1.0, (30, 4))
    t = 2.0 * F[:, 2] + 0.3 * rng.standard_normal(30)
    seen, at_least = censored(t, 0.6)
    assert select(F, seen, 1, at_least) == [2]


def test_a_feature_that_only_censored_rows_have_is_not_chosen():
    F = np.zeros((12, 1))
    F[8:] = 1.0
    t = np.where(F[:, 0] > 0, 9.0, np.random.default_rng(1).normal(0.0, 0.5, 12))
    assert select(F, t, 1) == [0]
    assert select(F, t, 1, F[:, 0] > 0) == []


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_the_selection_equals_that_of_trying_every_feature(noise):
    """Every feature needs three rows: with little noise, more features would fit a few rows."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        F = rng.normal(2.0, 1.0, (5 + seed, 6))
        t = F @ rng.normal(0.0, 1.0, 6) + noise * rng.standard_normal(5 + seed)
        chosen, error = [], press(F[:, []], t)
        while len(chosen) < 3 and len(t) >= max(len(chosen) + 4, 3 * len(chosen) + 3):
            tries = {k: press(F[:, [*chosen, k]], t) for k in range(6) if k not in chosen}
            best = min(tries, key=tries.get)
            if tries[best] * (1 + 4 * 6 / len(t) ** 2) >= error:
                break
            chosen, error = [*chosen, best], tries[best]
        assert select(F, t, 3) == chosen


def test_optimism_is_the_error_of_cross_validated_selection():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        F = rng.normal(2.0, 1.0, (9, 6))
        t = 0.5 * F[:, 2] + rng.standard_normal(9)
        none = np.zeros(9, dtype=bool)
        chosen = select(F, t, 3)
        errors = []
        for i in range(9):
            others = np.arange(9) != i
            again = select(F[others], t[others], 3)
            fitted = least_squares(designed(F[others][:, again]), t[others], none[others])
            errors.append(t[i] - designed(F[:, again])[i] @ fitted.beta)
        D = designed(F[:, chosen])
        kept = least_squares(D, t, none)
        ratio = np.sqrt(np.mean(np.square(errors)) / np.mean(kept.left_out(D).std ** 2))
        most = t.std(ddof=1) / kept.sigma
        expected = max(1.0, min(ratio, most)) if chosen else 1.0
        assert optimism(F, t, chosen, 3, none) == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------- robust fit
QUAD = np.array([2.0, 0.5, 8.0, 3.0, 1.0, 6.0])
LINEAR = np.array([1.0, 0.6, 2.0, 1.2, 0.8, 1.7])
TIMES = np.array([2.3, 0.9, 8.4, 3.4, 1.4, 20.0])
WORK = np.column_stack([QUAD, LINEAR, np.ones(6)])


def huber_loss(beta, D, t, delta):
    r = np.abs(t - D @ beta)
    return np.where(r <= delta, 0.5 * r * r, delta * (r - 0.5 * delta)).sum()


def test_huber_oracle():  # [flops-regression]
    beta = huber(WORK, TIMES, delta=1.0, nonnegative=False).beta
    np.testing.assert_allclose(beta, [0.8210909091, 1.496363636, -0.5770909091], rtol=1e-6)
    assert huber_loss(beta, WORK, TIMES, 1.0) == pytest.approx(12.86643636, rel=1e-8)
    ols = np.linalg.lstsq(WORK, TIMES, rcond=None)[0]
    np.testing.assert_allclose(ols, [-1.012379808, 15.61117788, -9.46796875], rtol=1e-8)


def test_the_scale_of_the_columns_does_not_matter():
    once = huber(WORK, TIMES, delta=1.0).beta
    again = huber(WORK * np.array([1e6, 1e-3, 1.0]), TIMES, delta=1.0).beta
    np.testing.assert_allclose(again * np.array([1e6, 1e-3, 1.0]), once, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_weights_minimise_the_loss(seed):
    rng = np.random.default_rng(seed)
    D = np.column_stack([rng.random((20, 3)), np.ones(20)])
    t = D @ np.array([3.0, 0.5, -1.0, 0.2]) + 0.2 * rng.standard_t(2, 20)
    beta = huber(D, t, delta=0.3).beta
    assert np.all(beta >= 0)
    slow = minimize(
        huber_loss,
        np.ones(4),
        args=(D, t, 0.3),
        bounds=[(0, None)] * 4,
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )
    assert huber_loss(beta, D, t, 0.3) == pytest.approx(slow.fun, rel=1e-6)


def test_an_outlier_is_bounded_by_a_delta_found_from_the_rows():
    beta = huber(WORK, TIMES).beta
    without = huber(WORK[:5], TIMES[:5]).beta
    here = np.array([6.0, 1.7, 1.0])
    assert abs(here @ beta - here @ without) < 2.5  # least squares is off by 13.6
    assert abs(here @ np.linalg.lstsq(WORK, TIMES, rcond=None)[0] - here @ without) > 4
