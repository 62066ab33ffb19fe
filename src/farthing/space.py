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
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import reduce
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farthing.errors import InvalidInput

__all__ = ["Categorical", "Float", "Int", "Ordinal", "Parameter", "Params", "Space"]

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Params: TypeAlias = dict[str, Any]

INACTIVE = 0.5  # the coordinate of a parameter that is not there
MOST_LEVELS = 1000  # an Int with more values is snapped by arithmetic: its levels are never listed
MOST_INTEGERS = 2**40  # beyond, neighbouring integers on a log scale share a coordinate
LARGEST_INTEGER = 2**50  # beyond, v - 1/2 is no longer a float
TICK = 16 * np.finfo(np.float64).eps  # twice the rounding error of a trip to the cube and back
FEWEST_TICKS = 1000  # a Float must have at least so many distinguishable values
SMALLEST_NUMBER = 1e-290  # below, the cells of a Float scale fall into the subnormal numbers
CHUNK = 2**21  # distances held at once when looking for the nearest row: 16 MB


# ---------------------------------------------------------------------------- the four parameters


def _describe(parameter: Any) -> str:
    """Spell the call that makes this parameter, without its defaults; long lists are cut short."""
    shown = []
    for entry in fields(parameter):
        value = getattr(parameter, entry.name)
        if value is entry.default:
            continue
        if isinstance(value, tuple):
            items = [repr(item) for item in value[:20]]
            dots = [f"... {len(value)} in all"] if len(value) > len(items) else []
            shown.append(f"[{', '.join(items + dots)}]")
        else:
            shown.append(f"{entry.name}={value!r}")
    return f"{type(parameter).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Float:
    """A real number from `low` to `high`, on a log scale if `log`."""

    low: float
    high: float
    _: KW_ONLY
    log: bool = False
    when: Mapping[str, Any] | None = field(default=None, hash=False)

    __repr__ = _describe

    def __post_init__(self) -> None:
        _settle_range(self, _number)
        if min(self.low if self.log else 1.0, self.high - self.low) < SMALLEST_NUMBER:
            raise InvalidInput(
                f"{self}: numbers below {SMALLEST_NUMBER} cannot be told apart here. "
                "Use another unit."
            )
        if _ticks(self) < FEWEST_TICKS:
            raise InvalidInput(
                f"{self}: the bounds are too close for floating point to tell values between them "
                "apart. Subtract the offset, or widen the range."
            )


@dataclass(frozen=True, repr=False)
class Int:
    """A whole number from `low` to `high`, both included, on a log scale if `log`."""

    low: int
    high: int
    _: KW_ONLY
    log: bool = False
    when: Mapping[str, Any] | None = field(default=None, hash=False)

    __repr__ = _describe

    def __post_init__(self) -> None:
        _settle_range(self, _whole)
        count = self.high if self.log else self.high - self.low + 1
        if max(-self.low, self.high) > LARGEST_INTEGER or count > MOST_INTEGERS:
            raise InvalidInput(
                f"{self}: too many integers to tell apart. Use a Float and round it."
            )


@dataclass(frozen=True, repr=False)
class Ordinal:
    """Values in order: numbers sit by their value (its log if `log`), others evenly by rank."""

    values: Sequence[Any]
    _: KW_ONLY
    log: bool = False
    when: Mapping[str, Any] | None = field(default=None, hash=False)

    __repr__ = _describe

    def __post_init__(self) -> None:
        values = _settle_list(self, "values")
        _settle_log_and_when(self)
        if not self.numeric:
            if self.log:
                raise InvalidInput(f"{self}: a log scale needs numbers. Leave log out.")
            return
        numbers = _checked(_numbers, self, values)
        if (numbers[1:] <= numbers[:-1]).any():
            raise InvalidInput(f"{self}: numbers must increase strictly. Sort them.")
        if self.log and numbers[0] <= 0:
            raise InvalidInput(
                f"{self}: a log scale needs values > 0. Leave log out, or drop the value."
            )
        scale = _Scale.over(float(numbers[0]), float(numbers[-1]), log=self.log)
        _check_width(self, scale.width)
        if not (np.diff(scale.place(numbers)) > 0).all():
            raise InvalidInput(
                f"{self}: some values are too close to tell apart on this scale. Merge them."
            )

    @property
    def numeric(self) -> bool:
        """Whether every value is a number (a bool is not)."""
        return _are_numbers(self.values)


@dataclass(frozen=True, repr=False)
class Categorical:
    """One of several options without an order."""

    options: Sequence[Any]
    _: KW_ONLY
    when: Mapping[str, Any] | None = field(default=None, hash=False)

    __repr__ = _describe

    def __post_init__(self) -> None:
        _settle_list(self, "options")
        _settle_when(self)


Parameter: TypeAlias = Float | Int | Ordinal | Categorical


# ------------------------------------------------------------------------- what a value must be


def _plain(value: Any) -> Any:
    """Turn a numpy scalar into the Python value it holds."""
    return value.item() if isinstance(value, np.generic) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_numbers(values: Iterable[Any]) -> bool:
    kinds = set(map(type, values))
    return all(issubclass(kind, int | float) and kind is not bool for kind in kinds)


def _numbers(values: Sequence[Any]) -> Array:
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        numbers = np.array([_number(value) for value in values])
    if not np.isfinite(numbers).all():
        raise InvalidInput("all numbers must be finite. Remove the others.")
    return numbers


def _number(value: Any) -> float:
    value = _plain(value)
    if not _is_number(value):
        raise InvalidInput(f"{value!r} is not a number. Give an int or a float.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInput(f"{value!r} is not finite. Give a finite number.")
    return number


def _whole(value: Any) -> int:
    value = _plain(value)
    if not _is_number(value) or value != value or value in (math.inf, -math.inf):
        raise InvalidInput(f"{value!r} is not a whole number. Give an int.")
    if value != int(value):
        raise InvalidInput(f"{value!r} is not a whole number. Give an int, or use a Float.")
    return int(value)


def _is_absent(value: Any) -> bool:
    """Whether a table's cell is empty: None, NaN, or the markers data frames use for them."""
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _checked(check: Callable[[Any], Any], parameter: Any, value: Any) -> Any:
    try:
        return check(value)
    except InvalidInput as error:
        raise InvalidInput(f"{parameter}: {error}") from None


def _settle(parameter: Any, name: str, value: Any) -> None:
    object.__setattr__(parameter, name, value)


def _settle_when(parameter: Any) -> None:
    when = parameter.when
    if when is None:
        return
    if not isinstance(when, Mapping) or not when:
        raise InvalidInput(
            f"{parameter}: `when` must map a parameter's name to its option or options, "
            'such as {"solver": "sgd"}.'
        )
    _settle(parameter, "when", dict(when))


def _settle_log_and_when(parameter: Any) -> None:
    if not isinstance(parameter.log, bool | np.bool_):
        raise InvalidInput(f"{parameter}: log must be True or False.")
    _settle(parameter, "log", bool(parameter.log))
    _settle_when(parameter)


def _settle_range(parameter: Any, check: Callable[[Any], Any]) -> None:
    low = _checked(check, parameter, parameter.low)
    high = _checked(check, parameter, parameter.high)
    _settle_log_and_when(parameter)
    if low >= high:
        raise InvalidInput(f"{parameter}: low must be less than high. Swap or widen the bounds.")
    if parameter.log and low <= 0:
        smallest = "1" if check is _whole else "1e-6"
        raise InvalidInput(
            f"{parameter}: a log scale needs low > 0. "
            f"Use a small positive bound such as {smallest}."
        )
    _check_width(parameter, high - low)
    _settle(parameter, "low", low)
    _settle(parameter, "high", high)


def _check_width(parameter: Any, width: float) -> None:
    if not math.isfinite(width):
        raise InvalidInput(f"{parameter}: the range is wider than a float can hold. Narrow it.")


def _settle_list(parameter: Any, name: str) -> tuple[Any, ...]:
    given = getattr(parameter, name)
    if isinstance(given, str | bytes | Mapping | AbstractSet) or not isinstance(given, Iterable):
        raise InvalidInput(f"{parameter}: {name} must be a list, in a fixed order.")
    values = tuple(_plain(value) for value in given)
    _settle(parameter, name, values)
    if not values:
        raise InvalidInput(f"{parameter}: {name} must not be empty. Give at least one.")
    for value in values:
        if not _is_hashable(value) or value != value:
            raise InvalidInput(f"{parameter}: {value!r} cannot be compared. Use a name for it.")
    if len(set(values)) < len(values):
        raise InvalidInput(f"{parameter}: {name} must all be different. Remove the duplicates.")
    return values


# ----------------------------------------------------------------- one coordinate: value <-> [0, 1]


@dataclass(frozen=True)
class _Scale:
    """x = (t(v) - origin) / width, with t the identity or the natural logarithm."""

    low: float
    high: float
    log: bool
    origin: float
    width: float

    @classmethod
    def over(cls, low: float, high: float, *, log: bool) -> _Scale:
        origin, end = (float(np.log(low)), float(np.log(high))) if log else (low, high)
        return cls(low, high, log, origin, end - origin)

    def place(self, value: Any) -> Any:
        """Coordinate of a value or an array of values."""
        if self.width == 0.0:
            return value * 0.0 + INACTIVE
        return ((np.log(value) if self.log else value) - self.origin) / self.width

    def value(self, x: Any) -> Any:
        """Value at a coordinate or an array of coordinates, never outside the bounds."""
        t = self.origin + x * self.width
        return np.minimum(np.maximum(np.exp(t) if self.log else t, self.low), self.high)


def _ticks(parameter: Float) -> float:
    """The number of cells of a Float, a power of two; infinite where the map is exact.

    A trip to the cube and back errs by less than 8 eps max(1, largest t / width), half a tick.
    """
    low, high, log = parameter.low, parameter.high, parameter.log
    if low == 0.0 and math.frexp(high)[0] == 0.5:
        return math.inf
    scale = _Scale.over(low, high, log=log)
    largest = max(abs(scale.origin), abs(scale.origin + scale.width), 1.0 if log else 0.0)
    error = TICK * max(1.0, largest / scale.width) if scale.width > 0 else 1.0
    return 2.0 ** math.floor(-math.log2(error))


class _Line:
    """The coordinate of a Float."""

    levels = None

    def __init__(self, parameter: Float) -> None:
        self.parameter = parameter
        self.scale = _Scale.over(parameter.low, parameter.high, log=parameter.log)
        self.ticks = _ticks(parameter)

    def encode(self, value: Any) -> float:
        number = _number(value)
        if not self.parameter.low <= number <= self.parameter.high:
            raise InvalidInput(f"{value!r} is outside {self.parameter}.")
        return self._place(number)

    def decode(self, x: float) -> float:
        """Return the shortest decimal number of x's cell.

        With q = 10^-digits the largest power of ten in the cell's width, at most one multiple of
        10 q lies in the cell, and every shorter number of the cell is that one.
        """
        low, high = self.parameter.low, self.parameter.high
        if x in (0.0, 1.0):
            return high if x else low
        t = self.scale.origin + x * self.scale.width
        value = min(max(math.exp(t) if self.scale.log else t, low), high)
        if self.ticks == math.inf:
            return value
        cell = self.scale.width * (value if self.scale.log else 1.0) / self.ticks
        digits = -math.floor(math.log10(cell))
        for shorter in (round(value, digits - 1), round(value, digits)):
            if low <= shorter <= high and self._place(shorter) == x:
                return shorter
        return value

    def natural(self, x: Array) -> Array:
        values: Array = self.scale.value(x)
        return values

    def _place(self, number: float) -> float:
        t = math.log(number) if self.scale.log else number
        x = (t - self.scale.origin) / self.scale.width
        return x if self.ticks == math.inf else round(x * self.ticks) / self.ticks


class _Levels:
    """The coordinate of a parameter with listed values."""

    def __init__(
        self,
        parameter: Parameter,
        *,
        values: Sequence[Any],
        scale: _Scale | None,
        levels: Array,
        edges: Array | None = None,  # (k - 1,) where `spread` passes from a level to the next
    ) -> None:
        self.parameter = parameter
        self.values = values
        self.scale = scale
        self.levels = levels
        self.levels.setflags(write=False)
        self.middles = (levels[1:] + levels[:-1]) / 2
        self.edges = np.arange(1, len(values)) / len(values) if edges is None else edges
        self.numbers = np.array(values if scale else [math.nan] * len(values), dtype=np.float64)
        self.coordinate: dict[Any, float] = dict(zip(values, levels.tolist(), strict=True))
        self.value = dict(zip(levels.tolist(), values, strict=True))

    def encode(self, value: Any) -> float:
        value = _plain(value)
        if self.scale is not None and isinstance(value, bool):
            raise InvalidInput(f"{value!r} is not a number. Give an int or a float.")
        try:
            return self.coordinate[value]
        except (KeyError, TypeError):
            raise InvalidInput(f"{value!r} is not a value of {self.parameter}.") from None

    def decode(self, x: float) -> Any:
        return self.value[x]

    def snap(self, x: Array) -> Array:
        return self.levels[np.searchsorted(self.middles, x)]

    def spread(self, u: Array) -> Array:
        return self.levels[np.searchsorted(self.edges, u, side="right")]

    def natural(self, x: Array) -> Array:
        return self.numbers[np.searchsorted(self.middles, x)]


class _Integers:
    """The coordinate of an Int with too many values to list."""

    levels = None

    def __init__(self, parameter: Int, scale: _Scale) -> None:
        self.parameter = parameter
        self.scale = scale

    def encode(self, value: Any) -> float:
        whole = _whole(value)
        if not self.parameter.low <= whole <= self.parameter.high:
            raise InvalidInput(f"{value!r} is outside {self.parameter}.")
        return float(self.scale.place(np.float64(whole)))

    def decode(self, x: float) -> int:
        return int(self.natural(np.array([x]))[0])

    def snap(self, x: Array) -> Array:
        coordinates: Array = self.scale.place(self.natural(x))
        return coordinates

    def spread(self, u: Array) -> Array:
        coordinates: Array = self.scale.place(self._within(np.rint(self.scale.value(u))))
        return coordinates

    def natural(self, x: Array) -> Array:
        value = self.scale.value(x)
        if not self.scale.log:
            return self._within(np.rint(value))
        below = np.floor(value)  # halfway in logs is the geometric mean
        return self._within(below + (value > np.sqrt(below * (below + 1.0))))

    def _within(self, whole: Array) -> Array:
        return np.minimum(np.maximum(whole, self.parameter.low), self.parameter.high)


def _axis(parameter: Parameter) -> _Line | _Levels | _Integers:
    match parameter:
        case Float():
            return _Line(parameter)
        case Int(low, high):
            scale = _Scale.over(low - 0.5, high + 0.5, log=parameter.log)
            if high - low + 1 > MOST_LEVELS:
                return _Integers(parameter, scale)
            numbers = np.arange(low, high + 1, dtype=np.float64)
            return _Levels(
                parameter,
                values=range(low, high + 1),
                scale=scale,
                levels=scale.place(numbers),
                edges=scale.place(numbers[:-1] + 0.5),
            )
        case Ordinal(values):
            numeric = parameter.numeric
            numbers = np.array(values if numeric else range(len(values)), dtype=np.float64)
            scale = _Scale.over(float(numbers[0]), float(numbers[-1]), log=parameter.log)
            return _Levels(
                parameter,
                values=values,
                scale=scale if numeric else None,
                levels=scale.place(numbers),
            )
        case Categorical(options):
            k = len(options)
            return _Levels(parameter, values=options, scale=None, levels=(np.arange(k) + 0.5) / k)


_Axis: TypeAlias = _Line | _Levels | _Integers


def _encode(name: str, axis: _Axis, value: Any) -> float:
    try:
        return axis.encode(value)
    except InvalidInput as error:
        raise InvalidInput(f"Parameter {name!r}: {error}") from None


def _nearby(axis: _Axis, value: Any) -> float:
    """Where a value the parameter may not take would sit; the middle if nowhere."""
    try:
        return axis.encode(value)
    except InvalidInput:
        if axis.scale is None or not _is_number(value):
            return INACTIVE
        return float(axis.scale.place(min(max(value, axis.scale.low), axis.scale.high)))


# ------------------------------------------------------------------------------------- conditions


@dataclass(frozen=True)
class _Condition:
    """A parameter is active where each of its parents sits at one of the named options."""

    when: Mapping[str, Any]
    parents: tuple[tuple[int, tuple[float, ...]], ...]  # coordinate, its levels that will do

    def holds(self, x: Sequence[float]) -> bool:
        return all(x[j] in levels for j, levels in self.parents)

    def holds_at(self, X: Array) -> Mask:
        rows: Mask = np.ones(len(X), dtype=np.bool_)
        for j, levels in self.parents:
            rows &= reduce(np.logical_or, [X[:, j] == level for level in levels])
        return rows


def _condition(
    name: str, parameters: Mapping[str, Parameter], axes: Sequence[_Axis]
) -> _Condition | None:
    when = parameters[name].when
    if when is None:
        return None
    names = list(parameters)
    parents = []
    for parent, wanted in when.items():
        if parent not in parameters:
            problem = f"names {parent!r}, but the parameters are {names}"
        elif parent == name:
            problem = "names itself; name another parameter"
        elif isinstance(parameters[parent], Float):
            problem = f"names the Float {parent!r}; name an Int, an Ordinal or a Categorical"
        elif parameters[parent].when is not None:
            problem = f"names {parent!r}, which is conditional itself; there is only one level"
        else:
            j = names.index(parent)
            parents.append((j, _wanted_levels(name, parent, axes[j], wanted)))
            continue
        raise InvalidInput(f"Parameter {name!r}: its `when` {problem}.")
    return _Condition(when, tuple(parents))


def _wanted_levels(name: str, parent: str, axis: _Axis, wanted: Any) -> tuple[float, ...]:
    try:
        return (axis.encode(wanted),)
    except InvalidInput as error:
        problem = error
    if isinstance(wanted, list | tuple | range | AbstractSet) and wanted:
        try:
            return tuple(axis.encode(option) for option in wanted)
        except InvalidInput as error:
            problem = error
    raise InvalidInput(f"Parameter {name!r}: its `when` on {parent!r} cannot hold: {problem}")


# ---------------------------------------------------------------------------------- finite tables

_ABSENT = object()


class _Table:
    """The rows of a table space: their values, their points, and what each of them has."""

    def __init__(
        self,
        keys: list[tuple[Any, ...]],  # a row's values in the order of the names, or _ABSENT
        parameters: Mapping[str, Parameter],
        axes: Sequence[_Axis],
    ) -> None:
        self.keys = keys
        self.points = np.empty((len(keys), len(axes)))
        self.present = np.empty((len(keys), len(axes)), dtype=np.bool_)
        for j, (name, axis) in enumerate(zip(parameters, axes, strict=True)):
            column = [key[j] for key in keys]
            codes = {v: _encode(name, axis, v) for v in set(column) if v is not _ABSENT}
            self.points[:, j] = [codes.get(v, INACTIVE) for v in column]
            self.present[:, j] = [v is not _ABSENT for v in column]
        self.row_of_key: dict[tuple[Any, ...], int] = {}
        self.row_of_point: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            first = self.row_of_key.setdefault(key, i)
            if first == i:
                self._tell_apart(i)
                self.row_of_point[self.points[i].tobytes()] = i
            self.points[i] = self.points[first]
        self.points.setflags(write=False)
        self.categorical = [
            (j, axis)
            for j, axis in enumerate(axes)
            if isinstance(axis, _Levels) and isinstance(axis.parameter, Categorical)
        ]
        self.numeric = np.setdiff1d(np.arange(len(axes)), [j for j, _ in self.categorical])
        self.numbers = self.points[:, self.numeric]
        self.squares = (self.numbers**2).sum(axis=1)

    def _tell_apart(self, i: int) -> None:
        """Move row i by an ulp while another row sits there, as an absent and a middle value do."""
        x = self.points[i]
        other = self.row_of_point.get(x.tobytes())
        if other is None:
            return
        j = next(j for j, v in enumerate(self.keys[i]) if v != self.keys[other][j])
        inwards = 0.0 if x[j] > INACTIVE else 1.0
        while x.tobytes() in self.row_of_point:
            x[j] = np.nextafter(x[j], inwards)

    def nearest(self, X: Array) -> NDArray[np.intp]:
        """Row with the least sum of squared differences, a mismatched category counting one."""
        X = X + 0.0  # -0.0 has other bytes than 0.0
        found = np.array([self.row_of_point.get(x.tobytes(), -1) for x in X], dtype=np.intp)
        strangers = np.flatnonzero(found < 0)
        step = max(1, CHUNK // len(self.points))
        for start in range(0, len(strangers), step):
            some = strangers[start : start + step]
            distance = self.squares - 2.0 * X[np.ix_(some, self.numeric)] @ self.numbers.T
            for j, axis in self.categorical:
                snapped = axis.snap(X[some, j])
                distance += snapped[:, None] != self.points[:, j]
            found[some] = distance.argmin(axis=1)
        return found

    def params(self, i: int, names: Sequence[str]) -> Params:
        pairs = zip(names, self.keys[i], strict=True)
        return {name: value for name, value in pairs if value is not _ABSENT}


def _records(rows: Any) -> list[Mapping[str, Any]]:
    if hasattr(rows, "to_dict") and not isinstance(rows, Mapping):
        rows = rows.to_dict("records")
    if isinstance(rows, str | Mapping) or not isinstance(rows, Iterable):
        raise InvalidInput("The rows must be a list of dicts or a data frame.")
    records = list(rows)
    if not records:
        raise InvalidInput("The table has no rows. Give at least one.")
    for i, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InvalidInput(f"Row {i} is {record!r}, not a dict of parameters.")
    return records


def _key(params: Mapping[str, Any], names: Sequence[str], with_none: AbstractSet[str]) -> Any:
    """Values in the order of the names; None and NaN are absent, except where None is an option."""
    values = [_plain(params.get(name)) for name in names]
    for j, value in enumerate(values):
        if _is_absent(value) and not (
            value is None and names[j] in with_none and names[j] in params
        ):
            values[j] = _ABSENT
    return tuple(values)


def _with_none(parameters: Mapping[str, Parameter]) -> set[str]:
    options = {name: getattr(p, "options", ()) for name, p in parameters.items()}
    return {name for name in options if None in options[name]}


def _infer(name: str, column: Iterable[Any]) -> Parameter:
    """Infer a column's parameter; a log scale if it spaces the numbers more evenly."""
    values = set(column)
    if not _are_numbers(values):
        return Categorical(sorted(values, key=repr))
    try:
        numbers = _numbers(sorted(values))
        log = bool(numbers[0] > 0) and _unevenness(np.log(numbers)) < _unevenness(numbers)
        try:
            return Ordinal(sorted(values), log=log)
        except InvalidInput:  # levels too close to tell apart; rows may be
            return Float(float(numbers[0]), float(numbers[-1]), log=log)
    except InvalidInput as error:
        raise InvalidInput(f"Column {name!r}: {error}") from None


def _unevenness(numbers: Array) -> float:
    """Coefficient of variation of the gaps."""
    if len(numbers) < 3:
        return 0.0
    gaps = np.diff(numbers)
    gaps /= gaps.max()  # their squares must not overflow
    return float(gaps.std() / gaps.mean())


# -------------------------------------------------------------------------------------- the space


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
    _axes: tuple[_Axis, ...]
    _discrete: list[tuple[int, _Levels | _Integers]]
    _ticked: slice | NDArray[np.intp]  # the Float coordinates that are rounded,
    _ticks: Array  # and the number of their cells
    _conditions: dict[int, _Condition]
    _parents_first: list[int]
    _table: _Table | None

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        _check_parameters(parameters)
        axes = [_axis(parameter) for parameter in parameters.values()]
        ticks = np.array([a.ticks if isinstance(a, _Line) else math.inf for a in axes])
        ticked = np.isfinite(ticks)
        categorical = np.array([isinstance(p, Categorical) for p in parameters.values()])
        categorical.setflags(write=False)
        conditions = [_condition(name, parameters, axes) for name in parameters]
        vars(self).update(
            parameters=MappingProxyType(dict(parameters)),
            names=tuple(parameters),
            d=len(parameters),
            categorical=categorical,
            options=np.array([len(getattr(p, "options", ())) for p in parameters.values()]),
            levels=tuple(axis.levels for axis in axes),
            rows=None,
            _axes=tuple(axes),
            _discrete=[(j, a) for j, a in enumerate(axes) if not isinstance(a, _Line)],
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
        parameters: Mapping[str, Parameter] | None = None,
    ) -> Space:
        """Make the space of a finite table of candidates.

        A key that is missing, None or NaN in a row is a parameter that row does not have. Columns
        not in `parameters` are inferred: numbers are an Ordinal of their distinct values, on a log
        scale if that spaces them more evenly (a Float if some are within an ulp of each other);
        anything else is a Categorical.
        """
        given = dict(parameters or {})
        records = _records(rows)
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
        with_none = _with_none(given)
        keys = [_key(record, names, with_none) for record in records]
        for i, key in enumerate(keys):
            if all(value is _ABSENT for value in key):
                raise InvalidInput(f"Row {i} has no values. Leave it out.")
            if not _is_hashable(key):
                raise InvalidInput(f"Row {i} holds a list or a dict. Use a name for it.")
        found = dict(given)
        for j, name in enumerate(names):
            column = [key[j] for key in keys if key[j] is not _ABSENT]
            if not column:
                raise InvalidInput(f"Column {name!r} has no values. Leave it out.")
            if name not in given:
                found[name] = _infer(name, column)
        space = cls({name: found[name] for name in names})
        table = _Table(keys, space.parameters, space._axes)
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
                x[j] = _encode(name, self._axes[j], params[name])
        return np.array(x)

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

    def _row(self, params: Mapping[str, Any], table: _Table) -> int:
        key = _key(params, self.names, _with_none(self.parameters))
        try:
            return table.row_of_key[key]
        except (KeyError, TypeError):
            x = np.array(
                [
                    INACTIVE if value is _ABSENT else _nearby(axis, value)
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


def _check_parameters(parameters: Any) -> None:
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


def _clipped(X: ArrayLike) -> Array:
    clipped: Array = np.minimum(np.maximum(X, 0.0), 1.0)
    return clipped
