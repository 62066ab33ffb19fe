"""Stop if the budget is spent, or if no affordable point is left.

stop when  left = limit - spent - reserved  is used up for a resource,
       or  P(c(x) <= left) < 0.8  for every x that is not tried yet
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.initial_design import MOST_POINTS
from farthing.acquisition.paid_costs import paid
from farthing.acquisition.protocols import Proposal, Verdict
from farthing.acquisition.search import is_among
from farthing.budget.units import format_amount
from farthing.history import StopReason

__all__ = ["OutOfBudget"]


@dataclass(frozen=True)
class OutOfBudget:
    """Stop if the budget is spent, or if no affordable point is left. It always applies.

    A point is affordable if P(c <= left) >= 0.8 for every limited resource.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Stop if an account is empty, or if the policy found no point that it may propose."""
        ledger = belief.ledger
        for resource in ledger.used_up:
            if resource == "trials" and proposal.resume is not None:
                continue  # it was counted when it began
            account = ledger[resource]
            because = f"the budget of {format_amount(resource, account.limit)} is spent"
            if account.reserved:
                reserved = format_amount(resource, account.reserved)
                because += f", {reserved} of it reserved for running trials"
            least = 1.0 if resource == "trials" else 0.0
            return Verdict(True, because, account.left, least, kind="budget_spent")
        if proposal.x is None:
            reason = _nothing_left(belief)
            # A policy that decides by steps knows more: a paused training is not untried.
            because = reason.sentence if belief.trainings is None else proposal.because
            return Verdict(True, because, ledger.left, 0.0, kind=reason.kind)
        if (too_expensive := _too_expensive(belief)) is not None:
            return Verdict(True, too_expensive, ledger.left, 0.0, kind="unaffordable")
        limited = [(r, ledger[r]) for r in ledger.resources if np.isfinite(ledger[r].limit)]
        if not limited:
            return Verdict(False, "the budget is unlimited")
        amounts = [f"{format_amount(r, a.left)} of {format_amount(r, a.limit)}" for r, a in limited]
        return Verdict(False, " and ".join(amounts) + " left", limited[0][1].left, 0.0)


def _too_expensive(belief: Belief) -> str | None:
    """The reason to stop if the only known cost exceeds what is left.

    One cost is too little for a cost model, so no model predicts that nothing is affordable.
    """
    ledger = belief.ledger
    for resource in ledger.resources:
        account = ledger[resource]
        known = [t.cost[resource] for t in islice(paid(belief.history, resource), 2)]
        if len(known) == 1 and resource not in belief.cost and known[0] > account.left:
            cost, left = (format_amount(resource, a) for a in (known[0], account.left))
            return f"nothing affordable is left: the only trial so far cost {cost}, {left} is left"
    return None


def _nothing_left(belief: Belief) -> StopReason:
    """Whether every point was tried, or no untried point is affordable."""
    ledger = belief.ledger
    limited = [r for r in ledger.resources if np.isfinite(ledger[r].limit)]
    points = belief.space.points(MOST_POINTS)
    if points is not None and is_among(points, belief.tried).all():
        what = "configuration of the space" if belief.space.rows is None else "row of the table"
        running = len(belief.history.running)
        still = f", {running} of them still running" if running else ""
        return StopReason("all_tried", f"every {what} was tried ({len(points)}{still})")
    if not limited:
        return StopReason("all_tried", "every configuration of the space was tried")
    left = " and ".join(format_amount(r, ledger[r].left) for r in limited)
    return StopReason(
        "unaffordable",
        f"nothing affordable is left: no untried point fits into {left} with 80 % certainty",
    )
