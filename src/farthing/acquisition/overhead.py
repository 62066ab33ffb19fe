"""Thinking weighed against evaluating: how much of a thought the next evaluation is worth.

With a budget of seconds, or of what a machine costs, our own thinking is paid from it, and kept
near a share of what trials cost:

    allowed = max(share (spent - thinking), LEAST limit)
    r = (thinking + the last thought) / allowed

r <= 1: a whole thought; r <= 1.5: the last hyperparameters and a smaller search; beyond that no
model at all: a step from the best point, from a third of the cube down to the shorter the more were
made, or now and then a uniform point. Where trials turn out dear, r falls, and whole thoughts
return.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.initial_design import first_allowed
from farthing.acquisition.protocols import Proposal
from farthing.budget.ledger import Ledger

__all__ = ["Depth", "depth", "step"]

Array = NDArray[np.float64]
Depth = Literal["whole", "light", "none"]
SECONDS: Mapping[str, float] = MappingProxyType({"s": 1.0})

LEAST = 0.005  # of the budget: thinking that is always allowed; a rule may end a run early
LIGHT_UP_TO = 1.5  # times what is allowed
STEPS = 8  # points to choose an untried one from
LONGEST = -0.5  # log10 of the length of a step,
SHORTER = 1.25  # and how much shorter it may be where n were made: n^-1.25
UNIFORM = 0.1  # of the steps are no steps, but anywhere
FLIP = 0.1  # chance that an option is another one


def depth(
    ledger: Ledger, suggest_s: float, share: float, clock: Mapping[str, float] = SECONDS
) -> Depth:
    """How much of a thought there is time for.

    Args:
        thought_s: how long the last one took.
        share: of what trials cost that thinking may add.
        clock: what a second of thinking takes of each resource.
    """
    used = 0.0
    for account, price in ((ledger[r], price) for r, price in clock.items() if r in ledger):
        allowed = max(share * (account.spent - account.overhead), LEAST * account.limit)
        used = max(used, (account.overhead + suggest_s * price) / allowed)
    return "whole" if used <= 1.0 else "light" if used <= LIGHT_UP_TO else "none"


def step(belief: Belief, rng: np.random.Generator) -> Proposal:
    """A step from the best point; no model is asked."""
    space = belief.space
    X = space.sample(STEPS, rng)
    if len(belief.y) and rng.random() >= UNIFORM:
        best = belief.top[0]
        shortest = LONGEST - SHORTER * np.log10(len(belief.history))
        length = 10.0 ** rng.uniform(shortest, LONGEST, (STEPS, 1))
        moved = best + length * rng.standard_normal((STEPS, space.d))
        kept = space.categorical & (rng.random((STEPS, space.d)) >= FLIP)
        X = space.snap(np.where(space.categorical, np.where(kept, best, X), moved))
    because = "a step from the best point: a thought would cost more than it brings"
    return Proposal(first_allowed(belief, X, rng), because, notes={"thought": "none"})
