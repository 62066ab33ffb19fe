"""The log features of a space, in which a low-variance cost model is linear, and their slopes.

    phi_k = ln of a positive number, the coordinate of another number, or [x_j = option]

A feature depends on one coordinate, so its gradient is one number. Features are smooth between the
values of a discrete parameter, so that gradient ascent sees a slope there and not a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.space.parameters import INACTIVE
from farthing.space.space import Categorical, Float, Ordinal, Parameter, Space

__all__ = ["LogFeatures", "around", "is_positive", "log_features"]

Array = NDArray[np.float64]

STEP = 1e-5  # of the unit cube, for finite differences on continuous coordinates
LEAP = 1e-3  # on the coordinate of a number with too many values to list: at least its next value


class LogFeatures(NamedTuple):
    """k features at m points.

    Attributes:
        F: (m, k).
        slopes: (m, k) derivative of each in the coordinate it depends on.
        source: (k,) that coordinate.
    """

    F: Array
    slopes: Array
    source: NDArray[np.int64]


def is_positive(parameter: Parameter) -> bool:
    """Whether every value is a number above 0."""
    if isinstance(parameter, Categorical):
        return False
    if isinstance(parameter, Ordinal):
        return parameter.numeric and min(parameter.values) > 0
    return parameter.low > 0


def log_features(space: Space, X: Array) -> LogFeatures:
    """The features at X (m, d); 0, or the middle of the range, if a parameter is inactive."""
    X = np.asarray(X, dtype=np.float64)
    numbers, slopes = space.between(X)
    columns: list[Array] = []
    gradients: list[Array] = []
    source: list[int] = []
    for j, name in enumerate(space.names):
        count = int(space.options[j])
        if count:
            index = np.minimum((X[:, j] * count).astype(np.int64), count - 1)
            columns.extend((index == option).astype(np.float64) for option in range(1, count))
            gradients.extend(np.zeros(len(X)) for _ in range(1, count))
            source.extend([j] * (count - 1))
            continue
        parameter, number = space.parameters[name], numbers[:, j]
        ranked = isinstance(parameter, Ordinal) and not parameter.numeric
        active = np.ones(len(X), dtype=np.bool_) if ranked else ~np.isnan(number)
        if is_positive(parameter):
            columns.append(np.log(number, where=active, out=np.zeros(len(X))))
            slope = slopes[:, j] / number
        else:
            columns.append(np.where(active, X[:, j], INACTIVE))
            slope = np.ones(len(X))
        gradients.append(np.where(active, slope, 0.0))
        source.append(j)
    none = np.zeros((len(X), 0))  # a space of one option has no features
    return LogFeatures(
        np.column_stack([none, *columns]),
        np.column_stack([none, *gradients]),
        np.array(source, dtype=np.int64),
    )


def around(space: Space, j: int, x: Array) -> tuple[Array, Array]:
    """Coordinate j after and before x (m,): the neighbouring values, or a small step away."""
    levels = space.levels[j]
    if levels is None:
        parameter = space.parameters[space.names[j]]
        step = STEP if isinstance(parameter, Float) and parameter.step is None else LEAP
        return np.minimum(x + step, 1.0), np.maximum(x - step, 0.0)
    here = np.searchsorted(levels, x)
    return levels[np.minimum(here + 1, len(levels) - 1)], levels[np.maximum(here - 1, 0)]
