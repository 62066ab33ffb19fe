"""A study made otherwise after it was begun: what may change, what follows, and in which words.

A budget is what may be spent in all: "20m" is twenty minutes with those that are spent already,
"+10m" ten more than there were. What was evaluated must stay what it was, so the direction and the
metric are fixed, and a space can only grow: wider ranges, more options, more rows. The points of
trials are then those of the same parameters in the new cube.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from farthing.acquisition.initial_design import check_wanted
from farthing.budget.ledger import Account
from farthing.budget.units import Budget, format_amount
from farthing.core.events import Changed, Enqueued, Moment
from farthing.core.settings import RunOptions, SearchOptions, Settings
from farthing.core.state import Change, State, Wanted
from farthing.errors import InvalidInput, Outdated
from farthing.history import History, Trial
from farthing.space.space import Categorical, Float, Int, Ordinal, Parameter, Space

__all__ = [
    "carried_over",
    "change_to",
    "difference",
    "drop",
    "enqueue",
    "one_of",
    "repeat",
    "without",
]

# Settings that the models remember something of, which does not fit any others.
LEARNT_UNDER = ("space", "cost", "noisy")
OTHER_NAME = "Use another name for another study."


# ── what a person asks for ─────────────────────────────────────────────────────────────────────


def change_to(settings: Settings, given: Mapping[str, Any], known: int, workers: bool) -> Changed:
    """The event that makes some settings as they are given.

    Args:
        known: how many changes there were.
        workers: whether anything reads how trials are run.
    """
    after = _revised(settings, given, RunOptions if workers else SearchOptions)
    return Changed(after, difference(settings, after), known)


def _revised(settings: Settings, given: Mapping[str, Any], choices: type) -> Settings:
    takes = ("space", "budget", *choices.__annotations__)
    if unknown := [name for name in given if name not in takes]:
        raise InvalidInput(
            f"There is no setting {unknown[0]!r} to change. There are {', '.join(takes)}."
        )
    made: dict[str, Any] = {f.name: getattr(settings, f.name) for f in fields(Settings)}
    made.update(given)
    if isinstance(made["budget"], str):
        made["budget"] = _budget_after(settings.budget, made["budget"])
    return Settings.of(made.pop("space"), made.pop("budget"), **made)


def _budget_after(budget: Budget | None, told: str) -> Budget:
    """The budget that "+10m", or "+10m, -$3", makes of another; any other text is a budget."""
    parts = [part.strip() for part in told.split(",")]
    signs = {part[:1] for part in parts} - {"+", "-"}
    if signs and len(signs) == len({part[:1] for part in parts}):
        return Budget(told)
    if signs:
        raise InvalidInput(
            f"budget={told!r}: either all of it is more or less than before, such as '+10m, +$5', "
            "or none of it."
        )
    limits = {} if budget is None else dict(budget.limits)
    for part in parts:
        for resource, amount in Budget(part[1:]).limits.items():
            if resource not in limits:
                there = f"limits {budget}" if limits else "has no limit"
                raise InvalidInput(
                    f"budget={told!r}: there is no budget of {resource} to add to; the study "
                    f"{there}. Give all that may be spent, without a sign."
                )
            limits[resource] += amount if part[0] == "+" else -amount
            if limits[resource] <= 0:
                raise InvalidInput(f"budget={told!r}: nothing would be left of {budget}.")
    return Budget(limits)


# ── what is fixed ──────────────────────────────────────────────────────────────────────────────


def check_fixed(state: State, before: Settings, after: Settings) -> None:
    """Refuse what would make something else of the trials there are."""
    if not (state.history or state.prices):
        return
    if before.direction != after.direction:
        raise InvalidInput(
            f"This study is to {before.direction} its value, and cannot be told to "
            f"{after.direction} it after its first trial. {OTHER_NAME}"
        )
    ours = any(not trial.is_external for trial in state.history.done)
    if before.metric != after.metric and ours:
        raise InvalidInput(
            f"The value of this study is what its command calls {before.metric!r}: what it calls "
            f"{after.metric!r} cannot be compared with that. {OTHER_NAME}"
        )
    if before.space != after.space:
        _check_grown(before.space, after.space)


def _check_grown(before: Space, after: Space) -> None:
    old, new = before.parameters, after.parameters
    for name in (*old, *new):
        if name not in new:
            raise InvalidInput(
                f"The study has a parameter {name!r}, which is missing here. {OTHER_NAME}"
            )
        if name not in old:
            raise InvalidInput(
                f"The study has no parameter {name!r}, and its trials no value of it. {OTHER_NAME}"
            )
        if not _has_grown(old[name], new[name]):
            raise InvalidInput(
                f"Parameter {name!r} of the study is {parameter_words(old[name])}, and would be "
                f"{parameter_words(new[name])}: it can become wider and get more options, and "
                f"nothing else, because its trials have to stay inside. {OTHER_NAME}"
            )
    if (before.rows is None) != (after.rows is None):
        raise InvalidInput(f"A table of rows cannot become a space, nor a space one. {OTHER_NAME}")
    for x in () if before.rows is None else before.rows:
        params = before.decode(x)
        try:
            after.encode(params)
        except InvalidInput:
            raise InvalidInput(
                f"The row {params} is missing: a table can only get more rows. {OTHER_NAME}"
            ) from None


def _has_grown(old: Parameter, new: Parameter) -> bool:
    same = type(old) is type(new) and (old.when, _scale(old)) == (new.when, _scale(new))
    if isinstance(old, Float | Int) and isinstance(new, Float | Int):
        return same and new.low <= old.low and old.high <= new.high
    if isinstance(old, Categorical) and isinstance(new, Categorical):
        return same and set(old.options) <= set(new.options)
    if isinstance(old, Ordinal) and isinstance(new, Ordinal):
        return same and old.numeric == new.numeric and set(old.values) <= set(new.values)
    return False


def _scale(parameter: Parameter) -> bool:
    return not isinstance(parameter, Categorical) and parameter.log


# ── what follows ───────────────────────────────────────────────────────────────────────────────


def carried_over(state: State, before: Settings, after: Settings) -> State:
    """A state under other settings: limits, points, and nothing remembered that does not fit."""
    check_fixed(state, before, after)
    if before.budget != after.budget:
        ended = sum(not t.is_external and t.state != "running" for t in state.history)
        counted = {
            "trials": Account(math.inf, float(ended)),
            "s": Account(math.inf, state.elapsed_s, overhead=state.overhead_s),
        }
        state = replace(state, ledger=state.ledger.limited(after.budget, counted))
    if all(getattr(before, name) == getattr(after, name) for name in LEARNT_UNDER):
        return state

    def moved(trial: Trial) -> Trial:
        notes = {key: note for key, note in trial.notes.items() if key != "memories"}
        return replace(trial, x=after.space.encode(trial.params), notes=notes)

    for each in state.queue:
        check_wanted(after.space, each.params)
    prices = tuple(
        price._replace(x=after.space.encode(before.space.decode(price.x))) for price in state.prices
    )
    return replace(state, history=History(tuple(map(moved, state.history))), prices=prices)


# ── in words ───────────────────────────────────────────────────────────────────────────────────


def difference(before: Settings, after: Settings) -> dict[str, tuple[str, str]]:
    """The settings that differ, each as it was and as it is; of a space the parameters that do."""
    found: dict[str, tuple[str, str]] = {}
    for f in fields(Settings):
        was, now = getattr(before, f.name), getattr(after, f.name)
        if was == now:
            continue
        if f.name != "space":
            found[f.name] = in_words(f.name, was), in_words(f.name, now)
            continue
        for name in dict.fromkeys((*was.parameters, *now.parameters)):
            old, new = was.parameters.get(name), now.parameters.get(name)
            if old != new:
                found[name] = parameter_words(old), parameter_words(new)
        if _rows(was) != _rows(now):
            old_rows, rows = (str(len(_rows(each) or ())) for each in (was, now))
            found["rows"] = old_rows, f"{rows} others" if rows == old_rows else rows
    return found


def _rows(space: Space) -> list[dict[str, Any]] | None:
    return None if space.rows is None else [space.decode(x) for x in space.rows]


def in_words(name: str, value: Any) -> str:
    """A setting as a person would write it."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in WORDS:
        return WORDS[name](value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _part(part: Any) -> str:
    """A policy, a rule or a cost model: its name, and what it was made with."""
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
    return "however many" if math.isinf(value) else f"{value:g}"


def _configurations(value: tuple[Mapping[str, Any], ...]) -> str:
    return "; ".join(", ".join(f"{k}={v}" for k, v in params.items()) for params in value)


WORDS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("policy", "stop", "cost"), _part),
    **dict.fromkeys(("timeout", "grace", "lease"), _seconds),
    "command": shlex.join,
    "failures_in_a_row": _count,
    "start": _configurations,
}


def parameter_words(parameter: Parameter | None) -> str:
    """A parameter as a person would describe it."""
    if parameter is None:
        return "none"
    if isinstance(parameter, Float | Int):
        said = f"{parameter.low:g} to {parameter.high:g}"
        if isinstance(parameter, Int):
            said = f"a whole number from {parameter.low} to {parameter.high}"
    else:
        values = parameter.options if isinstance(parameter, Categorical) else parameter.values
        said = ("one of " if isinstance(parameter, Categorical) else "") + ", ".join(
            str(value) for value in values
        )
    said += " on a log scale" if _scale(parameter) else ""
    if parameter.when is not None:
        said += " when " + ", ".join(f"{name} is {value}" for name, value in parameter.when.items())
    slope = getattr(parameter, "cost", None)
    return f"{said}, whose cost {slope}" if slope else said


def one_of(state: State, number: int) -> Trial:
    """The trial of that number."""
    count = len(state.history)
    if not (isinstance(number, int | np.integer) and 0 <= number < count):
        there = f"0 to {count - 1}" if count else "none yet"
        raise InvalidInput(f"There is no trial {number}: the study has {there}.")
    return state.history[int(number)]


def drop(state: State, trial: Trial, moment: Moment) -> State:
    """Forget a trial; if it was running, it was charged."""
    if trial.is_dropped:
        raise InvalidInput(f"Trial {trial.number} was dropped already.")
    return _noted(_forgotten(state, trial, moment), trial, "dropped", moment)


def repeat(state: State, trial: Trial, moment: Moment) -> State:
    """Want the parameters of a trial again."""
    if trial.state == "running":
        raise InvalidInput(f"Trial {trial.number} is running. Drop it first, or wait for its end.")
    if trial.state == "failed":
        state = _forgotten(state, trial, moment)
    elif trial.run.retry:
        state = _with(state, replace(trial, run=replace(trial.run, retry=False)))
    because = f"trial {trial.number} again, because it was asked for"
    state = replace(state, queue=(*state.queue, Wanted(dict(trial.params), because)))
    return _noted(state, trial, "to be run again", moment)


def _forgotten(state: State, trial: Trial, moment: Moment) -> State:
    """As if a trial had been lost, and nothing been remembered of it."""
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
    state = _with(state, lost)
    for later in state.history.trials[trial.number + 1 :]:
        if "memories" in later.notes:  # which may have been learnt from it
            notes = {key: note for key, note in later.notes.items() if key != "memories"}
            state = _with(state, replace(later, notes=notes))
    return state


def _noted(state: State, trial: Trial, now: str, moment: Moment) -> State:
    was = trial.state if trial.value is None else f"{trial.state} with {trial.value:.6g}"
    change = Change(moment.now, len(state.history), {f"trial {trial.number}": (was, now)})
    return replace(state, changes=(*state.changes, change))


def _with(state: State, trial: Trial) -> State:
    return replace(state, history=state.history.replacing(trial))


def enqueue(space: Space, state: State, event: Enqueued) -> State:
    """Want configurations, the first of them first."""
    queue = state.queue
    for wanted in event.wanted:
        check_wanted(space, wanted.params)
        had = (trial.notes.get("given") for trial in state.history)
        if event.once and wanted.params in (*(each.params for each in queue), *had):
            continue
        queue = (*queue, wanted)
    return replace(state, queue=queue)


def without(queue: tuple[Wanted, ...], given: Mapping[str, object] | None) -> tuple[Wanted, ...]:
    """The queue after what is given was taken from it."""
    if given is None:
        return queue
    at = next((i for i, wanted in enumerate(queue) if wanted.params == given), None)
    if at is None:
        raise Outdated("another process has taken what was wanted")
    return (*queue[:at], *queue[at + 1 :])
