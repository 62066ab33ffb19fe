"""Rollout under a budget (Lee et al. 2021, section 5.2): the first of h evaluations that are worth
most together, when a base policy makes the others.

    x = argmax value(x),   value and its paths: see futures.py
    base: EI per cost at the steps 2 .. h - 1, EI at the last one; h = 1 is EI

Where the budget pays for less than h evaluations, paths end earlier. That the value is at least
that of the base policy (theorem 1) holds for a known cost; a learnt one enters with its mean, and
the next proposal looks h evaluations ahead again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.lookahead import Base, Draws, draws, gains, lay, visited
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import Score, log_ei_per_cost, maximise_score, proposal
from farthing.acquisition.search import Found, Rated, is_among, sobol
from farthing.errors import InvalidInput
from farthing.policies.ei import EI
from farthing.space.space import Space

__all__ = ["Rollout"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

PEAKS = 8  # maxima of EI, and of EI per cost, around which to look for inner points
POOL = 512  # points of a Sobol set, and half as many around the peaks, of which paths choose;
SCOUTS = 32  # paths from each of the best peaks are sent
ROUNDS = 4  # times, each time
STRAYS = 6  # points around where they went are added,
TRODDEN = 80  # the most visited ones only
COVER = 48  # of the Sobol set are kept in any case
ROWS = 256  # of a table
SKETCHES = 16  # paths from every point, to see which are worth more of them:
MOVES = 24  # so many, with
PATHS = 128  # so many paths each
REACHES = (0.1, 0.03, 0.01)  # of the cube: how far from the best first move to look, in turn,
TRIES = 12  # at how many points


@dataclass(frozen=True)
class Rollout:
    """Look `horizon` evaluations ahead, as far as the budget goes.

    Attributes:
        horizon: how many evaluations, the proposed one included; 2 and 4 in the paper.
        unaffordable: "restrict": a simulated step takes the best that is affordable; "truncate":
            it takes the best, and if that is not affordable the path ends (the paper).
        base: what makes the steps after the first, horizon - 1 of them: a number a for EI / c^a or
            a score of `farthing.acquisition`. None: 1, ..., 1, 0.
    """

    horizon: int = 2
    unaffordable: Literal["restrict", "truncate"] = "restrict"
    base: tuple[float | Score, ...] | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model"})
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole = isinstance(self.horizon, int | np.integer) and not isinstance(self.horizon, bool)
        if not (whole and self.horizon >= 1):
            raise InvalidInput(
                f"Rollout(horizon={self.horizon!r}): the number of evaluations to look ahead is a "
                "whole number of at least 1. Use 2, or 4 where evaluations are dear."
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
        """argmax of the value over a few hundred points, then around the best of them."""
        horizon = _within_trials(belief, self.horizon)
        if horizon == 1:
            return EI().propose(belief, rng)
        improving, paying = (maximise_score(belief, log_ei_per_cost(a), rng) for a in (0.0, 1.0))
        if not len(improving.X):
            return proposal(belief, improving, "nothing")
        base = (1.0,) * (horizon - 2) + (0.0,) if self.base is None else self.base[1 - horizon :]
        inner = inner_points(belief, improving, paying, base, rng)
        drawn = draws(PATHS, horizon, len(belief.best), rng)
        ahead = Lookahead(belief, inner, base, drawn, self.unaffordable == "truncate")
        found = furthest(ahead, np.vstack([improving.X[:1], paying.X[:1]]), rng)
        why = f"the most to be expected of {horizon} evaluations, this one first"
        return proposal(belief, found, why)


def _check(base: tuple[float | Score, ...], horizon: int) -> None:
    if len(base) != horizon - 1:
        raise InvalidInput(
            f"Rollout(horizon={horizon}, base=...): {len(base)} scores for the {horizon - 1} steps "
            "after the first. Give one for each."
        )
    for score in base:
        number = isinstance(score, int | float) and not isinstance(score, bool)
        if not (callable(score) or (number and np.isfinite(score) and score >= 0)):
            raise InvalidInput(
                f"Rollout(base=...): {score!r} is neither a number a >= 0, for EI / c^a, nor a "
                "score such as farthing.acquisition.log_ei_per_cost(0.5)."
            )


def _within_trials(belief: Belief, horizon: int) -> int:
    """No more evaluations than there are trials left."""
    left = belief.ledger["trials"].left if "trials" in belief.ledger else np.inf
    return int(min(horizon, max(left, 1.0)))


# ── where paths may go ─────────────────────────────────────────────────────────────────────────


def inner_points(
    belief: Belief, improving: Found, paying: Found, base: Base, rng: np.random.Generator
) -> Array:
    """(m, d) where paths go: the maxima of EI and of EI per cost, and what scouts found.

    Scouts are paths over many points, half of a Sobol set and half around these maxima. Where they
    went they are sent again, with more points around: the argmax of a base policy, refined. Of a
    table: its rows.
    """
    space = belief.space
    if space.rows is not None:
        return _rows(improving.X, paying.X, rng)
    peaks = np.vstack([improving.X[:PEAKS], paying.X[:PEAKS]])
    cover = space.spread(_by_name(space, (sobol(POOL, space.d) + rng.random(space.d)) % 1.0))
    cover = cover[np.argsort(belief.costs(cover)[1] > 0, kind="stable")]  # affordable ones first
    centre = peaks[np.arange(POOL // 2) % len(peaks)]
    reach = 10.0 ** rng.uniform(-2.0, -0.3, size=(len(centre), 1))
    pool = np.vstack([peaks, _moved(space, centre, reach, rng), cover])
    first = np.array([0, 1, len(improving.X[:PEAKS]), len(improving.X[:PEAKS]) + 1]) % len(peaks)
    scouts = draws(SCOUTS, len(base) + 1, len(belief.best), rng)
    for k in range(1, ROUNDS + 1):
        ground = lay(belief, pool, np.ones(len(pool), dtype=np.bool_))
        trodden = pool[visited(ground, np.unique(first), scouts, base)]
        if k < ROUNDS:
            centre = np.repeat(trodden[:TRODDEN], STRAYS, axis=0)
            reach = 10.0 ** rng.uniform(-1.5, -0.5, size=(len(centre), 1)) / k
            pool = np.vstack([peaks, trodden, _moved(space, centre, reach, rng)])
    return np.vstack([peaks, trodden, cover[:COVER]])


def _rows(improving: Array, paying: Array, rng: np.random.Generator) -> Array:
    """All the rows that may be chosen, or a quarter best by either score and half at random."""
    if len(improving) <= ROWS:
        return improving
    best = np.unique(np.vstack([improving[: ROWS // 4], paying[: ROWS // 4]]), axis=0)
    rest = improving[~is_among(improving, best)]
    return np.vstack([best, rest[rng.permutation(len(rest))[: ROWS - len(best)]]])


def _by_name(space: Space, drawn: Array) -> Array:
    """Columns given to the parameters in the order of their names, not of their places."""
    return np.asarray(drawn[:, np.argsort(np.argsort(space.names))])


def _moved(space: Space, X: Array, reach: Array | float, rng: np.random.Generator) -> Array:
    """X with numbers moved by normal steps, and some options changed."""
    step = reach * _by_name(space, rng.standard_normal(X.shape))
    other = _by_name(space, rng.random(X.shape))
    changed = _by_name(space, rng.random(X.shape)) < 0.25
    options = np.where(changed, other, X)
    return space.snap(np.clip(np.where(space.options > 0, options, X + step), 0.0, 1.0))


# ── the best first move ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Lookahead:
    """The value of first moves under a belief, on a set of inner points, with given draws."""

    belief: Belief
    inner: Array  # (m, d)
    base: Base
    drawn: Draws
    truncate: bool

    def of_inner(self, moves: Ints, paths: int = PATHS) -> Array:
        """(a,) value of inner points, by their indices, from the first `futures` draws."""
        ground = lay(self.belief, self.inner, np.ones(len(self.inner), dtype=np.bool_))
        some = Draws(self.drawn.normals[:paths], self.drawn.fantasy[:paths])
        gained = gains(ground, moves, some, self.base, truncate=self.truncate)
        return np.asarray(gained.mean(axis=1))

    def at(self, X: Array) -> Rated:
        """ln of the value of any first moves X (a, d), and their shortfall."""
        is_inner = np.arange(len(X) + len(self.inner)) >= len(X)
        ground = lay(self.belief, np.vstack([X, self.inner]), is_inner)
        gained = gains(ground, np.arange(len(X)), self.drawn, self.base, truncate=self.truncate)
        value = np.log(np.maximum(gained.mean(axis=1), 1e-300))
        return Rated(value, self.belief.costs(X)[1])


def furthest(ahead: Lookahead, certain: Array, rng: np.random.Generator) -> Found:
    """The affordable, untried first move of most value, `certain` ones looked at in any case."""
    belief, inner = ahead.belief, ahead.inner
    allowed = (belief.costs(inner)[1] <= 0) & ~is_among(inner, belief.tried)
    moves = np.flatnonzero(allowed)
    sketched = ahead.of_inner(moves, SKETCHES)
    keep = np.argsort(-sketched, kind="stable")[:MOVES]
    moves = np.union1d(moves[keep], np.flatnonzero(allowed & is_among(inner, certain)))
    value = ahead.of_inner(moves)
    x, most = inner[moves[np.argmax(value)]], float(value.max())
    if belief.space.rows is None:
        x, most = polish(ahead, x, most, rng)
    return Found(x[None], np.array([most]))


def polish(
    ahead: Lookahead, x: Array, most: float, rng: np.random.Generator
) -> tuple[Array, float]:
    """Better first moves around x, by the same draws: nearer and nearer."""
    belief = ahead.belief
    for reach in REACHES:
        X = _moved(belief.space, np.repeat(x[None], TRIES, axis=0), reach, rng)
        rated = ahead.at(X)
        allowed = (rated.shortfall <= 0) & ~is_among(X, belief.tried)
        value = np.where(allowed, np.exp(rated.score), -np.inf)
        if value.max() > most:
            x, most = X[np.argmax(value)], float(value.max())
    return x, most
