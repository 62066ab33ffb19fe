"""Rates of machine time: `"$3.06/h"`, or `"$3.06/h per worker"`."""

import re

from farthing.budget.units import Budget
from farthing.errors import InvalidInput

__all__ = ["is_per_worker", "rate_of"]

PER_WORKER = re.compile(r"\s+per\s+worker\s*$")


def rate_of(rate: str) -> dict[str, float]:
    """The cost of one second, by resource: `"$3.06/h"` -> {"usd": 3.06 / 3600}."""
    problem = (
        f"rate={rate!r}: expected a price per time, such as '$3.06/h' or '$3.06/h per worker'."
    )
    if not isinstance(rate, str) or "/" not in rate:
        raise InvalidInput(problem)
    price, _, time = PER_WORKER.sub("", rate).partition("/")
    try:
        prices = Budget(price).limits
        per = Budget(time if time.strip()[:1].isdigit() else f"1{time.strip()}").limits
    except InvalidInput:
        raise InvalidInput(problem) from None
    if tuple(per) != ("s",) or {"s", "worker_s", "trials"} & set(prices):
        raise InvalidInput(problem)
    return {resource: amount / per["s"] for resource, amount in prices.items()}


def is_per_worker(rate: str | None) -> bool:
    """Whether the rate applies to each worker, not to a machine that they share."""
    return rate is not None and PER_WORKER.search(rate) is not None
