"""Whether the rest of a training is worth its cost, if it cannot be paused and resumed.

A training goes on while its staged index is below the best value: g < best (`staged_index.py`). The
exchange rate is fixed, or the largest of 1/50 of a standard deviation per cost of a whole training,
half of that, and so on, at which any training, this one or a new one, is worth its cost. It begins
lower than that of `StagedGittins`, because a training that is ended by mistake does not return.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.rungs import Chains, indices, paused_chains, whole_cost
from farthing.acquisition.staged_search import StagedSearch
from farthing.acquisition.trainings import Trainings

__all__ = ["Continuing", "worth_continuing"]

FIRST_WORTH = 0.02  # of a standard deviation per cost of a whole training
MOST_HALVINGS = 20


@dataclass(frozen=True)
class Continuing:
    """The decision about a training.

    Attributes:
        go_on: whether it goes on.
        index: the best value at which it would not be worth its cost any more, in the user's units.
        best: the best value so far.
    """

    go_on: bool
    index: float
    best: float


def worth_continuing(belief: Belief, number: int, worth: float | None = None) -> Continuing | None:
    """Whether a training that waits at a rung goes on; None if nothing is known yet.

    Args:
        number: a paused trial whose process waits.
        worth: units of the objective that one unit of cost is worth; None: found as above.
    """
    trainings = belief.trainings
    if trainings is None or belief.history[number].step < trainings.rungs[0]:
        return None
    belief = belief.in_one_unit()
    chain = next(c.take(c.trials == number) for c in paused_chains(belief) if number in c.trials)
    best = float(np.mean(trainings.best))
    if worth is not None:
        rate = worth * trainings.curves.scaling.rate(trainings.value)
    else:
        rate = _rate(belief, trainings, chain, best)
    index = float(indices(belief, [chain], rate)[0][0])
    shown = belief.sign * float(trainings.curves.scaling.undo(index))
    return Continuing(index < best, shown, belief.sign * trainings.value)


def _rate(belief: Belief, trainings: Trainings, chain: Chains, best: float) -> float:
    """The largest rate of the sequence at which a training is worth its cost."""
    rate = FIRST_WORTH / float(np.median(whole_cost(belief, belief.history.X)))
    search = StagedSearch(belief, trainings)
    for _ in range(MOST_HALVINGS):
        if float(indices(belief, [chain], rate)[0][0]) < best:
            break
        found = search.smallest(rate)
        if found is not None and found.index < best:
            break
        rate *= 0.5
    return rate
