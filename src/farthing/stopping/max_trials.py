"""Stop after a number of trials.

stop when  n >= count
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal, Verdict
from farthing.budget.units import format_amount
from farthing.errors import InvalidInput

__all__ = ["MaxTrials"]


@dataclass(frozen=True)
class MaxTrials:
    """Stop after `count` trials, whatever their outcome."""

    count: int

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        whole = isinstance(self.count, int | np.integer) and not isinstance(self.count, bool)
        if not whole or self.count < 1:
            raise InvalidInput(
                f"MaxTrials({self.count!r}): expected a whole number of at least 1, such as 50."
            )

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """number >= count. A paused training that is resumed is no further trial."""
        made = belief.number
        return Verdict(
            made >= self.count and proposal.resume is None,
            f"{made} of at most {format_amount('trials', self.count)} made",
            made,
            self.count,
        )
