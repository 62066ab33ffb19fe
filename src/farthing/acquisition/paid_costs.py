"""The costs that were paid, as evidence for a cost learner, and the models fitted to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from farthing.acquisition.trainings import is_staged
from farthing.cost import CostLearner, CostModel, Evidence, KnownBeforehand
from farthing.cost.part import PartCost, rate_of, startup_of
from farthing.history import History, Trial
from farthing.models.gp import FitMemory
from farthing.space.space import Space
from farthing.steps import Steps

__all__ = ["evidence_for", "evidence_of", "evidence_of_steps", "fit_costs", "paid"]


def paid(history: History, resource: str) -> Iterator[Trial]:
    """The trials from which to learn the cost of a resource, including failed and killed ones.

    A trial that cost nothing was answered from a cache. It does not show what the next one costs.
    """
    finished = history.having("done", "failed", "killed")
    return (trial for trial in finished if trial.cost.get(resource, 0.0) > 0)


def evidence_of(space: Space, trials: Sequence[Trial], resource: str) -> Evidence:
    """The costs of these trials, as data for a cost learner."""
    return Evidence(
        space,
        np.array([t.x for t in trials]).reshape(-1, space.d),
        np.array([t.cost[resource] for t in trials], dtype=np.float64),
        np.array([t.state == "killed" for t in trials], dtype=np.bool_),
    )


def evidence_of_steps(
    space: Space, history: History, resource: str, steps: Steps, startup: float
) -> tuple[list[Trial], Evidence]:
    """The cost of all steps of each training, without its start-up: the cost per step times T.

    A killed training without a report says that the part it ran would have cost more.
    """
    trials, costs, at_least = [], [], []
    for trial in history.having("running", "paused", "done", "failed", "killed"):
        reached, cost = trial.step, trial.cost
        if trial.curve:
            cost = trial.curve[-1].cost
        elif trial.state == "done":
            reached = steps.last
        elif trial.state == "killed":
            reached = trial.until or steps.last
        if reached and cost.get(resource, 0.0) > 0:
            trials.append(trial)
            costs.append(rate_of(reached, cost, resource, startup) * steps.last)
            at_least.append(trial.state == "killed" and not trial.curve)
    X = np.array([t.x for t in trials]).reshape(-1, space.d)
    return trials, Evidence(space, X, np.array(costs), np.array(at_least, dtype=np.bool_))


def evidence_for(
    learner: CostLearner, space: Space, history: History, resource: str, steps: Steps | None
) -> tuple[list[Trial], Evidence, float]:
    """The trials that a learner learns from, their costs, and the start-up that is not in them."""
    if steps is None or len(steps.decision_steps) == 1:
        trials = list(paid(history, resource))
        return trials, evidence_of(space, trials, resource), 0.0
    startup = 0.0
    if not isinstance(learner, KnownBeforehand):
        startup = startup_of([trial.curve for trial in history if trial.curve], resource)
    return *evidence_of_steps(space, history, resource, steps, startup), startup


def fit_costs(
    learners: Mapping[str, CostLearner],
    space: Space,
    history: History,
    steps: Steps | None,
    memories: Mapping[str, FitMemory],
    *,
    seldom: bool,
) -> tuple[dict[str, CostModel], dict[str, FitMemory]]:
    """The cost models by resource, of those that can be fitted, and their memories."""
    cost: dict[str, CostModel] = {}
    learnt: dict[str, FitMemory] = {}
    for resource, learner in learners.items():
        trials, evidence, startup = evidence_for(learner, space, history, resource, steps)
        evidence = evidence._replace(
            memory=memories.get(f"cost:{resource}"),
            previous=history.previous[[t.number for t in trials]] if trials else None,
            last=history.previous[-1] if len(history) else None,
            seldom=seldom,
        )
        fitted = learner.fit(evidence)
        if fitted is not None:
            cost[resource] = PartCost(fitted, startup) if is_staged(steps) else fitted
            if fitted.memory is not None:
                learnt[f"cost:{resource}"] = fitted.memory
    return cost, learnt
