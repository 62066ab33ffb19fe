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

If no candidate goes on, a new one starts: the one that the Gittins index (EI if the budget limits
no cost) proposes for the score and the cost of all folds. A paused candidate counts there with its
expected score,

    mean of the best one + mean(d_1 .. d_k)

Earlier studies (`learn_from=`) give the start and the prior mean of this model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import (
    START,
    START_SHARE,
    START_TRUSTED,
    TRUSTED,
    Belief,
    believe,
)
from farthing.acquisition.initial_design import propose, start
from farthing.acquisition.protocols import Proposal
from farthing.acquisition.rungs import first_part, paused_part, paused_trainings
from farthing.acquisition.trainings import has_begun
from farthing.history import History, Trial
from farthing.policies import EI, Gittins

__all__ = ["Racing", "is_hopeless"]

Array = NDArray[np.float64]

MIN_COMPLETE = 3  # complete candidates before another one is compared with them


@dataclass(frozen=True)
class Racing:
    """Runs a candidate fold by fold until it is complete or hopeless, then starts another one.

    Attributes:
        z: standard errors behind the best one that make a candidate hopeless.
    """

    z: float = 3.0

    needs: ClassVar[frozenset[str]] = frozenset({"steps"})
    reads: ClassVar[frozenset[str]] = frozenset({"learn_from", "worth"})

    def propose(self, belief: Belief, rng: np.random.Generator) -> Proposal:
        """The next folds of a candidate that is not hopeless, or else a new candidate."""
        steps, ledger = belief.steps, belief.ledger
        if steps is None:
            return (Gittins() if belief.cost else EI()).propose(belief, rng)
        count = 2 if ledger.spent_share >= START_SHARE else START
        whole = None
        if belief.sources:
            whole = _whole(belief)
            belief = replace(belief, prior=whole.prior, trust=whole.trust)
            count = START_TRUSTED if max(whole.trust.values()) >= TRUSTED else count
        if not has_begun(belief.history, steps, count):
            found = start(first_part(belief), rng)
        else:
            found = self._next_folds(belief) or _new(belief, whole or _whole(belief), rng)
        notes = {"trust": dict(belief.trust), **found.notes} if belief.sources else found.notes
        return replace(found, notes=notes)

    def _next_folds(self, belief: Belief) -> Proposal | None:
        """The first candidate that is not hopeless and can be completed; None: there is none."""
        steps = belief.steps
        assert steps is not None
        complete = _complete(belief)
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


def _complete(belief: Belief) -> list[Array]:
    """The scores of the complete candidates, to minimise."""
    assert belief.steps is not None
    found = (_scores(trial, belief.sign) for trial in belief.history.done)
    return [scores for scores in found if len(scores) == belief.steps.last]


def _new(belief: Belief, whole: Belief, rng: np.random.Generator) -> Proposal:
    """A new candidate, all of whose folds are affordable; `whole` as `_whole` makes it."""
    steps = belief.steps
    assert steps is not None
    memories = {**belief.memories, **whole.memories}
    whole = replace(whole, cost=belief.cost, max_cost=belief.max_cost, memories=memories)
    found = propose(Gittins() if belief.cost else EI(), whole, rng)
    if found.x is None:
        return replace(found, because="no new candidate is affordable with all its folds")
    until = steps.decision_steps[0]
    return replace(
        found,
        because=f"a new candidate to fold {until}, by the cost of all its folds: {found.because}",
        notes={**found.notes, "memories": memories},
        predicted=first_part(belief).predicted(found.x),
        until=until,
    )


def _whole(belief: Belief) -> Belief:
    """A belief without costs, in which every paused candidate is complete."""
    complete = _complete(belief)
    return believe(
        belief.space,
        History(tuple(_expected(trial, complete, belief.sign) for trial in belief.history)),
        belief.ledger,
        learners={},
        sign=belief.sign,
        noisy=belief.noisy,
        worth=belief.worth,
        seed=belief.seed,
        light=belief.light,
        constraints=belief.constraints,
        sources=belief.sources,
    )


def _expected(trial: Trial, complete: Sequence[Array], sign: float) -> Trial:
    """A paused candidate as if it were complete with its expected score."""
    if trial.state != "paused" or not trial.curve or not complete:
        return trial
    best = min(float(each.mean()) for each in complete)
    value = best + _behind(_scores(trial, sign), complete)
    return replace(trial, state="done", value=sign * value)
