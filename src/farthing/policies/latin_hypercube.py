"""Latin hypercubes (McKay et al. 1979), one after another.

    x_ij = (pi_j(i) + u_ij) / n,   pi_j a random permutation of 0 .. n - 1,   u_ij ~ U(0, 1)

Each hypercube of n points has one point in each of the n strata of a coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.initial_design import DRAWS, first_allowed
from farthing.acquisition.protocols import Proposal
from farthing.errors import InvalidInput

__all__ = ["LatinHypercube"]


@dataclass(frozen=True)
class LatinHypercube:
    """Latin hypercubes of `size` points each (default 2(d + 1))."""

    size: int | None = None

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if self.size is not None and not self.size >= 1:
            raise InvalidInput(
                f"LatinHypercube(size={self.size}): size, the number of points of one hypercube, "
                "must be at least 1. Use for example 16."
            )

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """Row k mod size of block k // size, or the next that is affordable and untried."""
        from scipy.stats import qmc

        d = belief.space.d
        size = self.size or 2 * (d + 1)
        block, row = divmod(belief.number, size)
        rows = [
            qmc.LatinHypercube(d, rng=np.random.default_rng([belief.seed, b])).random(size)
            for b in range(block, block + 1 + int(np.ceil(DRAWS / size)))
        ]
        x = first_allowed(belief, belief.space.spread(np.vstack(rows)[row:]), rng)
        return Proposal(x, f"point {row + 1} of {size} of Latin hypercube {block + 1}")
