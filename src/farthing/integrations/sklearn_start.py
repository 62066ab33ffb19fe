"""The start of a search, in which costs are unknown and most fits cannot be killed.

Integers count something: trees, iterations, neurons. So the first candidates are on their low side,
unless the user declares otherwise.

If all folds of the cheapest candidate so far cost more than CAP of the budget, the next ones are at
the ends of the space: all numbers at their low end, then, if that is not cheaper, at their high
end. A parameter whose effect on the cost is declared stays at its cheap end. The cost of one or two
candidates says nothing about a side of the space on which none of them was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from farthing.integrations.sklearn_cost import FitCost
from farthing.models.features import is_positive, log_features
from farthing.space.parameters import Int, Ordinal, Parameter
from farthing.space.space import Space

__all__ = ["CAP", "cost_of_fits", "ends", "expected_ratio", "with_cheap_integers"]

Array = NDArray[np.float64]

CAP = 1 / 10  # of the budget: as the tuner's own cap on the cost of a trial (`initial_design`)


def with_cheap_integers(space: Space) -> Space:
    """The space with integers that raise the cost, unless they are declared to lower it."""
    if space.rows is not None:
        return space
    parameters = dict(space.parameters)
    for name, parameter in parameters.items():
        if _is_count(parameter):
            parameters[name] = replace(parameter, cost="increases")
    return Space(parameters, allowed=space.allowed)


def cost_of_fits(space: Space) -> FitCost | None:
    """How the cost of a fit is learnt, if the user does not choose; None: the default."""
    integers = _positive_counts(space)
    return FitCost(integers) if integers else None


def _positive_counts(space: Space) -> tuple[str, ...]:
    return tuple(n for n, each in space.parameters.items() if _is_count(each) and is_positive(each))


def _is_count(parameter: Parameter) -> TypeGuard[Int | Ordinal]:
    """Whether a parameter is an integer that is not declared to lower the cost."""
    if isinstance(parameter, Ordinal):
        return all(type(v) is int for v in parameter.values) and parameter.cost != "decreases"
    return isinstance(parameter, Int) and parameter.cost != "decreases"


def ends(space: Space, x: Array) -> Array:
    """(2, d) the low and the high end of all numbers; the options are those of x."""
    declared = [getattr(parameter, "cost", None) for parameter in space.parameters.values()]
    low = np.array([1.0 if slope == "decreases" else 0.0 for slope in declared])
    high = np.array([0.0 if slope == "increases" else 1.0 for slope in declared])
    return space.snap(np.where(space.categorical, x, np.array([low, high])))


def expected_ratio(space: Space, x: Array, end: Array) -> float:
    """The cost at an end of the space over that at x, if it is proportional to the integers."""
    F, _, source = log_features(space, np.array([x, end]))
    counts = [k for k, j in enumerate(source) if space.names[j] in _positive_counts(space)]
    return float(np.exp(np.sum(F[1, counts] - F[0, counts])))
