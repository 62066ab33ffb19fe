"""The kinds of parameters, and the checks of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from farthing.errors import InvalidInput

__all__ = ["Bool", "Categorical", "Float", "Int", "Kind", "Ordinal", "Parameter"]

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
LARGEST = float(np.finfo(np.float64).max)
Slope: TypeAlias = Literal["increases", "decreases"]  # what a larger value does to the cost

INACTIVE = 0.5  # the coordinate of an inactive parameter
MOST_INTEGERS = 2**40  # with more, neighbouring integers on a log scale share a coordinate
LARGEST_INTEGER = 2**50  # for larger ones v - 1/2 is not a float
TICK = 16 * np.finfo(np.float64).eps  # twice the rounding error of encoding and decoding
FEWEST_TICKS = 1000  # distinguishable values that a Float must have
SMALLEST_NUMBER = 1e-290  # below it the cells of a Float are subnormal numbers
NEARLY = Fraction(1, 10**6)  # of a step: what a rounding error may add to a bound or to a value
TEXTS = {False: ("false", "0", "no"), True: ("true", "1", "yes")}  # in a file or a command


def _describe(parameter: Any) -> str:
    """The call that makes this parameter, without defaults and with long lists cut short."""
    name, shown = type(parameter).__name__, list[str]()
    if is_bool(parameter):
        name = "Bool"
    for entry in fields(parameter):
        value = getattr(parameter, entry.name)
        if value is entry.default or (name == "Bool" and entry.name == "options"):
            continue
        if isinstance(value, tuple):
            items = [repr(item) for item in value[:20]]
            dots = [f"... {len(value)} in all"] if len(value) > len(items) else []
            shown.append(f"[{', '.join(items + dots)}]")
        else:
            shown.append(f"{entry.name}={value!r}")
    return f"{name}({', '.join(shown)})"


class Kind:
    """The base class of the kinds, so that mypy accepts a dict with several of them."""


@dataclass(frozen=True, repr=False)
class Float(Kind):
    """A real number from `low` to `high`, on a log scale if `log`.

    With a `step`, only low, low + step, ..., high: Float(0.1, 0.9, step=0.1).
    """

    low: float
    high: float
    _: KW_ONLY
    log: bool = False
    step: float | None = None
    when: Mapping[str, Any] | None = field(default=None, hash=False)
    cost: Slope | None = None

    __repr__ = _describe

    def __post_init__(self) -> None:
        _normalise_range(self, to_number)
        if min(self.low if self.log else 1.0, self.high - self.low) < SMALLEST_NUMBER:
            raise InvalidInput(
                f"{self}: numbers below {SMALLEST_NUMBER} are too small for floating point. "
                "Use another unit."
            )
        if tick_count(self) < FEWEST_TICKS:
            raise InvalidInput(
                f"{self}: the bounds are too close to distinguish values between them in floating "
                "point. Subtract the offset, or widen the range."
            )
        _normalise_step(self, to_number, tick_count(self))


@dataclass(frozen=True, repr=False)
class Int(Kind):
    """A whole number from `low` to `high`, both included, on a log scale if `log`.

    With a `step`, only low, low + step, ..., high: Int(16, 512, step=16).
    """

    low: int
    high: int
    _: KW_ONLY
    log: bool = False
    step: int | None = None
    when: Mapping[str, Any] | None = field(default=None, hash=False)
    cost: Slope | None = None

    __repr__ = _describe

    def __post_init__(self) -> None:
        _normalise_range(self, to_whole)
        count = self.high if self.log else self.high - self.low + 1
        if max(-self.low, self.high) > LARGEST_INTEGER or count > MOST_INTEGERS:
            raise InvalidInput(
                f"{self}: too many integers to distinguish. Use a Float and round it."
            )
        _normalise_step(self, to_whole, MOST_INTEGERS)


@dataclass(frozen=True, repr=False)
class Ordinal(Kind):
    """Ordered values. Numbers are spaced by their value (its log if `log`), others by rank."""

    values: Sequence[Any]
    _: KW_ONLY
    log: bool = False
    when: Mapping[str, Any] | None = field(default=None, hash=False)
    cost: Slope | None = None

    __repr__ = _describe

    def __post_init__(self) -> None:
        values = _normalise_list(self, "values")
        _normalise_log_and_when(self)
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
                f"{self}: some values are too close to distinguish on this scale. Merge them."
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
        _normalise_list(self, "options")
        _normalise_when(self)


def Bool(*, when: Mapping[str, Any] | None = None) -> Categorical:
    """Return a Categorical with the options False and True."""
    return Categorical((False, True), when=when)


Parameter: TypeAlias = Float | Int | Ordinal | Categorical


def is_bool(parameter: Any) -> bool:
    """Whether this is a Bool: the options are False and True, in this order."""
    options = getattr(parameter, "options", None)  # not yet a tuple in an error message
    return options == (False, True) and all(isinstance(each, bool) for each in options)


def option_of(text: str, options: Iterable[Any]) -> Any:
    """The option that a text represents, such as "true" or "1" for True; else the text."""
    options = tuple(options)
    as_text = [option for option in options if str(option) == text]
    truths = [o for o in options if isinstance(o, bool) and text.strip().lower() in TEXTS[o]]
    return (*as_text, *truths, text)[0]


def checked_parameters(parameters: Any) -> dict[str, Parameter]:
    """The parameters of a space by name."""
    if not isinstance(parameters, Mapping) or not parameters:
        raise InvalidInput('A space needs at least one parameter, such as {"lr": Float(0, 1)}.')
    for name, parameter in parameters.items():
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"{name!r} cannot name a parameter. Use a non-empty string.")
        if not isinstance(parameter, Parameter):
            raise InvalidInput(
                f"Parameter {name!r}: {parameter!r} is not a parameter. "
                "Use a Float, Int, Ordinal, Categorical or Bool."
            )
    return dict(parameters)


def plain(value: Any) -> Any:
    """Convert a numpy scalar to the equivalent Python value."""
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
        raise InvalidInput("all numbers must be finite. Remove infinite and NaN values.")
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
    """Whether a cell of a table is empty: None, NaN, or a missing value of a data frame."""
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


def _set(parameter: Any, name: str, value: Any) -> None:
    object.__setattr__(parameter, name, value)


def _normalise_when(parameter: Any) -> None:
    when = parameter.when
    if when is None:
        return
    if not isinstance(when, Mapping) or not when:
        raise InvalidInput(
            f"{parameter}: `when` must map the name of a parameter to one or more of its values, "
            'such as {"solver": "sgd"}.'
        )
    _set(parameter, "when", dict(when))


def _normalise_log_and_when(parameter: Any) -> None:
    if not isinstance(parameter.log, bool | np.bool_):
        raise InvalidInput(f"{parameter}: log must be True or False.")
    _set(parameter, "log", bool(parameter.log))
    if parameter.cost not in (None, "increases", "decreases"):
        raise InvalidInput(
            f"{parameter}: cost must be 'increases' or 'decreases', which is what a larger value "
            "does to the cost. Leave it out if you do not know."
        )
    _normalise_when(parameter)


def _normalise_range(parameter: Any, check: Callable[[Any], Any]) -> None:
    low = _checked(check, parameter, parameter.low)
    high = _checked(check, parameter, parameter.high)
    _normalise_log_and_when(parameter)
    if low >= high:
        raise InvalidInput(f"{parameter}: low must be less than high. Swap or widen the bounds.")
    if parameter.log and low <= 0:
        smallest = "1" if check is to_whole else "1e-6"
        raise InvalidInput(
            f"{parameter}: a log scale needs low > 0. "
            f"Use a small positive bound such as {smallest}."
        )
    _check_width(parameter, high - low)
    _set(parameter, "low", low)
    _set(parameter, "high", high)


def exact(number: float) -> Fraction:
    """The decimal number that is shown: 1/10 for 0.1."""
    return Fraction(repr(number))


def step_count(parameter: Any) -> int:
    """The number of steps from `low` to `high`."""
    return round((exact(parameter.high) - exact(parameter.low)) / exact(parameter.step))


def _normalise_step(parameter: Any, check: Callable[[Any], Any], most: float) -> None:
    if parameter.step is None:
        return
    step = _checked(check, parameter, parameter.step)
    if step <= 0:
        raise InvalidInput(f"{parameter}: step must be positive.")
    if parameter.log:
        raise InvalidInput(
            f"{parameter}: step and log exclude each other, because equal steps are not equally "
            "far apart on a log scale. Leave one of them out, or list the values: "
            "Ordinal([...], log=True)."
        )
    low, kind = exact(parameter.low), type(parameter.low)
    steps = (exact(parameter.high) - low) / exact(step)
    count = round(steps)
    if count < 1 or abs(steps - count) > NEARLY:
        below, above = (kind(low + i * exact(step)) for i in (math.floor(steps), math.ceil(steps)))
        ends = f"{below!r} or {above!r}" if below > parameter.low else f"{above!r}"
        raise InvalidInput(
            f"{parameter}: high is not a whole number of steps above low. Use {ends} for high."
        )
    if count >= min(most, MOST_INTEGERS):
        raise InvalidInput(f"{parameter}: too many steps to distinguish. Leave step out.")
    # A computed bound such as 3 * 0.1 may have a rounding error, and so may a step such as 1 / 3.
    computed = kind(low + count * exact(step))
    _set(parameter, "high", min(parameter.high, computed, key=lambda end: len(repr(end))))
    _set(parameter, "step", None if kind is int and step == 1 else step)


def _check_width(parameter: Any, width: float) -> None:
    if not abs(width) <= LARGEST:  # an integer may be too large for a float
        raise InvalidInput(f"{parameter}: the range is wider than a float can hold. Narrow it.")


def _normalise_list(parameter: Any, name: str) -> tuple[Any, ...]:
    given = getattr(parameter, name)
    if isinstance(given, str | bytes | Mapping | AbstractSet) or not isinstance(given, Iterable):
        raise InvalidInput(f"{parameter}: {name} must be a list, in a fixed order.")
    values = tuple(plain(value) for value in given)
    _set(parameter, name, values)
    if not values:
        raise InvalidInput(f"{parameter}: {name} must not be empty. Give at least one.")
    for value in values:
        if not is_hashable(value) or value != value:
            raise InvalidInput(
                f"{parameter}: {value!r} cannot be compared. Use a name for it, such as a string."
            )
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
        """The coordinate of a value or of an array of values."""
        if self.width == 0.0:
            return value * 0.0 + INACTIVE
        return ((np.log(value) if self.log else value) - self.origin) / self.width

    def value(self, x: Any) -> Any:
        """The value at a coordinate or at an array of coordinates, clipped to the bounds."""
        t = self.origin + x * self.width
        return np.minimum(np.maximum(np.exp(t) if self.log else t, self.low), self.high)


def tick_count(parameter: Float) -> float:
    """The number of cells of a Float, a power of two; infinite if the map is exact.

    Encoding and decoding err by less than 8 eps max(1, largest t / width), which is half a tick.
    """
    low, high, log = parameter.low, parameter.high, parameter.log
    if low == 0.0 and math.frexp(high)[0] == 0.5:
        return math.inf
    scale = Scale.over(low, high, log=log)
    largest = max(abs(scale.origin), abs(scale.origin + scale.width), 1.0 if log else 0.0)
    error = TICK * max(1.0, largest / scale.width) if scale.width > 0 else 1.0
    return 2.0 ** math.floor(-math.log2(error))
