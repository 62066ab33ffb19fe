"""Whether a worker can work: one whose first trials all fail, while those of others do not, cannot.

It may be in the wrong folder, lack a library or have a broken GPU. Until another worker's trial has
ended nobody can tell that from a study that fails everywhere, so it waits; if the other succeeds,
it is the machine that failed, and not the parameters.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import numpy as np

from farthing.core.state import State
from farthing.history import Trial

__all__ = ["FIRST", "others_may_do_better", "set_aside", "standing", "unfit_because"]

FIRST = 3  # trials that must all have failed

Standing = Literal["good", "suspect", "unfit"]


def standing(state: State, worker: str) -> Standing:
    """good; suspect: it waits for what another is running; or unfit, and to be set aside.

    It is not unfit where a worker that can work has met the same failure: then that comes of the
    parameters.
    """
    history = state.history
    failed = _failures_of(state, worker)
    if len(failed) < FIRST:
        return "good"
    if any(trial.run.worker == worker for trial in history.having("done", "killed")):
        return "good"
    since = min(trial.run.asked_at for trial in failed)
    fit = {
        trial.run.worker
        for trial in history.done
        if trial.run.worker is not None and (trial.run.told_at or 0.0) >= since
    }
    if fit:
        familiar = {_kind(t) for t in history.having("failed", "lost") if t.run.worker in fit}
        return "good" if any(_kind(trial) in familiar for trial in failed) else "unfit"
    return "suspect" if others_may_do_better(state, worker) else "good"


def others_may_do_better(state: State, worker: str | None) -> bool:
    """Whether another worker, of whose trials none has failed yet, is running one."""
    if worker is None:
        return False
    others = {t.run.worker for t in state.history.running if t.run.lease is not None}
    others -= {worker, None}
    return bool(others - {trial.run.worker for trial in state.history.having("failed", "lost")})


def unfit_because(state: State, worker: str) -> str:
    """What is said of a worker that is set aside."""
    failed = _failures_of(state, worker)
    slot = "" if failed[0].run.slot is None else f" in slot {failed[0].run.slot}"
    return (
        f"Worker {worker}{slot} is set aside: its first {len(failed)} trials all failed, while "
        "others succeeded. They are lost, and others try them again; nothing is learnt from them. "
        f"The first said:\n{failed[0].error}"
    )


def _failures_of(state: State, worker: str) -> list[Trial]:
    return [t for t in state.history.having("failed", "lost") if t.run.worker == worker]


def _kind(trial: Trial) -> str:
    """A failure without its numbers: the last line of what was said."""
    lines = (trial.error or "").strip().splitlines() or [""]
    return re.sub(r"\d+", "", lines[-1])


def set_aside(state: State, worker: str) -> State:
    """Its trials were lost: what they cost stays paid, and nothing is learnt from them."""
    for trial in state.history.having("failed", "lost"):
        if trial.run.worker == worker:
            later = state.history.trials[trial.number + 1 :]
            again = any(np.array_equal(other.x, trial.x) for other in later)
            run = replace(trial.run, retry=not again)
            lost = replace(trial, state="lost", run=run)
            state = replace(state, history=state.history.replacing(lost))
    return replace(state, failures=0, first_error=None)
