"""Given points first, then another policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.initial_design import propose
from farthing.acquisition.protocols import Policy, Proposal
from farthing.errors import InvalidInput

__all__ = ["StartWith"]


@dataclass(frozen=True)
class StartWith:
    """`StartWith([{"lr": 0.1}, ...], then=EI())`: what is known to be good is tried first.

    A given point that is not affordable is left out.
    """

    points: Sequence[Mapping[str, Any]]
    then: Policy

    def __post_init__(self) -> None:
        if not self.points:
            raise InvalidInput("StartWith([]): give at least one point, or use the policy alone.")

    @property
    def needs(self) -> frozenset[str]:
        """What the policy after the points needs, but no model: the points need none."""
        return self.then.needs - {"model"}

    @property
    def reads(self) -> frozenset[str]:
        """What the policy after the points reads."""
        return self.then.reads

    @property
    def models(self) -> bool:
        """Whether the policy after the points looks at a model."""
        return self.then.models

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The first given point that is untried and affordable, else what `then` says."""
        return propose(self.then, belief, rng, self.points)
