"""The EI-cost Pareto front, the exponent alpha that a choice implies, and persistence of fronts.

Guinet et al. 2020, section 3.1 and figures 1, 5 and 7. In the plane (ln c, ln EI) the level sets
of EI / c^alpha are straight lines of slope alpha. Some alpha chooses a point exactly if the point
lies on the upper hull.

    log_ei, log_cost   (m,)   ln EI and ln c of one finite set of candidates
    index sets         (k,)   rows of that set
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farthing.models.normal import log_ei

__all__ = [
    "ImpliedAlpha",
    "Persistence",
    "front",
    "implied_alpha",
    "improvement_split",
    "persistence",
]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


class ImpliedAlpha(NamedTuple):
    """The exponents alpha >= 0 for which the choice maximises EI / c^alpha."""

    low: float
    high: float
    supported: bool  # False: low > high, no exponent makes this choice
    minimax: float  # the exponent of least regret; if supported, the middle of [low, high] or low
    regret: float  # ln(EI_best / c_best^alpha) - ln(EI / c^alpha) at `minimax`; 0 if supported


class Persistence(NamedTuple):
    """The overlap of an old and a new front of the same candidates."""

    survival: float  # |old and new| / |old|
    jaccard: float  # |old and new| / |old or new|


def front(log_ei: ArrayLike, log_cost: ArrayLike) -> Indices:
    """The rows that no other row dominates in EI and cost, cheapest first; O(m log m).

    Row i is dropped if some j has EI_j >= EI_i and c_j <= c_i, one of them strictly or j < i.
    """
    improvement = np.asarray(log_ei, dtype=np.float64)
    order = np.lexsort((-improvement, np.asarray(log_cost, dtype=np.float64)))  # stable
    sorted_ei = improvement[order]
    keep = np.ones(order.size, dtype=bool)
    keep[1:] = sorted_ei[1:] > np.maximum.accumulate(sorted_ei)[:-1]
    return order[keep]


def implied_alpha(log_ei: ArrayLike, log_cost: ArrayLike, chosen: int) -> ImpliedAlpha:
    """The interval of alpha for which row s = `chosen` maximises EI / c^alpha.

    low  = max over more expensive j of (ln EI_j - ln EI_s) / (ln c_j - ln c_s), at least 0
    high = min over cheaper j of (ln EI_s - ln EI_j) / (ln c_s - ln c_j), inf if none is cheaper

    If it is empty, the minimax alpha: argmin_a [max_j (ln EI_j - a ln c_j) - (ln EI_s - a ln c_s)].
    """
    gain = np.asarray(log_ei, dtype=np.float64)
    gain = gain - gain[chosen]
    cost = np.asarray(log_cost, dtype=np.float64)
    cost = cost - cost[chosen]
    more_expensive, cheaper, level = cost > 0, cost < 0, cost == 0
    low = float(np.max(gain[more_expensive] / cost[more_expensive], initial=0.0))
    high = float(np.min(gain[cheaper] / cost[cheaper], initial=np.inf))
    if low <= high and gain[level].max() <= 0:
        return ImpliedAlpha(low, high, True, low if np.isinf(high) else 0.5 * (low + high), 0.0)
    alpha = _slope_above(cost, gain)
    return ImpliedAlpha(low, high, False, alpha, float(np.max(gain - alpha * cost)))


def persistence(before: ArrayLike, after: ArrayLike) -> Persistence:
    """Survival and Jaccard index of two fronts of the same candidates (Guinet et al., figure 7)."""
    both = np.intersect1d(before, after).size
    return Persistence(both / np.unique(before).size, both / np.union1d(before, after).size)


def improvement_split(
    mean: ArrayLike,
    std: ArrayLike,
    best: ArrayLike,
    new_mean: ArrayLike,
    new_std: ArrayLike,
    new_best: ArrayLike,
) -> tuple[Array, Array]:
    """The change of EI from one iteration to the next as a sum of two terms.

    global = EI(mean', std', best') - EI(mean', std', best)    the incumbent changed
    local  = EI(mean', std', best)  - EI(mean, std, best)      the posterior changed

    The split is exact; Guinet et al. 2020, appendix B, approximate it.
    """
    between = np.exp(log_ei(new_mean, new_std, best))
    return (
        np.exp(log_ei(new_mean, new_std, new_best)) - between,
        between - np.exp(log_ei(mean, std, best)),
    )


def _slope_above(cost: Array, gain: Array) -> float:
    """Slope of the front's upper hull above the origin, which is the chosen row.

    The regret max_j (gain_j - a cost_j) is convex in a. Its slope is minus the cost of the vertex
    that attains it. The minimum is the slope of the edge that spans cost 0, or a = 0 if there is
    no such edge.
    """
    rows = front(gain, cost)
    hull: list[tuple[float, float]] = []
    for point in zip(cost[rows], gain[rows], strict=True):
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    for left, right in pairwise(hull):
        if right[0] > 0:
            return _slope(left, right)
    return 0.0


def _slope(left: tuple[float, float], right: tuple[float, float]) -> float:
    return float((right[1] - left[1]) / (right[0] - left[0]))
