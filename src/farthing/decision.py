"""The two seams: a Policy makes a Proposal of a belief, a StoppingRule makes a Verdict of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farthing.belief import Belief
from farthing.errors import InvalidInput
from farthing.gp import Normal

__all__ = ["Policy", "Proposal", "StoppingRule", "Verdict", "all_of", "any_of", "judge"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Proposal:
    """What to evaluate next, and why.

    Attributes:
        x: a snapped point of the cube; None when nothing affordable and untried is left.
        score: what the policy maximised, or NaN where it maximised nothing.
        because: one sentence.
        notes: what the policy needs to remember; plain JSON values.
        predicted: ln c at x by resource, mean and std of shape (1,); a policy leaves it empty.
    """

    x: Array | None
    because: str
    score: float = np.nan
    notes: Mapping[str, Any] = field(default_factory=dict)
    predicted: Mapping[str, Normal] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """Whether to stop, and the number that decided against its threshold."""

    stop: bool
    because: str
    number: float = np.nan
    threshold: float = np.nan
    notes: Mapping[str, Any] = field(default_factory=dict)


class Policy(Protocol):
    """A method of choosing, one file each in `policies/`."""

    @property
    def needs(self) -> frozenset[str]:
        """What must be there besides a space: "budget", "cost" (told with each value), "worth",
        "model" (of the objective: until there is one, the start is made for it, see `start.py`).
        """

    @property
    def reads(self) -> frozenset[str]:
        """Settings of the Optimizer it makes use of where they are given: "worth"."""

    @property
    def models(self) -> bool:
        """Whether it looks at a model of the objective."""

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The next evaluation."""


class StoppingRule(Protocol):
    """A reason to stop, one file each in `stopping/`; `needs`, `reads`, `models` as a Policy."""

    @property
    def needs(self) -> frozenset[str]:
        """What must be there besides a space; without a "model" that it needs it says go on."""

    @property
    def reads(self) -> frozenset[str]:
        """Settings of the Optimizer it makes use of where they are given."""

    @property
    def models(self) -> bool:
        """Whether it looks at a model of the objective."""

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Whether to stop before this proposal is evaluated."""


def judge(
    rule: StoppingRule, belief: Belief, proposal: Proposal, rng: np.random.Generator
) -> Verdict:
    """The rule's verdict; to go on, while there is no model of the objective that it needs."""
    if "model" in rule.needs and belief.objective is None:
        return Verdict(False, "too few values to judge yet")
    return rule(belief, proposal, rng)


@dataclass(frozen=True)
class _Several:
    """Several rules as one."""

    rules: tuple[StoppingRule, ...]
    everyone: bool  # whether all must agree

    @property
    def needs(self) -> frozenset[str]:
        # Each part is judged by itself: one that needs no model does not wait for the others.
        return frozenset().union(*(rule.needs for rule in self.rules)) - {"model"}

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(rule.reads for rule in self.rules))

    @property
    def models(self) -> bool:
        return any(rule.models for rule in self.rules)

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        verdicts = [judge(rule, belief, proposal, rng) for rule in self.rules]
        stop = (all if self.everyone else any)(verdict.stop for verdict in verdicts)
        # The reasons that decided: those who said what was then done.
        deciding = [verdict for verdict in verdicts if verdict.stop == stop]
        notes = {key: note for verdict in verdicts for key, note in verdict.notes.items()}
        return Verdict(
            stop,
            "; ".join(verdict.because for verdict in deciding),
            deciding[0].number,
            deciding[0].threshold,
            notes,
        )


def any_of(*rules: StoppingRule) -> StoppingRule:
    """Stop as soon as one of the rules says so."""
    return _Several(_at_least_one(rules), everyone=False)


def all_of(*rules: StoppingRule) -> StoppingRule:
    """Stop only when all the rules say so."""
    return _Several(_at_least_one(rules), everyone=True)


def _at_least_one(rules: tuple[StoppingRule, ...]) -> tuple[StoppingRule, ...]:
    if not rules:
        raise InvalidInput("any_of() and all_of() join stopping rules: give at least one.")
    if strange := [r for r in rules if isinstance(r, type) or not hasattr(r, "needs")]:
        raise InvalidInput(
            f"any_of() and all_of() join stopping rules such as MaxTrials(50); got {strange[0]!r}."
        )
    return rules
