"""Uniform points, and the start every model-based policy makes with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from farthing.belief import START, Belief
from farthing.decision import Proposal
from farthing.search import Rated, is_among, maximise

__all__ = ["Random"]

Array = NDArray[np.float64]

DRAWS = 64  # points looked at before anything cleverer is done to find an affordable one


@dataclass(frozen=True)
class _Level:
    """A flat surface: all that counts is what is affordable."""

    belief: Belief

    def at(self, X: Array) -> Rated:
        return Rated(np.zeros(len(X)), self.belief.costs(X)[1])

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        _, shortfall, _, _, d_shortfall = self.belief.cost_slopes(X)
        return Rated(np.zeros(len(X)), shortfall), np.zeros(np.shape(X)), d_shortfall


def first_allowed(belief: Belief, X: Array, rng: np.random.Generator) -> Array | None:
    """The first of X that is affordable and untried; otherwise any other such point."""
    allowed = (belief.costs(X)[1] <= 0) & ~is_among(X, belief.tried)
    if allowed.any():
        return np.asarray(X[np.argmax(allowed)])
    tried, near = belief.tried, np.empty((0, belief.space.d))
    found = maximise(_Level(belief), belief.space, rng, tried=tried, near=near)
    return np.asarray(found.X[rng.integers(len(found.X))]) if len(found.X) else None


def start(belief: Belief, rng: np.random.Generator) -> Proposal:
    """One of the first uniform points: a model needs something to learn from."""
    proposal = Random().propose(belief, rng)
    because = f"uniform point {belief.number + 1} of the {START} a model starts from"
    if belief.number >= START:
        because = "uniform point: there is too little to learn from yet"
    return Proposal(proposal.x, because, notes={"phase": "start"})


@dataclass(frozen=True)
class Random:
    """Uniform points among the affordable ones."""

    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = False

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """A uniform draw."""
        x = first_allowed(belief, belief.space.sample(DRAWS, rng), rng)
        return Proposal(x, "drawn uniformly among the affordable points")
