"""The ledger's own rule: the budget is spent, or nothing affordable is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.belief import Belief
from farthing.decision import Proposal, Verdict
from farthing.ledger import format_amount
from farthing.search import is_among

__all__ = ["OutOfBudget"]


@dataclass(frozen=True)
class OutOfBudget:
    """Always in force: nothing starts that the ledger cannot afford.

    Affordable means P(c <= left) >= 0.8 for every limited resource.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = False

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Stop when an account is empty or the policy found nothing it may propose."""
        ledger = belief.ledger
        for resource in ledger.used_up:
            account = ledger[resource]
            because = f"the budget of {format_amount(resource, account.limit)} is spent"
            if account.reserved:
                held = format_amount(resource, account.reserved)
                because += f", {held} of it held for running trials"
            return Verdict(True, because, account.left, 1.0 if resource == "trials" else 0.0)
        if proposal.x is None:
            return Verdict(True, _nothing_left(belief), ledger.left, 0.0)
        limited = [(r, ledger[r]) for r in ledger.resources if np.isfinite(ledger[r].limit)]
        if not limited:
            return Verdict(False, "there is no budget to run out of")
        words = [f"{format_amount(r, a.left)} of {format_amount(r, a.limit)}" for r, a in limited]
        return Verdict(False, " and ".join(words) + " left", limited[0][1].left, 0.0)


def _nothing_left(belief: Belief) -> str:
    """Which of the two it is: everything tried, or nothing that fits into what is left."""
    ledger = belief.ledger
    limited = [r for r in ledger.resources if np.isfinite(ledger[r].limit)]
    rows = belief.space.rows
    if rows is not None and is_among(rows, belief.tried).all():
        return f"every row of the table was tried ({len(rows)})"
    if not limited:
        return "every configuration of the space was tried"
    left = " and ".join(format_amount(r, ledger[r].left) for r in limited)
    return f"nothing affordable is left: no untried point fits into {left} with 80 % certainty"
