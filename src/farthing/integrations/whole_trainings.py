"""A policy by steps for a tool that pauses no training: each one is paid for to its last step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Policy, Proposal

__all__ = ["WholeTrainings"]


@dataclass(frozen=True)
class WholeTrainings:
    """The proposals of a policy, with the cost of a whole training reserved."""

    policy: Policy

    @property
    def needs(self) -> frozenset[str]:
        """What the policy needs."""
        return self.policy.needs

    @property
    def reads(self) -> frozenset[str]:
        """The settings that the policy reads."""
        return self.policy.reads

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The proposal of the policy, to the last step."""
        proposal = self.policy.propose(belief, rng)
        if proposal.x is None or belief.steps is None:
            return proposal
        whole = belief.predicted(proposal.x)
        return replace(proposal, until=belief.steps.last, predicted=whole)
