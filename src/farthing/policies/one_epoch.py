"""One short look at many configurations, then whole trainings of the best (Egele et al. 2023).

For a share of the budget, new trainings at random configurations run to the first rung only. Then
the paused ones continue to the last step, best first. After all of them, new looks begin again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.rungs import paused_part, paused_trainings
from farthing.errors import InvalidInput
from farthing.policies.asha import by_value, new_training

__all__ = ["OneEpoch"]


@dataclass(frozen=True)
class OneEpoch:
    """One rung of random configurations for a share of the budget, then the best to the end.

    Attributes:
        share: of the budget, for the first rung.
    """

    share: float = 0.5

    needs: ClassVar[frozenset[str]] = frozenset({"budget", "steps"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise InvalidInput(
                f"OneEpoch(share={self.share!r}): expected a share of the budget, such as 0.5."
            )

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """A new look, or the rest of the training that looked best."""
        steps = belief.steps
        assert steps is not None
        first = steps.decision_steps[0]
        if belief.ledger.spent_share >= self.share:
            waiting = paused_trainings(belief)
            for trial in by_value(belief, waiting, first):
                because = (
                    f"trial {trial.number} was the best at step {first} of the {len(waiting)} "
                    "that wait, so it goes on to the end"
                )
                found = paused_part(belief, trial, steps.last, because)
                if found is not None:
                    return found
        return new_training(belief, first, rng)
