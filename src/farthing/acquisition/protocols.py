"""The two interfaces: a `Policy` proposes the next trial, a `StoppingRule` says whether to stop."""

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
        x: a snapped point of the cube; None if no affordable, untried point is left.
        score: what the policy maximised, or NaN if it maximised nothing.
        because: one sentence.
        notes: what the policy needs to remember, as plain JSON values.
        predicted: mean and std of ln c at x by resource, of shape (1,). A policy leaves it empty.
        rates: the smallest and the largest exchange rate at which the proposed point is worth its
            cost if any point is. They bound the expected cost of continuing (Xie et al. 2025,
            theorem 1). None if there is no such rate.
        resume: the number of the paused trial to continue, whose point is x; None: a new trial.
        until: the step to which the training runs; None: the last one. `predicted` is the cost of
            that part.
    """

    x: Array | None
    because: str
    score: float = np.nan
    notes: Mapping[str, Any] = field(default_factory=dict)
    predicted: Mapping[str, Normal] = field(default_factory=dict)
    rates: tuple[float, float] | None = None
    resume: int | None = None
    until: int | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether to stop, and the number that was compared with its threshold.

    Attributes:
        kind: the kind of reason if it stops. A rule of your own keeps the default.
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
    """A method that chooses the next evaluation. Each file in `policies/` defines one."""

    @property
    def needs(self) -> frozenset[str]:
        """What it requires besides a space.

        "budget", "worth", "steps": this setting must be given.
        "cost": each trial must report its cost, or the cost is known in advance.
        "model": a model of the objective. Until there is one, the initial design proposes instead.
        """

    @property
    def reads(self) -> frozenset[str]:
        """What it uses if available, but does not require: "worth", "model", "steps"."""

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The next evaluation."""


class StoppingRule(Protocol):
    """A reason to stop. Each file in `stopping/` defines one."""

    @property
    def needs(self) -> frozenset[str]:
        """What it requires, as for a Policy. Until there is a "model", the run continues."""

    @property
    def reads(self) -> frozenset[str]:
        """What it uses if available, as for a Policy. "steps": it judges the learning curves."""

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """Whether to stop before this proposal is evaluated."""


def judge(
    rule: StoppingRule, belief: Belief, proposal: Proposal, rng: np.random.Generator
) -> Verdict:
    """The rule's verdict, or "continue" while a model that the rule needs is missing."""
    by_steps = "steps" in rule.reads and belief.trainings is not None
    if "model" in rule.needs and belief.objective is None and not by_steps:
        return Verdict(False, "too few values to judge yet")
    return rule(belief, proposal, rng)
