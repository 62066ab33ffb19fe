"""The cost axis of the figures: which interval of the spending belongs to which trial.

Trials are sorted by the time when they ended. Trial i gets an interval of length

    cost_i / (sum of all costs)  x  spent.

If a resource is summed over workers, this length is the cost itself. Wall-clock time is shared by
workers and includes overhead, so its intervals are only proportional to the costs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.errors import InvalidInput
from farthing.history import Trial

__all__ = ["CostInterval", "cost_label", "cost_of", "main_resource", "spending", "spent_until"]


class CostInterval(NamedTuple):
    """A trial that has ended, and its interval on the cost axis."""

    trial: Trial
    start: float
    end: float


def main_resource(settings: Settings, state: State, resource: str | None = None) -> str:
    """The given resource; by default the first with any spending, or else `trials`."""
    known = (*state.ledger, "trials")
    if resource is not None:
        if resource not in known:
            raise InvalidInput(
                f"Unknown resource {resource!r}; the study has {', '.join(dict.fromkeys(known))}."
            )
        return resource
    paid = (r for r in settings.cost_resources if r in state.ledger and state.ledger[r].spent > 0)
    return next(paid, "trials")


def cost_of(trial: Trial, resource: str) -> float:
    """The cost of a trial; an external trial costs this study nothing."""
    if trial.is_external:
        return 0.0
    return 1.0 if resource == "trials" else float(trial.cost.get(resource, 0.0))


def spending(state: State, resource: str) -> list[CostInterval]:
    """The trials that have ended, in the order of their ends, with their cost intervals."""
    ended = [trial for trial in state.history if trial.state != "running"]
    ended.sort(key=lambda trial: (trial.run.told_at or 0.0, trial.number))
    costs = [cost_of(trial, resource) for trial in ended]
    scale = _scale(state, resource, math.fsum(costs))
    intervals, at = [], 0.0
    for trial, cost in zip(ended, costs, strict=True):
        intervals.append(CostInterval(trial, at, at + cost * scale))
        at += cost * scale
    return intervals


def spent_until(state: State, resource: str) -> dict[int, float]:
    """The spending at the time when each trial was suggested, by trial number."""
    ends = [(each.trial.run.told_at or 0.0, each.end) for each in spending(state, resource)]
    found, k, spent = {}, 0, 0.0
    for trial in sorted(state.history, key=lambda trial: trial.run.asked_at):
        while k < len(ends) and ends[k][0] <= trial.run.asked_at:
            spent = ends[k][1]
            k += 1
        found[trial.number] = spent
    return found


def cost_label(resource: str, what: str = "cumulative cost") -> str:
    """The label of a cost axis."""
    if resource == "trials":
        return f"{what}, number of trials" if what != "cumulative cost" else "number of trials"
    return what if resource == "cost" else f"{what} ({resource})"


def _scale(state: State, resource: str, total: float) -> float:
    if resource not in state.ledger or total <= 0 or resource == "trials":
        return 1.0
    return state.ledger[resource].spent / total
