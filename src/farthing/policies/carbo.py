"""CArBO (Lee et al. 2020, algorithms 1 to 3): a cheap cover, then EI-cool.

The start, then the cost-effective initial design until an eighth of the budget is spent
(the start included), then EI / c^a with the exponent cooling as the rest is spent. Trials still
running are fantasised (algorithm 3), so a batch is several asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
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
    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise InvalidInput(
                f"CArBO(share={self.share}): the initial design takes a share of the budget from 0 "
                "up to but not including 1. The paper uses 1/8."
            )

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """Cover or cool, by what has been spent."""
        if belief.ledger.used < self.share:
            return CostEffectiveDesign(greedy=self.greedy).propose(belief, rng)
        return Cooling().propose(belief, rng)
