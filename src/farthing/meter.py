"""What a trial's use of the machine costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from farthing.errors import InvalidInput
from farthing.ledger import Budget
from farthing.running import Finished, Usage

__all__ = ["Meter"]

LEAST = 1e-9  # a cost is positive; nothing takes less than a nanosecond


@dataclass(frozen=True)
class Meter:
    """Seconds, seconds times a rate, or whatever the trial itself reports, which wins.

    Attributes:
        rate: what a second costs, by resource; `Meter.at("$3.06/h")`.
        cpu: count the CPU seconds of a trial as its compute, not those it took.
    """

    rate: Mapping[str, float] = field(default_factory=dict)
    cpu: bool = False

    @classmethod
    def at(cls, rate: str, *, cpu: bool = False) -> Meter:
        """The meter of a rate in words: "$3.06/h", "0.4 kWh/h"."""
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

    def cost(self, of: Usage | Finished, resources: Iterable[str]) -> dict[str, float]:
        """What was used of each resource, as far as it is known."""
        usage, told = (of.usage, of.cost) if isinstance(of, Finished) else (of, {})
        priced = [name for name in resources if name != "trials"]
        compute = usage.cpu_s if self.cpu else usage.wall_s
        measured = {"s": usage.wall_s, "worker_s": compute}
        measured |= {resource: compute * price for resource, price in self.rate.items()}
        for reported in (usage.reported, told):  # what was said last counts
            measured |= {name or priced[0]: amount for name, amount in reported.items()}
        return {name: max(measured[name], LEAST) for name in priced if name in measured}
