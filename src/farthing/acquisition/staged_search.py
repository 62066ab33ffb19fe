"""The search for the training of smallest staged Gittins index, new or paused.

New trainings come from a finite list (`listed`), ordered by the mean of both bounds of the index.
Only the most promising ones get an index. In a continuous space, a search for the best points joins
the list once COMPLETE trainings have ended.

The list is finite because the index takes trainings for independent. If a new one could be next to
a paused one, it would always look as good, for the price of a first rung: trainings would be begun
again and again, and none would go on. So a point of the search may not be TOO_SIMILAR to an
unfinished training (docs/decisions.md has the numbers).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    LIGHT,
    Graded,
    Monotone,
    Score,
    ScoreSurface,
    ScoreView,
    gittins_index,
    maximise_score,
)
from farthing.acquisition.search import best_rows, candidates, is_close, sobol, untried
from farthing.acquisition.trainings import Trainings

__all__ = ["Smallest", "StagedSearch", "between_bounds", "listed"]

Array = NDArray[np.float64]

FINALISTS = 16  # trainings whose index is computed
RESERVE = 2.0  # see `StagedSearch.to_complete`
MARGIN = 1.1  # for the error of a predicted cost
LISTED = 512  # configurations of a continuous space (docs/decisions.md)
MOST_LISTED = 2**14
COMPLETE = 2  # trainings before the list is refined: they teach what final values depend on
TOO_SIMILAR = 0.97  # M52(x; l): the correlation of what configurations explain


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

    def __init__(self, belief: Belief, trainings: Trainings) -> None:
        self.belief = belief
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
        is_finite = belief.space.points(MOST_LISTED) is not None
        self.refines = not is_finite and len(belief.history.done) >= COMPLETE

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
        if self.seen is None and not self.all_begun:
            self.seen = _seen(self.part)
            self.all_begun = self.seen is None
        if self.seen is None:
            return self.smallest_known(rate)
        score = between_bounds(rate, self.ratio, self.best)
        X = best_rows(ScoreSurface(self.part, score, self.seen), self.seen.X).X[:FINALISTS]
        if self.refines:
            X = self._unlike_unfinished(np.vstack([self._found(score), X]))[:FINALISTS]
        self.new = []
        if len(X):
            new = self._open(new_chains(self.belief, X))
            self.new = [new] if len(new.mean) else []
        return self.smallest_known(rate)

    def _found(self, score: Score) -> Array:
        """(m, d) the best points of a short search of the space: a first rung is only a look.

        If the overhead is limited, they are the best of its starting points.
        """
        history = self.belief.history
        rng = np.random.default_rng(
            [self.belief.seed, len(history), sum(len(trial.curve) for trial in history)]
        )
        part = replace(self.part, light=True)
        if self.belief.light:
            X = candidates(part.space, rng, part.top, LIGHT)
            found = best_rows(ScoreSurface(part, score), X[~is_close(X, part.tried)])
        else:
            found = maximise_score(part, score, rng)
        return found.X[: FINALISTS // 2]

    def _unlike_unfinished(self, X: Array) -> Array:
        """The points that are not TOO_SIMILAR to a training that may still reach its last rung."""
        assert self.belief.trainings is not None
        trainings, steps = self.belief.trainings, self.belief.steps
        curves = trainings.curves
        unfinished = curves.reached() < len(curves.steps)
        if steps is not None and not steps.has_checkpoints:
            left = [t for t in self.belief.history.having("paused") if not t.run.waits]
            unfinished[[trainings.place[trial.number] for trial in left]] = False
        return np.asarray(X[(curves.similarity(X)[:, unfinished] < TOO_SIMILAR).all(axis=1)])

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


def _seen(part: Belief) -> ScoreView | None:
    """The listed configurations in single precision; None if there is none."""
    if not len(X := listed(part)):
        return None
    return ScoreView(X, part.at_best(X)._replace(log_success=part.log_success(X)))


def listed(belief: Belief) -> Array:
    """(m, d) the untried configurations that a new training may have.

    They are the rows of a table or of a small grid. In any other space they are the first points of
    a Sobol sequence, rotated by the study's seed: LISTED, or fewer in up to three dimensions, where
    they would be too near to one another. They are twice as many whenever all have been tried.
    """
    space, tried = belief.space, belief.tried
    rows = space.points(MOST_LISTED)
    if rows is not None:
        return untried(rows, tried)
    # Columns are assigned by parameter name: permuted parameters get the same points.
    column = np.argsort(np.argsort(space.names))
    turn = np.random.default_rng(belief.seed).random(space.d)
    count, X = min(LISTED, 4 ** (space.d + 1)), np.empty((0, space.d))
    while not len(X) and count <= MOST_LISTED:
        U = (sobol(count, space.d) + turn) % 1.0
        X = np.unique(space.spread(U[:, column]), axis=0)
        X = X[~is_close(X, tried)]
        count *= 2
    return X


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
