"""The search for the training of smallest staged Gittins index, new or paused.

New trainings come from the search of today on the model of the final value, ordered by the mean of
both bounds of the index. Only the most promising trainings get an index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.outlook import Outlook
from farthing.acquisition.rungs import (
    Chains,
    first_part,
    indices,
    new_chains,
    paused_chains,
    whole_cost,
)
from farthing.acquisition.scores import (
    Graded,
    Monotone,
    Score,
    ScoreView,
    gittins_index,
    look,
    maximise_score,
)
from farthing.acquisition.search import untried
from farthing.acquisition.trainings import Trainings

__all__ = ["Smallest", "StagedSearch", "between_bounds"]

FINALISTS = 16  # trainings whose index is computed


@dataclass(frozen=True)
class Smallest:
    """The training of smallest index, its place among its chains, and the incumbent."""

    chains: Chains
    k: int
    index: float
    best: float


class StagedSearch:
    """The search for the smallest index, at one rate after another."""

    def __init__(self, belief: Belief, trainings: Trainings, rng: np.random.Generator) -> None:
        self.belief, self.trainings, self.rng = belief, trainings, rng
        self.part = first_part(belief)
        self.paused = [c.take(c.affordable) for c in paused_chains(belief) if c.affordable.any()]
        self.seen: ScoreView | None = None

    def smallest(self, rate: float) -> Smallest | None:
        """The affordable training of smallest index, or None."""
        best = float(np.mean(self.trainings.best))
        if self.seen is None:
            self.seen = _seen(self.part, self.rng)
        score = between_bounds(self.belief, rate, best)
        found = maximise_score(self.part, score, self.rng, seen=self.seen)
        groups = list(self.paused)
        if len(found.X):
            new = new_chains(self.belief, found.X[:FINALISTS])
            groups.append(new.take(new.affordable))
        groups = [chains for chains in groups if len(chains.mean)]
        if not groups:
            return None
        groups = _finalists(groups, rate)
        found_indices = indices(self.belief, groups, rate)
        which = int(np.argmin([index.min() for index in found_indices]))
        k = int(np.argmin(found_indices[which]))
        return Smallest(groups[which], k, float(found_indices[which][k]), best)


def _seen(part: Belief, rng: np.random.Generator) -> ScoreView:
    """The starting points of a search. The rows of a table are screened in single precision."""
    if part.space.rows is None:
        return look(part, rng)
    X = untried(part.space.rows, part.tried)
    outlook = part.at_best(X)
    return ScoreView(X, outlook._replace(log_success=part.log_success(X)))


def _finalists(groups: list[Chains], rate: float) -> list[Chains]:
    """At most FINALISTS whose lower bound is at most the least upper bound, by both bounds."""
    bounds = [chains.bounds(rate) for chains in groups]
    most = min(float(high.min()) for _, high in bounds)
    middle = [np.where(low <= most, low + high, np.inf) for low, high in bounds]
    every = np.sort(np.concatenate(middle))
    limit = every[min(FINALISTS, len(every)) - 1]
    chosen = [(middle <= limit) & np.isfinite(middle) for middle in middle]
    return [c.take(keep) for c, keep in zip(groups, chosen, strict=True) if keep.any()]


def between_bounds(belief: Belief, rate: float, best: float) -> Score:
    """(best - the mean of both bounds of the index): orders new trainings before the index does.

    The bounds are Gittins indices, for the price of the first rung and for that of all rungs. The
    second is a multiple of the first, the same for all points.
    """
    ratio = _whole_per_first(belief)
    low = gittins_index(rate, origin=best)
    high = gittins_index(rate * ratio, origin=best)

    def score(outlook: Outlook) -> Graded:
        return Graded(*(0.5 * (a + b) for a, b in zip(low(outlook), high(outlook), strict=True)))

    return Monotone(score)


def _whole_per_first(belief: Belief) -> float:
    """The median ratio of the costs of a whole training and of its first rung."""
    X = belief.history.X
    if not belief.cost:
        assert belief.trainings is not None
        return float(belief.trainings.rungs[-1] / belief.trainings.rungs[0])
    first = np.exp(first_part(belief).costs(X)[0].mean)
    return float(np.median(whole_cost(belief, X) / first))
