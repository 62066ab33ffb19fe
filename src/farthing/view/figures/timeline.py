"""Who evaluated what, and when: a lane for each worker and slot."""

from __future__ import annotations

from typing import NamedTuple

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.history import Trial
from farthing.view.primitives import Figure, Layer, Panel, Segments, axis, named, visible_params

__all__ = ["Busy", "timeline", "timeline_of"]

SHOWN = 1500  # the last trials


class Busy(NamedTuple):
    """A trial in its lane, in seconds since the first was asked."""

    trial: Trial
    lane: str
    start: float
    end: float


def timeline_of(state: State) -> list[Busy]:
    """The last trials; what is running goes on to the last moment that is known."""
    trials = [trial for trial in state.history if not trial.is_external][-SHOWN:]
    if not trials:
        return []
    begin = min(trial.run.asked_at for trial in trials)
    now = max(max(_last_sign(trial) for trial in trials), begin)
    found, free = list[Busy](), list[float]()
    for trial in sorted(trials, key=lambda trial: (trial.run.asked_at, trial.number)):
        run = trial.run
        end = max(run.asked_at, now if run.told_at is None else run.told_at)
        lane = run.worker or _free_lane(free, run.asked_at, end)
        lane += "" if run.slot is None else f", slot {run.slot}"
        found.append(Busy(trial, lane, run.asked_at - begin, end - begin))
    return found


def _last_sign(trial: Trial) -> float:
    run = trial.run
    used = max(trial.cost.get("s", 0.0), trial.cost.get("worker_s", 0.0))
    return run.asked_at + used if run.told_at is None else run.told_at


def _free_lane(free: list[float], start: float, end: float) -> str:
    """Of trials without a worker's name: the first lane that is free by then."""
    for k, until in enumerate(free):
        if until <= start:
            free[k] = end
            return f"unnamed {k + 1}"
    free.append(end)
    return f"unnamed {len(free)}"


def timeline(settings: Settings, state: State) -> Figure:
    """Every worker's trials, side by side."""
    name, title = "timeline", "Who worked when"
    found = timeline_of(state)
    if not found:
        return Figure(name, title, (), "", "No trial was asked yet.")
    lanes = list(dict.fromkeys(busy.lane for busy in found))
    lanes.reverse()  # the first at the top
    layers: list[Layer] = []
    for kind in ("done", "failed", "killed", "lost", "running"):
        some = [busy for busy in found if busy.trial.state == kind]
        if some:
            layers.append(
                Segments(
                    tuple(busy.start for busy in some),
                    tuple(busy.end for busy in some),
                    tuple(float(lanes.index(busy.lane)) for busy in some),
                    kind,
                    f"{kind} ({len(some)})",
                    thick=0.7,
                    texts=tuple(_said(busy) for busy in some),
                )
            )
    end = max(busy.end for busy in found)
    x = axis("time since the first of them (s)", (0.0, end), resource="s", zero=True)
    some_left = len(found) == SHOWN and len(state.history) > SHOWN
    last = f"the last {SHOWN} trials" if some_left else f"{len(found)} trials"
    said = f"{last} on {len(lanes)} worker{'' if len(lanes) == 1 else 's'}."
    panel = Panel(x, named("", lanes), tuple(layers))
    return Figure(name, title, (panel,), said[:1].upper() + said[1:])


def _said(busy: Busy) -> str:
    trial, took = busy.trial, busy.end - busy.start
    return f"trial {trial.number}, {trial.state}: {took:.3g} s  {visible_params(trial.params)}"
