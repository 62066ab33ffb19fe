"""Ax: its own choice of Gaussian process and log EI. No costs."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from benchmarks.peers._terms import Params, initial, plain
from benchmarks.problems.problem import Evaluation
from farthing import Categorical, Float, Ordinal, Space

REQUIREMENTS = ("torch==2.13.0", "ax-platform==1.3.1")


class Ax:
    """Client with the generation strategy that it chooses, as documented.

    Its initial design has 2 d points, at most a fifth of the evaluations and at least 5, the rule
    of its `calculate_num_initialization_trials`.

    An Ordinal is an ordered choice. The row of a table in place of what was asked is attached; the
    trial that was asked becomes a failed one, which it may ask again. A configuration that fails is
    abandoned: not asked again.
    """

    def __init__(self, space: Space, *, budget: float, seed: int, evaluations: int) -> None:
        from ax.api.client import Client

        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        self.space = space
        self.client = Client(random_seed=seed)
        self.client.configure_experiment(
            [_parameter(name, p) for name, p in space.parameters.items()]
        )
        self.client.configure_optimization(objective="-value")  # minus: minimise
        design = initial(evaluations, most=2 * space.d)
        self.client.configure_generation_strategy(initialization_budget=design)

    def ask(self) -> Params | None:
        """The next trial; None if it finds no other point in a small space."""
        trials = self.client.get_next_trials(1)
        if not trials:
            return None
        ((self.index, self.asked),) = trials.items()
        return plain(self.space, self.asked)

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Report the value, of another trial if the point was changed."""
        index = self.index
        if params != plain(self.space, self.asked):
            self.client.mark_trial_failed(index)
            index = self.client.attach_trial(dict(params))
        if evaluation.value is None:
            self.client.mark_trial_abandoned(index)
        else:
            self.client.complete_trial(index, {"value": evaluation.value})


def _parameter(name: str, parameter: Any) -> Any:
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    if isinstance(parameter, Categorical | Ordinal):
        ordered = isinstance(parameter, Ordinal)
        values = list(parameter.values if ordered else parameter.options)
        return ChoiceParameterConfig(name, values, _type(values), is_ordered=ordered)
    return RangeParameterConfig(
        name,
        (parameter.low, parameter.high),
        "float" if isinstance(parameter, Float) else "int",
        scaling="log" if parameter.log else "linear",
    )


def _type(values: list[Any]) -> Any:
    kinds = {type(value).__name__ for value in values}
    return "float" if kinds == {"int", "float"} else kinds.pop()


PEERS = {"ax": Ax}
