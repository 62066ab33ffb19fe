"""Policies that pause and resume trainings in tests, without any model."""

from dataclasses import dataclass
from typing import ClassVar

from farthing.acquisition.protocols import Proposal


@dataclass(frozen=True)
class RoundRobin:
    """Up to `width` trainings at a time. The one that reached the fewest steps goes on by a rung.

    So with two or more trainings, each of them is paused at every rung.
    """

    width: int = 2
    needs: ClassVar[frozenset[str]] = frozenset({"steps"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief, rng):
        history, steps = belief.history, belief.steps
        paused, running = history.having("paused"), history.running
        if len(paused) + len(running) < self.width and "trials" not in belief.ledger.used_up:
            return Proposal(belief.space.sample(1, rng)[0], "a new training", until=first(steps))
        paused = tuple(trial for trial in paused if not trial.run.elsewhere)
        if not paused:
            return Proposal(None, "no paused training is here")
        trial = min(paused, key=lambda each: (each.step, each.number))
        until = steps.next_rung(trial.step)
        return Proposal(trial.x, "it is behind the others", resume=trial.number, until=until)


@dataclass(frozen=True)
class Greedy:
    """Each training runs to the end: at a rung, the process continues."""

    needs: ClassVar[frozenset[str]] = frozenset({"steps"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief, rng):
        for trial in belief.history.having("paused"):
            until = belief.steps.next_rung(trial.step)
            return Proposal(trial.x, "it goes on", resume=trial.number, until=until)
        return Proposal(belief.space.sample(1, rng)[0], "a new training", until=first(belief.steps))


@dataclass(frozen=True)
class FirstRung:
    """New trainings only: each is stopped at its first rung."""

    needs: ClassVar[frozenset[str]] = frozenset({"steps"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief, rng):
        return Proposal(belief.space.sample(1, rng)[0], "a new training", until=first(belief.steps))


def first(steps):
    return steps.decision_steps[0]
