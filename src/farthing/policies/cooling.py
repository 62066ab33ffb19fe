"""EI-cool (CArBO, section 4; dossier 6): EI / c^a, the exponent falling from 1 to 0.

    a_k = (tau - tau_k) / (tau - tau_init),  clamped to [0, 1]

tau is the budget, tau_k what is spent and reserved, tau_init what the initial design cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition import log_ei_per_cost, maximise_score, proposal
from farthing.belief import Belief
from farthing.decision import Proposal

__all__ = ["Cooling"]


@dataclass(frozen=True)
class Cooling:
    """Thrifty while the budget is full, bold when it runs out."""

    needs: ClassVar[frozenset[str]] = frozenset({"budget", "cost", "model"})
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = True

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """Argmax of ln EI - a_k ln c."""
        alpha = _exponent(belief)
        found = maximise_score(belief, log_ei_per_cost(alpha), rng)
        why = f"most improvement per cost^{alpha:.2f} to be expected, cooling with what is left"
        return proposal(belief, found, why, notes={"alpha": alpha})


def _exponent(belief: Belief) -> float:
    """The smallest of a_k over the limited resources."""
    alphas = [1.0]
    start = [t for t in belief.history.having("done", "failed", "killed") if t.is_start]
    for resource in belief.ledger:
        account = belief.ledger[resource]
        if np.isfinite(account.limit):
            first = min(sum(t.cost.get(resource, 0.0) for t in start), account.spent)
            alphas.append(max(account.left, 0.0) / (account.limit - first))
    return float(min(alphas))
