"""What was spent when: the cost axis of every figure.

Trials are taken in the order of their ends. Each moves the axis by its part of what was spent,

    cost_i / (sum of all costs)  x  spent,

which is its cost, exactly, for what is summed over workers. Wall clock time is shared by workers
and holds the thinking as well: there the parts are in proportion.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.errors import InvalidInput
from farthing.history import Trial

__all__ = ["Bill", "cost_label", "cost_of", "main_resource", "spending", "spent_until"]


class Bill(NamedTuple):
    """A trial that has ended, and the part of the cost axis that is its own."""

    trial: Trial
    start: float
    end: float


def main_resource(settings: Settings, state: State, resource: str | None = None) -> str:
    """The resource that is asked for; else the first that anything was paid of; else trials."""
    known = (*state.ledger, "trials")
    if resource is not None:
        if resource not in known:
            raise InvalidInput(
                f"resource={resource!r}: the study has {', '.join(dict.fromkeys(known))}."
            )
        return resource
    paid = (r for r in settings.cost_resources if r in state.ledger and state.ledger[r].spent > 0)
    return next(paid, "trials")


def cost_of(trial: Trial, resource: str) -> float:
    """What a trial cost; one that was made elsewhere cost nothing here."""
    if trial.is_external:
        return 0.0
    return 1.0 if resource == "trials" else float(trial.cost.get(resource, 0.0))


def spending(state: State, resource: str) -> list[Bill]:
    """The trials that have ended, in the order of their ends, and when they were paid."""
    ended = [trial for trial in state.history if trial.state != "running"]
    ended.sort(key=lambda trial: (trial.run.told_at or 0.0, trial.number))
    costs = [cost_of(trial, resource) for trial in ended]
    scale = _scale(state, resource, math.fsum(costs))
    bills, at = [], 0.0
    for trial, cost in zip(ended, costs, strict=True):
        bills.append(Bill(trial, at, at + cost * scale))
        at += cost * scale
    return bills


def spent_until(state: State, resource: str) -> dict[int, float]:
    """What was spent when each trial was asked, by its number."""
    bills = spending(state, resource)
    ends = [(bill.trial.run.told_at or 0.0, bill.end) for bill in bills]
    found, k, spent = {}, 0, 0.0
    for trial in sorted(state.history, key=lambda trial: trial.run.asked_at):
        while k < len(ends) and ends[k][0] <= trial.run.asked_at:
            spent = ends[k][1]
            k += 1
        found[trial.number] = spent
    return found


def cost_label(resource: str, what: str = "cumulative cost") -> str:
    """What is along a cost axis."""
    if resource == "trials":
        return f"{what}, number of trials" if what != "cumulative cost" else "number of trials"
    return what if resource == "cost" else f"{what} ({resource})"


def _scale(state: State, resource: str, total: float) -> float:
    if resource not in state.ledger or total <= 0 or resource == "trials":
        return 1.0
    return state.ledger[resource].spent / total
