"""Expected improvement (Jones et al. 1998, eq. 15): argmax ln EI (Ament et al. 2023).

    EI(x) = E[(best - f(x))+] = std h(u),   u = (best - mean) / std,   h(u) = phi(u) + u Phi(u)

models/normal.py computes ln EI, and acquisition/scores.py adds the terms of the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import ScoreSurface, log_ei_per_cost, maximise_score, proposal

__all__ = ["EI"]

TIE_BREAK_EXPONENT = 1e-12  # of the cost: among points of equal EI the cheapest wins


@dataclass(frozen=True)
class EI:
    """The highest expected improvement among the affordable points, whatever their cost."""

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def surface(self, belief: Belief, rng: np.random.Generator) -> ScoreSurface:
        """ln EI."""
        return ScoreSurface(belief, log_ei_per_cost(TIE_BREAK_EXPONENT if belief.cost else 0.0))

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """Argmax of ln EI."""
        found = maximise_score(belief, self.surface(belief, rng).score, rng)
        return proposal(belief, found, "highest expected improvement")
