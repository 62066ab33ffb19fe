"""Random search.

x ~ U(the allowed points that are affordable)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.initial_design import DRAWS, first_allowed
from farthing.acquisition.protocols import Proposal

__all__ = ["Random"]


@dataclass(frozen=True)
class Random:
    """Points drawn uniformly among the affordable ones."""

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """A uniform draw."""
        x = first_allowed(belief, belief.space.sample(DRAWS, rng), rng)
        return Proposal(x, "drawn uniformly among the affordable points")
