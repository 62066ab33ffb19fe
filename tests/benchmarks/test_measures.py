"""The measures of benchmarks/evidence/measures.py against known numbers and slow versions."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.evidence import measures

A = ([4, 6, 10, 20, 10], [0.50, 0.40, 0.42, 0.30, 0.29])
B = ([2, 2, 6, 10, 10, 20], [0.55, 0.48, 0.35, 0.36, 0.285, 0.28])
AT = [5, 10, 20, 30, 40, 50]


def test_alignment_is_a_step_function():  # [anytime-curves]
    np.testing.assert_array_equal(measures.best_at(*A, AT), [0.5, 0.4, 0.4, 0.4, 0.3, 0.29])
    np.testing.assert_array_equal(measures.best_at(*B, AT), [0.48, 0.35, 0.35, 0.285, 0.285, 0.28])


def test_nothing_is_known_before_the_first_evaluation_ends():
    assert np.isnan(measures.best_at(*A, [0, 3.999])).all()
    assert measures.best_at(*A, [4])[0] == 0.5
    assert measures.best_at([1, 1, 1], [np.nan, 2.0, np.nan], [1, 2, 3]).tolist()[1:] == [2.0, 2.0]


def test_saving():  # [anytime-curves]
    assert measures.saving(B, A, 50) == pytest.approx(40)
    # A never reaches B's 0.28; B reached A's final 0.29 at 30.
    assert measures.saving(A, B, 50) == pytest.approx(-40)
    assert measures.saving(A, A, 50) == pytest.approx(0)


def test_time_saved_is_against_the_rival_s_own_time():
    # To 0.29, the worse final: B pays 30, A 50.
    assert measures.time_saved(B, A, 50) == pytest.approx(100 * (50 - 30) / 50)
    assert measures.time_saved(A, B, 50) == pytest.approx(-40)
    early = ([1, 9], [0.3, 0.9])
    assert measures.saving(early, early, 10) == pytest.approx(90)  # nine tenths over itself
    assert measures.time_saved(early, early, 10) == 0.0


def test_what_differs_by_less_than_a_row_is_reached():
    ours, rival = ([1, 1], [0.3001, 0.3]), ([1, 1], [0.5, 0.3])
    assert measures.time_saved(ours, rival, 2) == 0.0
    assert measures.time_saved(ours, rival, 2, tie=2e-4) == pytest.approx(50)
    assert measures.time_saved(rival, ours, 2, tie=2e-4) == pytest.approx(-50)


def test_a_run_without_a_value_saves_nothing_over_anything():
    nothing = ([5.0], [np.nan])
    assert measures.time_saved(A, nothing, 50) == 100.0
    assert measures.time_saved(nothing, A, 50) == -100.0
    assert measures.time_saved(nothing, nothing, 50) == 0.0


def traces(rng, count, speed=1.0):
    """Synthetic runs: a value that falls towards 0.1 with what was paid, and noise."""
    found = []
    for _ in range(count):
        costs = rng.lognormal(0.0, 0.5, 60)
        values = 0.1 + 0.5 * np.exp(-speed * np.cumsum(costs) / 15) * rng.random(60)
        found.append((costs, np.round(values, 3)))
    return found


def test_a_method_saves_nothing_over_another_seed_of_itself():
    """The control of every saving, on synthetic traces of many problems."""
    rng = np.random.default_rng(0)
    groups, faster = [], []
    for _ in range(60):
        runs = traces(rng, 10)
        groups.append([measures.time_saved(a, b, 60) for a, b in measures.another_seed(runs)])
        twice = traces(rng, 10, speed=2.0)
        faster.append([measures.time_saved(a, b, 60) for a, b in zip(twice, runs, strict=True)])
    net, low, high = measures.mean_of_medians(groups)
    assert abs(net) < 5
    assert low < 0 < high
    assert measures.mean_of_medians(faster)[1] > 20  # and one twice as fast saves much


def test_the_control_takes_each_run_with_the_next():
    assert measures.another_seed([1, 2, 3]) == [(1, 2), (2, 3), (3, 1)]
    assert measures.another_seed([1]) == []


def test_mean_of_medians():
    mean, low, high = measures.mean_of_medians([[1.0, 2.0, 9.0], [4.0, 4.0, 4.0], []])
    assert mean == 3.0
    assert low < mean < high
    assert np.isnan(measures.mean_of_medians([])).all()


def test_problems_of_one_family_are_drawn_together():
    groups = [[0.0], [0.0], [0.0], [10.0]]
    alone, together = (
        measures.mean_of_medians(groups, families=families)
        for families in (None, ["a", "a", "a", "b"])
    )
    assert alone[0] == together[0] == 2.5
    assert together[2] == 10.0  # only family b is drawn in a quarter of the draws
    assert alone[2] < 10.0


@pytest.mark.parametrize(
    ("p_values", "rejected"),
    [
        ([0.01, 0.04, 0.03], [True, False, False]),  # 0.03 > 0.05 / 2 ends it
        ([0.04, 0.01, 0.02], [True, True, True]),
        ([0.06], [False]),
        ([], []),
    ],
)
def test_holm(p_values, rejected):
    assert measures.holm(p_values) == rejected


def test_normalised_performance():  # [anytime-curves]
    own = {"A": measures.best_so_far(A[1]), "B": measures.best_so_far(B[1])}
    found = measures.normalised(own)
    expected = {
        "A": [0.8148148148, 0.4444444444, 0.4444444444, 0.07407407407, 0.03703703704],
        "B": [1, 0.7407407407, 0.2592592593, 0.2592592593, 0.01851851852, 0],
    }
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12)


def test_cost_adjusted_regret():  # [anytime-curves]
    for run, expected in (
        (A, [0.254, 0.16, 0.17, 0.09, 0.09]),
        (B, [0.302, 0.234, 0.11, 0.12, 0.065, 0.08]),
    ):
        found = measures.cost_adjusted_regret(*run, optimum=0.25, worth=1e-3)
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.argmin(measures.cost_adjusted_regret(*B, optimum=0.25, worth=1e-3)) == 4


def test_ranks():  # [mean-ranks]
    found = measures.ranks([[0.30, 0.28, 0.31], [0.30, 0.33, 0.30], [0.25, 0.25, 0.27]])
    assert found.tolist() == [[2, 1, 3], [1.5, 3, 1.5], [1.5, 1.5, 3]]
    np.testing.assert_allclose(found.mean(axis=0), [1.666666667, 1.833333333, 2.5], rtol=1e-9)


def test_a_method_without_a_value_is_ranked_last():
    assert measures.ranks([np.nan, 0.1, 1e9]).tolist() == [3, 1, 2]


def test_ranks_with_ties_of_a_row():
    """0.1 and 0.3 tie with 0.2, but not with each other: half a duel each."""
    assert measures.ranks([0.1, 0.2, 0.3], tie=0.15).tolist() == [1.5, 2.0, 2.5]
    assert measures.ranks([np.nan, np.nan, 1.0], tie=0.15).tolist() == [2.5, 2.5, 1.0]


@given(st.lists(st.integers(0, 5) | st.just(None), min_size=1, max_size=8))
def test_ranks_without_a_tie_are_the_usual_ones(values):
    from scipy.stats import rankdata

    array = np.array([np.nan if v is None else v for v in values], dtype=float)
    np.testing.assert_array_equal(measures.ranks(array), rankdata(np.nan_to_num(array, nan=99.0)))


def test_wilson_s_interval():
    # Newcombe 1998, table I, method 3: 81 of 263 and 15 of 148.
    assert measures.wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert measures.wilson(15 / 148, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    low, high = measures.wilson(1.0, 3)
    assert (low, high) == (pytest.approx(0.4385, abs=5e-5), 1.0)  # three of three decide nothing
    assert measures.wilson(0.5, 0) == (0.0, 1.0)


@pytest.mark.slow
def test_bootstrap_agrees_with_all_resamples():  # [bootstrap-interval]
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


def test_bi_optimisation_is_a_mean_of_ratios():  # [time-gains]
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
