"""What the README promises about money and time, to the cent and to the second.

The tests use a clock that advances only explicitly.
"""

import math

import pytest
from clocks import Clock, Timed, made, shared
from parts import Greedy

from farthing import Budget, Float, InvalidInput, Optimizer, Outcome, Stopped, minimize
from farthing.budget.ledger import Ledger
from farthing.budget.rates import is_per_worker, rate_of
from farthing.core.events import Asked, LeasesExpired, Moment, Renewed, TimePassed, Told
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.transition import apply, kill_reason
from farthing.history import CurvePoint, StopReason, Trial
from farthing.policies import Random
from farthing.running.pool import run_workers
from farthing.running.signals import ExitRequest
from farthing.running.worker import HERE, run_trials
from farthing.space.space import Space
from farthing.stopping import MaxTrials

SPACE = Space({"x": Float(1, 2)})
TICK = 1.0  # seconds between two checks of the budget


def run(clock, optimizer, settings, engine):
    start = clock.now
    reason = run_workers(optimizer, settings, engine, lambda: None, [HERE])
    return str(reason), clock.now - start


def cents(amount):
    return round(100 * amount)


# ── "a budget of seconds includes Farthing's overhead" ─────────────────────────────────────────


def test_a_budget_of_seconds_is_the_elapsed_time_with_overhead(monkeypatch):
    clock = Clock(monkeypatch, suggestion=2.0)
    optimizer, settings = made(SPACE, "100s", policy=Random())
    engine = Timed(clock, lambda params: 10.0)
    reason, took = run(clock, optimizer, settings, engine)
    ledger, history = optimizer.ledger, optimizer.history
    assert ledger.spent == pytest.approx(took, abs=1e-9)
    assert took <= 100.0  # "never starts what it cannot afford"
    assert ledger.overhead == pytest.approx(2.0 * len(history), abs=2.0)
    assert ledger.spent == pytest.approx(sum(t.run.run_s for t in history) + ledger.overhead)
    assert "spent" in reason or "affordable" in reason


def test_a_trial_is_killed_when_the_budget_cannot_pay_for_it_any_longer(monkeypatch):
    clock = Clock(monkeypatch, suggestion=2.0)
    optimizer, settings = made(SPACE, "100s", policy=Random())
    _, took = run(clock, optimizer, settings, Timed(clock, lambda params: 1e6))
    assert {trial.state for trial in optimizer.history} == {"killed"}
    assert optimizer.ledger.spent == pytest.approx(took)
    assert 100 - 2 * TICK - 2.0 <= took <= 100.0


def test_nothing_is_charged_while_no_worker_runs(monkeypatch):
    clock = Clock(monkeypatch, suggestion=1.0)
    optimizer, settings = made(SPACE, "100s", policy=Random())
    engine = Timed(clock, lambda params: 7.0)
    stopping = iter([None] * 3 + [ExitRequest(StopReason("requested", "enough"), kill=True)] * 9)
    with optimizer.on_the_clock():
        run_trials(optimizer, settings, engine, lambda: None, lambda: next(stopping))
    spent = optimizer.ledger.spent
    clock.now += 86400.0  # overnight
    _, took = run(clock, optimizer, settings, engine)
    assert optimizer.ledger.spent == pytest.approx(spent + took, abs=1.0)


def test_minimize_charges_evaluations_and_overhead(monkeypatch):
    clock = Clock(monkeypatch, suggestion=0.5)
    monkeypatch.setattr("farthing.running.in_process.time", clock)

    def objective(params):
        clock.now += 30.0
        return params["x"]

    result = minimize(objective, SPACE, "100s", policy=Random())
    assert [trial.run.run_s for trial in result.history] == pytest.approx([30.0] * 3)
    assert result.ledger.overhead == pytest.approx(result.spent - 90.0)
    assert 1.5 <= result.ledger.overhead <= 2.5
    assert (result.elapsed_s, result.overhead_s) == (result.spent, result.ledger.overhead)


def test_minimize_finishes_and_charges_a_running_evaluation(monkeypatch):
    clock = Clock(monkeypatch)
    monkeypatch.setattr("farthing.running.in_process.time", clock)

    def objective(params):
        clock.now += 250.0
        return params["x"]

    result = minimize(objective, SPACE, "100s", policy=Random())
    assert (len(result.history), result.spent) == (1, pytest.approx(250.0))


# ── "never starts what it cannot afford" ───────────────────────────────────────────────────────


def test_known_costs_never_exceed_the_budget():
    def price(params):
        return round(params["x"], 2)

    result = minimize(lambda p: p["x"], SPACE, "$20", cost=price, policy=Random())
    assert cents(result.spent) == sum(cents(price(trial.params)) for trial in result.history)
    assert result.spent <= 20.0
    assert 20.0 - result.spent < 1.0 + 1e-9  # the cheapest point costs a dollar


def test_three_asks_reserve_their_cost():
    optimizer = Optimizer(SPACE, "$10", cost=lambda params: 2.5, policy=Random())
    trials = optimizer.ask(3)
    ledger = optimizer.ledger
    assert (cents(ledger.spent), cents(ledger.reserved), cents(ledger.left)) == (0, 750, 250)
    for trial in trials:
        optimizer.tell(trial, 1.0)
    ledger = optimizer.ledger
    assert (cents(ledger.spent), cents(ledger.reserved), cents(ledger.left)) == (750, 0, 250)


# ── rates of machines ──────────────────────────────────────────────────────────────────────────


def test_a_rate_also_charges_overhead(monkeypatch):
    """$36 an hour is a cent a second."""
    clock = Clock(monkeypatch, suggestion=3.0)
    optimizer, settings = made(SPACE, "$5", rate="$36/h", policy=Random())
    reason, took = run(clock, optimizer, settings, Timed(clock, lambda params: 20.0))
    ledger, history = optimizer.ledger, optimizer.history
    assert cents(ledger.spent) == round(took)
    assert ledger.spent <= 5.0
    assert cents(ledger.overhead) == pytest.approx(3 * len(history), abs=3)
    assert [cents(trial.cost["usd"]) for trial in history.done] == [20] * len(history.done)
    assert "$5.00" in reason or "affordable" in reason
    state = optimizer.seen
    assert state.elapsed_s == pytest.approx(took)  # shown for every kind of budget


def test_a_trial_is_killed_when_the_budget_cannot_pay_the_machine(monkeypatch):
    clock = Clock(monkeypatch, suggestion=1.0)
    optimizer, settings = made(SPACE, "$5, 9 trials", rate="$36/h", policy=Random())
    _, took = run(clock, optimizer, settings, Timed(clock, lambda params: 1e6))
    assert cents(optimizer.ledger.spent) == round(took)
    assert 500 - 2 * TICK - 1.0 <= took <= 500
    assert optimizer.history[len(optimizer.history) - 1].state == "killed"


def test_a_reported_cost_is_added_to_the_rate(monkeypatch):
    clock = Clock(monkeypatch)
    optimizer, settings = made(SPACE, "$5, 3 trials", rate="$36/h", policy=Random())
    engine = Timed(clock, lambda params: 10.0, cost={"usd": 0.07})
    _, took = run(clock, optimizer, settings, engine)
    assert took == pytest.approx(30.0)
    assert cents(optimizer.ledger.spent) == 30 + 3 * 7
    assert [cents(trial.cost["usd"]) for trial in optimizer.history] == [17] * 3


def test_reported_seconds_replace_the_measured_ones(monkeypatch):
    clock = Clock(monkeypatch)
    optimizer, settings = made(SPACE, "1h, 3 trials", policy=Random())
    _, took = run(clock, optimizer, settings, Timed(clock, lambda params: 10.0, cost={"s": 7.0}))
    assert [trial.cost["s"] for trial in optimizer.history] == [7.0] * 3
    assert optimizer.ledger["s"].spent == took == pytest.approx(30.0)  # time is charged as it runs


def test_two_workers_pay_a_shared_machine_once_and_their_own_machines_twice(monkeypatch):
    """Both workers run for 60 s, then one of them for 40 s more."""
    for rate, expected in (("$36/h", 100), ("$36/h per worker", 160)):
        clock = Clock(monkeypatch)
        memory = shared(Budget("$50"))
        (one, settings), (two, _) = (
            made(SPACE, "$50", memory, rate=rate, policy=Random()) for _ in range(2)
        )
        with one.on_the_clock():
            with two.on_the_clock():
                trials = one.ask(worker="1", lease=500.0), two.ask(worker="2", lease=500.0)
                for _ in range(60):
                    clock.now += 1.0
                    for each, trial in zip((one, two), trials, strict=True):
                        assert each.renew(trial, lease=500.0, cost={}, ahead={}) is None
                two.commit(Told(trials[1], "done", 1.0, {"usd": 0.6}, by_user=False, run=ran(60)))
            clock.now += 40.0
            one.commit(Told(trials[0], "done", 1.0, {"usd": 1.0}, by_user=False, run=ran(100)))
        assert cents(one.ledger.spent) == expected, rate
        assert one.ledger.reserved == 0
        assert one.seen.elapsed_s == pytest.approx(100.0)
        assert settings.charged_per_worker == ({"usd"} if "per" in rate else set())


def ran(seconds):
    return {"run_s": float(seconds)}


def test_workers_stop_before_they_overspend_together():
    """Three workers at a cent per second each cost three cents per tick."""
    settings = Settings.of(SPACE, "$1", rate="$36/h per worker", policy=Random())
    state, now = State(Ledger.of(settings.budget)), Moment(1000.0, present=0.0)
    for number in range(3):
        params = {"x": 1.0 + number / 10}
        asked = Asked(Trial(number, params, SPACE.encode(params)), {"usd": 0.2}, lease=60.0)
        state = apply(settings, state, asked, now)
    assert state.ledger.reserved == 0  # time is not reserved
    event = Renewed(0, 60.0, {"usd": 0.3}, {"usd": 0.31})
    for seconds, ends in ((97.0, False), (98.0, True)):
        spent = apply(settings, state, TimePassed(), Moment(1000.0 + seconds, present=seconds))
        why = kill_reason(settings, spent, event, now)
        assert (why is not None) == ends
    assert why == "the budget of $1.00 is spent"


def test_a_lost_trial_is_charged_once():
    """Its time was already charged, so only the reported extra cost is added."""
    settings = Settings.of(SPACE, "$10", rate="$36/h", lease=60.0, policy=Random())
    state = State(Ledger.of(settings.budget))
    params = {"x": 1.5}
    asked = Asked(Trial(0, params, SPACE.encode(params)), {}, lease=60.0)
    state = apply(settings, state, asked, Moment(1000.0, present=0.0))
    renewed = Renewed(0, 60.0, {"usd": 0.35}, {"usd": 0.36})  # 30 s, and 5 cents more
    state = apply(settings, state, renewed, Moment(1030.0, present=30.0))
    assert cents(state.ledger.spent) == 30
    state = apply(settings, state, LeasesExpired(), Moment(2000.0))
    assert state.history[0].state == "lost"
    assert cents(state.ledger.spent) == 35


def test_a_rate_can_apply_to_cpu_seconds(monkeypatch):
    clock = Clock(monkeypatch, suggestion=5.0)
    optimizer, settings = made(SPACE, "$5, 4 trials", rate="$36/h", measure="cpu", policy=Random())
    run(clock, optimizer, settings, Timed(clock, lambda params: 10.0))
    assert cents(optimizer.ledger["usd"].spent) == 40  # without overhead
    assert settings.clock == {"s": 1.0}


def test_overhead_that_costs_money_is_kept_small(monkeypatch):
    """A rate limits the overhead just like a budget of seconds."""
    clock = Clock(monkeypatch, suggestion=20.0)
    optimizer, settings = made(SPACE, "$10", rate="$36/h")
    run(clock, optimizer, settings, Timed(clock, lambda params: 1.0))
    assert any("suggestion would cost more" in trial.because for trial in optimizer.history)
    free, settings = made(SPACE, "$10, 12 trials")
    engine = Timed(clock, lambda params: 1.0, cost={"usd": 0.01})
    run(clock, free, settings, engine)
    assert not any("suggestion would cost more" in trial.because for trial in free.history)


def test_the_decision_that_a_training_goes_on_is_overhead(monkeypatch):
    clock = Clock(monkeypatch, suggestion=2.0)
    optimizer, _ = made(SPACE, "1h", policy=Greedy(), steps=8)
    with optimizer.on_the_clock():
        trial = optimizer.ask(worker="1", lease=500.0)
        clock.now += 10.0
        curve = (CurvePoint(trial.until, 1.0, {"s": 10.0}),)
        told = Told(trial, "paused", None, {"s": 10.0}, by_user=False, run=ran(10), curve=curve)
        assert optimizer.continue_trial(told).until > trial.until
        assert (optimizer.ledger.spent, optimizer.ledger.overhead) == (14.0, 4.0)


def test_no_suggestion_starts_that_would_end_after_the_budget(monkeypatch):
    clock = Clock(monkeypatch, suggestion=30.0)
    optimizer, settings = made(SPACE, "$1", rate="$36/h", policy=Random(), overhead=1.0)
    reason, took = run(clock, optimizer, settings, Timed(clock, lambda params: 20.0))
    assert took <= 100.0 + 1e-9
    assert reason.startswith("the budget of $1.00 is spent, except for $0.")
    assert reason.endswith(", which another suggestion would take")


@pytest.mark.parametrize(
    ("rate", "each", "per_second"),
    [
        ("$36/h", False, {"usd": 0.01}),
        ("$36/h per worker", True, {"usd": 0.01}),
        ("0.36 kWh/h  per  worker ", True, {"kWh": 1e-4}),
    ],
)
def test_a_rate_is_per_machine_or_per_worker(rate, each, per_second):
    assert rate_of(rate) == pytest.approx(per_second)
    assert is_per_worker(rate) == each


@pytest.mark.parametrize("rate", ["$3/h per trial", "per worker", "$3 per worker", "$3/h a worker"])
def test_a_rate_of_something_else_is_refused(rate):
    with pytest.raises(InvalidInput, match=r"a price per time, such as .* or .* per worker"):
        rate_of(rate)


# ── shown for every kind of budget ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("budget", ["$9, 2 trials", "2 trials", {"kWh": 9, "trials": 2}])
def test_time_and_every_resource_are_in_the_summary(monkeypatch, budget):
    clock = Clock(monkeypatch, suggestion=1.5)
    monkeypatch.setattr("farthing.running.in_process.time", clock)

    def objective(params):
        clock.now += 10.0
        return Outcome(params["x"], cost=0.5)

    result = minimize(objective, SPACE, budget, policy=Random())
    assert result.elapsed_s == pytest.approx(20.0 + result.overhead_s)
    assert 3.0 <= result.overhead_s <= 4.5 + 1e-9
    line = str(result).splitlines()[2]
    assert "s of it overhead" in line
    for resource in Budget(budget).limits:
        assert {"usd": "$1.00 of $9.00", "trials": "2 of 2 trials", "kWh": "1 kWh of 9 kWh"}[
            resource
        ] in line


def test_a_new_budget_of_time_counts_the_time_before(monkeypatch):
    clock = Clock(monkeypatch, suggestion=1.0)
    optimizer, settings = made(SPACE, "3 trials", policy=Random())
    _, took = run(clock, optimizer, settings, Timed(clock, lambda params: 10.0))
    optimizer.change(budget="100s")
    assert optimizer.ledger["s"].spent == pytest.approx(took)
    assert optimizer.ledger["s"].left == pytest.approx(100.0 - took)
    assert math.isinf(optimizer.ledger["trials"].limit)


def test_a_worker_that_waited_pays_only_for_its_last_suggestion(monkeypatch):
    """Waiting for other workers after the limit is free, also for the last worker."""
    clock = Clock(monkeypatch, suggestion=2.0)
    optimizer, settings = made(SPACE, "100s", policy=Random(), stop=MaxTrials(1))
    engine = Timed(clock, lambda params: 10.0)
    with optimizer.on_the_clock():
        run_trials(optimizer, settings, engine, lambda: None)
        spent = optimizer.ledger.spent
        clock.now += 50.0
        optimizer.commit(TimePassed())
    assert optimizer.ledger.spent == pytest.approx(spent + 2.0)
    assert optimizer.ledger.overhead == pytest.approx(4.0)


def test_the_last_commit_of_a_worker_does_not_charge_its_wait_for_others(monkeypatch):
    """Many workers that end at the same time wait for the database."""
    clock = Clock(monkeypatch)
    store = shared(Budget("10s"))
    optimizer, settings = made(SPACE, "10s", store, policy=Random())
    with optimizer.on_the_clock():
        clock.now += 11.0
        with pytest.raises(Stopped):
            optimizer.ask(worker="here:1", lease=settings.lease)
        spent, commit = optimizer.ledger.spent, store.commit

        def after_others(change):
            clock.now += 50.0
            return commit(change)

        monkeypatch.setattr(store, "commit", after_others)
        monkeypatch.setattr(store, "shared", True, raising=False)  # as a database
        optimizer.commit(TimePassed())
    assert optimizer.ledger.spent == spent


def test_a_repeated_trial_of_unknown_price_reserves_what_is_left_too(monkeypatch):
    clock = Clock(monkeypatch)
    optimizer, settings = made(SPACE, "$2", policy=Random(), retries=1)
    optimizer.ask(worker="dead:1", lease=5.0)
    clock.now += settings.lease + 60.0
    again = optimizer.ask(worker="here:1", lease=5.0)
    assert again.origin == "retry"
    assert optimizer.ledger.reserved_for(again.number) == {"usd": 2.0}
