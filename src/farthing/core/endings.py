"""How a trial ends: its outcome, its cost, and what follows for the study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from farthing.core.charging import charge_so_far, charge_trial
from farthing.core.events import Moment, Returned, Told
from farthing.core.outcomes import (
    checked_cost,
    find_unfinished,
    measured_metrics,
    missing_cost,
    missing_cost_reason,
)
from farthing.core.part_reasons import with_reason
from farthing.core.parts import (
    added,
    can_return,
    ended_part,
    is_complete,
    is_other_part,
    is_pause,
    share_of_steps,
)
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.worker_health import others_may_succeed
from farthing.errors import InvalidInput
from farthing.history import PRUNED, Run, StopReason, Trial

__all__ = [
    "FREE_IN_A_ROW",
    "end_trial",
    "expire_leases",
    "failed_in_a_row",
    "is_running",
    "return_trial",
]

FREE_IN_A_ROW = 100  # trials without cost: with such trials a budget is never spent
ALL_FREE = StopReason(
    "all_free",
    f"{FREE_IN_A_ROW} trials in a row cost nothing, so the budget would never be spent. Run again "
    "to continue, or limit the number of trials, too",
)


# ── reported outcomes ────────────────────────────────────────────────────────────────────────────


def end_trial(settings: Settings, state: State, event: Told, moment: Moment) -> State:
    """The state after the outcome of a trial is reported.

    An engine may report a trial too late, after it was lost or dropped. The cases exclude each
    other:

        too late, no value           ignored: a trial is lost only once
        too late, value, dropped     its cost is charged, its value is ignored
        too late, resumed since      ignored: another worker repeats this part
        too late, done since         ignored: another worker has found this outcome on the disk
        all others                   the trial ends as reported; a lost trial gets its value
    """
    if not event.by_user and (_is_repeated(state, event) or _is_recovered(state, event)):
        return state
    trial = find_unfinished(state.history, event.trial)
    if trial.state == "paused" and event.state in ("paused", "lost") and not event.by_user:
        return state  # reported twice, or lost after another process had noticed
    is_late = trial.state == "lost" and not event.by_user
    if is_late and event.state != "done":
        return state
    if is_late and event.state == "done" and trial.is_dropped:
        return _charge_dropped(settings, state, trial, event, moment)
    return _end(settings, state, trial, event, moment)


def _is_repeated(state: State, event: Told) -> bool:
    """Whether a report is about a part of a training that another worker has resumed since."""
    number = event.trial.number if isinstance(event.trial, Trial) else event.trial
    if not number < len(state.history):
        return False
    trial = state.history[number]
    return trial.is_resumed and is_other_part(trial, event.trial)


def _is_recovered(state: State, event: Told) -> bool:
    """Whether the outcome of an evaluation is known, though the worker that ran it reports it."""
    if not isinstance(event.trial, Trial) or not event.trial.number < len(state.history):
        return False
    trial = state.history[event.trial.number]
    return trial.state == "done" and not is_other_part(trial, event.trial)


def _charge_dropped(
    settings: Settings, state: State, trial: Trial, event: Told, moment: Moment
) -> State:
    previous = state.history.before(trial.number)
    share = share_of_steps(settings, trial, event)
    paid = checked_cost(
        settings, event.cost, trial.x, required=False, previous=previous, share=share
    )
    ran = event.run.get("run_s", 0.0)
    state = charge_trial(settings, state, trial, paid, ran, moment)
    return state.with_trial(replace(trial, cost=added(trial.run.earlier, paid)))


def _end(settings: Settings, state: State, trial: Trial, event: Told, moment: Moment) -> State:
    if not is_pause(settings, trial, event):
        event = _with_measured(settings, event)
    paid = _cost(settings, state, trial, event)
    ending, value, curve = ended_part(settings, trial, event, paid)
    state = charge_trial(settings, state, trial, paid, event.run.get("run_s", 0.0), moment)
    match event.state:
        case "done" | "paused":
            state = _after_success(settings, state, trial, event, paid)
        case "failed" | "lost":
            state = _after_failure(settings, state, trial, event)
        case "killed" | "running":  # neither a success nor a failure
            pass
    run_s = event.run.get("run_s", paid.get("s", 0.0))
    if not (moment.on_clock or trial.is_external):
        state = replace(state, elapsed_s=state.elapsed_s + run_s)
    # A clock may count in milliseconds. A trial must end after the last one was asked.
    last_asked = state.history[len(state.history) - 1].run.asked_at
    run = replace(
        trial.run,
        **{**event.run, "reports": event.run.get("reports") or trial.run.reports},
        lease=None,
        retry=ending == "lost" and trial.run.attempt <= settings.retries,
        told_at=max(moment.now, math.nextafter(last_asked, math.inf)),
        queue_s=max(moment.now - trial.run.asked_at - run_s, 0.0),
    )
    run = replace(run, run_s=run_s)
    if trial.is_resumed:
        run = _with_earlier_parts(run, trial.run)
    notes = trial.notes
    cost = added(trial.run.earlier, paid) if trial.run.earlier else paid
    if event.state == "killed":
        notes = {**notes, "killed_by": _killed_by(settings, trial, event, paid)}
    if ending == "paused":
        because = event.because or event.error or ""
        step = curve[-1].step if curve else 0
        notes = with_reason(notes, trial, "paused", because, moment.now, step=step, cost=cost)
    return state.with_trial(
        replace(
            trial,
            state=ending,
            value=value,
            cost=cost,
            error=None if ending == "done" else event.error,
            notes=notes,
            run=run,
            curve=curve,
            until=None if ending in ("done", "paused") else trial.until,
        )
    )


def _with_earlier_parts(run: Run, earlier: Run) -> Run:
    """The measurements of all parts of a training: seconds are added, memory is the largest."""
    return replace(
        run,
        run_s=(earlier.run_s or 0.0) + (run.run_s or 0.0),
        cpu_s=(earlier.cpu_s or 0.0) + (run.cpu_s or 0.0),
        peak_mb=max(earlier.peak_mb or 0.0, run.peak_mb or 0.0),
    )


def _killed_by(settings: Settings, trial: Trial, event: Told, paid: Mapping[str, float]) -> str:
    """The rule that killed a trial: "timeout", a `LimitRule`, "user", "end" of a run, or PRUNED."""
    if event.because == PRUNED:
        return PRUNED
    for resource, most in trial.limit.items():
        if paid.get(resource, 0.0) >= most:
            return trial.limit_by.get(resource, "start" if trial.is_start else "max_overrun")
    if event.by_user:
        return "user"
    ran = event.run.get("run_s", 0.0)
    return "timeout" if settings.timeout is not None and ran >= settings.timeout else "end"


def _with_measured(settings: Settings, event: Told) -> Told:
    """The event with the constrained quantities among its metrics.

    If one is missing or unknown, a user gets an error, and a trial of an engine has failed.
    """
    if event.state != "done":
        return event
    metrics = event.run.get("metrics", {})
    try:
        measured = measured_metrics(settings, metrics)
    except InvalidInput as error:
        if event.by_user:
            raise
        return event._replace(state="failed", value=None, error=str(error))
    return event if measured == metrics else event._replace(run={**event.run, "metrics": measured})


def _cost(settings: Settings, state: State, trial: Trial, event: Told) -> dict[str, float]:
    """The cost of a trial that ends.

    If an engine could not measure the cost of a trial without a value, it is the predicted one.
    """
    previous = state.history.before(trial.number)
    paid = checked_cost(
        *(settings, event.cost, trial.x),
        required=event.by_user,
        previous=previous,
        share=share_of_steps(settings, trial, event),
    )
    ran = event.run.get("run_s", 0.0)
    if "s" in settings.required_costs and ran:  # the worker may have started before this budget
        paid.setdefault("s", ran)
    if event.by_user or event.state not in ("failed", "killed"):
        return paid
    ahead = ((r, a - trial.run.earlier.get(r, 0.0)) for r, a in trial.predicted.items())
    return {r: max(a, 0.0) for r, a in ahead if r in settings.required_costs} | paid


def _after_success(
    settings: Settings, state: State, trial: Trial, event: Told, paid: Mapping[str, float]
) -> State:
    state = replace(state, failures=0, first_error=None)
    if missing := missing_cost(settings, paid):
        return _stopped(state, missing_cost_reason(settings, trial.number, missing))
    if not event.by_user and _all_were_free(settings, state, paid):
        return _stopped(state, ALL_FREE)
    return state


def _after_failure(settings: Settings, state: State, trial: Trial, event: Told) -> State:
    first = state.first_error if state.failures else event.error
    state = replace(state, failures=state.failures + 1, first_error=first)
    if event.by_user or state.failures < settings.failures_in_a_row:
        return state
    # The worker may be at fault and not the study, if another one has not failed yet.
    if others_may_succeed(state, trial.run.worker):
        return state
    return _stopped(state, _failure_reason(state))


def _stopped(state: State, because: StopReason) -> State:
    """The state in which no trial may start. An earlier reason is kept."""
    return replace(state, stop_requested=state.stop_requested or because)


def failed_in_a_row(settings: Settings, state: State) -> bool:
    """Whether the study stops because too many trials in a row failed."""
    return state.stop_requested is not None and state.failures >= settings.failures_in_a_row


def _failure_reason(state: State) -> StopReason:
    what = f"{state.failures} trials in a row failed; the first error was"
    if state.failures == 1:
        what = "a trial failed"
    return StopReason("too_many_failures", f"{what}:\n{state.first_error}")


def _all_were_free(settings: Settings, state: State, paid: Mapping[str, float]) -> bool:
    """Whether recent trials cost nothing, so that neither a limit nor a rule would end a run."""
    if not settings.required_costs or settings.stop is not None:
        return False
    if any(resource in ("s", "trials") for resource in state.ledger):
        return False
    last = state.history.trials[-FREE_IN_A_ROW:-1]
    costs = [paid, *(trial.cost for trial in last if trial.state != "running")]
    return len(costs) >= FREE_IN_A_ROW and not any(
        cost.get(resource) != 0 for cost in costs for resource in settings.required_costs
    )


# ── trials without an outcome ────────────────────────────────────────────────────────────────────


def is_running(state: State, number: int) -> bool:
    """Whether there is a running trial of that number."""
    return number < len(state.history) and state.history[number].state == "running"


def expire_leases(settings: Settings, state: State, moment: Moment) -> State:
    """The state in which every trial whose lease has expired is lost."""
    for trial in state.history.running:
        if trial.run.lease is None or trial.run.lease >= moment.now:
            continue
        state = charge_so_far(settings, state, trial, moment)
        retry = trial.run.attempt <= settings.retries
        run = replace(trial.run, lease=None, retry=retry, told_at=moment.now)
        error = f"its worker ({trial.run.worker}) disappeared"
        state = state.with_trial(_without_worker(settings, trial, error, run))
    return state


def _without_worker(settings: Settings, trial: Trial, error: str, run: Run) -> Trial:
    """A trial whose part nobody works on any more: lost, or paused where its checkpoint is.

    A training that has reported its last step is done.
    """
    complete = is_complete(settings, trial.curve)
    if not complete and not can_return(settings, trial):
        return replace(trial, state="lost", error=error, run=run)
    assert settings.steps is not None
    value = settings.steps.value_of(trial.curve, settings.sign)
    run = replace(run, retry=False)
    if complete:
        return replace(trial, state="done", value=value, run=run, until=None)
    step, at = trial.step, run.told_at or 0.0
    notes = with_reason(trial.notes, trial, "paused", error, at, step=step, cost=trial.cost)
    return replace(
        trial, state="paused", value=value, error=error, run=run, notes=notes, until=None
    )


def return_trial(settings: Settings, state: State, event: Returned, moment: Moment) -> State:
    """The state in which a trial that never began is lost, costs nothing and is repeated.

    A part of a training that never began is paused again.
    """
    if not is_running(state, event.number):
        return state
    trial = state.history[event.number]
    run = replace(trial.run, lease=None, retry=True, told_at=moment.now)
    state = replace(state, ledger=state.ledger.release(event.number))
    return state.with_trial(_without_worker(settings, trial, event.because, run))
