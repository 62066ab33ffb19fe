"""Maximise a surface over a space: screen, polish, flip; or enumerate the rows of a table.

    screen   score a rotated Sobol set and perturbations of the best points tried in one call
    polish   projected BFGS from the best of them, with exact gradients; one call of the surface per
             step serves all starts; the worse half of the starts is dropped after each stage
    flip     change discrete coordinates one at a time, and polish the continuous ones before
             comparing

A surface gives every point a score and a shortfall. Points with a positive shortfall are not
affordable and never returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.ascent import MARGIN, Rated, Surface, climb, less_penalty
from farthing.space.space import Space

__all__ = [
    "Effort",
    "Found",
    "Rated",
    "Surface",
    "best_rows",
    "candidates",
    "climb",
    "is_among",
    "is_close",
    "maximise",
    "sobol",
    "untried",
]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

CHUNK = 4096  # rows of a table scored at once, to bound memory
FIRST_ROWS = 256  # rows scored first if upper bounds of the scores are known
FEW_ROWS = 1024  # `is_among` compares up to this number of rows without a check by coordinate
FEWEST_ROWS = 16  # `is_among` compares up to this number of rows with all tried points
MIN_SCORE = -1e300  # lower values count as no score
SPREAD = 0.15  # in the unit cube: starts differ by more than this in at least one coordinate
SAME_POINT = 1e-7  # in the unit cube: points closer than this are the same evaluation
NEWTON_STEPS = 4  # to move a point back to the boundary of the affordable region
BEAM = 3  # combinations of discrete values whose neighbours are scored in one round
POLISHED = 16  # neighbours that are polished together
POLISH_STEPS = (4, 8)  # steps per stage; after the first stage the better half continues
FEW_LEVELS = 16  # try all levels of a coordinate up to this number
FEW_COMBINATIONS = 64  # try all allowed combinations up to this number, and the nearest of more


class Found(NamedTuple):
    """Affordable, untried, snapped points, best first: local maxima and the best screened point."""

    X: Array  # (k, d)
    score: Array  # (k,)


@dataclass(frozen=True)
class Effort:
    """The size of a search.

    Attributes:
        screen: Sobol points to score.
        around: perturbations of the best points tried to score.
        starts: points to polish.
        steps: steps of each stage of polishing; after each stage the better half continues.
        flips: rounds of changing discrete coordinates.
    """

    screen: int = 384
    around: int = 192
    starts: int = 10
    steps: tuple[int, ...] = (6, 6, 30)
    flips: int = 4


@lru_cache(maxsize=16)
def sobol(size: int, d: int) -> Array:
    """The first points of one fixed scrambled Sobol sequence; rotate them to randomise."""
    from scipy.stats import qmc  # takes as long to import as all the other modules together

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
    """The best affordable points of a surface; empty if there are none.

    Args:
        tried: (k, d) points not to be returned.
        near: (k, d) points around which to search as well.
        lengths: (d,) lengthscales of the surface, if they are known.
        screened: (k, d) points to start from, if several searches share them: `candidates`, or
            the `untried` rows of a table.
        ceiling: (k,) upper bounds of the scores of these rows; without them all rows are scored.
        within: for a table, return all rows whose score is within this distance of the best.
    """
    if space.rows is not None:
        rows = untried(space.rows, tried) if screened is None else screened
        if ceiling is not None:
            return _enumerate_bounded(surface, rows, ceiling, within)
        return best_rows(surface, rows)
    if screened is None:
        screened = candidates(space, rng, near, effort)
    rated = surface.at(screened)
    if not (rated.shortfall <= 0).any():
        screened = _climb_to_affordable(surface, space, screened, rated)
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
    best = Rated(score[chosen[:1]], np.zeros(1))  # the best screened point
    found = _ordered(_valid(surface, space, peaks, tried), _untried(starts[:1], best, tried))
    if any(levels is not None for levels in space.levels):
        found = _flip(surface, space, found, tried, lengths, effort)
    return found


def _valid(surface: Surface, space: Space, X: Array, tried: Array) -> Found:
    """Snap the ends of climbs, and move points just outside the affordable region back to it."""
    X = space.snap(X)
    rated = surface.at(X)
    over = rated.shortfall > 0
    if over.any():
        X[over] = _move_back(surface, space, X[over])
        rated = surface.at(X)
    return _untried(X, rated, tried)


def _untried(X: Array, rated: Rated, tried: Array) -> Found:
    """The affordable points with a finite score that are not close to a tried point."""
    keep = (rated.shortfall <= 0) & np.isfinite(rated.score) & ~is_close(X, tried)
    return Found(X[keep], rated.score[keep])


def _ordered(*parts: Found) -> Found:
    """All points of the parts, best first."""
    X = np.vstack([part.X for part in parts])
    score = np.concatenate([part.score for part in parts])
    order = np.argsort(-score, kind="stable")
    return Found(X[order], score[order])


def untried(rows: Array, tried: Array) -> Array:
    """The rows that were not tried."""
    return rows[~is_among(rows, tried)]


def best_rows(surface: Surface, rows: Array) -> Found:
    """Score every row; return the affordable ones, best first."""
    if len(rows) <= CHUNK:
        return _best_first(rows, _affordable_score(surface, rows) if len(rows) else np.zeros(0))
    starts = range(0, len(rows), CHUNK)
    parts = [_affordable_score(surface, rows[i : i + CHUNK]) for i in starts]
    return _best_first(rows, np.concatenate(parts))


def _enumerate_bounded(surface: Surface, rows: Array, ceiling: Array, within: float) -> Found:
    """Score the rows that can be within `within` of the best, in the order of their ceilings.

    Returns the scored rows, best first.
    """
    score = np.full(len(rows), -np.inf)
    first = np.argpartition(-ceiling, FIRST_ROWS)[:FIRST_ROWS]
    score[first] = _affordable_score(surface, rows[first])
    ceiling = ceiling.copy()
    ceiling[first] = -np.inf
    while len(rest := np.flatnonzero(ceiling >= max(score.max() - within, MIN_SCORE))):
        highest = rest[np.argsort(-ceiling[rest], kind="stable")[:CHUNK]]
        score[highest] = _affordable_score(surface, rows[highest])
        ceiling[highest] = -np.inf
    return _best_first(rows, score)


def _affordable_score(surface: Surface, X: Array) -> Array:
    """(m,) scores, -inf where the score is NaN or the point is not affordable."""
    score, shortfall = surface.at(X)
    return np.where((shortfall <= 0) & ~np.isnan(score), score, -np.inf)


def _best_first(rows: Array, score: Array) -> Found:
    """The rows with a score, best first; equal scores keep the order of the rows."""
    scored = np.flatnonzero(score > -np.inf)
    order = scored[np.argsort(-score[scored], kind="stable")]
    return Found(rows[order], score[order])


def is_among(X: Array, tried: Array) -> Bools:
    """(m,): whether each row of X is exactly one of `tried`."""
    if len(X) <= FEWEST_ROWS:
        same = np.ones((len(X), len(tried)), dtype=np.bool_)
        for there, known in zip(X.T, tried.T, strict=True):
            same &= there[:, None] == known
        return np.asarray(same.any(axis=1))
    among = np.ones(len(X), dtype=np.bool_)
    for j in range(X.shape[1] if len(X) > FEW_ROWS else 0):  # one or two usually suffice
        there, known = X[among, j], np.append(np.unique(tried[:, j]), np.nan)
        among[among] = known[np.searchsorted(known, there)] == there
        if not among.any():
            return among
    points = set(_as_bytes(tried))
    among[among] = [x in points for x in _as_bytes(X[among])]
    return among


def _as_bytes(X: Array) -> list[bytes]:
    """The rows as bytes that are equal if the rows are: -0.0 becomes 0.0."""
    data, width = (X + 0.0).tobytes(), X.shape[1] * X.itemsize
    return [data[i : i + width] for i in range(0, len(data), width)]


def is_close(X: Array, tried: Array) -> Bools:
    """(m,): whether each row of X is within SAME_POINT of one of `tried`."""
    found = np.zeros(len(X), dtype=np.bool_)
    i, k = np.nonzero(np.abs(X[:, :1] - tried[:, 0]) <= SAME_POINT)  # few pairs remain
    for j in range(1, X.shape[1]):
        near = np.abs(X[i, j] - tried[k, j]) <= SAME_POINT
        i, k = i[near], k[near]
    found[i] = True
    return found


# ── screening ──────────────────────────────────────────────────────────────────────────────────


def candidates(space: Space, rng: np.random.Generator, near: Array, effort: Effort) -> Array:
    """A randomly rotated Sobol set, and points around `near` at distances from 1e-3 to 0.3."""
    U = (sobol(effort.screen, space.d) + rng.random(space.d)) % 1.0
    everywhere = space.spread(U)
    if not len(near) or not effort.around:
        return everywhere
    centre = near[np.arange(effort.around) % len(near)]
    reach = 10.0 ** rng.uniform(-3.0, -0.5, size=(effort.around, 1))
    moved = centre + reach * rng.standard_normal(centre.shape)
    # Change few coordinates at a time, at least one: most improvements are small changes.
    share = rng.choice([1.0, 0.5, 1.5 / space.d], size=(effort.around, 1))
    change = rng.random(centre.shape) < share
    change[np.arange(effort.around), rng.integers(space.d, size=effort.around)] = True
    anywhere = space.spread(rng.random(centre.shape))
    moved = np.where(space.options > 0, anywhere, moved)
    return np.vstack([everywhere, space.snap(np.clip(np.where(change, moved, centre), 0.0, 1.0))])


def _spread_out(X: Array, score: Array, count: int) -> NDArray[np.int64]:
    """Indices of the best points that are more than SPREAD apart, then of the next best ones."""
    columns, open_score = np.ascontiguousarray(X.T), score.copy()
    chosen = list[int]()
    while len(chosen) < count and open_score.max() > -np.inf:
        best = int(np.argmax(open_score))
        chosen.append(best)
        near = np.abs(columns - columns[:, best, None]).max(axis=0) <= SPREAD
        open_score[near] = -np.inf
    if len(chosen) < count:
        rest = np.argsort(-score, kind="stable")
        more = (int(i) for i in rest if i not in chosen)
        chosen.extend(islice(more, count - len(chosen)))
    return np.array(chosen)


@dataclass(frozen=True)
class _Affordability:
    """The surface whose score is minus the shortfall, to find an affordable point."""

    surface: Surface

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        rated, _, d_shortfall = self.surface.slopes(X)
        return (
            Rated(-rated.shortfall, np.zeros_like(rated.shortfall)),
            -d_shortfall,
            np.zeros_like(d_shortfall),
        )


def _climb_to_affordable(surface: Surface, space: Space, screened: Array, rated: Rated) -> Array:
    """Climb towards the affordable region from the screened points with the least shortfall."""
    starts = screened[np.argsort(rated.shortfall, kind="stable")[:4]]
    free = space.active(starts) & (space.options == 0)
    return space.snap(climb(_Affordability(surface), starts, free, (40,)))


def _move_back(surface: Surface, space: Space, X: Array) -> Array:
    """Move points just outside the affordable region back to it: Newton steps on the shortfall.

    A climb with a quadratic penalty ends slightly outside the boundary.
    """
    free = space.active(X) & _continuous(space)
    for _ in range(NEWTON_STEPS):
        rated, _, slope = surface.slopes(X)
        at_bound = ((X <= 0.0) & (slope > 0.0)) | ((X >= 1.0) & (slope < 0.0))
        slope = np.where(free & ~at_bound, slope, 0.0)
        steepness = (slope * slope).sum(axis=1)
        over = (rated.shortfall > 0.0) & (steepness > 0.0)
        if not over.any():
            break
        step = np.divide(rated.shortfall + MARGIN, steepness, where=over, out=np.zeros(len(X)))
        X = space.snap(np.clip(X - step[:, None] * slope, 0.0, 1.0))
    return X


# ── discrete coordinates ───────────────────────────────────────────────────────────────────────


def _continuous(space: Space) -> Bools:
    """(d,) whether each coordinate is continuous."""
    return np.array([levels is None for levels in space.levels])


def _flip(
    surface: Surface,
    space: Space,
    found: Found,
    tried: Array,
    lengths: Array | None,
    effort: Effort,
) -> Found:
    """Change one discrete coordinate at a time, starting from the best combinations found.

    A change is compared after polishing the continuous coordinates: their optimum may depend on the
    level, above all at the boundary of the affordable region.
    """
    continuous = _continuous(space)
    seen = set[bytes]()
    for _ in range(effort.flips):
        settings = [x[~continuous].tobytes() for x in found.X]
        if not settings or settings[0] in seen:
            break  # the neighbours of the best combination were scored before
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
            around = around[np.argsort(-less_penalty(rated), kind="stable")[:POLISHED]]
            moved = climb(surface, around, space.active(around) & continuous, POLISH_STEPS, lengths)
            flipped = _ordered(flipped, _valid(surface, space, moved, tried))
        found = _ordered(found, flipped)
    return found


def neighbours(space: Space, x: Array) -> Array:
    """Points that differ from x in one discrete coordinate, at all levels or at nearby ones.

    The coordinates of an allowed combination change together.
    """
    out = []
    active = space.active(x[None])[0]
    for j, levels in enumerate(space.levels):
        if levels is None or not active[j] or space.combined[j]:
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
    if space.combined.any():
        out.append(space.recombined(x, FEW_COMBINATIONS))
    return np.vstack(out) if out else np.empty((0, space.d))
