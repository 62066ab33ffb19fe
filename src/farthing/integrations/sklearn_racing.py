"""Racing: a policy for folds. Every candidate goes on to its last fold unless it is hopeless.

The best one goes first; while none is complete, the cheapest one, so that there is a result. What
is left must pay for all its other folds.

With n folds, of which k are done, and the differences d_j to the best complete candidate on the
same folds (a positive one is worse), a candidate is hopeless if

    mean(d_1 .. d_k) - Z s sqrt(1/k - 1/n) > 0

where s^2 is the variance of d over folds, pooled over the complete candidates. The mean of n such
differences, given that of the first k, has the variance s^2 (1/k - 1/n). So the difficulty of a
fold, which all candidates share, has no effect. A hopeless candidate is paused. It goes on if a
better estimate of s no longer excludes it.

If no candidate goes on, a new one starts: that of the smallest Gittins index for its final score
and the cost of all its folds, by the joint model of all folds (`Trainings`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.rungs import (
    first_part,
    paused_part,
    paused_trainings,
    some_points,
    whole_cost,
)
from farthing.acquisition.scores import gittins_index, log_ei_per_cost, look, maximise_score
from farthing.acquisition.search import Found
from farthing.history import Trial
from farthing.policies import EI, Gittins

__all__ = ["Racing", "is_hopeless"]

Array = NDArray[np.float64]

MIN_COMPLETE = 3  # complete candidates before another one is compared with them
FIRST_WORTH = 0.1  # of a standard deviation per cost of a whole candidate, as in StagedGittins
MOST_HALVINGS = 20


@dataclass(frozen=True)
class Racing:
    """Runs a candidate fold by fold until it is complete or hopeless, then starts another one.

    Attributes:
        z: standard errors behind the best one that make a candidate hopeless.
    """

    z: float = 3.0

    needs: ClassVar[frozenset[str]] = frozenset({"model", "steps"})
    reads: ClassVar[frozenset[str]] = frozenset({"worth"})

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The next folds of a candidate that is not hopeless, or else a new candidate."""
        if belief.trainings is None:
            return (Gittins() if belief.cost else EI()).propose(belief, rng)
        belief = belief.in_one_unit()
        return self._next_folds(belief) or _new(belief, rng)

    def _next_folds(self, belief: Belief) -> Proposal | None:
        """The first candidate that is not hopeless and can be completed; None: there is none."""
        steps = belief.steps
        assert steps is not None
        complete = [_scores(trial, belief.sign) for trial in belief.history.done]
        complete = [scores for scores in complete if len(scores) == steps.last]
        paused = [(_scores(trial, belief.sign), trial) for trial in paused_trainings(belief)]
        going = []
        for scores, trial in paused:
            whole = paused_part(belief, trial, steps.last, "")
            if whole is not None and not is_hopeless(scores, complete, self.z):
                cost = sum(float(np.exp(c.mean[0])) for c in whole.predicted.values())
                going.append((0.0 if complete else cost, _behind(scores, complete), trial.number))
        if not going:
            return None
        number = min(going)[-1]
        until = steps.next_rung(belief.history[number].step)
        because = f"candidate {number} is not hopeless, so it goes on to fold {until}"
        return paused_part(belief, belief.history[number], until, because)


def is_hopeless(scores: Array, complete: Sequence[Array], z: float) -> bool:
    """Whether a candidate with these scores, to minimise, is behind the best complete one."""
    if len(complete) < MIN_COMPLETE:
        return False
    best = min(complete, key=lambda each: float(each.mean()))
    others = np.array([each - best for each in complete if (each != best).any()])
    if not len(others):
        return False
    k, n = len(scores), len(best)
    s = math.sqrt(float(np.mean(np.var(others, axis=1, ddof=1))))
    return _behind(scores, complete) - z * s * math.sqrt(1 / k - 1 / n) > 0


def _behind(scores: Array, complete: Sequence[Array]) -> float:
    """The mean difference to the best complete candidate on the same folds, or the mean score."""
    if not complete:
        return float(scores.mean())
    best = min(complete, key=lambda each: float(each.mean()))
    return float(np.mean(scores - best[: len(scores)]))


def _scores(trial: Trial, sign: float) -> Array:
    """The scores of the folds of a trial, to minimise. Its curve has the means of the first k."""
    steps = np.array([point.step for point in trial.curve], dtype=np.float64)
    sums = steps * np.array([point.value for point in trial.curve])
    each = np.diff(sums, prepend=0.0) / np.diff(steps, prepend=0.0)
    return sign * np.repeat(each, np.diff(steps, prepend=0.0).astype(np.int64))


def _new(belief: Belief, rng: np.random.Generator) -> Proposal:
    """A new candidate, all of whose folds are affordable."""
    steps = belief.steps
    assert steps is not None
    found, notes = _most_promising(belief, first_part(belief, steps.last), rng)
    if not len(found.X):
        return Proposal(None, "no new candidate is affordable with all its folds", notes=notes)
    x, until = np.asarray(found.X[0]), steps.decision_steps[0]
    because = f"a new candidate to fold {until}: the best one for the cost of all its folds"
    predicted = first_part(belief).predicted(x)
    return Proposal(
        x, because, float(found.score[0]), notes=notes, predicted=predicted, until=until
    )


def _most_promising(
    belief: Belief, whole: Belief, rng: np.random.Generator
) -> tuple[Found, dict[str, object]]:
    """The points of smallest Gittins index, and how often the exchange rate was halved.

    Without costs, those of highest expected improvement.
    """
    trainings, seen = belief.trainings, look(whole, rng)
    assert trainings is not None
    if not belief.cost:
        return maximise_score(whole, log_ei_per_cost(0.0), rng, seen=seen), {}
    best = float(np.mean(trainings.best))

    def smallest(rate: float) -> Found:
        return maximise_score(whole, gittins_index(rate, origin=best), rng, seen=seen)

    if belief.worth is not None:
        return smallest(belief.worth * trainings.curves.scaling.rate(trainings.value)), {}
    first = FIRST_WORTH / float(np.median(whole_cost(belief, some_points(belief))))
    halvings = int(belief.history.last_note("halvings") or 0)
    found = smallest(first * 0.5**halvings)
    while len(found.X) and found.score[0] <= 0 and halvings < MOST_HALVINGS:
        halvings += 1  # no candidate is worth its cost
        found = smallest(first * 0.5**halvings)
    return found, {"halvings": halvings}
