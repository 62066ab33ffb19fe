"""Text for values, costs, budgets and trials."""

import math

import numpy as np
import pytest

from farthing import Budget, Ledger
from farthing.history import Trial
from farthing.view.formatting import (
    account_line,
    amounts,
    best_line,
    counted,
    first_line,
    shown,
    shown_params,
    spent,
    trial_line,
    why_no_best,
)


def a_trial(number=3, **fields):
    params = {"lr": 0.000123456, "depth": 4, "loss": "hinge"}
    return Trial(number, params, np.array([0.5]), **fields)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (1 / 3, "0.333333"),
        (12345678.0, "1.23457e+07"),
        (12345678, "12345678"),
        (True, "True"),
        ("ünï 漢", "ünï 漢"),
        ("two\nlines", r"'two\nlines'"),
        ("\x1b[31m", r"'\x1b[31m'"),  # no terminal escape sequences
        ((50, 20), "(50, 20)"),
    ],
)
def test_a_value(value, text):
    assert shown(value) == text


def test_parameters_and_amounts_in_one_line():
    assert shown_params(a_trial().params) == "lr=0.0001235, depth=4, loss=hinge"
    assert shown_params({"a": "x\ty", "b": None}) == r"a='x\ty', b="
    assert shown_params({}) == ""
    assert amounts({"usd": 3.5, "s": 90.0, "kWh": 0.25}) == "$3.50, 1 m 30 s, 0.25 kWh"
    assert amounts({}) == ""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("out of memory\nthe tail\n", "out of memory"),
        ("\n  no GPU  \nmore", "no GPU  "),
        ("Traceback (most recent call last):\n  File x\nValueError: no", "ValueError: no"),
        ("3 in a row; the first:\nit broke\nmore", "3 in a row; the first: it broke"),
        ("the first:\nTraceback (most):\n  x\nKeyError: 1", "the first: KeyError: 1"),
        ("it broke:", "it broke:"),
        ("", ""),
        ("\n", ""),
    ],
)
def test_an_error_in_one_line(error, line):
    assert first_line(error) == line


def test_a_finished_trial():
    done = a_trial(state="done", value=0.25, cost={"usd": 2.0}, predicted={"usd": 1.5})
    assert trial_line(done) == (
        "trial 3: 0.25 for $2.00, about $1.50 expected  lr=0.0001235, depth=4, loss=hinge"
    )
    free = a_trial(state="done", value=1e9, predicted={"usd": 1.5})
    assert trial_line(free) == "trial 3: 1e+09  lr=0.0001235, depth=4, loss=hinge"
    failed = a_trial(state="failed", cost={"s": 0.085}, error="out of memory\nmore")
    assert trial_line(failed) == (
        "trial 3: failed after 85 ms  lr=0.0001235, depth=4, loss=hinge  (out of memory)"
    )
    zero = a_trial(state="done", value=0.0)
    assert trial_line(zero).startswith("trial 3: 0  ")


def test_the_best_trial():
    assert why_no_best([], [a_trial(state="failed")]) == "no trial returned a value"
    best = a_trial(state="done", value=1 / 3)
    assert best_line(best) == "0.333333 (trial 3) at lr=0.0001235, depth=4, loss=hinge"


def test_trials_are_counted_by_state():
    trials = [a_trial(state=state) for state in ("done", "failed", "done", "running")]
    assert counted(trials) == "2 done, 1 failed, 1 running"
    assert counted([]) == ""


def test_the_spending_of_each_account():
    ledger = Ledger.of(Budget({"s": 60, "usd": 10, "trials": 5}))
    assert spent(ledger) == "0 s of 1 m 00 s, $0.00 of $10.00, 0 of 5 trials"
    ledger = ledger.reserve(0, {"usd": 4.0}).charge(0, {"usd": 3.0, "s": 12.0}).charge_overhead(1.5)
    assert spent(ledger) == "13.5 s of 1 m 00 s, $3.00 of $10.00, 1 of 5 trials"
    assert spent(Ledger.of(Budget({"worker_s": 40}))) == "0 s of 40.0 s of worker time"
    # Without a limit, only accounts with spending are shown.
    unlimited = Ledger.of(None)
    assert spent(unlimited) == ""
    assert spent(unlimited.charge(None, {"cost": 3.0})) == "3"
    assert math.isinf(unlimited.limit)


def test_one_account():
    ledger = Ledger.of(Budget({"s": 60, "usd": 10})).reserve(0, {"usd": 4.0})
    assert account_line(ledger, "usd") == "$0.00 of $10.00 spent, $4.00 reserved"
    assert account_line(ledger.charge(0, {}), "usd") == "$0.00 of $10.00 spent"
    assert (
        account_line(ledger.charge_overhead(1.5), "s")
        == "1.5 s of 1 m 00 s spent, 1.5 s of it overhead"
    )
    assert account_line(Ledger.of(None), "cost") == "0 spent"
