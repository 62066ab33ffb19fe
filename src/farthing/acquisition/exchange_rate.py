"""The exchange rate that spends a budget, from the expected cost of Pandora's box problem.

The boxes f_k ~ N(mean_k, std_k^2) are independent. The optimal policy opens them in the order of
their Gittins indices g_k until the best value is at most the next index (Weitzman 1979):

    P(k is opened) = [best > g_k] prod_{j < k} P(f_j > g_k)
    E[cost]        = sum_k c_k P(k is opened)

A box that is feasible with probability p_k counts only then. Its index solves EI(g_k) p_k = worth
c_k, and P(f_j > g_k) becomes 1 - p_j P(f_j <= g_k).

E[cost] falls as the exchange rate grows and reaches 0 at max EI / c. It jumps where the index of a
box crosses `best`.

The points of a Gaussian process are not independent, but the innovations of a pivoted Cholesky
factor are. Each box of a belief is one pivot. Its standard deviation is conditional on the pivots
before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import log_ndtr, ndtr

from farthing.acquisition.belief import Belief
from farthing.acquisition.search import Effort, candidates, is_among
from farthing.models.gp import GP
from farthing.models.normal import expected_cost, gittins, log_ei

__all__ = [
    "Boxes",
    "boxes_of",
    "exchange_rate_of_budget",
    "expected_spending",
    "with_rate_of_budget",
]

Array = NDArray[np.float64]

MOST_BOXES = 128
MOST_ROWS = 1024  # rows of a table to consider, drawn at random
LOWEST = 1e-6  # in units of max EI / c: the lowest exchange rate to return
MIN_LOG_P = -20.0  # lower bound of a log probability, so that 1 / P stays finite
TOLERANCE = 1e-11  # of the logarithm of the exchange rate


class Boxes(NamedTuple):
    """Mean, standard deviation and cost of each box, (n,) each.

    Attributes:
        log_feasible: ln P(the box meets the constraints); None without constraints.
    """

    mean: Array
    std: Array
    cost: Array
    log_feasible: Array | None = None

    @property
    def log_price(self) -> Array:
        """ln of the expected cost per feasible box."""
        log_cost = np.log(self.cost)
        return log_cost if self.log_feasible is None else log_cost - self.log_feasible


def expected_spending(boxes: Boxes, best: float, worth: float) -> float:
    """E[cost] of the optimal policy at the exchange rate `worth` (module docstring)."""
    g = gittins(boxes.mean, boxes.std, np.log(worth) + boxes.log_price)
    order = np.argsort(g, kind="stable")
    order = order[g[order] < best]
    mean, std, cost, g = boxes.mean[order], boxes.std[order], boxes.cost[order], g[order]
    higher = log_ndtr((mean - g[:, None]) / std)  # [k, j]: ln P(f_j > g_k)
    if boxes.log_feasible is not None:
        feasible = np.exp(boxes.log_feasible[order])
        higher = np.log1p(-np.minimum(feasible * ndtr((g[:, None] - mean) / std), 1.0 - 1e-16))
    return float(cost @ np.exp(np.tril(higher, -1).sum(axis=1)))


def exchange_rate_of_budget(boxes: Boxes, best: float, budget: float) -> float:
    """The least exchange rate at which E[cost] is at most the budget, by bisection."""
    high = float((log_ei(boxes.mean, boxes.std, best) - boxes.log_price).max()) + TOLERANCE
    low = high + float(np.log(LOWEST))
    if expected_spending(boxes, best, np.exp(low)) <= budget:
        return float(np.exp(low))
    while high - low > TOLERANCE:
        middle = 0.5 * (low + high)
        if expected_spending(boxes, best, np.exp(middle)) > budget:
            low = middle
        else:
            high = middle
    return float(np.exp(high))


def boxes_of(belief: Belief, rng: np.random.Generator) -> Boxes:
    """The affordable, untried points as independent boxes, largest standard deviation first."""
    if belief.trainings is None:
        belief = belief.without_running()
    belief = belief.in_one_unit()
    gp, rows = belief.objective, belief.space.rows
    assert gp is not None
    if rows is None:
        X = candidates(belief.space, rng, belief.top, Effort())
    else:
        X = rows[np.sort(rng.permutation(len(rows))[:MOST_ROWS])]
    X = X[~is_among(X, belief.tried)]
    cost, shortfall = belief.costs(X)
    X, (m, s) = X[shortfall <= 0], (part[shortfall <= 0] for part in cost)
    if not len(X):
        return Boxes(np.zeros(0), np.zeros(0), np.zeros(0))
    factor, pivots, rank, _ = lapack.dpstrf(gp.covariance(X) / gp.scale**2, lower=1)
    count = min(int(rank), MOST_BOXES)
    chosen = pivots[:count] - 1
    price = np.exp(expected_cost(m[chosen], s[chosen], belief.cap))
    std = gp.scale * np.diag(factor)[:count]
    feasible = np.maximum(belief.log_feasible(X[chosen]), MIN_LOG_P) if belief.feasibility else None
    return Boxes(gp.at(X[chosen]).mean[:, 0], std, price, feasible)


def with_rate_of_budget(belief: Belief) -> Belief:
    """The belief with the exchange rate at which E[cost] is the remaining budget.

    The rate is computed once and stored in the notes of the trials.
    """
    trainings, given, rate = belief.trainings, belief, 1.0
    if trainings is not None:  # boxes are whole trainings, in units of the model of the curves
        final = cast(GP, trainings.curves.new)  # it has the methods of a GP that boxes need
        belief = replace(belief, objective=final, best=trainings.best)
        rate = trainings.curves.scaling.rate(trainings.value)
    if belief.objective is None:
        return belief
    found = belief.memories.get("worth")
    if found is None:
        resource = next(name for name in belief.ledger if name != "trials")
        left = belief.ledger[resource].left
        rng = np.random.default_rng([belief.seed, belief.number, MOST_BOXES])
        can_compare = resource in belief.cost and not belief.lacks_feasible
        boxes = boxes_of(belief, rng) if can_compare else None
        # No cost model, no boxes or no incumbent: a provisional rate.
        if boxes is None or not len(boxes.cost):
            return replace(given, worth=belief.scale / left / rate)
        in_model = exchange_rate_of_budget(boxes, float(np.mean(belief.best)), left)
        found = {"rate": in_model / rate}
    memories = {**belief.memories, "worth": found}
    return replace(given, worth=float(found["rate"]), memories=memories)
