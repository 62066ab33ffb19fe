"""Stop when the best value has reached a target.

stop when  best <= value,   or best >= value if the user maximises
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import NOTHING_FEASIBLE, Proposal, Verdict
from farthing.errors import InvalidInput

__all__ = ["Target"]


@dataclass(frozen=True)
class Target:
    """Stop if the best value is `value` or better, in the user's units and direction."""

    value: float

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not np.isfinite(self.value):
            raise InvalidInput(
                f"Target({self.value}): expected a finite number, the value that is good enough."
            )

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Whether the best value has reached the target."""
        if not len(belief.y):
            return Verdict(
                False, f"no value yet; the target is {self.value:.6g}", np.nan, self.value
            )
        if belief.lacks_feasible:
            return NOTHING_FEASIBLE
        best = belief.sign * float(belief.feasible_y.min())
        reached = belief.sign * best <= belief.sign * self.value
        verb = "has reached" if reached else "has not reached"
        because = f"the best value {best:.6g} {verb} the target {self.value:.6g}"
        return Verdict(bool(reached), because, best, self.value)
