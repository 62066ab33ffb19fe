"""Histories of trainings, and beliefs about them, built by hand."""

import numpy as np

from farthing import Budget, Float, History, Ledger, Space, Steps, Trial
from farthing.acquisition.belief import believe
from farthing.cost import LogGP
from farthing.history import CurvePoint, Run

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1)})
STEPS = Steps(16)


def curve_of(values, *, rate=1.0, startup=0.0):
    """A curve with a report after each step."""
    return tuple(
        CurvePoint(step, float(value), {"cost": startup + rate * step})
        for step, value in enumerate(values, 1)
    )


def training(number, x, values, *, rate=1.0, startup=0.0, state=None, until=None, waits=False):
    """A trial with this curve; it is done if the curve is complete, and paused otherwise."""
    curve = curve_of(values, rate=rate, startup=startup)
    if state is None:
        state = "done" if len(curve) == STEPS.last else "paused"
    return Trial(
        number,
        {},
        np.asarray(x, dtype=float),
        state=state,
        value=float(np.min(values)) if state == "done" else None,
        cost=dict(curve[-1].cost) if curve else {},
        curve=curve,
        until=until,
        run=Run(waits=waits),
    )


def falling(level, steps, start=1.0):
    """Values that fall from `start` above a level towards it."""
    return level + start * np.arange(1, steps + 1) ** -1.0


def belief_of(*trials, steps=STEPS, budget=1000.0, space=SPACE, **settings):
    """A belief about these trials."""
    ledger = Ledger.of(Budget(budget))
    paid = sum(t.cost.get("cost", 0.0) for t in trials)
    if paid:
        ledger = ledger.charge(None, {"cost": paid})
    settings = {"learners": {"cost": LogGP()}, "curves": True, "model": False, **settings}
    return believe(space, History(tuple(trials)), ledger, steps=steps, **settings)


def some_trainings(count=8, seed=0, *, rate=1.0, startup=0.0):
    """Trainings at random points whose level is (a - 0.3)^2; some are done."""
    rng = np.random.default_rng(seed)
    X = rng.random((count, 2))
    reached = [16, 16, 1, 2, 4, 8, 1, 2] * (count // 8 + 1)
    return [
        training(i, x, falling((x[0] - 0.3) ** 2, k), rate=rate * (1 + x[1]), startup=startup)
        for i, (x, k) in enumerate(zip(X, reached, strict=False))
    ]
