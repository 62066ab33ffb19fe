"""Expected improvement (Jones et al. 1998, eq. 15): argmax ln EI (Ament et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import log_ei_per_cost, maximise_score, proposal

__all__ = ["EI"]

OF_EQUALS_THE_CHEAPEST = 1e-12  # an exponent that decides between equal EI and nothing else


@dataclass(frozen=True)
class EI:
    """Most expected improvement, whatever it costs, among what is affordable."""

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = True

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """Argmax of ln EI."""
        alpha = OF_EQUALS_THE_CHEAPEST if belief.cost else 0.0
        found = maximise_score(belief, log_ei_per_cost(alpha), rng)
        return proposal(belief, found, "most improvement to be expected")
