"""The two interfaces: a `Policy` proposes the next trial, a `StoppingRule` says whether to stop."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.errors import InvalidInput
from farthing.history import StopKind, StopReason
from farthing.models.gp import Normal

__all__ = [
    "NOTHING_FEASIBLE",
    "Policy",
    "Proposal",
    "Rivals",
    "StoppingRule",
    "Verdict",
    "checked_proposal",
    "checked_verdict",
    "judge",
]

Array = NDArray[np.float64]


class Rivals(NamedTuple):
    """What a training has to be ahead of, in units of the model of the learning curves.

    Attributes:
        rate: the exchange rate.
        smallest: the smallest staged Gittins index of the other trainings whose index is known.
        bound: a lower bound of the index of all others.
    """

    rate: float
    smallest: float = np.inf
    bound: float = np.inf


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
        ahead_of: with it, later rungs of the training need no new suggestion while it is ahead.
    """

    x: Array | None
    because: str
    score: float = np.nan
    notes: Mapping[str, Any] = field(default_factory=dict)
    predicted: Mapping[str, Normal] = field(default_factory=dict)
    rates: tuple[float, float] | None = None
    resume: int | None = None
    until: int | None = None
    ahead_of: Rivals | None = None


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


# The verdict of the rules that judge the best value, while no trial meets the constraints.
NOTHING_FEASIBLE = Verdict(False, "no trial meets the constraints yet")


class Policy(Protocol):
    """A method that chooses the next evaluation. Each file in `policies/` defines one.

    A policy that maximises a score also has `surface(belief, rng)`; see `scores.surface_of`.
    """

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
    return checked_verdict(rule, rule(belief, proposal, rng))


def checked_proposal(policy: Policy, proposal: Any, d: int) -> Proposal:
    """What a policy proposed, if it is a proposal of a point of the cube [0, 1]^d."""
    name = type(policy).__name__
    if not isinstance(proposal, Proposal):
        raise InvalidInput(
            f"{name}.propose returned {_short(proposal)}: expected a Proposal(x, because) of "
            "farthing.acquisition.protocols."
        )
    if not isinstance(proposal.because, str):
        raise InvalidInput(
            f"{name}.propose returned because={_short(proposal.because)}: expected a sentence."
        )
    if proposal.x is None:
        return proposal
    try:
        x = np.asarray(proposal.x, dtype=np.float64)
    except (TypeError, ValueError):
        x = np.empty(0)
    if x.shape != (d,) or not np.all((x >= 0) & (x <= 1)):  # NaN is not
        raise InvalidInput(
            f"{name}.propose returned x={_short(proposal.x)}: expected a point of the unit "
            f"cube, {d} numbers from 0 to 1, such as belief.space.encode(params)."
        )
    return proposal if x is proposal.x else replace(proposal, x=x)


def checked_verdict(rule: StoppingRule, verdict: Any) -> Verdict:
    """What a stopping rule answered, if it is a verdict."""
    if not isinstance(verdict, Verdict):
        raise InvalidInput(
            f"The stopping rule {type(rule).__name__} returned {_short(verdict)}: expected a "
            "Verdict(stop, because) of farthing.acquisition.protocols."
        )
    return verdict


def _short(thing: Any) -> str:
    return textwrap.shorten(repr(thing), 200, placeholder=" ...")
