"""Maximise a surface over a space: screen, polish, flip; or enumerate the rows of a table.

    screen   a rotated Sobol set and perturbations of the best points tried, scored in one call
    polish   the best of them climbed together: projected BFGS with exact gradients, one call of
             the surface per step for all starts, the weaker half dropped on the way
    flip     discrete coordinates changed one at a time, _judged after the continuous ones followed

A surface gives every point a score and a shortfall; points with a positive shortfall are not
affordable and never returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.ascent import HAIR, Rated, Surface, climb, less_penalty
from farthing.space.space import Space

__all__ = [
    "Effort",
    "Found",
    "Rated",
    "Surface",
    "candidates",
    "climb",
    "is_among",
    "maximise",
    "sobol",
    "untried",
]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

CHUNK = 4096  # rows of a table scored at once, to bound memory
FIRST_ROWS = 256  # and first, where it is known how high the others can be
FEW_ROWS = 1024  # that are compared at once with what was tried,
FEWEST_ROWS = 16  # or each with all of it
LEAST = -1e300  # what is lower is no score
SPREAD = 0.15  # of the cube, in one coordinate at least: starts of climbs are so far apart
SAME_POINT = 1e-7  # of the cube: closer than this is the same evaluation
NEWTON_STEPS = 4  # from beyond the affordable back to its boundary
BEAM = 3  # settings of the discrete coordinates whose neighbours are looked at in one round,
ABREAST = 16  # how many of these neighbours are polished together,
FOLLOW = (4, 8)  # and for how many steps: after the first the better half goes on
FEW_LEVELS = 16  # all levels of a coordinate are tried if it has no more than this


class Found(NamedTuple):
    """Affordable, untried, snapped points, best first: local maxima and the best screened."""

    X: Array  # (k, d)
    score: Array  # (k,)


@dataclass(frozen=True)
class Effort:
    """How hard to look."""

    screen: int = 384
    around: int = 192
    starts: int = 10
    steps: tuple[int, ...] = (6, 6, 30)  # after each stage the better half goes on
    flips: int = 4


@lru_cache(maxsize=16)
def sobol(size: int, d: int) -> Array:
    """The first points of a scrambled Sobol sequence, always the same; rotate it for variety."""
    from scipy.stats import qmc  # takes as long to import as all the rest

    sequence = qmc.Sobol(d, scramble=True, rng=np.random.default_rng(0))
    return np.asarray(sequence.random_base2(int(np.ceil(np.log2(size))))[:size])


def maximise(
    surface: Surface,
    space: Space,
    rng: np.random.Generator,
    *,
    tried: Array,
    near: Array,
    lengths: Array | None = None,
    effort: Effort = Effort(),
    screened: Array | None = None,
    ceiling: Array | None = None,
    within: float = 0.0,
) -> Found:
    """The best affordable points of a surface; an empty Found if there are none.

    Args:
        tried: (k, d) points not to be returned.
        near: (k, d) points around which to look as well.
        lengths: (d,) over which the surface varies, as far as they are known.
        screened: (k, d) points to begin with, where several searches share them: `candidates`, or
            the `untried` rows of a table.
        ceiling: (k,) what the scores of these rows are at most; without it all are scored.
        within: of the best score, in which all rows of a table are wanted.
    """
    if space.rows is not None:
        rows = untried(space.rows, tried) if screened is None else screened
        if ceiling is not None:
            return _enumerate_below(surface, rows, ceiling, within)
        return _enumerate(surface, rows)
    if screened is None:
        screened = candidates(space, rng, near, effort)
    rated = surface.at(screened)
    if not (rated.shortfall <= 0).any():
        screened = _affordable(surface, space, screened, rated)
        rated = surface.at(screened)
    allowed = (rated.shortfall <= 0) & np.isfinite(rated.score) & ~is_among(screened, tried)
    screened, score = screened[allowed], rated.score[allowed]
    if not len(screened):
        return Found(screened, score)
    chosen = _spread_out(screened, score, effort.starts)
    starts = screened[chosen]
    peaks = climb(
        surface, starts, space.active(starts) & (space.options == 0), effort.steps, lengths
    )
    best = Rated(score[chosen[:1]], np.zeros(1))  # of the screen
    found = _ordered(_judged(surface, space, peaks, tried), _untried(starts[:1], best, tried))
    if any(levels is not None for levels in space.levels):
        found = _flip(surface, space, found, tried, lengths, effort)
    return found


def _judged(surface: Surface, space: Space, X: Array, tried: Array) -> Found:
    """The ends of climbs, snapped; those a little beyond what is affordable brought back to it."""
    X = space.snap(X)
    rated = surface.at(X)
    over = rated.shortfall > 0
    if over.any():
        X[over] = _afford(surface, space, X[over])
        rated = surface.at(X)
    return _untried(X, rated, tried)


def _untried(X: Array, rated: Rated, tried: Array) -> Found:
    """The affordable points with a finite score that are not close to any that was tried."""
    keep = (rated.shortfall <= 0) & np.isfinite(rated.score) & ~_is_close(X, tried)
    return Found(X[keep], rated.score[keep])


def _ordered(*parts: Found) -> Found:
    """All of them, best first."""
    X = np.vstack([part.X for part in parts])
    score = np.concatenate([part.score for part in parts])
    order = np.argsort(-score, kind="stable")
    return Found(X[order], score[order])


def untried(rows: Array, tried: Array) -> Array:
    """The rows that are not among those tried."""
    return rows[~is_among(rows, tried)]


def _enumerate(surface: Surface, rows: Array) -> Found:
    """Every row, the affordable ones best first."""
    if len(rows) <= CHUNK:
        return _best_first(rows, _affordable_score(surface, rows) if len(rows) else np.zeros(0))
    starts = range(0, len(rows), CHUNK)
    parts = [_affordable_score(surface, rows[i : i + CHUNK]) for i in starts]
    return _best_first(rows, np.concatenate(parts))


def _enumerate_below(surface: Surface, rows: Array, ceiling: Array, within: float) -> Found:
    """The rows that may be the best or `within` that of it, highest ceiling first, best first."""
    score = np.full(len(rows), -np.inf)
    first = np.argpartition(-ceiling, FIRST_ROWS)[:FIRST_ROWS]
    score[first] = _affordable_score(surface, rows[first])
    ceiling = ceiling.copy()
    ceiling[first] = -np.inf
    while len(rest := np.flatnonzero(ceiling >= max(score.max() - within, LEAST))):
        highest = rest[np.argsort(-ceiling[rest], kind="stable")[:CHUNK]]
        score[highest] = _affordable_score(surface, rows[highest])
        ceiling[highest] = -np.inf
    return _best_first(rows, score)


def _affordable_score(surface: Surface, X: Array) -> Array:
    """(m,) scores, -inf where there is none or it is not affordable."""
    score, shortfall = surface.at(X)
    return np.where((shortfall <= 0) & ~np.isnan(score), score, -np.inf)


def _best_first(rows: Array, score: Array) -> Found:
    """The rows with a score, best first; of equals the first."""
    some = np.flatnonzero(score > -np.inf)
    order = some[np.argsort(-score[some], kind="stable")]
    return Found(rows[order], score[order])


def is_among(X: Array, tried: Array) -> Bools:
    """(m,): whether each row of X is exactly one of `tried`."""
    if len(X) <= FEWEST_ROWS:
        same = np.ones((len(X), len(tried)), dtype=np.bool_)
        for there, known in zip(X.T, tried.T, strict=True):
            same &= there[:, None] == known
        return np.asarray(same.any(axis=1))
    among = np.ones(len(X), dtype=np.bool_)
    for j in range(X.shape[1] if len(X) > FEW_ROWS else 0):  # mostly one or two say it all
        there, known = X[among, j], np.append(np.unique(tried[:, j]), np.nan)
        among[among] = known[np.searchsorted(known, there)] == there
        if not among.any():
            return among
    points = set(_as_bytes(tried))
    among[among] = [x in points for x in _as_bytes(X[among])]
    return among


def _as_bytes(X: Array) -> list[bytes]:
    """The rows, such that equal ones are equal: -0.0 is 0.0."""
    text, width = (X + 0.0).tobytes(), X.shape[1] * X.itemsize
    return [text[i : i + width] for i in range(0, len(text), width)]


def _is_close(X: Array, tried: Array) -> Bools:
    """(m,): whether each row of X is within SAME_POINT of one of `tried`."""
    if not len(tried):
        return np.zeros(len(X), dtype=np.bool_)
    gap = np.abs(X.T[:, :, None] - tried.T[:, None, :]).max(axis=0).min(axis=1)
    return np.asarray(gap <= SAME_POINT)


# ── screening ──────────────────────────────────────────────────────────────────────────────────


def candidates(space: Space, rng: np.random.Generator, near: Array, effort: Effort) -> Array:
    """A Sobol set, rotated at random, and points around `near` at scales from 1e-3 to 0.3."""
    U = (sobol(effort.screen, space.d) + rng.random(space.d)) % 1.0
    everywhere = space.spread(U)
    if not len(near) or not effort.around:
        return everywhere
    centre = near[np.arange(effort.around) % len(near)]
    reach = 10.0 ** rng.uniform(-3.0, -0.5, size=(effort.around, 1))
    moved = centre + reach * rng.standard_normal(centre.shape)
    # Few coordinates at a time, and always at least one: most improvements are small changes.
    share = rng.choice([1.0, 0.5, 1.5 / space.d], size=(effort.around, 1))
    change = rng.random(centre.shape) < share
    change[np.arange(effort.around), rng.integers(space.d, size=effort.around)] = True
    anywhere = space.spread(rng.random(centre.shape))
    moved = np.where(space.options > 0, anywhere, moved)
    return np.vstack([everywhere, space.snap(np.clip(np.where(change, moved, centre), 0.0, 1.0))])


def _spread_out(X: Array, score: Array, count: int) -> NDArray[np.int64]:
    """Indices of the best points, each at some distance from those before it."""
    columns, open_ = np.ascontiguousarray(X.T), score.copy()
    chosen = list[int]()
    while len(chosen) < count and open_.max() > -np.inf:
        best = int(np.argmax(open_))
        chosen.append(best)
        near = np.abs(columns - columns[:, best, None]).max(axis=0) <= SPREAD
        open_[near] = -np.inf
    if len(chosen) < count:
        rest = np.argsort(-score, kind="stable")
        more = (int(i) for i in rest if i not in chosen)
        chosen.extend(islice(more, count - len(chosen)))
    return np.array(chosen)


@dataclass(frozen=True)
class _Cheapness:
    """The surface whose score is minus the shortfall: is anything affordable at all?"""

    surface: Surface

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        rated, _, d_shortfall = self.surface.slopes(X)
        return (
            Rated(-rated.shortfall, np.zeros_like(rated.shortfall)),
            -d_shortfall,
            np.zeros_like(d_shortfall),
        )


def _affordable(surface: Surface, space: Space, screened: Array, rated: Rated) -> Array:
    """Nothing screened was affordable: climb towards what is."""
    starts = screened[np.argsort(rated.shortfall, kind="stable")[:4]]
    free = space.active(starts) & (space.options == 0)
    return space.snap(climb(_Cheapness(surface), starts, free, (40,)))


def _afford(surface: Surface, space: Space, X: Array) -> Array:
    """Points just beyond what is affordable brought back the shortest way: Newton on the shortfall.

    The penalty leaves a climb that the boundary holds a little outside of it.
    """
    free = space.active(X) & _continuous(space)
    for _ in range(NEWTON_STEPS):
        rated, _, slope = surface.slopes(X)
        held = ((X <= 0.0) & (slope > 0.0)) | ((X >= 1.0) & (slope < 0.0))
        slope = np.where(free & ~held, slope, 0.0)
        steepness = (slope * slope).sum(axis=1)
        over = (rated.shortfall > 0.0) & (steepness > 0.0)
        if not over.any():
            break
        step = np.divide(rated.shortfall + HAIR, steepness, where=over, out=np.zeros(len(X)))
        X = space.snap(np.clip(X - step[:, None] * slope, 0.0, 1.0))
    return X


# ── discrete coordinates ───────────────────────────────────────────────────────────────────────


def _continuous(space: Space) -> Bools:
    """(d,) coordinates without a list of values."""
    return np.array([levels is None for levels in space.levels])


def _flip(
    surface: Surface,
    space: Space,
    found: Found,
    tried: Array,
    lengths: Array | None,
    effort: Effort,
) -> Found:
    """From the best found, in different settings, change one discrete coordinate at a time.

    A change is _judged after the continuous coordinates have followed: another level may want them
    elsewhere, above all where a boundary holds them.
    """
    continuous = _continuous(space)
    seen = set[bytes]()
    for _ in range(effort.flips):
        settings = [x[~continuous].tobytes() for x in found.X]
        if not settings or settings[0] in seen:
            break  # the neighbours of the best were looked at
        new: dict[bytes, Array] = {}
        for setting, x in zip(settings, found.X, strict=True):
            if setting not in seen and len(new) < BEAM:
                new.setdefault(setting, x)
        seen.update(new)
        here = np.array(list(new.values()))
        around = np.vstack([here, *(space.snap(neighbours(space, x)) for x in here)])
        rated = surface.at(around)
        flipped = _untried(around, rated, tried)
        if continuous.any():
            around = around[np.argsort(-less_penalty(rated), kind="stable")[:ABREAST]]
            moved = climb(surface, around, space.active(around) & continuous, FOLLOW, lengths)
            flipped = _ordered(flipped, _judged(surface, space, moved, tried))
        found = _ordered(found, flipped)
    return found


def neighbours(space: Space, x: Array) -> Array:
    """Points that differ from x in one discrete coordinate."""
    out = []
    active = space.active(x[None])[0]
    for j, levels in enumerate(space.levels):
        if levels is None or not active[j]:
            continue
        here = int(np.argmin(np.abs(levels - x[j])))
        if len(levels) <= FEW_LEVELS:
            others = np.delete(levels, here)
        else:
            steps = np.array([-8, -3, -2, -1, 1, 2, 3, 8]) + here
            others = levels[steps[(steps >= 0) & (steps < len(levels))]]
        around = np.repeat(x[None], len(others), axis=0)
        around[:, j] = others
        out.append(around)
    return np.vstack(out) if out else np.empty((0, space.d))
