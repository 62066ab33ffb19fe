"""What a person says about trials: forget one, run one again, evaluate this next.

A trial that is dropped is lost: its cost is paid, nothing is learnt from it, its parameters may be
proposed again, and a value told later is taken. What it was is in its notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from farthing.errors import InvalidInput, Outdated
from farthing.history import Trial
from farthing.space import Space
from farthing.start import check_wanted
from farthing.state import Change, Enqueued, Moment, State, Wanted

__all__ = ["drop", "enqueue", "one_of", "repeat", "without"]


def one_of(state: State, number: int) -> Trial:
    """The trial of that number."""
    count = len(state.history)
    if not (isinstance(number, int | np.integer) and 0 <= number < count):
        there = f"0 to {count - 1}" if count else "none yet"
        raise InvalidInput(f"There is no trial {number}: the study has {there}.")
    return state.history[int(number)]


def drop(state: State, trial: Trial, moment: Moment) -> State:
    """Forget a trial; if it was running, it was charged."""
    if trial.is_dropped:
        raise InvalidInput(f"Trial {trial.number} was dropped already.")
    return _noted(_forgotten(state, trial, moment), trial, "dropped", moment)


def repeat(state: State, trial: Trial, moment: Moment) -> State:
    """Want the parameters of a trial again."""
    if trial.state == "running":
        raise InvalidInput(f"Trial {trial.number} is running. Drop it first, or wait for its end.")
    if trial.state == "failed":
        state = _forgotten(state, trial, moment)
    elif trial.run.retry:
        state = _with(state, replace(trial, run=replace(trial.run, retry=False)))
    because = f"trial {trial.number} again, because it was asked for"
    state = replace(state, queue=(*state.queue, Wanted(dict(trial.params), because)))
    return _noted(state, trial, "to be run again", moment)


def _forgotten(state: State, trial: Trial, moment: Moment) -> State:
    """As if a trial had been lost, and nothing been remembered of it."""
    was = {"state": trial.state, "value": trial.value, "error": trial.error}
    told_at = moment.now if trial.run.told_at is None else trial.run.told_at
    lost = replace(
        trial,
        state="lost",
        value=None,
        error="it was dropped",
        notes={**trial.notes, "dropped": was},
        run=replace(trial.run, lease=None, retry=False, told_at=told_at),
    )
    state = _with(state, lost)
    for later in state.history.trials[trial.number + 1 :]:
        if "memories" in later.notes:  # which may have been learnt from it
            notes = {key: note for key, note in later.notes.items() if key != "memories"}
            state = _with(state, replace(later, notes=notes))
    return state


def _noted(state: State, trial: Trial, now: str, moment: Moment) -> State:
    was = trial.state if trial.value is None else f"{trial.state} with {trial.value:.6g}"
    change = Change(moment.now, len(state.history), {f"trial {trial.number}": (was, now)})
    return replace(state, changes=(*state.changes, change))


def _with(state: State, trial: Trial) -> State:
    return replace(state, history=state.history.replacing(trial))


# ── what is wanted next ────────────────────────────────────────────────────────────────────────


def enqueue(space: Space, state: State, event: Enqueued) -> State:
    """Want configurations, the first of them first."""
    queue = state.queue
    for wanted in event.wanted:
        check_wanted(space, wanted.params)
        had = (trial.notes.get("given") for trial in state.history)
        if event.once and wanted.params in (*(each.params for each in queue), *had):
            continue
        queue = (*queue, wanted)
    return replace(state, queue=queue)


def without(queue: tuple[Wanted, ...], given: Mapping[str, object] | None) -> tuple[Wanted, ...]:
    """The queue after what is given was taken from it."""
    if given is None:
        return queue
    at = next((i for i, wanted in enumerate(queue) if wanted.params == given), None)
    if at is None:
        raise Outdated("another process has taken what was wanted")
    return (*queue[:at], *queue[at + 1 :])
