"""What a trial's use of the machine costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from farthing.errors import InvalidInput
from farthing.ledger import Budget
from farthing.running.finished import Usage

__all__ = ["Pricing"]

LEAST = 1e-9  # a cost is positive; nothing takes less than a nanosecond


@dataclass(frozen=True)
class Pricing:
    """Seconds, seconds times a rate, or whatever the trial itself says, which wins.

    Attributes:
        rate: what a second of compute costs, by resource; `Pricing.at("$3.06/h")`.
        cpu: compute is the CPU seconds of a trial, not those that went by.
    """

    rate: Mapping[str, float] = field(default_factory=dict)
    cpu: bool = False

    @classmethod
    def at(cls, rate: str, *, cpu: bool = False) -> Pricing:
        """A rate in words: "$3.06/h", "0.4 kWh/h"."""
        price, slash, time = rate.partition("/")
        advice = f'rate={rate!r}: expected a price per time, such as "$3.06/h".'
        if not slash:
            raise InvalidInput(advice)
        try:
            prices = Budget(price).limits
            per = Budget(time if time.strip()[:1].isdigit() else f"1{time.strip()}").limits
        except InvalidInput as error:
            raise InvalidInput(f"{advice} {error}") from None
        if tuple(per) != ("s",) or {"s", "worker_s", "trials"} & set(prices):
            raise InvalidInput(advice)
        return cls({resource: amount / per["s"] for resource, amount in prices.items()}, cpu)

    def cost(
        self, usage: Usage, told: Mapping[str, float], resources: Iterable[str]
    ) -> dict[str, float]:
        """What was used of each resource, as far as it is known, and never nothing.

        Args:
            usage: measured, with what progress has reported.
            told: the result's own cost, which has the last word.
            resources: of the budget. A bare number, under "", is in the first that is priced, and
                trials are not priced but counted.
        """
        priced = [name for name in resources if name != "trials"]
        compute = usage.cpu_s if self.cpu else usage.wall_s
        known = {"s": usage.wall_s, "worker_s": compute}
        known |= {resource: compute * price for resource, price in self.rate.items()}
        for said in (usage.reported, told):
            known |= {name or priced[0]: amount for name, amount in said.items() if priced}
        return {name: max(known[name], LEAST) for name in priced if name in known}
