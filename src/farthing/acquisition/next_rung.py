"""The next rung of a running training by the model that chose it, without a new suggestion.

When it was chosen, the coming rungs of a training had the joint posterior N(m, C). After values z
at the first k of them, with N = C + noise, the final value and the rungs ahead have

    m' = m + G (z - m[:k]),    C' = C - G C[:k],    G = C[:, :k] N[:k, :k]^-1

which give its staged index (`staged_index`). If that is below the incumbent, the training goes on
if it is also below a bound of the indices that the others had (`Rivals`), and pauses if it is above
the smallest of them. What others have reported since is not used, except their best value. So many
workers need not wait for one another's suggestions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal, Rivals
from farthing.acquisition.rungs import chains_of, described, proposal_of
from farthing.acquisition.staged_index import revealed, staged_index
from farthing.acquisition.trainings import at_rungs, best_ended
from farthing.history import Trial
from farthing.models.curves import VARIANCE_FLOOR

__all__ = ["NextRung", "next_rung"]


class NextRung(NamedTuple):
    """What the last model says about the next rung of a training.

    Attributes:
        proposal: to run to it; None if others are ahead.
        value: the index in the user's units, to minimise.
    """

    proposal: Proposal | None
    value: float


def next_rung(belief: Belief, trial: Trial, rivals: Rivals) -> NextRung | None:
    """The next rung of a training by the last model; None if that model does not tell.

    Args:
        belief: that of the last suggestion, with the present ledger and history.
        trial: the training, as if it were paused now.
        rivals: of the last suggestion.
    """
    belief = belief.in_one_unit()
    trainings, steps = belief.trainings, belief.steps
    if trainings is None or steps is None:
        return None
    curves, rung = trainings.curves, trainings.rung_after(trial.step)
    place = trainings.place.get(trial.number)
    first = 0 if place is None else int(curves.reached()[place])
    values = dict(at_rungs(trial, steps, trainings.rungs, belief.sign))
    new = range(first, rung)
    if rung == len(trainings.rungs) or not new or not values.keys() >= set(new):
        return None
    own = None if place is None else np.array([place])
    means, covariances, noise = curves.coming(trial.x[None], first, own)
    m, C, k = means[0].mean(axis=1), covariances[0], len(new)
    z = curves.scaling.apply(np.array([values[j] for j in new]))
    gain = np.linalg.solve(C[:k, :k] + np.diag(noise[:k]), C[:k]).T
    m, C = m + gain @ (z - m[:k]), C - gain @ C[:k]
    np.fill_diagonal(C, np.maximum(C.diagonal(), VARIANCE_FLOOR))
    chains = chains_of(belief, [trial], rung, m[-1:], np.sqrt(C[-1:, -1]))
    sigma = revealed(C[None, k:, k:], noise[None, k:])
    index = float(staged_index(chains.mean, sigma, rivals.rate * chains.cost)[0])
    value = min(trainings.value, best_ended(belief.history, steps, belief.sign))
    best = float(curves.scaling.apply(value))
    counts = steps.value == "best" or float(chains.cost.sum()) <= belief.cap
    if not (counts and chains.affordable[0] and index < best):
        return None
    in_units = float(curves.scaling.undo(index))
    if index >= rivals.smallest:
        return NextRung(None, in_units)
    if index >= rivals.bound:
        return None
    because = described(belief, chains, 0) + "; still ahead of the others by the last model"
    proposal = proposal_of(belief, chains, 0, because, best - index, ahead_of=rivals)
    return NextRung(proposal, in_units)
