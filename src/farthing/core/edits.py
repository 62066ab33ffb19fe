"""Edits of a study by its user: changed settings, enqueued, dropped and repeated trials.

A budget is the total that may be spent: "20m" includes the minutes that are already spent, and
"+10m" adds ten minutes to the limit. Earlier trials must keep their meaning. The direction and the
metric are therefore fixed, and a space can only grow: wider ranges, finer steps, more options, more
rows or allowed combinations, under the same conditions. The
points of trials are then computed again, for the same parameters in the new unit cube.
"""

from __future__ import annotations

import difflib
import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from farthing.acquisition.initial_design import check_enqueued
from farthing.budget.ledger import Account
from farthing.budget.units import Budget, format_amount
from farthing.core.events import Changed, Enqueued, Moment
from farthing.core.options import RunOptions, SearchOptions
from farthing.core.settings import Settings
from farthing.core.state import Change, QueueEntry, State
from farthing.earlier import moved
from farthing.errors import InvalidInput, Outdated
from farthing.history import History, Trial
from farthing.models.constraints import constraint_of
from farthing.space.parameters import exact, is_bool
from farthing.space.space import Categorical, Float, Int, Ordinal, Parameter, Space

__all__ = [
    "change_event",
    "describe_parameter",
    "difference",
    "drop",
    "enqueue",
    "find_trial",
    "repeat",
    "with_settings",
    "without_entry",
]

# What the models store with a trial is valid only for these settings.
MODEL_SETTINGS = ("space", "cost", "noisy", "learn_from")
# A study keeps its policy. But if it has the default one, it gets the default for these settings
# once it is given one of them, or when what the policy needs is taken away.
SELECTING, NEEDED = ("worth", "learn_from", "steps"), ("budget", "steps")
NEW_STUDY = "Create a study with another name for this."


# ── the requested settings ───────────────────────────────────────────────────────────────────────


def change_event(settings: Settings, new: Mapping[str, Any], known: int, workers: bool) -> Changed:
    """The event that changes some settings.

    Args:
        new: the settings to change, and their values.
        known: the number of changes so far.
        workers: whether workers run the trials, so that the run options have an effect.
    """
    after = _revised(settings, new, RunOptions if workers else SearchOptions)
    return Changed(after, difference(settings, after), known)


def _revised(settings: Settings, new: Mapping[str, Any], options: type) -> Settings:
    names = ("space", "budget", *options.__annotations__)
    if unknown := [name for name in new if name not in names]:
        close = difflib.get_close_matches(unknown[0], names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidInput(
            f"Unknown setting {unknown[0]!r}: expected one of {', '.join(names)}.{hint}"
        )
    values: dict[str, Any] = {f.name: getattr(settings, f.name) for f in fields(Settings)}
    values.update(new)
    if settings.has_default_policy and (
        any(new.get(each) not in (None, ()) for each in SELECTING)
        or any(each in new and new[each] is None for each in NEEDED)
    ):
        values["policy"] = new.get("policy")
    if isinstance(values["budget"], str):
        values["budget"] = _new_budget(settings.budget, values["budget"])
    if settings.learn_from and "space" in new and "learn_from" not in new:
        after = Space(new["space"]) if isinstance(new["space"], Mapping) else new["space"]
        _check_grown(settings.space, after)
        values["learn_from"] = [moved(each, settings.space, after) for each in settings.learn_from]
    return Settings.of(values.pop("space"), values.pop("budget"), **values)


def _new_budget(budget: Budget | None, text: str) -> Budget:
    """The budget after "+10m" or "+10m, -$3"; a text without signs is a whole budget."""
    parts = [part.strip() for part in text.split(",")]
    signs = {part[:1] for part in parts} - {"+", "-"}
    if signs and len(signs) == len({part[:1] for part in parts}):
        return Budget(text)
    if signs:
        raise InvalidInput(
            f"budget={text!r}: expected a sign before every amount, such as '+10m, +$5', or before "
            "none."
        )
    limits = {} if budget is None else dict(budget.limits)
    for part in parts:
        for resource, amount in Budget(part[1:]).limits.items():
            if resource not in limits:
                present = f"a budget of {budget}" if limits else "no budget"
                raise InvalidInput(
                    f"budget={text!r}: there is no limit of {resource} to change, because the "
                    f"study has {present}. Give the whole budget without signs."
                )
            limits[resource] += amount if part[0] == "+" else -amount
            if limits[resource] <= 0:
                raise InvalidInput(
                    f"budget={text!r}: the limit of {budget} would not stay above 0. Subtract less."
                )
    return Budget(limits)


# ── settings that are fixed ──────────────────────────────────────────────────────────────────────


def check_fixed(state: State, before: Settings, after: Settings) -> None:
    """Refuse changes that would alter the meaning of the trials so far."""
    if not (state.history or state.prices):
        return
    if before.direction != after.direction:
        raise InvalidInput(
            f'direction="{after.direction}": this study has trials with '
            f'direction="{before.direction}", which cannot change any more. {NEW_STUDY}'
        )
    has_values = any(not trial.is_external for trial in state.history.done)
    if before.metric != after.metric and has_values:
        raise InvalidInput(
            f"metric={after.metric!r}: the values of this study are its command's "
            f"{before.metric!r}, and the two cannot be compared. {NEW_STUDY}"
        )
    if _meaning(before) != _meaning(after):
        raise InvalidInput(
            "steps: the last step and the value of a training cannot change any more, because this "
            f"study has trials. {NEW_STUDY}"
        )
    if before.space != after.space:
        _check_grown(before.space, after.space)
    for each in after.bounds:
        unknown = next((t for t in state.history.done if math.isnan(each.measured(t))), None)
        if unknown is not None:
            raise InvalidInput(
                f"constraints={{{each.name!r}: ...}}: trial {unknown.number} of this study has not "
                f"measured {each.name!r}, so it is unknown whether it meets the constraint. "
                f"{NEW_STUDY}"
            )


def _meaning(settings: Settings) -> tuple[int, str] | None:
    """What the values of trainings mean; None if trials are evaluated as a whole."""
    return None if settings.steps is None else (settings.steps.last, settings.steps.value)


def _check_grown(before: Space, after: Space) -> None:
    old, new = before.parameters, after.parameters
    for name in (*old, *new):
        if name not in new:
            raise InvalidInput(
                f"The new space lacks the parameter {name!r} of the study. {NEW_STUDY}"
            )
        if name not in old:
            raise InvalidInput(
                f"Parameter {name!r} is new, and earlier trials have no value of it. {NEW_STUDY}"
            )
        if not _has_grown(old[name], new[name]):
            raise InvalidInput(
                f"Parameter {name!r} is {describe_parameter(old[name])} and cannot become "
                f"{describe_parameter(new[name])}: it can only get a wider range or more options, "
                f"because earlier trials must stay inside. {NEW_STUDY}"
            )
    if (before.rows is None) != (after.rows is None):
        raise InvalidInput(
            f"A table of rows cannot become a space without rows, nor the reverse. {NEW_STUDY}"
        )
    if _combined(before) != _combined(after):
        raise InvalidInput(
            "The allowed combinations must stay combinations of the same parameters, because "
            f"earlier trials must stay inside. {NEW_STUDY}"
        )
    known = {frozenset(each.items()) for each in after.allowed or ()}
    for each in before.allowed or ():
        if frozenset(each.items()) not in known:
            what = "allowed combination" if before.rows is None else "row"
            whole = "list" if before.rows is None else "table"
            raise InvalidInput(
                f"The new {whole} lacks the {what} {each}: a {whole} can only get more "
                f"{what}s. {NEW_STUDY}"
            )


def _combined(space: Space) -> set[str]:
    """The names of the parameters of which only some combinations are allowed."""
    return {name for name, each in zip(space.names, space.combined, strict=True) if each}


def _has_grown(old: Parameter, new: Parameter) -> bool:
    same = type(old) is type(new) and (old.when, _scale(old)) == (new.when, _scale(new))
    if isinstance(old, Float | Int) and isinstance(new, Float | Int):
        return same and new.low <= old.low and old.high <= new.high and _on_steps(old, new)
    if isinstance(old, Categorical) and isinstance(new, Categorical):
        return same and set(old.options) <= set(new.options)
    if isinstance(old, Ordinal) and isinstance(new, Ordinal):
        return same and old.numeric == new.numeric and set(old.values) <= set(new.values)
    return False


def _on_steps(old: Float | Int, new: Float | Int) -> bool:
    """Whether every step of the old range is one of the new range."""
    if new.step is None:
        return True
    if old.step is None:
        return False
    step = exact(new.step)
    gaps = (exact(old.step) / step, (exact(old.low) - exact(new.low)) / step)
    return all(gap.denominator == 1 for gap in gaps)


def _scale(parameter: Parameter) -> bool:
    return not isinstance(parameter, Categorical) and parameter.log


# ── the state after a change ─────────────────────────────────────────────────────────────────────


def with_settings(state: State, before: Settings, after: Settings) -> State:
    """The state under new settings: its limits, its points, without invalid model memories."""
    check_fixed(state, before, after)
    if before.budget != after.budget:
        ended = sum(not t.is_external and t.state != "running" for t in state.history)
        counted = {
            "trials": Account(math.inf, float(ended)),
            "s": Account(math.inf, state.elapsed_s, overhead=state.overhead_s),
        }
        state = replace(state, ledger=state.ledger.limited(after.budget, counted))
    if all(getattr(before, name) == getattr(after, name) for name in MODEL_SETTINGS):
        return state

    def moved(trial: Trial) -> Trial:
        notes = {key: note for key, note in trial.notes.items() if key != "memories"}
        return replace(trial, x=after.space.encode(trial.params), notes=notes)

    for each in state.queue:
        check_enqueued(after.space, each.params)
    prices = tuple(
        price._replace(x=after.space.encode(before.space.decode(price.x))) for price in state.prices
    )
    return replace(state, history=History(tuple(map(moved, state.history))), prices=prices)


# ── settings as texts ────────────────────────────────────────────────────────────────────────────


def difference(before: Settings, after: Settings) -> dict[str, tuple[str, str]]:
    """The settings that differ, as texts: {name: (before, after)}; a space by parameter."""
    found: dict[str, tuple[str, str]] = {}
    for f in fields(Settings):
        was, now = getattr(before, f.name), getattr(after, f.name)
        if was == now:
            continue
        if f.name != "space":
            found[f.name] = describe_setting(f.name, was), describe_setting(f.name, now)
            continue
        for name in dict.fromkeys((*was.parameters, *now.parameters)):
            old, new = was.parameters.get(name), now.parameters.get(name)
            if old != new:
                found[name] = describe_parameter(old), describe_parameter(new)
        if was.allowed != now.allowed:
            what = "allowed" if was.rows is None and now.rows is None else "rows"
            old_rows, rows = (str(len(each.allowed or ())) for each in (was, now))
            found[what] = old_rows, f"{rows} different ones" if rows == old_rows else rows
    return found


def describe_setting(name: str, value: Any) -> str:
    """A setting as a user would write it."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in FORMATS:
        return FORMATS[name](value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _part(part: Any) -> str:
    """A policy, a stopping rule or a cost model: its name and its arguments."""
    if isinstance(part, Mapping):
        return ", ".join(f"{name}: {_part(each)}" for name, each in part.items())
    if isinstance(part, list | tuple):
        return ", ".join(map(_part, part))
    if is_dataclass(part) and not isinstance(part, type):
        shown = [f for f in fields(part) if f.init and not f.name.startswith("_")]
        given = [f for f in shown if getattr(part, f.name) != f.default]
        inside = ", ".join(f"{f.name}={_part(getattr(part, f.name))}" for f in given)
        return f"{type(part).__name__}({inside})"
    if callable(part):
        name = getattr(part, "__name__", type(part).__name__)
        return "a function" if name == "<lambda>" else name
    return repr(part)


def _seconds(value: float) -> str:
    return format_amount("s", value)


def _count(value: float) -> str:
    return "no limit" if math.isinf(value) else f"{value:g}"


def _configurations(value: tuple[Mapping[str, Any], ...]) -> str:
    return "; ".join(", ".join(f"{k}={v}" for k, v in params.items()) for params in value)


def _conditions(value: Mapping[str, str]) -> str:
    return ", ".join(str(constraint_of(*each)) for each in value.items())


FORMATS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("policy", "stop", "cost", "steps"), _part),
    **dict.fromkeys(("timeout", "grace", "lease"), _seconds),
    "command": shlex.join,
    "constraints": _conditions,
    "failures_in_a_row": _count,
    "learn_from": lambda sources: ", ".join(map(str, sources)),
    "start": _configurations,
}


def describe_parameter(parameter: Parameter | None) -> str:
    """A parameter as a user would describe it."""
    if parameter is None:
        return "none"
    if isinstance(parameter, Float | Int):
        text = f"{parameter.low:g} to {parameter.high:g}"
        if isinstance(parameter, Int):
            text = f"a whole number from {parameter.low} to {parameter.high}"
        text += "" if parameter.step is None else f" in steps of {parameter.step:g}"
    elif is_bool(parameter):
        text = "true or false"
    else:
        values = parameter.options if isinstance(parameter, Categorical) else parameter.values
        text = ("one of " if isinstance(parameter, Categorical) else "") + ", ".join(
            str(value) for value in values
        )
    text += " on a log scale" if _scale(parameter) else ""
    if parameter.when is not None:
        text += " when " + ", ".join(f"{name} is {value}" for name, value in parameter.when.items())
    slope = getattr(parameter, "cost", None)
    return f"{text}; its cost {slope} with the value" if slope else text


# ── dropped and repeated trials ──────────────────────────────────────────────────────────────────


def find_trial(state: State, number: int) -> Trial:
    """The trial of that number."""
    count = len(state.history)
    if not (isinstance(number, int | np.integer) and 0 <= number < count):
        numbers = f"trials 0 to {count - 1}" if count else "no trials yet"
        raise InvalidInput(f"There is no trial {number}: the study has {numbers}.")
    return state.history[int(number)]


def drop(state: State, trial: Trial, moment: Moment) -> State:
    """Let the models ignore a trial. The caller charges it if it is running."""
    if trial.is_dropped:
        raise InvalidInput(f"Trial {trial.number} is already dropped.")
    return _with_change(_forgotten(state, trial, moment), trial, "dropped", moment)


def repeat(state: State, trial: Trial, moment: Moment) -> State:
    """Enqueue the parameters of a trial again. If it failed, the models ignore the failure."""
    if trial.state == "running":
        raise InvalidInput(
            f"Trial {trial.number} is running. Drop it first, or wait until it has ended."
        )
    if trial.state == "failed":
        state = _forgotten(state, trial, moment)
    elif trial.run.retry:
        state = state.with_trial(replace(trial, run=replace(trial.run, retry=False)))
    because = f"repeats trial {trial.number}, as requested"
    state = replace(state, queue=(*state.queue, QueueEntry(dict(trial.params), because)))
    return _with_change(state, trial, "to be run again", moment)


def _forgotten(state: State, trial: Trial, moment: Moment) -> State:
    """The trial becomes lost, and the later trials lose the model memories that depend on it."""
    was = {"state": trial.state, "value": trial.value, "error": trial.error}
    told_at = moment.now if trial.run.told_at is None else trial.run.told_at
    lost = replace(
        trial,
        state="lost",
        value=None,
        error="it was dropped",
        notes={**trial.notes, "dropped": was},
        run=replace(trial.run, lease=None, retry=False, told_at=told_at),
    )
    state = state.with_trial(lost)
    for later in state.history.trials[trial.number + 1 :]:
        if "memories" in later.notes:
            notes = {key: note for key, note in later.notes.items() if key != "memories"}
            state = state.with_trial(replace(later, notes=notes))
    return state


def _with_change(state: State, trial: Trial, now: str, moment: Moment) -> State:
    was = trial.state if trial.value is None else f"{trial.state} with {trial.value:.6g}"
    change = Change(moment.now, len(state.history), {f"trial {trial.number}": (was, now)})
    return replace(state, changes=(*state.changes, change))


# ── the queue ────────────────────────────────────────────────────────────────────────────────────


def enqueue(space: Space, state: State, event: Enqueued) -> State:
    """Append configurations to the queue."""
    queue = state.queue
    for entry in event.entries:
        check_enqueued(space, entry.params)
        suggested = (trial.notes.get("given") for trial in state.history)
        if event.once and entry.params in (*(each.params for each in queue), *suggested):
            continue
        queue = (*queue, entry)
    return replace(state, queue=queue)


def without_entry(
    queue: tuple[QueueEntry, ...], params: Mapping[str, object] | None
) -> tuple[QueueEntry, ...]:
    """The queue without the entry that a trial was suggested for; None: the same queue."""
    if params is None:
        return queue
    at = next((i for i, entry in enumerate(queue) if entry.params == params), None)
    if at is None:
        raise Outdated("another process has started the enqueued trial")
    return (*queue[:at], *queue[at + 1 :])
