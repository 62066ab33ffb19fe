"""Coordinates of the cube: the map between the values of a parameter and [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from farthing.errors import InvalidInput
from farthing.space.parameters import (
    INACTIVE,
    NEARLY,
    Categorical,
    Float,
    Int,
    Ordinal,
    Parameter,
    Scale,
    exact,
    is_number,
    plain,
    step_count,
    tick_count,
    to_number,
    to_whole,
)

__all__ = [
    "Axis",
    "Integers",
    "Levels",
    "Line",
    "Steps",
    "axis_of",
    "encode_value",
    "nearby",
    "typed_value",
]

Array: TypeAlias = NDArray[np.float64]
Span: TypeAlias = tuple[float, float]  # two coordinates, and everything between them

MAX = float(np.finfo(float).max)
LOG_MAX = math.log(MAX)
MOST_LEVELS = 1000  # the levels of a number with more values are not listed


class Line:
    """The coordinate of a Float."""

    levels = None

    def __init__(self, parameter: Float) -> None:
        self.parameter = parameter
        self.scale = Scale.over(parameter.low, parameter.high, log=parameter.log)
        self.ticks = tick_count(parameter)

    def encode(self, value: Any) -> float:
        number = to_number(value)
        if not self.parameter.low <= number <= self.parameter.high:
            raise InvalidInput(f"{value!r} is outside {self.parameter}.")
        return self._place(number)

    def decode(self, x: float) -> float:
        """Return the shortest decimal number in the cell of x.

        Let q = 10^-digits be the largest power of ten in the width of the cell. At most one
        multiple of 10 q lies in the cell, and it is the only shorter number there.
        """
        low, high = self.parameter.low, self.parameter.high
        if x in (0.0, 1.0):
            return high if x else low
        t = self.scale.origin + x * self.scale.width
        value = min(max(math.exp(min(t, LOG_MAX)) if self.scale.log else t, low), high)
        if self.ticks == math.inf:
            return value
        wide = self.scale.width * (value if self.scale.log else 1.0)
        cell = min(wide, MAX) / self.ticks
        digits = -math.floor(math.log10(cell))
        for shorter in (_rounded(value, digits - 1), _rounded(value, digits)):
            if low <= shorter <= high and self._place(shorter) == x:
                return shorter
        return value

    def natural(self, x: Array) -> Array:
        values: Array = self.scale.value(x)
        return values

    def span(self, low: float, high: float) -> Span | None:
        """The coordinates of the lowest and the highest value from low to high, if there is one."""
        low, high = max(low, self.parameter.low), min(high, self.parameter.high)
        return (self._place(low), self._place(high)) if low <= high else None

    def _place(self, number: float) -> float:
        t = math.log(number) if self.scale.log else number
        x = (t - self.scale.origin) / self.scale.width
        return x if self.ticks == math.inf else round(x * self.ticks) / self.ticks


def _rounded(value: float, digits: int) -> float:
    """The rounded number, or the number itself if the rounded one is too large for a float."""
    try:
        return round(value, digits)
    except OverflowError:
        return value


class Levels:
    """The coordinate of a parameter with listed values."""

    def __init__(
        self,
        parameter: Parameter,
        *,
        values: Sequence[Any],
        scale: Scale | None,
        levels: Array,
        edges: Array | None = None,  # (k - 1,) between the levels, for `spread`
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
        value = plain(value)
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

    def span(self, low: float, high: float) -> Span | None:
        inside = self.levels[(self.numbers >= low) & (self.numbers <= high)]
        return (float(inside[0]), float(inside[-1])) if len(inside) else None


class Integers:
    """The coordinate of an Int with too many values to list."""

    levels = None

    def __init__(self, parameter: Int, scale: Scale) -> None:
        self.parameter = parameter
        self.scale = scale

    def encode(self, value: Any) -> float:
        whole = to_whole(value)
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
        below = np.floor(value)  # the middle in logs is the geometric mean
        return self._within(below + (value > np.sqrt(below * (below + 1.0))))

    def span(self, low: float, high: float) -> Span | None:
        first = math.ceil(max(low, self.parameter.low))
        last = math.floor(min(high, self.parameter.high))
        return (self.encode(first), self.encode(last)) if first <= last else None

    def _within(self, whole: Array) -> Array:
        return np.minimum(np.maximum(whole, self.parameter.low), self.parameter.high)


class Steps:
    """The coordinate of a number with a step: i / last for the value low + i step."""

    def __init__(self, parameter: Float | Int) -> None:
        self.parameter = parameter
        self.scale = Scale.over(parameter.low, parameter.high, log=False)
        self.last = step_count(parameter)
        self.levels: Array | None = None
        if self.last < MOST_LEVELS:
            self.levels = np.arange(self.last + 1) / self.last
            self.levels.setflags(write=False)
            self.numbers = np.array([self._value(i) for i in range(self.last + 1)], dtype=float)

    def encode(self, value: Any) -> float:
        number = to_number(value)
        i = min(max(round(self._index(number)), 0), self.last)
        if abs(self._index(number) - i) > NEARLY:
            raise InvalidInput(
                f"{value!r} is not a value of {self.parameter}; the nearest is {self._value(i)!r}."
            )
        return i / self.last

    def decode(self, x: float) -> float:
        return self._value(round(x * self.last))

    def snap(self, x: Array) -> Array:
        return np.rint(x * self.last) / self.last

    def spread(self, u: Array) -> Array:
        return np.minimum(np.floor(u * (self.last + 1)), self.last) / self.last

    def natural(self, x: Array) -> Array:
        if self.levels is not None:
            return self.numbers[np.rint(x * self.last).astype(np.int64)]
        values: Array = self.scale.value(self.snap(x))
        return values

    def span(self, low: float, high: float) -> Span | None:
        first = 0 if low == -math.inf else max(math.ceil(self._index(low) - NEARLY), 0)
        last = self.last
        if high < math.inf:
            last = min(math.floor(self._index(high) + NEARLY), last)
        return (first / self.last, last / self.last) if first <= last else None

    def _value(self, i: int) -> float:
        """Value i, computed exactly: 0.3, not 0.30000000000000004."""
        low, step = self.parameter.low, self.parameter.step
        assert step is not None
        return self.parameter.high if i == self.last else type(low)(exact(low) + i * exact(step))

    def _index(self, number: float) -> Fraction:
        assert self.parameter.step is not None
        return (exact(number) - exact(self.parameter.low)) / exact(self.parameter.step)


def axis_of(parameter: Parameter) -> Line | Levels | Integers | Steps:
    """The coordinate of a parameter."""
    match parameter:
        case Float() | Int() if parameter.step is not None:
            return Steps(parameter)
        case Float():
            return Line(parameter)
        case Int(low, high):
            scale = Scale.over(low - 0.5, high + 0.5, log=parameter.log)
            if high - low + 1 > MOST_LEVELS:
                return Integers(parameter, scale)
            numbers = np.arange(low, high + 1, dtype=np.float64)
            return Levels(
                parameter,
                values=range(low, high + 1),
                scale=scale,
                levels=scale.place(numbers),
                edges=scale.place(numbers[:-1] + 0.5),
            )
        case Ordinal(values):
            numeric = parameter.numeric
            numbers = np.array(values if numeric else range(len(values)), dtype=np.float64)
            scale = Scale.over(float(numbers[0]), float(numbers[-1]), log=parameter.log)
            return Levels(
                parameter,
                values=values,
                scale=scale if numeric else None,
                levels=scale.place(numbers),
            )
        case Categorical(options):
            k = len(options)
            return Levels(parameter, values=options, scale=None, levels=(np.arange(k) + 0.5) / k)


Axis: TypeAlias = Line | Levels | Integers | Steps


def encode_value(name: str, axis: Axis, value: Any) -> float:
    """The coordinate of a value, or an error that names the parameter."""
    try:
        return axis.encode(value)
    except InvalidInput as error:
        raise InvalidInput(f"Parameter {name!r}: {error}") from None


def nearby(axis: Axis, value: Any) -> float:
    """The coordinate nearest to a value that need not be valid; the middle if there is none."""
    try:
        return axis.encode(value)
    except InvalidInput:
        if axis.scale is None or not is_number(value):
            return INACTIVE
        return float(axis.scale.place(min(max(value, axis.scale.low), axis.scale.high)))


def typed_value(name: str, axis: Axis, value: Any) -> Any:
    """A number as `decode` returns it: a float for a Float, and exactly a step."""
    if not is_number(plain(value)):
        return value
    if isinstance(axis, Steps):
        return axis.decode(encode_value(name, axis, value))
    return float(value) if isinstance(axis, Line) else value
