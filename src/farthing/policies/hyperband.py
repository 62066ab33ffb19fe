"""Hyperband (Li et al. 2018, algorithm 1), with brackets that run one after the other.

Bracket s starts n_s = ceil((s_max + 1) / (s + 1) eta^s) random trainings at the rung that is s
halvings below the last one, and promotes the best 1/eta of a rung once all of its trainings have
reached it. The brackets are s_max, s_max - 1, ..., 0, and then s_max again.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.rungs import paused_part, paused_trainings
from farthing.history import Trial
from farthing.policies.asha import by_value, check_eta, halving_rungs, new_training

__all__ = ["Hyperband"]


@dataclass(frozen=True)
class Hyperband:
    """Hyperband: successive halving with several trade-offs of number and length of trainings.

    Attributes:
        eta: the best 1/eta of the trainings at a rung go on.
    """

    eta: float = 3.0

    needs: ClassVar[frozenset[str]] = frozenset({"steps"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_eta(self)

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The next training of the present bracket."""
        assert belief.steps is not None
        rungs = halving_rungs(belief.steps.decision_steps, self.eta)
        s_max = len(rungs) - 1
        latest = int(belief.history.last_note("bracket") or 0)
        for bracket in (latest, latest + 1):
            s = s_max - bracket % (s_max + 1)
            size = int(np.ceil((s_max + 1) / (s + 1) * self.eta**s))
            mine = [t for t in belief.history if t.notes.get("bracket") == bracket]
            mine = [t for t in mine if t.state != "lost"]
            if len(mine) < size:
                break
            chosen = self._promoted(belief, mine, rungs[s_max - s :])
            if chosen is not None:
                return replace(chosen, notes={"bracket": bracket})
        # A bracket is not full, or the trainings of both are running: the last one starts another.
        found = new_training(belief, rungs[s_max - s], rng)
        return replace(found, notes={"bracket": bracket})

    def _promoted(
        self, belief: Belief, trials: list[Trial], rungs: tuple[int, ...]
    ) -> Proposal | None:
        """The next training to promote, once all trainings of its rung have arrived."""
        racing, waiting = trials, {t.number for t in paused_trainings(belief)}
        for rung, until in itertools.pairwise(rungs):
            if any(t.step < rung and t.state in ("running", "paused") for t in racing):
                return None
            racing = by_value(belief, racing, rung)[: max(int(len(racing) / self.eta), 1)]
            for trial in racing:
                if trial.number in waiting and trial.step < until:
                    because = (
                        f"trial {trial.number} is among the best 1/{self.eta:g} of its bracket at "
                        f"step {rung}, so it goes on to step {until}"
                    )
                    found = paused_part(belief, trial, until, because)
                    if found is not None:
                        return found
        return None
