"""What an event does to the state of a study.

`apply` is the only function that makes the next state from a state and an event. The rules of
starting and renewing trials are in this module. It calls

    charging        to reserve and charge costs and time
    endings         to end trials
    edits           to change settings, and to enqueue, drop and repeat trials
    parts           to resume and continue trainings
    worker_health   to exclude a worker
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from farthing.budget.ledger import Ledger
from farthing.budget.units import format_amount
from farthing.core.charging import amounts_to_reserve, charge_so_far, charge_time
from farthing.core.edits import drop, enqueue, find_trial, repeat, with_settings, without_entry
from farthing.core.endings import end_trial, expire_leases, is_running, return_trial
from farthing.core.events import (
    Added,
    Asked,
    AskedAgain,
    AskedPart,
    AskedTogether,
    Changed,
    CheckpointsDeleted,
    Continued,
    Dropped,
    Ended,
    Enqueued,
    Event,
    LeasesExpired,
    Moment,
    Recovered,
    Renewed,
    Repeated,
    Resumed,
    Returned,
    StopRequested,
    SuggestLock,
    TimePassed,
    Told,
    WorkerExcluded,
)
from farthing.core.parts import (
    added,
    carry_on,
    give_up_checkpoints,
    longer_curve,
    recover,
    resume,
    turn_of,
)
from farthing.core.settings import Settings
from farthing.core.state import Change, State
from farthing.core.worker_health import exclude_worker
from farthing.errors import Outdated, Stopped
from farthing.history import BUDGET_SPENT, Run, Trial

__all__ = ["apply", "kill_reason"]


def apply(settings: Settings, state: State, event: Event, moment: Moment) -> State:
    """The state after an event.

    Raises:
        InvalidInput: what was reported or requested is impossible.
        Outdated: a suggestion or a change does not fit a state that has changed meanwhile.
        Stopped: no trial may start.
    """
    before, state = state, charge_time(settings, state, moment)
    match event:
        case Asked() | AskedAgain():
            return _start(settings, before.ledger, state, event, moment)
        case AskedPart():
            return _start_part(settings, before.ledger, state, event, moment)
        case AskedTogether():
            return _start_batch(settings, before.ledger, state, event, moment)
        case Continued():
            return carry_on(settings, before.ledger, state, event, moment)
        case Renewed():
            return _renew(settings, state, event, moment)
        case Returned():
            return return_trial(settings, state, event, moment)
        case WorkerExcluded():
            return exclude_worker(state, event.worker)
        case Told():
            return end_trial(settings, state, event, moment)
        case Recovered():
            return recover(settings, state, event, moment)
        case CheckpointsDeleted():
            return give_up_checkpoints(state, event)
        case Added():
            return _add(state, event, moment)
        case LeasesExpired():
            return expire_leases(settings, state, moment)
        case TimePassed():
            return state
        case SuggestLock():
            return _lock(before, event, moment)
        case StopRequested():  # two workers may see the same failures: the first reason is kept
            return replace(
                state,
                stop_requested=state.stop_requested or event.because,
                kill_running=event.now or state.kill_running,
            )
        case Resumed():
            return replace(
                state,
                stop_requested=None,
                kill_running=False,
                stop_reason=None,
                failures=0,
                first_error=None,
                suggester=None,
                suggester_until=None,
            )
        case Ended():
            return replace(state, stop_reason=event.because)
        case Changed():
            return _change(settings, state, event, moment)
        case Enqueued():
            return enqueue(settings.space, state, event)
        case Dropped():
            trial = find_trial(state, event.number)
            if trial.state == "running":
                state = charge_so_far(settings, state, trial, moment)
            return drop(state, trial, moment)
        case Repeated():
            return repeat(state, find_trial(state, event.number), moment)


# ── starting trials ──────────────────────────────────────────────────────────────────────────────


def _start(
    settings: Settings, before: Ledger, state: State, event: Asked | AskedAgain, moment: Moment
) -> State:
    """The state in which a suggested or repeated trial runs.

    Args:
        before: the ledger before the suggestion itself is charged, as the suggestion saw it.
    """
    if state.stop_requested is not None:
        raise Stopped(state.stop_requested)
    if isinstance(event, AskedAgain):
        return _start_retry(settings, state, event, moment)
    number = event.trial.number
    if number != len(state.history) or state.is_suggesting(event.suggester, moment.now):
        raise Outdated(f"another process has started trial {number}")
    if event.changes not in (None, len(state.changes)):
        raise Outdated("the settings have changed")
    reservation = amounts_to_reserve(settings, state.ledger, event.reservation, moment)
    if before.used_up or any(before[r].left < a for r, a in reservation.items()):
        raise Outdated("less of the budget is left than the suggestion assumed")
    # A step without a model says nothing about how long the next suggestion takes.
    suggest_s = state.suggest_s if event.trial.notes.get("effort") == "none" else event.suggest_s
    state = replace(state, suggest_s=suggest_s, suggester=None, suggester_until=None)
    state = replace(state, queue=without_entry(state.queue, event.trial.notes.get("given")))
    trial = replace(event.trial, run=Run(suggest_s=event.suggest_s))
    return _with_started(settings, state, trial, reservation, event, moment)


def _start_batch(
    settings: Settings, before: Ledger, state: State, event: AskedTogether, moment: Moment
) -> State:
    for each in event.asked:
        if isinstance(each, AskedPart):
            number = each.trial.number
            state = _start_part(settings, before, state, each, moment)
        else:
            number = len(state.history)
            state = _start(settings, before, state, each, moment)
        reserved = {r: a for r, a in state.ledger.reserved_for(number).items() if r != "trials"}
        before = before.reserve(number, reserved, resumed=isinstance(each, AskedPart))
    return state


def _start_part(
    settings: Settings, before: Ledger, state: State, event: AskedPart, moment: Moment
) -> State:
    if state.stop_requested is not None:
        raise Stopped(state.stop_requested)
    return resume(settings, before, state, event, moment)


def _start_retry(settings: Settings, state: State, event: AskedAgain, moment: Moment) -> State:
    lost, ledger = state.next_retry, state.ledger
    if lost is None:
        raise Outdated("another process has repeated the lost trial")
    if ledger.used_up:
        raise Stopped(BUDGET_SPENT)
    state = state.with_trial(replace(lost, run=replace(lost.run, retry=False)))
    trial = Trial(
        number=len(state.history),
        params=lost.params,
        x=lost.x,
        predicted=lost.predicted,
        because=f"repeats trial {lost.number}, which was lost",
        notes={k: lost.notes[k] for k in ("phase", "limit", "limit_by") if k in lost.notes},
        origin="retry",
        until=None if settings.steps is None else lost.until or settings.steps.last,
        run=Run(attempt=lost.run.attempt + 1),
    )
    billed = () if event.lease is None else settings.billed
    unknown = {r: ledger[r].left for r in billed if r not in lost.predicted}
    amounts = {**lost.limit, **lost.predicted, **unknown}
    reservation = amounts_to_reserve(settings, ledger, amounts, moment)
    return _with_started(settings, state, trial, reservation, event, moment)


def _with_started(
    settings: Settings,
    state: State,
    trial: Trial,
    reservation: Mapping[str, float],
    event: Asked | AskedAgain,
    moment: Moment,
) -> State:
    """The state with a running trial, its reservation and its lease."""
    run = replace(
        trial.run,
        seed=settings.seed_of(trial.number),
        worker=event.worker,
        lease=None if event.lease is None else moment.now + event.lease,
        asked_at=moment.now,
        turn=turn_of(state, trial.number),
    )
    reservation = {r: min(amount, state.ledger[r].left) for r, amount in reservation.items()}
    return replace(
        state,
        ledger=state.ledger.reserve(trial.number, reservation),
        history=state.history.adding(replace(trial, run=run)),
    )


def _lock(state: State, event: SuggestLock, moment: Moment) -> State:
    """The state after a process acquires or releases the suggestion lock."""
    if event.seconds is None:
        if state.suggester != event.suggester:
            return state
        return replace(state, suggester=None, suggester_until=None)
    if state.is_suggesting(event.suggester, moment.now):
        raise Outdated(f"{state.suggester} holds the suggestion lock")
    return replace(state, suggester=event.suggester, suggester_until=moment.now + event.seconds)


# ── running trials ───────────────────────────────────────────────────────────────────────────────


def _renew(settings: Settings, state: State, event: Renewed, moment: Moment) -> State:
    """Extend the lease of a running trial, and reserve what it will have used at the next tick."""
    if not is_running(state, event.number):
        return state
    trial, ledger = state.history[event.number], state.ledger
    for resource, need in amounts_to_reserve(settings, ledger, event.ahead, moment).items():
        more = need - ledger.reserved_for(event.number).get(resource, 0.0)
        if more > 0:
            draw = min(more, ledger[resource].left)
            ledger = ledger.extend(event.number, {resource: draw})
    reported = {"reports": event.reports or trial.run.reports, **event.run}
    run = replace(trial.run, lease=moment.now + event.lease, **reported)
    state = replace(state, ledger=ledger)
    cost, curve = dict(event.cost), trial.curve
    if trial.run.earlier:
        cost = added(trial.run.earlier, cost)
    if event.curve:
        curve = longer_curve(trial, event.curve)
    return state.with_trial(replace(trial, cost=cost, run=run, curve=curve))


_LIMITED_BY = {
    "start": ": the most that a trial may cost while costs are unknown. If you know how much a "
    "trial can cost, set max_cost",
    "max_cost": " by max_cost",
    "max_overrun": ": it would cost max_overrun times its first estimate",
}


def kill_reason(settings: Settings, state: State, event: Renewed, moment: Moment) -> str | None:
    """Why a trial that was just renewed must be killed; None if it may continue."""
    if not is_running(state, event.number):
        is_dropped = event.number < len(state.history) and state.history[event.number].is_dropped
        lost = "its lease had expired, because its worker had not reported for too long"
        return "it was dropped" if is_dropped else lost
    ledger, reserved = state.ledger, state.ledger.reserved_for(event.number)
    for resource, most in state.history[event.number].limit.items():
        if event.cost.get(resource, 0.0) >= most:
            rule = _LIMITED_BY.get(state.history[event.number].limit_by.get(resource, ""), "")
            return f"it had cost {format_amount(resource, most)}, its limit{rule}"
    for resource in (r for r in event.ahead if r in ledger):
        account = ledger[resource]
        if moment.on_clock and resource in settings.clock:
            need = event.ahead[resource] - event.cost[resource]
            if resource in settings.charged_per_worker:  # the others run as long as this one
                need *= sum(trial.run.lease is not None for trial in state.history.running)
            is_short = need > account.left
        else:
            need = event.ahead[resource] * (1 - 1e-12)  # reservations are rounded
            is_short = math.isfinite(account.limit) and reserved.get(resource, 0.0) < need
        if is_short:
            return f"the budget of {format_amount(resource, account.limit)} is spent"
    return str(state.stop_requested) if state.stop_requested and state.kill_running else None


# ── imports and changes ──────────────────────────────────────────────────────────────────────────


def _add(state: State, event: Added, moment: Moment) -> State:
    numbered = []
    for number, trial in enumerate(event.trials, start=len(state.history)):
        told_at = None if trial.state == "running" else moment.now
        run = replace(trial.run, asked_at=moment.now, told_at=told_at)
        numbered.append(replace(trial, number=number, run=run))
    history = state.history.adding(*numbered)
    return replace(state, history=history, prices=(*state.prices, *event.prices))


def _change(settings: Settings, state: State, event: Changed, moment: Moment) -> State:
    """The state under new settings. The reason of the last stop may not hold under them."""
    if event.known != len(state.changes):
        raise Outdated("another process has changed the settings")
    change = Change(moment.now, len(state.history), event.differences, event.settings)
    state = with_settings(state, settings, event.settings)
    return replace(state, changes=(*state.changes, change), stop_reason=None)
