"""Model selection: the learner whose model predicts left-out costs best.

    score_i = ln p(ln c_i | the other costs),   ln P(ln c_i > bound | the other costs) if killed

`AutoCost` chooses the simplest model whose sum of scores is within one standard error of the best
(Breiman et al. 1984). The scores favour a flexible model, because its features and hyperparameters
were fitted to the left-out cost too. The first and simplest model therefore stays unless the
squared errors of the other are also lower by one standard error.

Leave-one-out predictions are in closed form, with features and hyperparameters kept. `AutoCost`
chooses again when the number of costs has grown by a tenth. Until then it fits only the chosen
model.
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
from farthing.cost.model import CostLearner, CostModel, Evidence, Slopes, about_of, because_of
from farthing.cost.residual_gp import ResidualGP
from farthing.errors import InvalidInput
from farthing.models.gp import RELEARN_GROWTH, FitMemory, Normal
from farthing.models.normal import LOG_SQRT_2PI

__all__ = ["AutoCost"]

Array = NDArray[np.float64]

LEAST_STD = 0.02  # of ln c: no prediction is scored as more precise than 2 %
MIN_COSTS = 4  # observed costs needed to compare the learners


def log_scores(left_out: Normal, log_cost: Array, at_least: NDArray[np.bool_]) -> Array:
    """(n,) ln p(ln c_i), or ln P(ln c_i > bound) where `at_least`."""
    std = np.maximum(left_out.std, LEAST_STD)
    z = (log_cost - left_out.mean) / std
    density = -0.5 * z * z - np.log(std) - LOG_SQRT_2PI
    return np.asarray(np.where(at_least, log_ndtr(-z), density))


def choice(scores: Array, errors: Array) -> int:
    """Index of the model to choose, given scores and squared errors (k, n), simplest first."""
    best = int(scores.sum(axis=1).argmax())
    found = next(k for k in range(len(scores)) if not _is_larger(scores[best], scores[k]))
    return found if _is_larger(errors[0], errors[found]) else 0


def _is_larger(one: Array, other: Array) -> bool:
    """Whether sum(one) exceeds sum(other) by more than the standard error of the difference."""
    gap = one - other
    return bool(gap.sum() > np.sqrt(len(gap)) * gap.std(ddof=1))


@dataclass(frozen=True)
class _AutoCostModel:
    """The chosen model, with the memory of every learner."""

    model: CostModel
    memory: FitMemory
    because: str

    @property
    def about(self) -> str:
        return about_of(self.model, "a user-defined model")

    def log_at(self, X: Array) -> Normal:
        return self.model.log_at(X)

    def slopes(self, X: Array) -> Slopes:
        return self.model.slopes(X)

    def condition(self, x: Array, cost: float) -> _AutoCostModel:
        return replace(self, model=self.model.condition(x, cost))


@dataclass(frozen=True)
class AutoCost:
    """Learn ln c with the one of several learners that predicts left-out costs best.

    Attributes:
        of: the learners, simplest first; their models need the method `left_out`.
    """

    of: Sequence[CostLearner] = (Linear(at_most=0), Linear(), ResidualGP(), LogGP())

    def __post_init__(self) -> None:
        if not self.of or not all(hasattr(learner, "fit") for learner in self.of):
            raise InvalidInput(
                f"of={self.of!r}: expected cost learners, such as [Linear(), LogGP()]."
            )
        object.__setattr__(self, "of", tuple(self.of))

    def fit(self, evidence: Evidence) -> _AutoCostModel | None:
        """The chosen model; with fewer than four costs, the last learner's that has one."""
        n, memory = len(evidence.cost), evidence.memory or {}
        if memory.get("choice", len(self.of)) >= len(self.of):
            memory = {"n": 0, "choice": 0, "memories": {}}  # none, or that of another learner
        if n >= MIN_COSTS and memory["n"] and n < RELEARN_GROWTH * memory["n"]:
            k = int(memory["choice"])
            model = self._fit(k, evidence, memory)
            return None if model is None else self._chosen(k, {k: model}, memory, memory["n"])
        models = {
            k: model
            for k in range(len(self.of))
            if (model := self._fit(k, evidence, memory)) is not None
        }
        if not models:
            return None
        if n < MIN_COSTS:
            return self._chosen(max(models), models, memory, 0)
        log_cost, scores, errors = evidence.log_cost(), [], []
        for k, model in models.items():
            predict = getattr(model, "left_out", None)
            if predict is None:
                raise InvalidInput(
                    f"AutoCost cannot compare {self.of[k]!r}: its model has no method left_out(), "
                    "which predicts each cost from the others. Add it, or remove that learner."
                )
            left_out: Normal = predict()
            # A prediction above a lower bound is not wrong.
            target = np.where(evidence.at_least, np.maximum(log_cost, left_out.mean), log_cost)
            scores.append(log_scores(left_out, log_cost, evidence.at_least))
            errors.append((target - left_out.mean) ** 2)
        found = choice(np.array(scores), np.array(errors))
        return self._chosen(list(models)[found], models, memory, n)

    def _fit(self, k: int, evidence: Evidence, memory: Mapping[str, Any]) -> CostModel | None:
        return self.of[k].fit(evidence._replace(memory=memory["memories"].get(str(k))))

    def _chosen(
        self, k: int, models: dict[int, CostModel], memory: Mapping[str, Any], n: int
    ) -> _AutoCostModel:
        """Model k and all memories; n costs decided the choice, 0 if there was none."""
        learnt = {str(j): model.memory for j, model in models.items() if model.memory is not None}
        memory = {"n": n, "choice": k, "memories": {**memory["memories"], **learnt}}
        model = models[k]
        name = type(self.of[k]).__name__
        because = f"cost model {name}, the best of {len(self.of)} on {n} costs" if n else ""
        return _AutoCostModel(model, memory, "; ".join(filter(None, [because, because_of(model)])))
