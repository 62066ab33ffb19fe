"""The ledger of a study: what is spent, and what is reserved for running trials.

Each account keeps `spent + reserved + left = limit + overspent`. Methods return a new `Ledger`.
Resources have canonical names: `s` (wall clock), `worker_s` (compute, summed over workers), `usd`,
`eur`, `gbp`, `kWh`, `trials`, and `cost` for a plain number. Any other name is its own resource.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from farthing.budget.units import Budget, _finite, format_amount
from farthing.errors import InvalidInput
from farthing.notebook import html_rows

__all__ = ["Account", "Ledger"]


@dataclass(frozen=True)
class Account:
    """The account of one resource: `spent + reserved + left = limit + overspent`."""

    limit: float  # inf if unlimited
    spent: float = 0.0
    reserved: float = 0.0
    overhead: float = 0.0  # the part of `spent` that suggesting took

    @property
    def left(self) -> float:
        """What is neither spent nor reserved; 0 after an overrun."""
        return max(self.limit - (self.spent + self.reserved), 0.0)

    @property
    def overspent(self) -> float:
        """By how much spending and reservations exceed the limit; 0 if they do not."""
        return max(self.spent + self.reserved - self.limit, 0.0)


@dataclass(frozen=True, repr=False)
class Ledger:
    """The accounts of one study, and the reservation of each running trial."""

    _accounts: tuple[tuple[str, Account], ...]
    _reservations: tuple[tuple[int, tuple[tuple[str, float], ...]], ...] = ()

    def __repr__(self) -> str:
        texts = (
            f"{format_amount(name, account.spent)} of {format_amount(name, account.limit)} spent"
            + (f", {format_amount(name, account.reserved)} reserved" if account.reserved else "")
            for name, account in self._accounts
        )
        return f"<Ledger: {'; '.join(texts)}>"

    def _repr_html_(self) -> str:
        names = ("limit", "spent", "reserved", "left", "overhead")
        rows = (
            (resource, *(format_amount(resource, getattr(account, name)) for name in names))
            for resource, account in self._accounts
        )
        return html_rows(("", *names), rows)

    @classmethod
    def of(cls, budget: Budget | None) -> "Ledger":
        """The ledger before the first trial.

        If the budget limits nothing but trials, costs go to an unlimited account `cost`.
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
            f"There is no account {resource!r}: this ledger has {', '.join(self.resources)}. "
            "Use one of these names, or add a limit to the budget."
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.resources)

    def __contains__(self, resource: object) -> bool:
        return resource in self.resources

    @property
    def limit(self) -> float:
        """The limit of the primary resource."""
        return self._accounts[0][1].limit

    @property
    def spent(self) -> float:
        """What is spent of the primary resource."""
        return self._accounts[0][1].spent

    @property
    def reserved(self) -> float:
        """What is reserved for running trials of the primary resource."""
        return self._accounts[0][1].reserved

    @property
    def left(self) -> float:
        """What is neither spent nor reserved of the primary resource."""
        return self._accounts[0][1].left

    @property
    def overhead(self) -> float:
        """What suggesting took of the primary resource."""
        return self._accounts[0][1].overhead

    @property
    def used_up(self) -> tuple[str, ...]:
        """The exhausted resources: less than 1 trial, or less than 1e-9 of the limit, is left."""
        return tuple(
            name
            for name, account in self._accounts
            if math.isfinite(account.limit)
            and account.left < (1.0 if name == "trials" else 1e-9 * account.limit)
        )

    @property
    def limited_resources(self) -> tuple[str, ...]:
        """The limited resources in which trials have a cost, that is all but `trials`."""
        return tuple(
            name
            for name, account in self._accounts
            if math.isfinite(account.limit) and name != "trials"
        )

    @property
    def used(self) -> float:
        """The largest share of a limit that is spent or reserved; 0 if nothing is limited."""
        limited = (account for _, account in self._accounts if math.isfinite(account.limit))
        return max(((a.spent + a.reserved) / a.limit for a in limited), default=0.0)

    @property
    def spent_share(self) -> float:
        """The largest share of a limit that is spent; 0 if nothing is limited."""
        limited = (account for _, account in self._accounts if math.isfinite(account.limit))
        return max((account.spent / account.limit for account in limited), default=0.0)

    @property
    def reservations(self) -> Mapping[int, Mapping[str, float]]:
        """The amounts reserved for each running trial."""
        return {number: dict(reserved) for number, reserved in self._reservations}

    def reserved_for(self, number: int) -> Mapping[str, float]:
        """The amounts reserved for trial `number`; empty if there are none."""
        return MappingProxyType(dict(dict(self._reservations).get(number, ())))

    def reserve(
        self, number: int, amounts: Mapping[str, float], *, resumed: bool = False
    ) -> "Ledger":
        """Reserve `amounts` for trial `number`, which starts now.

        Args:
            resumed: whether it continues after a pause. A trial is counted only once.
        """
        if self._has_reservation(number):
            raise InvalidInput(
                f"Trial {number} already has a reservation. Extend or charge it instead."
            )
        if resumed:
            reserved = tuple(self._amounts(amounts).items())
        else:
            reserved = self._with_trial_count(amounts)
        return self._after({**dict(self._reservations), number: reserved})

    def extend(self, number: int, amounts: Mapping[str, float]) -> "Ledger":
        """Reserve `amounts` more for trial `number`, which is running."""
        self._require_reservation(number)
        reserved, more = self.reserved_for(number), self._amounts(amounts)
        total = {
            name: reserved.get(name, 0.0) + more.get(name, 0.0) for name in {**reserved, **more}
        }
        return self._after({**dict(self._reservations), number: tuple(total.items())})

    def charge(self, number: int | None, amounts: Mapping[str, float]) -> "Ledger":
        """Charge `amounts` and release the reservation of trial `number`.

        Args:
            number: the trial, or None for an imported evaluation, which has no reservation.
            amounts: the true cost. It is charged in full, even if it exceeds what is left.
        """
        reservations = {
            trial: reserved for trial, reserved in self._reservations if trial != number
        }
        paid = dict(self._with_trial_count(amounts))
        if any(trial == number and "trials" not in dict(r) for trial, r in self._reservations):
            paid.pop("trials", None)  # it was counted before it was paused
        return self._after(reservations, spent=paid)

    def release(self, number: int) -> "Ledger":
        """Release the reservation of trial `number`, which was never started."""
        return self._after(
            {trial: reserved for trial, reserved in self._reservations if trial != number}
        )

    def charge_overhead(self, seconds: float) -> "Ledger":
        """Charge the time that suggesting took to the account in seconds, if there is one."""
        paid = {"s": _amount(seconds, "overhead")}
        return (
            self._after(dict(self._reservations), spent=paid, overhead=paid)
            if "s" in self
            else self
        )

    def pay(
        self, amounts: Mapping[str, float], *, overhead: Mapping[str, float] = MappingProxyType({})
    ) -> "Ledger":
        """Charge what belongs to no reservation: time that all trials share, or a late cost.

        Args:
            amounts: what was used.
            overhead: the part of it that suggesting took.
        """
        spent, own = self._amounts(amounts), self._amounts(overhead)
        return self._after(dict(self._reservations), spent=spent, overhead=own)

    def limited(self, budget: Budget | None, counted: Mapping[str, Account]) -> "Ledger":
        """The same accounts with new limits. An account that lost its limit keeps what was spent.

        Args:
            budget: the new limits, which include what is already spent.
            counted: the accounts of resources that had none until now.
        """
        known, limits = dict(self._accounts), Ledger.of(budget)
        accounts = {
            name: replace(known.get(name) or counted.get(name, limits[name]), limit=account.limit)
            for name, account in limits._accounts
        }
        for name, account in known.items():
            if name not in accounts and (account.spent or account.reserved):
                accounts[name] = replace(account, limit=math.inf)
        # A running trial counts as one trial, even if the old budget did not count trials.
        one = {"trials": 1.0} if "trials" in accounts and "trials" not in known else {}
        reservations = {
            number: tuple({**one, **dict(reserved)}.items())
            for number, reserved in self._reservations
        }
        return Ledger(tuple(accounts.items()))._after(reservations)

    def _has_reservation(self, number: int) -> bool:
        return any(trial == number for trial, _ in self._reservations)

    def _require_reservation(self, number: int) -> None:
        if not self._has_reservation(number):
            raise InvalidInput(f"Trial {number} has no reservation. Reserve something first.")

    def _amounts(self, amounts: Mapping[str, float]) -> dict[str, float]:
        limited = self.limited_resources
        for resource in amounts:
            if resource == "trials":
                raise InvalidInput(
                    'Amounts {"trials": ...}: the ledger counts trials itself. Leave it out.'
                )
            if limited and resource not in self:
                raise InvalidInput(
                    f"{resource!r} is not in the budget, which limits {', '.join(self.resources)}. "
                    "Give the cost in these resources, or add a limit to the budget."
                )
        return {resource: _amount(amount, resource) for resource, amount in amounts.items()}

    def _with_trial_count(self, amounts: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
        counted = {"trials": 1.0} if "trials" in self else {}
        return tuple({**self._amounts(amounts), **counted}.items())

    def _after(
        self,
        reservations: Mapping[int, tuple[tuple[str, float], ...]],
        *,
        spent: Mapping[str, float] = MappingProxyType({}),
        overhead: Mapping[str, float] = MappingProxyType({}),
    ) -> "Ledger":
        # Sum all reservations again, so that the total is exactly 0 after the last release.
        amounts = [dict(reserved) for reserved in reservations.values()]
        accounts = dict(self._accounts)
        for resource in (name for part in (*amounts, spent) for name in part):
            # Only a ledger without limits accepts new resources. It opens an account for each.
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
            f"{what}: expected a finite amount of at least 0, got {value!r}. "
            "Give the amount that was used."
        )
    return number
