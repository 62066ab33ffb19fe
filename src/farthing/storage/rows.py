"""Read and write the rows of studies, trials, imported costs and changes."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from itertools import chain
from types import NoneType
from typing import Any, get_args

import numpy as np
from sqlalchemy import Connection, CursorResult, Row, Select, bindparam, func, select

from farthing.budget.ledger import Account, Ledger
from farthing.core.state import Change, QueueEntry, State
from farthing.errors import StorageError
from farthing.history import (
    CurvePoint,
    Origin,
    PricePoint,
    Run,
    StopKind,
    StopReason,
    Trial,
    TrialState,
)
from farthing.storage.database import clock
from farthing.storage.json_text import from_text, from_texts, storable, to_text
from farthing.storage.names import current_notes
from farthing.storage.old_sentences import kind_of_old, origin_of_old
from farthing.storage.schema import changes, curves, prices, studies, trials, version

__all__ = [
    "changed_prices",
    "changed_trials",
    "ledger_of",
    "ledger_text",
    "new_changes",
    "read_study",
    "reason_of",
    "state_of",
    "write_changes",
    "write_prices",
    "write_study",
    "write_trials",
]

Raw = Row[*tuple[Any, ...]]

# ── a study ────────────────────────────────────────────────────────────────────────────────────

# {field of a State: its column}. History, prices and changes have tables of their own, and the row
# of the study has their numbers.
STATE_COLUMNS = {  # where they differ, because earlier versions named the columns
    "charged_until": "clock_at",
    "suggester": "thinker",
    "suggester_until": "thinker_until",
    "suggest_s": "thought_s",
    "stop_requested": "halted",
    "kill_running": "halted_now",
    "overhead_s": "thinking_s",
}
STATE = {
    f.name: STATE_COLUMNS.get(f.name, f.name)
    for f in fields(State)
    if f.name not in ("history", "prices", "changes")
}
AMOUNTS = ("charged_until", "suggester_until", "suggest_s", "failures", "elapsed_s", "overhead_s")
NUMBERS = tuple(studies.c[name] for name in ("id", "revision", "trials", "prices", "changes"))
MAX_TRIALS = 1_000_000  # of a study; more would not fit into memory
KINDS = {
    "stop_requested": "halted_kind",
    "stop_reason": "stop_kind",
}  # beside the sentences
STOP_KINDS = get_args(StopKind)
COLUMNS = [*NUMBERS, *(studies.c[column] for column in (*STATE.values(), *KINDS.values()))]
UPDATE = studies.update().where(studies.c.id == bindparam("which"))


@cache
def _by_id(is_sqlite: bool, lock: bool) -> Select[Any]:
    """The query, cached because building it takes longer than executing it."""
    query = select(*COLUMNS).where(studies.c.id == bindparam("which"))
    others = (
        clock(is_sqlite).label("now"),
        select(version.c.version).scalar_subquery().label("schema"),
    )
    if lock and not is_sqlite:  # read the clock after the lock was acquired
        locked = query.with_for_update().cte("locked")
        return select(*locked.c, *others)
    return query.add_columns(*others)


def read_study(connection: Connection, is_sqlite: bool, id: int, *, lock: bool = False) -> Raw:
    """The row of a study, `now` on the database's clock, and the version of its `schema`.

    Args:
        lock: no other process can change the row until the transaction ends.
    """
    found = connection.execute(_by_id(is_sqlite, lock), {"which": id}).one_or_none()
    if found is None:
        raise StorageError(
            "The study is not in its database any more. It was deleted, or an older copy has "
            "replaced the database. Restore the newer copy, or create the study again."
        )
    return found


def state_of(row: Raw, before: State) -> State:
    """The state in the row of a study, with the trials and prices of the state before."""
    values = {name: getattr(row, column) for name, column in STATE.items()}
    if not all(n is None or isinstance(n, float | int) for n in map(values.get, AMOUNTS)):
        raise ValueError("a study with a text in a column of numbers")
    values["kill_running"] = bool(values["kill_running"])
    values |= {name: reason_of(values[name], getattr(row, kind)) for name, kind in KINDS.items()}
    values["queue"] = tuple(QueueEntry(*each) for each in from_text(values["queue"]))
    if not all(isinstance(entry.params, dict) for entry in values["queue"]):
        raise ValueError("an enqueued trial without parameters")
    return replace(before, **{**values, "ledger": ledger_of(values["ledger"])})


def reason_of(sentence: str | None, kind: StopKind | None) -> StopReason | None:
    """The stop reason in two columns. Older versions stored the sentence only."""
    if sentence is None:
        return None
    if kind is None:
        return StopReason(kind_of_old(sentence), sentence)
    if kind not in STOP_KINDS:
        raise ValueError(f"a stop reason of the kind {kind!r}")
    return StopReason(kind, sentence)


def write_study(
    connection: Connection, id: int, revision: int, before: State, after: State
) -> None:
    """Write the columns that differ, as a new revision."""
    changes: dict[str, Any] = {
        column: storable(getattr(after, name))
        for name, column in STATE.items()
        if getattr(after, name) != getattr(before, name)
    }
    if "ledger" in changes:
        changes["ledger"] = ledger_text(after.ledger)
    if "queue" in changes:
        changes["queue"] = to_text([list(entry) for entry in after.queue])
    for name, kind in KINDS.items():
        if (column := STATE[name]) in changes:
            reason: StopReason | None = changes[column]
            changes[column] = None if reason is None else storable(reason.sentence)
            changes[kind] = None if reason is None else reason.kind
    if "halted_now" in changes:
        changes["halted_now"] = int(after.kill_running)
    counts = {name: len(getattr(after, name)) for name in ("prices", "changes")}
    counts["trials"] = len(after.history)
    _check_one(connection.execute(UPDATE, {"which": id, "revision": revision, **counts, **changes}))


def _check_one(updated: CursorResult[Any]) -> None:
    """Check that an update found its row; if not, the database has been replaced."""
    if updated.rowcount != 1:
        raise StorageError(
            f"The database has {updated.rowcount} rows where this process has read one. An older "
            "copy has replaced it, or rows were deleted. Restore the newer copy, or run again to "
            "continue from this one."
        )


def ledger_text(ledger: Ledger) -> str:
    """The JSON of a ledger, which preserves its numbers exactly."""
    accounts = {
        name: [ledger[name].limit, ledger[name].spent, ledger[name].overhead] for name in ledger
    }
    return to_text({"accounts": accounts, "holds": ledger.reservations})


def ledger_of(text: str) -> Ledger:
    """The ledger of its JSON. Older versions stored the cost of the initial design as a fourth
    number, which is ignored.
    """
    stored = from_text(text)
    if any(math.isnan(n) for account in stored["accounts"].values() for n in account):
        raise ValueError("a ledger with an amount that is NaN")
    reservations = {int(number): reserved for number, reserved in stored["holds"].items()}
    accounts = {
        name: Account(
            limit,
            spent,
            math.fsum(reserved.get(name, 0.0) for reserved in reservations.values()),
            overhead,
        )
        for name, (limit, spent, overhead, *_) in stored["accounts"].items()
    }
    return Ledger(
        tuple(accounts.items()),
        tuple((number, tuple(reserved.items())) for number, reserved in reservations.items()),
    )


# ── trials ─────────────────────────────────────────────────────────────────────────────────────

TRIAL = tuple(f.name for f in fields(Trial) if f.name not in ("run", "curve", "until"))
TAIL = ("until", "points")  # of a trial, after its run; its curve has a table of its own
STATES = get_args(TrialState)
ORIGINS = get_args(Origin)
RUN = tuple(f.name for f in fields(Run) if f.name not in ("waits", "elsewhere"))
RUN_COLUMNS = {"suggest_s": "think_s", "reports": "progress"}  # where they differ
JSON_COLUMNS = frozenset(
    ("params", "x", "cost", "predicted", "notes", "reports", "metrics", "earlier")
)
NUMBER = (float, int, NoneType)
READ = tuple(trials.c[RUN_COLUMNS.get(name, name)] for name in (*TRIAL, *RUN, *TAIL))
CHANGED = (
    select(*READ)
    .where(trials.c.study == bindparam("which"), trials.c.revision > bindparam("since"))
    .order_by(trials.c.number)
    .limit(bindparam("most"))
)
CURVES = (
    select(curves.c.trial, curves.c.step, curves.c.value, curves.c.cost)
    .where(curves.c.study == bindparam("which"), curves.c.revision > bindparam("since"))
    .order_by(curves.c.trial, curves.c.step)
)
INSERT = trials.insert()
UPDATE_TRIAL = trials.update().where(
    trials.c.study == bindparam("which"), trials.c.number == bindparam("at")
)


def changed_trials(
    connection: Connection, study: int, since: int, most: int, earlier: Sequence[Trial] = ()
) -> list[Trial]:
    """The trials that changed after a revision, ordered by number.

    Args:
        most: the number of trials of the study.
        earlier: the trials at that revision. Only the newer points of their curves are read.
    """
    if not 0 <= most <= MAX_TRIALS:
        raise ValueError(f"a study with {most} trials, of which at most {MAX_TRIALS:,} can be read")
    with _garbage_collection_off():
        rows = connection.execute(CHANGED, {"which": study, "since": since, "most": most + 1}).all()
        if not rows:
            return []
        columns: dict[str, Sequence[Any]]
        columns = dict(zip((*TRIAL, *RUN, *TAIL), zip(*rows, strict=True), strict=True))
        columns |= {name: from_texts(columns[name]) for name in JSON_COLUMNS}
        _check(columns)
        columns["x"] = [np.array(x, dtype=np.float64) for x in columns["x"]]
        known = zip(columns["origin"], columns["because"], columns["notes"], strict=True)
        columns["origin"] = [origin or origin_of_old(why, notes) for origin, why, notes in known]
        columns["retry"] = list(map(bool, columns["retry"]))
        columns["notes"] = list(map(current_notes, columns["notes"]))
        columns["reports"] = [tuple(lines or ()) for lines in columns["reports"]]
        columns["metrics"] = [metrics or {} for metrics in columns["metrics"]]
        columns["since"] = [step or 0 for step in columns["since"]]
        columns["earlier"] = [cost or {} for cost in columns["earlier"]]
        found = _new_points(connection, study, since) if any(columns["points"]) else {}
        columns["points"] = [
            _curve(number, count or 0, earlier, found)
            for number, count in zip(columns["number"], columns["points"], strict=True)
        ]
        runs = [Run(*row) for row in zip(*map(columns.__getitem__, RUN), strict=True)]
        parts = zip(
            *map(columns.__getitem__, TRIAL), runs, columns["points"], columns["until"], strict=True
        )
        return [Trial(*row) for row in parts]


def _new_points(connection: Connection, study: int, since: int) -> dict[int, list[CurvePoint]]:
    """The points of curves that were added after a revision, by trial and by ascending step."""
    found: dict[int, list[CurvePoint]] = {}
    for number, step, value, cost in connection.execute(CURVES, {"which": study, "since": since}):
        if not (isinstance(step, int) and isinstance(value, float)):
            raise ValueError(f"a curve of trial {number!r} with a text in a column of numbers")
        found.setdefault(number, []).append(CurvePoint(step, value, from_text(cost)))
    return found


def _curve(
    number: int, count: int, earlier: Sequence[Trial], found: Mapping[int, list[CurvePoint]]
) -> tuple[CurvePoint, ...]:
    """The curve of a trial, from its known points and the new ones."""
    known = earlier[number].curve if number < len(earlier) else ()
    new = found.get(number, ())
    if len(known) + len(new) != count:
        got = len(known) + len(new)
        raise ValueError(f"trial {number} with {got} points, but it counts {count}")
    if known and new and new[0].step < known[-1].step:  # recovered after a loss
        return tuple(sorted((*known, *new), key=lambda point: point.step))
    return (*known, *new)


def _check(columns: Mapping[str, Sequence[Any]]) -> None:
    """Check the types of each column; a column at a time, because there may be many rows."""
    for name in ("params", "cost", "predicted", "notes"):
        _check_types(name, columns[name], dict)
    _check_types("metrics", columns["metrics"], dict, NoneType)
    for name in ("cost", "predicted"):
        _check_types(name, chain.from_iterable(map(dict.values, columns[name])), *NUMBER)
    for name in ("value", "lease", "asked_at", "told_at", "run_s"):
        _check_types(name, columns[name], *NUMBER)
    for name in ("until", "since", "turn", "points"):
        _check_types(name, columns[name], int, NoneType)
    _check_types("earlier", columns["earlier"], dict, NoneType)
    if unknown := set(columns["state"]).difference(STATES):
        raise ValueError(f"a trial with the state {min(map(repr, unknown))}")
    if unknown := set(columns["origin"]).difference(ORIGINS, [None]):
        raise ValueError(f"a trial with the origin {min(map(repr, unknown))}")


def _check_types(name: str, values: Iterable[Any], *kinds: type) -> None:
    if others := set(map(type, values)).difference(kinds):
        raise ValueError(f"a trial whose {name} is of type {others.pop().__name__}")


@contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Turn garbage collection off. It would search thousands of new objects in vain, repeatedly."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def write_trials(
    connection: Connection, study: int, revision: int, before: State, after: State
) -> None:
    """Insert the new trials, and update the changed columns of the others."""
    known = len(before.history)
    for old, new in zip(before.history, after.history, strict=False):
        if old is not new:
            was, now = _columns_of(old), _columns_of(new)
            changes = {name: now[name] for name in now if now[name] is not was[name]}
            changes = {n: v for n, v in changes.items() if n == "x" or v != was[n]}
            which = {"which": study, "at": new.number, "revision": revision}
            _check_one(connection.execute(UPDATE_TRIAL, {**_as_stored(changes), **which}))
    if len(after.history) > known:
        rows = [_as_stored(_columns_of(trial)) for trial in after.history.trials[known:]]
        connection.execute(INSERT, [{"study": study, "revision": revision, **r} for r in rows])
    _write_points(connection, study, revision, before, after)


def _write_points(
    connection: Connection, study: int, revision: int, before: State, after: State
) -> None:
    """Insert the new points of all curves."""
    known = before.history.trials
    new = [
        {
            "study": study,
            "trial": trial.number,
            "step": point.step,
            "revision": revision,
            "value": float(point.value),
            "cost": to_text(point.cost),
        }
        for number, trial in enumerate(after.history)
        if trial.curve and not (number < len(known) and known[number].curve is trial.curve)
        for point in _added(known[number].curve if number < len(known) else (), trial.curve)
    ]
    if new:
        connection.execute(curves.insert(), new)


def _added(known: Sequence[CurvePoint], curve: Sequence[CurvePoint]) -> Sequence[CurvePoint]:
    """The points of a curve that are not known. Almost always they are its last ones."""
    if not known or curve[len(known) - 1] is known[-1]:
        return curve[len(known) :]
    steps = {point.step for point in known}
    return [point for point in curve if point.step not in steps]


def _columns_of(trial: Trial) -> dict[str, Any]:
    """The columns of a trial, with structured values that are not yet JSON."""
    columns = {name: getattr(trial, name) for name in TRIAL}
    columns |= {name: getattr(trial.run, name) for name in RUN}
    columns |= {"until": trial.until, "points": len(trial.curve) or None}
    return columns | {"censored": int(trial.state == "killed"), "retry": int(trial.run.retry)}


def _as_stored(columns: Mapping[str, Any]) -> dict[str, Any]:
    stored = {
        name: to_text(value) if name in JSON_COLUMNS else storable(value)
        for name, value in columns.items()
    }
    if "reports" in stored:
        stored["reports"] = to_text(list(columns["reports"])) if columns["reports"] else None
    for name in ("metrics", "earlier"):
        if name in stored and not columns[name]:
            stored[name] = None
    if "since" in stored:
        stored["since"] = columns["since"] or None
    return {RUN_COLUMNS.get(name, name): value for name, value in stored.items()}


# ── prices ─────────────────────────────────────────────────────────────────────────────────────


def changed_prices(connection: Connection, study: int, since: int) -> list[PricePoint]:
    """The imported costs that were added after a revision."""
    query = select(prices.c.x, prices.c.cost, prices.c.at_least).order_by(prices.c.id)
    query = query.where(prices.c.study == study, prices.c.revision > since).limit(MAX_TRIALS)
    return [
        PricePoint(np.array(from_text(x)), from_text(cost), bool(at_least))
        for x, cost, at_least in connection.execute(query)
    ]


def write_prices(
    connection: Connection, study: int, revision: int, before: State, after: State
) -> None:
    """Insert the new imported costs, or all of them if their coordinates changed."""
    new = after.prices[len(before.prices) :]
    if any(old is not now for old, now in zip(before.prices, after.prices, strict=False)):
        connection.execute(prices.delete().where(prices.c.study == study))
        new = after.prices
    if not new:
        return
    rows = [
        {
            "study": study,
            "revision": revision,
            "x": to_text(price.x),
            "cost": to_text(price.cost),
            "at_least": int(price.at_least),
        }
        for price in new
    ]
    connection.execute(prices.insert(), rows)


# ── changes ────────────────────────────────────────────────────────────────────────────────────


def new_changes(connection: Connection, study: int, known: int) -> list[tuple[Change, str | None]]:
    """The changes after the first `known`, each with the text of its new settings."""
    query = select(changes.c.at, changes.c.trials, changes.c.said, changes.c.settings)
    query = query.where(changes.c.study == study, changes.c.number >= known)
    found = connection.execute(query.order_by(changes.c.number))
    return [(Change(at, count, from_text(said)), text) for at, count, said, text in found]


def write_changes(
    connection: Connection, study: int, known: int, new: Iterable[tuple[Change, str | None]]
) -> None:
    """Insert changes after the first `known`, and give the study the settings of the last."""
    for number, (change, settings) in enumerate(new, start=known):
        row = {"study": study, "number": number, "at": change.at, "trials": change.trials}
        said = to_text(change.differences)
        connection.execute(changes.insert(), {**row, "said": said, "settings": settings})
        if settings is not None:
            given = func.coalesce(studies.c.given, studies.c.settings)
            update = studies.update().where(studies.c.id == study)
            connection.execute(update.values(settings=settings, given=given))
