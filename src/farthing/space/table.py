"""A finite table: the rows of all candidates, or the allowed combinations of some parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from farthing.errors import InvalidInput
from farthing.space.coordinates import (
    Axis,
    Levels,
    encode_value,
)
from farthing.space.parameters import (
    INACTIVE,
    Categorical,
    Float,
    Ordinal,
    Parameter,
    are_numbers,
    is_absent,
    is_hashable,
    plain,
    to_numbers,
)

__all__ = ["ABSENT", "Table", "infer", "key_of", "keys_of", "records_of", "with_none"]

Array: TypeAlias = NDArray[np.float64]
Params: TypeAlias = dict[str, Any]

CHUNK = 2**21  # distances computed at once to find the nearest row: 16 MB

ABSENT = object()  # the value of a parameter that a row does not have


class Table:
    """The rows of a table: their values, their points, and which parameters each of them has.

    Attributes:
        points: (N, k) distinct points of distinct rows.
        codes: (N, k) the coordinates of their values, which may be the same for two rows.
        present: (N, k) which parameters they have.
    """

    def __init__(
        self,
        keys: list[tuple[Any, ...]],  # the values of each row in the order of the names, or ABSENT
        parameters: Mapping[str, Parameter],
        axes: Sequence[Axis],
    ) -> None:
        self.keys = keys
        self.points = np.empty((len(keys), len(axes)))
        self.present = np.empty((len(keys), len(axes)), dtype=np.bool_)
        for j, (name, axis) in enumerate(zip(parameters, axes, strict=True)):
            column = [key[j] for key in keys]
            codes = {v: encode_value(name, axis, v) for v in set(column) if v is not ABSENT}
            self.points[:, j] = [codes.get(v, INACTIVE) for v in column]
            self.present[:, j] = [v is not ABSENT for v in column]
        self.codes = self.points.copy()
        self.row_of_key: dict[tuple[Any, ...], int] = {}
        self.row_of_point: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            first = self.row_of_key.setdefault(key, i)
            if first == i:
                self._make_distinct(i)
                self.row_of_point[self.points[i].tobytes()] = i
            self.points[i] = self.points[first]
        self.points.setflags(write=False)
        self.categorical = [
            (j, axis)
            for j, axis in enumerate(axes)
            if isinstance(axis, Levels) and isinstance(axis.parameter, Categorical)
        ]
        self.numeric = np.setdiff1d(np.arange(len(axes)), [j for j, _ in self.categorical])
        self.numbers = self.points[:, self.numeric]
        self.squares = (self.numbers**2).sum(axis=1)

    def _make_distinct(self, i: int) -> None:
        """Move row i by an ulp while another row has the same point.

        For example, an absent value and a middle value have the same coordinate.
        """
        x = self.points[i]
        other = self.row_of_point.get(x.tobytes())
        if other is None:
            return
        j = next(j for j, v in enumerate(self.keys[i]) if v != self.keys[other][j])
        inwards = 0.0 if x[j] > INACTIVE else 1.0
        while x.tobytes() in self.row_of_point:
            x[j] = np.nextafter(x[j], inwards)

    def nearest(self, X: Array) -> NDArray[np.intp]:
        """The row with the smallest sum of squared differences. A different category counts 1."""
        X = X + 0.0  # because -0.0 and 0.0 differ in their bytes
        found = np.array([self.row_of_point.get(x.tobytes(), -1) for x in X], dtype=np.intp)
        unknown = np.flatnonzero(found < 0)
        step = max(1, CHUNK // len(self.points))
        for start in range(0, len(unknown), step):
            rows = unknown[start : start + step]
            found[rows] = self._distances(X[rows]).argmin(axis=1)
        return found

    def nearest_with(self, given: Mapping[int, Any], x: Array) -> int | None:
        """The row nearest to x (k,) that has these values, by column; None if no row has them."""
        matching = [i for i, key in enumerate(self.keys) if all(key[j] == given[j] for j in given)]
        if not matching:
            return None
        return matching[int(self._distances(x[None])[0, matching].argmin())]

    def by_distance(self, x: Array) -> NDArray[np.intp]:
        """All rows but the nearest one, nearest first."""
        return np.argsort(self._distances(x[None])[0], kind="stable")[1:]

    def _distances(self, X: Array) -> Array:
        """(m, N) without the squares of X, which are the same for all rows."""
        distances: Array = self.squares - 2.0 * X[:, self.numeric] @ self.numbers.T
        for j, axis in self.categorical:
            distances += axis.snap(X[:, j])[:, None] != self.points[:, j]
        return distances

    def params(self, i: int, names: Sequence[str]) -> Params:
        """The values of row i, without absent ones."""
        pairs = zip(names, self.keys[i], strict=True)
        return {name: value for name, value in pairs if value is not ABSENT}


def records_of(rows: Any) -> list[Mapping[str, Any]]:
    """The rows as a list of mappings."""
    if hasattr(rows, "to_dict") and not isinstance(rows, Mapping):
        rows = rows.to_dict("records")
    if isinstance(rows, str | Mapping) or not isinstance(rows, Iterable):
        raise InvalidInput("The rows must be a list of dicts, or a data frame.")
    records = list(rows)
    if not records:
        raise InvalidInput("The table has no rows. Give at least one.")
    for i, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InvalidInput(f"Row {i} is {record!r}, not a dict of parameters.")
    return records


def key_of(params: Mapping[str, Any], names: Sequence[str], with_none: AbstractSet[str]) -> Any:
    """Values in the order of the names. None and NaN are absent, unless None is an option."""
    values = [plain(params.get(name)) for name in names]
    for j, value in enumerate(values):
        if is_absent(value) and not (
            value is None and names[j] in with_none and names[j] in params
        ):
            values[j] = ABSENT
    return tuple(values)


def keys_of(
    records: Sequence[Mapping[str, Any]], names: Sequence[str], given: Mapping[str, Parameter]
) -> list[tuple[Any, ...]]:
    """The values of each row in the order of the names, or ABSENT."""
    for name in given:
        if given[name].when is not None:
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
    for j, name in enumerate(names):
        if all(key[j] is ABSENT for key in keys):
            raise InvalidInput(f"Column {name!r} has no values. Leave it out.")
    return keys


def with_none(parameters: Mapping[str, Parameter]) -> set[str]:
    """The names of the parameters that have None as an option."""
    options = {name: getattr(p, "options", ()) for name, p in parameters.items()}
    return {name for name in options if None in options[name]}


def infer(name: str, column: Iterable[Any]) -> Parameter:
    """Infer the parameter of a column, with a log scale if it spaces the numbers more evenly."""
    values = set(column)
    if not are_numbers(values):
        return Categorical(sorted(values, key=repr))
    try:
        numbers = to_numbers(sorted(values))
        log = bool(numbers[0] > 0) and _unevenness(np.log(numbers)) < _unevenness(numbers)
        try:
            return Ordinal(sorted(values), log=log)
        except InvalidInput:  # levels are too close, but rows may differ in other columns
            return Float(float(numbers[0]), float(numbers[-1]), log=log)
    except InvalidInput as error:
        raise InvalidInput(f"Column {name!r}: {error}") from None


def _unevenness(numbers: Array) -> float:
    """Coefficient of variation of the gaps."""
    if len(numbers) < 3:
        return 0.0
    gaps = np.diff(numbers)
    gaps /= gaps.max()  # so that their squares do not overflow
    return float(gaps.std() / gaps.mean())
