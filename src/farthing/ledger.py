"""What may be spent, what was spent, and what is held for trials that are still running.

Every account keeps `spent + reserved + left = limit`; every event returns a new `Ledger`.
Resources have canonical names: `s` (wall clock), `worker_s` (compute, summed over workers), `usd`,
`eur`, `gbp`, `kWh`, `trials`, and `cost` for a plain number; any other name is its own resource.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from types import MappingProxyType

from farthing.errors import InvalidInput

__all__ = ["Account", "Budget", "Ledger", "check_worth", "format_amount", "worth_of"]

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

# Unit -> (resource, how many of the resource one unit is). Spelling is exact: mWh is not MWh.
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
    """What may be spent: `"2h"`, `"2h, $40"`, `(40, "usd")`, `40`, `{"s": 3600, "usd": 5}`.

    Raises:
        InvalidInput: unparsable, an unknown unit inside a sentence, a limit that is not a positive
            finite number, a part of a trial, or the same resource twice.
    """

    _items: tuple[tuple[str, float], ...]  # a tuple, so that a budget is hashable and pickles

    def __init__(
        self, limit: "str | float | Mapping[str, float] | Budget", unit: str | None = None
    ) -> None:
        if unit is not None and (isinstance(limit, bool) or not isinstance(limit, Real)):
            raise InvalidInput(
                f"Budget({limit!r}, {unit!r}): a unit goes with a plain number. "
                'Write for example Budget(40, "usd"), or the sentence alone.'
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
        """Limit of each resource, in canonical units; the first resource is the primary one."""
        return MappingProxyType(dict(self._items))

    @property
    def resource(self) -> str:
        """The primary resource: the first one named."""
        return self._items[0][0]

    def __str__(self) -> str:
        return ", ".join(_limit_text(resource, limit) for resource, limit in self._items)

    def __repr__(self) -> str:
        known = all(resource in _UNITS for resource in self.limits)
        return f"Budget({str(self) if known else dict(self._items)!r})"


def worth_of(worth: str | float, resource: str) -> float:
    """Objective units per one unit of `resource`: a number, or `"0.01 = $20"` -> 0.01/20."""
    what = f"worth={worth!r}"
    advice = f"Give objective units per one unit of {resource}, or for example worth='0.01 = $20'"
    if not isinstance(worth, str):
        return _positive(worth, what, advice)
    value, equals, price = worth.partition("=")
    if not equals or re.fullmatch(_NUMBER, value.strip()) is None:
        raise InvalidInput(f"{what}: expected a number, or a number = its price. {advice}.")
    limits = Budget(price.strip()).limits
    if tuple(limits) != (resource,):
        raise InvalidInput(
            f"{what}: the price is in {' and '.join(limits)}, but the cost is counted in "
            f"{resource}. Write it in {resource}, or give objective units per one unit of it."
        )
    return _positive(_positive(float(value), what, advice) / limits[resource], what, advice)


def check_worth(worth: object, owner: str) -> None:
    """Refuse what is no exchange rate of a policy or a rule; None is none."""
    if worth is not None:
        advice = (
            "worth is a positive number, the objective units that one unit of cost is worth; a "
            "sentence such as '0.01 = $20' goes to Optimizer(worth=...)"
        )
        _positive(worth, f"{owner}(worth={worth!r})", advice)


def format_amount(resource: str, amount: float) -> str:
    """An amount in a person's words: `85 ms`, `2 m 05 s`, `$3.42`, `7 trials`, `3.42 kWh`."""
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
        # Below ten cents two digits: 0.014 is not 0.01.
        return sign + f"{amount:.{1 - math.floor(math.log10(amount))}f}".rstrip("0")
    if resource == "trials":
        return f"{amount:,.0f} trial{'' if amount == 1 else 's'}"
    short = f"{amount:,.0f}" if 100 <= amount < 1e6 else f"{amount:.3g}"
    return short if resource == "cost" else f"{short} {resource}"


@dataclass(frozen=True)
class Account:
    """One resource: `spent + reserved + left = limit`."""

    limit: float  # inf: unlimited
    spent: float = 0.0
    reserved: float = 0.0
    thinking: float = 0.0  # the part of `spent` that was our own thought

    @property
    def left(self) -> float:
        """What may still be promised; negative after an overrun, because what was paid was paid."""
        return self.limit - (self.spent + self.reserved)


@dataclass(frozen=True)
class Ledger:
    """The accounts of one study, and what each running trial holds."""

    _accounts: tuple[tuple[str, Account], ...]
    _holds: tuple[tuple[int, tuple[tuple[str, float], ...]], ...] = ()

    @classmethod
    def of(cls, budget: Budget | None) -> "Ledger":
        """The ledger before the first trial; where only trials are limited, or nothing is, costs
        go to an unlimited account `cost`.
        """
        limits = {} if budget is None else dict(budget.limits)
        if not set(limits) - {"trials"}:
            limits["cost"] = math.inf
        return cls(tuple((resource, Account(limit)) for resource, limit in limits.items()))

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the accounts, the primary one first."""
        return tuple(resource for resource, _ in self._accounts)

    def __getitem__(self, resource: str) -> Account:
        for name, account in self._accounts:
            if name == resource:
                return account
        raise InvalidInput(
            f"No account {resource!r}: this ledger has {', '.join(self.resources)}. "
            "Use one of these names, or put a limit on it in the budget."
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.resources)

    def __contains__(self, resource: object) -> bool:
        return resource in self.resources

    @property
    def limit(self) -> float:
        """Limit of the primary resource."""
        return self._accounts[0][1].limit

    @property
    def spent(self) -> float:
        """Paid so far, of the primary resource."""
        return self._accounts[0][1].spent

    @property
    def reserved(self) -> float:
        """Held for running trials, of the primary resource."""
        return self._accounts[0][1].reserved

    @property
    def left(self) -> float:
        """Neither paid nor held, of the primary resource."""
        return self._accounts[0][1].left

    @property
    def thinking(self) -> float:
        """Our own thought, of the primary resource."""
        return self._accounts[0][1].thinking

    @property
    def used_up(self) -> tuple[str, ...]:
        """The resources that buy nothing more: less than a trial, or a billionth of the limit."""
        return tuple(
            name
            for name, account in self._accounts
            if math.isfinite(account.limit)
            and account.left < (1.0 if name == "trials" else 1e-9 * account.limit)
        )

    @property
    def priced(self) -> tuple[str, ...]:
        """The limited resources that a trial has a price in: all but trials, which are counted."""
        return tuple(
            name
            for name, account in self._accounts
            if math.isfinite(account.limit) and name != "trials"
        )

    @property
    def used(self) -> float:
        """The share of the scarcest limit that is paid or held; 0 where nothing is limited."""
        limited = (account for _, account in self._accounts if math.isfinite(account.limit))
        return max(((a.spent + a.reserved) / a.limit for a in limited), default=0.0)

    @property
    def spent_share(self) -> float:
        """The share of the scarcest limit that is paid; 0 where nothing is limited."""
        limited = (account for _, account in self._accounts if math.isfinite(account.limit))
        return max((account.spent / account.limit for account in limited), default=0.0)

    @property
    def holds(self) -> Mapping[int, Mapping[str, float]]:
        """What each running trial holds."""
        return {number: dict(held) for number, held in self._holds}

    def held(self, number: int) -> Mapping[str, float]:
        """What trial `number` holds; empty when it holds nothing."""
        return MappingProxyType(dict(dict(self._holds).get(number, ())))

    def reserve(self, number: int, amounts: Mapping[str, float]) -> "Ledger":
        """Hold `amounts` for trial `number`, which starts now."""
        if self._holding(number):
            raise InvalidInput(
                f"Trial {number} already holds a reservation. Extend it, or charge it."
            )
        return self._after({**dict(self._holds), number: self._whole_trial(amounts)})

    def extend(self, number: int, amounts: Mapping[str, float]) -> "Ledger":
        """Hold `amounts` more for trial `number`, which is running."""
        self._require_hold(number)
        held, more = self.held(number), self._amounts(amounts)
        total = {name: held.get(name, 0.0) + more.get(name, 0.0) for name in {**held, **more}}
        return self._after({**dict(self._holds), number: tuple(total.items())})

    def charge(self, number: int | None, amounts: Mapping[str, float]) -> "Ledger":
        """Pay `amounts`; whatever `number` held is released in the same step.

        Args:
            number: The trial, or None for an evaluation made elsewhere, for which nothing was held.
            amounts: What was really used. More than was held or is left is still paid.
        """
        holds = {trial: held for trial, held in self._holds if trial != number}
        paid = dict(self._whole_trial(amounts))
        return self._after(holds, spent=paid)

    def release(self, number: int) -> "Ledger":
        """Give back whatever `number` held: it was never begun."""
        return self._after({trial: held for trial, held in self._holds if trial != number})

    def think(self, seconds: float) -> "Ledger":
        """Pay for our own thought, which only an account in seconds can feel."""
        paid = {"s": _amount(seconds, "think")}
        return self._after(dict(self._holds), spent=paid, thinking=paid) if "s" in self else self

    def pay(
        self, amounts: Mapping[str, float], *, thinking: Mapping[str, float] = MappingProxyType({})
    ) -> "Ledger":
        """Pay what belongs to no hold: time that passes for everybody, a bill that came late.

        Args:
            amounts: What was used.
            thinking: The part of it that was our own thought.
        """
        paid, thought = self._amounts(amounts), self._amounts(thinking)
        return self._after(dict(self._holds), spent=paid, thinking=thought)

    def limited(self, budget: Budget | None, counted: Mapping[str, Account]) -> "Ledger":
        """The same accounts under other limits; one without a limit is kept for what was spent.

        Args:
            budget: What may be spent in all, with what was spent already.
            counted: What is known of resources that had no account until now.
        """
        known, limits = dict(self._accounts), Ledger.of(budget)
        accounts = {
            name: replace(known.get(name) or counted.get(name, limits[name]), limit=account.limit)
            for name, account in limits._accounts
        }
        for name, account in known.items():
            if name not in accounts and (account.spent or account.reserved):
                accounts[name] = replace(account, limit=math.inf)
        # A running trial is one trial, also where they are counted only from now on.
        one = {"trials": 1.0} if "trials" in accounts else {}
        holds = {number: tuple({**one, **dict(held)}.items()) for number, held in self._holds}
        return Ledger(tuple(accounts.items()))._after(holds)

    def _holding(self, number: int) -> bool:
        return any(trial == number for trial, _ in self._holds)

    def _require_hold(self, number: int) -> None:
        if not self._holding(number):
            raise InvalidInput(f"Trial {number} holds nothing. Reserve for it first.")

    def _amounts(self, amounts: Mapping[str, float]) -> dict[str, float]:
        limited = self.priced
        for resource in amounts:
            if resource == "trials":
                raise InvalidInput(
                    'Amounts {"trials": ...}: trials are counted here. Leave it out.'
                )
            if limited and resource not in self:
                raise InvalidInput(
                    f"{resource!r} is not in the budget, which limits {', '.join(self.resources)}. "
                    "Give the cost in these, or put a limit on it in the budget."
                )
        return {resource: _amount(amount, resource) for resource, amount in amounts.items()}

    def _whole_trial(self, amounts: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
        counted = {"trials": 1.0} if "trials" in self else {}
        return tuple({**self._amounts(amounts), **counted}.items())

    def _after(
        self,
        holds: Mapping[int, tuple[tuple[str, float], ...]],
        *,
        spent: Mapping[str, float] = MappingProxyType({}),
        thinking: Mapping[str, float] = MappingProxyType({}),
    ) -> "Ledger":
        # Reserved is summed anew, not added to and subtracted from: all released is exactly 0.
        amounts = [dict(held) for held in holds.values()]
        accounts = dict(self._accounts)
        for resource in (name for part in (*amounts, spent) for name in part):
            # Only a ledger without limits gets here with a new name: it keeps account of it, too.
            accounts.setdefault(resource, Account(math.inf))
        return Ledger(
            tuple(
                (
                    resource,
                    replace(
                        account,
                        spent=account.spent + spent.get(resource, 0.0),
                        thinking=account.thinking + thinking.get(resource, 0.0),
                        reserved=math.fsum(held.get(resource, 0.0) for held in amounts),
                    ),
                )
                for resource, account in accounts.items()
            ),
            tuple(holds.items()),
        )


def _parse(text: str) -> tuple[tuple[str, float], ...]:
    """The limits of a sentence: comma-separated, each of one or more quantities (`1h 30m`)."""
    if re.search(r"[0-9],[0-9]", text):
        raise InvalidInput(
            f"{text!r}: a comma separates two limits, so it cannot stand inside a number. "
            "Write 1500 for one number, or put a space after the comma."
        )
    return tuple(_parse_one(part, text) for part in text.split(","))


def _parse_one(part: str, text: str) -> tuple[str, float]:
    found: dict[str, float] = {}  # unit -> amount in its resource
    resources: set[str] = set()
    position = 0
    while position < len(part) or not found:
        match = _QUANTITY.match(part, position)
        if match is None:
            raise InvalidInput(f"{text!r} is no amount that can be spent. {_EXAMPLES}.")
        position = match.end()
        number, unit = match[2] or match[3], match[1] or match[4] or "cost"
        if unit not in _UNITS:
            raise InvalidInput(
                f"{text!r}: unknown unit {unit!r}. Known are {_KNOWN}; "
                f"for a unit of your own write Budget({number}, {unit!r})."
            )
        resource, size = _UNITS[unit]
        if unit in found or resources - {resource}:
            raise InvalidInput(f"{text!r}: separate two limits by a comma. {_EXAMPLES}.")
        found[unit] = _positive(float(number), repr(text)) * size
        resources.add(resource)
    return resources.pop(), math.fsum(found.values())


def _explicit(value: object, unit: object) -> tuple[str, float]:
    """One limit with its unit named by the caller; an unknown unit is a resource of its own."""
    what = f"Budget({value!r})" if unit == "cost" else f"Budget({value!r}, {unit!r})"
    amount = _positive(value, what)
    if not isinstance(unit, str) or not (unit in _UNITS or unit.isidentifier()):
        raise InvalidInput(
            f"{what}: a unit is a single word. Use one of {_KNOWN}, or a name such as 'credits'."
        )
    if unit in _UNITS:
        resource, size = _UNITS[unit]
        return resource, amount * size
    alike = [known for known in _UNITS if known.casefold() == unit.casefold()]
    if alike:
        raise InvalidInput(f"{what}: units are spelt exactly. Did you mean {alike[0]!r}?")
    return unit, amount


def _checked(items: tuple[tuple[str, float], ...], given: object) -> tuple[tuple[str, float], ...]:
    what = f"Budget({given!r})"
    if not items:
        raise InvalidInput(f"{what}: no limit at all. {_EXAMPLES}.")
    for index, (resource, limit) in enumerate(items):
        _positive(limit, what)  # a unit may have taken the number out of range
        if resource in (name for name, _ in items[:index]):
            raise InvalidInput(f"{what}: {resource} is limited twice. Give each resource once.")
        if resource == "trials" and limit != int(limit):
            raise InvalidInput(f"{what}: trials are whole. Use a number such as {int(limit) + 1}.")
    return items


def _positive(value: object, what: str, advice: str = _EXAMPLES) -> float:
    number = _finite(value)
    if number is None or number <= 0:
        raise InvalidInput(f"{what}: expected a positive, finite number. {advice}.")
    return number


def _amount(value: object, what: str) -> float:
    number = _finite(value)
    if number is None or number < 0:
        raise InvalidInput(
            f"{what}: expected a finite amount that is not negative, got {value!r}. "
            "Give what was really used."
        )
    return number


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the floats
        return None
    return number if math.isfinite(number) else None


def _limit_text(resource: str, limit: float) -> str:
    """A limit as a sentence that parses back to exactly the same limit."""
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
