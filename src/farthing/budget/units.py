"""Parse and format amounts: `"2h, $40"` -> limits, and 125.0 s -> `2 m 05 s`.

Resources have canonical names: `s` (wall clock), `worker_s` (compute, summed over workers), `usd`,
`eur`, `gbp`, `kWh`, `trials`, and `cost` for a plain number. Any other name is its own resource.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType

from farthing.errors import InvalidInput

__all__ = ["Budget", "check_worth", "format_amount", "one_more", "worth_of"]


def one_more(resource: str | None) -> str:
    """One unit of a resource in a sentence: `one more second`. None means an evaluation."""
    if resource is None:
        return "one more evaluation"
    names = {"s": "second", "worker_s": "second of worker time", "cost": "unit of cost"}
    names |= {"usd": "dollar", "eur": "euro", "gbp": "pound"}
    return f"one more {names.get(resource, resource)}"


_TIME = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}


_JOULES_PER_KWH = 3.6e6


_ENERGY = {
    "Wh": 1e-3,
    "kWh": 1.0,
    "MWh": 1e3,
    "J": 1 / _JOULES_PER_KWH,
    "kJ": 1e3 / _JOULES_PER_KWH,
    "MJ": 1e6 / _JOULES_PER_KWH,
}


_SIGNS = {"$": "usd", "€": "eur", "£": "gbp"}


# Unit -> (resource, size of the unit in the resource). Spelling is exact: mWh is not MWh.
_UNITS: Mapping[str, tuple[str, float]] = {
    **{unit: ("s", size) for unit, size in _TIME.items()},
    **{f"worker_{unit}": ("worker_s", size) for unit, size in _TIME.items()},
    **{unit: ("kWh", size) for unit, size in _ENERGY.items()},
    **dict.fromkeys(("$", "usd", "USD", "dollar", "dollars"), ("usd", 1.0)),
    **dict.fromkeys(("€", "eur", "EUR", "euro", "euros"), ("eur", 1.0)),
    **dict.fromkeys(("£", "gbp", "GBP", "pound", "pounds"), ("gbp", 1.0)),
    **dict.fromkeys(("trial", "trials"), ("trials", 1.0)),
    "cost": ("cost", 1.0),
}


_KNOWN = (
    "ms, s, m, h, d, worker_s, worker_h, $, €, £, usd, eur, gbp, Wh, kWh, MWh, J, kJ, MJ, trials"
)


_EXAMPLES = 'Write for example "2h", "1h30m", "$40", "1.5kWh", "30 trials" or "2h, $40"'


_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"


_QUANTITY = re.compile(rf"\s*(?:([$€£])\s*({_NUMBER})|({_NUMBER})\s*([^\W\d]+|[$€£])?)\s*")


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """A limit for each resource: `"2h"`, `"2h, $40"`, `(40, "usd")`, `40`, `{"s": 3600, "usd": 5}`.

    Raises:
        InvalidInput: the text cannot be parsed, a unit in it is unknown, a limit is not a positive
            finite number, trials are not whole, or a resource occurs twice.
    """

    _items: tuple[tuple[str, float], ...]  # a tuple, so that a budget is hashable and pickles

    def __init__(
        self, limit: str | float | Mapping[str, float] | Budget, unit: str | None = None
    ) -> None:
        if unit is not None and (isinstance(limit, bool) or not isinstance(limit, Real)):
            raise InvalidInput(
                f"Budget({limit!r}, {unit!r}): a unit goes with a plain number. "
                'Write for example Budget(40, "usd") or Budget("$40").'
            )
        if isinstance(limit, Budget):
            items = limit._items
        elif isinstance(limit, str):
            items = _parse(limit)
        elif isinstance(limit, Mapping):
            items = tuple(_explicit(value, key) for key, value in limit.items())
        else:
            items = (_explicit(limit, "cost" if unit is None else unit),)
        object.__setattr__(self, "_items", _checked(items, limit))

    @property
    def limits(self) -> Mapping[str, float]:
        """The limit of each resource, in canonical units. The first resource is the primary one."""
        return MappingProxyType(dict(self._items))

    @property
    def resource(self) -> str:
        """The primary resource, which is named first."""
        return self._items[0][0]

    def __str__(self) -> str:
        return ", ".join(_limit_text(resource, limit) for resource, limit in self._items)

    def __repr__(self) -> str:
        known = all(resource in _UNITS for resource in self.limits)
        return f"Budget({str(self) if known else dict(self._items)!r})"


def worth_of(worth: str | float, resource: str) -> float:
    """Objective units per one unit of `resource`: a number, or `"0.01 = $20"` -> 0.01/20."""
    what = f"worth={worth!r}"
    advice = f"Give objective units per unit of {resource}, or a text such as worth='0.01 = $20'"
    if not isinstance(worth, str):
        return _positive(worth, what, advice)
    value, equals, price = worth.partition("=")
    if not equals or re.fullmatch(_NUMBER, value.strip()) is None:
        raise InvalidInput(
            f"{what}: expected a number, or a text of the form 'NUMBER = PRICE'. {advice}."
        )
    limits = Budget(price.strip()).limits
    if tuple(limits) != (resource,):
        raise InvalidInput(
            f"{what}: the price is in {' and '.join(limits)}, but the cost is measured in "
            f"{resource}. Give the price in {resource}, or objective units per unit of it."
        )
    return _positive(_positive(float(value), what, advice) / limits[resource], what, advice)


def check_worth(worth: object, owner: str) -> None:
    """Check the exchange rate of a policy or a rule; None is valid."""
    if worth is not None:
        advice = (
            "worth is the number of objective units that one unit of cost is worth. Pass a text "
            "such as '0.01 = $20' to Optimizer(worth=...) instead"
        )
        _positive(worth, f"{owner}(worth={worth!r})", advice)


def format_amount(resource: str, amount: float) -> str:
    """An amount as text: `85 ms`, `2 m 05 s`, `$3.42`, `7 trials`, `3.42 kWh`."""
    if amount < 0:
        return "-" + format_amount(resource, -amount)
    if math.isinf(amount):
        return "unlimited"
    if resource in ("s", "worker_s"):
        return _duration(amount) + (" of worker time" if resource == "worker_s" else "")
    if resource in _SIGNS.values():
        sign = next(sign for sign, name in _SIGNS.items() if name == resource)
        if not 0 < amount < 0.0995:
            return sign + f"{amount:,.2f}"
        # Below ten cents keep two digits, so that 0.014 is not shown as 0.01.
        return sign + f"{amount:.{1 - math.floor(math.log10(amount))}f}".rstrip("0")
    if resource == "trials":
        return f"{amount:,.0f} trial{'' if amount == 1 else 's'}"
    short = f"{amount:,.0f}" if 100 <= amount < 1e6 else f"{amount:.3g}"
    return short if resource == "cost" else f"{short} {resource}"


def _parse(text: str) -> tuple[tuple[str, float], ...]:
    """Parse limits that are separated by commas. Each has one or more quantities (`1h 30m`)."""
    if re.search(r"[0-9],[0-9]", text):
        raise InvalidInput(
            f"{text!r}: a number must not contain a comma, because commas separate limits. "
            "Write 1500 for one number, or put a space after the comma."
        )
    return tuple(_parse_one(part, text) for part in text.split(","))


def _parse_one(part: str, text: str) -> tuple[str, float]:
    if part.lstrip().startswith("+"):
        raise InvalidInput(
            f"{text!r} is a change, not a budget. Write the amounts without signs, or change the "
            f"budget of a study with study.change(budget={text!r})."
        )
    found: dict[str, float] = {}  # unit -> amount in its resource
    resources: set[str] = set()
    position = 0
    while position < len(part) or not found:
        match = _QUANTITY.match(part, position)
        if match is None:
            raise InvalidInput(f"{text!r} is not a budget. {_EXAMPLES}.")
        position = match.end()
        number, unit = match[2] or match[3], match[1] or match[4] or "cost"
        if unit not in _UNITS:
            raise InvalidInput(
                f"{text!r}: unknown unit {unit!r}. Known units are {_KNOWN}. "
                f"For a unit of your own write Budget({number}, {unit!r})."
            )
        resource, size = _UNITS[unit]
        if unit in found or resources - {resource}:
            raise InvalidInput(f"{text!r}: separate limits by a comma. {_EXAMPLES}.")
        found[unit] = _positive(float(number), repr(text)) * size
        resources.add(resource)
    return resources.pop(), math.fsum(found.values())


def _explicit(value: object, unit: object) -> tuple[str, float]:
    """One limit with an explicit unit. An unknown unit is a new resource."""
    what = f"Budget({value!r})" if unit == "cost" else f"Budget({value!r}, {unit!r})"
    amount = _positive(value, what)
    if not isinstance(unit, str) or not (unit in _UNITS or unit.isidentifier()):
        raise InvalidInput(
            f"{what}: a unit must be a single word. Use one of {_KNOWN}, or a name such as "
            "'credits'."
        )
    if unit in _UNITS:
        resource, size = _UNITS[unit]
        return resource, amount * size
    alike = [known for known in _UNITS if known.casefold() == unit.casefold()]
    if alike:
        raise InvalidInput(f"{what}: unknown spelling of a unit. Did you mean {alike[0]!r}?")
    return unit, amount


def _checked(items: tuple[tuple[str, float], ...], given: object) -> tuple[tuple[str, float], ...]:
    what = f"Budget({given!r})"
    if not items:
        raise InvalidInput(f"{what}: there is no limit. {_EXAMPLES}.")
    for index, (resource, limit) in enumerate(items):
        _positive(limit, what)  # the conversion of a unit may overflow
        if resource in (name for name, _ in items[:index]):
            raise InvalidInput(f"{what}: {resource} is limited twice. Give each resource once.")
        if resource == "trials" and limit != int(limit):
            raise InvalidInput(
                f"{what}: trials must be whole. Use a number such as {int(limit) + 1}."
            )
    return items


def _positive(value: object, what: str, advice: str = _EXAMPLES) -> float:
    number = _finite(value)
    if number is None or number <= 0:
        raise InvalidInput(f"{what}: expected a positive, finite number. {advice}.")
    return number


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer too large for a float
        return None
    return number if math.isfinite(number) else None


def _limit_text(resource: str, limit: float) -> str:
    """A limit as text that parses to exactly the same limit."""
    plain = repr(limit).removesuffix(".0")
    if resource == "cost":
        return plain
    for sign, name in _SIGNS.items():
        if name == resource:
            return sign + plain
    if resource == "kWh":
        return f"{plain}kWh"
    if resource != "s":
        return f"{plain} {resource}"
    if limit != int(limit) or limit > 1e9:
        return f"{plain}s"
    minutes, seconds = divmod(int(limit), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)


def _duration(seconds: float) -> str:
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:  # at three digits this is still below 1000 ms
        return f"{1e3 * seconds:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 3599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} m {rest:02d} s"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {rest:02d} m"
