"""What an event does to the state of a study: the one function that applies it.

Every rule of reserving, charging, retrying and refusing is here, and nowhere else.

Wall clock time, the resource `s`, is charged while a study is being worked on: with four workers an
hour is still an hour, and nothing is charged while nobody works. Every worker knows for how long it
has been there since its last event, on its own clock; the state knows, on the memory's clock, until
when time has been charged. Each event of a worker charges

    min(now - charged until,  how long this worker has been there)

so time that two workers spent together is charged once, time in which nobody was there is charged
to nobody, and what a worker did between its last event and its death is forgiven. No clocks of two
machines are ever compared. For a process that is not on the clock, seconds are a resource like any
other: held, charged as they are told, and its thinking is added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from farthing.bills import bill, unpriced
from farthing.errors import InvalidInput, Outdated, Stopped
from farthing.history import Run, Trial
from farthing.ledger import Ledger, format_amount
from farthing.settings import Settings
from farthing.state import (
    Added,
    Asked,
    AskedAgain,
    Ended,
    Event,
    GivenUp,
    Halted,
    Moment,
    Passed,
    Renewed,
    Resumed,
    State,
    Told,
    Turn,
)

__all__ = ["apply", "time_is_short", "why_it_must_end"]


def apply(settings: Settings, state: State, event: Event, moment: Moment) -> State:
    """The state after an event.

    Raises:
        InvalidInput: what was told cannot be.
        Outdated: a thought was about a state that has changed too much since.
        Stopped: nothing may start.
    """
    before, state = state, _pass(state, moment)
    match event:
        case Asked():
            return _ask(settings, before, state, event, moment)
        case AskedAgain():
            return _ask_again(settings, state, event, moment)
        case Renewed():
            return _renew(state, event, moment)
        case Told():
            return _tell(settings, state, event, moment)
        case Added():
            return _add(state, event, moment)
        case GivenUp():
            return _give_up(settings, state, moment)
        case Passed():
            return state
        case Turn():
            return _take_turn(before, event, moment)
        case Halted():  # two workers may see the same failures: the first reason is kept
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
                thinker=None,
                thinker_until=None,
            )
        case Ended():
            return replace(state, stop_reason=event.because)


# ── time ───────────────────────────────────────────────────────────────────────────────────────


def _pass(state: State, moment: Moment) -> State:
    """After the time that an event brings with it is charged."""
    if "s" not in state.ledger:
        return state
    if moment.present is None:
        if not moment.thought:
            return state
        paid = state.ledger.pay({"s": moment.thought}, thought=moment.thought)
        return replace(state, ledger=paid)
    until = moment.now if state.charged_until is None else state.charged_until
    since = math.inf if state.charged_until is None else max(moment.now - until, 0.0)
    gained = min(since, moment.present)
    # Part of a thought may have been charged by others meanwhile, as time like any other.
    paid = state.ledger.pay({"s": gained}, thought=min(moment.thought, gained))
    return replace(state, ledger=paid, charged_until=max(moment.now, until))


def _take_turn(state: State, event: Turn, moment: Moment) -> State:
    if event.seconds is None:
        if state.thinker != event.thinker:
            return state
        return replace(state, thinker=None, thinker_until=None)
    if state.is_thinking(event.thinker, moment.now):
        raise Outdated(f"{state.thinker} is thinking")
    return replace(state, thinker=event.thinker, thinker_until=moment.now + event.seconds)


def time_is_short(state: State, moment: Moment) -> bool:
    """Whether another thought, if it took as long as the last one, would end after the budget."""
    if not moment.on_clock or "s" not in state.ledger:
        return False
    return _pass(state, moment).ledger["s"].left <= state.thought_s


# ── beginning ──────────────────────────────────────────────────────────────────────────────────


def _ask(settings: Settings, before: State, state: State, event: Asked, moment: Moment) -> State:
    if state.halted is not None:
        raise Stopped(state.halted)
    number = event.trial.number
    if number != len(state.history) or state.is_thinking(event.thinker, moment.now):
        raise Outdated(f"trial {number} was asked by another process")
    hold = _to_hold(state.ledger, event.hold, moment)
    # Before its own thinking is charged: that was not known when it thought.
    if before.ledger.used_up or any(before.ledger[r].left < a for r, a in hold.items()):
        raise Outdated("less is left than was thought")
    # How long a thought takes is known from the last one that was worth the name.
    thought_s = state.thought_s if event.trial.notes.get("thought") == "none" else event.think_s
    state = replace(state, thought_s=thought_s, thinker=None, thinker_until=None)
    run = Run(think_s=event.think_s)
    return _begin(settings, state, replace(event.trial, run=run), hold, event, moment)


def _ask_again(settings: Settings, state: State, event: AskedAgain, moment: Moment) -> State:
    lost, ledger = state.waiting, state.ledger
    if state.halted is not None:
        raise Stopped(state.halted)
    if lost is None:
        raise Outdated("another process has begun it again")
    if ledger.used_up:
        raise Stopped("the budget is spent")
    state = _with(state, replace(lost, run=replace(lost.run, retry=False)))
    trial = Trial(
        number=len(state.history),
        params=lost.params,
        x=lost.x,
        predicted=lost.predicted,
        because=f"trial {lost.number} again, which was lost",
        notes={"phase": "start"} if lost.is_start else {},
        run=Run(attempt=lost.run.attempt + 1),
    )
    return _begin(settings, state, trial, _to_hold(ledger, lost.predicted, moment), event, moment)


def _begin(
    settings: Settings,
    state: State,
    trial: Trial,
    hold: Mapping[str, float],
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
    hold = {r: min(amount, max(state.ledger[r].left, 0.0)) for r, amount in hold.items()}
    return replace(
        state,
        ledger=state.ledger.reserve(trial.number, hold),
        history=state.history.adding(replace(trial, run=run)),
    )


def _to_hold(ledger: Ledger, amounts: Mapping[str, float], moment: Moment) -> dict[str, float]:
    """The part of `amounts` that a trial holds of what is limited.

    On the clock nothing is held of the seconds, because trials pass time together.
    """
    return {
        resource: amount
        for resource, amount in amounts.items()
        if resource in ledger
        and math.isfinite(ledger[resource].limit)
        and not (moment.on_clock and resource == "s")
    }


# ── going on ───────────────────────────────────────────────────────────────────────────────────


def _renew(state: State, event: Renewed, moment: Moment) -> State:
    """Keep a running trial, and hold for it what it will have used when this happens next."""
    if not _is_running(state, event.number):
        return state
    trial, ledger = state.history[event.number], state.ledger
    for resource, need in _to_hold(ledger, event.ahead, moment).items():
        more = need - ledger.held(event.number).get(resource, 0.0)
        if more > 0:
            draw = min(more, max(ledger[resource].left, 0.0))
            ledger = ledger.extend(event.number, {resource: draw})
    run = replace(
        trial.run, lease=moment.now + event.lease, progress=event.progress or trial.run.progress
    )
    state = replace(state, ledger=ledger)
    return _with(state, replace(trial, cost=dict(event.cost), run=run))


def why_it_must_end(state: State, event: Renewed, moment: Moment) -> str | None:
    """Why a trial that was renewed must end: it was given up, a stop, or so much is not left."""
    if not _is_running(state, event.number):
        return "its worker had not been heard of for too long, so it was given up"
    ledger, held = state.ledger, state.ledger.held(event.number)
    for resource, most in state.history[event.number].limit.items():
        if event.cost.get(resource, 0.0) >= most:
            return f"it had cost {format_amount(resource, most)}, the most that was allowed for it"
    for resource in (r for r in event.ahead if r in ledger):
        account = ledger[resource]
        if moment.on_clock and resource == "s":
            short = event.ahead[resource] - event.cost[resource] > account.left
        else:
            need = event.ahead[resource] * (1 - 1e-12)  # rounding of what was drawn
            short = math.isfinite(account.limit) and held.get(resource, 0.0) < need
        if short:
            return f"the budget of {format_amount(resource, account.limit)} is spent"
    return state.halted if state.halted_now else None


def _is_running(state: State, number: int) -> bool:
    return number < len(state.history) and state.history[number].state == "running"


# ── ending ─────────────────────────────────────────────────────────────────────────────────────


def _tell(settings: Settings, state: State, event: Told, moment: Moment) -> State:
    begun = _begun(state, event.trial)
    if begun.state == "lost" and event.state != "done" and not event.certain:
        return state  # it was given up; a value would still be welcome
    previous = state.history.before(begun.number)
    paid = bill(settings, event.cost, begun.x, required=event.certain, previous=previous)
    if event.state in ("failed", "killed") and not event.certain:
        # It was paid, though it could not say what: as much as it was expected to be.
        paid = {r: a for r, a in begun.predicted.items() if r in settings.needed} | paid
    state = _charge(state, begun, paid, moment)
    if event.state == "done":
        state = replace(state, failures=0, first_error=None)
        if missing := unpriced(settings, paid):
            state = replace(state, halted=state.halted or _asks_for_cost(begun.number, missing))
    elif event.state in ("failed", "lost"):
        first = state.first_error if state.failures else event.error
        state = replace(state, failures=state.failures + 1, first_error=first)
        if not event.certain and state.failures >= settings.failures_in_a_row:
            state = replace(state, halted=state.halted or _failed_in_a_row(state))
    run_s = event.run.get("run_s", paid.get("s", 0.0))
    # A clock may count in milliseconds; what was asked before is still before.
    asked_last = state.history[len(state.history) - 1].run.asked_at
    run = replace(
        begun.run,
        **{**event.run, "progress": event.run.get("progress") or begun.run.progress},
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


def _asks_for_cost(number: int, missing: str) -> str:
    return (
        f"trial {number} did not say what it cost in {missing}, which the budget or the policy "
        f'needs. Let it report {{"cost": {{"{missing}": ...}}}}, return '
        "Outcome(value, cost=...), or give a rate."
    )


def _failed_in_a_row(state: State) -> str:
    return f"{state.failures} trials in a row failed; the first of them:\n{state.first_error}"


def _begun(state: State, told: Trial | int) -> Trial:
    """The trial that is told about; a lost one may still come back."""
    number = told.number if isinstance(told, Trial) else told
    history = state.history
    known = isinstance(number, int | np.integer) and 0 <= number < len(history)
    begun = history[int(number)] if known else None
    if begun is None or (isinstance(told, Trial) and not np.array_equal(told.x, begun.x)):
        raise InvalidInput(
            f"Trial {number!r} was never asked here. Tell what ask() returned; "
            "use add(params, value) for an evaluation made elsewhere."
        )
    if begun.state not in ("running", "lost"):
        raise InvalidInput(
            f"Trial {number} was told already ({begun.state}). A trial is told once."
        )
    return begun


def _give_up(settings: Settings, state: State, moment: Moment) -> State:
    for trial in state.history.running:
        if trial.run.lease is None or trial.run.lease >= moment.now:
            continue
        # On the clock its seconds were charged as they passed, or will be by those who are still
        # there; one that was not on it holds some.
        present = None if "s" in state.ledger.held(trial.number) else 0.0
        state = _charge(state, trial, trial.cost, moment._replace(present=present))
        retry = trial.run.attempt <= settings.retries
        run = replace(trial.run, lease=None, retry=retry, told_at=moment.now)
        error = f"its worker ({trial.run.worker}) disappeared"
        state = _with(state, replace(trial, state="lost", error=error, run=run))
    return state


def _charge(state: State, trial: Trial, paid: Mapping[str, float], moment: Moment) -> State:
    """Release what a trial holds and pay its bill; on the clock, seconds are charged as they pass,
    and what a trial says it took of them teaches the cost model only.
    """
    if trial.is_foreign:
        return state
    amounts = {r: a for r, a in paid.items() if not (moment.on_clock and r == "s")}
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
