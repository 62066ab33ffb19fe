"""The cost-aware stopping rule, PBGI/LogEIPC (Xie et al. 2025, eq. 4 to 6).

    stop when  EI(x) <= worth c(x) for every x not yet evaluated
          <=>  max_x [ln EI - ln c] <= ln worth      <=>  min_x g(x) >= best

c is E[min(c, cap)], the same number as in the acquisition. While trials are running, EI is the mean
over what they may return, as in the acquisition, too; what they do return is judged anew. The
maximum is found by an optimiser, so an unlucky search must not end a run: a stop is certified by a
second, independent search.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from farthing.acquisition import ScoreSurface, log_ei_per_cost, maximise_score
from farthing.belief import Belief
from farthing.decision import Proposal, Verdict
from farthing.errors import InvalidInput

__all__ = ["NotWorthIt"]


@dataclass(frozen=True)
class NotWorthIt:
    """No evaluation is expected to improve by as much as it costs.

    Attributes:
        worth: objective units that one unit of cost is worth; None takes the Optimizer's.
        patience: how many proposals in a row it must be so for.
    """

    worth: float | None = None
    patience: int = 1

    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.worth is not None and not (
            isinstance(self.worth, Real) and np.isfinite(self.worth) and self.worth > 0
        ):
            raise InvalidInput(
                f"NotWorthIt(worth={self.worth!r}): worth is a positive number, the objective "
                "units that one unit of cost is worth: 0.001 if a second is worth a thousandth. "
                "A sentence such as '0.01 = $20' goes to Optimizer(worth=...)."
            )
        if not (isinstance(self.patience, int) and self.patience >= 1):
            raise InvalidInput(
                f"NotWorthIt(patience={self.patience!r}): give a whole number of at least 1."
            )

    @property
    def needs(self) -> frozenset[str]:
        """A model, costs, and a worth from somewhere."""
        return frozenset({"cost", "model"} | ({"worth"} if self.worth is None else set()))

    @property
    def reads(self) -> frozenset[str]:
        """The Optimizer's `worth`, unless it has its own."""
        return frozenset() if self.worth is not None else frozenset({"worth"})

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """max ln EI - ln c <= ln worth, `patience` times in a row."""
        worth = self.worth if self.worth is not None else belief.worth
        assert worth is not None
        threshold = float(np.log(worth))
        most = _most_improvement_per_cost(belief.in_one_unit(), proposal, threshold, rng)
        below = most <= threshold
        streak = (belief.history.last_note("not_worth_it") or 0) + 1 if below else 0
        stop = below and streak >= self.patience
        relation = "at most" if below else "more than"
        because = (
            f"one unit of cost is expected to improve the objective by {np.exp(most):.3g}"
            f"{_assumed(belief)}, {relation} the {worth:.3g} it is worth"
        )
        if below and not stop:
            because += f" ({streak} of {self.patience} times in a row)"
        return Verdict(stop, because, most, threshold, {"not_worth_it": streak})


def _assumed(belief: Belief) -> str:
    """What the expectation is taken over besides the model."""
    running = len(belief.history.running)
    if not running:
        return ""
    trials = "the running trial" if running == 1 else f"the {running} running trials"
    return f" (averaged over what {trials} may return)"


def _most_improvement_per_cost(
    belief: Belief, proposal: Proposal, threshold: float, rng: np.random.Generator
) -> float:
    """max ln EI - ln c over affordable, untried points; any point above the threshold will do."""
    score = log_ei_per_cost(1.0)
    most = -np.inf
    if proposal.x is not None:
        rated = ScoreSurface(belief, score).at(proposal.x[None])
        most = float(rated.score[0])
    for _ in range(2):
        if most > threshold:
            break
        found = maximise_score(belief, score, rng)
        if len(found.X):
            most = max(most, float(found.score[0]))
    return most
