"""NePS: a Gaussian process each for value and cost, log EI with cost cooling."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np

from benchmarks.peers._terms import Params, from_indexed, indexed
from benchmarks.problems.problem import Evaluation
from farthing import Categorical, Float, Ordinal, Space

REQUIREMENTS = ("torch==2.13.0", "neural-pipeline-search==0.17.0")


class CostCooling:
    """bayesian_optimization(cost_aware=True), its only cost-aware setting, with AskAndTell.

    Its initial design of d points does not depend on the budget. Ordinals are integers. A table's
    row is told as a configuration of its own and what was asked is forgotten. A failure is told as
    an exception with its cost; it takes the median value for that.
    """

    def __init__(self, space: Space, *, budget: float, seed: int, evaluations: int) -> None:
        warnings.simplefilter("ignore")
        import neps
        import torch

        for seeded in (random.seed, np.random.seed, torch.manual_seed):  # NePS has no seed
            seeded(seed)
        torch.set_num_threads(1)
        self.space, self.budget, self.spent = space, budget, 0.0
        parameters = {name: _parameter(p) for name, p in space.parameters.items()}
        pipeline = type("Pipeline", (neps.PipelineSpace,), parameters)()
        optimizer = neps.algorithms.bayesian_optimization(pipeline, cost_aware=True)
        self.study = neps.AskAndTell(optimizer)

    def ask(self) -> Params:
        """The next configuration, given the spent share of the budget."""
        from neps.state.optimizer import BudgetInfo

        budget = BudgetInfo(worker_cost_to_spend=self.budget, used_cost_budget=self.spent)
        self.trial = self.study.ask(budget_info=budget)
        return from_indexed(self.space, self.trial.config)

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Report the value and its cost, or the failure."""
        self.spent += evaluation.cost
        result: dict[str, Any] = {"cost": evaluation.cost}
        if evaluation.value is None:
            result["exception"] = RuntimeError("no value")
        else:
            result["objective_to_minimize"] = evaluation.value
        told = indexed(self.space, params)
        if told == dict(self.trial.config):
            self.study.tell(self.trial, result)
        else:
            del self.study.trials[self.trial.id]
            self.study.tell_custom(config_id=self.trial.id, config=told, result=result)


def _parameter(parameter: Any) -> Any:
    import neps

    if isinstance(parameter, Categorical):
        return neps.Categorical(tuple(parameter.options))
    if isinstance(parameter, Ordinal):
        return neps.Integer(0, len(parameter.values) - 1)
    kind = neps.Float if isinstance(parameter, Float) else neps.Integer
    return kind(parameter.low, parameter.high, log=parameter.log)


PEERS = {"neps-cooling": CostCooling}
