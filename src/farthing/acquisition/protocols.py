"""The two seams: a Policy makes a Proposal of a belief, a StoppingRule makes a Verdict of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.history import StopKind, StopReason
from farthing.models.gp import Normal

__all__ = ["Policy", "Proposal", "StoppingRule", "Verdict", "judge"]

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
        rates: the least and the greatest exchange rate at which such a choice is worth its cost
            whenever any is, by which the cost of going on is bounded (Xie et al. 2025, theorem 1);
            None: at no rate.
    """

    x: Array | None
    because: str
    score: float = np.nan
    notes: Mapping[str, Any] = field(default_factory=dict)
    predicted: Mapping[str, Normal] = field(default_factory=dict)
    rates: tuple[float, float] | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether to stop, and the number that decided against its threshold.

    Attributes:
        kind: what stops it, if it stops; a rule of your own leaves it as it is.
    """

    stop: bool
    because: str
    number: float = np.nan
    threshold: float = np.nan
    notes: Mapping[str, Any] = field(default_factory=dict)
    kind: StopKind = "rule"

    @property
    def reason(self) -> StopReason:
        """Why to stop."""
        return StopReason(self.kind, self.because)


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
