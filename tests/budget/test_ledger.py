import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farthing.budget.ledger import Account, Ledger
from farthing.budget.units import Budget, format_amount, worth_of
from farthing.errors import InvalidInput


# ---------------------------------------------------------------- Budget
@pytest.mark.parametrize(
    ("given_as", "limits"),
    [
        (("2h",), {"s": 7200}),
        (("90s",), {"s": 90}),
        (("90 sec",), {"s": 90}),
        (("5m",), {"s": 300}),  # m is minutes
        (("5 min",), {"s": 300}),
        (("1.5 d",), {"s": 129600}),
        (("250ms",), {"s": 0.25}),
        (("1e3 s",), {"s": 1000}),
        (("1h30m",), {"s": 5400}),
        (("1 h 30 m 15 s",), {"s": 5415}),
        (("100 worker_s",), {"worker_s": 100}),
        (("3 worker_h",), {"worker_s": 10800}),
        (("$40",), {"usd": 40}),
        (("$ 40",), {"usd": 40}),
        (("40$",), {"usd": 40}),
        (("40 usd",), {"usd": 40}),
        (("40 dollars",), {"usd": 40}),
        (("€12.50",), {"eur": 12.5}),
        (("£3",), {"gbp": 3}),
        (("1.5kWh",), {"kWh": 1.5}),
        (("250 Wh",), {"kWh": 0.25}),
        (("2 MWh",), {"kWh": 2000}),
        (("3.6 MJ",), {"kWh": 1}),
        (("36 kJ",), {"kWh": 0.01}),
        (("7200 J",), {"kWh": 0.002}),
        (("30 trials",), {"trials": 30}),
        (("1 trial",), {"trials": 1}),
        (("40",), {"cost": 40}),
        ((" .5 ",), {"cost": 0.5}),
        (("2h, $40",), {"s": 7200, "usd": 40}),
        (("$40, 2h",), {"usd": 40, "s": 7200}),
        (("2h,$40",), {"s": 7200, "usd": 40}),
        ((40,), {"cost": 40}),
        ((np.float32(2.5),), {"cost": 2.5}),
        ((np.int64(3), "h"), {"s": 10800}),
        ((40, "usd"), {"usd": 40}),
        ((40, "$"), {"usd": 40}),
        ((30, "trials"), {"trials": 30}),
        ((30.0, "trials"), {"trials": 30}),
        ((100, "worker_s"), {"worker_s": 100}),
        ((5, "credits"), {"credits": 5}),
        (({"s": 3600, "usd": 5},), {"s": 3600, "usd": 5}),
        (({"h": 2, "gpu0_credits": 5},), {"s": 7200, "gpu0_credits": 5}),
        ((Budget("2h, $40"),), {"s": 7200, "usd": 40}),
    ],
)
def test_every_way_to_write_a_budget(given_as, limits):
    budget = Budget(*given_as)
    assert dict(budget.limits) == pytest.approx(limits, rel=1e-15)
    assert list(budget.limits) == list(limits)  # the order is kept
    assert budget.resource == next(iter(limits))


@pytest.mark.parametrize(
    ("given_as", "message"),
    [
        (("",), "is not a budget"),
        (("two hours",), "is not a budget"),
        (("2h,",), "is not a budget"),
        (("+10m",), r"study.change\(budget='\+10m'\)"),
        (("2h, +$5",), "is a change, not a budget"),
        (("h",), "is not a budget"),
        (("nan",), "is not a budget"),
        (("$40k",), "is not a budget"),
        (
            ("40 parsecs",),
            r"unknown unit 'parsecs'.*worker_s.*kWh.*trials.*Budget\(40, 'parsecs'\)",
        ),
        (("3 mWh",), "unknown unit 'mWh'"),  # ambiguous: milli- or megawatt hours
        (("2H",), "unknown unit 'H'"),
        (("$1,500",), "comma"),
        (("2h $40",), "separate limits by a comma"),
        (("1h1h",), "separate limits by a comma"),
        (("1h30",), "separate limits by a comma"),
        (("1.2.3 s",), "separate limits by a comma"),
        (("2h, 30m",), "s is limited twice"),
        (({"s": 60, "m": 1},), "s is limited twice"),
        (("0s",), "positive, finite"),
        (("-5 s",), "positive, finite"),
        (("$-5",), "positive, finite"),
        (("1e400 s",), "positive, finite"),
        (("1e308 d",), "positive, finite"),  # only out of range in seconds
        ((0,), "positive, finite"),
        ((-1, "usd"), "positive, finite"),
        ((math.nan,), "positive, finite"),
        ((math.inf, "s"), "positive, finite"),
        ((10**400,), "positive, finite"),
        ((True,), "positive, finite"),
        ((None,), "positive, finite"),
        ((["2h"],), "positive, finite"),
        (({"s": "2h"},), "positive, finite"),
        (({},), "there is no limit"),
        ((2.5, "trials"), "whole.*such as 3"),
        (("0.5 trials",), "whole.*such as 1"),
        ((5, "two words"), "single word"),
        ((5, ""), "single word"),
        (({3: 5},), "single word"),
        ((5, "Hours"), "Did you mean 'hours'"),
        (({"KWH": 5},), "Did you mean 'kWh'"),
        (("2h", "s"), "a unit goes with a plain number"),
        ((True, "s"), "a unit goes with a plain number"),
        (({"s": 3}, "s"), "a unit goes with a plain number"),
    ],
)
def test_a_wrong_budget_is_one_clear_error(given_as, message):
    with pytest.raises(InvalidInput, match=message):
        Budget(*given_as)


@pytest.mark.parametrize(
    ("given_as", "text"),
    [
        (("2h",), "2h"),
        (("90 min",), "1h30m"),
        ((90.5, "s"), "90.5s"),
        ((0.1 + 0.2, "usd"), "$0.30000000000000004"),
        (("40 dollars",), "$40"),
        (("1500 Wh",), "1.5kWh"),
        (("3 worker_m",), "180 worker_s"),
        (("30 trials",), "30 trials"),
        ((40,), "40"),
        (("$5, 2h",), "$5, 2h"),
    ],
)
def test_a_budget_prints_as_people_write_it(given_as, text):
    budget = Budget(*given_as)
    assert str(budget) == text
    assert repr(budget) == f"Budget({text!r})"


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(["s", "worker_s", "usd", "eur", "gbp", "kWh", "cost"]),
        st.floats(1e-300, 1e300) | st.integers(1, 10**12),
        min_size=1,
    ),
    st.booleans(),
)
def test_what_a_budget_prints_parses_back_exactly(limits, own):
    budget = Budget(limits)
    assert Budget(str(budget)) == budget
    budget = Budget({**limits, "credits": 1.5} if own else limits)
    assert eval(repr(budget), {"Budget": Budget}) == budget


def test_a_budget_is_a_value():
    budget = Budget("2h, $40")
    assert budget == Budget({"s": 7200, "usd": 40}) == pickle.loads(pickle.dumps(budget))
    assert hash(budget) == hash(Budget(budget))
    assert budget != Budget("$40, 2h")  # another resource comes first
    with pytest.raises(TypeError):
        budget.limits["s"] = 1.0
    with pytest.raises(AttributeError):
        budget.limits = {}


# ---------------------------------------------------------------- formatting
@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("s", 0, "0 s"),
        ("s", 2e-5, "0.02 ms"),
        ("s", 0.085, "85 ms"),
        ("s", 0.9994, "999 ms"),
        ("s", 0.9996, "1.0 s"),  # never 1000 ms
        ("s", 12.34, "12.3 s"),
        ("s", 59.94, "59.9 s"),
        ("s", 59.96, "1 m 00 s"),  # never 60.0 s
        ("s", 125, "2 m 05 s"),
        ("s", 3599.4, "59 m 59 s"),
        ("s", 3599.6, "1 h 00 m"),  # never 60 m 00 s
        ("s", 4800, "1 h 20 m"),
        ("s", -125, "-2 m 05 s"),
        ("s", math.inf, "unlimited"),
        ("worker_s", 125, "2 m 05 s of worker time"),
        ("usd", 3.42, "$3.42"),
        ("usd", 0, "$0.00"),
        ("usd", 0.0031, "$0.0031"),
        ("usd", 12345.6, "$12,345.60"),
        ("usd", -3.42, "-$3.42"),
        ("eur", 3.42, "€3.42"),
        ("gbp", 3.42, "£3.42"),
        ("trials", 7.0, "7 trials"),
        ("trials", 1, "1 trial"),
        ("kWh", 3.4249, "3.42 kWh"),
        ("kWh", 1234.5, "1,234 kWh"),
        ("cost", 3.42, "3.42"),
        ("cost", 1e-7, "1e-07"),
        ("credits", 5.0, "5 credits"),
    ],
)
def test_formatted_amounts(resource, amount, text):
    assert format_amount(resource, amount) == text


@pytest.mark.parametrize(
    ("worth", "resource", "rate"),
    [
        (0.25, "usd", 0.25),
        (3, "cost", 3.0),
        ("0.01 = $20", "usd", 0.0005),
        ("0.01=20 usd", "usd", 0.0005),
        ("2 = 1h", "s", 2 / 3600),
        ("1e-3 = 250 Wh", "kWh", 0.004),
        ("0.5 = 20", "cost", 0.025),
        ("0.5 = 4 trials", "trials", 0.125),
    ],
)
def test_worth(worth, resource, rate):
    assert worth_of(worth, resource) == pytest.approx(rate, rel=1e-15)


@pytest.mark.parametrize(
    ("worth", "message"),
    [
        (0, "positive, finite"),
        (-1.0, "positive, finite"),
        (math.nan, "positive, finite"),
        (True, "positive, finite"),
        (None, "positive, finite"),
        ("-1 = $20", "positive, finite"),
        ("0.01 = $0", "positive, finite"),
        ("0.01", "expected a number, or a text of the form"),
        ("1% = $20", "expected a number, or a text of the form"),
        ("nan = $20", "expected a number, or a text of the form"),
        ("0.01 =", "is not a budget"),
        ("0.01 = $20 = $30", "is not a budget"),
        ("0.01 = 2h", "the price is in s, but the cost is measured in usd. Give the price in usd"),
        ("0.01 = 20", "the price is in cost, but the cost is measured in usd"),
        ("0.01 = $20, 2h", "the price is in usd and s, but"),
    ],
)
def test_a_wrong_worth_is_one_clear_error(worth, message):
    with pytest.raises(InvalidInput, match=message):
        worth_of(worth, "usd")


# ---------------------------------------------------------------- Ledger
def test_the_life_of_a_trial():
    empty = Ledger.of(Budget("$40, 2h"))
    assert (empty.limit, empty.spent, empty.reserved, empty.left) == (40, 0, 0, 40)
    running = empty.reserve(0, {"usd": 3, "s": 60})
    assert (running.reserved, running.left, running["s"].left) == (3, 37, 7140)
    longer = running.extend(0, {"usd": 2})
    assert dict(longer.reserved_for(0)) == {"usd": 5, "s": 60}
    assert (longer.reserved, longer["s"].reserved) == (5, 60)
    done = longer.charge(0, {"usd": 4.5, "s": 80})
    assert (done.spent, done.reserved, done.left, done["s"].spent) == (4.5, 0, 35.5, 80)
    assert dict(done.reserved_for(0)) == {}
    assert (empty.spent, running.reserved) == (0, 3)  # a ledger is immutable
    assert pickle.loads(pickle.dumps(longer)) == longer


def test_an_overrun_is_charged_and_nothing_is_left():
    ledger = Ledger.of(Budget(10)).charge(None, {"cost": 12})
    assert (ledger.spent, ledger.left, ledger["cost"].overspent) == (12, 0, 2)
    assert Ledger.of(Budget(10)).charge(None, {"cost": 9})["cost"].overspent == 0


def test_overhead_is_charged_to_an_account_in_seconds():
    ledger = Ledger.of(Budget("$5, 10s")).charge_overhead(0.25).charge_overhead(0.5)
    assert ledger["s"] == Account(limit=10, spent=0.75, overhead=0.75)
    assert ledger["usd"] == Account(limit=5)
    assert Ledger.of(Budget("10s")).charge_overhead(0.25).overhead == 0.25
    assert Ledger.of(Budget("$5")).charge_overhead(3) == Ledger.of(Budget("$5"))


def test_the_ledger_counts_trials():
    ledger = Ledger.of(Budget({"usd": 5, "trials": 3})).reserve(0, {"usd": 1})
    assert (ledger["trials"].reserved, ledger["trials"].left) == (1, 2)
    ledger = ledger.extend(0, {"usd": 1})
    assert ledger["trials"].reserved == 1
    ledger = ledger.charge(0, {"usd": 1}).charge(None, {})
    assert (ledger["trials"].spent, ledger["trials"].reserved) == (2, 0)


def test_without_a_budget_everything_is_counted_and_nothing_limited():
    ledger = Ledger.of(None)
    assert (ledger.resources, ledger.limit, ledger.left) == (("cost",), math.inf, math.inf)
    ledger = ledger.reserve(0, {"cost": 2}).charge(0, {"cost": 3, "usd": 1})
    assert (ledger.spent, ledger.left) == (3, math.inf)
    assert ledger["usd"] == Account(limit=math.inf, spent=1)


def test_a_ledger_knows_its_accounts():
    ledger = Ledger.of(Budget("2h, $40"))
    assert list(ledger) == ["s", "usd"]
    assert "usd" in ledger
    assert "kWh" not in ledger
    with pytest.raises(InvalidInput, match="There is no account 'kWh': this ledger has s, usd"):
        ledger["kWh"]


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf, True, "3", None])
@pytest.mark.parametrize("event", ["reserve", "extend", "charge", "charge_overhead"])
def test_an_impossible_amount_is_refused(event, amount):
    ledger = Ledger.of(Budget("10s")).reserve(0, {})
    number = 1 if event == "reserve" else 0
    arguments = (amount,) if event == "charge_overhead" else (number, {"s": amount})
    with pytest.raises(InvalidInput, match="finite amount of at least 0"):
        getattr(ledger, event)(*arguments)


def test_impossible_events_are_refused():
    ledger = Ledger.of(Budget("10s, 5 trials")).reserve(0, {"s": 1})
    with pytest.raises(InvalidInput, match="already has a reservation"):
        ledger.reserve(0, {"s": 1})
    with pytest.raises(InvalidInput, match="Trial 1 has no reservation"):
        ledger.extend(1, {"s": 1})
    with pytest.raises(InvalidInput, match="'usd' is not in the budget, which limits s, trials"):
        ledger.charge(0, {"usd": 1})
    with pytest.raises(InvalidInput, match="the ledger counts trials itself"):
        ledger.charge(0, {"trials": 1})


amounts = st.fixed_dictionaries({}, optional=dict.fromkeys(["s", "usd"], st.floats(0, 1e6)))
events = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "extend", "charge", "imported", "charge_overhead"]),
        st.integers(0, 4),
        amounts,
    ),
    max_size=40,
)


@pytest.mark.slow
@given(events, st.floats(1e-3, 1e6), st.integers(1, 20))
def test_every_sequence_of_events_balances(sequence, limit, trials):
    """Compare with a plain list of payments and a plain dict of reservations."""
    ledger = Ledger.of(Budget({"usd": limit, "s": 3 * limit, "trials": trials}))
    paid, overhead, reservations = [], [], {}
    for event, number, given_amounts in sequence:
        if event == "charge_overhead":
            seconds = given_amounts.get("s", 0.0)
            ledger = ledger.charge_overhead(seconds)
            overhead.append(seconds)
            paid.append({"s": seconds})
        elif event in ("charge", "imported"):
            ledger = ledger.charge(number if event == "charge" else None, given_amounts)
            paid.append({**given_amounts, "trials": 1})
            if event == "charge":
                reservations.pop(number, None)
        elif event == "reserve" and number not in reservations:
            ledger = ledger.reserve(number, given_amounts)
            reservations[number] = [{**given_amounts, "trials": 1}]
        elif event == "extend" and number in reservations:
            ledger = ledger.extend(number, given_amounts)
            reservations[number].append(given_amounts)

        for resource in ledger:
            account = ledger[resource]
            reserved = [part.get(resource, 0) for parts in reservations.values() for part in parts]
            assert account.spent == pytest.approx(sum(p.get(resource, 0) for p in paid))
            assert account.reserved == pytest.approx(sum(reserved))
            scale = max(account.limit, account.spent, account.reserved)
            total = account.spent + account.reserved + account.left - account.overspent
            assert total == pytest.approx(account.limit, abs=1e-15 * 4 * scale)
            assert 0 <= account.overhead <= account.spent
        assert ledger["s"].overhead == pytest.approx(sum(overhead))

    for number in list(reservations):
        ledger = ledger.charge(number, {})
    assert [ledger[resource].reserved for resource in ledger] == [0, 0, 0]  # exactly
