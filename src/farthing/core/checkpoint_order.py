"""Which checkpoints to delete first if they need too much space.

A checkpoint is worth the chance that its training is resumed. The value of a paused training at its
step is compared with those of all trainings that have reached this step. With k better ones,

    chance = 1 / (1 + k)        0 for a training that has ended or starts again

and the checkpoints of the least chance per byte are deleted first. Those of running trials and of
the best trial are kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from operator import itemgetter

from farthing.core.settings import Settings
from farthing.core.suggest import best_trial
from farthing.history import History, Trial
from farthing.steps import Steps

__all__ = ["checkpoints_to_delete", "least_promising"]


def checkpoints_to_delete(
    settings: Settings, history: History, sizes: Mapping[int, int], most: float
) -> list[int]:
    """The trials whose checkpoints are deleted, so that the others need at most `most` bytes.

    Args:
        sizes: the bytes of each checkpoint, by the number of the trial.
    """
    excess = sum(sizes.values()) - most
    steps = settings.steps
    if excess <= 0 or steps is None:
        return []
    best = best_trial(settings, history)
    kept = {trial.number for trial in history.running}
    kept |= set() if best is None else {best.number}
    known = [n for n in sizes if n < len(history) and n not in kept and sizes[n] > 0]
    worth = {n: _chance(steps, settings.sign, history, history[n]) / sizes[n] for n in known}
    found = []
    for number in sorted(known, key=lambda n: (worth[n], -sizes[n], n)):
        if excess <= 0:
            break
        found.append(number)
        excess -= sizes[number]
    return found


def least_promising(settings: Settings, history: History, numbers: Iterable[int]) -> int:
    """The trial of the least chance to be resumed, the latest of several."""
    steps = settings.steps
    assert steps is not None
    return min(numbers, key=lambda n: (_chance(steps, settings.sign, history, history[n]), -n))


def _chance(steps: Steps, sign: float, history: History, trial: Trial) -> float:
    """The chance that a training is resumed; only its order among others has a meaning."""
    if trial.state != "paused" or trial.starts_again or not trial.curve:
        return 0.0
    own = _value_at(steps, sign, trial, trial.step)
    others = (_value_at(steps, sign, other, trial.step) for other in history)
    return 1.0 / (1 + sum(value < own for value in others))


def _value_at(steps: Steps, sign: float, trial: Trial, step: int) -> float:
    """The value of a training at a step, to minimise; infinite if it has not reached the step."""
    if trial.step < step:
        return float("inf")
    reached = bisect_left(trial.curve, step + 1, key=itemgetter(0))
    value = steps.value_of(trial.curve[:reached], sign)
    return float("inf") if value is None else sign * value
