"""What is reserved and charged: for the trials, and for the time that passes.

Wall-clock time, the resource `s`, is charged while at least one process works on a study. With four
workers an hour is still an hour, and downtime is free. Every process measures, on its own clock,
how long it has been at work since its last event. The state stores, on the store's clock, until
when time has been charged. Each event of a process charges

    min(now - charged until,  how long this process has been at work)

- Time that two processes spent together is charged once.
- Time in which no process was at work is not charged.
- What a process did between its last event and its death is not charged.
- If the store's clock was set back, the next process is charged for its own time at work.

Clocks of two machines are never compared. The rate of a machine is charged with these seconds. A
rate per worker is charged for the time of each worker. If a trial reports a cost in the same
resource beyond its running time, the difference is charged on top.

Off the clock, seconds are a resource like any other: they are reserved, and charged as trials
report them. The overhead of the process is added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from farthing.budget.ledger import Ledger
from farthing.core.events import Moment
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.history import Trial

__all__ = ["amounts_to_reserve", "charge_so_far", "charge_time", "charge_trial", "out_of_time"]

ROUNDING = 1e-9  # share of a cost


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


def charge_time(settings: Settings, state: State, moment: Moment) -> State:
    """The state after the time that an event brings with it is charged."""
    ledger, clock = state.ledger, {r: p for r, p in settings.clock.items() if r in state.ledger}
    if moment.present is None:
        if not moment.overhead_s:
            return state
        own = {resource: moment.overhead_s * price for resource, price in clock.items()}
        return replace(
            state,
            ledger=ledger.pay(own, overhead=own) if own else ledger,
            elapsed_s=state.elapsed_s + moment.overhead_s,
            overhead_s=state.overhead_s + moment.overhead_s,
        )
    until = moment.now if state.charged_until is None else state.charged_until
    # A clock that was set back does not tell how long ago that was: the process's own time counts.
    since = math.inf if state.charged_until is None or moment.now < until else moment.now - until
    gained = min(since, moment.present)
    own = {r: moment.present if r in settings.charged_per_worker else gained for r in clock}
    paid = {r: seconds * clock[r] for r, seconds in own.items()}
    # Other processes may have charged part of the overhead already, as ordinary time.
    overhead = {r: min(moment.overhead_s, seconds) * clock[r] for r, seconds in own.items()}
    state = _set_back(state, until - moment.now)
    return replace(
        state,
        ledger=ledger.pay(paid, overhead=overhead) if clock else ledger,
        charged_until=moment.now,
        elapsed_s=state.elapsed_s + gained,
        overhead_s=state.overhead_s + min(moment.overhead_s, gained),
    )


def _set_back(state: State, by: float) -> State:
    """Set leases back with the clock, so that they expire as many seconds from now as before."""
    for trial in state.history.running if by > 0 else ():
        if trial.run.lease is not None:
            run = replace(trial.run, lease=trial.run.lease - by)
            state = state.with_trial(replace(trial, run=run))
    until = state.suggester_until
    return state if by <= 0 or until is None else replace(state, suggester_until=until - by)


def out_of_time(settings: Settings, state: State, moment: Moment) -> str | None:
    """A resource that another suggestion as long as the last would use up, or None."""
    if not moment.on_clock:
        return None
    ledger = charge_time(settings, state, moment).ledger
    passes = ((ledger[r].left, r, price) for r, price in settings.clock.items() if r in ledger)
    return next((r for left, r, price in passes if left <= state.suggest_s * price), None)


# ── trials ───────────────────────────────────────────────────────────────────────────────────────


def amounts_to_reserve(
    settings: Settings, ledger: Ledger, amounts: Mapping[str, float], moment: Moment
) -> dict[str, float]:
    """The part of `amounts` that is reserved for a trial: of the limited resources.

    On the clock, the resources that time consumes are not reserved, because running trials share
    the same time.
    """
    return {
        resource: amount
        for resource, amount in amounts.items()
        if resource in ledger
        and math.isfinite(ledger[resource].limit)
        and not (moment.on_clock and resource in settings.clock)
    }


def charge_trial(
    settings: Settings,
    state: State,
    trial: Trial,
    paid: Mapping[str, float],
    ran: float,
    moment: Moment,
) -> State:
    """Release the reservation of a trial and charge its cost.

    On the clock, time is charged as it passes. The seconds that a trial reports are then only
    training data of the cost model. In other resources that time consumes, the `ran` seconds are
    paid already.

    Args:
        paid: the cost of the trial, or of its part, by resource.
        ran: seconds that it ran.
    """
    if trial.is_external:
        return state
    amounts = dict(paid)
    for resource in settings.clock if moment.on_clock else ():
        due = amounts.pop(resource, 0.0)
        more = due - settings.clock[resource] * ran
        if resource != "s" and more > ROUNDING * due:
            amounts[resource] = more
    if trial.state in ("lost", "paused"):  # it was charged when it was lost: only the rest is due
        rest = {r: a - trial.part_cost.get(r, 0.0) for r, a in amounts.items()}
        return replace(state, ledger=state.ledger.pay({r: a for r, a in rest.items() if a > 0}))
    return replace(state, ledger=state.ledger.charge(trial.number, amounts))


def charge_so_far(settings: Settings, state: State, trial: Trial, moment: Moment) -> State:
    """Charge a running trial whose worker will not report an outcome.

    A trial that was started on the clock reserved none of the resources that time consumes. Its
    time was charged as it passed, or other processes will charge it. A trial that was started off
    the clock pays for it now.
    """
    reserved = state.ledger.reserved_for(trial.number)
    present = None if any(resource in reserved for resource in settings.clock) else 0.0
    last_sign = trial.run.asked_at if trial.run.lease is None else trial.run.lease - settings.lease
    ran = max(last_sign - trial.run.asked_at, 0.0)
    cost = trial.part_cost
    return charge_trial(settings, state, trial, cost, ran, moment._replace(present=present))
