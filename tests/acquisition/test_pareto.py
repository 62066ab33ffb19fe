import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    POOL_BEST,
    POOL_COST,
    POOL_LOG_EI,
    POOL_MEAN,
    POOL_NAMES,
    POOL_STD,
    brute_front,
    brute_minimax_alpha,
    dense_gp,
)

from farthing.acquisition.pareto import front, implied_alpha, improvement_split, persistence
from farthing.models.normal import log_ei

LOG_COST = np.log(POOL_COST)
pool_ei = log_ei(POOL_MEAN, POOL_STD, POOL_BEST)


def names(rows):
    return {POOL_NAMES[i] for i in rows}


# Some pools have few distinct values, so that ties and duplicates are common. None is near zero.
pools = st.lists(
    st.tuples(st.integers(-9, -2), st.integers(3, 9))
    | st.tuples(st.integers(-50_000, -1_000), st.integers(2_000, 9_000)).map(
        lambda p: np.array(p) / 1e3
    ),
    min_size=1,
    max_size=25,
).map(lambda rows: np.array(rows, dtype=float).T)


# ---------------------------------------------------------------- front
def test_front_of_the_toy_pool():  # [pool-pareto-front]
    rows = front(pool_ei, LOG_COST)
    assert names(rows) == set("ABCD")
    assert [POOL_NAMES[i] for i in rows] == ["D", "C", "B", "A"]  # cheapest first
    np.testing.assert_allclose(pool_ei, POOL_LOG_EI, rtol=1e-9)


@pytest.mark.slow
@given(pools)
def test_front_is_the_undominated_set(pool):
    rows = front(*pool)
    assert set(rows.tolist()) == brute_front(*pool)
    assert np.all(np.diff(pool[1][rows]) > 0)
    assert np.all(np.diff(pool[0][rows]) > 0)


def test_front_of_corner_cases():
    assert front([], []).size == 0
    assert front([-np.inf], [2.0]).tolist() == [0]
    assert front([-3.0, -3.0, -3.0], [2.0, 2.0, 1.0]).tolist() == [2]
    assert front([-3.0, -2.0, -2.0], [1.0, 1.0, 1.0]).tolist() == [1]  # the first of equals


# ---------------------------------------------------------------- implied alpha
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("A", 0, 0.08580968045),
        ("B", 0.0882132576, 0.08422100236),
        ("C", 0.08580968045, 0.5758572608),
        ("D", 0.5758572608, np.inf),
    ],
)
def test_implied_alpha_of_the_toy_pool(name, low, high):  # [pool-implied-alpha]
    implied = implied_alpha(pool_ei, LOG_COST, POOL_NAMES.index(name))
    assert implied.low == pytest.approx(low, rel=1e-9)
    assert implied.high == pytest.approx(high, rel=1e-9)
    assert implied.supported == (name != "B")
    if name == "B":
        # Exactly the slope of AC; the numbers of the oracle come from a search with a tolerance.
        assert implied.minimax == pytest.approx(0.08580968045, rel=1e-9)
        assert implied.minimax == pytest.approx(0.0858096806, rel=3e-9)
        assert implied.regret == pytest.approx(0.002202375709, rel=2e-7)
        assert implied.regret < 0.002202375709
    else:
        assert implied.regret == 0
        assert implied.minimax == pytest.approx((low + high) / 2 if name != "D" else low, rel=1e-9)


def test_a_dominated_choice_has_no_alpha():
    implied = implied_alpha(pool_ei, LOG_COST, POOL_NAMES.index("E"))
    assert not implied.supported
    level = implied_alpha([-3.0, -2.0], [1.0, 1.0], 0)  # equally expensive, but worse
    assert not level.supported
    assert level.regret == pytest.approx(1.0)


@pytest.mark.slow
@given(pools, st.data())
def test_implied_alpha_is_where_the_choice_wins(pool, data):
    log_improvement, log_cost = pool
    chosen = data.draw(st.integers(0, pool.shape[1] - 1))
    implied = implied_alpha(*pool, chosen)

    def regret(alpha):
        score = log_improvement - alpha * log_cost
        return score.max() - score[chosen]

    if implied.supported:
        inside = [implied.low, implied.minimax, min(implied.high, implied.low + 100.0)]
        for alpha in inside:
            assert regret(alpha) <= 1e-9 * (1 + abs(alpha))
        assert implied.low <= implied.minimax <= implied.high
        if implied.high < 1e6:
            assert regret(implied.high + 1.0) > 0
        if implied.low >= 1e-3:
            assert regret(0.5 * implied.low) > 0
    else:
        alpha, least = brute_minimax_alpha(*pool, chosen)
        assert implied.minimax >= 0
        assert implied.regret == pytest.approx(regret(implied.minimax), rel=1e-6, abs=1e-9)
        assert implied.regret == pytest.approx(least, rel=1e-6, abs=1e-9)
        assert implied.regret >= 0
        for step in (0.7, 1.3):
            assert regret(alpha * step) >= implied.regret * (1 - 1e-6) - 1e-9


def gp_log_ei(x):
    """ln EI of the two-point process of [two-point-gp] at x, best = -0.1."""
    X, y = np.array([[0.2], [0.8]]), np.array([0.5, -0.1])
    mean, cov = dense_gp(X, y, np.array([[x]]), 0.3, 1.0, 1e-6)
    return log_ei(mean[0], np.sqrt(cov[0, 0]), y.min())


@pytest.mark.parametrize(
    "x", [0.9833161868, 0.9417675937, 0.9187191163, 0.5184061325, 0.4486076358]
)
def test_no_alpha_reaches_the_choice_of_contextual_ei(x):
    # [line-contextual-ei], the end of [pool-implied-alpha]
    grid = np.append(np.linspace(0, 1, 101), x)
    implied = implied_alpha([gp_log_ei(z) for z in grid], np.log(1 + 9 * grid), 101)
    assert not implied.supported


# ---------------------------------------------------------------- persistence
def test_persistence_of_the_updated_pool():  # [pool-front-persistence]
    before = front(pool_ei, LOG_COST)
    mean = np.array([0.21, 0.24, 0.22, 0.33, 0.28])
    std = np.array([0.09, 0.11, 0.02, 0.14, 0.05])
    after = front(log_ei(mean, std, 0.22), LOG_COST)
    assert names(after) == set("ABD")
    assert persistence(before, after) == (0.75, 0.75)


def test_persistence_tells_survival_from_overlap():
    assert persistence([1, 2, 3, 4], [7, 2, 8, 9, 6, 4]) == (0.5, 0.25)
    assert persistence([1, 2], [3]) == (0, 0)
    assert persistence([5, 6], [6, 5]) == (1, 1)


def test_improvement_split():  # [ei-split]
    old, new = (0.3, 0.2, 0.25), (0.28, 0.15, 0.22)
    overall, local = improvement_split(*old, *new)
    assert overall == pytest.approx(-0.01146836984, rel=1e-9)
    assert local == pytest.approx(-0.01123474427, rel=1e-9)
    assert np.exp(log_ei(*old)) == pytest.approx(0.05726893964, rel=1e-9)
    assert np.exp(log_ei(*new)) == pytest.approx(0.03456582554, rel=1e-9)


def test_improvement_split_to_first_order():
    """Phi(u) d best, and -Phi(u) d mean + phi(u) d std."""
    from scipy.stats import norm

    u = (POOL_BEST - POOL_MEAN) / POOL_STD
    overall, local = improvement_split(
        POOL_MEAN, POOL_STD, POOL_BEST, POOL_MEAN + 2e-7, POOL_STD + 3e-7, POOL_BEST - 1e-7
    )
    np.testing.assert_allclose(overall, -1e-7 * norm.cdf(u), rtol=1e-4)
    np.testing.assert_allclose(local, -2e-7 * norm.cdf(u) + 3e-7 * norm.pdf(u), rtol=1e-4)
