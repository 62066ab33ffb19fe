"""The Pandora's-box Gittins index, PBGI (Xie et al. 2024; Xie et al. 2025, eq. 3).

    g(x) solves  EI(x; g) = worth c(x);   choose the smallest g

Optimal for independent boxes (Weitzman 1979). With a fixed `worth` (objective units per unit of
cost), or dynamically (PBGI-D, Xie et al. 2024): from a tenth of the data's own scale, sd(y) per
mean cost, halved whenever stopping would be right, min g >= best, that is worth >= max EI / c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import (
    ScoreSurface,
    ScoreView,
    gittins_index,
    log_ei_per_cost,
    look,
    maximise_score,
    proposal,
)
from farthing.acquisition.search import Found
from farthing.budget.units import check_worth, one_more

__all__ = ["Gittins"]

FIRST_WORTH = 0.1  # of sd(y) per mean cost
SEEN = 1000  # evaluations, evenly over the history, whose mean cost that is
LEAST_WORTH = 1e-9  # of the first: below, the index is the mean less what rounding leaves


@dataclass(frozen=True)
class Gittins:
    """Smallest Gittins index; without a `worth` it decays from the data's own scale."""

    worth: float | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model"})
    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_worth(self.worth, "Gittins")

    @property
    def reads(self) -> frozenset[str]:
        """The Optimizer's `worth`, unless it has its own."""
        return frozenset() if self.worth is not None else frozenset({"worth"})

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin g."""
        belief = belief.in_one_unit()
        seen = look(belief, rng)
        fixed = self.worth if self.worth is not None else belief.worth
        if fixed is not None:
            found = _smallest_index(belief, fixed, rng, seen)
            chosen = proposal(belief, found, _why(belief, f"is worth {fixed:.3g}"))
            return replace(chosen, rates=(fixed, fixed))
        first = _first_worth(belief)
        worth = belief.history.last_note("worth") or first
        found = _smallest_index(belief, worth, rng, seen)
        if len(found.X) and found.score[0] <= 0:  # min g >= best: not worth it at this rate
            worth = _decay(belief, worth, found, rng, seen, floor=LEAST_WORTH * first)
            found = _smallest_index(belief, worth, rng, seen)
        why = _why(belief, f"is by now taken to be worth {worth:.3g}")
        return proposal(belief, found, why, notes={"worth": worth})


def _why(belief: Belief, worth: str) -> str:
    return f"the best for its price (smallest Gittins index) if {one_more(belief.unit)} {worth}"


def _smallest_index(
    belief: Belief, worth: float, rng: np.random.Generator, seen: ScoreView
) -> Found:
    """The points of smallest g, scored by how far it is below the incumbent."""
    origin = float(np.mean(belief.best))
    score = gittins_index(worth, belief.scale, origin=origin)
    return maximise_score(belief, score, rng, seen=seen)


def _decay(
    belief: Belief,
    worth: float,
    found: Found,
    rng: np.random.Generator,
    seen: ScoreView,
    *,
    floor: float,
) -> float:
    """The rate halved until going on is worth it, given the points of smallest g.

    Their EI / c is a lower bound of the most there is. If by that one halving is enough, it is.
    """
    per_cost = log_ei_per_cost(1.0)
    most = float(ScoreSurface(belief, per_cost).at(found.X).score.max())
    if decayed(worth, most, floor) < 0.5 * worth:
        most = max(most, *maximise_score(belief, per_cost, rng, seen=seen).score[:1])
    return decayed(worth, most, floor)


def decayed(worth: float, log_most: float, floor: float) -> float:
    """Halved until going on is worth it again, worth < max EI / c = exp(log_most); PBGI-D."""
    while worth >= np.exp(log_most) and worth > floor:
        worth *= 0.5
    return worth


def _first_worth(belief: Belief) -> float:
    """A tenth of sd(y) per mean cost, as the models see them at up to `SEEN` evaluations."""
    done = belief.history.points("done")
    done = done[np.linspace(0, len(done) - 1, min(len(done), SEEN)).round().astype(np.int64)]
    cost = np.exp(belief.costs(done)[0].mean).mean()
    return float(FIRST_WORTH * belief.scale / cost)
