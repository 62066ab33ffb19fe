"""Overhead: limit the time that suggestions take to a share of what the trials cost.

A budget of seconds, or of the price of a machine, also pays for suggesting. The overhead is
kept near a share of the cost of trials:

    allowed = max(share (spent - overhead), MIN_SHARE limit)
    r = (overhead + cost of the last suggestion) / allowed

    r <= 1      "whole": fit the models and search as usual
    r <= 1.5    "light": keep the last hyperparameters, search less; trainings: r <= 4
    r > 1.5     "none": no model; a random step from the best point, or sometimes a uniform point.
                Costs that are known beforehand are still compared with what is left. If the most
                expensive recent trial exceeds what is left of another resource: "light"

The longest step is about a third of the cube. The shortest one shrinks as trials accumulate.
If trials become more expensive, r falls and the models are used again.
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

MIN_SHARE = 0.005  # of the budget: overhead that is always allowed
LIGHT_UP_TO = 1.5  # times the allowed overhead
TRAININGS_UP_TO = 4.0  # for trainings in parts, whose suggestions save more (docs/decisions.md)
STEPS = 8  # points to draw; the first affordable and untried one is proposed
LONGEST = -0.5  # log10 of the longest step
SHORTER = 1.25  # after n trials, the shortest step is n^-1.25 times the longest
UNIFORM = 0.1  # probability of a uniform point in place of a step
FLIP = 0.1  # probability that a categorical parameter is drawn anew


def depth(
    ledger: Ledger,
    suggest_s: float,
    share: float,
    clock: Mapping[str, float] = SECONDS,
    *,
    trainings: bool = False,
) -> Depth:
    """How much work the next suggestion may do, by the ratio r above.

    Args:
        suggest_s: seconds that the last suggestion took.
        share: allowed overhead as a share of the cost of trials.
        clock: how much of each resource one second of suggesting uses.
        trainings: whether suggestions are about parts of trainings.
    """
    ratio, most = 0.0, TRAININGS_UP_TO if trainings else LIGHT_UP_TO
    for account, price in ((ledger[r], price) for r, price in clock.items() if r in ledger):
        allowed = max(share * (account.spent - account.overhead), MIN_SHARE * account.limit)
        ratio = max(ratio, (account.overhead + suggest_s * price) / allowed)
    return "whole" if ratio <= 1.0 else "light" if ratio <= most else "none"


def step(belief: Belief, rng: np.random.Generator) -> Proposal:
    """A random step from the best point, without a model."""
    space = belief.space
    X = space.sample(STEPS, rng)
    if len(belief.y) and rng.random() >= UNIFORM:
        best = belief.top[0]
        shortest = LONGEST - SHORTER * np.log10(len(belief.history))
        length = 10.0 ** rng.uniform(shortest, LONGEST, (STEPS, 1))
        moved = best + length * rng.standard_normal((STEPS, space.d))
        kept = space.categorical & (rng.random((STEPS, space.d)) >= FLIP)
        X = space.snap(np.where(space.categorical, np.where(kept, best, X), moved))
    because = "a step from the best point: a model-based suggestion would cost more than it gains"
    return Proposal(first_allowed(belief, X, rng), because, notes={"effort": "none"})
