"""UCB-LCB, the regret bound of Makarova et al. 2022.

    gap = min over tried x of (mean + sqrt(beta) std)  -  min over all x of (mean - sqrt(beta) std)

bounds, with probability 1 - delta, how far the best point found is above the minimum; beta is that
of GP-LCB, with the number of values for t. The second minimum is found by an optimiser that starts
from the points tried: a search that misses it would end a run too early, so a stop is certified by
a second, independent search. Points that are not affordable count: the regret is against all there
is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import Proposal, Verdict
from farthing.acquisition.scores import ScoreSurface, lower_bound
from farthing.acquisition.search import maximise
from farthing.errors import InvalidInput
from farthing.policies.confidence_bound import beta

__all__ = ["RegretGap"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RegretGap:
    """The best value is surely within so much of the best there is.

    Attributes:
        within: how far the best found may be from the best there is, in units of the objective.
        delta: the chance that the bounds are wrong.
    """

    within: float
    delta: float = 0.1

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_within(self.within, "RegretGap")
        check_chance(self.delta, "RegretGap", 0.1)

    @classmethod
    def of_scores(cls, scores: Sequence[float], delta: float = 0.1) -> RegretGap:
        """`within` = sd sqrt(1/k + 1/(k - 1)) of one configuration's k cross-validation scores.

        That is how well k folds tell two configurations apart.
        """
        k = len(scores)
        if k < 2 or not np.isfinite(scores).all():
            raise InvalidInput(
                f"RegretGap.of_scores({list(scores)!r}): give the finite scores of one "
                "configuration in at least 2 folds."
            )
        return cls(float(np.std(scores) * np.sqrt(1.0 / k + 1.0 / (k - 1))), delta)

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """gap <= within."""
        belief = belief.without_running()
        evaluated = np.array([trial.x for trial in belief.history.done])
        root = float(np.sqrt(beta(belief.space.d, len(evaluated), self.delta)))
        gap = regret_gap(belief, evaluated, root, rng)
        if gap <= self.within:
            gap = max(gap, regret_gap(belief, evaluated, root, rng))
        stop = gap <= self.within
        relation = "at most" if stop else "more than"
        because = (
            f"the best value is within {gap:.3g} of the best there is with probability "
            f"{1 - self.delta:g}{left_out(belief)}, {relation} the {self.within:.3g} that will do"
        )
        return Verdict(bool(stop), because, gap, self.within)


def regret_gap(belief: Belief, evaluated: Array, root: float, rng: np.random.Generator) -> float:
    """min over `evaluated` of mean + root std, less min over all of mean - root std."""
    assert belief.objective is not None
    mean, std = belief.objective.at(evaluated)
    highest = float((mean[:, 0] + root * std).min())
    lowest = float((mean[:, 0] - root * std).min())
    # Whatever it costs and whether it fails: no budget, no cost, no success.
    free = replace(belief, cost={}, success=None)
    origin = float(np.mean(belief.best))
    found = maximise(
        ScoreSurface(free, lower_bound(root, belief.scale, origin=origin)),
        belief.space,
        rng,
        tried=np.empty((0, belief.space.d)),
        near=belief.top,
        lengths=belief.objective.lengthscales,
    )
    if len(found.X):
        lowest = min(lowest, origin - belief.scale * float(found.score[0]))
    return highest - lowest


def left_out(belief: Belief) -> str:
    """What the rule did not look at."""
    running = len(belief.history.running)
    if not running:
        return ""
    return f" (leaving out {'the running trial' if running == 1 else f'{running} running trials'})"


def check_within(within: float, name: str) -> None:
    """A regret that will do is a positive number."""
    if not (isinstance(within, Real) and np.isfinite(within) and within > 0):
        raise InvalidInput(
            f"{name}(within={within!r}): give the positive number of objective units that the best "
            "value may be from the best there is: 0.01 if a hundredth does not matter."
        )


def check_chance(delta: float, name: str, usual: float) -> None:
    """A chance of being wrong is a probability."""
    if not (isinstance(delta, Real) and 0 < delta < 1):
        raise InvalidInput(
            f"{name}(delta={delta!r}): delta is a probability between 0 and 1, the chance that the "
            f"rule is wrong. The usual value is {usual:g}."
        )
