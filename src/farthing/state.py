"""What is known of a study, the events that change it, and the one function that applies them.

Every rule of reserving, charging, retrying and refusing is here, and nowhere else. `Optimizer`
keeps a state in memory, `Study` in a database; both commit the same events.

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
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farthing.cost import Known
from farthing.errors import InvalidInput, Outdated, Stopped
from farthing.history import History, PricePoint, Run, Trial, TrialState
from farthing.ledger import Ledger, format_amount
from farthing.settings import Settings

__all__ = [
    "ELSEWHERE",
    "Added",
    "Asked",
    "AskedAgain",
    "Ended",
    "Event",
    "GivenUp",
    "Halted",
    "Moment",
    "Passed",
    "Price",
    "Renewed",
    "Resumed",
    "State",
    "Told",
    "Turn",
    "apply",
    "bill",
    "foreign_trial",
    "outcome_of",
    "unpriced",
    "why_it_must_end",
]

Array = NDArray[np.float64]
Price = float | Mapping[str, float] | None


@dataclass(frozen=True)
class State:
    """A study at one moment.

    Attributes:
        prices: costs from elsewhere that belong to no trial.
        charged_until: until when wall clock time was charged, on the memory's clock.
        thinker: who thinks, where thoughts take long enough to wait for.
        thinker_until: when he must have died.
        thought_s: how long the last thought took.
        failures: how many trials in a row went wrong.
        first_error: of these.
        halted: why nothing may start, though the verdict is to go on.
        halted_now: whether what is running ends, too.
        stop_reason: how the last run ended.
    """

    ledger: Ledger
    history: History = History()
    prices: tuple[PricePoint, ...] = ()
    charged_until: float | None = None
    thinker: str | None = None
    thinker_until: float | None = None
    thought_s: float = 0.0
    failures: int = 0
    first_error: str | None = None
    halted: str | None = None
    halted_now: bool = False
    stop_reason: str | None = None

    @property
    def waiting(self) -> Trial | None:
        """The oldest trial that was lost and is to be tried again."""
        return next((trial for trial in self.history.having("lost") if trial.run.retry), None)

    def is_thinking(self, other_than: str | None, now: float) -> bool:
        """Whether somebody else is thinking, and should be alive."""
        until = self.thinker_until
        return self.thinker not in (None, other_than) and until is not None and now < until

    def known(self) -> tuple[int, ...]:
        """What a thought depends on: it changes with every ask, tell and import, and never back."""
        states: tuple[TrialState, ...] = ("running", "done", "failed", "killed", "lost")
        return *(len(self.history.having(each)) for each in states), len(self.prices)


class Moment(NamedTuple):
    """When an event happens, and the time it brings with it.

    Attributes:
        now: on the memory's clock.
        present: for how many seconds its process has been there since its last event; None: it is
            not on the clock.
        thought: seconds of its thinking that nobody has paid for yet.
    """

    now: float
    present: float | None = None
    thought: float = 0.0

    @property
    def on_clock(self) -> bool:
        """Whether time is charged as it passes."""
        return self.present is not None


# ── events ─────────────────────────────────────────────────────────────────────────────────────


class Asked(NamedTuple):
    """A thought led to a trial; `hold` is put aside for it, `lease` is in seconds."""

    trial: Trial
    hold: Mapping[str, float]
    think_s: float = 0.0
    thinker: str | None = None
    worker: str | None = None
    lease: float | None = None


class AskedAgain(NamedTuple):
    """The oldest lost trial is begun again under a new number."""

    worker: str | None = None
    lease: float | None = None


class Renewed(NamedTuple):
    """A worker is alive: what its trial has used, and what it will have when this comes next."""

    number: int
    lease: float
    cost: Mapping[str, float]
    ahead: Mapping[str, float]
    progress: tuple[Mapping[str, Any], ...] = ()


class Told(NamedTuple):
    """What became of a trial.

    Attributes:
        trial: as it was asked, or its number.
        certain: a person says so, and a cost that is needed must be among it. What an evaluation
            could not say is not held against it.
        run: what it used: `run_s`, `cpu_s`, `peak_mb`, `progress`.
    """

    trial: Trial | int
    state: TrialState
    value: float | None = None
    cost: Price = None
    error: str | None = None
    certain: bool = True
    run: Mapping[str, Any] = {}


class Added(NamedTuple):
    """Evaluations made elsewhere; they take numbers, but nothing of the budget."""

    trials: tuple[Trial, ...]
    prices: tuple[PricePoint, ...] = ()


class GivenUp(NamedTuple):
    """Trials whose lease has passed are lost, and charged to their last sign of life."""


class Passed(NamedTuple):
    """Nothing but time."""


class Turn(NamedTuple):
    """Somebody begins to think, for at most so many seconds; None: he has ended."""

    thinker: str
    seconds: float | None = None


class Halted(NamedTuple):
    """Nothing may start any more; what is running ends with `now`."""

    because: str
    now: bool = False


class Resumed(NamedTuple):
    """A stop is taken back, and nobody is waited for who was thinking."""


class Ended(NamedTuple):
    """A run has ended."""

    because: str


Event = (
    Asked | AskedAgain | Renewed | Told | Added | GivenUp | Passed | Turn | Halted | Resumed | Ended
)


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
    state = replace(state, thought_s=event.think_s, thinker=None, thinker_until=None)
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
    left = {r: min(a, max(ledger[r].left, 0.0)) for r, a in lost.predicted.items() if r in ledger}
    trial = Trial(
        number=len(state.history),
        params=lost.params,
        x=lost.x,
        predicted=lost.predicted,
        because=f"trial {lost.number} again, which was lost",
        notes={"phase": "start"} if lost.is_start else {},
        run=Run(attempt=lost.run.attempt + 1),
    )
    return _begin(settings, state, trial, _to_hold(ledger, left, moment), event, moment)


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
    paid = bill(settings, event.cost, begun.x, required=event.certain)
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
    run = replace(
        begun.run,
        **{**event.run, "progress": event.run.get("progress") or begun.run.progress},
        lease=None,
        retry=event.state == "lost" and begun.run.attempt <= settings.retries,
        told_at=moment.now,
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
    amounts = {r: a for r, a in paid.items() if not (moment.on_clock and r == "s")}
    if trial.run.worker == ELSEWHERE:
        return state
    if trial.state == "lost":  # charged when it was given up; the rest is due now
        rest = {r: a - trial.cost.get(r, 0.0) for r, a in amounts.items()}
        return replace(state, ledger=state.ledger.pay({r: a for r, a in rest.items() if a > 0}))
    return replace(state, ledger=state.ledger.charge(trial.number, amounts))


def _with(state: State, trial: Trial) -> State:
    return replace(state, history=state.history.replacing(trial))


# ── bills ──────────────────────────────────────────────────────────────────────────────────────


def bill(settings: Settings, cost: Price, x: Array, *, required: bool) -> dict[str, float]:
    """What was paid by resource; what is known beforehand need not be told."""
    priced = settings.priced
    told = {} if cost is None else dict(cost) if isinstance(cost, Mapping) else {priced[0]: cost}
    paid = {}
    for resource, amount in told.items():
        if resource not in priced:
            raise InvalidInput(
                f"A cost in {resource!r} was told, but what is counted here is {', '.join(priced)}."
            )
        what, advice = f"The cost in {resource!r}", "Tell what the evaluation really used."
        paid[resource] = _finite(amount, what, advice)
        if not paid[resource] > 0:
            raise InvalidInput(f"{what} is {amount!r}: expected a positive number. {advice}")
    for resource, learner in settings.learners.items():
        if resource not in paid and isinstance(learner, Known):
            paid[resource] = learner.bind(settings.space).price(x)
    if required and (missing := unpriced(settings, paid)):
        raise InvalidInput(
            f"The cost in {missing!r} is missing, which the budget or the policy needs. "
            "Say tell(trial, value, cost=...), or return Outcome(value, cost=...)."
        )
    return paid


def unpriced(settings: Settings, paid: Mapping[str, float]) -> str | None:
    """A resource whose cost is needed and not known."""
    return next((resource for resource in settings.needed if resource not in paid), None)


def outcome_of(
    value: float | None, failed: str | None, killed: bool, what: str
) -> tuple[TrialState, float | None]:
    """The state a trial ends in, and its value; `what` names the trial."""
    given = (value is not None, failed is not None, bool(killed))
    if sum(given) != 1:
        raise InvalidInput(
            "Tell exactly one of a value, failed='why', or killed=True; "
            f"got value={value!r}, failed={failed!r}, killed={killed!r}."
        )
    if failed is not None and not (isinstance(failed, str) and failed):
        raise InvalidInput(f"failed={failed!r}: say in words why, such as failed='out of memory'.")
    if not given[0]:
        return "failed" if given[1] else "killed", None
    advice = "If the evaluation went wrong, say failed='why' instead."
    return "done", _finite(value, f"The value of {what}", advice)


def _finite(value: object, what: str, advice: str) -> float:
    """A number, also one of NumPy or of a tensor library, but not a text that looks like one."""
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} is {value!r}: expected a finite number. {advice}") from None
    if not np.isfinite(number):
        raise InvalidInput(f"{what} is {number}: expected a finite number. {advice}")
    return number


# ── elsewhere ──────────────────────────────────────────────────────────────────────────────────

ELSEWHERE = "elsewhere"  # the worker of an evaluation that is not ours to pay


def foreign_trial(
    settings: Settings,
    params: Mapping[str, Any],
    state: TrialState,
    value: float | None = None,
    *,
    cost: Price = None,
    error: str | None = None,
    required: bool = False,
) -> Trial:
    """An evaluation made elsewhere, as a trial that has no number yet."""
    x = settings.space.encode(params)
    return Trial(
        number=-1,
        params=settings.space.decode(x) if settings.space.rows is not None else dict(params),
        x=x,
        state=state,
        value=value,
        cost={} if state == "running" else bill(settings, cost, x, required=required),
        because="evaluated elsewhere",
        error=error,
        notes={"phase": "start"},
        run=Run(worker=ELSEWHERE),
    )


def _add(state: State, event: Added, moment: Moment) -> State:
    numbered = []
    for number, trial in enumerate(event.trials, start=len(state.history)):
        told_at = None if trial.state == "running" else moment.now
        run = replace(trial.run, asked_at=moment.now, told_at=told_at)
        numbered.append(replace(trial, number=number, run=run))
    history = state.history.adding(*numbered)
    return replace(state, history=history, prices=(*state.prices, *event.prices))
