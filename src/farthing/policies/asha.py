"""Asynchronous successive halving with random search, ASHA (Li et al. 2020, algorithm 2).

    promote   a training that is paused at a rung, is among the best 1/eta of all that reached this
              rung, and is the best of those that did not go on; higher rungs first
    else      start a new training at a random configuration

The rungs of the study are the rungs of the algorithm. `eta` thins them: a rung is used if it is at
least eta times the one before. The last rung is always used.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.initial_design import DRAWS, first_allowed
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.rungs import first_part, paused_part, paused_trainings
from farthing.errors import InvalidInput
from farthing.history import Trial

__all__ = ["ASHA"]


@dataclass(frozen=True)
class ASHA:
    """Asynchronous successive halving with random search.

    Attributes:
        eta: the best 1/eta of the trainings at a rung go on.
    """

    eta: float = 3.0

    needs: ClassVar[frozenset[str]] = frozenset({"steps"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_eta(self)

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """A promotion, or else a new training."""
        return self.promotion(belief) or new_training(belief, self._rungs(belief)[0], rng)

    def promotion(self, belief: Belief) -> Proposal | None:
        """The training to promote, at the highest rung where there is one; None: nothing."""
        waiting = {t.number for t in paused_trainings(belief)}
        for rung, until in reversed(list(itertools.pairwise(self._rungs(belief)))):
            at = [t for t in belief.history if t.step >= rung and t.state != "lost"]
            for place, trial in enumerate(by_value(belief, at, rung)[: int(len(at) / self.eta)]):
                if trial.number in waiting and trial.step < until:
                    because = (
                        f"trial {trial.number} is number {place + 1} of {len(at)} at step {rung}: "
                        f"among the best 1/{self.eta:g}, so it goes on to step {until}"
                    )
                    found = paused_part(belief, trial, until, because)
                    if found is not None:
                        return found
        return None

    def _rungs(self, belief: Belief) -> tuple[int, ...]:
        assert belief.steps is not None
        return halving_rungs(belief.steps.decision_steps, self.eta)


def check_eta(policy: Any) -> None:
    """Check the `eta` of a policy that halves."""
    if not policy.eta > 1.0:
        raise InvalidInput(
            f"{type(policy).__name__}(eta={policy.eta!r}): expected a number above 1, such as 3."
        )


def halving_rungs(rungs: Sequence[int], eta: float) -> tuple[int, ...]:
    """Rungs, each at least eta times the one before, and the last one."""
    chosen = [rungs[0]]
    for rung in rungs[1:-1]:
        if rung >= eta * chosen[-1]:
            chosen.append(rung)
    return (*chosen, rungs[-1]) if len(rungs) > 1 else (rungs[0],)


def by_value(belief: Belief, trials: Sequence[Trial], rung: int) -> list[Trial]:
    """Trainings by their value at a rung, the best first."""
    steps = belief.steps
    assert steps is not None

    def value(trial: Trial) -> float:
        curve = tuple(point for point in trial.curve if point.step <= rung)
        value = steps.value_of(curve, belief.sign)
        return np.inf if value is None or not np.isfinite(value) else belief.sign * value

    return sorted(trials, key=lambda trial: (value(trial), trial.number))


def new_training(belief: Belief, until: int, rng: np.random.Generator) -> Proposal:
    """A new training at a uniform draw, to the first rung."""
    first = first_part(belief, until)
    x = first_allowed(first, belief.space.sample(DRAWS, rng), rng)
    because = f"drawn uniformly among the affordable points, to step {until}"
    return Proposal(x, because, predicted={} if x is None else first.predicted(x), until=until)
