"""The probability that a constraint is met, against high precision and finite differences."""

import mpmath as mp
import numpy as np
import pytest
from oracles import dense_gp, differences

from farthing.models.feasibility import Feasibility, fit_feasibility
from farthing.models.gp import Hyper, build
from farthing.models.normal import log_below, log_below_slopes

T = [-1e6, -1e4, -300.0, -40.0, -8.0, -1.5, 0.0, 0.7, 6.0, 9.0, 25.9, 26.1, 40.0, 1e6]


def log_phi_mp(t):
    """ln Phi(t) with at least 60 digits."""
    with mp.workdps(80):
        t = mp.mpf(t)
        if t < -30:  # the asymptotic series: its first terms are exact enough there
            terms = sum(mp.fac2(2 * k - 1) * (-1) ** k / t ** (2 * k) for k in range(1, 40))
            return -t * t / 2 - mp.log(-t) - mp.log(2 * mp.pi) / 2 + mp.log1p(terms)
        return mp.log1p(-mp.erfc(t / mp.sqrt(2)) / 2) if t > 0 else mp.log(mp.ncdf(t))


def hazard_mp(t):
    """phi(t) / Phi(t)."""
    with mp.workdps(80):
        return mp.exp(-(mp.mpf(t) ** 2) / 2 - mp.log(2 * mp.pi) / 2 - log_phi_mp(t))


@pytest.mark.parametrize("t", T)
@pytest.mark.parametrize("std", [1e-3, 1.0, 50.0])
def test_the_log_probability_and_its_partials_far_into_the_tails(t, std):
    mean = 3.0
    bound = mean + t * std
    exact = (mp.mpf(bound) - mean) / mp.mpf(std)  # the bound is rounded
    value, to_mean, to_std = log_below_slopes(mean, std, bound)
    assert float(value) == pytest.approx(float(log_phi_mp(exact)), rel=1e-10, abs=1e-300)
    assert float(log_below(mean, std, bound)) == float(value)
    hazard = hazard_mp(exact)
    assert float(to_mean) == pytest.approx(float(-hazard / std), rel=1e-9, abs=1e-140)
    assert float(to_std) == pytest.approx(float(-hazard * exact / std), rel=1e-9, abs=1e-140)


def model(bound, noise=0.02, noisy=True):
    X = np.random.default_rng(3).random((9, 2))
    z = np.sin(5 * X[:, 0]) + X[:, 1] ** 2
    gp = build(X, z, Hyper(np.array([0.4, 0.7]), 1.3, noise, 0.1))
    return X, z, Feasibility("z", gp, bound, noisy)


@pytest.mark.parametrize("noisy", [True, False])
@pytest.mark.parametrize("bound", [-40.0, -1.0, 0.4, 1.0, 6.0])
def test_the_model_against_a_dense_process(bound, noisy):
    X, z, feasibility = model(bound, noisy=noisy)
    new = np.random.default_rng(4).random((7, 2))
    mean, variance = dense_gp(X, z, new, np.array([0.4, 0.7]), 1.3, 0.02, 0.1)[:2]
    variance = np.diag(variance) if np.ndim(variance) == 2 else variance
    expected = [
        float(log_phi_mp((bound - mp.mpf(m)) / mp.sqrt(mp.mpf(v) + mp.mpf(0.02 * noisy))))
        for m, v in zip(np.ravel(mean), variance, strict=True)
    ]
    np.testing.assert_allclose(feasibility.log_probability(new), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("noisy", [True, False])
@pytest.mark.parametrize("bound", [-40.0, -1.0, 0.4, 1.0, 2.0])
def test_gradients_against_differences(bound, noisy):
    feasibility = model(bound, noisy=noisy)[2]
    new = 0.1 + 0.8 * np.random.default_rng(4).random((7, 2))
    value, slope = feasibility.slopes(new)
    np.testing.assert_array_equal(value, feasibility.log_probability(new))
    expected = differences(feasibility.log_probability, new)
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
    excess, d_excess = feasibility.plausible_excess(new, 1.7)
    np.testing.assert_allclose(
        d_excess, differences(lambda X: feasibility.plausible_excess(X, 1.7)[0], new), rtol=1e-4,
        atol=1e-6,
    )  # fmt: skip
    assert excess.shape == (7,)


def test_drawn_measurements_follow_the_model_and_can_be_removed():
    _, _, feasibility = model(0.9)
    x = np.array([[0.3, 0.9]])
    expected = float(np.exp(feasibility.log_probability(x)[0]))
    rng = np.random.default_rng(0)
    drawn = [feasibility.drawn(x, rng) for _ in range(4000)]
    share = np.mean([met[0] for _, met in drawn])
    assert share == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 4000))
    assert 0.05 < expected < 0.95
    # A draw that meets the constraint makes it more probable there, and the reverse.
    for changed, [met] in drawn[:50]:
        raised = changed.log_probability(x)[0] > feasibility.log_probability(x)[0]
        assert changed.pending == 1
        back = changed.without_drawn()
        np.testing.assert_array_equal(back.gp.targets, feasibility.gp.targets)
        np.testing.assert_array_equal(back.gp.L, feasibility.gp.L)
        if changed.gp.targets[-1, 0] < feasibility.gp.at(x).mean[0, 0]:
            assert raised or not met
    # By the law of total probability the draws keep the average of P at another point.
    y = np.array([[0.35, 0.8]])
    mean = np.mean([np.exp(changed.log_probability(y)[0]) for changed, _ in drawn])
    assert mean == pytest.approx(float(np.exp(feasibility.log_probability(y)[0])), abs=0.02)


def test_a_violation_is_not_clipped_below_the_bound():
    """Most values are far below the bound and alike; the one above it must stay above it."""
    X = np.linspace(0, 1, 12)[:, None]
    z = np.where(X[:, 0] > 0.95, 1.0, -5.0 + 0.01 * X[:, 0])
    fitted, memory = fit_feasibility("z", X, z, 0.0, None)
    assert fitted.log_probability(np.array([[1.0]]))[0] < np.log(0.5)
    assert fitted.log_probability(np.array([[0.5]]))[0] > np.log(0.9)
    assert memory["n"] == 12


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_a_constant_quantity_has_no_unit(factor):
    """Its distance from the bound is the only scale."""
    X = np.linspace(0, 1, 5)[:, None]
    fitted, _ = fit_feasibility("z", X, np.full(5, 2.0 * factor), 3.0 * factor, None)
    other, _ = fit_feasibility("z", X, np.full(5, 2.0), 3.0, None)
    new = np.array([[0.37]])
    assert fitted.log_probability(new) == pytest.approx(other.log_probability(new))
    assert np.exp(fitted.log_probability(new)[0]) > 0.8
