"""Gradient ascent from many starts at once.

`climb` is a projected BFGS with exact gradients. `slide` follows the boundary of the affordable
region. A surface gives every point a score, higher is better, and a shortfall, affordable where
<= 0. One call of the surface serves all starts. Ten starts take little more time than one, because
calls of numpy dominate at these sizes.
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
FIRST_STEP = 0.1  # in the unit cube: longest first step of a climb
LONGEST_STEP = 0.5  # in the unit cube: longest of the other steps
MAX_GAIN = 10.0  # a climb may still gain this multiple of what its next step promises
SETTLED = 1e-7  # a climb ends if its next step promises a smaller gain
ROUNDING = 1e-14  # or a gain below this share of its value
FLAT = 1e-3  # in units of `depth`: nearer to its minimum, a parabola does not show its curvature
RETURN_STEPS = 2  # Newton steps back to the boundary
RETURN_FROM = 0.1  # in units of `depth`: the largest shortfall from which to return
MARGIN = 1e-9  # of shortfall: distance kept from the boundary
PER_START = ("X", "value", "gradient", "H", "direction", "free", "fresh", "settled")


class Rated(NamedTuple):
    """Scores, higher is better, and shortfalls, affordable where <= 0; (m,) each."""

    score: Array
    shortfall: Array


class Sloped(Protocol):
    """A function on the cube with gradients."""

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        """Score and shortfall at X (m, d), and the gradients (m, d) of both."""


class Surface(Sloped, Protocol):
    """A function on the cube that can also be evaluated without gradients."""

    def at(self, X: Array) -> Rated:
        """Score and shortfall at X (m, d)."""


def climb(
    surface: Sloped,
    X: Array,
    free: Bools,
    steps: tuple[int, ...],
    lengths: Array | None = None,
) -> Array:
    """Projected BFGS from every row of X at once; only the coordinates in `free`, (m, d), move.

    The direction is H g on the coordinates that are not at an active bound. H starts as the
    diagonal of the squared `lengths`. Each start shortens its steps until Armijo's rule holds.
    After each stage but the last the better half continues. Returns the ends of all starts,
    including those dropped early.
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
    """Whether the best start has settled and no other one can be expected to pass it."""
    best = int(np.argmax(state.value))
    promise = (state.direction * state.gradient).sum(axis=1)
    attainable = np.where(state.settled, -np.inf, state.value + MAX_GAIN * promise)
    return bool(state.settled[best] and attainable.max() < state.value[best])


@dataclass
class _Climb:
    """The state of every start."""

    X: Array  # (s, d)
    value: Array  # (s,) score less the penalty
    gradient: Array  # (s, d)
    H: Array  # (s, d, d) estimate of the inverse negative Hessian
    direction: Array  # (s, d) the next step, shortened after every failure
    free: Bools  # (s, d)
    first: Array  # (d,) initial diagonal of H
    fresh: Bools  # (s,) whether H is still the initial one, not yet scaled
    settled: Bools  # (s,)

    def only(self, index: NDArray[np.int64]) -> _Climb:
        parts = {name: getattr(self, name)[index] for name in PER_START}
        return _Climb(**parts, first=self.first)


def less_penalty(rated: Rated) -> Array:
    """Score minus a quadratic penalty on a positive shortfall."""
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
    _set_direction(state, np.ones(s, dtype=np.bool_))
    return state


def _set_direction(state: _Climb, which: Bools) -> None:
    """Set new directions of the starts in `which`: H g without the coordinates at active bounds."""
    X, g = state.X, state.gradient
    outward = ((X <= 0.0) & (g < 0.0)) | ((X >= 1.0) & (g > 0.0))
    movable = state.free & ~outward
    g = g * movable
    p = np.matmul(state.H, g[:, :, None])[:, :, 0] * movable
    promise = (p * g).sum(axis=1)
    negligible = np.maximum(SETTLED, ROUNDING * np.abs(state.value))
    if (promise < negligible).any():
        # Either this is a maximum, or H is a poor estimate. In the second case reset H.
        steepest = state.first * g
        reset = (promise < negligible) & ~state.fresh & ((steepest * g).sum(axis=1) > negligible)
        if reset.any():
            p = np.where(reset[:, None], steepest, p)
            promise = np.where(reset, (steepest * g).sum(axis=1), promise)
            state.H = np.where(reset[:, None, None], np.diag(state.first), state.H)
            state.fresh |= reset
    longest = np.abs(p).max(axis=1)
    shrink = np.where(state.fresh, FIRST_STEP, LONGEST_STEP) / np.maximum(longest, 1e-300)
    p *= np.minimum(1.0, shrink)[:, None]
    state.direction = np.where(which[:, None], p, state.direction)
    state.settled |= which & (promise < negligible)


def _step(surface: Sloped, state: _Climb) -> None:
    """One evaluation for every start: accept the step and set a new one, or shorten it."""
    trial = np.minimum(np.maximum(state.X + state.direction, 0.0), 1.0)
    value, gradient = _penalised(surface, trial)
    moved = trial - state.X
    gain = value - state.value
    promised = (state.gradient * moved).sum(axis=1)
    better = (gain >= 1e-4 * promised) & (gain > 0.0) & ~state.settled
    change = state.gradient - gradient  # of the negative gradient
    curvature = (moved * change).sum(axis=1)
    good = better & (curvature > 1e-10 * promised)
    if good.any():
        state.H = _bfgs(state.H, state.fresh, good, moved, change, curvature)
        state.fresh &= ~good
    if better.all():
        state.X, state.gradient, state.value = trial, gradient, value
    else:
        # Shorten failed steps to the maximum of the parabola through value, slope and new value.
        fall = np.maximum(promised - gain, np.abs(promised)) + 1e-300
        factor = np.where(better, 1.0, np.minimum(np.maximum(0.5 * promised / fall, 0.1), 0.5))
        state.direction = state.direction * factor[:, None]
        # If a step is too short to gain anything, continue with steepest ascent. If steepest ascent
        # has failed, too, this is a maximum up to rounding.
        negligible = np.maximum(SETTLED, ROUNDING * np.abs(state.value))
        exhausted = ~better & (promised * factor < negligible)
        state.settled |= exhausted & state.fresh
        restart = exhausted & ~state.fresh
        if restart.any():
            state.H = np.where(restart[:, None, None], np.diag(state.first), state.H)
            state.fresh |= restart
        accept = better[:, None]
        state.X = np.where(accept, trial, state.X)
        state.gradient = np.where(accept, gradient, state.gradient)
        state.value = np.where(better, value, state.value)
        better = better | restart
    _set_direction(state, better)


def _bfgs(H: Array, fresh: Bools, good: Bools, s: Array, y: Array, sy: Array) -> Array:
    """H + (1 + y'Hy/s'y) s s'/s'y - (H y s' + s y'H)/s'y, for the starts in `good`.

    Before the first update of a start, H is scaled by s'y / y'Hy, the observed curvature.
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
    """Maximise the score f subject to the shortfall h <= 0, along h = 0 where it is active.

    Sequential quadratic programming (Nocedal and Wright 2006, chapter 18), all starts at once:

        max g'p - p'W^-1 p / 2  s.t.  h + a'p <= 0:   p = W (g - l a),  l = (h + a'W g) / a'W a

    where g and a are the gradients of f and h. Coordinates at active bounds are left out.

    A step is accepted if f - n max(h, 0) rises, where n is the largest 2 l so far. An accepted step
    updates W as in BFGS, a rejected one shrinks W. W starts as the squared `lengths` times
    2 t / a'W g. This is exact for a linear f and a parabola h that is t = h + `depth` above its
    minimum. From h > 0 the quadratic model may be poor, so l is at most 1 and n at least 1.
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
    price, max_multiplier = np.where(h > 0.0, 1.0, 0.0), np.where(h > 0.0, 1.0, np.inf)
    max_step = np.full(len(X), FIRST_STEP)
    fresh, diagonal = np.ones(len(X), dtype=np.bool_), True
    for _ in range(steps):
        p, multiplier = _constrained_step(X, h, g, a, W, max_multiplier)
        price = np.maximum(price, 2.0 * multiplier)
        p *= np.minimum(1.0, max_step / np.maximum(np.abs(p).max(axis=1), 1e-300))[:, None]
        trial = np.minimum(np.maximum(X + p, 0.0), 1.0)
        moved, over = trial - X, np.maximum(h, 0.0)
        shortfall_cut = over - np.maximum(h + (a * moved).sum(axis=1), 0.0)
        promised = (g * moved).sum(axis=1) + price * shortfall_cut
        promising = promised >= SETTLED
        if not promising.any():
            if diagonal:
                break
            # W may point out of the cube where the gradient points in: retry with its diagonal.
            W, diagonal = W * np.eye(len(first)), True
            continue
        diagonal = False
        (new_f, new_h), new_g, new_a = surface.slopes(trial)
        new_g, new_a = new_g * free, new_a * free
        gained = new_f - f - price * (np.maximum(new_h, 0.0) - over)
        better = promising & (gained >= 1e-4 * promised) & (new_h <= np.maximum(h, depth))
        change = g - new_g - multiplier[:, None] * (a - new_a)
        curvature = (moved * change).sum(axis=1)
        good = better & (curvature > 1e-10 * promised)
        W = _bfgs(W, fresh, good, moved, change, curvature)
        fresh &= ~good
        if better.all():
            X, f, h, g, a = trial, new_f, new_h, new_g, new_a
            max_step = np.full(len(X), LONGEST_STEP)
            continue
        # Shrink to where the parabola has no shortfall.
        shrink = np.sqrt(depth / np.maximum(new_h + depth, depth))
        shrink = np.where(better, 1.0, np.minimum(shrink, 0.5))
        W *= shrink[:, None, None]
        max_step = np.where(better, LONGEST_STEP, shrink * np.abs(moved).max(axis=1))
        accept = better[:, None]
        X, g, a = np.where(accept, trial, X), np.where(accept, new_g, g), np.where(accept, new_a, a)
        f, h = np.where(better, new_f, f), np.where(better, new_h, h)
    return _return_to_boundary(surface, X, h, a, free, W, depth)


def _return_to_boundary(
    surface: Sloped, X: Array, h: Array, a: Array, free: Bools, W: Array, depth: float
) -> Array:
    """Move points with a small shortfall back to h = 0 along W a: Newton steps on h."""
    max_step, no_limit = np.full(len(X), FIRST_STEP), np.full(len(X), np.inf)
    for _ in range(RETURN_STEPS):
        near = (h > 0.0) & (h < RETURN_FROM * depth)
        if not near.any():
            break
        p, _ = _constrained_step(X, np.where(near, h, -np.inf), np.zeros_like(a), a, W, no_limit)
        longest = np.abs(p).max(axis=1)
        shrink = np.minimum(1.0, max_step / np.maximum(longest, 1e-300))
        trial = np.clip(X + p * shrink[:, None], 0, 1)
        (_, new_h), _, new_a = surface.slopes(trial)
        better = new_h < h
        X, a = np.where(better[:, None], trial, X), np.where(better[:, None], new_a * free, a)
        h, max_step = np.where(better, new_h, h), np.where(better, max_step, 0.25 * longest)
    return X


def _constrained_step(
    X: Array, h: Array, g: Array, a: Array, W: Array, max_multiplier: Array
) -> tuple[Array, Array]:
    """The step p, and the multiplier l <= `max_multiplier` of h + a'p + MARGIN <= 0."""
    movable, to_bound = np.ones(X.shape, dtype=np.bool_), np.zeros_like(X)
    while True:
        products = np.matmul(W, np.stack([g * movable, a * movable], axis=2))  # (s, d, 2)
        Wg, Wa = products[:, :, 0] * movable, products[:, :, 1] * movable
        curvature = (a * Wa).sum(axis=1)
        violation = np.maximum(h + MARGIN + (a * (Wg + to_bound)).sum(axis=1), 0.0)
        multiplier = np.divide(violation, curvature, where=curvature > 0.0, out=np.zeros(len(X)))
        multiplier = np.minimum(multiplier, max_multiplier)
        p = Wg - multiplier[:, None] * Wa + to_bound
        out = movable & ((X + p < 0.0) | (X + p > 1.0))
        if not out.any():
            return p, multiplier
        to_bound = np.where(out, np.where(p < 0.0, -X, 1.0 - X), to_bound)
        movable &= ~out
