"""The ledger's own rule: the budget is spent, or nothing affordable is left (dossier 19)."""

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
        verdict = Verdict(False, "there is no budget to run out of")
        for resource in belief.ledger.resources:
            account = belief.ledger[resource]
            if not np.isfinite(account.limit):
                continue
            left, limit = (
                format_amount(resource, amount) for amount in (account.left, account.limit)
            )
            least = 1.0 if resource == "trials" else 0.0
            used_up = account.left < least or account.left <= 0
            if used_up:
                held = (
                    f", {format_amount(resource, account.reserved)} of it held for running trials"
                )
                because = f"the budget of {limit} is spent" + (held if account.reserved else "")
                return Verdict(True, because, account.left, least)
            verdict = Verdict(False, f"{left} of {limit} left", account.left, least)
        if proposal.x is None:
            return Verdict(True, _nothing_left(belief), belief.ledger.left, 0.0)
        return verdict


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
