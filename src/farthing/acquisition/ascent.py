"""Climb a surface from many starts at once: a projected BFGS with exact gradients; or slide along
the boundary of what is affordable.

A surface gives every point a score, higher is better, and a shortfall, affordable where <= 0. One
call of the surface serves all starts, so that ten cost little more than one: at these sizes the
time is the overhead of calling numpy, not arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rated", "Surface", "climb", "less_penalty", "slide"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

PENALTY = 1e3  # score per squared unit of shortfall while climbing
FIRST_STEP = 0.1  # longest first step of a climb, in the cube
LONGEST_STEP = 0.5  # and of the others
PROMISES = 10.0  # of its next step that a climb may yet keep
SETTLED = 1e-7  # a climb ends when its next step promises less than this
ROUNDING = 1e-14  # or than this share of its value
FLAT = 1e-3  # of its depth: so near its lowest a parabola tells nothing of its curvature
BACK = 2  # steps back to the boundary,
LITTLE = 0.1  # of its depth: from no farther
HAIR = 1e-9  # of shortfall: what is left between a point and the boundary it was moved to
PER_START = ("X", "value", "gradient", "H", "direction", "free", "fresh", "settled")


class Rated(NamedTuple):
    """Scores, higher is better, and shortfalls, affordable where <= 0; (m,) each."""

    score: Array
    shortfall: Array


class Sloped(Protocol):
    """A function on the cube that is climbed by its gradients."""

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        """Score and shortfall at X (m, d), and the gradients (m, d) of both."""


class Surface(Sloped, Protocol):
    """One that is also looked at without gradients."""

    def at(self, X: Array) -> Rated:
        """Score and shortfall at X (m, d)."""


def climb(
    surface: Sloped,
    X: Array,
    free: Bools,
    steps: tuple[int, ...],
    lengths: Array | None = None,
) -> Array:
    """Climb from every row of X at once, moving the coordinates that are `free`, (m, d).

    Projected BFGS: direction H g on the coordinates not held by a bound, H starting from the
    squared `lengths`; steps that do not satisfy Armijo's rule are shortened, each start at its own
    pace. After each stage but the last the better half goes on. Returns all ends, those dropped
    early too.
    """
    ends: list[Array] = []
    state = _start_climb(surface, X, free, lengths)
    for stage, rounds in enumerate(steps):
        for _ in range(rounds):
            if state.settled.all() or (stage and stage + 1 == len(steps) and _is_decided(state)):
                break
            _step(surface, state)
        if stage + 1 < len(steps) and len(state.X) > 2:
            order = np.argsort(-state.value, kind="stable")
            keep = max(2, (len(order) + 1) // 2)
            ends.append(state.X[order[keep:]])
            state = state.only(order[:keep])
    return np.vstack([state.X, *ends])


def _is_decided(state: _Climb) -> bool:
    """Whether the highest has settled and no other promises to pass it."""
    best = int(np.argmax(state.value))
    promise = (state.direction * state.gradient).sum(axis=1)
    hopes = np.where(state.settled, -np.inf, state.value + PROMISES * promise)
    return bool(state.settled[best] and hopes.max() < state.value[best])


@dataclass
class _Climb:
    """Where every start stands."""

    X: Array  # (s, d)
    value: Array  # (s,) score less the penalty
    gradient: Array  # (s, d)
    H: Array  # (s, d, d) inverse of the negative Hessian, estimated
    direction: Array  # (s, d) the step being tried, shortened after every failure
    free: Bools  # (s, d)
    first: Array  # (d,) diagonal that H begins with
    fresh: Bools  # (s,) H not yet scaled
    settled: Bools  # (s,)

    def only(self, index: NDArray[np.int64]) -> _Climb:
        parts = {name: getattr(self, name)[index] for name in PER_START}
        return _Climb(**parts, first=self.first)


def less_penalty(rated: Rated) -> Array:
    """Score less a quadratic penalty on what is not affordable."""
    over = np.maximum(rated.shortfall, 0.0)
    return np.asarray(rated.score - PENALTY * over**2)


def _penalised(surface: Sloped, X: Array) -> tuple[Array, Array]:
    """`less_penalty` and its gradient."""
    rated, gradient, d_shortfall = surface.slopes(X)
    value = rated.score
    if rated.shortfall.max() > 0:
        over = np.maximum(rated.shortfall, 0.0)
        value = less_penalty(rated)
        gradient = gradient - 2.0 * PENALTY * over[:, None] * d_shortfall
    if not np.isfinite(value.sum() + gradient.sum()):
        value, gradient = np.where(np.isfinite(value), value, -1e300), np.nan_to_num(gradient)
    return value, gradient


def _start_climb(surface: Sloped, X: Array, free: Bools, lengths: Array | None) -> _Climb:
    s, d = X.shape
    first = np.ones(d) if lengths is None else np.minimum(lengths, 1.0) ** 2
    value, gradient = _penalised(surface, X)
    state = _Climb(
        X=X,
        value=value,
        gradient=gradient,
        H=np.broadcast_to(np.diag(first), (s, d, d)).copy(),
        direction=np.zeros((s, d)),
        free=free,
        first=first,
        fresh=np.ones(s, dtype=np.bool_),
        settled=np.zeros(s, dtype=np.bool_),
    )
    _aim(state, np.ones(s, dtype=np.bool_))
    return state


def _aim(state: _Climb, which: Bools) -> None:
    """New directions for the starts in `which`: H g without the coordinates a bound holds back."""
    X, g = state.X, state.gradient
    outward = ((X <= 0.0) & (g < 0.0)) | ((X >= 1.0) & (g > 0.0))
    may = state.free & ~outward
    g = g * may
    p = np.matmul(state.H, g[:, :, None])[:, :, 0] * may
    promise = (p * g).sum(axis=1)
    tiny = np.maximum(SETTLED, ROUNDING * np.abs(state.value))
    if (promise < tiny).any():
        # Either the top, or H has gone wrong: then it starts again.
        steepest = state.first * g
        wrong = (promise < tiny) & ~state.fresh & ((steepest * g).sum(axis=1) > tiny)
        if wrong.any():
            p = np.where(wrong[:, None], steepest, p)
            promise = np.where(wrong, (steepest * g).sum(axis=1), promise)
            state.H = np.where(wrong[:, None, None], np.diag(state.first), state.H)
            state.fresh |= wrong
    longest = np.abs(p).max(axis=1)
    shrink = np.where(state.fresh, FIRST_STEP, LONGEST_STEP) / np.maximum(longest, 1e-300)
    p *= np.minimum(1.0, shrink)[:, None]
    state.direction = np.where(which[:, None], p, state.direction)
    state.settled |= which & (promise < tiny)


def _step(surface: Sloped, state: _Climb) -> None:
    """One evaluation for every start: accept and aim again, or shorten."""
    trial = np.minimum(np.maximum(state.X + state.direction, 0.0), 1.0)
    value, gradient = _penalised(surface, trial)
    moved = trial - state.X
    gain = value - state.value
    promised = (state.gradient * moved).sum(axis=1)
    better = (gain >= 1e-4 * promised) & (gain > 0.0) & ~state.settled
    change = state.gradient - gradient  # of the negative gradient: positive along s when concave
    curvature = (moved * change).sum(axis=1)
    good = better & (curvature > 1e-10 * promised)
    if good.any():
        state.H = _bfgs(state.H, state.fresh, good, moved, change, curvature)
        state.fresh &= ~good
    if better.all():
        state.X, state.gradient, state.value = trial, gradient, value
    else:
        # Shorten what failed: to the top of the parabola through value, slope and trial value.
        fall = np.maximum(promised - gain, np.abs(promised)) + 1e-300
        factor = np.where(better, 1.0, np.minimum(np.maximum(0.5 * promised / fall, 0.1), 0.5))
        state.direction = state.direction * factor[:, None]
        # So short that nothing is left to be gained along it: begin again from steepest ascent,
        # or, where that has failed, this is the top as far as rounding can tell.
        tiny = np.maximum(SETTLED, ROUNDING * np.abs(state.value))
        spent = ~better & (promised * factor < tiny)
        state.settled |= spent & state.fresh
        again = spent & ~state.fresh
        if again.any():
            state.H = np.where(again[:, None, None], np.diag(state.first), state.H)
            state.fresh |= again
        accept = better[:, None]
        state.X = np.where(accept, trial, state.X)
        state.gradient = np.where(accept, gradient, state.gradient)
        state.value = np.where(better, value, state.value)
        better = better | again
    _aim(state, better)


def _bfgs(H: Array, fresh: Bools, good: Bools, s: Array, y: Array, sy: Array) -> Array:
    """H + (1 + y'Hy/s'y) s s'/s'y - (H y s' + s y'H)/s'y, for the starts in `good`.

    Before the first update, of the `fresh`, H is scaled by s'y / y'Hy, the curvature seen.
    """
    sy = np.where(good, sy, 1.0)
    Hy = np.matmul(H, y[:, :, None])[:, :, 0]
    yHy = (y * Hy).sum(axis=1)
    if fresh.any():
        scale = np.where(good & fresh, sy / np.maximum(yHy, 1e-300), 1.0)
        H = H * scale[:, None, None]
        Hy = Hy * scale[:, None]
        yHy = yHy * scale
    # s s' (1 + y'Hy/s'y) - Hy s' - s Hy' = a s' + s a', a = s (1 + y'Hy/s'y)/2 - Hy
    a = (0.5 * (1.0 + yHy / sy)[:, None] * s - Hy) * (good / sy)[:, None]
    outer = a[:, :, None] * s[:, None, :]
    return np.asarray(H + outer + outer.transpose(0, 2, 1))


# ── along a constraint ─────────────────────────────────────────────────────────────────────────


def slide(
    surface: Sloped, X: Array, free: Bools, steps: int, lengths: Array, depth: float
) -> Array:
    """Climb to where the shortfall h holds the score f back, and along h = 0 to the highest point.

    Sequential quadratic programming (Nocedal and Wright 2006, chapter 18), all starts at once:

        max g'p - p'W^-1 p / 2  s.t.  h + a'p <= 0:   p = W (g - l a),  l = (h + a'W g) / a'W a

    without the coordinates that a bound holds back. A step is taken if f - n max(h, 0) rises, n the
    largest 2 l so far, and W learns from it as in BFGS; else W shrinks. W begins with the squared
    `lengths` times 2 t / a'W g: right for a linear f and a parabola h that is t = h + `depth` above
    its lowest. From h > 0, where both may be far off, l is at most 1 and n at least.
    """
    first = np.minimum(lengths, 1.0) ** 2
    (f, h), g, a = surface.slopes(X)
    g, a = g * free, a * free
    steep = np.where(h > 0.0, (a * a) @ first, (a * g) @ first)
    above = h + depth
    size = np.where(above > FLAT * depth, 2.0 * above / np.maximum(steep, 1e-300), np.inf)
    longest = np.abs(first * g).max(axis=1) + np.where(h > 0.0, np.abs(first * a).max(axis=1), 0.0)
    size = np.minimum(size, FIRST_STEP / np.maximum(longest, 1e-300))
    W = np.diag(first) * size[:, None, None]
    price, most = np.where(h > 0.0, 1.0, 0.0), np.where(h > 0.0, 1.0, np.inf)
    reach = np.full(len(X), FIRST_STEP)
    fresh, plain = np.ones(len(X), dtype=np.bool_), True
    for _ in range(steps):
        p, multiplier = _aim_within(X, h, g, a, W, most)
        price = np.maximum(price, 2.0 * multiplier)
        p *= np.minimum(1.0, reach / np.maximum(np.abs(p).max(axis=1), 1e-300))[:, None]
        trial = np.minimum(np.maximum(X + p, 0.0), 1.0)
        moved, over = trial - X, np.maximum(h, 0.0)
        less = over - np.maximum(h + (a * moved).sum(axis=1), 0.0)
        promised = (g * moved).sum(axis=1) + price * less
        open_ = promised >= SETTLED
        if not open_.any():
            if plain:
                break
            # Or W leads out of the cube where the slope leads in: once more without its corners.
            W, plain = W * np.eye(len(first)), True
            continue
        plain = False
        (new_f, new_h), new_g, new_a = surface.slopes(trial)
        new_g, new_a = new_g * free, new_a * free
        gained = new_f - f - price * (np.maximum(new_h, 0.0) - over)
        better = open_ & (gained >= 1e-4 * promised) & (new_h <= np.maximum(h, depth))
        change = g - new_g - multiplier[:, None] * (a - new_a)
        curvature = (moved * change).sum(axis=1)
        good = better & (curvature > 1e-10 * promised)
        W = _bfgs(W, fresh, good, moved, change, curvature)
        fresh &= ~good
        if better.all():
            X, f, h, g, a = trial, new_f, new_h, new_g, new_a
            reach = np.full(len(X), LONGEST_STEP)
            continue
        # As far along the parabola as it has no shortfall.
        shrink = np.sqrt(depth / np.maximum(new_h + depth, depth))
        shrink = np.where(better, 1.0, np.minimum(shrink, 0.5))
        W *= shrink[:, None, None]
        reach = np.where(better, LONGEST_STEP, shrink * np.abs(moved).max(axis=1))
        accept = better[:, None]
        X, g, a = np.where(accept, trial, X), np.where(accept, new_g, g), np.where(accept, new_a, a)
        f, h = np.where(better, new_f, f), np.where(better, new_h, h)
    return _back(surface, X, h, a, free, W, depth)


def _back(
    surface: Sloped, X: Array, h: Array, a: Array, free: Bools, W: Array, depth: float
) -> Array:
    """Points a little beyond h = 0 brought back along W a: Newton on h."""
    reach, no_limit = np.full(len(X), FIRST_STEP), np.full(len(X), np.inf)
    for _ in range(BACK):
        near = (h > 0.0) & (h < LITTLE * depth)
        if not near.any():
            break
        p, _ = _aim_within(X, np.where(near, h, -np.inf), np.zeros_like(a), a, W, no_limit)
        longest = np.abs(p).max(axis=1)
        trial = np.clip(X + p * np.minimum(1.0, reach / np.maximum(longest, 1e-300))[:, None], 0, 1)
        (_, new_h), _, new_a = surface.slopes(trial)
        better = new_h < h
        X, a = np.where(better[:, None], trial, X), np.where(better[:, None], new_a * free, a)
        h, reach = np.where(better, new_h, h), np.where(better, reach, 0.25 * longest)
    return X


def _aim_within(
    X: Array, h: Array, g: Array, a: Array, W: Array, most: Array
) -> tuple[Array, Array]:
    """The step p, and the multiplier l of the constraint, at most `most`; h <= 0 with a hair."""
    may, to_bound = np.ones(X.shape, dtype=np.bool_), np.zeros_like(X)
    while True:
        both = np.matmul(W, np.stack([g * may, a * may], axis=2))  # (s, d, 2)
        Wg, Wa = both[:, :, 0] * may, both[:, :, 1] * may
        stiff = (a * Wa).sum(axis=1)
        over = np.maximum(h + HAIR + (a * (Wg + to_bound)).sum(axis=1), 0.0)
        multiplier = np.divide(over, stiff, where=stiff > 0.0, out=np.zeros(len(X)))
        multiplier = np.minimum(multiplier, most)
        p = Wg - multiplier[:, None] * Wa + to_bound
        out = may & ((X + p < 0.0) | (X + p > 1.0))
        if not out.any():
            return p, multiplier
        to_bound = np.where(out, np.where(p < 0.0, -X, 1.0 - X), to_bound)
        may &= ~out
