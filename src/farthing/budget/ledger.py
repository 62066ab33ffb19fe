"""What may be spent, what was spent, and what is reserved for trials that are still running.

Every account keeps `spent + reserved + left = limit`; every event returns a new `Ledger`.
Resources have canonical names: `s` (wall clock), `worker_s` (compute, summed over workers), `usd`,
`eur`, `gbp`, `kWh`, `trials`, and `cost` for a plain number; any other name is its own resource.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from farthing.budget.units import Budget, _finite
from farthing.errors import InvalidInput

__all__ = ["Account", "Ledger"]


@dataclass(frozen=True)
class Account:
    """One resource: `spent + reserved + left = limit`."""

    limit: float  # inf: unlimited
    spent: float = 0.0
    reserved: float = 0.0
    overhead: float = 0.0  # the part of `spent` that was our own thought

    @property
    def left(self) -> float:
        """What may still be promised; negative after an overrun, because what was paid was paid."""
        return self.limit - (self.spent + self.reserved)


@dataclass(frozen=True)
class Ledger:
    """The accounts of one study, and what each running trial holds."""

    _accounts: tuple[tuple[str, Account], ...]
    _reservations: tuple[tuple[int, tuple[tuple[str, float], ...]], ...] = ()

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
        """Neither paid nor reserved, of the primary resource."""
        return self._accounts[0][1].left

    @property
    def overhead(self) -> float:
        """Our own thought, of the primary resource."""
        return self._accounts[0][1].overhead

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
    def limited_resources(self) -> tuple[str, ...]:
        """The limited resources that a trial has a price in: all but trials, which are counted."""
        return tuple(
            name
            for name, account in self._accounts
            if math.isfinite(account.limit) and name != "trials"
        )

    @property
    def used(self) -> float:
        """The share of the scarcest limit that is paid or reserved; 0 where nothing is limited."""
        limited = (account for _, account in self._accounts if math.isfinite(account.limit))
        return max(((a.spent + a.reserved) / a.limit for a in limited), default=0.0)

    @property
    def spent_share(self) -> float:
        """The share of the scarcest limit that is paid; 0 where nothing is limited."""
        limited = (account for _, account in self._accounts if math.isfinite(account.limit))
        return max((account.spent / account.limit for account in limited), default=0.0)

    @property
    def reservations(self) -> Mapping[int, Mapping[str, float]]:
        """What each running trial holds."""
        return {number: dict(reserved) for number, reserved in self._reservations}

    def reserved_for(self, number: int) -> Mapping[str, float]:
        """What trial `number` holds; empty when it holds nothing."""
        return MappingProxyType(dict(dict(self._reservations).get(number, ())))

    def reserve(self, number: int, amounts: Mapping[str, float]) -> "Ledger":
        """Hold `amounts` for trial `number`, which starts now."""
        if self._has_reservation(number):
            raise InvalidInput(
                f"Trial {number} already holds a reservation. Extend it, or charge it."
            )
        return self._after({**dict(self._reservations), number: self._whole_trial(amounts)})

    def extend(self, number: int, amounts: Mapping[str, float]) -> "Ledger":
        """Hold `amounts` more for trial `number`, which is running."""
        self._require_reservation(number)
        reserved, more = self.reserved_for(number), self._amounts(amounts)
        total = {
            name: reserved.get(name, 0.0) + more.get(name, 0.0) for name in {**reserved, **more}
        }
        return self._after({**dict(self._reservations), number: tuple(total.items())})

    def charge(self, number: int | None, amounts: Mapping[str, float]) -> "Ledger":
        """Pay `amounts`; whatever `number` reserved is released in the same step.

        Args:
            number: The trial, or None for an evaluation made elsewhere, for which nothing was reserved.
            amounts: What was really used. More than was reserved or is left is still paid.
        """
        reservations = {
            trial: reserved for trial, reserved in self._reservations if trial != number
        }
        paid = dict(self._whole_trial(amounts))
        return self._after(reservations, spent=paid)

    def release(self, number: int) -> "Ledger":
        """Give back whatever `number` reserved: it was never begun."""
        return self._after(
            {trial: reserved for trial, reserved in self._reservations if trial != number}
        )

    def charge_overhead(self, seconds: float) -> "Ledger":
        """Pay for our own thought, which only an account in seconds can feel."""
        paid = {"s": _amount(seconds, "overhead")}
        return (
            self._after(dict(self._reservations), spent=paid, overhead=paid)
            if "s" in self
            else self
        )

    def pay(
        self, amounts: Mapping[str, float], *, overhead: Mapping[str, float] = MappingProxyType({})
    ) -> "Ledger":
        """Pay what belongs to no hold: time that passes for everybody, a bill that came late.

        Args:
            amounts: What was used.
            thinking: The part of it that was our own thought.
        """
        paid, ours = self._amounts(amounts), self._amounts(overhead)
        return self._after(dict(self._reservations), spent=paid, overhead=ours)

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
        reservations = {
            number: tuple({**one, **dict(reserved)}.items())
            for number, reserved in self._reservations
        }
        return Ledger(tuple(accounts.items()))._after(reservations)

    def _has_reservation(self, number: int) -> bool:
        return any(trial == number for trial, _ in self._reservations)

    def _require_reservation(self, number: int) -> None:
        if not self._has_reservation(number):
            raise InvalidInput(f"Trial {number} holds nothing. Reserve for it first.")

    def _amounts(self, amounts: Mapping[str, float]) -> dict[str, float]:
        limited = self.limited_resources
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
        reservations: Mapping[int, tuple[tuple[str, float], ...]],
        *,
        spent: Mapping[str, float] = MappingProxyType({}),
        overhead: Mapping[str, float] = MappingProxyType({}),
    ) -> "Ledger":
        # Reserved is summed anew, not added to and subtracted from: all released is exactly 0.
        amounts = [dict(reserved) for reserved in reservations.values()]
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
                        overhead=account.overhead + overhead.get(resource, 0.0),
                        reserved=math.fsum(reserved.get(resource, 0.0) for reserved in amounts),
                    ),
                )
                for resource, account in accounts.items()
            ),
            tuple(reservations.items()),
        )


def _amount(value: object, what: str) -> float:
    number = _finite(value)
    if number is None or number < 0:
        raise InvalidInput(
            f"{what}: expected a finite amount that is not negative, got {value!r}. "
            "Give what was really used."
        )
    return number
