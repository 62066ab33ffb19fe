"""Whether a worker can evaluate trials.

A worker may run in the wrong folder, lack a library or have a broken GPU. If all of its first
trials fail while those of other workers succeed, the machine is at fault and not the parameters.
Until a trial of another worker has ended, this looks the same as a study that fails everywhere.
The worker then waits.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import numpy as np

from farthing.core.state import State
from farthing.history import Trial

__all__ = ["FIRST", "exclude_worker", "exclusion_message", "others_may_succeed", "worker_health"]

FIRST = 3  # trials that must all have failed

Health = Literal["good", "suspect", "unfit"]


def worker_health(state: State, worker: str) -> Health:
    """Return "good"; "suspect" if the worker must wait for a trial of another worker; or "unfit".

    A worker is not unfit if a working one has met the same failure: then the parameters cause it.
    """
    history = state.history
    failed = _failures_of(state, worker)
    if len(failed) < FIRST:
        return "good"
    if any(trial.run.worker == worker for trial in history.having("done", "paused", "killed")):
        return "good"
    since = min(trial.run.asked_at for trial in failed)
    fit = {
        trial.run.worker
        for trial in history.having("done", "paused")
        if trial.run.worker is not None and (trial.run.told_at or 0.0) >= since
    }
    if fit:
        familiar = {_kind(t) for t in history.having("failed", "lost") if t.run.worker in fit}
        return "good" if any(_kind(trial) in familiar for trial in failed) else "unfit"
    return "suspect" if others_may_succeed(state, worker) else "good"


def others_may_succeed(state: State, worker: str | None) -> bool:
    """Whether another worker without any failed trial is running one."""
    if worker is None:
        return False
    others = {t.run.worker for t in state.history.running if t.run.lease is not None}
    others -= {worker, None}
    return bool(others - {trial.run.worker for trial in state.history.having("failed", "lost")})


def exclusion_message(state: State, worker: str) -> str:
    """The warning about a worker that is excluded."""
    failed = _failures_of(state, worker)
    slot = "" if failed[0].run.slot is None else f" in slot {failed[0].run.slot}"
    return (
        f"Worker {worker}{slot} is excluded: its first {len(failed)} trials all failed, while "
        "other workers succeeded. Other workers repeat these trials, and the models ignore the "
        f"failures. The first error was:\n{failed[0].error}"
    )


def _failures_of(state: State, worker: str) -> list[Trial]:
    return [t for t in state.history.having("failed", "lost") if t.run.worker == worker]


def _kind(trial: Trial) -> str:
    """What identifies a kind of failure: the last line of the error without its digits."""
    lines = (trial.error or "").strip().splitlines() or [""]
    return re.sub(r"\d+", "", lines[-1])


def exclude_worker(state: State, worker: str) -> State:
    """The failed trials of a worker become lost: their cost stays charged, they teach nothing."""
    for trial in state.history.having("failed", "lost"):
        if trial.run.worker == worker:
            later = state.history.trials[trial.number + 1 :]
            is_repeated = any(np.array_equal(other.x, trial.x) for other in later)
            run = replace(trial.run, retry=not is_repeated)
            state = state.with_trial(replace(trial, state="lost", run=run))
    return replace(state, failures=0, first_error=None)
