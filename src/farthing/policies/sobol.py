"""A scrambled Sobol sequence (Sobol 1967). Trial k takes row k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.initial_design import DRAWS, first_allowed
from farthing.acquisition.protocols import Proposal

__all__ = ["Sobol"]


@dataclass(frozen=True)
class Sobol:
    """Space-filling points from a scrambled Sobol sequence, determined by the seed."""

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """Row k, or the next row that is affordable and untried."""
        from scipy.stats import qmc

        sequence = qmc.Sobol(
            belief.space.d, scramble=True, rng=np.random.default_rng([belief.seed])
        )
        exponent = int(np.ceil(np.log2(belief.number + DRAWS)))
        rows = sequence.random_base2(exponent)[belief.number :]
        x = first_allowed(belief, belief.space.spread(rows), rng)
        return Proposal(x, f"row {belief.number} of a scrambled Sobol sequence")
