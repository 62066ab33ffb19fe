"""Which worker ran which trial, and when: a lane for each worker and slot."""

from __future__ import annotations

from typing import NamedTuple

from farthing.budget.units import format_amount
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.history import Trial
from farthing.view.formatting import amounts, counted_trials
from farthing.view.primitives import Figure, Layer, Panel, Segments, axis, named, visible_params

__all__ = ["LaneInterval", "timeline", "timeline_of"]

MAX_TRIALS = 1500  # shown: the latest


class LaneInterval(NamedTuple):
    """A trial in its lane, in seconds since the first trial started."""

    trial: Trial
    lane: str
    start: float
    end: float


def timeline_of(state: State) -> list[LaneInterval]:
    """The latest trials; running trials last until the latest known time."""
    trials = [trial for trial in state.history if not trial.is_external][-MAX_TRIALS:]
    if not trials:
        return []
    begin = min(trial.run.asked_at for trial in trials)
    now = max(max(_last_known(trial) for trial in trials), begin)
    found, free, slots = list[LaneInterval](), list[float](), dict[str | None, set[str | None]]()
    for trial in trials:
        if trial.run.told_at is not None and trial.run.slot is not None:
            slots.setdefault(trial.run.worker, set()).add(trial.run.slot)
    for trial in sorted(trials, key=lambda trial: (trial.run.asked_at, trial.number)):
        run = trial.run
        end = max(run.asked_at, now if run.told_at is None else run.told_at)
        lane, slot = run.worker or _free_lane(free, run.asked_at, end), run.slot
        untold = run.told_at is None or slot is None  # it has none yet, or that of an earlier part
        if untold and len(known := slots.get(run.worker, set())) == 1:
            slot = next(iter(known))
        lane += "" if slot is None else f", slot {slot}"
        found.append(LaneInterval(trial, lane, run.asked_at - begin, end - begin))
    return found


def _last_known(trial: Trial) -> float:
    """The latest time at which the trial is known to have been running."""
    run = trial.run
    used = max(trial.cost.get("s", 0.0), trial.cost.get("worker_s", 0.0))
    return run.asked_at + used if run.told_at is None else run.told_at


def _free_lane(free: list[float], start: float, end: float) -> str:
    """The first free lane, for a trial without the name of a worker."""
    for k, until in enumerate(free):
        if until <= start:
            free[k] = end
            return f"unnamed {k + 1}"
    free.append(end)
    return f"unnamed {len(free)}"


def timeline(settings: Settings, state: State) -> Figure:
    """Draw the trials of each worker in a lane."""
    name, title = "timeline", "Trials of each worker over time"
    found = timeline_of(state)
    if not found:
        return Figure(name, title, (), "", "No trial has started yet.")
    lanes = list(dict.fromkeys(interval.lane for interval in found))
    lanes.reverse()  # the first lane is at the top
    layers: list[Layer] = []
    for kind in ("done", "paused", "failed", "killed", "lost", "running"):
        some = [interval for interval in found if interval.trial.state == kind]
        if some:
            layers.append(
                Segments(
                    tuple(interval.start for interval in some),
                    tuple(interval.end for interval in some),
                    tuple(float(lanes.index(interval.lane)) for interval in some),
                    kind,
                    f"{kind} ({len(some)})",
                    thick=0.7,
                    texts=tuple(_hover(interval) for interval in some),
                )
            )
    end = max(interval.end for interval in found)
    x = axis("time since the first trial shown (s)", (0.0, end), resource="s", zero=True)
    is_cut = len(found) == MAX_TRIALS and len(state.history) > MAX_TRIALS
    trials = f"The latest {MAX_TRIALS} trials" if is_cut else counted_trials(len(found))
    caption = f"{trials} on {len(lanes)} worker{'' if len(lanes) == 1 else 's'}."
    panel = Panel(x, named("", lanes), tuple(layers))
    return Figure(name, title, (panel,), caption)


def _hover(interval: LaneInterval) -> str:
    """The cost of a trial, and the time between its suggestion and its result."""
    trial, took = interval.trial, interval.end - interval.start
    cost = f" for {amounts(trial.cost)}" if trial.cost else ""
    times = f"{format_amount('s', took)} from suggestion to result"
    if trial.state == "running":
        times = f"suggested {format_amount('s', took)} ago"
    return f"trial {trial.number}, {trial.state}{cost}; {times}  {visible_params(trial.params)}"
