"""The staged Gittins index, compared with dynamic programming and with discrete chains."""

import itertools

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from farthing.acquisition.staged_index import (
    index_bounds,
    revealed,
    staged_index,
    staged_thresholds,
)
from farthing.models.normal import gittins

# s1, s2, c1, c2 and the index when maximising, prior N(0, 1)
TWO_STAGES = [
    ((0.8, 0.6), (0.05, 0.15), 0.9031608673),
    ((0.8, 0.6), (0.02, 0.18), 1.2087683101),
    ((0.8, 0.6), (0.1, 0.1), 0.6724173212),
    ((0.8, 0.6), (0.2, 1e-30), 0.4928873272),
]


def index(mean, sigma, price):
    return float(staged_index(np.array([mean]), np.array([sigma]), np.array([price]))[0])


def random_chains(rng, m, J, least=1e-3):
    return rng.uniform(0.1, 0.6, (m, J)), least ** rng.random((m, J))


@pytest.mark.parametrize(("sigma", "price", "expected"), TWO_STAGES)
def test_two_stages(sigma, price, expected):  # [staged-index]
    assert -index(0.0, sigma, price) == pytest.approx(expected, abs=5e-7)


def test_the_threshold_after_the_first_rung():  # [staged-index]
    sigma, price, expected = TWO_STAGES[0]
    a = staged_thresholds(np.array([sigma]), np.array([price]))[0]
    assert -(a[0] - a[1]) == pytest.approx(0.696240, abs=1e-6)
    finer = staged_thresholds(np.array([sigma]), np.array([price]), nodes=97)[0]
    assert -finer[0] == pytest.approx(expected, abs=1e-9)


def by_dynamic_programming(sigma, price):
    """The index by nested quadrature on two grids, extrapolated: the error is of second order."""
    coarse, fine = (on_a_grid(sigma, price, size) for size in (1201, 2401))
    return (4.0 * fine - coarse) / 3.0


def on_a_grid(sigma, price, size):
    u = np.linspace(-5.0, 7.0, size)
    z = np.linspace(-7.0, 7.0, 1001)
    w = np.exp(-0.5 * z * z)
    w /= w.sum()
    W = np.maximum(u, 0.0)
    for k in range(len(sigma) - 1, -1, -1):
        moved = u[:, None] - sigma[k] * z
        there = np.where(moved > u[-1], W[-1] + moved - u[-1], np.interp(moved, u, W))
        V = there @ w - price[k]
        W = np.maximum(V, 0.0)
    at = int(np.argmax(V > 0))
    return float(np.interp(0.0, V[at - 1 : at + 1], u[at - 1 : at + 1]))


@pytest.mark.parametrize("J", [2, 3, 5])
def test_dynamic_programming_on_a_grid(J):
    rng = np.random.default_rng(J)
    sigma, price = random_chains(rng, 3, J)
    found = staged_index(np.zeros(3), sigma, price)
    for i in range(3):
        assert found[i] == pytest.approx(by_dynamic_programming(sigma[i], price[i]), abs=1e-4)


# ---------------------------------------------------------------- chains of a few states
def value_of_going_on(chain, state, g):
    """W: what it is worth to go on from a state if g can be had without this chain (minimising)."""
    price, outcomes = chain[state]
    if not outcomes:
        return max(g - state[-1], 0.0)
    ahead = sum(p * value_of_going_on(chain, (*state, v), g) for p, v in outcomes)
    return max(0.0, ahead - price)


def discrete_index(chain, state):
    """The root of the value of going on, by bisection."""
    price, outcomes = chain[state]
    low, high = -50.0, 50.0
    for _ in range(200):
        g = 0.5 * (low + high)
        ahead = sum(p * value_of_going_on(chain, (*state, v), g) for p, v in outcomes)
        low, high = (low, g) if ahead > price else (g, high)
    return 0.5 * (low + high)


def random_tree(rng, stages):
    """{states so far: (price of going on, [(probability, next state)])}; a leaf has no outcomes."""
    chain = {}

    def grow(state):
        if len(state) == stages + 1:
            chain[state] = (0.0, [])
            return
        p = rng.uniform(0.2, 0.8)
        values = rng.normal(state[-1], 1.0, 2)
        chain[state] = (rng.uniform(0.02, 0.5), [(p, values[0]), (1 - p, values[1])])
        for value in values:
            grow((*state, value))

    grow((0.0,))
    return chain


def optimal(chains, states, best, memo):
    """The least expected (best value + prices paid), over all ways to go on."""
    key = (tuple(states), best)
    if key not in memo:
        found = best
        for i, chain in enumerate(chains):
            price, outcomes = chain[states[i]]
            if outcomes:
                found = min(found, price + after(chains, states, best, i, memo, optimal))
        memo[key] = found
    return memo[key]


def after(chains, states, best, i, memo, go_on):
    total = 0.0
    for p, v in chains[i][states[i]][1]:
        moved = [*states[:i], (*states[i], v), *states[i + 1 :]]
        ended = not chains[i][tuple(moved[i])][1]
        total += p * go_on(chains, moved, min(best, v) if ended else best, memo)
    return total


def by_index(chains, states, best, memo):
    """The same, if always the chain of smallest index goes on while that index is below best."""
    going = [i for i, chain in enumerate(chains) if chain[states[i]][1]]
    if not going:
        return best
    g = {i: memo.setdefault((i, states[i]), discrete_index(chains[i], states[i])) for i in going}
    i = min(going, key=g.get)
    if g[i] >= best:
        return best
    return chains[i][states[i]][0] + after(chains, states, best, i, memo, by_index)


@pytest.mark.parametrize(("seed", "count"), [(0, 2), (1, 2), (2, 3), (3, 3)])
def test_the_index_policy_is_optimal_on_random_chains(seed, count):
    rng = np.random.default_rng(seed)
    chains = [random_tree(rng, 2) for _ in range(count)]
    states, best = [(0.0,)] * count, 0.3
    exact = optimal(chains, states, best, {})
    assert exact < best - 0.01  # something is worth its price
    assert by_index(chains, states, best, {}) == pytest.approx(exact, abs=1e-9)


def test_the_index_of_a_discretised_chain():
    """The chain whose steps take the nodes of a quadrature has almost the same index."""
    sigma, price = (0.7, 0.5), (0.1, 0.12)
    z, w = hermegauss(60)
    chain = {(0.0,): (price[0], list(zip(w / w.sum(), sigma[0] * z, strict=True)))}
    for v in sigma[0] * z:
        outcomes = list(zip(w / w.sum(), v + sigma[1] * z, strict=True))
        chain[(0.0, v)] = (price[1], outcomes)
        chain |= {(0.0, v, last): (0.0, []) for _, last in outcomes}
    assert index(0.0, sigma, price) == pytest.approx(discrete_index(chain, (0.0,)), abs=5e-3)


# ---------------------------------------------------------------- bounds and limits
def test_both_bounds_hold():
    rng = np.random.default_rng(7)
    for J in (2, 4, 7):
        sigma, price = random_chains(rng, 50, J, least=1e-5)
        mean, std = rng.normal(size=50), np.sqrt((sigma**2).sum(axis=1))
        low, high = index_bounds(mean, std, price[:, 0], price.sum(axis=1))
        found = staged_index(mean, sigma, price)
        assert (low - 1e-9 <= found).all()
        assert (found <= high + 1e-9).all()
        assert ((high - low) > 1e-3).any()


def test_one_rung_is_the_gittins_index_bit_for_bit():
    rng = np.random.default_rng(3)
    mean, sigma, price = rng.normal(size=9), rng.random((9, 1)), rng.random((9, 1))
    found = staged_index(mean, sigma, price)
    assert (found == gittins(mean, sigma[:, 0], np.log(price[:, 0]))).all()


def test_splitting_a_price_over_more_rungs_never_raises_the_index():
    rng = np.random.default_rng(11)
    for _ in range(20):
        sigma, price = random_chains(rng, 1, 3)
        share, cut = rng.random(2)
        parts = np.sqrt(share) * sigma[0, 1], np.sqrt(1 - share) * sigma[0, 1]
        split_sigma = [sigma[0, 0], *parts, sigma[0, 2]]
        split_price = [price[0, 0], cut * price[0, 1], (1 - cut) * price[0, 1], price[0, 2]]
        assert index(0.0, split_sigma, split_price) <= index(0.0, sigma[0], price[0]) + 1e-4
    # With the whole price at the first part, splitting changes nothing to speak of.
    assert index(0.0, (0.5, 0.5), (0.3, 1e-30)) == pytest.approx(
        index(0.0, (np.sqrt(0.5),), (0.3,)), abs=1e-6
    )


def test_an_infinite_cost_of_resuming_is_never_paid():
    sigma = np.full((3, 4), 0.4)
    price = np.full((3, 4), 0.05)
    price[1, 0] += 1e12  # a restart costs this much
    found = staged_index(np.array([0.5, -3.0, 0.4]), sigma, price)
    assert found[1] > 1e11
    assert int(np.argmin(found)) == 2


def test_symmetries():
    rng = np.random.default_rng(5)
    sigma, price = random_chains(rng, 8, 4)
    mean = rng.normal(size=8)
    found = staged_index(mean, sigma, price)
    assert staged_index(mean + 3.0, sigma, price) == pytest.approx(found + 3.0, abs=1e-12)
    assert staged_index(7.0 * mean, 7.0 * sigma, 7.0 * price) == pytest.approx(7.0 * found)
    order = rng.permutation(8)
    permuted = staged_index(mean[order], sigma[order], price[order])
    assert permuted == pytest.approx(found[order], abs=1e-10)


def test_chains_of_different_lengths_together():
    rng = np.random.default_rng(6)
    sigma, price = random_chains(rng, 6, 5)
    rungs = np.array([2, 5, 1, 3, 5, 4])
    mean = rng.normal(size=6)
    found = staged_index(mean, sigma, price, rungs)
    for i, J in enumerate(rungs):
        alone = index(mean[i], sigma[i, 5 - J :], price[i, 5 - J :])
        assert found[i] == pytest.approx(alone, abs=1e-7)


def test_no_uncertainty_left_costs_what_it_costs():
    assert index(0.2, (0.0, 0.0), (0.1, 0.3)) == pytest.approx(0.6, abs=1e-3)


# ---------------------------------------------------------------- what a rung reveals
def test_what_the_rungs_reveal_adds_up():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(4, 5, 5))
    C = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(5)
    noise = rng.uniform(0.01, 0.1, (4, 5))
    sigma = revealed(C, noise)
    assert (sigma**2).sum(axis=1) == pytest.approx(C[:, -1, -1])
    for i, k in itertools.product(range(4), range(4)):
        # The variance of the last rung that is left after observing rungs 0 to k.
        seen = C[i, : k + 1, : k + 1] + np.diag(noise[i, : k + 1])
        cross = C[i, : k + 1, -1]
        left = C[i, -1, -1] - cross @ np.linalg.solve(seen, cross)
        assert (sigma[i, k + 1 :] ** 2).sum() == pytest.approx(left)


def test_the_expected_final_value_is_a_martingale():
    """E m' = m, and its standard deviation is what `revealed` says."""
    rng = np.random.default_rng(2)
    A = rng.normal(size=(3, 3))
    C, noise = A @ A.T, np.full(3, 0.05)
    draws = rng.multivariate_normal(np.zeros(3), C, 200_000)
    first = draws[:, 0] + np.sqrt(0.05) * rng.standard_normal(len(draws))
    after_one = C[0, 2] / (C[0, 0] + 0.05) * first
    assert after_one.mean() == pytest.approx(0.0, abs=0.01)
    assert after_one.std() == pytest.approx(revealed(C[None], noise[None])[0, 0], rel=0.01)


def test_a_covariance_that_is_indefinite_by_rounding_reveals_what_its_neighbour_does():
    """Two rungs that are almost the same value: rounding made an eigenvalue negative."""
    C = np.array([[1.0, 1.0, 0.8], [1.0, 1.0, 0.8], [0.8, 0.8, 1.0]])
    wrong = C.copy()
    wrong[0, 1] = wrong[1, 0] = 1.0 + 1e-9
    good = np.broadcast_to(np.eye(3), (3, 3))
    none = np.zeros((2, 3))
    found = revealed(np.array([wrong, good]), none)
    expected = revealed(np.array([C + 1e-9 * np.eye(3), good]), none)
    assert found == pytest.approx(expected, abs=1e-3)
    assert (found[0] ** 2).sum() == pytest.approx(1.0, abs=1e-3)
