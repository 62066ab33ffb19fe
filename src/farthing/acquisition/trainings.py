"""Trainings: the model of all learning curves of a study, with the incumbent in its units.

A training is a trial that reports its value after steps. Its value at a rung is the best value up
to that step, or the last one (`Steps.value`). Running trainings are fantasised at the step that
they run to, and a failed one counts as if it had ended no better than the median.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.fantasies import penalised
from farthing.history import History, Trial, TrialState
from farthing.models.constraints import Constraint
from farthing.models.curve_values import CurveRows, thinned
from farthing.models.curves import Curves, refit_curves
from farthing.models.gp import FitMemory
from farthing.space.space import Space
from farthing.steps import Steps

__all__ = [
    "REPORTED",
    "Trainings",
    "at_rungs",
    "best_ended",
    "curve_rows",
    "has_begun",
    "is_staged",
    "train",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LARGEST = 1e150  # values are clipped here, as in belief.py
KNOWN: tuple[TrialState, ...] = ("running", "paused", "done", "failed", "killed")
REPORTED: tuple[TrialState, ...] = ("paused", "done")


def is_staged(steps: Steps | None) -> bool:
    """Whether there is more than one rung; one rung is an evaluation as a whole."""
    return steps is not None and len(steps.decision_steps) > 1


def has_begun(history: History, steps: Steps, count: int) -> bool:
    """Whether two trainings have reached a rung or ended, and `count` have done so or failed."""
    first = steps.decision_steps[0]
    reported = [
        t for t in history.having("running", *REPORTED) if t.step >= first or t.state == "done"
    ]
    ended = len(reported) + len(history.having("failed", "killed"))
    return len(reported) >= 2 and ended >= count


@dataclass(frozen=True)
class Trainings:
    """The posterior of the learning curves.

    Attributes:
        curves: the joint model, with fantasies of the running trainings. Its trials are `numbers`.
        numbers: the numbers of the trials in the model.
        best: the incumbent in units of the model, (f,): one per fantasy.
        value: the incumbent in the user's units, to minimise.
        left_out: (n,) whether a trial has values, but the model leaves them out for lack of room.
    """

    curves: Curves
    numbers: tuple[int, ...]
    best: Array
    value: float
    rungs: tuple[int, ...]
    left_out: Bools

    @cached_property
    def place(self) -> dict[int, int]:
        """The place of each trial in the model, by number."""
        return {number: i for i, number in enumerate(self.numbers)}

    def rung_after(self, step: int) -> int:
        """The first rung after a step, counted from 0; the number of rungs if there is none."""
        return int(np.searchsorted(self.rungs, step, side="right"))

    def described(self, mean: float, std: float, sign: float) -> str:
        """A predicted final value in the user's units, such as "0.31 +- 0.02"."""
        scaling = self.curves.scaling
        middle = float(scaling.undo(mean))
        spread = 0.5 * float(scaling.undo(mean + std) - scaling.undo(mean - std))
        return f"{sign * middle:.3g} +- {spread:.2g}"


def curve_rows(
    history: History, space: Space, steps: Steps, sign: float
) -> tuple[CurveRows, tuple[int, ...]]:
    """The values of all trials at the rungs they have reached, and the numbers of the trials."""
    rungs = thinned(steps.decision_steps)
    trials = history.having(*KNOWN)
    own, at, y = [], [], []
    for i, trial in enumerate(trials):
        for j, value in at_rungs(trial, steps, rungs, sign):
            own.append(i)
            at.append(j)
            y.append(value)
    rows = CurveRows(
        np.array([trial.x for trial in trials]).reshape(-1, space.d),
        np.array(own, dtype=np.int64),
        np.array(at, dtype=np.int64),
        np.array(y, dtype=np.float64).clip(-LARGEST, LARGEST),
        np.array(rungs),
    )
    return rows, tuple(trial.number for trial in trials)


@lru_cache(maxsize=4096)  # most trials have not changed since the last suggestion
def at_rungs(
    trial: Trial, steps: Steps, rungs: tuple[int, ...], sign: float
) -> tuple[tuple[int, float], ...]:
    """The rungs that a trial has reached, and its value there, to minimise.

    If nothing was reported up to the rungs that it has passed, its first report counts at the last
    of them.
    """
    found, best, last, k = [], np.inf, np.nan, 0
    curve = trial.curve
    for j, rung in enumerate(rungs):
        if trial.step < rung:
            break
        while k < len(curve) and curve[k].step <= rung:
            last = sign * curve[k].value
            best = min(best, last)
            k += 1
        value = best if steps.value == "best" else last
        if k and np.isfinite(value):
            found.append((j, value))
    if not found and curve and trial.step >= rungs[0]:
        at = max(j for j, rung in enumerate(rungs) if rung <= trial.step)
        found.append((at, sign * curve[0].value))
    is_last = bool(found) and found[-1][0] == len(rungs) - 1
    if trial.state == "done" and trial.value is not None and not is_last:
        # It ended by itself before the last step, or it was told or imported without a curve.
        found.append((len(rungs) - 1, sign * trial.value))
    return tuple(found)


def train(
    history: History,
    space: Space,
    steps: Steps,
    *,
    sign: float,
    noisy: bool,
    memory: FitMemory | None,
    fantasies: int,
    rng: np.random.Generator,
    constraints: tuple[Constraint, ...] = (),
    seldom: bool = False,
) -> tuple[Trainings, FitMemory]:
    """Fit the model of the learning curves; returns the memory for the next call, too.

    Args:
        constraints: a training that does not meet one of them is not the incumbent.
    """
    rows, numbers = curve_rows(history, space, steps, sign)
    place = {number: i for i, number in enumerate(numbers)}
    active = [t for t in history.having("running", "paused") if t.state == "running" or t.run.waits]
    needed = [place[t.number] for t in active]
    curves, memory = refit_curves(rows, memory, options=space.options, seldom=seldom, needed=needed)
    met = np.array([not any(c.excess(history[k]) > 0 for c in constraints) for k in numbers])
    value = _incumbent(history, rows, met, steps, sign)
    best = curves.scaling.apply(value)[None]
    last = len(rows.steps) - 1
    reached = curves.reached()
    left_out = (np.bincount(rows.trial, minlength=len(numbers)) > 0) & (reached == 0)
    if noisy and reached.any():
        own = np.flatnonzero(met & (reached > (last if steps.value == "last" else 0)))
        if len(own):
            best = curves.covariance(own, reached[own] - 1)[0].min(axis=0)
    failed = np.array([place[t.number] for t in penalised(history)], dtype=np.int64)
    if len(failed):
        rung = np.full(len(failed), last)
        expected = curves.covariance(failed, rung)[0]
        worst = float(np.median(curves.targets[:, 0]))
        curves = curves.condition(failed, rung, np.maximum(expected, worst))
    ahead = _running(history, place, rows.steps, reached)
    if len(ahead):
        own, rung = ahead.T
        draws = curves.sample(own, rung, fantasies, rng)
        curves = curves.condition(own, rung, draws)
        counts = np.ones(len(own), dtype=np.bool_) if steps.value == "best" else rung == last
        reach = draws[counts].min(axis=0) if counts.any() else np.inf
        best = np.minimum(best, reach) * np.ones(fantasies)
    rungs = tuple(map(int, rows.steps))
    return Trainings(curves, numbers, best, value, rungs, left_out), memory


def _incumbent(history: History, rows: CurveRows, met: Bools, steps: Steps, sign: float) -> float:
    """The best value of any checkpoint, or of a trial that is done if only the last value counts.

    Before the first such value it is the worst value so far, so that everything improves on it.
    """
    trials = [t for t, ok in zip(history.having(*KNOWN), met, strict=True) if ok]
    found = [sign * t.value for t in trials if t.state == "done" and t.value is not None]
    if steps.value == "best":
        found += rows.y[met[rows.trial]].tolist()  # at all rungs; some trainings are further
        ahead = [t for t in trials if t.state in ("running", "failed", "killed")]
        points = [sign * point.value for trial in ahead for point in trial.curve]
        found += [value for value in points if np.isfinite(value)]
    return min(found, default=float(rows.y.max()))


def best_ended(history: History, steps: Steps | None, sign: float) -> float:
    """The best value of a trial that does not run, to minimise; inf if there is none."""
    counts = steps is not None and steps.value == "best"
    trials = history.having(*REPORTED) if counts else history.done
    return min((sign * trial.value for trial in trials if trial.value is not None), default=np.inf)


def _running(history: History, place: dict[int, int], steps: Ints, reached: Ints) -> Ints:
    """(k, 2) the running trainings and the rung that each runs to."""
    found = []
    for trial in history.running:
        until = steps[-1] if trial.until is None else trial.until
        rung = min(int(np.searchsorted(steps, until)), len(steps) - 1)
        own = place[trial.number]
        if reached[own] <= rung:
            found.append((own, rung))
    return np.array(found, dtype=np.int64).reshape(-1, 2)
