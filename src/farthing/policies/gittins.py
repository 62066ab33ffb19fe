"""The Pandora's-box Gittins index, PBGI (Xie et al. 2024; Xie et al. 2025, eq. 3).

    g(x) solves  EI(x; g) = worth c(x);   choose the smallest g

This is optimal for independent boxes (Weitzman 1979). `worth` is the exchange rate, in objective
units per unit of cost. It is fixed, or decays (PBGI-D, Xie et al. 2024). Then it starts at a tenth
of sd(y) per mean cost. It is halved whenever no point is worth its cost, that is min g >= best, or
worth >= max EI / c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.scores import (
    Score,
    ScoreSurface,
    ScoreView,
    first_feasible,
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
MEAN_COST_TRIALS = 1000  # at most, evenly over the history, for the mean cost
LEAST_WORTH = 1e-9  # of the first: for less, rounding errors dominate mean - index


@dataclass(frozen=True)
class Gittins:
    """The smallest Gittins index. Without `worth` the exchange rate decays from sd(y) per cost."""

    worth: float | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"cost", "model"})

    def __post_init__(self) -> None:
        check_worth(self.worth, "Gittins")

    @property
    def reads(self) -> frozenset[str]:
        """The setting `worth`, unless the policy has its own."""
        return frozenset() if self.worth is not None else frozenset({"worth"})

    def surface(self, belief: Belief, rng: np.random.Generator) -> ScoreSurface:
        """(best value - g) / scale, at the exchange rate of the next proposal."""
        belief = belief.in_one_unit()
        return ScoreSurface(belief, _score(belief, self._choose(belief, rng)[0]))

    def _choose(self, belief: Belief, rng: np.random.Generator) -> tuple[float, Found]:
        """The exchange rate, and the points of smallest g at this rate."""
        seen = look(belief, rng)
        fixed = self.worth if self.worth is not None else belief.worth
        if fixed is not None:
            return fixed, _smallest_index(belief, fixed, rng, seen)
        first = _first_worth(belief)
        worth = belief.history.last_note("worth") or first
        found = _smallest_index(belief, worth, rng, seen)
        if len(found.X) and found.score[0] <= 0:  # min g >= best: no point is worth its cost
            worth = _decay(belief, worth, found, rng, seen, floor=LEAST_WORTH * first)
            found = _smallest_index(belief, worth, rng, seen)
        return worth, found

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin g."""
        belief = belief.in_one_unit()
        if not belief.has_incumbent:  # no best value to compare g with
            return first_feasible(belief, rng, 1.0)
        worth, found = self._choose(belief, rng)
        if self.worth is not None or belief.worth is not None:
            chosen = proposal(belief, found, _why(belief, f"is worth {worth:.3g}"))
            return replace(chosen, rates=(worth, worth))
        why = _why(belief, f"is worth {worth:.3g} (estimated)")
        return proposal(belief, found, why, notes={"worth": worth})


def _why(belief: Belief, worth: str) -> str:
    return f"smallest Gittins index (best for its cost) if {one_more(belief.unit)} {worth}"


def _score(belief: Belief, worth: float) -> Score:
    return gittins_index(worth, belief.scale, origin=float(np.mean(belief.best)))


def _smallest_index(
    belief: Belief, worth: float, rng: np.random.Generator, seen: ScoreView
) -> Found:
    """The points of smallest g. Their score is the best value minus g."""
    return maximise_score(belief, _score(belief, worth), rng, seen=seen)


def _decay(
    belief: Belief,
    worth: float,
    found: Found,
    rng: np.random.Generator,
    seen: ScoreView,
    *,
    floor: float,
) -> float:
    """The rate, halved until some point is worth its cost, given the points of smallest g.

    Their largest EI / c is a lower bound of the maximum. It suffices if it asks for one halving.
    """
    per_cost = log_ei_per_cost(1.0)
    most = float(ScoreSurface(belief, per_cost).at(found.X).score.max())
    if decayed(worth, most, floor) < 0.5 * worth:
        most = max(most, *maximise_score(belief, per_cost, rng, seen=seen).score[:1])
    return decayed(worth, most, floor)


def decayed(worth: float, log_most: float, floor: float) -> float:
    """`worth` halved until it is below max EI / c = exp(log_most), or `floor` (PBGI-D)."""
    while worth >= np.exp(log_most) and worth > floor:
        worth *= 0.5
    return worth


def _first_worth(belief: Belief) -> float:
    """A tenth of sd(y) per mean cost, with the costs that the model predicts."""
    done = belief.history.points("done")
    done = done[
        np.linspace(0, len(done) - 1, min(len(done), MEAN_COST_TRIALS)).round().astype(np.int64)
    ]
    cost = np.exp(belief.costs(done)[0].mean).mean()
    # Earlier studies explain a part of the values; what they leave is still to be found out.
    rest = 1.0
    if belief.prior is not None and belief.objective is not None:
        rest = min(np.sqrt(belief.objective.variance), 1.0)
    # An infinite rate could be halved for ever.
    return min(
        FIRST_WORTH * float(belief.scale) * float(rest) / float(cost),
        float(np.finfo(np.float64).max),
    )
