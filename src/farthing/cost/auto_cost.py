"""The cost model that predicts best: a constant, a plane, a plane and a process, or a process.

    score_i = ln p(ln c_i | the other bills),   ln P(ln c_i > bound | the others) of a killed one

The simplest whose sum of scores is within one standard error of the best (Breiman et al. 1984). The
scores flatter a flexible model, whose features and hyperparameters saw the bill: so the first, the
simplest, stays unless the squared errors, too, are less by one standard error.

Leave-one-out is in closed form, features and hyperparameters kept: a choice costs little more than
its fits. It is made anew when the number of bills has grown by a tenth; until then the chosen model
alone is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from farthing.cost.linear import Linear
from farthing.cost.log_gp import LogGP
from farthing.cost.model import CostLearner, CostModel, Evidence, Explained, LeavesOut, Slopes
from farthing.cost.residual_gp import ResidualGP
from farthing.errors import InvalidInput
from farthing.models.gp import RELEARN_GROWTH, FitMemory, Normal
from farthing.models.normal import LOG_SQRT_2PI

__all__ = ["AutoCost"]

Array = NDArray[np.float64]

LEAST_STD = 0.02  # of ln c: no bill is predicted better than to 2 %
FEW = 4  # bills: with fewer there is nothing to choose by


def log_scores(left_out: Normal, log_cost: Array, at_least: NDArray[np.bool_]) -> Array:
    """(n,) log densities of the bills, log chances of exceeding it where `at_least`."""
    std = np.maximum(left_out.std, LEAST_STD)
    z = (log_cost - left_out.mean) / std
    seen = -0.5 * z * z - np.log(std) - LOG_SQRT_2PI
    return np.asarray(np.where(at_least, log_ndtr(-z), seen))


def choice(scores: Array, errors: Array) -> int:
    """Which row of the scores (k, n), simplest first, to choose; errors (k, n) are squared."""
    best = int(scores.sum(axis=1).argmax())
    found = next(k for k in range(len(scores)) if not _is_more(scores[best], scores[k]))
    return found if _is_more(errors[0], errors[found]) else 0


def _is_more(one: Array, other: Array) -> bool:
    """Whether a sum is larger than another by more than the standard error of the difference."""
    gap = one - other
    return bool(gap.sum() > np.sqrt(len(gap)) * gap.std(ddof=1))


@dataclass(frozen=True)
class _AutoCostModel:
    """The model that was chosen, and what to remember of all."""

    model: CostModel
    memory: FitMemory
    because: str

    @property
    def about(self) -> str:
        return self.model.about if isinstance(self.model, Explained) else "a model of one's own"

    def log_at(self, X: Array) -> Normal:
        return self.model.log_at(X)

    def slopes(self, X: Array) -> Slopes:
        return self.model.slopes(X)

    def condition(self, x: Array, cost: float) -> _AutoCostModel:
        return replace(self, model=self.model.condition(x, cost))


@dataclass(frozen=True)
class AutoCost:
    """Learn ln c with whichever of several learners predicts left-out bills best.

    Attributes:
        of: the learners, the simplest first; their models must say `left_out`.
    """

    of: Sequence[CostLearner] = (Linear(at_most=0), Linear(), ResidualGP(), LogGP())

    def __post_init__(self) -> None:
        if not self.of or not all(hasattr(learner, "fit") for learner in self.of):
            raise InvalidInput(
                f"of={self.of!r}: expected cost learners, such as [Linear(), LogGP()]."
            )
        object.__setattr__(self, "of", tuple(self.of))

    def fit(self, evidence: Evidence) -> _AutoCostModel | None:
        """The model chosen; the last that there is, while there are too few bills to choose by."""
        n, known = len(evidence.cost), evidence.memory or {}
        if known.get("choice", len(self.of)) >= len(self.of):
            known = {"n": 0, "choice": 0, "memories": {}}  # nothing, or of another learner
        if n >= FEW and known["n"] and n < RELEARN_GROWTH * known["n"]:
            k = int(known["choice"])
            model = self._fit(k, evidence, known)
            return None if model is None else self._chosen(k, {k: model}, known, known["n"])
        models = {
            k: model
            for k in range(len(self.of))
            if (model := self._fit(k, evidence, known)) is not None
        }
        if not models:
            return None
        if n < FEW:
            return self._chosen(max(models), models, known, 0)
        log_cost, scores, errors = evidence.log_cost(), [], []
        for k, model in models.items():
            if not isinstance(model, LeavesOut):
                raise InvalidInput(
                    f"Choose cannot judge {self.of[k]!r}: its model has no left_out(), each bill "
                    "as predicted by the others."
                )
            left_out = model.left_out()
            short = np.where(evidence.at_least, np.maximum(log_cost, left_out.mean), log_cost)
            scores.append(log_scores(left_out, log_cost, evidence.at_least))
            errors.append((short - left_out.mean) ** 2)
        found = choice(np.array(scores), np.array(errors))
        return self._chosen(list(models)[found], models, known, n)

    def _fit(self, k: int, evidence: Evidence, known: Mapping[str, Any]) -> CostModel | None:
        return self.of[k].fit(evidence._replace(memory=known["memories"].get(str(k))))

    def _chosen(
        self, k: int, models: dict[int, CostModel], known: Mapping[str, Any], at: int
    ) -> _AutoCostModel:
        """The model, and the memory of all; `at` is the number of bills chosen by, 0: none."""
        learnt = {str(j): model.memory for j, model in models.items() if model.memory is not None}
        memory = {"n": at, "choice": k, "memories": {**known["memories"], **learnt}}
        model = models[k]
        simpler = model.because if isinstance(model, Explained) else ""
        because = f"cost by {type(self.of[k]).__name__}, chosen of {len(self.of)} by {at} bills"
        return _AutoCostModel(
            model, memory, "; ".join(filter(None, [because if at else "", simpler]))
        )
