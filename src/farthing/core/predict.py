"""What the models predict at given points, and the score that the policy maximises there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.acquisition.belief import Belief
from farthing.acquisition.overhead import depth
from farthing.acquisition.scores import surface_of
from farthing.core.outcomes import MAX_COST
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import believed, one_thread
from farthing.errors import InvalidInput

__all__ = ["Prediction", "predict", "predict_at", "scores_at", "settled_belief", "unlimited"]

Array = NDArray[np.float64]
Z_80 = 1.2815515655446004  # 90 % quantile of N(0, 1)
LOG_MOST = math.log(MAX_COST)  # a cost that can be told is at most this


class Prediction(NamedTuple):
    """Predictions at m points, in the user's units and direction.

    Attributes:
        mean, std: posterior mean and standard deviation of the objective, without the noise of an
            observation; None while there is no model.
        cost: 10 %, 50 % and 90 % quantiles of the cost, by resource that has a cost model.
        success: probability that an evaluation returns a value; 1 until a trial has failed.
    """

    mean: Array | None
    std: Array | None
    cost: dict[str, tuple[Array, Array, Array]]
    success: Array

    def rows(self) -> list[dict[str, float]]:
        """One row per point: mean, std, success, cost_<resource>_p10, _p50 and _p90."""
        unknown = np.full(len(self.success), np.nan)
        columns = {
            "mean": unknown if self.mean is None else self.mean,
            "std": unknown if self.std is None else self.std,
            "success": self.success,
        }
        for resource, quantiles in self.cost.items():
            names = (f"cost_{resource}_p{percent}" for percent in (10, 50, 90))
            columns |= dict(zip(names, quantiles, strict=True))
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, each, strict=True)) for each in values]


def predict_at(belief: Belief, X: Array) -> Prediction:
    """The predictions at the points X (m, d) under a belief without running trials."""
    mean = std = None
    if belief.objective is not None:
        means, std = belief.objective.at(X)
        mean = belief.sign * means[:, 0]
    cost = {}
    for resource, model in belief.cost.items():
        ln = model.log_at(X)
        quantiles = (np.minimum(ln.mean + z * ln.std, LOG_MOST) for z in (-Z_80, 0.0, Z_80))
        low, median, high = map(np.exp, quantiles)
        cost[resource] = low, median, high
    return Prediction(mean, std, cost, np.exp(belief.log_success(X)))


def settled_belief(settings: Settings, state: State) -> Belief:
    """The models of all trials that have ended, even if the budget is spent."""
    state = unlimited(state) if state.ledger.used_up else state
    return believed(settings, state, model=True).without_running()


def unlimited(state: State) -> State:
    """The same state without budget limits."""
    accounts = tuple((r, replace(state.ledger[r], limit=math.inf)) for r in state.ledger)
    return replace(state, ledger=replace(state.ledger, _accounts=accounts))


def predict(settings: Settings, state: State, X: Array) -> Prediction:
    """The predictions at the points X (m, d) of models of all trials that have ended."""
    with one_thread():
        return predict_at(settled_belief(settings, state), X)


def scores_at(settings: Settings, state: State, X: Array) -> Array:
    """The scores (m,) that the policy maximises for the next proposal, higher is better.

    Raises:
        InvalidInput: the next proposal maximises no score.
    """
    name = type(settings.policy).__name__
    if state.ledger.used_up:
        raise InvalidInput(
            "The budget is spent, so the policy compares no points. Raise it first, "
            'change(budget="+10m").'
        )
    effort = depth(state.ledger, state.suggest_s, settings.overhead, settings.clock)
    with one_thread():
        belief = believed(settings, state, depth="light" if effort == "none" else effort)
        if belief.objective is None and "model" in settings.policy.needs | settings.policy.reads:
            raise InvalidInput(
                f"{name} has no score yet: there are too few values for a model, and the initial "
                "design suggests the next trial. Evaluate more trials first."
            )
        # The generator of the next suggestion: the surface may depend on a random draw.
        rng = np.random.default_rng([settings.seed, len(state.history)])
        surface = surface_of(settings.policy, belief, rng)
        if surface is None:
            raise InvalidInput(
                f"{name} chooses the next trial without a score of single points. Policies with a "
                "score are EI, EIPerCost, Cooling, ConfidenceBound, Gittins, Thompson, and any "
                "with a method surface(belief, rng)."
            )
        return surface.at(X).score
