"""The axis of the spending: which interval of it belongs to which trial.

Trials are sorted by the time when they ended. The interval of a trial is as long as its share of
the spending (`core.shares`).
"""

from __future__ import annotations

from typing import NamedTuple

from farthing.core.settings import Settings
from farthing.core.shares import cost_of, share_of_spending
from farthing.core.state import State
from farthing.errors import InvalidInput
from farthing.history import Trial

__all__ = ["CostInterval", "cost_label", "main_resource", "spending", "spent_label", "spent_until"]


class CostInterval(NamedTuple):
    """A trial that has ended, and its interval on the axis of the spending."""

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


def spending(state: State, resource: str) -> list[CostInterval]:
    """The trials that have ended, in the order of their ends, with their intervals."""
    ended = [trial for trial in state.history if trial.state != "running"]
    ended.sort(key=lambda trial: (trial.run.told_at or 0.0, trial.number))
    scale = share_of_spending(state, resource, ended)
    intervals, at = [], 0.0
    for trial in ended:
        end = at + scale * cost_of(trial, resource)
        intervals.append(CostInterval(trial, at, end))
        at = end
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


def spent_label(resource: str) -> str:
    """The label of the axis of the spending."""
    return "number of trials" if resource == "trials" else cost_label(resource, "spent")


def cost_label(resource: str, what: str) -> str:
    """The label of an axis of costs."""
    if resource == "trials":
        return f"{what}, number of trials"
    return what if resource == "cost" else f"{what} ({resource})"
