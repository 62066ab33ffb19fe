"""What a trial's use of the machine costs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from farthing.running.finished import Usage

__all__ = ["Pricing"]

LEAST = 1e-9  # nothing that is measured takes less than a nanosecond


@dataclass(frozen=True)
class Pricing:
    """Seconds, seconds times a rate, or whatever the trial itself says, which wins.

    Attributes:
        rate: what a second of compute costs, by resource: `rate_of("$3.06/h")` of the ledger.
        cpu: compute is the CPU seconds of a trial, not those that went by.
        on_top: resources of which what a trial says comes on top of what its time costs.
    """

    rate: Mapping[str, float] = field(default_factory=dict)
    cpu: bool = False
    on_top: Collection[str] = ()

    def cost(
        self, usage: Usage, told: Mapping[str, float], resources: Iterable[str]
    ) -> dict[str, float]:
        """What was used of each resource, as far as it is known; only who says so pays nothing.

        Args:
            usage: measured, with what progress has reported.
            told: the result's own cost, which has the last word.
            resources: of the budget. A bare number, under "", is in the first that is priced, and
                trials are not priced but counted.
        """
        priced = [name for name in resources if name != "trials"]
        wall_s = max(usage.wall_s, LEAST)
        compute = max(usage.cpu_s, LEAST) if self.cpu else wall_s
        known = {"s": wall_s, "worker_s": compute}
        known |= {resource: compute * price for resource, price in self.rate.items()}
        said = dict[str, float]()
        for each in (usage.reported, told):
            said |= {name or priced[0]: amount for name, amount in each.items() if priced}
        for name, amount in said.items():
            known[name] = amount + (known[name] if name in self.on_top else 0.0)
        return {name: known[name] for name in priced if name in known}
