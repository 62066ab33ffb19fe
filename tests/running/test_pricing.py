"""The cost of a trial from its usage and its own reports."""

import pytest

from farthing.budget.rates import rate_of
from farthing.errors import InvalidInput
from farthing.running import Pricing, Usage

USED = Usage(wall_s=10.0, cpu_s=30.0, peak_mb=99.0)
HOUR = Usage(wall_s=3600.0, cpu_s=7200.0, peak_mb=99.0)
DOLLARS = Pricing({"usd": 0.1})
CPU_DOLLARS = Pricing({"usd": 0.1}, cpu=True)


def reporting(**amounts):
    return USED._replace(reported=amounts)


@pytest.mark.parametrize(
    ("pricing", "usage", "result_cost", "resources", "cost"),
    [
        # measured time
        (Pricing(), USED, {}, ("s",), {"s": 10.0}),
        (Pricing(), USED, {}, ("worker_s",), {"worker_s": 10.0}),
        (Pricing(cpu=True), USED, {}, ("s", "worker_s"), {"s": 10.0, "worker_s": 30.0}),
        (Pricing(), USED, {}, ("usd",), {}),
        # a rate
        (DOLLARS, USED, {}, ("usd",), {"usd": 1.0}),
        (CPU_DOLLARS, USED, {}, ("usd",), {"usd": 3.0}),
        (DOLLARS, USED, {}, ("s", "usd"), {"s": 10.0, "usd": 1.0}),
        (DOLLARS, USED, {}, ("kWh",), {}),
        (Pricing(rate_of("$3.06/h")), HOUR, {}, ("usd",), {"usd": 3.06}),
        (Pricing(rate_of("$3.06/h"), cpu=True), HOUR, {}, ("usd",), {"usd": 6.12}),
        (Pricing(rate_of("0.72 kWh/2h")), HOUR, {}, ("kWh",), {"kWh": 0.36}),
        # reported by progress
        (Pricing(), reporting(usd=2.0), {}, ("usd",), {"usd": 2.0}),
        (DOLLARS, reporting(usd=2.0), {}, ("usd",), {"usd": 2.0}),
        (DOLLARS, reporting(kWh=2.0), {}, ("usd", "kWh"), {"usd": 1.0, "kWh": 2.0}),
        (Pricing(), reporting(s=2.0), {}, ("s",), {"s": 2.0}),
        (Pricing(), reporting(kWh=2.0), {}, ("s",), {"s": 10.0}),
        # reported by the result
        (DOLLARS, reporting(usd=2.0), {"usd": 5.0}, ("usd",), {"usd": 5.0}),
        (DOLLARS, reporting(usd=2.0), {"kWh": 5.0}, ("usd", "kWh"), {"usd": 2.0, "kWh": 5.0}),
        (Pricing(), USED, {"usd": 5.0}, ("s",), {"s": 10.0}),
        # a number without a resource
        (DOLLARS, USED, {"": 7.0}, ("usd", "s"), {"usd": 7.0, "s": 10.0}),
        (DOLLARS, USED, {"": 7.0}, ("trials", "s", "usd"), {"s": 7.0, "usd": 1.0}),
        (Pricing(), USED._replace(reported={"": 4.0}), {}, ("usd",), {"usd": 4.0}),
        (Pricing(), USED._replace(reported={"": 4.0}), {"usd": 5.0}, ("usd",), {"usd": 5.0}),
        (Pricing(), USED._replace(reported={"usd": 4.0}), {"": 5.0}, ("usd",), {"usd": 5.0}),
        # trials are counted, not priced
        (Pricing(), USED, {"": 7.0}, ("trials",), {}),
        (Pricing(), USED, {"trials": 7.0}, ("trials", "s"), {"s": 10.0}),
        # a measured cost is never 0, but a reported cost may be
        (Pricing(), Usage(0.0, 0.0, 0.0), {}, ("s", "worker_s"), {"s": 1e-9, "worker_s": 1e-9}),
        (DOLLARS, Usage(0.0, 0.0, 0.0), {}, ("usd",), {"usd": 1e-10}),
        (DOLLARS, USED, {"usd": 0.0}, ("usd",), {"usd": 0.0}),
        (Pricing(), reporting(usd=0.0), {}, ("usd",), {"usd": 0.0}),
    ],
)
def test_the_cost(pricing, usage, result_cost, resources, cost):
    assert pricing.cost(usage, result_cost, resources) == pytest.approx(cost, rel=1e-12, abs=0)


@pytest.mark.parametrize("rate", ["$3.06/h", "3.06 usd/h", "$3.06 / 1h", "$0.051/m", "$73.44/24h"])
def test_a_rate_as_text(rate):
    assert rate_of(rate) == pytest.approx({"usd": 3.06 / 3600}, rel=1e-12)


def test_a_rate_of_a_budget_without_a_unit():
    pricing = Pricing(rate_of("3.6/h"))
    assert pricing.cost(USED, {}, ("cost",)) == pytest.approx({"cost": 0.01}, rel=1e-12)


@pytest.mark.parametrize(
    "rate", ["$3", "3.06/h/h", "h/$3", "$3/kWh", "2h/h", "$1/", "$/h", "/h", "9 trials/h", ""]
)
def test_invalid_rates(rate):
    with pytest.raises(InvalidInput, match="expected a price per time"):
        rate_of(rate)
