"""Climbs of many starts: what each of them learns, and what it does when that was wrong."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from farthing.acquisition.ascent import FIRST_STEP, Rated, _aim, _bfgs, _Climb, _step, climb


@dataclass(frozen=True)
class Hill:
    """-|x - top|^2, which keeps where it was asked."""

    top: np.ndarray
    asked: list = field(default_factory=list)

    def at(self, X):
        self.asked.append(X.copy())
        return Rated(-((X - self.top) ** 2).sum(axis=1), np.full(len(X), -1.0))

    def slopes(self, X):
        return self.at(X), -2 * (X - self.top), np.zeros_like(X)


def standing(surface, X, H, *, fresh=False):
    """Starts at X that have learnt H so far, and have not aimed yet."""
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


def everyone(state):
    return np.ones(len(state.X), dtype=bool)


@pytest.mark.parametrize("wrong", [-np.eye(2), np.zeros((2, 2))])
def test_an_h_that_leads_nowhere_starts_again_from_steepest_ascent(wrong):
    """Only that one: the other, whose H is right, goes straight to the top."""
    top = np.array([0.5, 0.6])
    surface = Hill(top)
    state = standing(surface, [[0.1, 0.6], [0.3, 0.2]], [wrong, 0.5 * np.eye(2)])
    _aim(state, everyone(state))
    assert not state.settled.any()
    np.testing.assert_allclose(state.direction[0], [FIRST_STEP, 0.0])  # as careful as a first step
    np.testing.assert_allclose(state.direction[1], top - [0.3, 0.2])
    np.testing.assert_array_equal(state.H, [np.eye(2), 0.5 * np.eye(2)])
    assert state.fresh.tolist() == [True, False]
    for _ in range(6):
        _step(surface, state)
    np.testing.assert_allclose(state.X, [top, top], atol=1e-6)


def test_a_direction_along_which_nothing_is_gained_is_given_up_for_steepest_ascent():
    """H g is all but level, so however short the step the hill falls before it rises."""
    surface = Hill(np.array([0.5, 0.5]))
    state = standing(surface, [[0.3, 0.5]], [[[1e-6, 1.0], [1.0, 1.0]]])
    _aim(state, everyone(state))
    assert state.direction[0] @ [0, 1] > 0.3
    _step(surface, state)
    assert not state.settled.any()
    np.testing.assert_allclose(state.direction, [[FIRST_STEP, 0.0]])
    for _ in range(6):
        _step(surface, state)
    np.testing.assert_allclose(state.X, [[0.5, 0.5]], atol=1e-6)


def test_steepest_ascent_that_gains_nothing_is_the_top():
    """A gradient that lies: every step falls, and the climb ends where it began."""

    class Liar(Hill):
        def slopes(self, X):
            return self.at(X), 2 * (X - self.top), np.zeros_like(X)

    surface = Liar(np.array([0.5]))
    state = standing(surface, [[0.4]], [[[1.0]]], fresh=True)
    _aim(state, everyone(state))
    for _ in range(30):
        _step(surface, state)
    assert state.settled.all()
    np.testing.assert_array_equal(state.X, [[0.4]])


def test_a_step_is_as_long_as_if_the_start_were_alone():
    """One that wants to go far does not hold back one that is nearly there."""
    surface, steps = Hill(np.array([0.5, 0.5])), (4,)
    X = np.array([[0.45, 0.52], [0.0, 1.0], [0.49, 0.1]])
    free = np.ones(X.shape, dtype=bool)
    together = climb(surface, X, free, steps)
    alone = [climb(surface, x[None], f[None], steps)[0] for x, f in zip(X, free, strict=True)]
    np.testing.assert_allclose(together, alone, atol=1e-12)
    state = standing(surface, X, np.broadcast_to(np.eye(2), (3, 2, 2)).copy(), fresh=True)
    _aim(state, everyone(state))
    np.testing.assert_allclose(np.abs(state.direction).max(axis=1), [0.1, 0.1, 0.1])
    near = standing(surface, [[0.49, 0.51], [0.0, 1.0]], [np.eye(2), np.eye(2)], fresh=True)
    _aim(near, everyone(near))
    np.testing.assert_allclose(near.direction, [[0.02, -0.02], [0.1, -0.1]])


def test_a_climb_never_looks_outside_of_the_cube():
    surface = Hill(np.array([1.4, -0.7, 0.3]))
    X = np.array([[0.5, 0.5, 0.5], [0.97, 0.02, 0.9]])
    ends = climb(surface, X, np.ones(X.shape, dtype=bool), (20,))
    asked = np.vstack(surface.asked)
    assert asked.min() == 0.0
    assert asked.max() == 1.0
    np.testing.assert_allclose(ends, [[1.0, 0.0, 0.3]] * 2, atol=1e-6)


@pytest.mark.parametrize("d", [1, 3])
def test_what_a_step_teaches_is_the_product_form_of_bfgs(d):
    """(I - s y'/s'y) H (I - y s'/s'y) + s s'/s'y; the fresh scaled by s'y / y'Hy before."""
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


def test_the_last_stage_ends_when_nobody_can_pass_the_highest():
    """It stands on its peak, and the other is in a bent valley far below."""

    @dataclass(frozen=True)
    class PeakAndValley(Hill):
        def at(self, X):
            self.asked.append(X.copy())
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
    alone = len(surface.asked)
    surface.asked.clear()
    climb(surface, X, free, (1, 60))
    assert len(surface.asked) <= 3 < alone
