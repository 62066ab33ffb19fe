"""What a method is given to solve: a space, and what each configuration is worth and costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from farthing import Space


class Evaluation(NamedTuple):
    """The value to minimise, None if the configuration fails, and what finding out costs."""

    value: float | None
    cost: float


@dataclass(frozen=True)
class Problem:
    """A black box with a price.

    Attributes:
        name: `family/name`, unique.
        space: what may be asked.
        at: the evaluation of one configuration; of a sampled table, of one of its rows.
        typical_cost: the median cost over the space: budgets are multiples of it.
        mean_cost: a uniform configuration's: a budget buys budget / mean_cost of those.
        table: the rows of a table that has not every combination, as a space of rows; everything
            that is asked becomes the nearest of them that is free.
        optimum: the least value there is, where it is known.
        note: what a reader of the result must know, such as a surrogate's error.
        move: what an evaluation costs where that depends on the one before, None at the first.
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
