"""The space of parameters, and its map to the unit cube.

    name     shape   meaning
    X        (m, d)  points of the unit cube, one coordinate per parameter
    U        (m, d)  uniform numbers in the unit cube
    levels   (k,)    cube coordinates of a discrete parameter's k values, increasing

    Float         (t(v) - t(low)) / (t(high) - t(low)), t being the identity, or ln if log
    Int           (t(v) - t(low - 1/2)) / (t(high + 1/2) - t(low - 1/2)): its bin is v +- 1/2
    Ordinal       (t(v) - t(first)) / (t(last) - t(first)); not numeric: rank / (k - 1)
    Categorical   (i + 1/2) / k for option i of k; compared by mismatch, never by distance
    inactive      1/2: a parameter whose `when` is not true, or that a row does not have

`encode` and `decode` preserve a discrete value exactly. The cube has fewer floats than most Float
ranges. So a Float coordinate is rounded to a tick of about 16 machine epsilons, which is larger
than rounding errors. `decode` returns the shortest decimal number in the cell, so 0.1 stays 0.1,
and `encode(decode(x)) == snap(x)` bit for bit.
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
        options: (d,) the number of options of a categorical coordinate, 0 for the others.
        levels: For each coordinate the sorted cube coordinates of its values; None for a Float,
            and for an Int with more than 1000 values.
        rows: (N, d) the points of the rows of a table, in the given order; None without a table.
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
        """Make the space of a finite table of candidates, without duplicates.

        If a key is missing, None or NaN, the row does not have that parameter. Columns that are not
        in `parameters` are inferred. Numbers become an Ordinal of their distinct values, on a log
        scale if that spaces them more evenly, or a Float if some are within an ulp of each other.
        Anything else becomes a Categorical.
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
                    f"Parameter {name!r}: `when` is not allowed in a table, because each row "
                    "defines which parameters it has. Leave `when` out."
                )
        none_names = with_none(given)
        keys = [key_of(record, names, none_names) for record in records]
        row_of_key: dict[Any, int] = {}
        for i, key in enumerate(keys):
            if all(value is ABSENT for value in key):
                raise InvalidInput(f"Row {i} has no values. Leave it out.")
            if not is_hashable(key):
                raise InvalidInput(
                    f"Row {i} holds a list or a dict. Use a name for it, such as a string."
                )
            if (first := row_of_key.setdefault(key, i)) != i:
                raise InvalidInput(
                    f"Row {i} is the same as row {first}. Leave one of them out. For a data frame "
                    "use drop_duplicates()."
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
                        f"Parameter {name!r} is only active when {condition.when}. Leave it out."
                    )
            elif name not in params:
                raise InvalidInput(f"Parameter {name!r} is missing. Give it a value.")
            else:
                x[j] = encode_value(name, self._axes[j], params[name])
        return np.array(x)

    def completed(self, params: Mapping[str, Any], x: Array) -> Array:
        """The valid point (d,) with these values, and the coordinates of x (d,) for the others."""
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
            raise InvalidInput(f"{x!r} is not a point of the cube. Give {self.d} finite numbers.")
        if self._table is not None:
            return self._table.params(self._table.nearest(_clipped(point[None]))[0], self.names)
        snapped = self.snap(point[None])[0].tolist()
        return {
            name: axis.decode(snapped[j])
            for j, (name, axis) in enumerate(zip(self.names, self._axes, strict=True))
            if j not in self._conditions or self._conditions[j].holds(snapped)
        }

    def snap(self, X: Array) -> Array:
        """Return the nearest valid points (m, d), or the nearest rows of a table."""
        X = _clipped(X)
        if self._table is not None:
            return self._table.points[self._table.nearest(X)]
        self._round(X)
        for j, axis in self._discrete:
            X[:, j] = axis.snap(X[:, j])
        return self._with_inactive(X)

    def spread(self, U: Array) -> Array:
        """Map uniform numbers to valid points (m, d), evenly over the values of each parameter.

        All levels of a parameter are equally likely. Only those of an Int on a log scale are as
        likely as their share of the scale. In a table, return the rows nearest to these points.
        """
        X = _clipped(U)
        self._round(X)
        for j, axis in self._discrete:
            X[:, j] = axis.spread(X[:, j])
        if self._table is not None:
            return self._table.points[self._table.nearest(X)]
        return self._with_inactive(X)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draw points (size, d) uniformly: `spread` of uniform numbers, or rows of the table."""
        if self._table is not None:
            return self._table.points[rng.integers(len(self._table.points), size=size)]
        return self.spread(rng.random((size, self.d)))

    def points(self, at_most: int) -> Array | None:
        """Return all points (N, d); None if there are infinitely many or more than `at_most`.

        The rows of a table are always returned.
        """
        if self.rows is not None:
            return self.rows
        listed = [levels for levels in self.levels if levels is not None]
        if len(listed) < self.d or math.prod(map(len, listed)) > at_most:
            return None
        grid = np.stack(np.meshgrid(*listed, indexing="ij"), axis=-1).reshape(-1, self.d)
        return np.unique(self._with_inactive(grid), axis=0)

    def active(self, X: Array) -> Mask:
        """Return which coordinates (m, d) are active at snapped points."""
        if self._table is not None:
            return self._table.present[self._table.nearest(X)]
        active = np.ones(X.shape, dtype=np.bool_)
        for j, condition in self._conditions.items():
            active[:, j] = condition.holds_at(X)
        return active

    def natural(self, X: Array) -> Array:
        """Return the numbers (m, d) at snapped points; NaN if inactive or not a number."""
        columns = [axis.natural(X[:, j]) for j, axis in enumerate(self._axes)]
        return np.where(self.active(X), np.stack(columns, axis=1), np.nan)

    def between(self, X: Array) -> tuple[Array, Array]:
        """Return a continuous version of `natural` at any points, and its slopes; NaN likewise."""
        numbers, slopes = np.full(X.shape, np.nan), np.full(X.shape, np.nan)
        for j, axis in enumerate(self._axes):
            if axis.scale is not None:
                numbers[:, j] = axis.scale.value(X[:, j])
                slopes[:, j] = axis.scale.width * (numbers[:, j] if axis.scale.log else 1.0)
        active = self.active(self.snap(X) if self._conditions else X)
        return np.where(active, numbers, np.nan), np.where(active, slopes, np.nan)

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

    def _with_inactive(self, X: Array) -> Array:
        if self._conditions:
            X[~self.active(X)] = INACTIVE
        return X

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("A Space is immutable. Make another one.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        own, others = self._table, other._table
        return list(self.parameters.items()) == list(other.parameters.items()) and (
            (own.keys if own else None) == (others.keys if others else None)
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
            raise InvalidInput(f"{name!r} cannot name a parameter. Use a non-empty string.")
        if not isinstance(parameter, Parameter):
            raise InvalidInput(
                f"Parameter {name!r}: {parameter!r} is not a parameter. "
                "Use a Float, Int, Ordinal or Categorical."
            )
    return dict(parameters)


def _clipped(X: ArrayLike) -> Array:
    clipped: Array = np.minimum(np.maximum(X, 0.0), 1.0)
    return clipped
