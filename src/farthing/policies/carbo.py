"""CArBO (Lee et al. 2020, algorithms 1 to 3): a cost-effective design, then EI-cool.

First comes the common initial design. Then the cost-effective design runs until an eighth of the
budget is spent, including the cost of the first step. Then EI / c^a follows, and a falls as the
rest is spent. Pending trials are fantasised (algorithm 3), so several asks make a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import ScoreSurface
from farthing.errors import InvalidInput
from farthing.policies.cooling import Cooling
from farthing.policies.cost_effective_design import CostEffectiveDesign

__all__ = ["CArBO"]


@dataclass(frozen=True)
class CArBO:
    """Cost-effective initial design for `share` of the budget, then cooling."""

    share: float = 1 / 8
    greedy: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({"budget", "cost", "model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise InvalidInput(
                f"CArBO(share={self.share}): share, the part of the budget for the initial design, "
                "must be at least 0 and less than 1. The paper uses 1/8."
            )

    def surface(self, belief: Belief, rng: np.random.Generator) -> ScoreSurface | None:
        """The surface of EI-cool; None during the design, which maximises no score."""
        return None if belief.ledger.used < self.share else Cooling().surface(belief, rng)

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The design or EI-cool, depending on the share of the budget that is used."""
        if belief.ledger.used < self.share:
            return CostEffectiveDesign(greedy=self.greedy).propose(belief, rng)
        return Cooling().propose(belief, rng)
