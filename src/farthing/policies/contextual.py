"""Contextual EI, CEI_lambda (Guinet et al. 2020, eq. 2).

    minimise c(x)  subject to  EI(x) >= (1 - lambda) max_z EI(z)

In logs: min ln c subject to ln EI >= ln EI* + ln(1 - lambda). The result is on the Pareto front of
EI and cost. On a finite set the search is exact. Else it descends in cost from the maxima of EI,
where too little EI counts as a shortfall (`ascent.slide`). It also changes one discrete coordinate
at a time, starting from the cheapest points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.ascent import less_penalty, slide
from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import (
    chained,
    cheapness,
    log_ei_per_cost,
    maximise_score,
    proposal,
)
from farthing.acquisition.search import Found, Rated, is_among, neighbours
from farthing.errors import InvalidInput
from farthing.space.space import Space

__all__ = ["ContextualEI"]

Array = NDArray[np.float64]

TOLERANCE = 1e-9  # in ln EI
STEP_LENGTHS = np.geomspace(0.3, 3e-4, 12)  # in the cube, of a step towards lower cost
MIN_DISTANCE = 0.15  # in the cube, between starts that share their discrete coordinates
MAX_STARTS = 6
BATCH = 8  # starts and neighbours that descend together
FEW_STEPS = 4  # of a descent after a discrete coordinate changed
STEPS = 16  # of the last descent
ROUNDS = 3  # of changes of one discrete coordinate
BEAM = 3  # combinations of discrete coordinates that each round starts from
CHUNK = 4096  # points that are rated at once


class _Rated(NamedTuple):
    """Points with ln EI, minus ln c and the shortfall."""

    X: Array
    log_ei: Array
    cheapness: Array
    shortfall: Array

    def only(self, keep: NDArray[np.bool_]) -> _Rated:
        return _Rated(*(part[keep] for part in self))


def _rate(belief: Belief, X: Array) -> _Rated:
    parts = []
    for i in range(0, max(len(X), 1), CHUNK):
        outlook = belief.outlook(X[i : i + CHUNK])
        parts.append(
            (log_ei_per_cost(0.0)(outlook).score, cheapness(outlook).score, outlook.shortfall)
        )
    return _Rated(X, *(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True)
class ContextualEI:
    """The cheapest point whose expected improvement is at least (1 - slack) of the best."""

    slack: float = 0.3

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not 0 <= self.slack < 1:
            raise InvalidInput(
                f"ContextualEI(slack={self.slack}): slack, the share of the best expected "
                "improvement that may be given away, must be at least 0 and less than 1. Try 0.3."
            )

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin c among the points with enough EI."""
        within = -float(np.log1p(-self.slack))
        found = maximise_score(belief, log_ei_per_cost(0.0), rng, within=within + TOLERANCE)
        if self.slack == 0 or not len(found.X):
            return proposal(belief, found, "highest expected improvement")
        cheapest = cheapest_within(belief, found, self.slack)
        share = 100 * (1 - self.slack)
        why = f"the cheapest point with at least {share:.0f} % of the best expected improvement"
        return proposal(belief, cheapest, why, notes={"log_ei_best": float(found.score[0])})


@dataclass(frozen=True)
class _CheapSurface:
    """-ln c, where too little EI is a shortfall, just like too little budget."""

    belief: Belief
    threshold: float

    def at(self, X: Array) -> Rated:
        rated = _rate(self.belief, X)
        return Rated(rated.cheapness, np.maximum(rated.shortfall, self.threshold - rated.log_ei))

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        outlook, d = self.belief.slopes(X)
        improvement, cheap = log_ei_per_cost(0.0)(outlook), cheapness(outlook)
        lacking = self.threshold - improvement.score
        short = (lacking >= outlook.shortfall)[:, None]
        return (
            Rated(cheap.score, np.maximum(outlook.shortfall, lacking)),
            cheap.to_cost_mean[:, None] * d.d_cost_mean + cheap.to_cost_std[:, None] * d.d_cost_std,
            np.where(short, -chained(improvement, d), d.d_shortfall),
        )


def cheapest_within(belief: Belief, found: Found, slack: float) -> Found:
    """The points with enough EI, the cheapest first, given the local maxima of ln EI."""
    within = -float(np.log1p(-slack))
    rated = _rate(belief, found.X[found.score >= found.score.max() - within - TOLERANCE])
    threshold = float(rated.log_ei.max()) - within
    if belief.space.rows is None:
        for _ in range(2):
            rated = _cheaper(belief, rated, threshold, within)
            more = float(rated.log_ei.max()) - within
            if more <= threshold + TOLERANCE:
                break
            threshold = more  # the search came across a higher EI
    return _pick(rated, threshold)


def _join(some: _Rated, more: _Rated) -> _Rated:
    return _Rated(*(np.concatenate(pair) for pair in zip(some, more, strict=True)))


def _pick(rated: _Rated, threshold: float) -> Found:
    """The points with enough EI, sorted by cost, then by EI, then by index."""
    enough = rated.only(rated.log_ei >= threshold - TOLERANCE)
    order = np.lexsort((np.arange(len(enough.X)), -enough.log_ei, -enough.cheapness))
    return Found(enough.X[order], enough.cheapness[order])


def _cheaper(belief: Belief, rated: _Rated, threshold: float, within: float) -> _Rated:
    """`rated` and cheaper points with enough EI.

    The search descends in cost from the cheapest points, and from points that differ from them in
    one discrete coordinate.
    """
    assert belief.objective is not None
    space, surface = belief.space, _CheapSurface(belief, threshold)
    lengths = belief.objective.lengthscales
    continuous = np.array([levels is None for levels in space.levels])

    def with_descended(X: Array, steps: int) -> _Rated:
        ends = X
        if continuous.any():
            free = space.active(X) & continuous
            ends = space.snap(slide(surface, X, free, steps, lengths, within))
        more = _rate(belief, ends)
        return _join(rated, more.only((more.shortfall <= 0) & ~is_among(ends, belief.tried)))

    starts = _distinct(_pick(rated, threshold).X, continuous)
    starts = _descend(surface, space, starts, lengths)
    if continuous.all():
        return with_descended(starts, STEPS)
    done = set[bytes]()
    for _ in range(ROUNDS):
        new = dict[bytes, Array]()  # a point for each combination of discrete coordinates
        for x in starts if len(starts) else _pick(rated, threshold).X:
            if len(new) < BEAM:
                new.setdefault(x[~continuous].tobytes(), x)
        if next(iter(new)) in done:
            break
        done.update(new)
        around = space.snap(np.vstack([neighbours(space, x) for x in new.values()]))
        around = around[[x[~continuous].tobytes() not in done for x in around]]
        order = np.argsort(-less_penalty(surface.at(around)), kind="stable")
        rated = with_descended(np.vstack([starts, around[order]])[:BATCH], FEW_STEPS)
        starts = starts[:0]
    return with_descended(_pick(rated, threshold).X[:1], STEPS)


def _distinct(X: Array, continuous: NDArray[np.bool_]) -> Array:
    """The first few points of X that differ in a discrete coordinate, or by MIN_DISTANCE."""
    chosen = X[:1]
    for x in X[1:]:
        differ = np.abs(x - chosen)
        gaps = np.where(continuous, differ, differ > 0).max(axis=1)
        if len(chosen) < MAX_STARTS and gaps.min() > MIN_DISTANCE:
            chosen = np.vstack([chosen, x])
    return chosen


def _descend(surface: _CheapSurface, space: Space, X: Array, lengths: Array) -> Array:
    """From each point of X the longest step towards lower cost that keeps enough EI."""
    free = space.active(X) & np.array([levels is None for levels in space.levels])
    direction = surface.slopes(X)[1] * free * np.minimum(lengths, 1.0) ** 2
    direction /= np.maximum(np.abs(direction).max(axis=1, keepdims=True), 1e-300)
    points = np.clip(X[:, None] + STEP_LENGTHS[:, None] * direction[:, None], 0.0, 1.0)
    points = space.snap(points.reshape(-1, space.d))
    enough = surface.at(points).shortfall.reshape(len(X), -1) <= 0
    farthest = points.reshape(len(X), -1, space.d)[np.arange(len(X)), np.argmax(enough, axis=1)]
    return np.where(np.any(enough, axis=1)[:, None], farthest, X)
