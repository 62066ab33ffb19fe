"""UCB-LCB, the regret bound of Makarova et al. 2022.

    gap = min over tried x of (mean + sqrt(beta) std)  -  min over all x of (mean - sqrt(beta) std)

With probability 1 - delta, the gap bounds the regret of the best point found. beta is that of
GP-LCB, where t is the number of values. An optimiser that starts from the points tried finds the
second minimum. If it missed the minimum, the run would end too early. So a second, independent
search must confirm a stop. The minimum includes points that are not affordable.

With constraints, the first minimum is over the feasible trials. The second is over the points where
mean - sqrt(beta) std of every measured quantity is within its bound, so that it may be feasible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.protocols import NOTHING_FEASIBLE, Proposal, Verdict
from farthing.acquisition.scores import ScoreSurface, lower_bound
from farthing.acquisition.search import Rated, Surface, maximise
from farthing.errors import InvalidInput
from farthing.models.feasibility import Feasibility
from farthing.policies.confidence_bound import beta

__all__ = ["RegretGap"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RegretGap:
    """Stop if a confidence bound on the regret of the best value is within a tolerance.

    Attributes:
        within: the tolerance, in units of the objective.
        delta: the probability that the bounds are wrong.
    """

    within: float
    delta: float = 0.1

    needs: ClassVar[frozenset[str]] = frozenset({"model"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_within(self.within, "RegretGap")
        check_chance(self.delta, "RegretGap", 0.1)

    @classmethod
    def of_scores(cls, scores: Sequence[float], delta: float = 0.1) -> RegretGap:
        """`within` = sd sqrt(1/k + 1/(k - 1)) of one configuration's k cross-validation scores.

        Smaller differences between configurations cannot be distinguished with k folds.
        """
        k = len(scores)
        if k < 2 or not np.isfinite(scores).all():
            raise InvalidInput(
                f"RegretGap.of_scores({list(scores)!r}): expected the finite scores of one "
                "configuration in at least 2 folds."
            )
        return cls(float(np.std(scores) * np.sqrt(1.0 / k + 1.0 / (k - 1))), delta)

    def __call__(self, belief: Belief, proposal: Proposal, rng: np.random.Generator) -> Verdict:
        """gap <= within."""
        if belief.lacks_feasible:
            return NOTHING_FEASIBLE
        belief = belief.without_running()
        evaluated = feasible_points(belief)
        root = float(np.sqrt(beta(belief.space.d, len(belief.y), self.delta)))
        gap = regret_gap(belief, evaluated, root, rng)
        if gap <= self.within:
            gap = max(gap, regret_gap(belief, evaluated, root, rng))
        stop = gap <= self.within
        relation = "at most" if stop else "more than"
        because = (
            f"the best value is within {gap:.3g} of the optimum with probability "
            f"{1 - self.delta:g}{left_out(belief)}, {relation} the tolerance {self.within:.3g}"
        )
        return Verdict(bool(stop), because, gap, self.within)


def regret_gap(belief: Belief, evaluated: Array, root: float, rng: np.random.Generator) -> float:
    """min over `evaluated` of mean + root std, minus min over all x of mean - root std."""
    assert belief.objective is not None
    mean, std = belief.objective.at(evaluated)
    highest = float((mean[:, 0] + root * std).min())
    lowest = float((mean[:, 0] - root * std).min())
    # The minimum is over all points, so costs and failures must not restrict the search.
    free = replace(belief, cost={}, success=None, feasibility=())
    origin = float(np.mean(belief.best))
    surface: Surface = ScoreSurface(free, lower_bound(root, belief.scale, origin=origin))
    if belief.feasibility:
        surface = _Plausible(surface, belief.feasibility, root)
    found = maximise(
        surface,
        belief.space,
        rng,
        tried=np.empty((0, belief.space.d)),
        near=belief.top,
        lengths=belief.objective.lengthscales,
    )
    if len(found.X):
        lowest = min(lowest, origin - belief.scale * float(found.score[0]))
    return highest - lowest


def feasible_points(belief: Belief) -> Array:
    """(k, d) the points of the trials that are feasible."""
    X = np.array([trial.x for trial in belief.history.done])
    return np.asarray(X[np.isfinite(belief.feasible_y)])


@dataclass(frozen=True)
class _Plausible:
    """A surface on the points that may be feasible: elsewhere there is a shortfall."""

    surface: Surface
    feasibility: tuple[Feasibility, ...]
    root: float

    def at(self, X: Array) -> Rated:
        excess = [model.plausible_excess(X, self.root)[0] for model in self.feasibility]
        return Rated(self.surface.at(X).score, np.max(excess, axis=0))

    def slopes(self, X: Array) -> tuple[Rated, Array, Array]:
        rated, slope, _ = self.surface.slopes(X)
        parts = [model.plausible_excess(X, self.root) for model in self.feasibility]
        excess, slopes = (np.array(part) for part in zip(*parts, strict=True))
        worst, rows = excess.argmax(axis=0), np.arange(len(X))
        return Rated(rated.score, excess[worst, rows]), slope, slopes[worst, rows]


def left_out(belief: Belief) -> str:
    """A remark on pending trials, which the rule ignores."""
    running = len(belief.history.running)
    if not running:
        return ""
    return f" (ignoring {'the running trial' if running == 1 else f'{running} running trials'})"


def check_within(within: float, name: str) -> None:
    """Check that a tolerance is a positive number."""
    if not (isinstance(within, Real) and np.isfinite(within) and within > 0):
        raise InvalidInput(
            f"{name}(within={within!r}): within, the tolerated distance from the optimum in units "
            "of the objective, must be a positive number. Use for example 0.01."
        )


def check_chance(delta: float, name: str, usual: float) -> None:
    """Check that delta is a probability."""
    if not (isinstance(delta, Real) and 0 < delta < 1):
        raise InvalidInput(
            f"{name}(delta={delta!r}): delta, the probability that the rule is wrong, must be "
            f"between 0 and 1. The usual value is {usual:g}."
        )
