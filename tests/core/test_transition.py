"""The state machine: what every event changes and refuses, and invariants of all events."""

import math
from contextlib import suppress
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from farthing import Float, Space
from farthing.budget.ledger import Ledger
from farthing.core.events import (
    Added,
    Asked,
    AskedAgain,
    Ended,
    LeasesExpired,
    Moment,
    Renewed,
    Resumed,
    StopRequested,
    SuggestLock,
    TimePassed,
    Told,
)
from farthing.core.outcomes import checked_cost, external_trial, missing_cost, outcome_of
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.transition import apply, kill_reason
from farthing.errors import InvalidInput, Outdated, Stopped
from farthing.history import PricePoint, StopReason, Trial
from farthing.policies import EIPerCost, Random

SPACE = Space({"a": Float(2, 3)})
NOW = Moment(1000.0)  # off the clock
CLOCK = Moment(1000.0, present=0.0)


def make(budget="$10", **settings):
    return Settings.of(SPACE, budget, **{"policy": Random(), **settings})


def empty(made):
    return State(Ledger.of(made.budget))


def a_trial(number, **fields):
    params = {"a": 2 + (number % 97 + 1) / 100}
    return Trial(number, params, SPACE.encode(params), **fields)


def asked(number, hold=(), **settings):
    return Asked(a_trial(number), dict(hold), **settings)


def after(made, *events, state=None):
    """The state after events; each is at NOW or a pair of an event and its moment."""
    state = empty(made) if state is None else state
    for event in events:
        # An event is a named tuple: only a plain tuple is a pair.
        event, moment = event if type(event) is tuple else (event, NOW)
        state = apply(made, state, event, moment)
    return state


def at(event, now, present=None, suggestion=0.0):
    return event, Moment(now, present, suggestion)


def seen(state):
    """All contents of a state, as a text."""
    trials = [
        (
            {f.name: getattr(trial, f.name) for f in fields(trial) if f.name not in ("x", "run")},
            trial.x.tobytes(),
            [getattr(trial.run, f.name) for f in fields(trial.run)],
        )
        for trial in state.history
    ]
    rest = [getattr(state, f.name) for f in fields(state) if f.name not in ("history", "prices")]
    prices = [(price.x.tobytes(), dict(price.cost), price.at_least) for price in state.prices]
    return repr((trials, prices, rest))


# ── asking ───────────────────────────────────────────────────────────────────────────────────────


def test_an_ask_reserves_only_limited_resources():
    made = make({"usd": 10, "kWh": 4, "trials": 3})
    hold = {"usd": 2.5, "kWh": 1.0, "s": 7.0}
    state = after(made, asked(0, hold))
    assert state.ledger.reservations == {0: {"usd": 2.5, "kWh": 1.0, "trials": 1.0}}
    assert (state.ledger["usd"].left, state.ledger["trials"].left) == (7.5, 2.0)
    assert [trial.state for trial in state.history] == ["running"]
    assert after(make(None), asked(0, {"cost": 5.0})).ledger.reservations == {0: {}}
    trials = after(make("3 trials"), asked(0, {"cost": 5.0}))
    assert trials.ledger.reservations == {0: {"trials": 1.0}}
    assert trials.ledger["cost"].reserved == 0


def test_on_the_clock_no_seconds_are_reserved():
    made = make({"s": 60, "usd": 10})
    hold = {"s": 12.0, "usd": 1.0}
    assert after(made, asked(0, hold)).ledger.reservations == {0: hold}
    assert after(made, (asked(0, hold), CLOCK)).ledger.reservations == {0: {"usd": 1.0}}


def test_an_ask_stores_how_the_trial_is_run():
    made = make(seed=3)
    event = asked(0, {}, suggest_s=0.25, suggester="me", worker="here:7", lease=15.0)
    state = after(made, SuggestLock("me", 9.0), event, at(asked(1), 1001.0))
    first, second = (trial.run for trial in state.history)
    assert (first.worker, first.lease, first.asked_at) == ("here:7", 1015.0, 1000.0)
    assert (first.suggest_s, first.attempt, first.retry, first.told_at) == (0.25, 1, False, None)
    assert (second.worker, second.lease, second.asked_at) == (None, None, 1001.0)
    assert (first.seed, second.seed) == (made.seed_of(0), made.seed_of(1))
    assert first.seed != second.seed
    assert state.suggester is None
    assert after(made, event).suggest_s == 0.25


def test_a_trial_number_that_exists_is_outdated():
    made = make()
    state = after(made, asked(0))
    for number in (0, 2):
        with pytest.raises(Outdated, match=f"another process has started trial {number}"):
            after(made, asked(number), state=state)
    external = after(made, Added((external_trial(made, {"a": 2.5}, "done", 1.0),)))
    with pytest.raises(Outdated):
        after(made, asked(0), state=external)


def test_less_left_than_the_suggestion_assumed_is_outdated():
    made = make({"usd": 10, "trials": 2})
    state = after(made, asked(0, {"usd": 6.0}))
    with pytest.raises(Outdated, match="less of the budget is left"):
        after(made, asked(1, {"usd": 4.1}), state=state)
    full = after(made, asked(1, {"usd": 4.0}), state=state)
    assert full.ledger["usd"].left == 0
    with pytest.raises(Outdated, match="less of the budget is left"):  # no trial is left
        after(made, asked(2), state=full)
    spent = after(make(), asked(0), Told(0, "done", 1.0, 10.0))
    with pytest.raises(Outdated):
        after(make(), asked(1), state=spent)


def test_the_overhead_of_a_suggestion_is_not_known_to_it():
    """A reservation of all that was left shrinks by the cost of the suggestion itself."""
    made = make("20s")
    state = after(made, at(asked(0, {"s": 20.0}), 1000.0, suggestion=0.5))
    assert state.ledger["s"].spent == state.ledger["s"].overhead == 0.5
    assert state.ledger.reserved_for(0) == {"s": 19.5}
    assert state.ledger["s"].left == 0.0


# ── telling ──────────────────────────────────────────────────────────────────────────────────────


def test_a_tell_charges_and_releases():
    made = make({"usd": 10, "trials": 5})
    state = after(made, asked(0, {"usd": 3.0}), asked(1, {"usd": 2.0}))
    told = after(made, at(Told(0, "done", 0.5, {"usd": 4.5}), 1008.0), state=state)
    assert (told.ledger["usd"].spent, told.ledger["usd"].reserved) == (4.5, 2.0)
    assert (told.ledger["trials"].spent, told.ledger["trials"].reserved) == (1.0, 1.0)
    done = told.history[0]
    assert (done.state, done.value, done.cost) == ("done", 0.5, {"usd": 4.5})
    assert (done.run.told_at, done.run.lease, done.run.queue_s) == (1008.0, None, 8.0)
    over = after(made, Told(1, "done", 0.5, 40.0), state=told)
    assert over.ledger["usd"].left == 0
    assert over.ledger["usd"].overspent == pytest.approx(34.5)  # costs stay charged


def test_a_tell_by_number_and_by_trial_are_the_same():
    made = make()
    state = after(made, asked(0))
    by_trial = after(made, Told(state.history[0], "done", 1.0, 2.0), state=state)
    by_number = after(made, Told(np.int64(0), "done", 1.0, 2.0), state=state)
    assert seen(by_trial) == seen(by_number)


def test_a_trial_is_told_once():
    made = make()
    for state, cost in (("done", 1.0), ("failed", 1.0), ("killed", 1.0)):
        told = after(made, asked(0), Told(0, state, 1.0 if state == "done" else None, cost))
        for certain in (True, False):
            with pytest.raises(InvalidInput, match=rf"already has an outcome \({state}\)"):
                after(made, Told(0, "done", 2.0, 1.0, by_user=certain), state=told)


@pytest.mark.parametrize("number", [1, -1, 7, "0", None, 0.0])
def test_a_trial_that_was_never_asked_is_refused(number):
    made = make()
    with pytest.raises(InvalidInput, match="ask\\(\\) did not return it"):
        after(made, asked(0), Told(number, "done", 1.0, 1.0))


def test_a_trial_of_another_study_is_refused():
    made = make()
    external = replace(a_trial(5), number=0)
    with pytest.raises(InvalidInput, match="ask\\(\\) did not return it"):
        after(made, asked(0), Told(external, "done", 1.0, 1.0))


def test_what_a_trial_used_is_kept_with_it():
    made = make()
    lines = ({"step": 1, "value": 0.5},)
    renewed = Renewed(0, 60.0, {"usd": 0.1}, {"usd": 0.2}, lines)
    used = {"run_s": 1.5, "cpu_s": 1.25, "peak_mb": 20.0}
    state = after(made, asked(0), renewed, at(Told(0, "done", 1.0, 2.0, run=used), 1004.0))
    run = state.history[0].run
    assert (run.run_s, run.cpu_s, run.peak_mb, run.queue_s) == (1.5, 1.25, 20.0, 2.5)
    assert run.reports == lines
    last = ({"step": 2},)
    told = Told(0, "done", 1.0, 2.0, run={**used, "reports": last})
    assert after(made, asked(0), renewed, told).history[0].run.reports == last


def test_a_user_must_report_every_required_cost():
    made = make({"usd": 10, "kWh": 4})
    state = after(made, asked(0))
    for cost, missing in ((None, "usd"), (3.0, "kWh"), ({"kWh": 1.0}, "usd")):
        for end in ("done", "failed", "killed"):
            with pytest.raises(InvalidInput, match=f"cost in '{missing}' is missing"):
                after(made, Told(0, end, 1.0, cost), state=state)
    told = after(made, Told(0, "done", 1.0, {"usd": 1.0, "kWh": 0.5}), state=state)
    assert (told.ledger["usd"].spent, told.ledger["kWh"].spent) == (1.0, 0.5)
    learns = make(None, policy=EIPerCost())
    with pytest.raises(InvalidInput, match="cost in 'cost' is missing"):
        after(learns, asked(0), Told(0, "done", 1.0))
    assert after(make(None), asked(0), Told(0, "done", 1.0)).history[0].cost == {}


@pytest.mark.parametrize(
    ("cost", "match"),
    [
        ({"kWh": 1.0}, "this study counts usd"),
        ({"trials": 1.0}, "this study counts usd"),
        (-1.0, "at least 0"),
        (math.nan, "finite"),
        (math.inf, "finite"),
        ("1", "finite"),
        (True, "finite"),
    ],
)
def test_an_invalid_cost_is_refused(cost, match):
    made = make({"usd": 10, "trials": 5})
    for certain in (True, False):
        with pytest.raises(InvalidInput, match=match):
            after(made, asked(0), Told(0, "done", 1.0, cost, by_user=certain))


def test_a_known_cost_need_not_be_reported():
    made = make({"usd": 10, "kWh": 4}, cost={"usd": lambda params: params["a"]})
    x = SPACE.encode({"a": 2.5})
    assert checked_cost(made, {"kWh": 1.0}, x, required=True) == {"kWh": 1.0, "usd": 2.5}
    assert checked_cost(made, {"kWh": 1.0, "usd": 3.0}, x, required=True)["usd"] == 3.0
    assert missing_cost(made, {"usd": 1.0}) == "kWh"
    assert missing_cost(made, {"usd": 1.0, "kWh": 1.0}) is None


def test_an_outcome_is_exactly_one_of_value_failure_and_kill():
    assert outcome_of(np.float32(0.5), None, False, "it") == ("done", 0.5)
    assert outcome_of(None, "why", False, "it") == ("failed", None)
    assert outcome_of(None, None, True, "it") == ("killed", None)
    for given_ in ((None, None, False), (1.0, "why", False), (1.0, None, True), (None, "w", True)):
        with pytest.raises(InvalidInput, match="exactly one"):
            outcome_of(*given_, "it")
    for failed in ("", 3, True):
        with pytest.raises(InvalidInput, match="as a text"):
            outcome_of(None, failed, False, "it")
    for value in (math.nan, -math.inf, "0.5", True, 1j, 10**400):
        with pytest.raises(InvalidInput, match=r"value of trial 7 is .* finite number"):
            outcome_of(value, None, False, "trial 7")


# ── reported by an engine ────────────────────────────────────────────────────────────────────────


def told_by_engine(number, state, cost=None, error=None, value=None):
    value = 1.0 if state == "done" and value is None else value
    return Told(number, state, value, cost, error, by_user=False)


def test_a_done_trial_without_its_cost_is_kept_and_stops_the_study():
    made = make({"usd": 10, "trials": 5})
    state = after(made, asked(0, {"usd": 1.0}), told_by_engine(0, "done", {}, value=0.25))
    kept = state.history[0]
    assert (kept.state, kept.value, kept.cost, kept.error) == ("done", 0.25, {}, None)
    assert state.stop_requested.sentence == (
        "trial 0 did not report its cost in usd, which the budget or the policy needs. "
        'Report {"cost": {"usd": ...}}, return Outcome(value, cost=...), or set a rate.'
    )
    bare = make({"trials": 5}, policy=EIPerCost())  # a cost without a unit
    told = after(bare, asked(0), told_by_engine(0, "done", {}, value=0.25))
    assert told.stop_requested.sentence == (
        "trial 0 did not report its cost, which the budget or the policy needs. "
        'Report {"cost": ...}, return Outcome(value, cost=...), or set a rate.'
    )
    assert not state.kill_running
    assert (state.ledger["usd"].spent, state.ledger["trials"].spent) == (0.0, 1.0)
    assert state.ledger.reservations == {}
    with pytest.raises(Stopped, match="did not report its cost in usd"):
        after(made, asked(1), state=state)
    again = after(made, Resumed(), asked(1), state=state)
    assert again.history[1].state == "running"


@pytest.mark.parametrize("end", ["failed", "killed"])
def test_without_a_value_a_trial_is_charged_what_was_predicted(end):
    made = make({"usd": 10, "kWh": 4})
    predicted = {"usd": 2.0, "kWh": 0.5}
    begun = Asked(a_trial(0, predicted=predicted), predicted)
    nothing = after(made, begun, told_by_engine(0, end, {}))
    assert nothing.history[0].cost == predicted
    assert (nothing.ledger["usd"].spent, nothing.ledger["kWh"].spent) == (2.0, 0.5)
    part = after(made, begun, told_by_engine(0, end, {"usd": 3.0}))
    assert part.history[0].cost == {"usd": 3.0, "kWh": 0.5}
    assert nothing.stop_requested is part.stop_requested is None
    unknown = after(made, asked(0), told_by_engine(0, end, {}))
    assert unknown.history[0].cost == {}
    assert unknown.stop_requested is None
    # A cost that is not required is not charged.
    free = Asked(a_trial(0, predicted={"cost": 2.0}), {})
    assert after(make(None), free, told_by_engine(0, end)).history[0].cost == {}


@pytest.mark.parametrize("retries", [0, 1])
def test_only_lost_trials_are_repeated_and_not_more_often_than_allowed(retries):
    made = make(retries=retries)
    for end in ("failed", "killed"):
        state = after(made, asked(0), told_by_engine(0, end, {"usd": 1.0}, error="no"))
        assert not state.history[0].run.retry
    lost = told_by_engine(0, "lost", {"usd": 1.0}, error="no")
    state = after(made, asked(0), lost)
    assert (state.next_retry is not None) == bool(retries)
    if retries:
        twice = after(made, AskedAgain(), told_by_engine(1, "lost", error="no"), state=state)
        assert (twice.history[1].run.attempt, twice.next_retry) == (2, None)


def test_a_running_trial_does_not_count_as_free():
    """A hundred trials that cost nothing, without the one that is still running."""
    made = make()
    free = [
        e for n in range(99) for e in (asked(n), told_by_engine(n, "done", {"usd": 0.0}, value=1.0))
    ]
    state = after(made, *free, asked(99))
    running = after(
        made, asked(100), told_by_engine(100, "done", {"usd": 0.0}, value=1.0), state=state
    )
    assert state.stop_requested is running.stop_requested is None
    ended = after(made, told_by_engine(99, "done", {"usd": 0.0}, value=1.0), state=state)
    assert "100 trials in a row cost nothing" in ended.stop_requested.sentence


def test_a_lost_trial_is_charged_only_what_it_reported():
    made = make({"usd": 10, "trials": 5}, retries=1)
    begun = Asked(a_trial(0, predicted={"usd": 2.0}), {"usd": 2.0})
    state = after(made, begun, told_by_engine(0, "lost", {}, "no GPU"))
    assert (state.ledger["usd"].spent, state.ledger["trials"].spent) == (0.0, 1.0)
    assert state.history[0].error == "no GPU"
    assert state.next_retry is state.history[0]
    assert (state.failures, state.first_error) == (1, "no GPU")


def test_failures_in_a_row_that_an_engine_reports_stop_the_study():
    made = make("30 trials", failures_in_a_row=3)
    state = after(
        made,
        *(asked(0), told_by_engine(0, "failed", None, "why 0")),
        *(asked(1), told_by_engine(1, "killed", None, "late")),  # neither a success nor a failure
        *(asked(2), told_by_engine(2, "lost", None, "why 2")),
    )
    assert (state.failures, state.first_error, state.stop_requested) == (2, "why 0", None)
    broken = after(made, asked(3), told_by_engine(3, "failed", None, "why 3"), state=state)
    assert broken.stop_requested.sentence == "3 trials in a row failed; the first error was:\nwhy 0"
    assert not broken.kill_running
    with pytest.raises(Stopped, match="3 trials in a row"):
        after(made, asked(4), state=broken)
    better = after(made, asked(3), told_by_engine(3, "done"), state=state)
    assert (better.failures, better.first_error) == (0, None)
    next_one = after(made, asked(4), told_by_engine(4, "failed", None, "why 4"), state=better)
    assert (next_one.failures, next_one.first_error) == (1, "why 4")


def test_failures_do_not_replace_an_earlier_reason():
    made = make("30 trials", failures_in_a_row=1)
    failed = told_by_engine(0, "failed", None, "why")
    state = after(
        made, asked(0), StopRequested(StopReason("requested", "a stop was requested")), failed
    )
    assert (state.failures, state.stop_requested.kind) == (1, "requested")


def test_failures_that_a_user_reports_do_not_stop_the_study():
    made = make("30 trials", failures_in_a_row=2)
    state = after(made)
    for number in range(4):
        state = after(made, asked(number), Told(number, "failed", error="why"), state=state)
    assert (state.failures, state.stop_requested) == (4, None)
    endless = make("30 trials", failures_in_a_row=math.inf)
    for number in range(4, 9):
        told = told_by_engine(number, "failed", error="why")
        state = after(endless, asked(number), told, state=state)
    assert (state.failures, state.stop_requested) == (9, None)


# ── leases ───────────────────────────────────────────────────────────────────────────────────────


def leased(number, worker="here:7", lease=15.0, hold=(), **settings):
    return asked(number, hold, worker=worker, lease=lease, **settings)


def test_a_trial_whose_lease_expired_is_lost_and_charged_to_its_last_sign_of_life():
    made = make({"usd": 10, "trials": 5})
    renewed = Renewed(0, 60.0, {"usd": 2.5}, {"usd": 3.0})
    state = after(made, leased(0), asked(1), renewed)
    assert state.history[0].run.lease == 1060.0
    assert seen(after(made, at(LeasesExpired(), 1060.0), state=state)) == seen(state)
    lost = after(made, at(LeasesExpired(), 1060.5), state=state)
    first = lost.history[0]
    assert (first.state, first.cost) == ("lost", {"usd": 2.5})
    assert first.error == "its worker (here:7) disappeared"
    assert (first.run.lease, first.run.told_at) == (None, 1060.5)
    assert lost.history[1].state == "running"  # it has no lease
    assert lost.ledger.reservations.keys() == {1}
    assert (lost.ledger["usd"].spent, lost.ledger["trials"].spent) == (2.5, 1.0)
    assert lost.failures == 0


def test_seconds_that_passed_are_not_charged_again_when_a_lease_expires():
    made = make({"s": 60, "usd": 10})
    used = Renewed(0, 15.0, {"s": 4.0, "usd": 1.0}, {"s": 5.0, "usd": 1.5})
    state = after(made, (leased(0), CLOCK), at(used, 1004.0, present=4.0))
    assert (state.ledger["s"].spent, state.ledger["s"].reserved) == (4.0, 0.0)
    lost = after(made, at(LeasesExpired(), 1100.0), state=state)
    assert (lost.ledger["s"].spent, lost.ledger["usd"].spent) == (4.0, 1.0)
    assert lost.history[0].cost == {"s": 4.0, "usd": 1.0}


def test_off_the_clock_the_seconds_of_a_lost_trial_are_charged_like_any_other_cost():
    made = make("60s")
    state = after(made, leased(0), Renewed(0, 15.0, {"s": 4.0}, {"s": 5.0}))
    assert state.ledger.reserved_for(0) == {"s": 5.0}
    lost = after(made, at(LeasesExpired(), 1100.0), state=state)
    assert (lost.ledger["s"].spent, lost.ledger["s"].reserved) == (4.0, 0.0)
    late = after(made, at(Told(0, "done", 1.0, 6.5), 1101.0), state=lost)
    assert late.ledger["s"].spent == 6.5


def test_a_lost_trial_is_repeated_as_often_as_the_settings_say():
    made = make({"usd": 10, "trials": 9}, retries=2)
    predicted = {"usd": 2.0}
    begun = Asked(a_trial(0, predicted=predicted, notes={"phase": "start", "other": 1}), predicted)
    state = after(made, begun._replace(lease=1.0))
    for attempt in (1, 2):
        state = after(made, at(LeasesExpired(), 1000.0 + 100 * attempt), state=state)
        assert state.next_retry is state.history[attempt - 1]
        again = at(AskedAgain("there:8", 1.0), 1000.0 + 100 * attempt)
        state = after(made, again, state=state)
        trial, lost = state.history[attempt], state.history[attempt - 1]
        assert state.next_retry is None
        assert (trial.params, trial.predicted) == (lost.params, predicted)
        np.testing.assert_array_equal(trial.x, lost.x)
        assert trial.because == f"repeats trial {attempt - 1}, which was lost"
        assert trial.notes == {"phase": "start"}
        assert (trial.run.attempt, trial.run.worker) == (attempt + 1, "there:8")
        assert trial.run.lease == 1001.0 + 100 * attempt
        assert trial.run.seed == made.seed_of(attempt) != lost.run.seed
        assert state.ledger.reservations == {attempt: {"usd": 2.0, "trials": 1.0}}
    state = after(made, at(LeasesExpired(), 2000.0), state=state)
    assert state.next_retry is None
    assert [trial.state for trial in state.history] == ["lost"] * 3


def test_a_lost_trial_that_costs_what_is_left_is_repeated():
    made = make(retries=1)
    begun = Asked(a_trial(0, predicted={"usd": 4.0}), {}, lease=1.0)
    state = after(made, begun, asked(1, {"usd": 6.0}), at(LeasesExpired(), 1100.0))
    assert state.ledger["usd"].left == 4.0
    assert state.next_retry is state.history[0]


def test_overhead_off_the_clock_adds_up():
    made = make("100s")
    state = after(made, at(TimePassed(), 1000.0, None, 2.0), at(TimePassed(), 1001.0, None, 3.0))
    assert (state.overhead_s, state.elapsed_s, state.ledger["s"].overhead) == (5.0, 5.0, 5.0)


def test_a_lost_trial_waits_until_it_is_affordable():
    made = make(retries=1)
    begun = Asked(a_trial(0, predicted={"usd": 9.0}), {}, lease=1.0)
    state = after(made, begun, asked(1, {"usd": 6.0}), at(LeasesExpired(), 1100.0))
    assert state.next_retry is None
    with pytest.raises(Outdated, match="repeated the lost trial"):
        after(made, AskedAgain(), state=state)
    less = after(made, Told(1, "done", 1.0, 0.5), state=state)
    assert less.next_retry is less.history[0]
    assert after(made, AskedAgain(), state=less).ledger.reserved_for(2) == {"usd": 9.0}


def test_a_retry_reserves_no_more_than_is_left():
    made = make(retries=1)
    notes = {"limit": {"usd": 3.0}}  # killed there, whatever its expected cost
    begun = Asked(a_trial(0, predicted={"usd": 9.0}, notes=notes), {}, lease=1.0)
    state = after(made, begun, asked(1, {"usd": 6.0}), at(LeasesExpired(), 1100.0))
    assert after(made, AskedAgain(), state=state).ledger.reserved_for(2) == {"usd": 4.0}
    on_clock = make("60s", retries=1)
    begun = Asked(a_trial(0, predicted={"s": 9.0}), {}, lease=1.0)
    state = after(on_clock, (begun, CLOCK), at(LeasesExpired(), 1100.0))
    again = after(on_clock, at(AskedAgain(), 1100.0, present=0.0), state=state)
    assert again.ledger.reservations == {1: {}}


def test_an_impossible_retry_is_refused():
    made = make({"usd": 10, "trials": 1}, retries=1)
    with pytest.raises(Outdated, match="repeated the lost trial"):
        after(made, AskedAgain())
    state = after(made, leased(0), at(LeasesExpired(), 1100.0))
    with pytest.raises(Stopped, match="the budget is spent"):  # the limit is one trial
        after(made, AskedAgain(), state=state)
    with pytest.raises(Stopped, match="enough"):
        after(made, StopRequested(StopReason("requested", "enough")), AskedAgain(), state=state)


# ── late reports ─────────────────────────────────────────────────────────────────────────────────


def lost_trial(made, cost=1.0):
    state = after(made, leased(0), Renewed(0, 15.0, {"usd": cost}, {"usd": cost}))
    return after(made, at(LeasesExpired(), 1100.0), state=state)


def test_a_late_value_of_a_lost_trial_is_kept_and_the_rest_is_charged():
    made = make({"usd": 10, "trials": 5}, retries=1)
    state = lost_trial(made)
    for told in (Told(0, "done", 0.25, 1.75), told_by_engine(0, "done", 1.75, value=0.25)):
        late = after(made, at(told, 1101.0), state=state)
        first = late.history[0]
        assert (first.state, first.value, first.cost) == ("done", 0.25, {"usd": 1.75})
        assert (late.ledger["usd"].spent, late.ledger["trials"].spent) == (1.75, 1.0)
        assert late.next_retry is None  # no retry any more
        with pytest.raises(InvalidInput, match="already has an outcome"):
            after(made, told, state=late)
    less = after(made, Told(0, "done", 0.25, 0.5), state=state)
    assert less.ledger["usd"].spent == 1.0  # charges are not refunded


def test_a_late_end_without_a_value_changes_nothing():
    made = make({"usd": 10, "trials": 5}, retries=1)
    state = lost_trial(made)
    for end in ("failed", "killed", "lost"):
        told = told_by_engine(0, end, 9.0, "why")
        assert seen(after(made, at(told, 1101.0), state=state)) == seen(state)
    said = after(made, at(Told(0, "failed", None, 3.0, "why"), 1101.0), state=state)
    assert (said.history[0].state, said.ledger["usd"].spent) == ("failed", 3.0)  # the user decides


# ── renewing ─────────────────────────────────────────────────────────────────────────────────────


def renew(made, state, number, cost, ahead, moment=NOW):
    event = Renewed(number, 60.0, cost, ahead)
    state = apply(made, state, event, moment)
    return state, kill_reason(made, state, event, moment)


def test_a_trial_draws_what_it_will_need_until_nothing_is_left():
    made = make()
    state = after(made, leased(0, hold={"usd": 2.0}))
    for used in (0.5, 2.0, 9.0):
        state, why = renew(made, state, 0, {"usd": used}, {"usd": used + 1})
        assert why is None
        assert state.ledger.reserved_for(0)["usd"] == max(used + 1, 2.0)
        assert state.history[0].cost == {"usd": used}
        assert state.history[0].run.lease == 1060.0
    state, why = renew(made, state, 0, {"usd": 9.5}, {"usd": 10.5})
    assert why == "the budget of $10.00 is spent"
    assert state.ledger.left == 0
    assert state.ledger.reserved_for(0) == {"usd": 10.0}


def test_two_trials_share_what_is_left():
    made = make()
    state = after(made, leased(0), leased(1))
    state, why = renew(made, state, 0, {"usd": 6.0}, {"usd": 7.0})
    assert why is None
    state, why = renew(made, state, 1, {"usd": 2.0}, {"usd": 3.0})
    assert why is None
    state, why = renew(made, state, 1, {"usd": 3.0}, {"usd": 4.0})
    assert why is not None
    assert state.ledger.spent + state.ledger.reserved == 10.0
    state = after(made, Told(0, "done", 1.0, 6.5), state=state)
    state, why = renew(made, state, 1, {"usd": 3.0}, {"usd": 3.2})
    assert why is None


def test_reservations_may_be_rounded():
    made = make("$1")
    have, need = 0.1, 0.41
    assert have + (need - have) < need
    state, why = renew(made, after(made, leased(0, hold={"usd": have})), 0, {}, {"usd": need})
    assert state.ledger.reserved_for(0)["usd"] < need
    assert why is None


def test_an_unlimited_resource_is_never_short():
    made = make(None)
    state, why = renew(made, after(made, leased(0)), 0, {"cost": 1e9}, {"cost": 1e12})
    assert why is None
    assert state.ledger.reservations == {0: {}}
    trials = make("3 trials")
    assert renew(trials, after(trials, leased(0)), 0, {"s": 9.0}, {"s": 10.0})[1] is None


def test_on_the_clock_a_trial_ends_with_the_time_that_is_left_for_all():
    made = make("10s")
    state = after(made, (leased(0), CLOCK))
    tick = Moment(1006.0, present=6.0)
    state, why = renew(made, state, 0, {"s": 6.0}, {"s": 9.9}, tick)
    assert why is None
    assert (state.ledger.spent, state.ledger.reserved) == (6.0, 0.0)
    tick = Moment(1008.0, present=2.0)
    state, why = renew(made, state, 0, {"s": 8.0}, {"s": 10.1}, tick)
    assert why == "the budget of 10.0 s is spent"


def test_a_rate_per_worker_is_needed_for_each_worker():
    """Two workers with a lease and one without: $1 per hour each, $2 per hour in total."""
    made = make("$2", rate="$1/h per worker")
    started = [(event, CLOCK) for event in (leased(0), leased(1), asked(2))]
    state = after(made, *started)
    for ahead, enough in ((0.99, True), (1.01, False)):
        _, why = renew(made, state, 0, {"usd": 0.0}, {"usd": ahead}, CLOCK)
        assert why == (None if enough else "the budget of $2.00 is spent")


def test_a_lost_or_unknown_trial_is_killed():
    made = make()
    lost = lost_trial(made)
    for number in (0, 7):
        state, why = renew(made, lost, number, {"usd": 2.0}, {"usd": 3.0})
        assert why == "its lease had expired, because its worker had not reported for too long"
        assert seen(state) == seen(lost)


def test_a_stop_kills_running_trials_only_with_now():
    made = make()
    state = after(made, leased(0), StopRequested(StopReason("requested", "a stop was requested")))
    assert renew(made, state, 0, {"usd": 0.1}, {"usd": 0.2})[1] is None
    state = after(made, StopRequested(StopReason("requested", "another"), now=True), state=state)
    assert renew(made, state, 0, {"usd": 0.1}, {"usd": 0.2})[1] == "a stop was requested"
    state = after(made, Resumed(), state=state)
    assert renew(made, state, 0, {"usd": 0.1}, {"usd": 0.2})[1] is None


def test_progress_is_kept_until_there_is_more():
    made = make()
    one, two = ({"step": 1},), ({"step": 1}, {"step": 2})
    state = after(made, leased(0), Renewed(0, 9.0, {}, {}, one), Renewed(0, 9.0, {}, {}))
    assert state.history[0].run.reports == one
    assert after(made, Renewed(0, 9.0, {}, {}, two), state=state).history[0].run.reports == two


# ── lock and stops ───────────────────────────────────────────────────────────────────────────────


def test_one_process_suggests_at_a_time():
    made = make()
    state = after(made, SuggestLock("one", 10.0))
    assert (state.suggester, state.suggester_until) == ("one", 1010.0)
    assert state.is_suggesting("two", 1009.9)
    assert not state.is_suggesting("two", 1010.0)
    assert not state.is_suggesting("one", 1001.0)
    assert not after(made).is_suggesting("two", 0.0)
    with pytest.raises(Outdated, match="one holds the suggestion lock"):
        after(made, at(SuggestLock("two", 5.0), 1009.0), state=state)
    dead = after(
        made, at(SuggestLock("two", 5.0), 1010.0), state=state
    )  # the lock of one has expired
    assert (dead.suggester, dead.suggester_until) == ("two", 1015.0)
    longer = after(made, at(SuggestLock("one", 10.0), 1005.0), state=state)
    assert longer.suggester_until == 1015.0
    assert after(made, SuggestLock("two"), state=state) == state  # two did not hold the lock
    assert after(made, SuggestLock("one"), state=state).suggester is None


def test_while_one_process_suggests_no_other_asks_but_all_tell():
    made = make()
    state = after(made, asked(0), SuggestLock("one", 10.0))
    for suggester in ("two", None):
        with pytest.raises(Outdated):
            after(made, asked(1, suggester=suggester), state=state)
    told = after(made, Told(0, "done", 1.0, 1.0), state=state)
    assert told.suggester == "one"
    mine = after(made, asked(1, suggester="one"), state=told)
    assert (mine.suggester, mine.suggester_until) == (None, None)
    late = after(made, at(asked(1, suggester="two"), 1010.0), state=told)
    assert late.suggester is None


def test_the_lock_charges_no_time():
    made = make("60s")
    state = after(made, at(SuggestLock("one", 10.0), 1000.0, present=5.0, suggestion=2.0))
    assert (state.ledger.spent, state.charged_until) == (0.0, None)


def test_stop_resume_end():
    made = make()
    state = after(made, asked(0), StopRequested(StopReason("requested", "first")))
    with pytest.raises(Stopped, match="first"):
        after(made, asked(1), state=state)
    state = after(
        made,
        StopRequested(StopReason("requested", "second"), now=True),
        StopRequested(StopReason("requested", "third")),
        state=state,
    )
    assert (str(state.stop_requested), state.kill_running) == ("first", True)
    told = after(made, Told(0, "failed", None, 1.0, "why"), state=state)
    ended = after(made, Ended(StopReason("rule", "over")), SuggestLock("one", 9.0), state=told)
    assert (str(ended.stop_reason), str(ended.stop_requested)) == ("over", "first")
    back = after(made, Resumed(), state=ended)
    assert (back.stop_requested, back.kill_running, back.stop_reason) == (None, False, None)
    assert (back.failures, back.first_error, back.suggester) == (0, None, None)
    assert back.ledger == ended.ledger
    assert after(made, asked(1), state=back).history[1].state == "running"


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


SHIFTS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), min_size=1, max_size=8)


@given(SHIFTS, st.data())
def test_the_clock_charges_the_time_with_a_worker(shifts, data):
    """Second by second: a second is charged if the worker of the next event was at work."""
    made, cuts = make("1000s"), []
    for arrives, stays in shifts:
        ticks = data.draw(st.lists(st.integers(0, stays), max_size=4))
        moments = sorted(arrives + tick for tick in [0, *ticks, stays])
        cuts += [(now, since) for since, now in pairwise(moments)]
    state, charged, last = empty(made), set(), -1
    for now, since in sorted(cuts):
        state = after(made, at(TimePassed(), 1000.0 + now, present=now - since), state=state)
        charged |= {second for second in range(since, now) if second >= last}
        last = max(now, last)
        assert state.ledger.spent == len(charged)
    # Time before the last event of another worker is not charged: never more than was worked.
    covered = {second for arrives, stays in shifts for second in range(arrives, arrives + stays)}
    assert charged <= covered
    if len(shifts) == 1:
        assert charged == covered


def test_time_together_is_charged_once_and_downtime_never():
    made = make("100s")
    state = after(made, (TimePassed(), CLOCK))
    for now in (1001.0, 1001.5, 1002.0):  # four workers, all at work since the beginning
        for _ in range(4):
            state = after(made, at(TimePassed(), now, present=now - 1000.0), state=state)
    assert state.ledger.spent == pytest.approx(2.0)
    state = after(made, at(TimePassed(), 5000.0, present=0.25, suggestion=0.25), state=state)
    assert state.ledger.spent == pytest.approx(2.25)  # downtime is free
    assert state.ledger.overhead == pytest.approx(0.25)
    state = after(
        made, at(TimePassed(), 4000.0, present=7.0), state=state
    )  # the clock was set back:
    assert state.ledger.spent == pytest.approx(9.25)  # the worker's own time counts
    assert state.charged_until == 4000.0
    silent = after(made, at(TimePassed(), 6000.0), state=state)
    assert seen(silent) == seen(state)
    free = after(make(), at(TimePassed(), 1000.0, present=7.0, suggestion=1.0))
    assert (free.ledger.spent, free.elapsed_s, free.overhead_s) == (0.0, 7.0, 1.0)


def test_others_may_have_charged_part_of_a_suggestion():
    made = make("100s")
    state = after(made, (TimePassed(), CLOCK), at(TimePassed(), 1003.0, present=3.0))
    state = after(made, at(TimePassed(), 1004.0, present=4.0, suggestion=4.0), state=state)
    assert (state.ledger["s"].spent, state.ledger["s"].overhead) == (4.0, 1.0)


def test_off_the_clock_seconds_are_charged_as_reported_and_overhead_is_added():
    made = make("100s")
    told = at(Told(0, "done", 1.0, 12.5), 1050.0, suggestion=0.25)
    state = after(made, at(asked(0), 1000.0, suggestion=0.5), told)
    assert (state.ledger["s"].spent, state.ledger["s"].overhead) == (13.25, 0.75)
    assert state.charged_until is None


def test_on_the_clock_the_seconds_of_a_trial_are_not_charged_again():
    made = make({"s": 100, "usd": 10})
    told = at(told_by_engine(0, "done", {"s": 9.0, "usd": 1.0}), 1009.5, present=9.5)
    state = after(made, (asked(0), CLOCK), told)
    assert (state.ledger["s"].spent, state.ledger["usd"].spent) == (9.5, 1.0)
    assert state.history[0].cost == {"s": 9.0, "usd": 1.0}


# ── external ─────────────────────────────────────────────────────────────────────────────────────

EXTERNAL = {
    "done": {"value": 0.5, "cost": 1.0},
    "failed": {"error": "why", "cost": 1.0},
    "killed": {"cost": 1.0},
    "running": {},
}


@pytest.mark.parametrize("state", EXTERNAL)
def test_an_external_evaluation_gets_a_number_and_is_not_charged(state):
    made = make({"usd": 10, "trials": 2})
    external = external_trial(made, {"a": 2.5}, state, **EXTERNAL[state])
    before = after(made, asked(0, {"usd": 1.0}))
    added = after(made, at(Added((external, external)), 1005.0), state=before)
    assert added.ledger == before.ledger
    assert [trial.number for trial in added.history] == [0, 1, 2]
    kept = added.history[2]
    assert (kept.state, kept.params, kept.because) == (
        state,
        {"a": 2.5},
        "imported with its result",
    )
    assert (kept.value, kept.error) == tuple(EXTERNAL[state].get(k) for k in ("value", "error"))
    assert kept.cost == ({} if state == "running" else {"usd": 1.0})
    assert kept.is_start
    assert kept.run.asked_at == 1005.0
    assert kept.run.told_at == (None if state == "running" else 1005.0)
    assert (added.failures, added.stop_requested) == (0, None)


def test_a_running_external_evaluation_is_told_later_and_not_charged():
    made = make({"usd": 10, "trials": 2})
    external = external_trial(made, {"a": 2.5}, "running")
    before = after(made, Added((external,) * 4))
    for number, (state, told) in enumerate(EXTERNAL.items()):
        if state == "running":
            continue
        told = Told(number, state, told.get("value"), 3.0, told.get("error"))
        ended = after(made, at(told, 1009.0), state=before)
        assert ended.ledger == before.ledger
        kept = ended.history[number]
        assert (kept.state, kept.cost, kept.run.told_at) == (state, {"usd": 3.0}, 1009.0)
    assert after(made, at(LeasesExpired(), 1e9), state=before) == before
    # Lost and back again: the budget pays for neither.
    lost = after(made, told_by_engine(0, "lost", 1.0, "no GPU"), state=before)
    back = after(made, Told(0, "done", 1.0, 3.0), state=lost)
    assert back.ledger == before.ledger


def test_an_external_cost_is_known_reported_or_unknown():
    known = make(cost=lambda params: 7.0)
    assert external_trial(known, {"a": 2.5}, "done", 1.0).cost == {"usd": 7.0}
    assert external_trial(known, {"a": 2.5}, "running").cost == {}
    assert external_trial(make(), {"a": 2.5}, "done", 1.0).cost == {}
    with pytest.raises(InvalidInput, match="missing"):
        external_trial(make(), {}, "done", 1.0)


def test_prices_belong_to_no_trial():
    made = make()
    one, two = (PricePoint(SPACE.encode({"a": a}), {"usd": 1.0}) for a in (2.25, 2.75))
    state = after(made, Added((), (one,)), Added((), (two,)))
    assert state.prices == (one, two)
    assert len(state.history) == 0
    assert state.ledger == empty(made).ledger


# ── random events ────────────────────────────────────────────────────────────────────────────────

BUDGETS = ["$10", "20s", {"s": 20, "usd": 5, "trials": 6}, "6 trials", None, {"usd": 3, "kWh": 2}]
KINDS = ("ask", "ask", "again", "renew", "tell", "tell", "engine", "engine", "add", "expired")
KINDS += ("expired", "time", "lock", "stop", "resumed", "ended", "wrong")
STEP = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 11),  # which trial, and other choices
    st.floats(0.01, 4.0),  # an amount
    st.floats(0, 4.0),  # seconds that pass
    st.booleans(),
)


def an_event(made, state, kind, pick, amount, flag):
    """An event of a kind; most of them are plausible."""
    history, priced = state.history, made.cost_resources
    number = pick % len(history) if history else 0
    price = dict.fromkeys(priced, amount)
    match kind:
        case "ask":
            there = {r: a.left for r in state.ledger for a in [state.ledger[r]] if r != "trials"}
            hold = {r: min(amount, max(left, 0.0)) for r, left in there.items()}
            predicted = price if flag else {}
            trial = a_trial(len(history) + (pick == 11), predicted=predicted)
            wanted = {r: 2 * a for r, a in hold.items()} if pick == 10 else hold
            suggester = "one" if pick % 2 else None
            return Asked(trial, wanted, 0.1, suggester, "w", amount if flag else None)
        case "again":
            return AskedAgain("v", amount if flag else None)
        case "renew":
            ahead = {r: 2 * a for r, a in price.items()}
            return Renewed(pick, amount, price, ahead, ({"step": pick},) if flag else ())
        case "tell":
            end = ("done", "failed", "killed")[pick % 3]
            cost = price if pick < 9 else None
            told = history[number] if flag and history else number
            return Told(told, end, amount if end == "done" else None, cost, f"why {pick}")
        case "engine":
            end = ("done", "failed", "killed", "lost")[pick % 4]
            value = amount if end == "done" else None
            error = None if end == "done" else f"why {pick}"
            return Told(number, end, value, price if flag else {}, error, by_user=False)
        case "add":
            end = ("done", "failed", "killed", "running")[pick % 4]
            value = amount if end == "done" else None
            external = external_trial(made, {"a": 2.5}, end, value, cost=price)
            prices = (PricePoint(external.x, price, flag),) * (pick % 3)
            return Added((external,) * (pick % 2), prices)
        case "lock":
            return SuggestLock("two" if pick % 2 else "one", amount if flag else None)
        case "wrong":
            cost = ({"eur": 1.0}, -1.0, math.nan, {"trials": 1.0})[pick % 4]
            other = replace(a_trial(50), number=number)
            return Told(other if flag else pick - 3, "done", 1.0, cost)
    simple = {"expired": LeasesExpired(), "time": TimePassed(), "resumed": Resumed()}
    simple |= {
        "stop": StopRequested(StopReason("requested", "enough"), flag),
        "ended": Ended(StopReason("rule", "over")),
    }
    return simple[kind]


def learnt(state):
    """Everything that a suggestion depends on."""
    ended = [
        (t.state, t.value, tuple(t.cost.items()) if t.state != "running" else None)
        for t in state.history
    ]
    return repr((ended, len(state.prices)))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(range(len(BUDGETS))),
    st.integers(0, 2),
    st.sampled_from([1, 2, 3, math.inf]),
    st.sampled_from(["on", "off", "both"]),
    st.lists(STEP, min_size=5, max_size=40),
)
@example(
    *(1, 1, 3, "off"),
    [("ask", 0, 1.0, 0.5, True), ("renew", 0, 1.0, 0.5, True), ("expired", 0, 1.0, 4.0, True)],
)
@example(3, 2, 1, "on", [("add", 3, 1.0, 0.5, True), ("engine", 3, 1.0, 4.0, True)] * 3)
def test_invariants_of_any_events(which, retries, failures, clock, steps):
    """Compared with independent sums over trials, not with the steps of the ledger."""
    made = make(BUDGETS[which], retries=retries, failures_in_a_row=failures)
    state, now, suggestion, present = empty(made), 1000.0, 0.0, 0.0
    charged: dict[int, dict[str, float]] = {}  # the most that was ever charged for a trial
    known = {state.version()}
    for kind, pick, amount, seconds, flag in steps:
        now += seconds if pick != 7 else -seconds  # clocks are set back, too
        event = an_event(made, state, kind, pick, amount, flag)
        on_clock = clock == "on" or (clock == "both" and flag)
        moment = Moment(now, seconds if on_clock else None, seconds / 8)
        before, snapshot, is_known = state, seen(state), state.version()
        with suppress(InvalidInput, Outdated, Stopped):  # no other error
            state = apply(made, before, event, moment)
        assert seen(before) == snapshot  # the arguments do not change
        if state is before:
            continue
        if not isinstance(event, SuggestLock):
            suggestion += 0.0 if on_clock else moment.overhead_s
            present += seconds if on_clock else 0.0
        # ── numbers and outcomes ──
        assert [trial.number for trial in state.history] == list(range(len(state.history)))
        assert len(state.history) >= len(before.history)
        for old, new in zip(before.history, state.history, strict=False):
            assert old is new or old.state in ("running", "lost")
            assert (old.state, new.state) not in (("lost", "running"), ("lost", "lost")) or (
                old is new or (old.run.retry and replace(old.run, retry=False) == new.run)
            )
            assert old.params is new.params
            assert old.x is new.x
        # ── what a suggestion depends on ──
        if learnt(state) != learnt(before):
            assert state.version() not in known
        elif not isinstance(event, Added):
            assert state.version() == is_known
        known.add(state.version())
        # ── the ledger ──
        ledger = state.ledger
        ours = [t for t in state.history if t.origin != "imported"]
        assert ledger.reservations.keys() == {t.number for t in ours if t.state == "running"}
        for trial in ours:
            if trial.state != "running":
                most = charged.setdefault(trial.number, {})
                for resource, cost in trial.cost.items():
                    most[resource] = max(cost, most.get(resource, 0.0))
        for resource in ledger:
            account = ledger[resource]
            assert account.spent >= before.ledger[resource].spent
            reserved = [each.get(resource, 0.0) for each in ledger.reservations.values()]
            assert account.reserved == math.fsum(reserved) >= 0
            if math.isfinite(account.limit):
                total = account.spent + account.reserved + account.left - account.overspent
                assert total == pytest.approx(account.limit, abs=1e-9)
            else:
                assert account.reserved == 0
            paid = math.fsum(most.get(resource, 0.0) for most in charged.values())
            if resource == "trials":
                assert account.spent == len(charged)
                assert account.left >= 0
            elif resource != "s":
                assert account.spent == pytest.approx(paid)
            elif clock == "off":
                assert account.overhead == pytest.approx(suggestion)
                assert account.spent == pytest.approx(paid + suggestion)
            elif clock == "on":
                assert account.reserved == 0
                assert account.overhead <= account.spent <= present + 1e-9


def test_a_trial_ends_at_its_limit():
    made = Settings.of(SPACE, {"usd": 10.0, "s": 100.0})
    trial = replace(asked(0).trial, notes={"limit": {"s": 4.0}})
    state = after(made, asked(0)._replace(trial=trial, lease=60.0))
    under = Renewed(0, 60.0, {"s": 3.9, "usd": 1.0}, {"s": 4.1, "usd": 1.1})
    over = Renewed(0, 60.0, {"s": 4.0, "usd": 1.0}, {"s": 4.2, "usd": 1.1})
    assert kill_reason(made, after(made, under, state=state), under, NOW) is None
    why = kill_reason(made, after(made, over, state=state), over, NOW)
    assert why == "it had cost 4.0 s, its limit"
