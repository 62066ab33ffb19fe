"""scikit-optimize: a Gaussian process of the value and one of log cost, EI per second."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.peers._terms import Params, Penalties, from_indexed, indexed, initial
from benchmarks.problems.problem import Evaluation
from farthing import Categorical, Float, Ordinal, Space

REQUIREMENTS = ("scikit-optimize==0.10.2",)


class EIPerSecond:
    """Optimizer with EIps, set up as `gp_minimize` does: scaled inputs, a kernel with noise.

    Given only "GP" for a name, Optimizer leaves the inputs of EIps unscaled, which is no fair
    setting. Ordinals are integers; the reported time is the cost.
    """

    def __init__(self, space: Space, *, budget: float, seed: int, evaluations: int) -> None:
        from skopt import Optimizer
        from skopt.utils import cook_estimator, normalize_dimensions

        warnings.simplefilter("ignore")
        self.space = space
        dimensions = normalize_dimensions([_dimension(p) for p in space.parameters.values()])
        draw = np.random.RandomState(seed).randint(0, np.iinfo(np.int32).max)
        model = cook_estimator("GP", space=dimensions, random_state=draw, noise="gaussian")
        self.optimizer = Optimizer(
            dimensions,
            base_estimator=model,
            acq_func="EIps",
            n_initial_points=initial(evaluations),
            random_state=seed,
        )
        self.penalties = Penalties()

    def ask(self) -> Params:
        """The next point."""
        found = dict(zip(self.space.names, self.optimizer.ask(), strict=True))
        return from_indexed(self.space, found)

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Report (value, cost). The library fits and searches in this call."""
        for told in self.penalties.tell(params, evaluation):
            x = list(indexed(self.space, told.params).values())
            self.optimizer.tell(x, (told.value, told.cost))


def _dimension(parameter: Any) -> Any:
    from skopt import space

    if isinstance(parameter, Categorical):
        return space.Categorical(list(parameter.options))
    if isinstance(parameter, Ordinal):
        return space.Integer(0, len(parameter.values) - 1)
    kind = space.Real if isinstance(parameter, Float) else space.Integer
    prior = "log-uniform" if parameter.log else "uniform"
    return kind(parameter.low, parameter.high, prior=prior)


PEERS = {"skopt-eips": EIPerSecond}
