"""A problem: a space, and the value and cost of each configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from farthing import Space


class Evaluation(NamedTuple):
    """The value to minimise (None if the configuration fails) and the cost."""

    value: float | None
    cost: float


@dataclass(frozen=True)
class Problem:
    """A black box with a cost.

    Attributes:
        name: `family/name`, unique.
        space: the search space.
        at: the evaluation of one configuration; for a sampled table, of one of its rows.
        typical_cost: the median cost over the space; budgets are multiples of it.
        mean_cost: the mean cost of a uniform configuration; a budget buys budget / mean_cost.
        table: the rows of a table without every combination, as a space of rows; a suggested
            point becomes the nearest free row.
        optimum: the minimum, if it is known.
        note: what a reader of the result must know, such as the error of a surrogate.
        move: the cost of an evaluation after the previous one (None at the first), if it depends
            on it.
    """

    name: str
    space: Space
    at: Callable[[Mapping[str, Any]], Evaluation]
    typical_cost: float
    mean_cost: float
    table: Space | None = None
    optimum: float | None = None
    note: str = ""
    move: Callable[[Mapping[str, Any], Mapping[str, Any] | None], float] | None = None

    @property
    def family(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]
