"""The lower confidence bound, GP-LCB: GP-UCB of Srinivas et al. 2010 for minimising.

    minimise  mean - sqrt(beta_t) std,   beta_t = (2/5) ln(d t^2 pi^2 / (6 delta))

This is their theorem 1 with d in place of the number of points, divided by 5 as in their section
6. t counts the trials after the initial design. The policy ignores costs, because no reference
divides a bound by a cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import (
    ScoreSurface,
    first_feasible,
    lower_bound,
    maximise_score,
    proposal,
)
from farthing.errors import InvalidInput

__all__ = ["ConfidenceBound"]


def beta(d: int, t: int, delta: float) -> float:
    """(2/5) ln(d t^2 pi^2 / (6 delta)): the GP-UCB schedule divided by 5."""
    return float(0.4 * np.log(d * t**2 * np.pi**2 / (6.0 * delta)))


@dataclass(frozen=True)
class ConfidenceBound:
    """The lowest lower confidence bound among the affordable points."""

    delta: float = 0.1

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InvalidInput(
                f"ConfidenceBound(delta={self.delta}): delta, the probability that the bound "
                "fails, must be between 0 and 1. The usual value is 0.1."
            )

    def _root_beta(self, belief: Belief) -> float:
        t = max(1, sum(not trial.is_start for trial in belief.history) + 1)
        return float(np.sqrt(beta(belief.space.d, t, self.delta)))

    def surface(self, belief: Belief, rng: np.random.Generator) -> ScoreSurface:
        """(incumbent - (mean - sqrt(beta) std)) / scale + ln P(success)."""
        # The incumbent makes the search independent of the objective's units.
        origin = float(np.mean(belief.best))
        return ScoreSurface(
            belief, lower_bound(self._root_beta(belief), belief.scale, origin=origin)
        )

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin mean - sqrt(beta) std."""
        if not belief.has_incumbent:
            return first_feasible(belief, rng, 0.0)
        root = self._root_beta(belief)
        found = maximise_score(belief, self.surface(belief, rng).score, rng)
        return proposal(belief, found, f"lowest plausible value, mean - {root:.2f} std")
