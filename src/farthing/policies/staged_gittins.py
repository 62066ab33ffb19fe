"""The staged Gittins index: pause and resume trainings, and start new ones.

    g solves  E W(g - m) = worth c   over the coming rungs of a training (`staged_index`)
    choose the smallest g among new and paused trainings, and run it for one rung

With one rung it is PBGI (`Gittins`). The index is optimal for independent chains (Weitzman 1979;
Gupta et al. 2019). `worth` is the exchange rate, in objective units per unit of cost. It is fixed,
or it decays: it starts at a tenth of a standard deviation per cost of a whole training, and it is
halved whenever nothing is worth its cost, that is min g >= best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief, Outlook
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.rungs import (
    Chains,
    described,
    first_part,
    indices,
    new_chains,
    paused_chains,
    proposal_of,
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
from farthing.budget.units import check_worth
from farthing.policies.gittins import Gittins

__all__ = ["StagedGittins"]

Array = NDArray[np.float64]

FIRST_WORTH = 0.1  # of a standard deviation per cost of a whole training
MOST_HALVINGS = 20
FINALISTS = 16  # trainings whose index is computed


@dataclass(frozen=True)
class StagedGittins:
    """The smallest staged Gittins index: runs the most promising training to its next rung."""

    worth: float | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model", "steps"})

    def __post_init__(self) -> None:
        check_worth(self.worth, "StagedGittins")

    @property
    def reads(self) -> frozenset[str]:
        """The setting `worth`, unless the policy has its own."""
        return frozenset() if self.worth is not None else frozenset({"worth"})

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin g over new and paused trainings."""
        trainings = belief.trainings
        if trainings is None:
            return Gittins(self.worth).propose(belief, rng)
        belief = belief.in_one_unit()
        fixed = self.worth if self.worth is not None else belief.worth
        search = _Search(belief, trainings, rng)
        if fixed is not None:
            rate = fixed * trainings.curves.scaling.rate(trainings.value)
            found = search.smallest(rate)
            return _proposal(belief, found, {}, (fixed, fixed))
        first = first_rate(belief)
        halvings = int(belief.history.last_note("halvings") or 0)
        found = search.smallest(first * 0.5**halvings)
        while found is not None and found.index >= found.best and halvings < MOST_HALVINGS:
            halvings += 1
            found = search.smallest(first * 0.5**halvings)
        return _proposal(belief, found, {"halvings": halvings}, None)


@dataclass(frozen=True)
class Smallest:
    """The training of smallest index, its place among its chains, and the incumbent."""

    chains: Chains
    k: int
    index: float
    best: float


class _Search:
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


def first_rate(belief: Belief) -> float:
    """A tenth of a standard deviation per median cost of a whole training, in units of z."""
    X = belief.history.X
    cost = np.exp(belief.costs(X)[0].mean)
    return float(FIRST_WORTH / np.median(cost))


def between_bounds(belief: Belief, rate: float, best: float) -> Score:
    """(best - the mean of both bounds of the index): orders new trainings before the index does.

    The bounds are Gittins indices, for the price of the first rung and for that of all rungs. The
    second is a multiple of the first, the same for all points.
    """
    trainings, steps = belief.trainings, belief.steps
    assert trainings is not None
    assert steps is not None
    ratio = _whole_per_first(belief)
    low = gittins_index(rate, origin=best)
    high = gittins_index(rate * ratio, origin=best)

    def score(outlook: Outlook) -> Graded:
        return Graded(*(0.5 * (a + b) for a, b in zip(low(outlook), high(outlook), strict=True)))

    return Monotone(score)


def _whole_per_first(belief: Belief) -> float:
    """The median ratio of the costs of a whole training and of its first rung."""
    X = belief.history.X
    whole, first = belief.costs(X)[0].mean, first_part(belief).costs(X)[0].mean
    return float(np.exp(np.median(whole - first)))


def _proposal(
    belief: Belief,
    found: Smallest | None,
    notes: dict[str, object],
    rates: tuple[float, float] | None,
) -> Proposal:
    if found is None:
        return Proposal(None, "no training can afford its next rung", notes=notes)
    chains, k = found.chains, found.k
    because = described(belief, chains, k)
    if found.index >= found.best:
        because += "; nothing is expected to be worth its cost"
    score = found.best - found.index
    return proposal_of(belief, chains, k, because, score, notes=notes, rates=rates)
