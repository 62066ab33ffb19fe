"""What several peers share: values in the terms a library has, and failures as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.problems.problem import Evaluation
from farthing import Float, Int, Ordinal, Space

Params = Mapping[str, Any]


def indexed(space: Space, params: Params) -> dict[str, Any]:
    """Params for a library without ordered choices: a value of an Ordinal is its place."""
    return {
        name: p.values.index(params[name]) if isinstance(p, Ordinal) else params[name]
        for name, p in space.parameters.items()
    }


def from_indexed(space: Space, found: Params) -> Params:
    """The params of such a library."""
    ordinals = {name: p for name, p in space.parameters.items() if isinstance(p, Ordinal)}
    return plain(space, {**found, **{n: p.values[int(found[n])] for n, p in ordinals.items()}})


def plain(space: Space, found: Params) -> Params:
    """Params as Python values, a Float that was rounded out of its range put back."""
    return {name: _plain(p, found[name]) for name, p in space.parameters.items()}


def _plain(parameter: Any, value: Any) -> Any:
    if isinstance(parameter, Float):
        return min(max(float(value), parameter.low), parameter.high)
    if isinstance(parameter, Int):
        return min(max(round(float(value)), parameter.low), parameter.high)
    return value.item() if isinstance(value, np.generic) else value


def initial(evaluations: int, *, most: int = 10, least: int = 5) -> int:
    """Random points before a model: a fifth of the evaluations, at least 5 and at most `most`.

    The rule Ax documents, with 2 d for `most`. Libraries that only have a default of 10 keep it as
    the most: a budget that buys 15 evaluations would otherwise be two thirds random.
    """
    return max(least, min(most, evaluations // 5))


class Told(NamedTuple):
    """An evaluation with a number, whether it failed or not."""

    params: Params
    value: float
    cost: float
    failed: bool


class Penalties:
    """For a library without failures: the worst value so far. Failures before any value wait."""

    def __init__(self) -> None:
        self.worst = -np.inf
        self.waiting: list[tuple[Params, Evaluation]] = []

    def tell(self, params: Params, evaluation: Evaluation) -> list[Told]:
        """What can be told now."""
        self.waiting.append((params, evaluation))
        if evaluation.value is not None:
            self.worst = max(self.worst, evaluation.value)
        if self.worst == -np.inf:
            return []
        ready, self.waiting = self.waiting, []
        return [
            Told(params, self.worst if value is None else value, cost, value is None)
            for params, (value, cost) in ready
        ]
