"""The space of parameters, and its map to the unit cube.

    name     shape   meaning
    X        (m, d)  points of the unit cube, one coordinate per parameter
    U        (m, d)  uniform numbers in the unit cube
    levels   (k,)    cube coordinates of a discrete parameter's k values, increasing

    Float         (t(v) - t(low)) / (t(high) - t(low)), t being the identity, or ln if log
    Int           (t(v) - t(low - 1/2)) / (t(high + 1/2) - t(low - 1/2)): its bin is v +- 1/2
    Ordinal       (t(v) - t(first)) / (t(last) - t(first)); not numeric: rank / (k - 1)
    Categorical   (i + 1/2) / k for option i of k; compared by mismatch, never by distance
    inactive      1/2: a parameter whose `when` does not hold, or that a row does not have

A discrete value survives the way to the cube and back exactly. The cube has fewer floats than most
Float ranges, so a Float coordinate is rounded to a tick of about 16 machine epsilons, coarse enough
to survive arithmetic, and `decode` returns the shortest decimal number of its cell: 0.1 comes back
as 0.1, and `encode(decode(x)) == snap(x)` bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farthing.errors import InvalidInput
from farthing.space.coordinates import (
    Axis,
    Condition,
    Integers,
    Levels,
    Line,
    axis_of,
    condition_of,
    encode_value,
    nearby,
)
from farthing.space.parameters import (
    INACTIVE,
    Categorical,
    Float,
    Int,
    Kind,
    Ordinal,
    Parameter,
    is_hashable,
)
from farthing.space.table import ABSENT, Table, infer, key_of, records_of, with_none

__all__ = ["Categorical", "Float", "Int", "Ordinal", "Parameter", "Params", "Space"]

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Params: TypeAlias = dict[str, Any]


class Space:
    """Named parameters, and the map between their values and the unit cube.

    Attributes:
        parameters: The parameters by name, in the order of the coordinates.
        names: Their names.
        d: Their number.
        categorical: (d,) which coordinates are compared by mismatch.
        options: (d,) how many options a categorical coordinate has, 0 for the others.
        levels: For each coordinate the sorted cube coordinates of its values; None for a Float,
            and for an Int with more than 1000 values, which `snap` rounds by arithmetic.
        rows: (N, d) points of a table space's rows, in the order given; None otherwise.
    """

    parameters: Mapping[str, Parameter]
    names: tuple[str, ...]
    d: int
    categorical: Mask
    options: NDArray[np.int64]
    levels: tuple[Array | None, ...]
    rows: Array | None
    _axes: tuple[Axis, ...]
    _discrete: list[tuple[int, Levels | Integers]]
    _ticked: slice | NDArray[np.intp]  # the Float coordinates that are rounded,
    _ticks: Array  # and the number of their cells
    _conditions: dict[int, Condition]
    _parents_first: list[int]
    _table: Table | None

    def __init__(self, parameters: Mapping[str, Kind]) -> None:
        checked = _checked(parameters)
        axes = [axis_of(parameter) for parameter in checked.values()]
        ticks = np.array([a.ticks if isinstance(a, Line) else math.inf for a in axes])
        ticked = np.isfinite(ticks)
        categorical = np.array([isinstance(p, Categorical) for p in checked.values()])
        categorical.setflags(write=False)
        conditions = [condition_of(name, checked, axes) for name in checked]
        vars(self).update(
            parameters=MappingProxyType(checked),
            names=tuple(checked),
            d=len(checked),
            categorical=categorical,
            options=np.array([len(getattr(p, "options", ())) for p in checked.values()]),
            levels=tuple(axis.levels for axis in axes),
            rows=None,
            _axes=tuple(axes),
            _discrete=[(j, a) for j, a in enumerate(axes) if not isinstance(a, Line)],
            _ticked=slice(None) if ticked.all() else np.flatnonzero(ticked),
            _ticks=ticks[ticked],
            _conditions={j: c for j, c in enumerate(conditions) if c is not None},
            _parents_first=sorted(range(len(axes)), key=lambda j: conditions[j] is not None),
            _table=None,
        )

    @classmethod
    def from_rows(
        cls,
        rows: Any,  # a list of dicts, or a data frame
        parameters: Mapping[str, Kind] | None = None,
    ) -> Space:
        """Make the space of a finite table of candidates.

        Each row is there once. A key that is missing, None or NaN in a row is a parameter that row
        does not have. Columns
        not in `parameters` are inferred: numbers are an Ordinal of their distinct values, on a log
        scale if that spaces them more evenly (a Float if some are within an ulp of each other);
        anything else is a Categorical.
        """
        given = _checked(parameters) if parameters else {}
        records = records_of(rows)
        names = list(dict.fromkeys(name for record in records for name in record))
        if not names:
            raise InvalidInput("The rows have no columns. Give each row its parameters.")
        if unknown := [name for name in given if name not in names]:
            raise InvalidInput(f"The rows have no column {unknown[0]!r}; they have {names}.")
        for name in given:
            if getattr(given[name], "when", None) is not None:
                raise InvalidInput(
                    f"Parameter {name!r}: a table's rows say themselves what they have. "
                    "Leave `when` out."
                )
        none_names = with_none(given)
        keys = [key_of(record, names, none_names) for record in records]
        places: dict[Any, int] = {}
        for i, key in enumerate(keys):
            if all(value is ABSENT for value in key):
                raise InvalidInput(f"Row {i} has no values. Leave it out.")
            if not is_hashable(key):
                raise InvalidInput(f"Row {i} holds a list or a dict. Use a name for it.")
            if (first := places.setdefault(key, i)) != i:
                raise InvalidInput(
                    f"Row {i} is the same as row {first}. Leave one of them out; of a data frame, "
                    "with drop_duplicates()."
                )
        found = dict(given)
        for j, name in enumerate(names):
            column = [key[j] for key in keys if key[j] is not ABSENT]
            if not column:
                raise InvalidInput(f"Column {name!r} has no values. Leave it out.")
            if name not in given:
                found[name] = infer(name, column)
        space = cls({name: found[name] for name in names})
        table = Table(keys, space.parameters, space._axes)
        vars(space).update(_table=table, rows=table.points)
        return space

    def encode(self, params: Mapping[str, Any]) -> Array:
        """Return the point (d,) of these params.

        Raises:
            InvalidInput: A parameter is unknown, missing, given although inactive, or has a value
                it cannot take; or the params are not a row of the table.
        """
        if not isinstance(params, Mapping):
            raise InvalidInput(f"{params!r} is not a dict of the parameters {list(self.names)}.")
        for name in params:
            if name not in self.parameters:
                raise InvalidInput(
                    f"Unknown parameter {name!r}; the parameters are {list(self.names)}."
                )
        if self._table is not None:
            return np.array(self._table.points[self._row(params, self._table)])
        x = [INACTIVE] * self.d
        for j in self._parents_first:
            name, condition = self.names[j], self._conditions.get(j)
            if condition is not None and not condition.holds(x):
                if name in params:
                    raise InvalidInput(
                        f"Parameter {name!r} is only there when {condition.when}. Leave it out."
                    )
            elif name not in params:
                raise InvalidInput(f"Parameter {name!r} is missing. Give it a value.")
            else:
                x[j] = encode_value(name, self._axes[j], params[name])
        return np.array(x)

    def completed(self, params: Mapping[str, Any], x: Array) -> Array:
        """The valid point (d,) with these values, and what is not among them as at x (d,)."""
        point = np.array(x, dtype=np.float64)
        for name, value in params.items():
            if name not in self.parameters:
                raise InvalidInput(
                    f"Unknown parameter {name!r}; the parameters are {list(self.names)}."
                )
            j = self.names.index(name)
            point[j] = encode_value(name, self._axes[j], value)
        return np.asarray(self.snap(point[None])[0])

    def decode(self, x: ArrayLike) -> Params:
        """Return the params at the valid point nearest to x (d,); inactive ones are absent."""
        point = np.asarray(x, dtype=np.float64)
        if point.shape != (self.d,) or not np.isfinite(point).all():
            raise InvalidInput(f"{x!r} is not a point of the cube: give {self.d} finite numbers.")
        if self._table is not None:
            return self._table.params(self._table.nearest(_clipped(point[None]))[0], self.names)
        snapped = self.snap(point[None])[0].tolist()
        return {
            name: axis.decode(snapped[j])
            for j, (name, axis) in enumerate(zip(self.names, self._axes, strict=True))
            if j not in self._conditions or self._conditions[j].holds(snapped)
        }

    def snap(self, X: Array) -> Array:
        """Return the nearest valid points (m, d): on levels, inactive at 1/2, or rows."""
        X = _clipped(X)
        if self._table is not None:
            return self._table.points[self._table.nearest(X)]
        self._round(X)
        for j, axis in self._discrete:
            X[:, j] = axis.snap(X[:, j])
        return self._rest(X)

    def spread(self, U: Array) -> Array:
        """Map uniform numbers to valid points (m, d), evenly over the values of each parameter.

        Level floor(u k) of k: each is equally likely, except that those of an Int on a log scale
        are as likely as their share of it. In a table: the row nearest to that point.
        """
        X = _clipped(U)
        self._round(X)
        for j, axis in self._discrete:
            X[:, j] = axis.spread(X[:, j])
        if self._table is not None:
            return self._table.points[self._table.nearest(X)]
        return self._rest(X)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draw points (size, d) uniformly: `spread` of uniform numbers, or rows of the table."""
        if self._table is not None:
            return self._table.points[rng.integers(len(self._table.points), size=size)]
        return self.spread(rng.random((size, self.d)))

    def points(self, at_most: int) -> Array | None:
        """Return all points (N, d); None where they cannot be listed, or are more than `at_most`
        and not the rows of a table.
        """
        if self.rows is not None:
            return self.rows
        listed = [levels for levels in self.levels if levels is not None]
        if len(listed) < self.d or math.prod(map(len, listed)) > at_most:
            return None
        grid = np.stack(np.meshgrid(*listed, indexing="ij"), axis=-1).reshape(-1, self.d)
        return np.unique(self._rest(grid), axis=0)

    def active(self, X: Array) -> Mask:
        """Say which coordinates (m, d) are active at snapped points."""
        if self._table is not None:
            return self._table.present[self._table.nearest(X)]
        there = np.ones(X.shape, dtype=np.bool_)
        for j, condition in self._conditions.items():
            there[:, j] = condition.holds_at(X)
        return there

    def natural(self, X: Array) -> Array:
        """Return the numbers (m, d) at snapped points; NaN where inactive or not a number."""
        columns = [axis.natural(X[:, j]) for j, axis in enumerate(self._axes)]
        return np.where(self.active(X), np.stack(columns, axis=1), np.nan)

    def between(self, X: Array) -> tuple[Array, Array]:
        """Return `natural` without its steps at any points, and its slopes; NaN where it is."""
        numbers, slopes = np.full(X.shape, np.nan), np.full(X.shape, np.nan)
        for j, axis in enumerate(self._axes):
            if axis.scale is not None:
                numbers[:, j] = axis.scale.value(X[:, j])
                slopes[:, j] = axis.scale.width * (numbers[:, j] if axis.scale.log else 1.0)
        there = self.active(self.snap(X) if self._conditions else X)
        return np.where(there, numbers, np.nan), np.where(there, slopes, np.nan)

    def _row(self, params: Mapping[str, Any], table: Table) -> int:
        key = key_of(params, self.names, with_none(self.parameters))
        try:
            return table.row_of_key[key]
        except (KeyError, TypeError):
            x = np.array(
                [
                    INACTIVE if value is ABSENT else nearby(axis, value)
                    for value, axis in zip(key, self._axes, strict=True)
                ]
            )
        i = int(table.nearest(x[None])[0])
        raise InvalidInput(
            f"{dict(params)} is not in the table; the nearest is row {i}, "
            f"{table.params(i, self.names)}."
        )

    def _round(self, X: Array) -> None:
        if self._ticks.size:
            X[:, self._ticked] = np.rint(X[:, self._ticked] * self._ticks) / self._ticks

    def _rest(self, X: Array) -> Array:
        if self._conditions:
            X[~self.active(X)] = INACTIVE
        return X

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("A Space does not change. Make another one.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        mine, yours = self._table, other._table
        return list(self.parameters.items()) == list(other.parameters.items()) and (
            (mine.keys if mine else None) == (yours.keys if yours else None)
        )

    def __hash__(self) -> int:
        return hash(tuple(self.parameters.items()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name!r}: {p}" for name, p in self.parameters.items())
        if self._table is None:
            return f"Space({{{inside}}})"
        return f"Space.from_rows(<{len(self._table.keys)} rows>, {{{inside}}})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._table is None:
            return Space, (dict(self.parameters),)
        rows = [self._table.params(i, self.names) for i in range(len(self._table.keys))]
        return Space.from_rows, (rows, dict(self.parameters))


def _checked(parameters: Any) -> dict[str, Parameter]:
    if not isinstance(parameters, Mapping) or not parameters:
        raise InvalidInput('A space needs at least one parameter, such as {"lr": Float(0, 1)}.')
    for name, parameter in parameters.items():
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"{name!r} cannot name a parameter. Use a string that is not empty.")
        if not isinstance(parameter, Parameter):
            raise InvalidInput(
                f"Parameter {name!r}: {parameter!r} is not a parameter. "
                "Use a Float, Int, Ordinal or Categorical."
            )
    return dict(parameters)


def _clipped(X: ArrayLike) -> Array:
    clipped: Array = np.minimum(np.maximum(X, 0.0), 1.0)
    return clipped
