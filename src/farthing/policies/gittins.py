"""The Pandora's-box Gittins index, PBGI (stopping paper; dossier 10).

    g(x) solves  EI(x; g) = worth c(x);   choose the smallest g

With a fixed `worth` (objective units per unit of cost), or dynamically (PBGI-D): from a tenth of
the data's own scale, sd(y) per mean cost, halved whenever stopping would be right, min g >= best,
that is worth >= max EI / c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition import gittins_index, log_ei_per_cost, maximise_score, proposal
from farthing.belief import Belief
from farthing.decision import Proposal
from farthing.errors import InvalidInput
from farthing.policies.random import start

__all__ = ["Gittins"]

FIRST_WORTH = 0.1  # of sd(y) per mean cost
LEAST_WORTH = 1e-9  # of the first: below, the index is the mean less what rounding leaves


@dataclass(frozen=True)
class Gittins:
    """Smallest Gittins index; without a `worth` it decays from the data's own scale."""

    worth: float | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"cost"})
    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.worth is not None and not (np.isfinite(self.worth) and self.worth > 0):
            raise InvalidInput(
                f"Gittins(worth={self.worth}): worth is a positive number, the objective units "
                "that one unit of cost is worth. Leave it out to have it found."
            )

    @property
    def reads(self) -> frozenset[str]:
        """The Optimizer's `worth`, unless it has its own."""
        return frozenset() if self.worth is not None else frozenset({"worth"})

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin g."""
        if belief.objective is None:
            return start(belief, rng)
        fixed = self.worth if self.worth is not None else belief.worth
        if fixed is not None:
            found = maximise_score(belief, gittins_index(fixed, belief.scale), rng)
            return proposal(belief, found, "smallest Gittins index")
        first = _first_worth(belief)
        worth = belief.history.last_note("worth") or first
        found = maximise_score(belief, gittins_index(worth, belief.scale), rng)
        if len(found.X) and -found.score[0] >= np.mean(belief.best) / belief.scale:
            per_cost = maximise_score(belief, log_ei_per_cost(1.0), rng)
            worth = decayed(worth, float(per_cost.score[0]), floor=LEAST_WORTH * first)
            found = maximise_score(belief, gittins_index(worth, belief.scale), rng)
        why = f"smallest Gittins index at an exchange rate decayed to {worth:.3g}"
        return proposal(belief, found, why, notes={"worth": worth})


def decayed(worth: float, log_most: float, floor: float) -> float:
    """Halved until going on is worth it again, worth < max EI / c = exp(log_most); PBGI-D."""
    while worth >= np.exp(log_most) and worth > floor:
        worth *= 0.5
    return worth


def _first_worth(belief: Belief) -> float:
    """A tenth of sd(y) per mean cost, as the models see them."""
    done = np.array([t.x for t in belief.history.done])
    cost = np.exp(belief.costs(done)[0].mean).mean()
    return float(FIRST_WORTH * belief.scale / cost)
