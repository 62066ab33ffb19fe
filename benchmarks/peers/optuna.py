"""Optuna: a tree-structured Parzen estimator, and a Gaussian process with log EI. No costs."""

from __future__ import annotations

import warnings
from typing import Any

from benchmarks.peers._terms import Params, from_indexed, indexed, initial
from benchmarks.problems.problem import Evaluation
from farthing import Categorical, Float, Ordinal, Space

REQUIREMENTS = ("torch==2.13.0", "optuna==5.0.0")


class Optuna:
    """A study with a sampler. An Ordinal is an integer, because Optuna's choices have no order.

    The row of a table in place of what was asked is added as a trial of its own; the trial that was
    asked becomes a failed one, as every evaluation that fails: samplers do not look at those.
    """

    def __init__(self, space: Space, sampler: Any) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space = space
        self.distributions = {name: _distribution(p) for name, p in space.parameters.items()}
        self.study = optuna.create_study(sampler=sampler)

    def ask(self) -> Params:
        """A trial with a value for every parameter."""
        self.trial = self.study.ask(self.distributions)
        return from_indexed(self.space, self.trial.params)

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Report the value, of another trial if the point was changed."""
        from optuna.trial import TrialState, create_trial

        told = indexed(self.space, params)
        if evaluation.value is not None and told == self.trial.params:
            self.study.tell(self.trial, evaluation.value)
            return
        self.study.tell(self.trial, state=TrialState.FAIL)
        if evaluation.value is not None:
            trial = create_trial(
                params=told, distributions=self.distributions, value=evaluation.value
            )
            self.study.add_trial(trial)


def _distribution(parameter: Any) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(parameter, Categorical):
        return CategoricalDistribution(parameter.options)
    if isinstance(parameter, Ordinal):
        return IntDistribution(0, len(parameter.values) - 1)
    kind = FloatDistribution if isinstance(parameter, Float) else IntDistribution
    return kind(parameter.low, parameter.high, log=parameter.log)


def tpe(space: Space, *, budget: float, seed: int, evaluations: int) -> Optuna:
    """TPESampler, multivariate: "reported to outperform the independent TPE" (its reference)."""
    from optuna.samplers import TPESampler

    design = initial(evaluations)
    return Optuna(space, TPESampler(multivariate=True, n_startup_trials=design, seed=seed))


def gp(space: Space, *, budget: float, seed: int, evaluations: int) -> Optuna:
    """GPSampler for a deterministic objective: repeated evaluations are equal here."""
    from optuna.samplers import GPSampler

    warnings.simplefilter("ignore")  # deterministic_objective is marked experimental
    design = initial(evaluations)
    sampler = GPSampler(deterministic_objective=True, n_startup_trials=design, seed=seed)
    return Optuna(space, sampler)


PEERS = {"optuna-tpe": tpe, "optuna-gp": gp}
