"""Rollout under a budget (Lee et al. 2021, section 5.2).

Choose the first of h evaluations that improve most in expectation, if a base policy chooses the
others.

    x = argmax value(x),   see acquisition/lookahead.py for the value and its simulated paths
    base policy: EI per cost at steps 2 .. h - 1, EI at the last step; h = 1 is EI

A path ends earlier if the budget pays for less than h evaluations. If the cost is known, the value
is at least that of the base policy (theorem 1). A learnt cost enters with its mean. The next
proposal looks h evaluations ahead again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.lookahead import Base, Draws, draws, gains, joint_posterior, visited
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import (
    Score,
    first_feasible,
    log_ei_per_cost,
    maximise_score,
    proposal,
)
from farthing.acquisition.search import Found, Rated, is_among, sobol
from farthing.errors import InvalidInput
from farthing.policies.ei import EI
from farthing.space.space import Space

__all__ = ["Rollout"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# The inner points, where simulated paths may go.
PEAKS = 8  # local maxima of EI, and of EI per cost
POOL = 512  # points of a Sobol set; half as many points around the peaks are added
PILOT_PATHS = 32  # from each of the best peaks, to find the points that matter
ROUNDS = 4  # of pilot paths
NEIGHBOURS = 6  # new points around each visited one, for the next round
MOST_VISITED = 80  # points that get neighbours
KEPT_SOBOL = 48  # points of the Sobol set that are always kept
ROWS = 256  # of a table

# The search for the best first point.
SCREENING_PATHS = 16  # from every inner point, to find the promising ones
PROMISING = 24  # inner points that are simulated with all paths
PATHS = 128  # from each promising point
RADII = (0.1, 0.03, 0.01)  # in the cube, of the refinement around the best point, in this order
TRIES = 12  # points for each radius


@dataclass(frozen=True)
class Rollout:
    """Look `horizon` evaluations ahead, or fewer if the budget pays for fewer.

    Attributes:
        horizon: the number of evaluations, including the proposed one; 2 and 4 in the paper.
        unaffordable: if "restrict", a simulated step takes the best affordable point. If
            "truncate", it takes the best point, and the path ends if that is not affordable (as
            in the paper).
        base: the scores that choose the horizon - 1 steps after the first. Each is a number a, for
            EI / c^a, or a score of `farthing.acquisition.scores`. None means 1, ..., 1, 0.
    """

    horizon: int = 2
    unaffordable: Literal["restrict", "truncate"] = "restrict"
    base: tuple[float | Score, ...] | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        whole = isinstance(self.horizon, int | np.integer) and not isinstance(self.horizon, bool)
        if not (whole and self.horizon >= 1):
            raise InvalidInput(
                f"Rollout(horizon={self.horizon!r}): horizon, the number of evaluations to look "
                "ahead, must be a whole number of at least 1. Use 2, or 4 if evaluations are "
                "expensive."
            )
        if self.unaffordable not in ("restrict", "truncate"):
            raise InvalidInput(
                f'Rollout(unaffordable={self.unaffordable!r}): expected "restrict" or "truncate".'
            )
        object.__setattr__(self, "horizon", int(self.horizon))
        if self.base is not None:
            object.__setattr__(self, "base", tuple(self.base))
            _check(self.base, self.horizon)

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmax of the value over a few hundred points, refined around the best of them."""
        if not belief.has_incumbent:
            return first_feasible(belief, rng, 1.0)
        horizon = _within_trials(belief, self.horizon)
        if horizon == 1:
            return EI().propose(belief, rng)
        by_ei, by_ei_per_cost = (
            maximise_score(belief, log_ei_per_cost(a), rng) for a in (0.0, 1.0)
        )
        if not len(by_ei.X):
            return proposal(belief, by_ei, "nothing")
        base = (1.0,) * (horizon - 2) + (0.0,) if self.base is None else self.base[1 - horizon :]
        inner = inner_points(belief, by_ei, by_ei_per_cost, base, rng)
        constraints = len(belief.feasibility)
        drawn = draws(PATHS, horizon, len(belief.best), rng, constraints=constraints)
        ahead = Lookahead(belief, inner, base, drawn, self.unaffordable == "truncate")
        found = best_first_point(ahead, np.vstack([by_ei.X[:1], by_ei_per_cost.X[:1]]), rng)
        why = (
            f"highest expected improvement of this and the next {horizon - 1} evaluations together"
        )
        return proposal(belief, found, why)


def _check(base: tuple[float | Score, ...], horizon: int) -> None:
    if len(base) != horizon - 1:
        raise InvalidInput(
            f"Rollout(horizon={horizon}, base=...): got {len(base)} scores for the {horizon - 1} "
            "steps after the first. Give one score for each of these steps."
        )
    for score in base:
        number = isinstance(score, int | float) and not isinstance(score, bool)
        if not (callable(score) or (number and np.isfinite(score) and score >= 0)):
            raise InvalidInput(
                f"Rollout(base=...): expected a number a >= 0, for EI / c^a, or a score such as "
                f"farthing.acquisition.scores.log_ei_per_cost(0.5); got {score!r}."
            )


def _within_trials(belief: Belief, horizon: int) -> int:
    """The horizon, but at most the number of trials left."""
    left = belief.ledger["trials"].left if "trials" in belief.ledger else np.inf
    return int(min(horizon, max(left, 1.0)))


# ── inner points: where simulated paths may go ─────────────────────────────────────────────────


def inner_points(
    belief: Belief, by_ei: Found, by_ei_per_cost: Found, base: Base, rng: np.random.Generator
) -> Array:
    """(m, d) the maxima of EI and of EI per cost, and the points that pilot paths visit.

    Pilot paths start on a Sobol set and on points around these maxima. Each further round runs on
    the visited points and their neighbours, which refines the argmax of the base policy. In a table
    the inner points are rows.
    """
    space = belief.space
    if space.rows is not None:
        return _rows(by_ei.X, by_ei_per_cost.X, rng)
    peaks = np.vstack([by_ei.X[:PEAKS], by_ei_per_cost.X[:PEAKS]])
    cover = space.spread(_by_name(space, (sobol(POOL, space.d) + rng.random(space.d)) % 1.0))
    cover = cover[np.argsort(belief.costs(cover)[1] > 0, kind="stable")]  # affordable ones first
    centre = peaks[np.arange(POOL // 2) % len(peaks)]
    reach = 10.0 ** rng.uniform(-2.0, -0.3, size=(len(centre), 1))
    pool = np.vstack([peaks, _moved(space, centre, reach, rng), cover])
    first = np.array([0, 1, len(by_ei.X[:PEAKS]), len(by_ei.X[:PEAKS]) + 1]) % len(peaks)
    fantasies, constraints = len(belief.best), len(belief.feasibility)
    pilots = draws(PILOT_PATHS, len(base) + 1, fantasies, rng, constraints=constraints)
    for k in range(1, ROUNDS + 1):
        joint = joint_posterior(belief, pool, np.ones(len(pool), dtype=np.bool_))
        seen = pool[visited(joint, np.unique(first), pilots, base)]
        if k < ROUNDS:
            centre = np.repeat(seen[:MOST_VISITED], NEIGHBOURS, axis=0)
            reach = 10.0 ** rng.uniform(-1.5, -0.5, size=(len(centre), 1)) / k
            pool = np.vstack([peaks, seen, _moved(space, centre, reach, rng)])
    return np.vstack([peaks, seen, cover[:KEPT_SOBOL]])


def _rows(by_ei: Array, by_ei_per_cost: Array, rng: np.random.Generator) -> Array:
    """All rows that may be chosen, or ROWS of them: the best quarter by each score, random ones."""
    if len(by_ei) <= ROWS:
        return by_ei
    best = np.unique(np.vstack([by_ei[: ROWS // 4], by_ei_per_cost[: ROWS // 4]]), axis=0)
    rest = by_ei[~is_among(by_ei, best)]
    return np.vstack([best, rest[rng.permutation(len(rest))[: ROWS - len(best)]]])


def _by_name(space: Space, drawn: Array) -> Array:
    """Assign columns to parameters sorted by name, so that their order does not matter."""
    return np.asarray(drawn[:, np.argsort(np.argsort(space.names))])


def _moved(space: Space, X: Array, reach: Array | float, rng: np.random.Generator) -> Array:
    """X with normal steps in the numeric coordinates, and some options changed."""
    step = reach * _by_name(space, rng.standard_normal(X.shape))
    other = _by_name(space, rng.random(X.shape))
    changed = _by_name(space, rng.random(X.shape)) < 0.25
    options = np.where(changed, other, X)
    return space.snap(np.clip(np.where(space.options > 0, options, X + step), 0.0, 1.0))


# ── the best first point ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Lookahead:
    """The value of first points under a belief, with given inner points and random draws."""

    belief: Belief
    inner: Array  # (m, d)
    base: Base
    drawn: Draws
    truncate: bool

    def of_inner(self, first: Ints, paths: int = PATHS) -> Array:
        """(a,) the value of the inner points with indices `first`, from the first `paths` draws."""
        joint = joint_posterior(self.belief, self.inner, np.ones(len(self.inner), dtype=np.bool_))
        normals, fantasy, measured = self.drawn
        some = Draws(normals[:paths], fantasy[:paths], measured[:paths])
        gained = gains(joint, first, some, self.base, truncate=self.truncate)
        return np.asarray(gained.mean(axis=1))

    def at(self, X: Array) -> Rated:
        """ln of the value of any first points X (a, d), and their shortfall."""
        is_inner = np.arange(len(X) + len(self.inner)) >= len(X)
        joint = joint_posterior(self.belief, np.vstack([X, self.inner]), is_inner)
        gained = gains(joint, np.arange(len(X)), self.drawn, self.base, truncate=self.truncate)
        value = np.log(np.maximum(gained.mean(axis=1), 1e-300))
        return Rated(value, self.belief.costs(X)[1])


def best_first_point(ahead: Lookahead, always: Array, rng: np.random.Generator) -> Found:
    """The affordable, untried point of highest value. The points `always` are always simulated."""
    belief, inner = ahead.belief, ahead.inner
    allowed = (belief.costs(inner)[1] <= 0) & ~is_among(inner, belief.tried)
    first = np.flatnonzero(allowed)
    rough = ahead.of_inner(first, SCREENING_PATHS)
    keep = np.argsort(-rough, kind="stable")[:PROMISING]
    first = np.union1d(first[keep], np.flatnonzero(allowed & is_among(inner, always)))
    value = ahead.of_inner(first)
    x, highest = inner[first[np.argmax(value)]], float(value.max())
    if belief.space.rows is None:
        x, highest = refine(ahead, x, highest, rng)
    return Found(x[None], np.array([highest]))


def refine(
    ahead: Lookahead, x: Array, highest: float, rng: np.random.Generator
) -> tuple[Array, float]:
    """A better first point around x, searched with the same draws and decreasing radius."""
    belief = ahead.belief
    for radius in RADII:
        X = _moved(belief.space, np.repeat(x[None], TRIES, axis=0), radius, rng)
        rated = ahead.at(X)
        allowed = (rated.shortfall <= 0) & ~is_among(X, belief.tried)
        value = np.where(allowed, np.exp(rated.score), -np.inf)
        if value.max() > highest:
            x, highest = X[np.argmax(value)], float(value.max())
    return x, highest
