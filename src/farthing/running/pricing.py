"""The cost of a trial, from its usage and its own reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from farthing.running.finished import Usage

__all__ = ["Pricing"]

LEAST = 1e-9  # seconds; a measured cost is never 0


@dataclass(frozen=True)
class Pricing:
    """Cost = time, or time x rate, or the amount that the trial itself reports, which has priority.

    Attributes:
        rate: cost of a second of compute by resource, such as `rate_of("$3.06/h")`.
        cpu: whether compute is CPU seconds instead of wall-clock seconds.
        on_top: resources for which a reported amount is added to the cost of the time.
    """

    rate: Mapping[str, float] = field(default_factory=dict)
    cpu: bool = False
    on_top: Collection[str] = ()

    def cost(
        self, usage: Usage, result_cost: Mapping[str, float], resources: Iterable[str]
    ) -> dict[str, float]:
        """The cost in each resource for which it is known.

        It is 0 only if the trial reports 0.

        Args:
            usage: the measured usage, with the cost that progress reported.
            result_cost: the cost in the result, which has priority over progress.
            resources: those of the budget. "trials" has no cost here. A number without a resource
                (key "") is in the first of the others.
        """
        priced = [name for name in resources if name != "trials"]
        wall_s = max(usage.wall_s, LEAST)
        compute = max(usage.cpu_s, LEAST) if self.cpu else wall_s
        known = {"s": wall_s, "worker_s": compute}
        known |= {resource: compute * price for resource, price in self.rate.items()}
        reported = dict[str, float]()
        for each in (usage.reported, result_cost):
            reported |= {name or priced[0]: amount for name, amount in each.items() if priced}
        for name, amount in reported.items():
            known[name] = amount + (known[name] if name in self.on_top else 0.0)
        return {name: known[name] for name in priced if name in known}
