"""What an event does to the state of a study: the one function that applies it.

Every rule of reserving, charging, retrying and refusing is here, and nowhere else.

Wall clock time, the resource `s`, is charged while a study is being worked on: with four workers an
hour is still an hour, and nothing is charged while nobody works. Every worker knows for how long it
has been there since its last event, on its own clock; the state knows, on the memory's clock, until
when time has been charged. Each event of a worker charges

    min(now - charged until,  how long this worker has been there)

so time that two workers spent together is charged once, time in which nobody was there is charged
to nobody, and what a worker did between its last event and its death is forgiven. Where the
memory's clock was set back, the next worker is charged for as long as it was there. No clocks of
two machines are ever compared. What a machine costs passes with these seconds; the rate of a worker
is charged for all the time that each has been there. What a trial says it cost in the same
resource, beyond the time it ran, comes on top. For a process that is not on the clock, seconds are
a resource like any other: reserved, charged as they are told, and its thinking is added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from farthing.budget.ledger import Ledger
from farthing.budget.units import format_amount
from farthing.core.edits import carried_over, drop, enqueue, one_of, repeat, without
from farthing.core.events import (
    Added,
    Asked,
    AskedAgain,
    AskedTogether,
    Changed,
    Dropped,
    Ended,
    Enqueued,
    Event,
    LeasesExpired,
    Moment,
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
from farthing.core.outcomes import asks_for_cost, begun_of, bill, unpriced
from farthing.core.settings import Settings
from farthing.core.state import Change, State
from farthing.core.worker_health import others_may_do_better, set_aside
from farthing.errors import Outdated, Stopped
from farthing.history import BUDGET_SPENT, Run, StopReason, Trial

__all__ = [
    "apply",
    "failed_in_a_row",
    "out_of_time",
    "passed",
    "why_it_must_end",
]

ROUNDING = 1e-9  # of a bill

FREE_IN_A_ROW = 100  # trials that cost nothing: with them a budget lasts for ever
NEVER_ENDS = StopReason(
    "all_free",
    f"{FREE_IN_A_ROW} trials in a row cost nothing, so the budget would never end. Run again to go "
    "on, or limit the trials, too",
)


def apply(settings: Settings, state: State, event: Event, moment: Moment) -> State:
    """The state after an event.

    Raises:
        InvalidInput: what was told cannot be.
        Outdated: a thought was about a state that has changed too much since.
        Stopped: nothing may start.
    """
    before, state = state, passed(settings, state, moment)
    match event:
        case Asked() | AskedAgain():
            return _ask(settings, before.ledger, state, event, moment)
        case AskedTogether():
            return _ask_together(settings, before.ledger, state, event, moment)
        case Renewed():
            return _renew(settings, state, event, moment)
        case Returned():
            return _give_back(state, event, moment)
        case WorkerExcluded():
            return set_aside(state, event.worker)
        case Told():
            return _tell(settings, state, event, moment)
        case Added():
            return _add(state, event, moment)
        case LeasesExpired():
            return _give_up(settings, state, moment)
        case TimePassed():
            return state
        case SuggestLock():
            return _take_turn(before, event, moment)
        case StopRequested():  # two workers may see the same failures: the first reason is kept
            now = event.now or state.halted_now
            return replace(state, halted=state.halted or event.because, halted_now=now)
        case Resumed():
            return replace(
                state,
                halted=None,
                halted_now=False,
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
            trial = one_of(state, event.number)
            running = trial.state == "running"
            return drop(
                _charge_so_far(settings, state, trial, moment) if running else state, trial, moment
            )
        case Repeated():
            return repeat(state, one_of(state, event.number), moment)


# ── time ───────────────────────────────────────────────────────────────────────────────────────


def passed(settings: Settings, state: State, moment: Moment) -> State:
    """After the time that an event brings with it is charged."""
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
    # A clock that was set back says nothing of how long it was: then the worker's own counts.
    since = math.inf if state.charged_until is None or moment.now < until else moment.now - until
    gained = min(since, moment.present)
    own = {r: moment.present if r in settings.is_each_workers else gained for r in clock}
    # Part of a thought may have been charged by others meanwhile, as time like any other.
    paid = {r: seconds * clock[r] for r, seconds in own.items()}
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
    """Leases go back with the clock, or whoever died before would be waited for until then."""
    for trial in state.history.running if by > 0 else ():
        if trial.run.lease is not None:
            state = _with(state, replace(trial, run=replace(trial.run, lease=trial.run.lease - by)))
    ends = state.suggester_until
    return state if by <= 0 or ends is None else replace(state, suggester_until=ends - by)


def _take_turn(state: State, event: SuggestLock, moment: Moment) -> State:
    if event.seconds is None:
        if state.suggester != event.suggester:
            return state
        return replace(state, suggester=None, suggester_until=None)
    if state.is_suggesting(event.suggester, moment.now):
        raise Outdated(f"{state.suggester} is thinking")
    return replace(state, suggester=event.suggester, suggester_until=moment.now + event.seconds)


def out_of_time(settings: Settings, state: State, moment: Moment) -> str | None:
    """A resource of which another thought, if it took as long as the last one, would use all that
    is left; None: of none.
    """
    if not moment.on_clock:
        return None
    ledger = passed(settings, state, moment).ledger
    passes = ((ledger[r].left, r, price) for r, price in settings.clock.items() if r in ledger)
    return next((r for left, r, price in passes if left <= state.suggest_s * price), None)


# ── beginning ──────────────────────────────────────────────────────────────────────────────────


def _ask(
    settings: Settings, before: Ledger, state: State, event: Asked | AskedAgain, moment: Moment
) -> State:
    """A trial begins; `before` is the ledger before the thinking that led to it is charged, which
    was not known when it was thought.
    """
    if state.halted is not None:
        raise Stopped(state.halted)
    if isinstance(event, AskedAgain):
        return _ask_again(settings, state, event, moment)
    number = event.trial.number
    if number != len(state.history) or state.is_suggesting(event.suggester, moment.now):
        raise Outdated(f"trial {number} was asked by another process")
    if event.changes not in (None, len(state.changes)):
        raise Outdated("the settings were changed meanwhile")
    reservation = _to_reserve(settings, state.ledger, event.reservation, moment)
    if before.used_up or any(before[r].left < a for r, a in reservation.items()):
        raise Outdated("less is left than was thought")
    # How long a thought takes is known from the last one that was worth the name.
    suggest_s = state.suggest_s if event.trial.notes.get("thought") == "none" else event.suggest_s
    state = replace(state, suggest_s=suggest_s, suggester=None, suggester_until=None)
    state = replace(state, queue=without(state.queue, event.trial.notes.get("given")))
    run = Run(suggest_s=event.suggest_s)
    return _begin(settings, state, replace(event.trial, run=run), reservation, event, moment)


def _ask_together(
    settings: Settings, before: Ledger, state: State, event: AskedTogether, moment: Moment
) -> State:
    for each in event.asked:
        number = len(state.history)
        state = _ask(settings, before, state, each, moment)
        reserved = state.ledger.reserved_for(number)
        before = before.reserve(number, {r: a for r, a in reserved.items() if r != "trials"})
    return state


def _ask_again(settings: Settings, state: State, event: AskedAgain, moment: Moment) -> State:
    lost, ledger = state.waiting, state.ledger
    if lost is None:
        raise Outdated("another process has begun it again")
    if ledger.used_up:
        raise Stopped(BUDGET_SPENT)
    state = _with(state, replace(lost, run=replace(lost.run, retry=False)))
    trial = Trial(
        number=len(state.history),
        params=lost.params,
        x=lost.x,
        predicted=lost.predicted,
        because=f"trial {lost.number} again, which was lost",
        notes={key: lost.notes[key] for key in ("phase", "limit") if key in lost.notes},
        origin="retry",
        run=Run(attempt=lost.run.attempt + 1),
    )
    reservation = _to_reserve(settings, ledger, {**lost.limit, **lost.predicted}, moment)
    return _begin(settings, state, trial, reservation, event, moment)


def _begin(
    settings: Settings,
    state: State,
    trial: Trial,
    reservation: Mapping[str, float],
    event: Asked | AskedAgain,
    moment: Moment,
) -> State:
    """A trial begins: its reservation and its lease."""
    run = replace(
        trial.run,
        seed=settings.seed_of(trial.number),
        worker=event.worker,
        lease=None if event.lease is None else moment.now + event.lease,
        asked_at=moment.now,
    )
    reservation = {
        r: min(amount, max(state.ledger[r].left, 0.0)) for r, amount in reservation.items()
    }
    return replace(
        state,
        ledger=state.ledger.reserve(trial.number, reservation),
        history=state.history.adding(replace(trial, run=run)),
    )


def _to_reserve(
    settings: Settings, ledger: Ledger, amounts: Mapping[str, float], moment: Moment
) -> dict[str, float]:
    """The part of `amounts` that a trial holds of what is limited.

    On the clock nothing is held of what passes with it, because trials pass time together.
    """
    return {
        resource: amount
        for resource, amount in amounts.items()
        if resource in ledger
        and math.isfinite(ledger[resource].limit)
        and not (moment.on_clock and resource in settings.clock)
    }


# ── going on ───────────────────────────────────────────────────────────────────────────────────


def _renew(settings: Settings, state: State, event: Renewed, moment: Moment) -> State:
    """Keep a running trial, and reservation for it what it will have used when this happens next."""
    if not _is_running(state, event.number):
        return state
    trial, ledger = state.history[event.number], state.ledger
    for resource, need in _to_reserve(settings, ledger, event.ahead, moment).items():
        more = need - ledger.reserved_for(event.number).get(resource, 0.0)
        if more > 0:
            draw = min(more, max(ledger[resource].left, 0.0))
            ledger = ledger.extend(event.number, {resource: draw})
    told = {"reports": event.reports or trial.run.reports, **event.run}
    run = replace(trial.run, lease=moment.now + event.lease, **told)
    state = replace(state, ledger=ledger)
    return _with(state, replace(trial, cost=dict(event.cost), run=run))


def why_it_must_end(settings: Settings, state: State, event: Renewed, moment: Moment) -> str | None:
    """Why a trial that was renewed must end: it was given up, a stop, or so much is not left."""
    if not _is_running(state, event.number):
        dropped = event.number < len(state.history) and state.history[event.number].is_dropped
        lost = "its worker had not been heard of for too long, so it was given up"
        return "it was dropped" if dropped else lost
    ledger, reserved = state.ledger, state.ledger.reserved_for(event.number)
    for resource, most in state.history[event.number].limit.items():
        if event.cost.get(resource, 0.0) >= most:
            return f"it had cost {format_amount(resource, most)}, the most that was allowed for it"
    for resource in (r for r in event.ahead if r in ledger):
        account = ledger[resource]
        if moment.on_clock and resource in settings.clock:
            need = event.ahead[resource] - event.cost[resource]
            if resource in settings.is_each_workers:  # the others go on as long as this one
                need *= sum(trial.run.lease is not None for trial in state.history.running)
            short = need > account.left
        else:
            need = event.ahead[resource] * (1 - 1e-12)  # rounding of what was drawn
            short = math.isfinite(account.limit) and reserved.get(resource, 0.0) < need
        if short:
            return f"the budget of {format_amount(resource, account.limit)} is spent"
    return str(state.halted) if state.halted and state.halted_now else None


def _is_running(state: State, number: int) -> bool:
    return number < len(state.history) and state.history[number].state == "running"


# ── ending ─────────────────────────────────────────────────────────────────────────────────────


def _tell(settings: Settings, state: State, event: Told, moment: Moment) -> State:
    begun = begun_of(state.history, event.trial)
    if begun.state == "lost" and event.state != "done" and not event.certain:
        return state  # it was given up; a value would still be welcome
    previous = state.history.before(begun.number)
    ran = event.run.get("run_s", 0.0)
    if begun.is_dropped and not event.certain:  # nobody wants its value, but it is paid
        paid = bill(settings, event.cost, begun.x, required=False, previous=previous)
        return _with(_charge(settings, state, begun, paid, ran, moment), replace(begun, cost=paid))
    paid = bill(settings, event.cost, begun.x, required=event.certain, previous=previous)
    if "s" in settings.needed and ran:  # of whoever was told of that budget too late
        paid.setdefault("s", ran)
    if event.state in ("failed", "killed") and not event.certain:
        # It was paid, though it could not say what: as much as it was expected to be.
        paid = {r: a for r, a in begun.predicted.items() if r in settings.needed} | paid
    state = _charge(settings, state, begun, paid, ran, moment)
    if event.state == "done":
        state = replace(state, failures=0, first_error=None)
        if missing := unpriced(settings, paid):
            state = replace(state, halted=state.halted or asks_for_cost(begun.number, missing))
        elif not event.certain and _all_were_free(settings, state, paid):
            state = replace(state, halted=state.halted or NEVER_ENDS)
    elif event.state in ("failed", "lost"):
        first = state.first_error if state.failures else event.error
        state = replace(state, failures=state.failures + 1, first_error=first)
        # With somebody at work who has not failed yet, it may be the worker and not the study.
        hopeless = not others_may_do_better(state, begun.run.worker)
        if not event.certain and hopeless and state.failures >= settings.failures_in_a_row:
            state = replace(state, halted=state.halted or _failed_in_a_row(state))
    run_s = event.run.get("run_s", paid.get("s", 0.0))
    if not (moment.on_clock or begun.is_external):
        state = replace(state, elapsed_s=state.elapsed_s + run_s)
    # A clock may count in milliseconds; what was asked before is still before.
    asked_last = state.history[len(state.history) - 1].run.asked_at
    run = replace(
        begun.run,
        **{**event.run, "reports": event.run.get("reports") or begun.run.reports},
        lease=None,
        retry=event.state == "lost" and begun.run.attempt <= settings.retries,
        told_at=max(moment.now, math.nextafter(asked_last, math.inf)),
        queue_s=max(moment.now - begun.run.asked_at - run_s, 0.0),
    )
    run = replace(run, run_s=run_s)
    return _with(
        state,
        replace(begun, state=event.state, value=event.value, cost=paid, error=event.error, run=run),
    )


def failed_in_a_row(settings: Settings, state: State) -> bool:
    """Whether so many trials in a row failed that nothing is started any more."""
    return state.halted is not None and state.failures >= settings.failures_in_a_row


def _all_were_free(settings: Settings, state: State, paid: Mapping[str, float]) -> bool:
    """Whether nothing that is limited, and nothing else, would ever end a run."""
    if not settings.needed or settings.stop is not None:
        return False
    if any(resource in ("s", "trials") for resource in state.ledger):
        return False
    last = state.history.trials[-FREE_IN_A_ROW:-1]
    bills = [paid, *(trial.cost for trial in last if trial.state != "running")]
    return len(bills) >= FREE_IN_A_ROW and not any(
        bill.get(resource) != 0 for bill in bills for resource in settings.needed
    )


def _failed_in_a_row(state: State) -> StopReason:
    what = f"{state.failures} trials in a row failed; the first of them"
    if state.failures == 1:
        what = "a trial failed"
    return StopReason("too_many_failures", f"{what}:\n{state.first_error}")


def _give_up(settings: Settings, state: State, moment: Moment) -> State:
    for trial in state.history.running:
        if trial.run.lease is None or trial.run.lease >= moment.now:
            continue
        state = _charge_so_far(settings, state, trial, moment)
        retry = trial.run.attempt <= settings.retries
        run = replace(trial.run, lease=None, retry=retry, told_at=moment.now)
        error = f"its worker ({trial.run.worker}) disappeared"
        state = _with(state, replace(trial, state="lost", error=error, run=run))
    return state


def _charge_so_far(settings: Settings, state: State, trial: Trial, moment: Moment) -> State:
    """Charge a running trial that nobody will tell of.

    On the clock its time was charged as it passed, or will be by those who are still there; one
    that was not on it holds some.
    """
    reserved = state.ledger.reserved_for(trial.number)
    present = None if any(resource in reserved for resource in settings.clock) else 0.0
    heard = trial.run.asked_at if trial.run.lease is None else trial.run.lease - settings.lease
    ran = max(heard - trial.run.asked_at, 0.0)
    return _charge(settings, state, trial, trial.cost, ran, moment._replace(present=present))


def _give_back(state: State, event: Returned, moment: Moment) -> State:
    if not _is_running(state, event.number):
        return state
    trial = state.history[event.number]
    run = replace(trial.run, lease=None, retry=True, told_at=moment.now)
    state = replace(state, ledger=state.ledger.release(event.number))
    return _with(state, replace(trial, state="lost", error=event.because, run=run))


def _charge(
    settings: Settings,
    state: State,
    trial: Trial,
    paid: Mapping[str, float],
    ran: float,
    moment: Moment,
) -> State:
    """Release what a trial holds and pay its bill. On the clock, time is charged as it passes: what
    a trial says it took of it teaches the cost model only, and of what passes with it, its share in
    the `ran` seconds is paid already.
    """
    if trial.is_external:
        return state
    amounts = dict(paid)
    for resource in settings.clock if moment.on_clock else ():
        due = amounts.pop(resource, 0.0)
        more = due - settings.clock[resource] * ran
        if resource != "s" and more > ROUNDING * due:
            amounts[resource] = more
    if trial.state == "lost":  # charged when it was given up; the rest is due now
        rest = {r: a - trial.cost.get(r, 0.0) for r, a in amounts.items()}
        return replace(state, ledger=state.ledger.pay({r: a for r, a in rest.items() if a > 0}))
    return replace(state, ledger=state.ledger.charge(trial.number, amounts))


def _with(state: State, trial: Trial) -> State:
    return replace(state, history=state.history.replacing(trial))


# ── elsewhere ──────────────────────────────────────────────────────────────────────────────────


def _add(state: State, event: Added, moment: Moment) -> State:
    numbered = []
    for number, trial in enumerate(event.trials, start=len(state.history)):
        told_at = None if trial.state == "running" else moment.now
        run = replace(trial.run, asked_at=moment.now, told_at=told_at)
        numbered.append(replace(trial, number=number, run=run))
    history = state.history.adding(*numbered)
    return replace(state, history=history, prices=(*state.prices, *event.prices))


# ── otherwise ──────────────────────────────────────────────────────────────────────────────────


def _change(settings: Settings, state: State, event: Changed, moment: Moment) -> State:
    """How the last run ended was said of other settings."""
    if event.known != len(state.changes):
        raise Outdated("another process has changed it")
    change = Change(moment.now, len(state.history), event.said, event.settings)
    state = carried_over(state, settings, event.settings)
    return replace(state, changes=(*state.changes, change), stop_reason=None)
