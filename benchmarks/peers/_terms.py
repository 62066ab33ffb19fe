"""Shared by several peers: conversion of parameters, and failures as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.problems.problem import Evaluation
from farthing import Float, Int, Ordinal, Space

Params = Mapping[str, Any]


def indexed(space: Space, params: Params) -> dict[str, Any]:
    """Params for a library without ordered choices: a value of an Ordinal is its index."""
    return {
        name: p.values.index(params[name]) if isinstance(p, Ordinal) else params[name]
        for name, p in space.parameters.items()
    }


def from_indexed(space: Space, found: Params) -> Params:
    """The inverse of `indexed`."""
    ordinals = {name: p for name, p in space.parameters.items() if isinstance(p, Ordinal)}
    return plain(space, {**found, **{n: p.values[int(found[n])] for n, p in ordinals.items()}})


def plain(space: Space, found: Params) -> Params:
    """Params as Python values; a number that rounding moved out of its range is clipped."""
    return {name: _plain(p, found[name]) for name, p in space.parameters.items()}


def _plain(parameter: Any, value: Any) -> Any:
    if isinstance(parameter, Float):
        return min(max(float(value), parameter.low), parameter.high)
    if isinstance(parameter, Int):
        return min(max(round(float(value)), parameter.low), parameter.high)
    return value.item() if isinstance(value, np.generic) else value


def initial(evaluations: int, *, most: int = 10, least: int = 5) -> int:
    """Random points before a model: a fifth of the evaluations, at least 5 and at most `most`.

    This is the rule that Ax documents, with `most` = 2 d. For libraries with a default of 10, that
    is `most`: a fixed 10 would make two thirds of a budget of 15 evaluations random.
    """
    return max(least, min(most, evaluations // 5))


class Report(NamedTuple):
    """An evaluation with a number, even if it failed."""

    params: Params
    value: float
    cost: float
    failed: bool


class Penalties:
    """Gives a failure the worst value so far, for libraries without failures.

    Failures before the first value wait for it.
    """

    def __init__(self) -> None:
        self.worst = -np.inf
        self.waiting: list[tuple[Params, Evaluation]] = []

    def tell(self, params: Params, evaluation: Evaluation) -> list[Report]:
        """The evaluations that can be reported now."""
        self.waiting.append((params, evaluation))
        if evaluation.value is not None:
            self.worst = max(self.worst, evaluation.value)
        if self.worst == -np.inf:
            return []
        ready, self.waiting = self.waiting, []
        return [
            Report(params, self.worst if value is None else value, cost, value is None)
            for params, (value, cost) in ready
        ]
