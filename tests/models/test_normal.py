import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    POOL_BEST,
    POOL_COST,
    POOL_EI,
    POOL_LOG_EI,
    POOL_MEAN,
    POOL_NAMES,
    POOL_STD,
    d_log_h_mp,
    h_mp,
    log_h_mp,
    sampled_improvement,
)
from scipy.integrate import quad
from scipy.stats import norm

from farthing.models.normal import (
    d_log_h,
    expected_cost,
    expected_cost_slopes,
    gittins,
    gittins_slopes,
    h,
    h_inverse,
    log_affordable,
    log_affordable_slopes,
    log_ei,
    log_ei_slopes,
    log_h,
    max_overrun,
    mean_residual_cost,
)

# Dense where branches meet (-1 and far down), logarithmic beyond, and some random points.
GRID = np.unique(
    np.concatenate(
        [
            np.linspace(-3.0, 10.0, 131),
            -np.geomspace(1.0, 1e6, 121),
            [np.nextafter(-1.0, 0), np.nextafter(-1.0, -2)],
            -np.geomspace(20.0, 60.0, 21),
            -np.geomspace(5e3, 2e4, 21),
            -np.exp(np.random.default_rng(7).uniform(0, np.log(1e6), 100)),
        ]
    )
)


def central_difference(function, arguments, index, step=1e-6):
    """d function / d arguments[index], with a step relative to that argument."""
    width = step * max(1.0, abs(arguments[index]))
    up, down = list(arguments), list(arguments)
    up[index] += width
    down[index] -= width
    return (function(*up) - function(*down)) / (up[index] - down[index])


# ---------------------------------------------------------------- ln h
@pytest.mark.parametrize(
    ("u", "value"),
    [
        (3, 1.098739665),
        (1, 0.08002621885),
        (0, -0.9189385332),
        (-0.25, -1.250558955),
        (-0.5, -1.620516264),
        (-1, -2.485121026),
        (-2, -4.768783524),
        (-5, -16.74430116),
        (-10, -55.55312204),
        (-40, -808.2985684),
        (-1000, -500014.7345),
        (-1e5, -5000000023.94479),
    ],
)
def test_log_h_oracle(u, value):  # [log-h]
    assert log_h(u) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("u", "slope"), [(0, 1.253314137), (-5, 5.361816241), (-40, 40.04990666)])
def test_d_log_h_oracle(u, slope):  # [log-h]
    assert d_log_h(u) == pytest.approx(slope, rel=1e-9)


def test_the_sixty_digit_oracle_itself():
    """Against quadrature where it is accurate, and the asymptotic series where it converges."""
    for u in (0.7, -0.3, -2.5):
        assert float(h_mp(u)) == pytest.approx(
            quad(lambda z, u=u: max(z + u, 0) * norm.pdf(z), -u, 40)[0], rel=1e-9
        )
    for u in (-1e3, -1e6):
        with mp.workdps(60):
            x = mp.mpf(u)
            series = -(x**2) / 2 - mp.log(2 * mp.pi) / 2 - 2 * mp.log(-x) + mp.log(1 - 3 / x**2)
            assert 0 < log_h_mp(u) - series < 16 / x**4


def test_log_h_matches_sixty_digits_from_10_to_minus_a_million():
    exact = [log_h_mp(u) for u in GRID]
    error = [
        abs(mp.mpf(float(got)) - want) / max(1, abs(want))
        for got, want in zip(log_h(GRID), exact, strict=True)
    ]
    assert float(max(error)) < 1e-12
    alone = np.array([log_h(u) for u in GRID])  # no branch depends on its neighbours
    np.testing.assert_allclose(alone, log_h(GRID), rtol=1e-15, atol=1e-15)


def test_h_matches_sixty_digits_until_it_underflows():
    U = GRID[GRID > -37]
    np.testing.assert_allclose(h(U), [float(h_mp(u)) for u in U], rtol=1e-9)
    assert h(np.array([-45.0, -1e5])).max() < 1e-300


def test_log_h_rises_and_its_slope_falls_everywhere():
    u = -np.geomspace(1e8, 1e-3, 20_001)
    u = np.concatenate([u, np.geomspace(1e-3, 1e8, 2_001)])
    value, slope = log_h(u), d_log_h(u)
    assert np.all(np.isfinite(value))
    assert np.all(np.diff(value) > 0)
    assert np.all(np.isfinite(slope))
    assert np.all(slope > 0)
    # ln h is concave. Where the series begins, R/(1 + u R) has lost a factor u^2 of precision.
    assert np.all(np.diff(slope) < 1e-7 * slope[1:])


def test_d_log_h_matches_sixty_digits():
    exact = np.array([float(d_log_h_mp(u)) for u in GRID])
    np.testing.assert_allclose(d_log_h(GRID), exact, rtol=1e-7)
    near = GRID > -100
    np.testing.assert_allclose(d_log_h(GRID[near]), exact[near], rtol=1e-11)


def test_shapes_are_kept():
    u = np.linspace(-20.0, 5.0, 6)
    assert log_h(u.reshape(2, 3)).shape == d_log_h(u.reshape(2, 3)).shape == (2, 3)
    assert log_h(-3.0).shape == ()
    assert log_h(np.empty(0)).shape == (0,)
    assert log_ei(u[:, None], np.full(4, 0.5), 0.1).shape == (6, 4)


# ---------------------------------------------------------------- EI
def test_ei_oracle():  # [ei-and-gradients]
    value, to_mean, to_std = log_ei_slopes(0.3, 0.2, 0.25)
    ei = np.exp(value)
    assert ei == pytest.approx(0.05726893964, rel=1e-9)
    assert value == log_ei(0.3, 0.2, 0.25) == pytest.approx(-2.859996868, rel=1e-9)
    assert ei * to_mean == pytest.approx(-0.4012936743, rel=1e-9)  # minus PI
    assert ei * to_std == pytest.approx(0.3866681168, rel=1e-9)
    assert to_mean == pytest.approx(-7.007178355, rel=1e-9)
    assert to_std == pytest.approx(6.751794589, rel=1e-9)
    assert np.exp(log_ei(0.3, 0.2, 0.25 - 0.01)) == pytest.approx(0.05335224842, rel=1e-9)


def test_ei_and_its_argmax_in_the_toy_pool():  # [pool-ei-argmax], [pool-ei-alpha]
    value = log_ei(POOL_MEAN, POOL_STD, POOL_BEST)
    np.testing.assert_allclose(value, POOL_LOG_EI, rtol=1e-9)
    np.testing.assert_allclose(np.exp(value), POOL_EI, rtol=1e-9)
    for alpha, name, score in [
        (0, "A", 0.06977965574),
        (0.1, "C", 0.04549033573),
        (0.2, "C", 0.03613425808),
        (0.5, "C", 0.01811002885),
        (1, "D", 0.01133397354),
    ]:
        per_cost = value - alpha * np.log(POOL_COST)
        assert POOL_NAMES[np.argmax(per_cost)] == name
        assert np.exp(per_cost.max()) == pytest.approx(score, rel=1e-9)


def test_ei_per_price_of_the_toy_pool():  # [pool-log-eipc]
    def surplus(worth):
        return log_ei(POOL_MEAN, POOL_STD, POOL_BEST) - np.log(worth * POOL_COST)

    expected = [-2.662412777, -1.826951035, -0.5574117748, 0.1252196299, -3.571554406]
    np.testing.assert_allclose(surplus(0.01), expected, rtol=1e-9)
    assert surplus(0.0113339735).max() > 0
    assert surplus(0.0113339736).max() < 0


def test_ei_is_the_mean_of_sampled_improvement():
    for mean, std, best in [(5.3, 0.7, 5.0), (-2.0, 3.0, -1.0), (100.0, 10.0, 95.0)]:
        sampled, error = sampled_improvement(mean, std, best)
        assert abs(np.exp(log_ei(mean, std, best)) - sampled) < 4 * error


@given(st.floats(-100, 100), st.floats(-8, 8), st.floats(-30, 5))
def test_ei_slopes_equal_finite_differences(mean_in_std, log10_std, u):
    std = 10.0**log10_std
    mean, best = mean_in_std * std, (mean_in_std + u) * std
    value, to_mean, to_std = log_ei_slopes(mean, std, best)
    assert value == log_ei(mean, std, best)

    def scaled(shift, log_std):  # differences in the natural units of the problem
        return log_ei(mean + std * shift, std * np.exp(log_std), best)

    tolerance = {"rel": 1e-6, "abs": 1e-6}
    assert std * to_mean == pytest.approx(central_difference(scaled, (0.0, 0.0), 0), **tolerance)
    assert std * to_std == pytest.approx(central_difference(scaled, (0.0, 0.0), 1), **tolerance)


def test_ei_slopes_far_in_the_tail():
    """std d/dmean = -Phi/h and std d/dstd = phi/h, in sixty digits."""
    for u in (-1.5, -30.0, -300.0, -1e4, -1e5, -1e6):
        _, to_mean, to_std = log_ei_slopes(0.0, 2.0, 2.0 * u)
        with mp.workdps(60):
            density = float(mp.npdf(mp.mpf(u)) / h_mp(u))
        assert 2 * to_mean == pytest.approx(-float(d_log_h_mp(u)), rel=1e-7)
        assert 2 * to_std == pytest.approx(density, rel=1e-3 if u < -2e5 else 1e-5)


def test_where_the_series_begins_slopes_have_all_their_digits():
    for u in (-1.0001e4, -1.2e4, -3e4):
        _, to_mean, _ = log_ei_slopes(0.0, 1.0, u)
        assert to_mean == pytest.approx(-float(d_log_h_mp(u)), rel=1e-13)


def test_improvement_is_equivariant():
    """EI(a mean + b, a std; a best + b) = a EI(mean, std; best), for every scale."""
    for a in (1e-6, 1e6):
        moved = log_ei(a * POOL_MEAN + 3 * a, a * POOL_STD, a * POOL_BEST + 3 * a)
        np.testing.assert_allclose(moved, np.log(a) + POOL_LOG_EI, rtol=1e-9)


# ---------------------------------------------------------------- Gittins index
@pytest.mark.parametrize(
    ("r", "z"),
    [
        (1e-300, -36.94956805),
        (1e-12, -6.75715946),
        (1e-4, -3.363015326),
        (0.05, -1.255581715),
        (0.3, -0.2165134977),
        (0.5, 0.18804926),
        (2, 1.991309538),
        (50, 50),
    ],
)
def test_h_inverse_oracle(r, z):  # [inverse-h]
    assert h_inverse(np.log(r)) == pytest.approx(z, rel=1e-9)


def test_h_of_h_inverse_is_the_argument():
    log_r = np.concatenate([-np.geomspace(1e11, 1, 400), np.linspace(-1, 1, 400), range(1, 350, 9)])
    log_r = np.unique(log_r)
    z = h_inverse(log_r)
    assert np.all(np.abs(log_h(z) - log_r) <= 1e-13 * np.maximum(1.0, np.abs(log_r)))
    assert np.all(np.diff(z) > 0)
    r = np.exp(log_r)
    upper = r >= norm.pdf(0)
    assert np.all(z[upper] <= r[upper])
    assert np.all(z[upper] >= r[upper] - norm.pdf(0))


def test_gittins_oracle():  # [gittins-root]
    g, to_mean, to_std, to_log_price = gittins_slopes(0.3, 0.2, np.log(1e-3 * 10))
    assert g == gittins(0.3, 0.2, np.log(1e-3 * 10)) == pytest.approx(0.04888365694, rel=1e-9)
    assert to_mean == 1
    assert to_std == pytest.approx(-1.733438628, rel=1e-9)
    assert to_log_price == pytest.approx(0.09557138263, rel=1e-9)
    assert to_log_price / 10 == pytest.approx(0.009557138263, rel=1e-9)


@pytest.mark.parametrize(
    ("worth", "indices", "first"),
    [
        (1e-2, [1.2, 0.6199865449, 0.337609852, 0.2389248919, 0.58], "D"),
        (1e-3, [0.2899471561, 0.2033316735, 0.04888365694, 0.07594801917, 0.2976466098], "C"),
        (1e-4, [0.1097653652, 0.046843319, -0.1383912303, -0.04438304416, 0.2216471694], "C"),
    ],
)
def test_gittins_of_the_toy_pool(worth, indices, first):  # [pool-gittins-indices]
    g = gittins(POOL_MEAN, POOL_STD, np.log(worth * POOL_COST))
    np.testing.assert_allclose(g, indices, rtol=1e-9)
    assert POOL_NAMES[np.argmin(g)] == first


def test_gittins_stops_where_ei_per_price_does():  # [pool-log-eipc], [pool-gittins-indices]
    for worth in np.append(np.geomspace(1e-5, 1.0, 60), [0.0113339735, 0.0113339736]):
        log_price = np.log(worth * POOL_COST)
        by_index = gittins(POOL_MEAN, POOL_STD, log_price).min() >= POOL_BEST
        by_surplus = (log_ei(POOL_MEAN, POOL_STD, POOL_BEST) - log_price).max() <= 0
        assert by_index == by_surplus


def test_ei_at_the_gittins_index_is_the_price():
    """EI(mean, std; g) = price, for costs from 1e-6 to 1e6 and any scale of the objective."""
    rng = np.random.default_rng(3)
    mean, std = rng.normal(20.0, 5.0, 2_000), np.exp(rng.uniform(np.log(1e-2), np.log(1e2), 2_000))
    log_price = rng.uniform(np.log(1e-6), np.log(1e6), 2_000)
    g = gittins(mean, std, log_price)
    # The rounding error of the mean, 1e-14, enters u = (g - mean)/std; the slope is below 10.
    np.testing.assert_allclose(log_ei(mean, std, g), log_price, rtol=0, atol=1e-10)
    g, mean = gittins(0.0, std, log_price), 0.0
    np.testing.assert_allclose(log_ei(mean, std, g), log_price, rtol=1e-13, atol=1e-13)


def test_gittins_of_a_certain_value_is_value_plus_price():
    np.testing.assert_allclose(
        gittins(7.0, 1e-12, np.log([1e-6, 0.5, 1e6])), 7.0 + np.array([1e-6, 0.5, 1e6]), rtol=1e-12
    )


@given(st.floats(-50, 50), st.floats(-6, 6), st.floats(np.log(1e-6), np.log(1e6)))
def test_gittins_slopes_equal_finite_differences(mean, log10_std, log_price):
    std = 10.0**log10_std
    g, to_mean, to_std, to_log_price = gittins_slopes(0.0, std, log_price)

    def scaled(mean_in_std, log_std, log_price):
        return gittins(std * mean_in_std, std * np.exp(log_std), log_price) / std

    here = (0.0, 0.0, log_price)
    tolerance = {"rel": 1e-6, "abs": 1e-8 * max(1.0, abs(g) / std)}
    assert to_mean == pytest.approx(central_difference(scaled, here, 0), **tolerance)
    assert to_std == pytest.approx(central_difference(scaled, here, 1, 1e-5), **tolerance)
    assert to_log_price / std == pytest.approx(
        central_difference(scaled, here, 2, 1e-5), **tolerance
    )
    shifted = gittins_slopes(mean, std, log_price)
    assert shifted[0] == pytest.approx(mean + g, rel=1e-12, abs=1e-12)
    assert shifted[1:] == (to_mean, to_std, to_log_price)


# ---------------------------------------------------------------- a log-normal cost
def capped_mean(m, s, cap):
    """E[min(c, cap)] by quadrature over the normal variable, split at the cap."""
    bite = (np.log(cap) - m) / s
    below = quad(lambda z: np.exp(m + s * z) * norm.pdf(z), -40, bite, epsabs=0, limit=200)[0]
    return below + cap * norm.sf(bite)


def test_summaries_of_a_cost():  # [lognormal-denominators]
    m, s = 1.2, 0.5
    assert np.exp(expected_cost(m, 0.0)) == pytest.approx(3.320116923, rel=1e-9)  # the median
    assert np.exp(expected_cost(m, s)) == pytest.approx(3.762185355, rel=1e-9)
    a = 0.5
    assert np.exp(a * expected_cost(m, 0.0)) == pytest.approx(1.8221188, rel=1e-9)
    assert np.exp(a * expected_cost(m, s)) == pytest.approx(1.939635367, rel=1e-9)
    # ln c^a ~ N(a m, a^2 s^2): the same function gives the other order of power and mean.
    assert np.exp(expected_cost(a * m, a * s)) == pytest.approx(1.87995906, rel=1e-9)


@pytest.mark.parametrize(("cap", "cost"), [(2, 1.934007892), (4, 3.109287026), (10, 3.733553939)])
def test_capped_cost_oracle(cap, cost):  # [capped-cost]
    assert np.exp(expected_cost(1.2, 0.5, cap)) == pytest.approx(cost, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("m", [np.log(1e-6), -1.0, 2.0, np.log(1e6)])
@pytest.mark.parametrize("s", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("sigmas", [-3.0, -0.5, 0.4, 2.0])
def test_capped_cost_by_quadrature(m, s, sigmas):
    cap = np.exp(m + sigmas * s)
    assert np.exp(expected_cost(m, s, cap)) == pytest.approx(capped_mean(m, s, cap), rel=1e-7)
    assert np.exp(log_affordable(m, s, cap)) == pytest.approx(norm.cdf(sigmas), rel=1e-9)


def test_capped_cost_has_its_limits():
    m = np.log([1e-6, 3.0, 1e6])
    np.testing.assert_allclose(expected_cost(m, 0.8, 1e30), expected_cost(m, 0.8), rtol=1e-13)
    np.testing.assert_allclose(expected_cost(m, 0.8, 1e-30), np.log(1e-30), rtol=1e-13)
    for s in (0.0, 1e-9):  # a known cost
        np.testing.assert_allclose(expected_cost(m, s, 3.0), np.log([1e-6, 3.0, 3.0]), atol=1e-8)
    vague = expected_cost(1.0, np.array([0.5, 1.0, 3.0, 10.0]), 20.0)
    assert np.all(vague <= np.log(20.0))  # the cost is at most the cap
    assert np.all(np.isfinite(vague))


def test_affordable():
    assert np.exp(log_affordable(1.2, 0.5, 4.0)) == pytest.approx(
        0.6452727161, rel=1e-9
    )  # [probability-affordable]
    np.testing.assert_array_equal(
        log_affordable(np.log([3.9, 4.0, 4.1]), 0.0, 4.0), [0, 0, -np.inf]
    )
    np.testing.assert_array_equal(log_affordable(np.array([1.0, 50.0]), 0.5, np.inf), [0, 0])
    far = log_affordable(np.array([50.0, 500.0, 5e3]), 0.5, 1.0)  # ln Phi(-100), and further down
    assert far[0] == pytest.approx(-5005.524208637, rel=1e-9)
    assert np.all(np.isfinite(far))


@given(st.floats(-14, 14), st.floats(0.05, 3), st.floats(-4, 4))
def test_cost_slopes_equal_finite_differences(m, s, sigmas):
    cap = float(np.exp(m + sigmas * s))
    value, to_m, to_s = expected_cost_slopes(m, s, cap)
    assert value == expected_cost(m, s, cap)
    for function, slopes in [
        (lambda m, s: expected_cost(m, s, cap), (to_m, to_s)),
        (lambda m, s: log_affordable(m, s, cap), log_affordable_slopes(m, s, cap)[1:]),
        (expected_cost, expected_cost_slopes(m, s)[1:]),
    ]:
        for index in (0, 1):
            difference = central_difference(function, (m, s), index, 1e-7)
            assert slopes[index] == pytest.approx(difference, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("s", [3e-12, 5e-11, 1e-9, 1e-6])
@pytest.mark.parametrize("sigmas", [-1.0, 0.5, 2.0])
def test_cost_slopes_are_accurate_for_a_very_small_std(s, sigmas):
    """d ln E[min(c, cap)] / dm is the probability of staying below the cap, however small s."""
    value, to_m, to_s = expected_cost_slopes(0.0, s, np.exp(sigmas * s))
    assert to_m == pytest.approx(norm.cdf(sigmas), abs=1e-3)
    assert to_s == pytest.approx(-norm.pdf(sigmas), abs=1e-3)
    assert value == pytest.approx(0.0, abs=3 * s)


def test_cost_slopes_stay_finite_where_nothing_is_affordable():
    value, to_m, to_s = log_affordable_slopes(np.array([3.0, 30.0, 300.0]), 0.5, 1.0)
    t = -np.array([6.0, 60.0, 600.0])
    np.testing.assert_allclose(value, norm.logcdf(t), rtol=1e-9)
    # -phi/Phi(t)/s, with phi/Phi = |t| + 1/|t| - 2/|t|^3 + 10/|t|^5 far down
    exact = [float(mp.npdf(x) / mp.ncdf(x)) for x in t[:2]]
    np.testing.assert_allclose(to_m[:2], -np.array(exact) / 0.5, rtol=1e-6)
    assert np.all(np.isfinite(to_m))
    assert np.all(np.isfinite(to_s))


# ── kill threshold ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("s", [0.3, 0.7, 1.5])
@pytest.mark.parametrize("m", [-3.0, 0.0, 8.0])
@pytest.mark.parametrize("ahead", [-1.0, 0.5, 3.0])
def test_mean_residual_cost_of_a_log_normal(m, s, ahead):
    """Against the integral in high precision."""
    t = mp.exp(m + ahead * s)

    def density(c):
        return mp.exp(-((mp.log(c) - m) ** 2) / (2 * s * s)) / (c * s * mp.sqrt(2 * mp.pi))

    ends = [t * mp.mpf(10) ** k for k in range(0, 12, 2)] + [mp.inf]
    survives = mp.quad(density, ends)
    still = mp.quad(lambda c: (c - t) * density(c), ends) / survives
    found = mean_residual_cost(m, s, float(mp.log(t)))
    assert found == pytest.approx(float(mp.log(still)), abs=1e-6)


@pytest.mark.parametrize("s", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("margin", [1.5, 4.0, 20.0])
def test_max_overrun_is_where_the_remaining_cost_exceeds_the_margin(s, margin):
    end = max_overrun(2.0, s, margin)
    limit = np.log(margin) + 2.0 + s * s / 2
    grid = np.linspace(end, end + 12, 40)[1:]
    assert all(mean_residual_cost(2.0, s, t) > limit for t in grid)
    if end > 2.0:
        assert mean_residual_cost(2.0, s, end) == pytest.approx(limit, abs=1e-6)
    assert max_overrun(2.0 + np.log(7), s, margin) == pytest.approx(end + np.log(7), abs=1e-9)
    assert max_overrun(2.0, s, 2 * margin) > end
