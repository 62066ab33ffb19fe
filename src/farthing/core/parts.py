"""Trainings in parts: the curve of a trial, and how its parts are resumed, continued and lost.

A part is what one process trains without interruption. It is reserved, charged and leased like a
trial. Between two parts the trial is paused. The cost of a trial is the sum of its parts, and a
budget of trials counts it once.

If the worker of a resumed part disappears, its checkpoint from before is still there: the trial is
paused again. Without a checkpoint (`resume="never"`), or in its first part, it is lost. Its curve
stays in any case. If the part had reported the last step, the trial is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from farthing.acquisition.protocols import Proposal
from farthing.acquisition.trainings import best_ended
from farthing.budget.ledger import Ledger
from farthing.core.charging import amounts_to_reserve, charge_trial
from farthing.core.events import AskedPart, CheckpointsDeleted, Continued, Moment, Recovered, Told
from farthing.core.part_reasons import with_reason
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.errors import InvalidInput, Outdated
from farthing.history import FOLDER, STARTS_AGAIN, CurvePoint, History, Trial, TrialState

__all__ = [
    "added",
    "best_checkpoint",
    "can_return",
    "carry_on",
    "check_step",
    "counted_value",
    "ended_part",
    "give_up_checkpoints",
    "is_other_part",
    "is_pause",
    "is_spent",
    "longer_curve",
    "recover",
    "resume",
    "share_of_steps",
    "turn_of",
    "with_counted_value",
    "with_part",
]


# ── costs and curves ─────────────────────────────────────────────────────────────────────────────


def added(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """The sum of two costs, by resource."""
    return {r: one.get(r, 0.0) + other.get(r, 0.0) for r in {**one, **other}}


def _expected(before: Mapping[str, float], next_part: Mapping[str, float]) -> dict[str, float]:
    """The expected cost of a training: what it cost before its next part, and that part.

    A resource in which no cost of the part was predicted is left out.
    """
    return {r: before.get(r, 0.0) + amount for r, amount in next_part.items()}


def longer_curve(trial: Trial, points: Iterable[CurvePoint]) -> tuple[CurvePoint, ...]:
    """The curve of a trial with the points of its running part, whose costs are those of the part.

    A step that is known already is not replaced: after a loss, a training may repeat some steps.
    """
    curve = list(trial.curve)
    for point in sorted(points, key=lambda each: each.step):
        if not curve or point.step > curve[-1].step:
            curve.append(point._replace(cost=added(trial.run.earlier, point.cost)))
    return tuple(curve)


def turn_of(state: State, number: int) -> int | None:
    """The turn of the trial or part that begins next; None if it is the number of its trial."""
    turns = state.history.turns
    return None if turns == number else turns


# ── suggesting ───────────────────────────────────────────────────────────────────────────────────


def is_spent(settings: Settings, state: State) -> bool:
    """Whether nothing may start. If all trials have begun, paused trainings may still go on."""
    goes_on = settings.steps is not None and bool(state.history.having("paused"))
    return any(not (goes_on and resource == "trials") for resource in state.ledger.used_up)


def with_part(settings: Settings, proposal: Proposal) -> Proposal:
    """The proposal with the step to which its training runs.

    A policy that decides by steps looks at every training at the first rung; for all other policies
    a training is one evaluation. The cost of the part is its share of the steps.
    """
    steps = settings.steps
    if steps is None or proposal.x is None or proposal.until is not None:
        return proposal
    until = steps.decision_steps[0] if "steps" in settings.policy.needs else steps.last
    share = np.log(until / steps.last)
    predicted = {
        resource: normal._replace(mean=normal.mean + share)
        for resource, normal in proposal.predicted.items()
    }
    return replace(proposal, until=until, predicted=predicted)


def counted_value(settings: Settings, trial: Trial) -> float | None:
    """The value with which a trial competes to be the best one; None if it does not.

    With `steps`, if the value of a trial is the best one of its curve, the best checkpoint counts,
    whatever became of its trial. The quantities that constraints limit are known at the end only.
    """
    if trial.is_dropped or any(not bound.excess(trial) <= 0.0 for bound in settings.bounds):
        return None
    if settings.steps is None or settings.steps.value == "last" or not trial.curve:
        return trial.value if trial.state == "done" else None
    if trial.state in ("done", "paused") and trial.value is not None:
        return trial.value
    return settings.steps.value_of(trial.curve, settings.sign)


def with_counted_value(settings: Settings, trial: Trial) -> Trial:
    """The trial as it is shown: with its best value also if it was killed, lost or has failed."""
    if trial.value is not None:
        return trial
    return replace(trial, value=counted_value(settings, trial))


def best_checkpoint(settings: Settings, history: History) -> Trial | None:
    """The trial with the best value of any step, with that value."""
    found = [
        (trial, value) for trial in history if (value := counted_value(settings, trial)) is not None
    ]
    if not found:
        return None
    trial, value = min(found, key=lambda each: (settings.sign * each[1], each[0].number))
    return trial if trial.value == value else replace(trial, value=value)


# ── starting ─────────────────────────────────────────────────────────────────────────────────────


def resume(
    settings: Settings, before: Ledger, state: State, event: AskedPart, moment: Moment
) -> State:
    """The state in which a paused trial runs again.

    Args:
        before: the ledger before the suggestion itself is charged, as the suggestion saw it.
    """
    number, new = event.trial.number, event.trial
    trial = state.history[number] if number < len(state.history) else None
    if trial is None or trial.state != "paused" or state.is_suggesting(event.suggester, moment.now):
        raise Outdated(f"another process has resumed trial {number}")
    if event.changes not in (None, len(state.changes)):
        raise Outdated("the settings have changed")
    if trial.starts_again and not new.starts_again:
        raise Outdated(f"the checkpoint of trial {number} was deleted")
    _check_until(trial, new.until)
    reservation = amounts_to_reserve(settings, state.ledger, event.reservation, moment)
    if _is_short(before, reservation):
        raise Outdated("less of the budget is left than the suggestion assumed")
    since = _checkpoint(settings, trial, waits=new.run.waits)
    notes = {name: note for name, note in new.notes.items() if name != STARTS_AGAIN}
    run = replace(
        trial.run,
        worker=event.worker,
        lease=None if event.lease is None else moment.now + event.lease,
        asked_at=moment.now,
        told_at=None,
        suggest_s=trial.run.suggest_s + event.suggest_s,
        slot=None,
        since=since,
        earlier=dict(trial.cost),
        turn=turn_of(state, number),
    )
    running = replace(
        trial,
        state="running",
        error=None,
        predicted=_expected(trial.cost, new.predicted),
        because=new.because,
        notes=with_reason(
            *(notes, trial, "resumed", new.because, moment.now), step=since, cost=trial.cost
        ),
        until=new.until,
        run=run,
    )
    left = {r: min(amount, max(state.ledger[r].left, 0.0)) for r, amount in reservation.items()}
    state = replace(state, suggest_s=event.suggest_s, suggester=None, suggester_until=None)
    state = replace(state, ledger=state.ledger.reserve(number, left, resumed=True))
    return state.with_trial(running)


def _checkpoint(settings: Settings, trial: Trial, *, waits: bool) -> int:
    """The step from which a paused training goes on; 0: it starts again.

    A part that was lost has reported more steps than its checkpoint has.

    Args:
        waits: whether its worker has its process.
    """
    if waits:
        return trial.step
    if settings.steps is None or not settings.steps.has_checkpoints or trial.starts_again:
        return 0
    return trial.run.since if trial.error is not None else trial.step


def carry_on(
    settings: Settings, before: Ledger, state: State, event: Continued, moment: Moment
) -> State:
    """The state in which a running training goes on to a later step, with more reserved for it."""
    number, new = event.trial.number, event.trial
    trial = state.history[number] if number < len(state.history) else None
    if trial is None or trial.state != "running" or not _is_same_part(trial, new):
        raise Outdated(f"trial {number} does not run any more")
    if event.changes not in (None, len(state.changes)):
        raise Outdated("the settings have changed")
    if (
        event.bound is not None
        and best_ended(state.history, settings.steps, settings.sign) <= event.bound
    ):
        raise Outdated("another trial has a better value than the suggestion assumed")
    curve = longer_curve(trial, event.curve)
    _check_until(replace(trial, curve=curve), new.until)
    ahead = amounts_to_reserve(settings, state.ledger, added(event.cost, event.reservation), moment)
    reserved = state.ledger.reserved_for(number)
    more = {r: max(amount - reserved.get(r, 0.0), 0.0) for r, amount in ahead.items()}
    if _is_short(before, more):
        raise Outdated("less of the budget is left than the suggestion assumed")
    left = {r: min(amount, max(state.ledger[r].left, 0.0)) for r, amount in more.items()}
    cost = added(trial.run.earlier, event.cost)
    notes = with_reason(
        *(_with_limit(new.notes, event.cost), trial, "continued", new.because, moment.now),
        step=curve[-1].step if curve else 0,
        cost=cost,
    )
    continued = replace(
        trial,
        cost=cost,
        predicted=_expected(added(trial.run.earlier, event.cost), new.predicted),
        because=new.because,
        notes=notes,
        until=new.until,
        curve=curve,
        run=replace(
            trial.run,
            suggest_s=trial.run.suggest_s + event.suggest_s,
            turn=turn_of(state, number),
        ),
    )
    state = replace(state, ledger=state.ledger.extend(number, left))
    if event.bound is None:  # otherwise it says nothing about the time of a suggestion
        state = replace(state, suggest_s=event.suggest_s)
    return state.with_trial(continued)


def give_up_checkpoints(state: State, event: CheckpointsDeleted) -> State:
    """The state in which trials have no checkpoint. Their next one is in a new folder.

    So the folder of an earlier one can be deleted at any time, even while the trial runs again.
    """
    for number in event.numbers:
        trial = state.history[number]
        if trial.state == "running" or trial.starts_again:
            continue
        notes = {**trial.notes, STARTS_AGAIN: True, FOLDER: trial.checkpoint_folder + 1}
        state = state.with_trial(replace(trial, notes=notes))
    return state


def recover(settings: Settings, state: State, event: Recovered, moment: Moment) -> State:
    """The state with points that the worker of a part could not store before it died.

    Steps that are known are not replaced. What the part had cost at its last point, beyond what was
    charged when it was lost, is charged now. If the training was resumed since, the part before it
    has been charged, and a recovered point costs as much as the one before it.
    """
    if settings.steps is None or not event.number < len(state.history):
        return state
    trial = state.history[event.number]
    known = {point.step for point in trial.curve}
    new = [point for point in event.curve if point.step not in known]
    if not new:
        return state
    is_last = trial.run.asked_at == event.asked_at
    earlier = trial.run.earlier if is_last else {}
    curve, paid = list[CurvePoint](), dict[str, float]()
    for point in sorted((*trial.curve, *new), key=lambda each: each.step):
        if point.step in known:
            paid = dict(point.cost)
        elif is_last:
            paid = added(earlier, point.cost)
        curve.append(point if point.step in known else point._replace(cost=paid))
    cost = dict(trial.cost)
    if is_last and trial.state in ("lost", "paused"):
        # Its time was charged as it passed, or other processes will charge it.
        reserves = moment._replace(present=0.0)
        state = charge_trial(settings, state, trial, new[-1].cost, np.inf, reserves)
        cost = {r: max(cost.get(r, 0.0), paid.get(r, 0.0)) for r in {**cost, **paid}}
    trial = replace(trial, curve=tuple(curve), cost=cost)
    is_lost = trial.state in ("lost", "paused") and not trial.is_dropped
    if is_last and is_lost and is_complete(settings, trial.curve):
        run = replace(trial.run, retry=False)
        trial = replace(trial, state="done", error=None, until=None, run=run)
    if trial.state in ("paused", "done") and settings.steps.value == "best":
        trial = replace(trial, value=settings.steps.value_of(trial.curve, settings.sign))
    elif trial.state in ("paused", "done"):
        trial = replace(trial, value=curve[-1].value)
    return state.with_trial(trial)


def is_complete(settings: Settings, curve: Sequence[CurvePoint]) -> bool:
    """Whether a training whose part was lost had reported its last step.

    What constraints limit is known from its result only, so without one it is not complete.
    """
    steps = settings.steps
    return (
        steps is not None and not settings.bounds and bool(curve) and curve[-1].step >= steps.last
    )


def _with_limit(notes: Mapping[str, Any], cost: Mapping[str, float]) -> dict[str, Any]:
    """Notes whose limit holds for the whole part: what it has used, and the steps ahead."""
    limit = notes.get("limit")
    if not limit:
        return dict(notes)
    return {**notes, "limit": {r: most + cost.get(r, 0.0) for r, most in limit.items()}}


def _check_until(trial: Trial, until: int | None) -> None:
    if until is None or until <= trial.step:
        raise InvalidInput(
            f"Trial {trial.number} has reached step {trial.step} and is to run to step {until}: "
            "expected a later one. Correct the policy."
        )


def _is_short(ledger: Ledger, amounts: Mapping[str, float]) -> bool:
    """Whether amounts are not left. A trial that has begun needs no further one of "trials"."""
    if any(resource != "trials" for resource in ledger.used_up):
        return True
    return any(ledger[r].left < amount for r, amount in amounts.items())


# ── ending ───────────────────────────────────────────────────────────────────────────────────────


def _is_same_part(stored: Trial, reported: Trial) -> bool:
    return stored.run.asked_at == reported.run.asked_at


def is_other_part(stored: Trial, reported: Trial | int) -> bool:
    """Whether a report belongs to an earlier part: another worker has resumed the trial since."""
    return isinstance(reported, Trial) and not _is_same_part(stored, reported)


def can_return(settings: Settings, trial: Trial) -> bool:
    """Whether a running trial whose part is lost can go on from its checkpoint."""
    steps = settings.steps
    return steps is not None and steps.has_checkpoints and trial.run.since > 0


def share_of_steps(settings: Settings, trial: Trial, event: Told) -> float:
    """The share of all steps that a part has trained, as far as it is known; 1 without steps."""
    steps = settings.steps
    if steps is None or (event.state == "done" and not event.by_user and not event.curve):
        return 1.0
    reached = max((point.step for point in event.curve), default=event.step)
    reached = reached or trial.until or steps.last
    return max(min(reached, steps.last) - trial.run.since, 0) / steps.last


def is_pause(settings: Settings, trial: Trial, event: Told) -> bool:
    """Whether a user reports the value of a step at which the training pauses."""
    steps, until = settings.steps, _until(trial, event)
    if steps is None or until is None or not event.by_user or event.state != "done":
        return False
    return until <= (until if event.step is None else event.step) < steps.last


def _until(trial: Trial, event: Told) -> int | None:
    """The step that a part was to reach. A part that was lost, or told before, has none."""
    if trial.until is None and isinstance(event.trial, Trial):
        return event.trial.until
    return trial.until


def ended_part(
    settings: Settings, trial: Trial, event: Told, paid: Mapping[str, float]
) -> tuple[TrialState, float | None, tuple[CurvePoint, ...]]:
    """The state, the value and the curve of a trial whose training, or a part of it, has ended.

    A user reports the value at a step; `until` unless given. A training that reaches the last step
    is done; one that ends between `until` and the last step is paused; one that ends before `until`
    has stopped by itself, and is done.

    Args:
        paid: the cost of the part.
    """
    steps, curve = settings.steps, longer_curve(trial, event.curve)
    state, value = event.state, event.value
    if steps is None:
        return state, value, curve
    until = _until(trial, event)
    if event.by_user and state == "done" and value is not None and until is not None:
        step = until if event.step is None else event.step
        if not trial.step < step <= steps.last:
            raise InvalidInput(
                f"step={step!r}: expected a whole number above {trial.step}, the last step that "
                f"trial {trial.number} reached, and at most {steps.last}, the last step."
            )
        curve = longer_curve(trial, (*event.curve, CurvePoint(step, value, paid)))
        if is_pause(settings, trial, event):
            state = "paused"
    elif state == "done" and value is not None and not curve:
        # A training that reports no steps has run to the end.
        curve = longer_curve(trial, (CurvePoint(steps.last, value, paid),))
    if state == "paused" and curve and curve[-1].step >= steps.last:
        state = "done"  # it was told to end, but was faster
    if state == "lost" and is_complete(settings, curve):
        state = "done"  # only its end was lost
    if state == "lost" and can_return(settings, trial):
        return "paused", steps.value_of(curve, settings.sign), curve
    if state not in ("done", "paused"):
        return state, None, curve
    if steps.value == "last" and value is not None:
        return state, value, curve
    values = [v for v in (value, steps.value_of(curve, settings.sign)) if v is not None]
    return state, min(values, key=lambda each: settings.sign * each, default=None), curve


def check_step(settings: Settings, step: Any) -> None:
    """Refuse a step of `tell` that is no whole number, or has no effect."""
    if step is None:
        return
    if settings.steps is None:
        raise InvalidInput(f"step={step!r} has no effect without steps. Set steps=..., or omit it.")
    if isinstance(step, bool) or not isinstance(step, int | np.integer):
        raise InvalidInput(f"step={step!r}: expected a whole number, such as trial.until.")
