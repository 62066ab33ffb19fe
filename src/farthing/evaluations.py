"""Evaluations made elsewhere: a CSV file, a data frame, a list of rows.

A row has a column for each parameter, under its own name or as `param_<name>`; the value under
`value`; and costs under `cost` (the primary resource) or `cost_<resource>`, which is how
`dataframe()` writes them. A cell that is empty, None or NaN is not there.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from farthing.errors import InvalidInput
from farthing.space import Categorical, Float, Int, Parameter, Space

__all__ = ["Evaluation", "read_evaluations"]


class Evaluation(NamedTuple):
    """What was evaluated, what came back, and what it cost; either may be unknown."""

    params: dict[str, Any]
    value: float | None
    cost: dict[str, float]


def read_evaluations(source: Any, space: Space, primary: str) -> Iterator[Evaluation]:
    """The evaluations of a source, in the terms of this space.

    Args:
        source: the path of a CSV file, a data frame, or a list of dicts.
        primary: the resource that a plain `cost` is counted in.
    """
    for i, row in enumerate(_rows(source)):
        cells = {str(name): cell for name, cell in row.items() if not _is_empty(cell)}
        try:
            yield _evaluation(cells, space, primary)
        except (InvalidInput, ValueError) as error:
            raise InvalidInput(f"Row {i}: {error}") from None


def _rows(source: Any) -> Iterable[Mapping[Any, Any]]:
    if isinstance(source, str | Path):
        try:
            with open(source, newline="", encoding="utf-8") as file:
                return list(csv.DictReader(file))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InvalidInput(
                f"{str(source)!r} cannot be read: {error}. Give the path of a CSV file."
            ) from None
    if hasattr(source, "to_dict"):
        rows: list[Mapping[Any, Any]] = source.to_dict("records")
        return rows
    if isinstance(source, Iterable) and not isinstance(source, Mapping):
        rows = list(source)
        if all(isinstance(row, Mapping) for row in rows):
            return rows
    raise InvalidInput(
        f"{source!r} holds no evaluations: expected the path of a CSV file, a data frame, a list "
        "of dicts, or a Study."
    )


def _evaluation(cells: Mapping[str, Any], space: Space, primary: str) -> Evaluation:
    params = {}
    for name, parameter in space.parameters.items():
        for column in (f"param_{name}", name):
            if column in cells:
                params[name] = _typed(cells[column], parameter)
                break
    if not params:
        raise InvalidInput(
            f"no parameter is there; the columns are {', '.join(cells)}, the parameters "
            f"{', '.join(space.names)}."
        )
    cost = {
        primary if column == "cost" else column.removeprefix("cost_"): _number(cell, column)
        for column, cell in cells.items()
        if (column == "cost" or column.startswith("cost_")) and column not in space.names
    }
    has_value = "value" in cells and "value" not in space.names
    return Evaluation(params, _number(cells["value"], "value") if has_value else None, cost)


def _typed(cell: Any, parameter: Parameter) -> Any:
    """A text, which is all a CSV file has, as the value it stands for."""
    if not isinstance(cell, str):
        return cell.item() if hasattr(cell, "item") else cell
    if isinstance(parameter, Float):
        return float(cell)
    if isinstance(parameter, Int):
        return int(float(cell))
    options = parameter.options if isinstance(parameter, Categorical) else parameter.values
    return next((option for option in options if str(option) == cell), cell)


def _number(cell: Any, column: str) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise InvalidInput(f"{column} is {cell!r}: expected a number.") from None


def _is_empty(cell: Any) -> bool:
    return (
        cell is None
        or cell == ""
        or (isinstance(cell, float) and math.isnan(cell))
        or type(cell).__name__ in ("NAType", "NaTType")
    )
