"""How runs are compared, each measure one function of plain arrays.

A run is two arrays: `costs` and `values` of its evaluations in order, NaN where one has no value.
The best value after spending c is the right-continuous step function

    best(c) = min { y_i : c_1 + ... + c_i <= c },   NaN before the first value:

an improvement counts from the moment its cost is paid; nothing is interpolated or extrapolated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
T = TypeVar("T")

DRAWS = 2_000


def best_so_far(values: ArrayLike) -> Array:
    """Running minimum; NaN before the first value."""
    return np.asarray(np.fmin.accumulate(np.asarray(values, dtype=np.float64)))


def best_at(costs: ArrayLike, values: ArrayLike, at: ArrayLike) -> Array:
    """best(c) at each of `at`."""
    paid = np.cumsum(np.asarray(costs, dtype=np.float64))
    best = np.concatenate([[np.nan], best_so_far(values)])
    # By rounding, the sum of costs may miss a limit that it reaches exactly: hence 1e-12.
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
    """100 (budget - own cost to reach the rival's final best) / budget, in percent (CArBO).

    If it is never reached, the same for the rival with a minus: -100 (budget - the rival's cost to
    reach our final best) / budget; the paper does not define its negative figures. The rival
    reaches its final value before the budget is spent, so it scores more than 0 against itself.
    Compare with `another_seed`, or use `time_saved`.
    """
    final = [best_at(*run, [budget])[0] for run in (ours, rival)]
    if np.isnan(final[1]) or (not np.isnan(final[0]) and final[0] <= final[1]):
        target = final[1] if not np.isnan(final[1]) else final[0]
        paid = cost_to_reach(*ours, target)
        return float(100.0 * (budget - min(paid, budget)) / budget)
    target = final[0] if not np.isnan(final[0]) else final[1]
    return float(-100.0 * (budget - min(cost_to_reach(*rival, target), budget)) / budget)


def time_saved(
    ours: tuple[ArrayLike, ArrayLike],
    rival: tuple[ArrayLike, ArrayLike],
    budget: float,
    *,
    tie: float = 0.0,
) -> float:
    """100 (t_rival - t_ours) / max(t_rival, t_ours), percent: against the rival's own time.

    t is the cost to come within `tie` of the worse of the two final values, which both reach.
    Swapping the methods changes the sign, so a method saves nothing over itself. Without a value
    of the rival: 100.
    """
    final = np.array([best_at(*run, [budget])[0] for run in (ours, rival)])
    if np.isnan(final).any():
        return 100.0 * float(np.isnan(final[1])) - 100.0 * float(np.isnan(final[0]))
    target = float(final.max()) + tie
    mine, theirs = (cost_to_reach(*run, target) for run in (ours, rival))
    return 100.0 * (theirs - mine) / max(theirs, mine)


def another_seed(runs: Sequence[T]) -> list[tuple[T, T]]:
    """Each run with the next one of the same method, the control of every saving."""
    return [(runs[i], runs[(i + 1) % len(runs)]) for i in range(len(runs)) if len(runs) > 1]


def ranks(values: ArrayLike, *, tie: float = 0.0) -> Array:
    """1 + duels lost + 1/2 duels tied, along the last axis; NaN loses to every number.

    A duel is tied where two values differ by no more than `tie`; with 0 these are the usual ranks,
    1 the lowest, ties averaged.
    """
    array = np.asarray(values, dtype=np.float64)
    array = np.where(np.isnan(array), np.inf, array)
    one, other = array[..., :, None], array[..., None, :]
    with np.errstate(invalid="ignore"):  # inf - inf
        tied = (one == other) | (np.abs(one - other) <= tie)
    lost = ~tied & (one > other)
    return np.asarray(0.5 + lost.sum(axis=-1) + 0.5 * tied.sum(axis=-1))


def wilson(won: float, duels: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's 95 % interval of a share `won` of `duels` duels; [0, 1] without duels."""
    if duels == 0:
        return 0.0, 1.0
    shrunk = 1.0 + z * z / duels
    middle = (won + z * z / (2 * duels)) / shrunk
    half = z / shrunk * np.sqrt(won * (1 - won) / duels + (z / (2 * duels)) ** 2)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def holm(p_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of several tests reject if the chance of any false one is `level` (Holm 1979).

    The i-th smallest p of m is compared with level / (m - i), until one is larger.
    """
    order = np.argsort(p_values, kind="stable")
    rejected = [False] * len(p_values)
    for i, place in enumerate(order):
        if p_values[place] > level / (len(p_values) - i):
            break
        rejected[place] = True
    return rejected


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

    `groups` has one array of seeds for each problem: problems are drawn with replacement, then
    seeds within each drawn problem; `statistic` takes the drawn problems' means.
    """
    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    resampled = _resampled(tuple(map(len, arrays)), draws, seed)
    if len(set(map(len, arrays))) == 1:  # all at once: the page has many tables of this form
        table = np.array(arrays)
        problems = np.array([drawn for drawn, _ in resampled])
        seeds = np.array([within for _, within in resampled])
        means = table[problems[:, :, None], seeds].mean(axis=2)
    else:
        means = np.array(
            [
                [arrays[p][s].mean() for p, s in zip(drawn, within, strict=True)]
                for drawn, within in resampled
            ]
        )
    low, high = np.percentile(
        [statistic(row) for row in means], [50 * (1 - share), 50 * (1 + share)]
    )
    return float(low), float(high)


@lru_cache(maxsize=4)
def _resampled(
    sizes: tuple[int, ...], draws: int, seed: int
) -> list[tuple[NDArray[np.int64], list[NDArray[np.int64]]]]:
    """For each draw: the drawn problems, and the drawn seeds of each of them."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        problems = rng.integers(len(sizes), size=len(sizes))
        found.append((problems, [rng.integers(sizes[p], size=sizes[p]) for p in problems]))
    return found


def mean_of_medians(
    groups: Sequence[ArrayLike], *, families: Sequence[str] | None = None, draws: int = DRAWS
) -> list[float]:
    """[mean over problems of the median over seeds, its 95 % bounds], resampled in stages.

    Drawn with replacement: families, then as many problems of each as it has, then seeds. Without
    `families`, each problem is one of its own.
    """
    names = list(map(str, range(len(groups)))) if families is None else list(families)
    by: dict[str, list[tuple[float, ...]]] = {}
    for name, group in zip(names, groups, strict=True):
        if len(array := np.atleast_1d(np.asarray(group, dtype=np.float64))):
            by.setdefault(name, []).append(tuple(array.tolist()))
    if not by:
        return [float("nan")] * 3
    return list(_mean_of_medians(tuple(map(tuple, by.values())), draws))


@lru_cache(maxsize=64)  # verdict, table and claims of a page ask for the same figures
def _mean_of_medians(
    families: tuple[tuple[tuple[float, ...], ...], ...], draws: int
) -> tuple[float, float, float]:
    parts = [[np.array(group) for group in part] for part in families]
    rng = np.random.default_rng(0)
    drawn = np.empty(draws)
    for i in range(draws):
        some = [parts[f] for f in rng.integers(len(parts), size=len(parts))]
        picked = [part[p] for part in some for p in rng.integers(len(part), size=len(part))]
        drawn[i] = np.mean([np.median(a[rng.integers(len(a), size=len(a))]) for a in picked])
    low, high = np.percentile(drawn, [2.5, 97.5])
    every = [float(np.median(array)) for part in parts for array in part]
    return float(np.mean(every)), float(low), float(high)
