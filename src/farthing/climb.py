"""Climb a surface from many starts at once: a projected BFGS with exact gradients.

A surface gives every point a score, higher is better, and a shortfall, affordable where <= 0. One
call of the surface serves all starts, so that ten cost little more than one: at these sizes the
time is the overhead of calling numpy, not arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rated", "Surface", "climb", "less_penalty"]

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

PENALTY = 1e3  # score per squared unit of shortfall while climbing
FIRST_STEP = 0.1  # longest first step of a climb, in the cube
LONGEST_STEP = 0.5  # and of the others
PROMISES = 10.0  # of its next step that a climb may yet keep
SETTLED = 1e-7  # a climb ends when its next step promises less than this
ROUNDING = 1e-14  # or than this share of its value
PER_START = ("X", "value", "gradient", "H", "direction", "free", "fresh", "settled")


class Rated(NamedTuple):
    """Scores, higher is better, and shortfalls, affordable where <= 0; (m,) each."""

    score: Array
    shortfall: Array


class Surface(Protocol):
    """A function on the cube with gradients."""

    def at(self, X: Array) -> Rated:
        """Score and shortfall at X (m, d)."""

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        """`at(X)` and the gradients (m, d) of score and of shortfall."""


def climb(
    surface: Surface,
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


def _penalised(surface: Surface, X: Array) -> tuple[Array, Array]:
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


def _start_climb(surface: Surface, X: Array, free: Bools, lengths: Array | None) -> _Climb:
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


def _step(surface: Surface, state: _Climb) -> None:
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
        _bfgs(state, good, moved, change, curvature)
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


def _bfgs(state: _Climb, good: Bools, s: Array, y: Array, sy: Array) -> None:
    """H + (1 + y'Hy/s'y) s s'/s'y - (H y s' + s y'H)/s'y, for the starts in `good`.

    Before the first update H is scaled by s'y / y'Hy, the curvature seen.
    """
    H = state.H
    sy = np.where(good, sy, 1.0)
    Hy = np.matmul(H, y[:, :, None])[:, :, 0]
    yHy = (y * Hy).sum(axis=1)
    if state.fresh.any():
        scale = np.where(good & state.fresh, sy / np.maximum(yHy, 1e-300), 1.0)
        H = H * scale[:, None, None]
        Hy = Hy * scale[:, None]
        yHy = yHy * scale
    # s s' (1 + y'Hy/s'y) - Hy s' - s Hy' = a s' + s a', a = s (1 + y'Hy/s'y)/2 - Hy
    a = (0.5 * (1.0 + yHy / sy)[:, None] * s - Hy) * (good / sy)[:, None]
    outer = a[:, :, None] * s[:, None, :]
    state.H = H + outer + outer.transpose(0, 2, 1)
