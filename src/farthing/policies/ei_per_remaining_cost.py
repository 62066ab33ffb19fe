"""Expected improvement of the final value per cost that is left to pay for it.

    max  EI(m, s; best) / (cost of all coming rungs)      over new and paused trainings

It uses the same model of the learning curves as `StagedGittins`, but no option to stop: each
training is priced as if it went on to the end. With one rung it is EIPerCost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.rungs import (
    described,
    first_part,
    new_chains,
    paused_chains,
    proposal_of,
)
from farthing.acquisition.scores import log_ei_per_cost, maximise_score
from farthing.models.normal import log_ei
from farthing.policies.ei_per_cost import EIPerCost

__all__ = ["EIPerRemainingCost"]


@dataclass(frozen=True)
class EIPerRemainingCost:
    """Expected improvement of the final value per remaining cost of a training."""

    needs: ClassVar[frozenset[str]] = frozenset({"model", "steps"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmax EI / remaining cost."""
        trainings = belief.trainings
        if trainings is None:
            return EIPerCost().propose(belief, rng)
        belief = belief.in_one_unit()
        groups = [c.take(c.affordable) for c in paused_chains(belief) if c.affordable.any()]
        # The whole cost is about the same multiple of the first rung's cost everywhere.
        found = maximise_score(first_part(belief), log_ei_per_cost(1.0), rng)
        if len(found.X):
            groups.append(new_chains(belief, found.X[:1]))
        if not groups:
            return Proposal(None, "no training can afford its next rung")
        best = float(np.mean(trainings.best))
        scores = [log_ei(c.mean, c.std, best) - np.log(c.cost.sum(axis=1)) for c in groups]
        which = int(np.argmax([score.max() for score in scores]))
        k = int(np.argmax(scores[which]))
        because = described(belief, groups[which], k) + ": most expected improvement per cost left"
        return proposal_of(belief, groups[which], k, because, float(scores[which][k]))
