"""Ascent from many starts: the estimate of the Hessian, and the recovery from a poor one."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from farthing.acquisition.ascent import (
    FIRST_STEP,
    Rated,
    _bfgs,
    _Climb,
    _set_direction,
    _step,
    climb,
)


@dataclass(frozen=True)
class Hill:
    """-|x - top|^2, which records the points at which it was evaluated."""

    top: np.ndarray
    evaluated: list = field(default_factory=list)

    def at(self, X):
        self.evaluated.append(X.copy())
        return Rated(-((X - self.top) ** 2).sum(axis=1), np.full(len(X), -1.0))

    def slopes(self, X):
        return self.at(X), -2 * (X - self.top), np.zeros_like(X)


def state_at(surface, X, H, *, fresh=False):
    """Starts at X with the estimate H, before their directions are set."""
    X, H = np.asarray(X, dtype=float), np.asarray(H, dtype=float)
    rated, gradient, _ = surface.slopes(X)
    return _Climb(
        X=X,
        value=rated.score,
        gradient=gradient,
        H=H,
        direction=np.zeros_like(X),
        free=np.ones(X.shape, dtype=bool),
        first=np.ones(X.shape[1]),
        fresh=np.full(len(X), fresh),
        settled=np.zeros(len(X), dtype=bool),
    )


def all_starts(state):
    return np.ones(len(state.X), dtype=bool)


@pytest.mark.parametrize("wrong", [-np.eye(2), np.zeros((2, 2))])
def test_a_useless_h_is_reset_to_steepest_ascent(wrong):
    """Only that start is reset. The other one, whose H is exact, reaches the top in one step."""
    top = np.array([0.5, 0.6])
    surface = Hill(top)
    state = state_at(surface, [[0.1, 0.6], [0.3, 0.2]], [wrong, 0.5 * np.eye(2)])
    _set_direction(state, all_starts(state))
    assert not state.settled.any()
    np.testing.assert_allclose(state.direction[0], [FIRST_STEP, 0.0])  # as short as a first step
    np.testing.assert_allclose(state.direction[1], top - [0.3, 0.2])
    np.testing.assert_array_equal(state.H, [np.eye(2), 0.5 * np.eye(2)])
    assert state.fresh.tolist() == [True, False]
    for _ in range(6):
        _step(surface, state)
    np.testing.assert_allclose(state.X, [top, top], atol=1e-6)


def test_a_direction_without_gain_is_replaced_by_steepest_ascent():
    """H g is almost orthogonal to the gradient, so even short steps lose."""
    surface = Hill(np.array([0.5, 0.5]))
    state = state_at(surface, [[0.3, 0.5]], [[[1e-6, 1.0], [1.0, 1.0]]])
    _set_direction(state, all_starts(state))
    assert state.direction[0] @ [0, 1] > 0.3
    _step(surface, state)
    assert not state.settled.any()
    np.testing.assert_allclose(state.direction, [[FIRST_STEP, 0.0]])
    for _ in range(6):
        _step(surface, state)
    np.testing.assert_allclose(state.X, [[0.5, 0.5]], atol=1e-6)


def test_if_steepest_ascent_gains_nothing_the_climb_ends():
    """The gradient has the wrong sign: every step loses, and the climb ends at its start."""

    class WrongSign(Hill):
        def slopes(self, X):
            return self.at(X), 2 * (X - self.top), np.zeros_like(X)

    surface = WrongSign(np.array([0.5]))
    state = state_at(surface, [[0.4]], [[[1.0]]], fresh=True)
    _set_direction(state, all_starts(state))
    for _ in range(30):
        _step(surface, state)
    assert state.settled.all()
    np.testing.assert_array_equal(state.X, [[0.4]])


def test_a_step_is_as_long_as_if_the_start_were_alone():
    """A start far from its maximum does not shorten the step of one that is near."""
    surface, steps = Hill(np.array([0.5, 0.5])), (4,)
    X = np.array([[0.45, 0.52], [0.0, 1.0], [0.49, 0.1]])
    free = np.ones(X.shape, dtype=bool)
    together = climb(surface, X, free, steps)
    alone = [climb(surface, x[None], f[None], steps)[0] for x, f in zip(X, free, strict=True)]
    np.testing.assert_allclose(together, alone, atol=1e-12)
    state = state_at(surface, X, np.broadcast_to(np.eye(2), (3, 2, 2)).copy(), fresh=True)
    _set_direction(state, all_starts(state))
    np.testing.assert_allclose(np.abs(state.direction).max(axis=1), [0.1, 0.1, 0.1])
    near = state_at(surface, [[0.49, 0.51], [0.0, 1.0]], [np.eye(2), np.eye(2)], fresh=True)
    _set_direction(near, all_starts(near))
    np.testing.assert_allclose(near.direction, [[0.02, -0.02], [0.1, -0.1]])


def test_a_climb_never_leaves_the_cube():
    surface = Hill(np.array([1.4, -0.7, 0.3]))
    X = np.array([[0.5, 0.5, 0.5], [0.97, 0.02, 0.9]])
    ends = climb(surface, X, np.ones(X.shape, dtype=bool), (20,))
    evaluated = np.vstack(surface.evaluated)
    assert evaluated.min() == 0.0
    assert evaluated.max() == 1.0
    np.testing.assert_allclose(ends, [[1.0, 0.0, 0.3]] * 2, atol=1e-6)


@pytest.mark.parametrize("d", [1, 3])
def test_the_update_of_h_is_the_product_form_of_bfgs(d):
    """(I - s y'/s'y) H (I - y s'/s'y) + s s'/s'y; a fresh H is scaled by s'y / y'Hy first."""
    rng = np.random.default_rng(d)
    A = rng.normal(size=(4, d, d))
    H = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(d)
    s = rng.normal(size=(4, d))
    y = s + 0.1 * rng.normal(size=(4, d))
    fresh, good = np.array([True, False, True, False]), np.array([True, True, False, False])
    sy = (s * y).sum(axis=1)
    learnt = _bfgs(H, fresh, good, s, y, sy)
    for i in range(4):
        slow = H[i]
        if good[i]:
            if fresh[i]:
                slow = slow * sy[i] / (y[i] @ slow @ y[i])
            left = np.eye(d) - np.outer(s[i], y[i]) / sy[i]
            slow = left @ slow @ left.T + np.outer(s[i], s[i]) / sy[i]
            np.testing.assert_allclose(learnt[i] @ y[i], s[i], atol=1e-9)
        np.testing.assert_allclose(learnt[i], slow, atol=1e-9)


def test_the_last_stage_ends_if_no_start_can_pass_the_best():
    """The best start is on its peak, and the other one is in a curved valley far below."""

    @dataclass(frozen=True)
    class PeakAndValley(Hill):
        def at(self, X):
            self.evaluated.append(X.copy())
            return Rated(self._both(X)[0], np.full(len(X), -1.0))

        def slopes(self, X):
            return self.at(X), self._both(X)[1], np.zeros_like(X)

        def _both(self, X):
            x, y = X.T
            bend = y - 4.0 * x * x
            low = -((0.45 - x) ** 2) - 100.0 * bend**2
            d_low = np.column_stack([2 * (0.45 - x) + 1600.0 * bend * x, -200.0 * bend])
            is_peak = x > 0.5
            peak = 100.0 - ((X - self.top) ** 2).sum(axis=1)
            return (
                np.where(is_peak, peak, low),
                np.where(is_peak[:, None], -2 * (X - self.top), d_low),
            )

    surface = PeakAndValley(np.array([0.8, 0.6]))
    X, free = np.array([[0.8, 0.6], [0.05, 0.5]]), np.ones((2, 2), dtype=bool)
    climb(surface, X[1:], free[1:], (1, 60))
    alone = len(surface.evaluated)
    surface.evaluated.clear()
    climb(surface, X, free, (1, 60))
    assert len(surface.evaluated) <= 3 < alone
