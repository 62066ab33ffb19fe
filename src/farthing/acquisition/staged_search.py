"""The search for the training of smallest staged Gittins index, new or paused.

New trainings come from the search of today on the model of the final value, ordered by the mean of
both bounds of the index. Only the most promising trainings get an index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.outlook import Outlook
from farthing.acquisition.protocols import Rivals
from farthing.acquisition.rungs import (
    Chains,
    first_part,
    indices,
    new_chains,
    paused_chains,
    some_points,
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
from farthing.acquisition.search import Effort, untried
from farthing.acquisition.trainings import Trainings

__all__ = ["Smallest", "StagedSearch", "between_bounds"]

Array = NDArray[np.float64]

FINALISTS = 16  # trainings whose index is computed
RESERVE = 2.0  # see `StagedSearch.to_complete`
MARGIN = 1.1  # for the error of a predicted cost
# Smaller than the usual search: a first rung is only a look, and there are many of them.
EFFORT = Effort(screen=256, around=128, starts=4, steps=(4, 6), flips=2)


@dataclass(frozen=True)
class Smallest:
    """The training of smallest index, its place among its chains, and the incumbent.

    Attributes:
        rivals: what the others have.
    """

    chains: Chains
    k: int
    index: float
    best: float
    rivals: Rivals | None = None


class StagedSearch:
    """The search for the smallest index, at one rate after another.

    If the budget or the table has no trial left to begin (`all_begun`), only paused ones count.
    """

    def __init__(self, belief: Belief, trainings: Trainings, rng: np.random.Generator) -> None:
        self.belief, self.rng = belief, rng
        self.best = float(np.mean(trainings.best))
        self.can_resume = belief.steps is None or belief.steps.can_resume
        ledger = belief.ledger
        self.all_begun = "trials" in ledger and ledger["trials"].left < 1.0
        # Otherwise bad trainings would go on because no new ones may begin.
        done = belief.history.done or (belief.steps is not None and belief.steps.value == "best")
        self.is_ending = self.all_begun and bool(done)
        self.part = first_part(belief)
        X = some_points(belief)
        whole = whole_cost(belief, X)
        self.usual_cost = float(np.median(whole))  # of a whole training
        self.ratio = _whole_per_first(belief, self.part, X, whole)
        self.paused = [c for c in map(self._open, paused_chains(belief)) if len(c.mean)]
        self.new: list[Chains] = []
        self.seen: ScoreView | None = None

    def _open(self, chains: Chains) -> Chains:
        """Those whose next rung is affordable and, if only whole trainings count, all the others.

        A look at a training that cannot be completed would buy nothing.
        """
        steps, affordable = self.belief.steps, chains.affordable
        if steps is not None and steps.value == "last":
            affordable = affordable & (chains.cost.sum(axis=1) <= self.belief.cap)
        return chains.take(affordable)

    def smallest(self, rate: float) -> Smallest | None:
        """The affordable training of smallest index, or None."""
        rows = self.part.space.rows
        if rows is not None and not len(untried(rows, self.part.tried)):
            self.all_begun = True
        if self.all_begun:
            return self.smallest_known(rate)
        if self.seen is None:
            self.seen = _seen(self.part, self.rng)
        score = between_bounds(rate, self.ratio, self.best)
        effort = None if self.belief.light else EFFORT
        found = maximise_score(self.part, score, self.rng, seen=self.seen, effort=effort)
        self.new = []
        if len(found.X):
            new = self._open(new_chains(self.belief, found.X[:FINALISTS]))
            self.new = [new] if len(new.mean) else []
        return self.smallest_known(rate)

    def smallest_known(self, rate: float) -> Smallest | None:
        """The same, among the paused trainings and the new ones that the last search found.

        Without checkpoints a training goes on while it is worth its cost, whatever else there is.
        """
        groups = [*self.paused, *self.new]
        if not groups:
            return None
        if self.paused and not self.can_resume:  # one training waits, and to leave it is final
            [own] = indices(self.belief, self.paused, rate)
            if own[0] < self.best:
                return Smallest(self.paused[0], 0, float(own[0]), self.best, Rivals(rate))
        groups, others = _finalists(groups, rate)
        found = indices(self.belief, groups, rate)
        which = int(np.argmin([index.min() for index in found]))
        k = int(np.argmin(found[which]))
        index = float(found[which][k])
        found[which][k] = np.inf
        second = min(float(each.min()) for each in found)
        rivals = Rivals(rate, second, min(second, others))
        return Smallest(groups[which], k, index, self.best, rivals)

    def to_complete(self) -> Smallest | None:
        """The paused training to complete now, if only whole trainings count and none is complete.

        It has the lowest expected final value of those that what is left pays for. Its time has
        come once what is left pays for RESERVE times the rest of it.
        """
        steps, cap = self.belief.steps, self.belief.cap
        if steps is None or steps.value != "last" or self.belief.history.done or np.isinf(cap):
            return None
        found: Smallest | None = None
        rest = 0.0
        for chains in self.paused:
            total = chains.cost.sum(axis=1)
            mean = np.where(MARGIN * total <= cap, chains.mean, np.inf)
            k = int(np.argmin(mean))
            if np.isfinite(mean[k]) and (found is None or mean[k] < found.index):
                found, rest = Smallest(chains, k, float(mean[k]), self.best), float(total[k])
        return found if found is not None and cap <= RESERVE * rest else None


def _seen(part: Belief, rng: np.random.Generator) -> ScoreView:
    """The starting points of a search. The rows of a table are screened in single precision."""
    if part.space.rows is None:
        return look(part, rng, effort=None if part.light else EFFORT)
    X = untried(part.space.rows, part.tried)
    outlook = part.at_best(X)
    return ScoreView(X, outlook._replace(log_success=part.log_success(X)))


def _finalists(groups: list[Chains], rate: float) -> tuple[list[Chains], float]:
    """At most FINALISTS whose lower bound is at most the least upper bound, by both bounds.

    Returns the least lower bound of the others, too.
    """
    bounds = [chains.bounds(rate) for chains in groups]
    most = min(float(high.min()) for _, high in bounds)
    middle = [np.where(low <= most, low + high, np.inf) for low, high in bounds]
    every = np.sort(np.concatenate(middle))
    limit = every[min(FINALISTS, len(every)) - 1]
    chosen = [(middle <= limit) & np.isfinite(middle) for middle in middle]
    others = [low[~keep].min(initial=np.inf) for (low, _), keep in zip(bounds, chosen, strict=True)]
    taken = [c.take(keep) for c, keep in zip(groups, chosen, strict=True) if keep.any()]
    return taken, float(min(others))


def between_bounds(rate: float, ratio: float, best: float) -> Score:
    """(best - the mean of both bounds of the index): orders new trainings before the index does.

    The bounds are Gittins indices, for the price of the first rung and for that of all rungs.

    Args:
        ratio: the second price over the first one, the same for all points.
    """
    both = gittins_index(np.array([[rate], [rate * ratio]]), origin=best)

    def score(outlook: Outlook) -> Graded:
        found = both(outlook)
        average = (part if part is found.to_mean else 0.5 * part.sum(axis=0) for part in found)
        return Graded(*average)

    return Monotone(score)


def _whole_per_first(belief: Belief, part: Belief, X: Array, whole: Array) -> float:
    """The median ratio of the costs of a whole training and of its first rung."""
    if not belief.cost:
        assert belief.trainings is not None
        return float(belief.trainings.rungs[-1] / belief.trainings.rungs[0])
    return float(np.median(whole / np.exp(part.costs(X)[0].mean)))
