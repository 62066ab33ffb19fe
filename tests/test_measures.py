"""The measures of benchmarks/measures.py against the dossier's numbers and against slow oracles."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import measures

A = ([4, 6, 10, 20, 10], [0.50, 0.40, 0.42, 0.30, 0.29])
B = ([2, 2, 6, 10, 10, 20], [0.55, 0.48, 0.35, 0.36, 0.285, 0.28])
AT = [5, 10, 20, 30, 40, 50]


def test_alignment_is_a_step_function():  # [O-45]
    np.testing.assert_array_equal(measures.best_at(*A, AT), [0.5, 0.4, 0.4, 0.4, 0.3, 0.29])
    np.testing.assert_array_equal(measures.best_at(*B, AT), [0.48, 0.35, 0.35, 0.285, 0.285, 0.28])


def test_nothing_is_known_before_the_first_evaluation_ends():
    assert np.isnan(measures.best_at(*A, [0, 3.999])).all()
    assert measures.best_at(*A, [4])[0] == 0.5
    assert measures.best_at([1, 1, 1], [np.nan, 2.0, np.nan], [1, 2, 3]).tolist()[1:] == [2.0, 2.0]


def test_saving():  # [O-45]
    assert measures.saving(B, A, 50) == pytest.approx(40)
    # A never reaches B's 0.28; B reached A's final 0.29 at 30.
    assert measures.saving(A, B, 50) == pytest.approx(-40)
    assert measures.saving(A, A, 50) == pytest.approx(0)


def test_normalised_performance():  # [O-45]
    own = {"A": measures.best_so_far(A[1]), "B": measures.best_so_far(B[1])}
    found = measures.normalised(own)
    expected = {
        "A": [0.8148148148, 0.4444444444, 0.4444444444, 0.07407407407, 0.03703703704],
        "B": [1, 0.7407407407, 0.2592592593, 0.2592592593, 0.01851851852, 0],
    }
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12)


def test_cost_adjusted_regret():  # [O-45]
    for run, expected in (
        (A, [0.254, 0.16, 0.17, 0.09, 0.09]),
        (B, [0.302, 0.234, 0.11, 0.12, 0.065, 0.08]),
    ):
        found = measures.cost_adjusted_regret(*run, optimum=0.25, worth=1e-3)
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.argmin(measures.cost_adjusted_regret(*B, optimum=0.25, worth=1e-3)) == 4


def test_ranks():  # [O-46]
    found = measures.ranks([[0.30, 0.28, 0.31], [0.30, 0.33, 0.30], [0.25, 0.25, 0.27]])
    assert found.tolist() == [[2, 1, 3], [1.5, 3, 1.5], [1.5, 1.5, 3]]
    np.testing.assert_allclose(found.mean(axis=0), [1.666666667, 1.833333333, 2.5], rtol=1e-9)


def test_a_method_without_a_value_is_ranked_last():
    assert measures.ranks([np.nan, 0.1, 1e9]).tolist() == [3, 1, 2]


def test_bootstrap_agrees_with_all_resamples():  # [O-47]
    data = [0.12, 0.15, 0.11, 0.20]
    exact = np.percentile([np.mean(draw) for draw in product(data, repeat=4)], [2.5, 97.5])
    np.testing.assert_allclose(exact, [0.115, 0.18], atol=1e-12)
    # One problem: seeds are resampled; one seed per problem: problems are.
    for groups in ([data], [[value] for value in data]):
        np.testing.assert_allclose(measures.bootstrap(groups, draws=20_000), exact, atol=0.004)


def test_bootstrap_resamples_problems_before_seeds():
    """Seeds that agree within a problem say nothing about the next problem."""
    groups = [np.full(50, 0.0), np.full(50, 1.0)]
    low, high = measures.bootstrap(groups)
    assert (low, high) == (0.0, 1.0)


def test_bi_optimisation_is_a_mean_of_ratios():  # [O-48]
    gains = measures.time_gain([50, 60], [100, 80])
    assert gains.tolist() == [50, 25]
    assert gains.mean() == pytest.approx(37.5)
    losses = measures.performance_loss([0.21, 0.10], [0.20, 0.10])
    np.testing.assert_allclose(losses, [5, 0], atol=1e-12)


runs = st.lists(
    st.tuples(st.floats(0.01, 100), st.floats(-10, 10) | st.just(np.nan)), min_size=1, max_size=12
)


@given(runs, st.floats(0, 500))
def test_best_at_equals_the_definition(run, at):
    costs, values = zip(*run, strict=True)
    known = [y for i, y in enumerate(values) if sum(costs[: i + 1]) <= at and not np.isnan(y)]
    found = measures.best_at(costs, values, [at])[0]
    near = any(abs(sum(costs[: i + 1]) - at) < 1e-9 * (1 + at) for i in range(len(costs)))
    assert near or (np.isnan(found) if not known else found == min(known))


@given(runs, runs)
def test_saving_changes_sides_with_the_rivals(first, second):
    """What one saves the other loses, unless they end level."""
    ours, rival = (tuple(map(list, zip(*run, strict=True))) for run in (first, second))
    budget = max(sum(ours[0]), sum(rival[0]))
    ends = [measures.best_at(*run, [budget])[0] for run in (ours, rival)]
    if not np.isnan(ends).any() and ends[0] != ends[1]:
        forth, back = measures.saving(ours, rival, budget), measures.saving(rival, ours, budget)
        assert forth == pytest.approx(-back)
        assert forth == 0 or (forth > 0) == (ends[0] < ends[1])


def test_better_on_problems():
    wins, losses, sign, rank = measures.better_on_problems([1, 1, 1, 1, 5], [2, 2, 2, 2, 5])
    assert (wins, losses) == (4, 0)
    assert sign == pytest.approx(2 * 0.5**4)
    assert rank < 0.2
    assert measures.better_on_problems([1, 2], [1, 2]) == (0, 0, 1.0, 1.0)
