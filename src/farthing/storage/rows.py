"""The rows of studies, trials and prices, and what they say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, Select, bindparam, func, select

from farthing.history import PricePoint, Run, Trial
from farthing.ledger import Account, Ledger
from farthing.state import State
from farthing.storage.database import clock
from farthing.storage.json_text import from_text, to_text
from farthing.storage.schema import prices, studies, trials

__all__ = [
    "changed_prices",
    "changed_trials",
    "ledger_text",
    "read_study",
    "state_of",
    "write_prices",
    "write_study",
    "write_trials",
]

Raw = Row[*tuple[Any, ...]]

# ── a study ────────────────────────────────────────────────────────────────────────────────────

# The columns of a study, and what they are called in a State; history and prices have rows of
# their own, of which the study's row has the number.
STATE = {
    f.name: "clock_at" if f.name == "charged_until" else f.name
    for f in fields(State)
    if f.name not in ("history", "prices")
}
COLUMNS = [studies.c.id, studies.c.revision, *(studies.c[column] for column in STATE.values())]
UPDATE = studies.update().where(studies.c.id == bindparam("which"))


@cache
def _by_id(is_sqlite: bool, lock: bool, durable: bool) -> Select[Any]:
    """Made once: to make a statement takes longer than to execute it."""
    query = select(*COLUMNS, clock(is_sqlite).label("now"))
    query = query.where(studies.c.id == bindparam("which"))
    if not (is_sqlite or durable):  # in the same message: until the transaction ends
        query = query.where(func.set_config("synchronous_commit", "off", True) == "off")
    return query.with_for_update() if lock else query


def read_study(
    connection: Connection, is_sqlite: bool, id: int, *, lock: bool = False, durable: bool = True
) -> Raw:
    """The row of a study, and `now` on the database's clock.

    Args:
        lock: nobody else can change it until the transaction ends.
        durable: whether what is then written must survive a crash of the server. SQLite may lose
            the last moments in a power cut either way, but never a part of a transaction.
    """
    return connection.execute(_by_id(is_sqlite, lock, durable), {"which": id}).one()


def state_of(row: Raw, before: State) -> State:
    """What the row of a study says; its trials and prices are those of the state before."""
    told = {name: getattr(row, column) for name, column in STATE.items()}
    told["halted_now"] = bool(told["halted_now"])
    return replace(before, **{**told, "ledger": _ledger_of(told["ledger"])})


def write_study(
    connection: Connection, id: int, revision: int, before: State, after: State
) -> None:
    """Store what differs, as a new revision."""
    changes: dict[str, Any] = {
        column: getattr(after, name)
        for name, column in STATE.items()
        if getattr(after, name) != getattr(before, name)
    }
    if "ledger" in changes:
        changes["ledger"] = ledger_text(after.ledger)
    if "halted_now" in changes:
        changes["halted_now"] = int(after.halted_now)
    counts = {"trials": len(after.history), "prices": len(after.prices)}
    connection.execute(UPDATE, {"which": id, "revision": revision, **counts, **changes})


def ledger_text(ledger: Ledger) -> str:
    """The ledger, exactly."""
    accounts = {
        name: [ledger[name].limit, ledger[name].spent, ledger[name].thinking] for name in ledger
    }
    return to_text({"accounts": accounts, "holds": ledger.holds})


def _ledger_of(text: str) -> Ledger:
    """The same ledger; older versions kept what the initial design cost as a fourth number."""
    stored = from_text(text)
    holds = {int(number): held for number, held in stored["holds"].items()}
    accounts = {
        name: Account(
            limit, spent, math.fsum(held.get(name, 0.0) for held in holds.values()), thinking
        )
        for name, (limit, spent, thinking, *_) in stored["accounts"].items()
    }
    return Ledger(
        tuple(accounts.items()),
        tuple((number, tuple(held.items())) for number, held in holds.items()),
    )


# ── trials ─────────────────────────────────────────────────────────────────────────────────────

TRIAL = tuple(f.name for f in fields(Trial) if f.name != "run")
RUN = tuple(f.name for f in fields(Run))
JSON_COLUMNS = frozenset(("params", "x", "cost", "predicted", "notes", "progress"))
READ = tuple(trials.c[name] for name in (*TRIAL, *RUN))
CHANGED = (
    select(*READ)
    .where(trials.c.study == bindparam("which"), trials.c.revision > bindparam("since"))
    .order_by(trials.c.number)
)
INSERT = trials.insert()
UPDATE_TRIAL = trials.update().where(
    trials.c.study == bindparam("which"), trials.c.number == bindparam("at")
)


def changed_trials(connection: Connection, study: int, since: int) -> list[Trial]:
    """The trials that changed after that revision, by number."""
    found = connection.execute(CHANGED, {"which": study, "since": since})
    return [_trial_of(row) for row in found]


def _trial_of(row: Raw) -> Trial:
    number, params, x, state, value, cost, predicted, because, error, notes, *rest = row
    run: dict[str, Any] = dict(zip(RUN, rest, strict=True))
    run["retry"] = bool(run["retry"])
    run["progress"] = () if run["progress"] is None else tuple(from_text(run["progress"]))
    return Trial(
        number,
        from_text(params),
        np.array(from_text(x)),
        state,
        value,
        from_text(cost),
        from_text(predicted),
        because,
        error,
        from_text(notes),
        Run(**run),
    )


def write_trials(
    connection: Connection, study: int, revision: int, before: State, after: State
) -> None:
    """Insert the trials that are new, and of those that changed, the columns that did."""
    known = len(before.history)
    for old, new in zip(before.history, after.history, strict=False):
        if old is not new:
            was, now = _columns_of(old), _columns_of(new)
            changes = {name: now[name] for name in now if now[name] is not was[name]}
            changes = {n: v for n, v in changes.items() if n == "x" or v != was[n]}
            which = {"which": study, "at": new.number, "revision": revision}
            connection.execute(UPDATE_TRIAL, {**_as_stored(changes), **which})
    if len(after.history) > known:
        rows = [_as_stored(_columns_of(trial)) for trial in after.history.trials[known:]]
        connection.execute(INSERT, [{"study": study, "revision": revision, **r} for r in rows])


def _columns_of(trial: Trial) -> dict[str, Any]:
    """A trial as its columns, structured values as they are."""
    columns = {name: getattr(trial, name) for name in TRIAL}
    columns |= {name: getattr(trial.run, name) for name in RUN}
    return columns | {"censored": int(trial.state == "killed"), "retry": int(trial.run.retry)}


def _as_stored(columns: Mapping[str, Any]) -> dict[str, Any]:
    stored = {
        name: to_text(value) if name in JSON_COLUMNS else value for name, value in columns.items()
    }
    if "progress" in stored:
        stored["progress"] = to_text(list(columns["progress"])) if columns["progress"] else None
    return stored


# ── prices ─────────────────────────────────────────────────────────────────────────────────────


def changed_prices(connection: Connection, study: int, since: int) -> list[PricePoint]:
    """Costs from elsewhere that came after that revision."""
    query = select(prices.c.x, prices.c.cost, prices.c.at_least).order_by(prices.c.id)
    query = query.where(prices.c.study == study, prices.c.revision > since)
    return [
        PricePoint(np.array(from_text(x)), from_text(cost), bool(at_least))
        for x, cost, at_least in connection.execute(query)
    ]


def write_prices(
    connection: Connection, study: int, revision: int, new: Iterable[PricePoint]
) -> None:
    """Insert costs from elsewhere."""
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
