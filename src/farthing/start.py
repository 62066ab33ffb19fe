"""The start: what is evaluated while there is no model yet, and how a policy is asked.

A policy that needs a model of the objective is not asked before there is one: START uniform points
come first, and more of them while too few have returned a value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from farthing.belief import START, Belief
from farthing.decision import Policy, Proposal
from farthing.search import Rated, is_among, maximise

__all__ = ["DRAWS", "first_allowed", "propose", "start"]

Array = NDArray[np.float64]

DRAWS = 64  # points looked at before anything cleverer is done to find an affordable one


def propose(policy: Policy, belief: Belief, rng: np.random.Generator) -> Proposal:
    """What the policy proposes, or the start if it needs a model; with what it will cost."""
    if "model" in policy.needs and belief.objective is None:
        proposal = start(belief, rng)
    else:
        proposal = policy.propose(belief, rng)
    if proposal.x is None:
        return proposal
    because = "; ".join(filter(None, [proposal.because, belief.about_costs()]))
    return replace(proposal, because=because, predicted=belief.predicted(proposal.x))


def start(belief: Belief, rng: np.random.Generator) -> Proposal:
    """One of the first uniform points: a model needs something to learn from."""
    x = first_allowed(belief, belief.space.sample(DRAWS, rng), rng)
    because = f"uniform point {belief.number + 1} of the {START} a model starts from"
    if belief.number >= START:
        because = "uniform point: there is too little to learn from yet"
    return Proposal(x, because, notes={"phase": "start"})


def first_allowed(belief: Belief, X: Array, rng: np.random.Generator) -> Array | None:
    """The first of X that is affordable and untried; otherwise any other such point."""
    allowed = (belief.costs(X)[1] <= 0) & ~is_among(X, belief.tried)
    if allowed.any():
        return np.asarray(X[np.argmax(allowed)])
    tried, near = belief.tried, np.empty((0, belief.space.d))
    found = maximise(_Level(belief), belief.space, rng, tried=tried, near=near)
    return np.asarray(found.X[rng.integers(len(found.X))]) if len(found.X) else None


@dataclass(frozen=True)
class _Level:
    """A flat surface: all that counts is what is affordable."""

    belief: Belief

    def at(self, X: Array) -> Rated:
        return Rated(np.zeros(len(X)), self.belief.costs(X)[1])

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        _, shortfall, _, _, d_shortfall = self.belief.cost_slopes(X)
        return Rated(np.zeros(len(X)), shortfall), np.zeros(np.shape(X)), d_shortfall
