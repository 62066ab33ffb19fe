"""EI-cool (Lee et al. 2020, eq. 3): EI / c^(first a_k), the exponent falling to 0.

    a_k = (tau - tau_k) / (tau - tau_init),  clamped to [0, 1]

`first` is 1 in the paper. tau is the budget and tau_k the amount that is spent or reserved.
tau_init is the cost of the initial design, but at most the amount spent, because workers share
wall-clock time. If there are several resources, the smallest a_k is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import ScoreSurface, log_ei_per_cost, maximise_score, proposal
from farthing.budget.ledger import Account
from farthing.errors import InvalidInput

__all__ = ["Cooling"]


@dataclass(frozen=True)
class Cooling:
    """EI per cost^a; a falls from `first` to 0 as the budget is spent."""

    first: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"budget", "cost", "model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not 0 <= self.first < np.inf:
            raise InvalidInput(
                f"Cooling(first={self.first}): first must be a finite number of at least 0. It is "
                "the exponent of the cost at the start of the budget: 1 as in the paper, or less "
                "to weigh cost less."
            )

    def surface(self, belief: Belief, rng: np.random.Generator) -> ScoreSurface:
        """ln EI - first a_k ln c."""
        return ScoreSurface(belief, log_ei_per_cost(self.first * exponent(belief)))

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """Argmax of ln EI - first a_k ln c."""
        alpha = self.first * exponent(belief)
        found = maximise_score(belief, log_ei_per_cost(alpha), rng)
        why = (
            f"highest expected improvement per cost^{alpha:.2f} (the exponent falls from "
            f"{self.first:g} to 0 as the budget is spent)"
        )
        return proposal(belief, found, why, notes={"alpha": alpha})


def exponent(belief: Belief) -> float:
    """The smallest a_k of all resources; 1 if nothing is limited."""
    ledger = belief.ledger
    return min(_exponent(ledger[name], _start_cost(belief, name)) for name in ledger)


def _exponent(account: Account, start: float) -> float:
    """(tau - tau_k) / (tau - tau_init) in [0, 1]."""
    if np.isinf(account.limit):
        return 1.0
    if account.left <= 0:
        return 0.0
    return float(min(1.0, account.left / (account.limit - min(start, account.spent))))


def _start_cost(belief: Belief, resource: str) -> float:
    """The cost of the initial design in a resource, without imported trials."""
    ended = belief.history.having("done", "failed", "killed", "lost")
    paid = [trial for trial in ended if trial.is_start and not trial.is_external]
    return sum(1.0 if resource == "trials" else trial.cost.get(resource, 0.0) for trial in paid)
