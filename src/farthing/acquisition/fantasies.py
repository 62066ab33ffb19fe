"""Values of trials that have none: draws for the running ones, penalties for the failed ones.

running   y^(i) ~ N(mean(X), C(X, X)),   best^(i) = min(best, y^(i)),   i = 1 .. FANTASIES
failed    y = max(mean(x), median of y)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from farthing.history import History, Trial
from farthing.models.feasibility import Feasibility
from farthing.models.gp import GP

__all__ = [
    "FANTASIES",
    "fantasise",
    "fantasise_constraints",
    "penalise_failures",
    "penalised",
    "valueless",
]

Array = NDArray[np.float64]

FANTASIES = 10  # Lee et al. 2020, appendix A


def fantasise(
    objective: GP, best: Array, X: Array, rng: np.random.Generator, met: NDArray[np.bool_]
) -> tuple[GP, Array]:
    """Joint posterior draws at the running points X, each with its own incumbent.

    Snoek et al. 2012, section 3.3; Lee et al. 2020, algorithm 3.

    Args:
        met: (k,) whether each running point meets the constraints; if not, it is no incumbent.
    """
    draws = objective.sample(X, FANTASIES, rng)  # (f, k)
    lowest = np.where(met, draws, np.inf).min(axis=1)
    return objective.condition_all(X, draws.T), np.minimum(best, lowest)


def fantasise_constraints(
    models: Sequence[Feasibility], X: Array, rng: np.random.Generator
) -> tuple[tuple[Feasibility, ...], NDArray[np.bool_]]:
    """The models after one joint draw at the running points X, and which points meet all of them.

    All fantasies of the objective share this draw, so that P(feasible) stays one number per point.
    """
    drawn = [model.drawn(X, rng) for model in models]
    met = np.all([each for _, each in drawn], axis=0) if drawn else np.ones(len(X), dtype=np.bool_)
    return tuple(model for model, _ in drawn), met


def valueless(history: History) -> list[Trial]:
    """The trials that failed, or that were killed at a limit which the user chose."""
    ended = history.having("failed", "killed")
    return [trial for trial in ended if trial.state == "failed" or trial.is_valueless]


def penalised(history: History) -> list[Trial]:
    """The trials that count as if their value were no better than the median."""
    ended = history.having("failed", "killed")
    return [t for t in ended if t.state == "failed" or t.is_valueless or t.is_pruned]


def penalise_failures(objective: GP, history: History, y: Array) -> GP:
    """The objective as if every trial without a value had returned max(mean, median of y).

    A failed trial returns no value, so EI at its point would stay large for ever and P(success)
    alone would have to outweigh it. A pruned trial would have returned one, which is probably no
    better than the median. The hyperparameters do not depend on these values.
    """
    X = np.array([trial.x for trial in penalised(history)])
    if len(X):
        # The posterior before all of them: one solve for all failures.
        expected = objective.at(X).mean[:, 0]
        objective = objective.condition_all(X, np.maximum(expected, np.median(y))[:, None])
    return objective
