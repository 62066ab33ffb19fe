"""How runs are compared (dossier section 20), each measure one function of plain arrays.

A run is two arrays: `costs` and `values` of its evaluations in order, NaN where one has no value.
What is known after spending c is the right-continuous step function

    best(c) = min { y_i : c_1 + ... + c_i <= c },   NaN before the first value:

an improvement counts from the moment it was paid for; nothing is interpolated or extrapolated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

DRAWS = 2_000


def best_so_far(values: ArrayLike) -> Array:
    """Running minimum; NaN before the first value."""
    return np.asarray(np.fmin.accumulate(np.asarray(values, dtype=np.float64)))


def best_at(costs: ArrayLike, values: ArrayLike, at: ArrayLike) -> Array:
    """best(c) at each of `at`."""
    paid = np.cumsum(np.asarray(costs, dtype=np.float64))
    best = np.concatenate([[np.nan], best_so_far(values)])
    # A millionth of a millionth: the sum of costs may miss a limit it reaches exactly.
    reached = np.searchsorted(paid, np.asarray(at, dtype=np.float64) * (1 + 1e-12), side="right")
    return np.asarray(best[reached])


def cost_to_reach(costs: ArrayLike, values: ArrayLike, target: float) -> float:
    """The least c with best(c) <= target; inf if there is none."""
    paid = np.cumsum(np.asarray(costs, dtype=np.float64))
    reached = np.flatnonzero(best_so_far(values) <= target)
    return float(paid[reached[0]]) if len(reached) else float("inf")


def normalised(curves: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """(v - best final) / (worst initial - best final) over all methods (CArBO figure 5).

    A curve's initial value is its first that is not NaN. 0 everywhere if nothing varies.
    """
    arrays = {name: np.asarray(curve, dtype=np.float64) for name, curve in curves.items()}
    low = min(np.nanmin(curve) for curve in arrays.values())
    high = max(curve[np.isfinite(curve)][0] for curve in arrays.values())
    width = high - low
    return {name: (curve - low) / width if width else 0.0 * curve for name, curve in arrays.items()}


def saving(
    ours: tuple[ArrayLike, ArrayLike], rival: tuple[ArrayLike, ArrayLike], budget: float
) -> float:
    """100 (budget - what we paid to reach the rival's final best) / budget, in percent.

    If we never reach it, the same from the rival's side with a minus: -100 (budget - what the rival
    paid to reach our final best) / budget; the paper does not say what its negative figures are.
    """
    final = [best_at(*run, [budget])[0] for run in (ours, rival)]
    if np.isnan(final[1]) or (not np.isnan(final[0]) and final[0] <= final[1]):
        target = final[1] if not np.isnan(final[1]) else final[0]
        paid = cost_to_reach(*ours, target)
        return float(100.0 * (budget - min(paid, budget)) / budget)
    target = final[0] if not np.isnan(final[0]) else final[1]
    return float(-100.0 * (budget - min(cost_to_reach(*rival, target), budget)) / budget)


def ranks(values: ArrayLike) -> Array:
    """Ranks along the last axis, 1 the lowest, ties averaged, NaN the worst."""
    from scipy.stats import rankdata

    array = np.asarray(values, dtype=np.float64)
    return np.asarray(rankdata(np.where(np.isnan(array), np.inf, array), axis=-1))


def time_gain(cost: ArrayLike, cost_of_ei: ArrayLike) -> Array:
    """100 (C_EI - C) / C_EI, percent, per problem and seed (Guinet et al., figures 3 and 5)."""
    reference = np.asarray(cost_of_ei, dtype=np.float64)
    return np.asarray(100.0 * (reference - np.asarray(cost)) / reference)


def performance_loss(value: ArrayLike, value_of_ei: ArrayLike) -> Array:
    """100 (y - y_EI) / |y_EI|, percent, per problem and seed; unstable where y_EI is near 0."""
    reference = np.asarray(value_of_ei, dtype=np.float64)
    return np.asarray(100.0 * (np.asarray(value) - reference) / np.abs(reference))


def cost_adjusted_regret(
    costs: ArrayLike, values: ArrayLike, *, optimum: float, worth: float
) -> Array:
    """best_i - f* + worth (c_1 + ... + c_i), after each evaluation (Xie et al.)."""
    return np.asarray(best_so_far(values) - optimum + worth * np.cumsum(np.asarray(costs)))


def bootstrap(
    groups: Sequence[ArrayLike],
    statistic: Callable[[Array], float] = lambda means: float(np.mean(means)),
    *,
    share: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile interval of a statistic of the groups' means, resampled in two stages.

    `groups` has one array of seeds for each problem: problems are drawn with replacement, then the
    seeds within each problem drawn; `statistic` takes the drawn problems' means.
    """
    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    rng = np.random.default_rng(seed)
    drawn = np.empty(draws)
    for i in range(draws):
        problems = rng.integers(len(arrays), size=len(arrays))
        means = [
            arrays[p][rng.integers(len(arrays[p]), size=len(arrays[p]))].mean() for p in problems
        ]
        drawn[i] = statistic(np.array(means))
    low, high = np.percentile(drawn, [50 * (1 - share), 50 * (1 + share)])
    return float(low), float(high)


def better_on_problems(ours: ArrayLike, theirs: ArrayLike) -> tuple[int, int, float, float]:
    """(wins, losses, p of the sign test, p of Wilcoxon's test), one figure per problem, lower wins.

    Two-sided; ties count for nobody. p is 1 where there is nothing to test.
    """
    from scipy.stats import binomtest, wilcoxon

    difference = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    wins, losses = int((difference < 0).sum()), int((difference > 0).sum())
    if wins + losses == 0:
        return 0, 0, 1.0, 1.0
    sign = binomtest(wins, wins + losses).pvalue
    untied = difference[difference != 0]
    rank = wilcoxon(untied).pvalue if len(untied) > 1 else 1.0
    return wins, losses, float(sign), float(rank)
