"""The space of parameters, and its map to the unit cube.

    name     shape   meaning
    X        (m, d)  points of the unit cube, one coordinate per parameter
    U        (m, d)  uniform numbers in the unit cube
    levels   (k,)    cube coordinates of a discrete parameter's k values, increasing

    Float         (t(v) - t(low)) / (t(high) - t(low)), t being the identity, or ln if log
    Int           (t(v) - t(low - 1/2)) / (t(high + 1/2) - t(low - 1/2)): its bin is v +- 1/2
    Ordinal       (t(v) - t(first)) / (t(last) - t(first)); not numeric: rank / (k - 1)
    with a step   (v - low) / (high - low), for a Float and for an Int
    Categorical   (i + 1/2) / k for option i of k; compared by mismatch, never by distance
    inactive      1/2: a parameter whose `when` is not true, or that a row does not have

`encode` and `decode` preserve a discrete value exactly. The cube has fewer floats than most Float
ranges. So a Float coordinate is rounded to a tick of about 16 machine epsilons, which is larger
than rounding errors. `decode` returns the shortest decimal number in the cell, so 0.1 stays 0.1,
and `encode(decode(x)) == snap(x)` bit for bit.

A table lists the allowed combinations of some parameters, or of all of them. If it lists all, it is
a finite set of candidates, and `rows` are its points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farthing.errors import InvalidInput
from farthing.notebook import html_table
from farthing.space.conditions import Condition, ancestors, conditions_of
from farthing.space.coordinates import (
    Axis,
    Integers,
    Levels,
    Line,
    Steps,
    axis_of,
    encode_value,
    nearby,
    typed_value,
)
from farthing.space.parameters import (
    INACTIVE,
    Bool,
    Categorical,
    Float,
    Int,
    Kind,
    Ordinal,
    Parameter,
    checked_parameters,
)
from farthing.space.table import ABSENT, Table, infer, key_of, keys_of, records_of, with_none

__all__ = ["Bool", "Categorical", "Float", "Int", "Ordinal", "Parameter", "Params", "Space"]

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Params: TypeAlias = dict[str, Any]
Indices: TypeAlias = NDArray[np.intp]
SHOWN = 20  # combinations in the text of a space


class Space:
    """Named parameters, and the map between their values and the unit cube.

    Args:
        parameters: the parameters by name.
        allowed: the allowed combinations of some of the parameters, as a list of dicts. A parameter
            that some of them name, but not this one, is absent. Parameters that none of them names
            are free.

    Attributes:
        parameters: The parameters by name, in the order of the coordinates.
        names: Their names.
        d: Their number.
        categorical: (d,) which coordinates are compared by mismatch.
        options: (d,) the number of options of a categorical coordinate, 0 for the others.
        levels: For each coordinate the sorted cube coordinates of its values; None for a Float
            without a step, and for a number with more than 1000 values.
        combined: (d,) which coordinates the allowed combinations determine.
        rows: (N, d) the points of the rows of a table of all parameters, in the given order; None
            without such a table.
    """

    parameters: Mapping[str, Parameter]
    names: tuple[str, ...]
    d: int
    categorical: Mask
    options: NDArray[np.int64]
    levels: tuple[Array | None, ...]
    combined: Mask
    rows: Array | None
    _axes: tuple[Axis, ...]
    _discrete: list[tuple[int, Levels | Integers | Steps]]
    _ticked: slice | NDArray[np.intp]  # the Float coordinates that are rounded,
    _ticks: Array  # and the number of their cells
    _conditions: dict[int, Condition]  # those of parents before those of their children
    _parents_first: list[int]
    _table: Table | None
    _tabled: Indices  # the coordinates of the columns of the table

    def __init__(
        self, parameters: Mapping[str, Kind], *, allowed: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        checked = checked_parameters(parameters)
        axes = [axis_of(parameter) for parameter in checked.values()]
        ticks = np.array([a.ticks if isinstance(a, Line) else math.inf for a in axes])
        ticked = np.isfinite(ticks)
        categorical = np.array([isinstance(p, Categorical) for p in checked.values()])
        categorical.setflags(write=False)
        conditions = conditions_of(checked, axes)
        vars(self).update(
            parameters=MappingProxyType(checked),
            names=tuple(checked),
            d=len(checked),
            categorical=categorical,
            options=np.array([len(getattr(p, "options", ())) for p in checked.values()]),
            levels=tuple(axis.levels for axis in axes),
            combined=np.zeros(len(axes), dtype=np.bool_),
            rows=None,
            _axes=tuple(axes),
            _discrete=[(j, a) for j, a in enumerate(axes) if not isinstance(a, Line)],
            _ticked=slice(None) if ticked.all() else np.flatnonzero(ticked),
            _ticks=ticks[ticked],
            _conditions=conditions,
            _parents_first=[*(j for j in range(len(axes)) if j not in conditions), *conditions],
            _table=None,
            _tabled=np.zeros(0, dtype=np.intp),
        )
        if allowed is not None:
            try:
                self._restrict(records_of(allowed))
            except InvalidInput as error:
                raise InvalidInput(f"allowed: {error}") from None

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
        given = checked_parameters(parameters) if parameters else {}
        records = records_of(rows)
        names = list(dict.fromkeys(name for record in records for name in record))
        if not names:
            raise InvalidInput("The rows have no columns. Give each row its parameters.")
        if unknown := [name for name in given if name not in names]:
            raise InvalidInput(f"The rows have no column {unknown[0]!r}; they have {names}.")
        keys = keys_of(records, names, given)
        found = dict(given)
        for j, name in enumerate(names):
            if name not in given:
                found[name] = infer(name, [key[j] for key in keys if key[j] is not ABSENT])
        space = cls({name: found[name] for name in names})
        space._attach(keys, names)
        return space

    def _restrict(self, records: list[Mapping[str, Any]]) -> None:
        names = list(dict.fromkeys(name for record in records for name in record))
        if unknown := [name for name in names if name not in self.parameters]:
            raise InvalidInput(
                f"A combination names {unknown[0]!r}; the parameters are "
                f"{list(self.names)}. Correct the name, or declare the parameter."
            )
        if not names:
            raise InvalidInput("The combinations are empty. Give each of them its values.")
        if len(names) == self.d:
            names = list(self.names)  # the columns of `rows` are the coordinates
        typed = [
            {n: typed_value(n, self._axis(n), value) for n, value in each.items()}
            for each in records
        ]
        self._attach(keys_of(typed, names, {n: self.parameters[n] for n in names}), names)
        assert self._table is not None
        for j, condition in self._conditions.items():
            possible = np.ones(len(self._table.keys), dtype=np.bool_)
            for at, spans in ancestors(self._conditions, j).items():
                for k in np.flatnonzero(self._tabled == at):
                    codes, present = self._table.codes[:, k], self._table.present[:, k]
                    within = [(codes >= low) & (codes <= high) for low, high in spans]
                    possible &= present & np.any(within, axis=0)
            if not possible.any():
                raise InvalidInput(
                    f"Parameter {self.names[j]!r}: its `when` {condition.when} is never true, "
                    "because no allowed combination agrees with it. Change one of them."
                )

    def _attach(self, keys: list[tuple[Any, ...]], names: Sequence[str]) -> None:
        """Make these rows the table of the space; used only while the space is made."""
        tabled = np.array([self.names.index(name) for name in names], dtype=np.intp)
        columns = {name: self.parameters[name] for name in names}
        table = Table(keys, columns, [self._axes[j] for j in tabled])
        combined = np.isin(np.arange(self.d), tabled)
        levels = list(self.levels)
        for k, (j, parameter) in enumerate(zip(tabled, columns.values(), strict=True)):
            if isinstance(parameter, Float | Int) and not combined.all():
                levels[j] = np.unique(table.points[table.present[:, k], k])
        vars(self).update(
            _table=table,
            _tabled=tabled,
            combined=combined,
            levels=tuple(levels),
            rows=table.points if combined.all() else None,
        )

    @property
    def allowed(self) -> tuple[Params, ...] | None:
        """The allowed combinations, or the rows of a table; None if everything is allowed."""
        if self._table is None:
            return None
        columns = [self.names[j] for j in self._tabled]
        return tuple(self._table.params(i, columns) for i in range(len(self._table.keys)))

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
        if self.rows is not None:
            return np.array(self.rows[self._row(params)])
        x, active = [INACTIVE] * self.d, [False] * self.d
        row = None if self._table is None else self._row(params)
        if row is not None:
            assert self._table is not None
            for k, j in enumerate(self._tabled):
                x[j], active[j] = (
                    float(self._table.codes[row, k]),
                    bool(self._table.present[row, k]),
                )
        for j in self._parents_first:
            if row is not None and self.combined[j]:
                continue
            name, condition = self.names[j], self._conditions.get(j)
            if condition is not None and not condition.holds(x, active):
                if name in params:
                    raise InvalidInput(
                        f"Parameter {name!r} is only active when {condition.when}. Leave it out."
                    )
            elif name not in params:
                raise InvalidInput(f"Parameter {name!r} is missing. Give it a value.")
            else:
                x[j], active[j] = encode_value(name, self._axes[j], params[name]), True
        point = np.array(x)
        if row is not None:
            assert self._table is not None
            point[self._tabled] = self._table.points[row]
        return point

    def completed(self, params: Mapping[str, Any], x: Array) -> Array:
        """The valid point (d,) nearest to x (d,) that has these values."""
        point = np.array(x, dtype=np.float64)
        combined: dict[int, Any] = {}
        for name, value in params.items():
            if name not in self.parameters:
                raise InvalidInput(
                    f"Unknown parameter {name!r}; the parameters are {list(self.names)}."
                )
            j = self.names.index(name)
            point[j] = encode_value(name, self._axes[j], value)
            if self.combined[j]:
                combined[int(np.flatnonzero(self._tabled == j)[0])] = typed_value(
                    name, self._axis(name), value
                )
        if combined:
            assert self._table is not None
            row = self._table.nearest_with(combined, point[self._tabled])
            if row is None:
                given = {self.names[self._tabled[k]]: value for k, value in combined.items()}
                listed = "allowed combination" if self.rows is None else "row of the table"
                raise InvalidInput(f"No {listed} has {given}. Pass the values of an existing one.")
            point[self._tabled] = self._table.points[row]
        return np.asarray(self.snap(point[None])[0])

    def decode(self, x: ArrayLike) -> Params:
        """Return the params at the valid point nearest to x (d,); inactive ones are absent."""
        point = np.asarray(x, dtype=np.float64)
        if point.shape != (self.d,) or not np.isfinite(point).all():
            raise InvalidInput(f"{x!r} is not a point of the cube. Give {self.d} finite numbers.")
        X = _clipped(point[None])
        table, rows = self._table, self._nearest(X)
        listed: Params = {}
        if table is not None and rows is not None:
            listed = table.params(rows[0], [self.names[j] for j in self._tabled])
        if self.rows is not None:
            return listed
        snapped = self.snap(X)
        active, coordinates = self._active(snapped, rows)[0], snapped[0].tolist()
        return {
            name: listed[name] if name in listed else self._axes[j].decode(coordinates[j])
            for j, name in enumerate(self.names)
            if active[j]
        }

    def snap(self, X: Array) -> Array:
        """Return the nearest valid points (m, d), or the nearest rows of a table."""
        X = _clipped(X)
        rows = self._nearest(X)
        if self.rows is not None and rows is not None:
            return self.rows[rows]
        self._round(X)
        for j, axis in self._discrete:
            X[:, j] = axis.snap(X[:, j])
        return self._valid(X, rows)

    def spread(self, U: Array) -> Array:
        """Map uniform numbers to valid points (m, d), evenly over the values of each parameter.

        All levels of a parameter are equally likely, and so are all allowed combinations. Only the
        levels of an Int on a log scale are as likely as their share of the scale. In a table of all
        parameters, return the rows nearest to these points.
        """
        X = _clipped(U)
        rows = None
        if self._table is not None and self.rows is None:
            count = len(self._table.keys)
            rows = np.minimum((X[:, self._tabled[0]] * count).astype(np.intp), count - 1)
        self._round(X)
        for j, axis in self._discrete:
            X[:, j] = axis.spread(X[:, j])
        if self.rows is not None:
            return self.rows[self._nearest(X)]
        return self._valid(X, rows)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draw points (size, d) uniformly: `spread` of uniform numbers, or rows of the table."""
        if self.rows is not None:
            return self.rows[rng.integers(len(self.rows), size=size)]
        return self.spread(rng.random((size, self.d)))

    def points(self, at_most: int) -> Array | None:
        """Return all points (N, d); None if there are infinitely many or more than `at_most`.

        The rows of a table are always returned.
        """
        if self.rows is not None:
            return self.rows
        free = np.flatnonzero(~self.combined)
        listed = [levels for j in free if (levels := self.levels[j]) is not None]
        count = 1 if self._table is None else len(self._table.keys)
        if len(listed) < len(free) or count * math.prod(map(len, listed)) > at_most:
            return None
        grid = np.stack(np.meshgrid(np.arange(count), *listed, indexing="ij"), axis=-1)
        grid = grid.reshape(-1, 1 + len(free))
        X = np.empty((len(grid), self.d))
        X[:, free] = grid[:, 1:]
        rows = None if self._table is None else grid[:, 0].astype(np.intp)
        return np.unique(self._valid(X, rows), axis=0)

    def recombined(self, x: Array, at_most: int) -> Array:
        """(m, d): x (d,) with each of the nearest `at_most` allowed combinations."""
        if self._table is None:
            return np.empty((0, self.d))
        rows = self._table.by_distance(x[self._tabled])[:at_most]
        return self._valid(np.repeat(x[None], len(rows), axis=0), rows)

    def active(self, X: Array) -> Mask:
        """Return which coordinates (m, d) are active at snapped points."""
        return self._active(X, self._nearest(X))

    def _active(self, X: Array, rows: Indices | None) -> Mask:
        """`active` at points that have these rows of the table."""
        active = np.ones(X.shape, dtype=np.bool_)
        if self._table is not None:
            active[:, self._tabled] = self._table.present[rows]
            if self._conditions:
                X = X.copy()
                X[:, self._tabled] = self._table.codes[rows]
        for j, condition in self._conditions.items():
            active[:, j] = condition.holds_at(X, active)
        return active

    def _nearest(self, X: Array) -> Indices | None:
        """The nearest rows of the table (m,); None without a table."""
        return None if self._table is None else self._table.nearest(X[:, self._tabled])

    def _valid(self, X: Array, rows: Indices | None) -> Array:
        """X (m, d), changed in place: with these rows of the table, and inactive coordinates."""
        if self._table is not None:
            X[:, self._tabled] = self._table.points[rows]
        if self._conditions:
            active = self._active(X, rows)
            for j in self._conditions:
                X[~active[:, j], j] = INACTIVE
        return X

    def natural(self, X: Array) -> Array:
        """Return the numbers (m, d) at snapped points; NaN if inactive or not a number."""
        columns = [axis.natural(X[:, j]) for j, axis in enumerate(self._axes)]
        return np.where(self.active(X), np.stack(columns, axis=1), np.nan)

    def along(self, name: str, x: Array) -> Array:
        """Return the numbers (m,) of one parameter at coordinates x (m,), as if it were active.

        They are NaN if its values are not numbers.
        """
        scale = self._axis(name).scale
        return np.full(len(x), np.nan) if scale is None else np.asarray(scale.value(x))

    def between(self, X: Array) -> tuple[Array, Array]:
        """Return a continuous version of `natural` at any points, and its slopes; NaN likewise."""
        numbers, slopes = np.full(X.shape, np.nan), np.full(X.shape, np.nan)
        for j, axis in enumerate(self._axes):
            if axis.scale is not None:
                numbers[:, j] = axis.scale.value(X[:, j])
                slopes[:, j] = axis.scale.width * (numbers[:, j] if axis.scale.log else 1.0)
        active = self.active(self.snap(X) if self._conditions else X)
        return np.where(active, numbers, np.nan), np.where(active, slopes, np.nan)

    def _row(self, params: Mapping[str, Any]) -> int:
        """The row of the table that has these values."""
        table = self._table
        assert table is not None
        names = [self.names[j] for j in self._tabled]
        if self.rows is None:
            params = {n: typed_value(n, self._axis(n), params[n]) for n in names if n in params}
        key = key_of(params, names, with_none(self.parameters))
        try:
            return table.row_of_key[key]
        except (KeyError, TypeError):
            x = np.array(
                [
                    INACTIVE if value is ABSENT else nearby(self._axes[j], value)
                    for value, j in zip(key, self._tabled, strict=True)
                ]
            )
        i = int(table.nearest(x[None])[0])
        given, nearest = {n: params[n] for n in names if n in params}, table.params(i, names)
        if self.rows is not None:
            raise InvalidInput(f"{given} is not in the table; the nearest is row {i}, {nearest}.")
        raise InvalidInput(f"{given} is not an allowed combination; the nearest is {nearest}.")

    def _axis(self, name: str) -> Axis:
        return self._axes[self.names.index(name)]

    def _round(self, X: Array) -> None:
        if self._ticks.size:
            X[:, self._ticked] = np.rint(X[:, self._ticked] * self._ticks) / self._ticks

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("A Space is immutable. Make another one.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        if list(self.parameters.items()) != list(other.parameters.items()):
            return False
        own, others = self._table, other._table
        if own is None or others is None or np.array_equal(self._tabled, other._tabled):
            return (own.keys if own else None) == (others.keys if others else None)
        return self.allowed == other.allowed  # the same columns in another order

    def __hash__(self) -> int:
        return hash(tuple(self.parameters.items()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name!r}: {p}" for name, p in self.parameters.items())
        if self.rows is not None:
            return f"Space.from_rows(<{len(self.rows)} rows>, {{{inside}}})"
        shown = [str(each) for each in self.allowed or ()]
        more = [f"... {len(shown)} in all"] if len(shown) > SHOWN else []
        restricted = f", allowed=[{', '.join([*shown[:SHOWN], *more])}]" if shown else ""
        return f"Space({{{inside}}}{restricted})"

    def _repr_html_(self) -> str:
        rows = {} if self._table is None else {"allowed combinations": len(self._table.keys)}
        return html_table({**self.parameters, **rows})

    def __reduce__(self) -> tuple[Any, ...]:
        if self.rows is not None:
            return Space.from_rows, (list(self.allowed or ()), dict(self.parameters))
        return partial(Space, allowed=self.allowed), (dict(self.parameters),)


def _clipped(X: ArrayLike) -> Array:
    return np.asarray(np.minimum(np.maximum(X, 0.0), 1.0), dtype=np.float64)
