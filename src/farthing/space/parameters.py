"""The four kinds of parameter, and what a value of each must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from farthing.errors import InvalidInput

__all__ = ["Categorical", "Float", "Int", "Kind", "Ordinal", "Parameter"]

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
LARGEST = float(np.finfo(np.float64).max)
Slope: TypeAlias = Literal["increases", "decreases"]  # what the cost does where the value grows

INACTIVE = 0.5  # the coordinate of a parameter that is not there
MOST_INTEGERS = 2**40  # beyond, neighbouring integers on a log scale share a coordinate
LARGEST_INTEGER = 2**50  # beyond, v - 1/2 is no longer a float
TICK = 16 * np.finfo(np.float64).eps  # twice the rounding error of a trip to the cube and back
FEWEST_TICKS = 1000  # a Float must have at least so many distinguishable values
SMALLEST_NUMBER = 1e-290  # below, the cells of a Float scale fall into the subnormal numbers


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


class Kind:
    """What the four have in common: to mypy, a dict that holds several of them is one of these."""


@dataclass(frozen=True, repr=False)
class Float(Kind):
    """A real number from `low` to `high`, on a log scale if `log`."""

    low: float
    high: float
    _: KW_ONLY
    log: bool = False
    when: Mapping[str, Any] | None = field(default=None, hash=False)
    cost: Slope | None = None

    __repr__ = _describe

    def __post_init__(self) -> None:
        _settle_range(self, to_number)
        if min(self.low if self.log else 1.0, self.high - self.low) < SMALLEST_NUMBER:
            raise InvalidInput(
                f"{self}: numbers below {SMALLEST_NUMBER} cannot be told apart here. "
                "Use another unit."
            )
        if tick_count(self) < FEWEST_TICKS:
            raise InvalidInput(
                f"{self}: the bounds are too close for floating point to tell values between them "
                "apart. Subtract the offset, or widen the range."
            )


@dataclass(frozen=True, repr=False)
class Int(Kind):
    """A whole number from `low` to `high`, both included, on a log scale if `log`."""

    low: int
    high: int
    _: KW_ONLY
    log: bool = False
    when: Mapping[str, Any] | None = field(default=None, hash=False)
    cost: Slope | None = None

    __repr__ = _describe

    def __post_init__(self) -> None:
        _settle_range(self, to_whole)
        count = self.high if self.log else self.high - self.low + 1
        if max(-self.low, self.high) > LARGEST_INTEGER or count > MOST_INTEGERS:
            raise InvalidInput(
                f"{self}: too many integers to tell apart. Use a Float and round it."
            )


@dataclass(frozen=True, repr=False)
class Ordinal(Kind):
    """Values in order: numbers sit by their value (its log if `log`), others evenly by rank."""

    values: Sequence[Any]
    _: KW_ONLY
    log: bool = False
    when: Mapping[str, Any] | None = field(default=None, hash=False)
    cost: Slope | None = None

    __repr__ = _describe

    def __post_init__(self) -> None:
        values = _settle_list(self, "values")
        _settle_log_and_when(self)
        if not self.numeric:
            if self.log:
                raise InvalidInput(f"{self}: a log scale needs numbers. Leave log out.")
            return
        numbers = _checked(to_numbers, self, values)
        if (numbers[1:] <= numbers[:-1]).any():
            raise InvalidInput(f"{self}: numbers must increase strictly. Sort them.")
        if self.log and numbers[0] <= 0:
            raise InvalidInput(
                f"{self}: a log scale needs values > 0. Leave log out, or drop the value."
            )
        scale = Scale.over(float(numbers[0]), float(numbers[-1]), log=self.log)
        _check_width(self, scale.width)
        if not (np.diff(scale.place(numbers)) > 0).all():
            raise InvalidInput(
                f"{self}: some values are too close to tell apart on this scale. Merge them."
            )

    @property
    def numeric(self) -> bool:
        """Whether every value is a number (a bool is not)."""
        return are_numbers(self.values)


@dataclass(frozen=True, repr=False)
class Categorical(Kind):
    """One of several options without an order."""

    options: Sequence[Any]
    _: KW_ONLY
    when: Mapping[str, Any] | None = field(default=None, hash=False)

    __repr__ = _describe

    def __post_init__(self) -> None:
        _settle_list(self, "options")
        _settle_when(self)


Parameter: TypeAlias = Float | Int | Ordinal | Categorical


def plain(value: Any) -> Any:
    """Turn a numpy scalar into the Python value it holds."""
    return value.item() if isinstance(value, np.generic) else value


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_numbers(values: Iterable[Any]) -> bool:
    kinds = set(map(type, values))
    return all(issubclass(kind, int | float) and kind is not bool for kind in kinds)


def to_numbers(values: Sequence[Any]) -> Array:
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        numbers = np.array([to_number(value) for value in values])
    if not np.isfinite(numbers).all():
        raise InvalidInput("all numbers must be finite. Remove the others.")
    return numbers


def to_number(value: Any) -> float:
    value = plain(value)
    if not is_number(value):
        raise InvalidInput(f"{value!r} is not a number. Give an int or a float.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInput(f"{value!r} is not finite. Give a finite number.")
    return number


def to_whole(value: Any) -> int:
    value = plain(value)
    if not is_number(value) or value != value or value in (math.inf, -math.inf):
        raise InvalidInput(f"{value!r} is not a whole number. Give an int.")
    if value != int(value):
        raise InvalidInput(f"{value!r} is not a whole number. Give an int, or use a Float.")
    return int(value)


def is_absent(value: Any) -> bool:
    """Whether a table's cell is empty: None, NaN, or the markers data frames use for them."""
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def is_hashable(value: Any) -> bool:
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
    if parameter.cost not in (None, "increases", "decreases"):
        raise InvalidInput(
            f"{parameter}: cost says what a growing value does to it, 'increases' or 'decreases'. "
            "Leave it out where you do not know."
        )
    _settle_when(parameter)


def _settle_range(parameter: Any, check: Callable[[Any], Any]) -> None:
    low = _checked(check, parameter, parameter.low)
    high = _checked(check, parameter, parameter.high)
    _settle_log_and_when(parameter)
    if low >= high:
        raise InvalidInput(f"{parameter}: low must be less than high. Swap or widen the bounds.")
    if parameter.log and low <= 0:
        smallest = "1" if check is to_whole else "1e-6"
        raise InvalidInput(
            f"{parameter}: a log scale needs low > 0. "
            f"Use a small positive bound such as {smallest}."
        )
    _check_width(parameter, high - low)
    _settle(parameter, "low", low)
    _settle(parameter, "high", high)


def _check_width(parameter: Any, width: float) -> None:
    if not abs(width) <= LARGEST:  # which may be a whole number that no float can hold
        raise InvalidInput(f"{parameter}: the range is wider than a float can hold. Narrow it.")


def _settle_list(parameter: Any, name: str) -> tuple[Any, ...]:
    given = getattr(parameter, name)
    if isinstance(given, str | bytes | Mapping | AbstractSet) or not isinstance(given, Iterable):
        raise InvalidInput(f"{parameter}: {name} must be a list, in a fixed order.")
    values = tuple(plain(value) for value in given)
    _settle(parameter, name, values)
    if not values:
        raise InvalidInput(f"{parameter}: {name} must not be empty. Give at least one.")
    for value in values:
        if not is_hashable(value) or value != value:
            raise InvalidInput(f"{parameter}: {value!r} cannot be compared. Use a name for it.")
    if len(set(values)) < len(values):
        raise InvalidInput(f"{parameter}: {name} must all be different. Remove the duplicates.")
    return values


@dataclass(frozen=True)
class Scale:
    """x = (t(v) - origin) / width, with t the identity or the natural logarithm."""

    low: float
    high: float
    log: bool
    origin: float
    width: float

    @classmethod
    def over(cls, low: float, high: float, *, log: bool) -> Scale:
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


def tick_count(parameter: Float) -> float:
    """The number of cells of a Float, a power of two; infinite where the map is exact.

    A trip to the cube and back errs by less than 8 eps max(1, largest t / width), half a tick.
    """
    low, high, log = parameter.low, parameter.high, parameter.log
    if low == 0.0 and math.frexp(high)[0] == 0.5:
        return math.inf
    scale = Scale.over(low, high, log=log)
    largest = max(abs(scale.origin), abs(scale.origin + scale.width), 1.0 if log else 0.0)
    error = TICK * max(1.0, largest / scale.width) if scale.width > 0 else 1.0
    return 2.0 ** math.floor(-math.log2(error))
