"""The cost-effective initial design (Lee et al. 2020, algorithm 1).

On a discretisation, alternately drop the most expensive candidate and the one closest to the design
until one is left. Evaluate it and repeat. Ties in cost drop the closest candidate first. Ties in
distance drop the most expensive one, then the one with the lower index. If the cost is constant,
this is greedy farthest-point selection (Gonzalez 1985).

The greedy variant chooses the candidate with the largest decrease of the fill distance

    fill(X) = sup over the domain of the distance to X    (eq. 2)

per cost. If no single point lowers the supremum, it uses the mean distance instead.

Both use the median cost, as the paper does. E[c] grows with the distance from known points. With
E[c], every distant point would look expensive even if the true cost is constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.initial_design import start
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.search import is_among, sobol
from farthing.models.kernel import embed

__all__ = ["CostEffectiveDesign"]

Array = NDArray[np.float64]

CANDIDATES = 2000  # at most; there are 100 d
DIGITS = 9  # distances and rates that agree to these digits are ties, whatever the rounding


def last_standing(cost: Array, distance: Array | None) -> int:
    """Index of the candidate that the inner loop of algorithm 1 leaves.

    Without distances (an empty design) it is the cheapest.
    """
    count = len(cost)
    index = np.arange(count)
    if distance is None:
        return int(np.lexsort((index, cost))[0])
    by_cost = np.lexsort((index, distance, -cost))  # most expensive first
    by_distance = np.lexsort((index, -cost, distance))  # closest first
    alive = np.ones(count, dtype=np.bool_)
    left, queues, heads = count, (by_cost, by_distance), [0, 0]
    turn = 0
    while left > 1:
        queue = queues[turn]
        while not alive[queue[heads[turn]]]:
            heads[turn] += 1
        alive[queue[heads[turn]]] = False
        left -= 1
        turn = 1 - turn
    return int(np.argmax(alive))


def best_filler(cost: Array, between: Array, distance: Array) -> int:
    """Index with the largest decrease of fill per cost; `between` is (domain, candidates)."""
    after = np.minimum(distance[:, None], between)
    gain = distance.max() - after.max(axis=0)
    if not gain.max() > 1e-12:
        gain = distance.mean() - after.mean(axis=0)
    rate = gain / cost
    return int(np.argmax(rate >= rate.max() * (1.0 - 10.0**-DIGITS)))


def distances(A: Array, B: Array) -> Array:
    """(a, b) Euclidean distances between embedded points."""
    squares = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2.0 * A @ B.T
    return np.asarray(np.round(np.sqrt(np.maximum(squares, 0.0)), DIGITS))


@dataclass(frozen=True)
class CostEffectiveDesign:
    """Cover the space with cheap points while the cost model is being learnt."""

    greedy: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({"cost"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The candidate that the inner loop of algorithm 1, or the greedy variant, selects."""
        if not belief.cost:
            return start(belief, rng)  # no cost is known yet
        space = belief.space
        domain = space.rows
        if domain is None:
            # Sort columns by name, so that the order of the parameters does not matter.
            column = np.argsort(np.argsort(space.names))
            domain = space.spread(sobol(min(100 * space.d, CANDIDATES), space.d)[:, column])
        elif len(domain) > CANDIDATES:
            keep = np.random.default_rng([belief.seed]).permutation(len(domain))[:CANDIDATES]
            domain = domain[np.sort(keep)]
        cost, shortfall = belief.costs(domain)
        allowed = (shortfall <= 0) & ~is_among(domain, belief.tried)
        if not allowed.any():
            return start(belief, rng)  # it also looks between the candidates
        candidates = domain[allowed]
        price = np.exp(cost.mean[allowed])
        design = belief.history.X.reshape(-1, space.d)
        embedded = embed(domain, space.options)
        chosen, fill = _choose(
            price, embedded[allowed], embedded, embed(design, space.options), self.greedy
        )
        if np.isinf(fill):
            return Proposal(candidates[chosen], "the cheapest point", notes={"phase": "start"})
        return Proposal(
            candidates[chosen],
            "cheap and far from the points tried (before it, the largest distance to them is "
            f"{fill:.3g}, in units of the parameter ranges)",
            notes={"phase": "start", "fill": fill},
        )


def _choose(
    price: Array, candidates: Array, domain: Array, design: Array, greedy: bool
) -> tuple[int, float]:
    """The chosen candidate and the fill distance before it."""
    if not len(design):
        return last_standing(price, None), np.inf
    reach = distances(domain, design).min(axis=1)
    fill = float(reach.max())
    if greedy:
        return best_filler(price, distances(domain, candidates), reach), fill
    return last_standing(price, distances(candidates, design).min(axis=1)), fill
