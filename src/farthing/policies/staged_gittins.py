"""The staged Gittins index: pause and resume trainings, and start new ones.

    g solves  E W(g - m) = worth c   over the coming rungs of a training (`staged_index`)
    choose the smallest g among new and paused trainings, and run it for one rung

With one rung it is PBGI (`Gittins`). The index is optimal for independent chains (Weitzman 1979;
Gupta et al. 2019). `worth` is the exchange rate, in objective units per unit of cost. It is fixed,
or it decays: it starts at a tenth of a standard deviation per cost of a whole training, and it is
halved whenever nothing is worth its cost, that is min g >= best. Without costs, steps are counted.
If the budget limits trials and all have begun, the study ends then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.rungs import described, proposal_of, rest_of
from farthing.acquisition.staged_search import Smallest, StagedSearch
from farthing.budget.units import check_worth
from farthing.policies.gittins import Gittins

__all__ = ["StagedGittins"]

FIRST_WORTH = 0.1  # of a standard deviation per cost of a whole training
MOST_HALVINGS = 20


@dataclass(frozen=True)
class StagedGittins:
    """The smallest staged Gittins index: runs the most promising training to its next rung."""

    worth: float | None = None

    needs: ClassVar[frozenset[str]] = frozenset({"model", "steps"})

    def __post_init__(self) -> None:
        check_worth(self.worth, "StagedGittins")

    @property
    def reads(self) -> frozenset[str]:
        """The setting `worth`, unless the policy has its own."""
        return frozenset() if self.worth is not None else frozenset({"worth"})

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """argmin g over new and paused trainings."""
        trainings = belief.trainings
        if trainings is None:
            return Gittins(self.worth).propose(belief, rng)
        belief = belief.in_one_unit()
        fixed = self.worth if self.worth is not None else belief.worth
        search = StagedSearch(belief, trainings)
        if (complete := search.to_complete()) is not None:
            why = (
                "; only whole trainings count, and what is left pays for little more than this one"
            )
            because = described(belief, complete.chains, complete.k) + why
            return proposal_of(belief, complete.chains, complete.k, because, np.nan)
        if fixed is not None:
            rate = fixed * trainings.curves.scaling.rate(trainings.value)
            return _proposal(belief, search, search.smallest(rate), {}, (fixed, fixed))
        first = FIRST_WORTH / search.usual_cost
        before = halvings = int(belief.history.last_note("halvings") or 0)
        found = search.smallest(first * 0.5**halvings)
        most = halvings if search.is_ending else MOST_HALVINGS
        while found is not None and found.index >= found.best and halvings < most:
            halvings += 1
            found = search.smallest_known(first * 0.5**halvings)
        if halvings > before:  # the same rate, with a new search
            found = search.smallest(first * 0.5**halvings)
        return _proposal(belief, search, found, {"halvings": halvings}, None)


def _proposal(
    belief: Belief,
    search: StagedSearch,
    found: Smallest | None,
    notes: dict[str, object],
    rates: tuple[float, float] | None,
) -> Proposal:
    if found is None:
        assert belief.steps is not None
        what = "be completed" if belief.steps.value == "last" else "afford its next rung"
        return Proposal(None, f"no training can {what} with what is left", notes=notes)
    if search.is_ending and found.index >= found.best:
        because = "all trials have begun, and no paused training is worth its remaining steps"
        return Proposal(None, because, notes=notes)
    chains, k = found.chains, found.k
    because = described(belief, chains, k)
    if found.index >= found.best:
        because += "; nothing is expected to be worth its cost"
    because += _paused(belief, int(chains.trials[k]))
    score = found.best - found.index
    more = {"notes": notes, "rates": rates, "ahead_of": found.rivals}
    return proposal_of(belief, chains, k, because, score, **more)


def _paused(belief: Belief, chosen: int) -> str:
    """A remark about the training that ran last, if it is paused and another one goes on."""
    trainings, history = belief.trainings, belief.history
    assert trainings is not None
    last = max(history, key=lambda t: t.number if t.run.turn is None else t.run.turn)
    if last.state != "paused" or last.number == chosen:
        return ""
    mean, std = trainings.curves.final()
    own = trainings.place[last.number]
    expected = trainings.described(float(mean[own].mean()), float(std[own]), belief.sign)
    return (
        f"; trial {last.number} is paused at step {last.step}: its remaining "
        f"{rest_of(belief, last)}, promise less for their cost (expected final value {expected})"
    )
