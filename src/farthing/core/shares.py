"""A trial's own cost, and its share of the spending.

The cost of a trial is what it used itself. Its share of the spending is

    cost  x  spent / (sum of the costs of all trials).

If a resource is summed over workers, the share is the cost itself. Wall-clock time passes once for
all workers and includes overhead, so there the shares are only proportional to the costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from farthing.core.state import State
from farthing.history import Trial

__all__ = ["cost_of", "share_of_spending"]

ROUNDING = 1e-9  # relative difference of two sums of the same costs


def cost_of(trial: Trial, resource: str) -> float:
    """The cost of a trial; an external trial costs this study nothing."""
    if trial.is_external:
        return 0.0
    return 1.0 if resource == "trials" else float(trial.cost.get(resource, 0.0))


def share_of_spending(state: State, resource: str, trials: Iterable[Trial]) -> float:
    """How much of the spending belongs to one unit of the trials' own costs.

    It is 1 if nothing is spent or no trial has a cost, and also if the costs are the spending.
    """
    if resource not in state.ledger or resource == "trials":
        return 1.0
    total, spent = math.fsum(cost_of(t, resource) for t in trials), state.ledger[resource].spent
    if total <= 0 or spent <= 0 or math.isclose(spent, total, rel_tol=ROUNDING):
        return 1.0
    return spent / total
