"""Propose given points first, then follow another policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.initial_design import propose
from farthing.acquisition.protocols import Policy, Proposal
from farthing.acquisition.scores import surface_of
from farthing.acquisition.search import Surface
from farthing.errors import InvalidInput

__all__ = ["StartWith"]


@dataclass(frozen=True)
class StartWith:
    """`StartWith([{"lr": 0.1}, ...], then=EI())`: try configurations that you know first.

    A given point that is not affordable is skipped.
    """

    points: Sequence[Mapping[str, Any]]
    then: Policy

    def __post_init__(self) -> None:
        if not self.points:
            raise InvalidInput(
                "StartWith([]): there are no points. Give at least one, or use the policy alone."
            )

    @property
    def needs(self) -> frozenset[str]:
        """What `then` needs, except a model, because the given points need none."""
        return self.then.needs - {"model"}

    @property
    def reads(self) -> frozenset[str]:
        """What `then` uses if available, and a model if `then` needs one."""
        return self.then.reads | (self.then.needs & {"model"})

    def surface(self, belief: Belief, rng: np.random.Generator) -> Surface | None:
        """The surface of `then`; None if it has none."""
        return surface_of(self.then, belief, rng)

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The first given point that is untried and affordable, else what `then` proposes."""
        return propose(self.then, belief, rng, self.points)
