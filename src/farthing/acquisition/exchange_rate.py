"""Pandora's boxes: what opening them by their indices is expected to cost, and the exchange rate at
which that is a given budget.

Boxes f_k ~ N(mean_k, std_k^2), independent, are opened in the order of their Gittins indices g_k
until the best value is no more than the next index (Weitzman 1979):

    P(k is opened) = [best > g_k] prod_{j < k} P(f_j > g_k)
    E[cost]        = sum_k c_k P(k is opened)

It falls as the rate grows, to 0 at max EI / c, and jumps where the index of a box crosses `best`.

The points of a Gaussian process are not independent. What each adds to those before it is: the
boxes of a belief are the steps of a pivoted Cholesky factor, each with the standard deviation that
is left when the points before it are known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import log_ndtr

from farthing.acquisition.belief import Belief
from farthing.acquisition.search import Effort, candidates, is_among
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
MOST_ROWS = 1024  # of a table that are looked at
LOWEST = 1e-6  # of max EI / c: a budget that pays for more at this rate pays for everything
EXACT = 1e-11  # to which the logarithm of a rate is found


class Boxes(NamedTuple):
    """Mean, standard deviation and cost of each box, (n,) each."""

    mean: Array
    std: Array
    cost: Array


def expected_spending(boxes: Boxes, best: float, worth: float) -> float:
    """E[cost] of opening boxes by their indices until it is not worth it any more."""
    g = gittins(boxes.mean, boxes.std, np.log(worth) + np.log(boxes.cost))
    order = np.argsort(g, kind="stable")
    order = order[g[order] < best]
    mean, std, cost, g = boxes.mean[order], boxes.std[order], boxes.cost[order], g[order]
    higher = log_ndtr((mean - g[:, None]) / std)  # [k, j]: ln P(f_j > g_k)
    return float(cost @ np.exp(np.tril(higher, -1).sum(axis=1)))


def exchange_rate_of_budget(boxes: Boxes, best: float, budget: float) -> float:
    """The least exchange rate at which the boxes are expected to cost at most the budget."""
    high = float((log_ei(boxes.mean, boxes.std, best) - np.log(boxes.cost)).max()) + EXACT
    low = high + float(np.log(LOWEST))
    if expected_spending(boxes, best, np.exp(low)) <= budget:
        return float(np.exp(low))
    while high - low > EXACT:
        middle = 0.5 * (low + high)
        if expected_spending(boxes, best, np.exp(middle)) > budget:
            low = middle
        else:
            high = middle
    return float(np.exp(high))


def boxes_of(belief: Belief, rng: np.random.Generator) -> Boxes:
    """The affordable, untried points as independent boxes, those that tell most first."""
    belief = belief.without_running().in_one_unit()
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
    return Boxes(gp.at(X[chosen]).mean[:, 0], std, price)


def with_rate_of_budget(belief: Belief) -> Belief:
    """With the exchange rate at which what is left would be spent, found once and remembered."""
    if belief.objective is None:
        return belief
    found = belief.memories.get("worth")
    if found is None:
        resource = next(name for name in belief.ledger if name != "trials")
        left = belief.ledger[resource].left
        rng = np.random.default_rng([belief.seed, belief.number, MOST_BOXES])
        boxes = boxes_of(belief, rng) if resource in belief.cost else None
        if boxes is None or not len(boxes.cost):  # no costs, or nothing to pay for: not yet
            return replace(belief, worth=belief.scale / left)
        found = {"rate": exchange_rate_of_budget(boxes, float(np.mean(belief.best)), left)}
    memories = {**belief.memories, "worth": found}
    return replace(belief, worth=float(found["rate"]), memories=memories)
