"""SMAC3: a random forest and EI. No costs."""

from __future__ import annotations

import logging
import tempfile
from typing import Any

from benchmarks.peers._terms import Params, Penalties, plain
from benchmarks.problems.problem import Evaluation
from farthing import Categorical, Float, Ordinal, Space

REQUIREMENTS = ("smac==2.4.1",)


class SMAC:
    """HyperparameterOptimizationFacade, deterministic: the facade that it documents for tuning.

    BlackBoxFacade (a Gaussian process) is documented for few, numerical parameters and takes ten
    seconds a suggestion. Its initial design has 10 points a parameter, at most a quarter of the
    trials, which are the evaluations here: its documented sizes. A failure is a crash that costs
    the worst value so far, its own crash cost being infinite unless known before. A table's row is
    told as a trial of its own; what was asked stays a trial that runs.
    """

    def __init__(self, space: Space, *, budget: float, seed: int, evaluations: int) -> None:
        from ConfigSpace import ConfigurationSpace
        from smac import HyperparameterOptimizationFacade, Scenario

        self.space = space
        self.box = ConfigurationSpace(seed=seed)
        self.box.add([_hyperparameter(name, p) for name, p in space.parameters.items()])
        self.folder = tempfile.TemporaryDirectory()
        scenario = Scenario(
            self.box,
            deterministic=True,
            n_trials=10_000,  # never reached; the design is sized below
            seed=seed,
            output_directory=self.folder.name,
        )
        design = max(1, min(10 * space.d, evaluations // 4))
        self.facade = HyperparameterOptimizationFacade(
            scenario,
            _never_called,
            initial_design=HyperparameterOptimizationFacade.get_initial_design(
                scenario, n_configs=design
            ),
            overwrite=True,
            logging_level=logging.ERROR,
        )
        self.penalties = Penalties()

    def ask(self) -> Params | None:
        """The next trial."""
        try:
            self.trial = self.facade.ask()
        except StopIteration:
            return None
        return plain(self.space, self.trial.config)

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Report: its "cost" is our value, its "time" our cost."""
        from ConfigSpace import Configuration
        from smac.runhistory.dataclasses import TrialInfo, TrialValue
        from smac.runhistory.enumerations import StatusType

        for told in self.penalties.tell(params, evaluation):
            info = TrialInfo(Configuration(self.box, dict(told.params)), seed=self.trial.seed)
            status = StatusType.CRASHED if told.failed else StatusType.SUCCESS
            value = TrialValue(cost=told.value, time=told.cost, status=status)
            self.facade.tell(info, value, save=False)


def _never_called(config: Any, seed: int = 0) -> float:
    raise NotImplementedError


def _hyperparameter(name: str, parameter: Any) -> Any:
    from ConfigSpace import hyperparameters as kinds

    if isinstance(parameter, Categorical):
        return kinds.CategoricalHyperparameter(name, list(parameter.options))
    if isinstance(parameter, Ordinal):
        return kinds.OrdinalHyperparameter(name, list(parameter.values))
    real = isinstance(parameter, Float)
    kind = kinds.UniformFloatHyperparameter if real else kinds.UniformIntegerHyperparameter
    return kind(name, parameter.low, parameter.high, log=parameter.log)


PEERS = {"smac": SMAC}
