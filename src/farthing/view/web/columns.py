"""The trials of a study as columns for a table: short texts and finite numbers only.

A column of texts has `words`, and for each trial the index of its text in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farthing.core.parts import counted_value, with_counted_value
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.history import Trial
from farthing.view.formatting import first_line
from farthing.view.primitives import visible

__all__ = ["trial_columns"]

MAX_METRICS = 40  # columns: more make no readable table
MAX_NAME, MAX_TEXT = 60, 300  # characters
LAST_OF_ERROR = 2000  # characters of an error that are searched for its last line
EXACT = 2**53  # greater integers are not exact in JavaScript


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        key: its unique name, which filters and addresses use.
        kind: "fact", "value", "metric", "cost", "expected", "param" or "hidden".
        of: the entry of a trial.
        resource: that its amounts are of; "": they are no amounts.
    """

    key: str
    kind: str
    of: Callable[[Trial], Any]
    resource: str = ""


def trial_columns(settings: Settings, state: State, numbers: Sequence[int]) -> dict[str, Any]:
    """The columns of the trials with these numbers, and the number of all trials."""
    history = state.history
    trials = [history[number] for number in numbers]
    return {
        "count": len(history),
        "numbers": list(numbers),
        "columns": [
            {"key": key, "kind": column.kind, "resource": column.resource}
            | _encoded([column.of(trial) for trial in trials])
            for key, column in _with_unique_keys(_columns(settings, state))
        ],
    }


def _columns(settings: Settings, state: State) -> Iterator[Column]:
    trials = state.history.trials
    yield Column("state", "fact", lambda trial: trial.state)
    yield Column("value", "value", lambda trial: with_counted_value(settings, trial).value)
    if any(trial.curve for trial in trials):
        yield Column("step", "fact", lambda trial: trial.step or None)
        yield Column("last value", "fact", lambda t: t.curve[-1].value if t.curve else None)
    for name in list(dict.fromkeys(m for t in trials for m in t.run.metrics))[:MAX_METRICS]:
        yield Column(name, "metric", _entry(lambda trial: trial.run.metrics, name))
    paid = [resource for resource in state.ledger if resource != "trials"]
    for r in paid:
        yield Column(f"cost.{r}", "cost", _entry(lambda trial: trial.cost, r), r)
    for r in paid:
        yield Column(f"expected.{r}", "expected", _entry(lambda trial: trial.predicted, r), r)
    for name in settings.space.names:
        yield Column(name, "param", _entry(lambda trial: trial.params, name))
    yield Column("worker", "fact", lambda trial: trial.run.worker)
    yield Column("origin", "fact", lambda trial: trial.origin)
    yield Column("why", "fact", _why)
    yield Column("ended", "hidden", lambda trial: trial.run.told_at)
    yield Column("feasible", "hidden", lambda t: int(counted_value(settings, t) is not None))


def _entry(of: Callable[[Trial], Mapping[str, Any]], name: str) -> Callable[[Trial], Any]:
    return lambda trial: of(trial).get(name)


def _with_unique_keys(columns: Iterator[Column]) -> Iterator[tuple[str, Column]]:
    """Printable keys; a parameter that has the name of another column gets a number."""
    taken = set[str]()
    for column in columns:
        key = name = visible(column.key, MAX_NAME)
        again = 2
        while key in taken:
            key, again = f"{name} {again}", again + 1
        taken.add(key)
        yield key, column


def _why(trial: Trial) -> str:
    error = first_line(trial.error[-LAST_OF_ERROR:]) if trial.error else ""
    return error or trial.because


def _encoded(values: list[Any]) -> dict[str, Any]:
    """Numbers as they are, anything else as words; None stays None."""
    plain = [_plain(value) for value in values]
    if not any(isinstance(value, str) for value in plain):
        return {"values": plain}
    places: dict[str, int] = {}
    at = [None if value is None else places.setdefault(str(value), len(places)) for value in plain]
    return {"words": list(places), "at": at}


def _plain(value: Any) -> float | str | None:
    if value is None:
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < EXACT:
        return value
    return visible(value, MAX_TEXT)
