"""EI per cost to a power: EI_alpha = EI / c^alpha (Guinet et al. 2020, eq. 1).

alpha = 1 is EIpu (Snoek et al. 2012, section 3.2) and, in logs, LogEIPC; alpha = 0 is EI.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import ScoreSurface, log_ei_per_cost, maximise_score, proposal
from farthing.errors import InvalidInput

__all__ = ["EIPerCost"]


@dataclass(frozen=True)
class EIPerCost:
    """The highest expected improvement per cost^alpha: argmax ln EI - alpha ln E[min(c, cap)]."""

    alpha: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise InvalidInput(
                f"EIPerCost(alpha={self.alpha}): alpha must be a finite number of at least 0. "
                "Use 1 for improvement per cost, 0.2 to weigh cost less, 0 for plain EI."
            )

    def surface(self, belief: Belief, rng: np.random.Generator) -> ScoreSurface:
        """ln EI - alpha ln c."""
        return ScoreSurface(belief, log_ei_per_cost(self.alpha))

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """Argmax of ln EI - alpha ln c."""
        found = maximise_score(belief, self.surface(belief, rng).score, rng)
        why = "highest expected improvement per cost"
        if self.alpha != 1:
            why = f"highest expected improvement per cost^{self.alpha:g}"
        chosen = proposal(belief, found, why)
        # With several costs the scarcest resource decides, so no exchange rate applies.
        has_rate = self.alpha == 1 and len(belief.cost) == 1
        return replace(chosen, rates=(0.0, np.inf)) if has_rate else chosen
