"""Contextual EI, CEI_lambda (Guinet et al. 2020, eq. 2).

    minimise c(x)  subject to  EI(x) >= (1 - lambda) max_z EI(z)

in logs: min ln c s.t. ln EI >= ln EI* + ln(1 - lambda). The result is on the EI/cost Pareto front.
Finite sets exactly; elsewhere from the maxima of EI downhill in cost, too little EI being a
shortfall (`climb.slide`), and from the cheapest with one discrete coordinate changed at a time.
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
RAYS = np.geomspace(0.3, 3e-4, 12)  # of the cube: how far from much EI it may be cheaper
APART = 0.15  # of the cube: starts in one setting of the discrete coordinates are so far apart
STARTS = 6  # of them at most,
ABREAST = 8  # with those that follow a change of a discrete coordinate,
FOLLOW = 4  # for so many steps,
STEPS = 16  # where the last slide has so many
ROUNDS = 3  # of changes,
BEAM = 3  # from so many settings
CHUNK = 4096


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
    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.slack < 1:
            raise InvalidInput(
                f"ContextualEI(slack={self.slack}): slack is a share from 0 up to, not including, "
                "1. At 1 every point would do and the cheapest would be chosen for ever; try 0.3."
            )

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin c among the points with enough EI."""
        within = -float(np.log1p(-self.slack))
        found = maximise_score(belief, log_ei_per_cost(0.0), rng, within=within + TOLERANCE)
        if self.slack == 0 or not len(found.X):
            return proposal(belief, found, "most improvement to be expected")
        cheapest = cheapest_within(belief, found, self.slack)
        share = 100 * (1 - self.slack)
        why = f"the cheapest point with at least {share:.0f} % of the best expected improvement"
        return proposal(belief, cheapest, why, notes={"log_ei_best": float(found.score[0])})


@dataclass(frozen=True)
class _Enough:
    """Cheapness, where too little EI is a shortfall just as too little money is."""

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
    """The points with enough EI, cheapest first, given the local maxima of ln EI."""
    within = -float(np.log1p(-slack))
    rated = _rate(belief, found.X[found.score >= found.score.max() - within - TOLERANCE])
    threshold = float(rated.log_ei.max()) - within
    if belief.space.rows is None:
        for _ in range(2):
            rated = _cheaper(belief, rated, threshold, within)
            more = float(rated.log_ei.max()) - within
            if more <= threshold + TOLERANCE:
                break
            threshold = more  # there was more EI on the way
    return _pick(rated, threshold)


def _join(some: _Rated, more: _Rated) -> _Rated:
    return _Rated(*(np.concatenate(pair) for pair in zip(some, more, strict=True)))


def _pick(rated: _Rated, threshold: float) -> Found:
    """The cheapest with enough EI; ties: more EI, then the lower index."""
    enough = rated.only(rated.log_ei >= threshold - TOLERANCE)
    order = np.lexsort((np.arange(len(enough.X)), -enough.log_ei, -enough.cheapness))
    return Found(enough.X[order], enough.cheapness[order])


def _cheaper(belief: Belief, rated: _Rated, threshold: float, within: float) -> _Rated:
    """And what is cheaper with enough EI: downhill in cost from the cheapest points, and from those
    that differ from the cheapest in one discrete coordinate.
    """
    assert belief.objective is not None
    space, surface = belief.space, _Enough(belief, threshold)
    lengths = belief.objective.lengthscales
    continuous = np.array([levels is None for levels in space.levels])

    def with_slid(X: Array, steps: int) -> _Rated:
        ends = X
        if continuous.any():
            free = space.active(X) & continuous
            ends = space.snap(slide(surface, X, free, steps, lengths, within))
        more = _rate(belief, ends)
        return _join(rated, more.only((more.shortfall <= 0) & ~is_among(ends, belief.tried)))

    starts = _down(surface, space, _apart(_pick(rated, threshold).X, continuous), lengths)
    if continuous.all():
        return with_slid(starts, STEPS)
    done = set[bytes]()
    for _ in range(ROUNDS):
        new = dict[bytes, Array]()  # settings, and a point in each
        for x in starts if len(starts) else _pick(rated, threshold).X:
            if len(new) < BEAM:
                new.setdefault(x[~continuous].tobytes(), x)
        if next(iter(new)) in done:
            break
        done.update(new)
        around = space.snap(np.vstack([neighbours(space, x) for x in new.values()]))
        around = around[[x[~continuous].tobytes() not in done for x in around]]
        order = np.argsort(-less_penalty(surface.at(around)), kind="stable")
        rated = with_slid(np.vstack([starts, around[order]])[:ABREAST], FOLLOW)
        starts = starts[:0]
    return with_slid(_pick(rated, threshold).X[:1], STEPS)


def _apart(X: Array, continuous: NDArray[np.bool_]) -> Array:
    """The first few of X that differ in their setting, or by some distance."""
    chosen = X[:1]
    for x in X[1:]:
        differ = np.abs(x - chosen)
        gaps = np.where(continuous, differ, differ > 0).max(axis=1)
        if len(chosen) < STARTS and gaps.min() > APART:
            chosen = np.vstack([chosen, x])
    return chosen


def _down(surface: _Enough, space: Space, X: Array, lengths: Array) -> Array:
    """From each of X as far down in cost as there is enough EI."""
    free = space.active(X) & np.array([levels is None for levels in space.levels])
    way = surface.slopes(X)[1] * free * np.minimum(lengths, 1.0) ** 2
    way /= np.maximum(np.abs(way).max(axis=1, keepdims=True), 1e-300)
    points = np.clip(X[:, None] + RAYS[:, None] * way[:, None], 0.0, 1.0).reshape(-1, space.d)
    points = space.snap(points)
    enough = surface.at(points).shortfall.reshape(len(X), -1) <= 0
    farthest = points.reshape(len(X), -1, space.d)[np.arange(len(X)), np.argmax(enough, axis=1)]
    return np.where(np.any(enough, axis=1)[:, None], farthest, X)
