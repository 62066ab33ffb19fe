"""The rows of trials: what is written at ask, at each renewal and at tell, and read by a cursor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, bindparam, select

from farthing.history import Trial
from farthing.storage.database import clock
from farthing.storage.schema import prices, trials
from farthing.storage.text import from_text, to_text

__all__ = [
    "Kept",
    "PricePoint",
    "changed_prices",
    "changed_trials",
    "expired",
    "insert_prices",
    "insert_trials",
    "records",
    "update_trial",
]

JSON_COLUMNS = ("params", "cost", "predicted", "notes", "progress")


class Kept(NamedTuple):
    """A trial, and what only the database needs to know of it."""

    trial: Trial
    leased: bool
    retry: bool
    attempt: int
    worker: str | None
    asked_at: float


class PricePoint(NamedTuple):
    """A cost from elsewhere, at a point of the cube."""

    x: NDArray[np.float64]
    cost: Mapping[str, float]


READ = (
    *(trials.c.number, trials.c.params, trials.c.x, trials.c.state, trials.c.value, trials.c.cost),
    *(trials.c.predicted, trials.c.because, trials.c.error, trials.c.notes),
    *(trials.c.lease, trials.c.retry, trials.c.attempt, trials.c.worker),
    trials.c.asked_at,
)
CHANGED = (
    select(*READ)
    .where(trials.c.study == bindparam("which"), trials.c.revision > bindparam("since"))
    .order_by(trials.c.number)
)
INSERT = trials.insert()
UPDATE = trials.update().where(
    trials.c.study == bindparam("which"), trials.c.number == bindparam("at")
)


def changed_trials(connection: Connection, study: int, since: int) -> list[Kept]:
    """The trials that changed after that revision, by number."""
    found = connection.execute(CHANGED, {"which": study, "since": since})
    return [_kept(row) for row in found]


def expired(connection: Connection, is_sqlite: bool, study: int) -> list[int]:
    """The running trials whose worker has not been heard of in time."""
    query = select(trials.c.number).where(
        trials.c.study == study, trials.c.state == "running", trials.c.lease < clock(is_sqlite)
    )
    return list(connection.execute(query.order_by(trials.c.number)).scalars())


def insert_trials(
    connection: Connection,
    study: int,
    revision: int,
    now: float,
    new: Iterable[Trial],
    **columns: Any,
) -> None:
    """New trials; `columns` are those a Trial does not have, the same for all of them."""
    rows = [
        {
            "study": study,
            "number": trial.number,
            "revision": revision,
            "state": trial.state,
            "params": to_text(trial.params),
            "x": to_text(trial.x),
            "value": trial.value,
            "cost": to_text(trial.cost),
            "censored": int(trial.state == "killed"),
            "predicted": to_text(trial.predicted),
            "because": trial.because,
            "notes": to_text(trial.notes),
            "error": trial.error,
            "seed": 0,
            "attempt": 1,
            "retry": 0,
            "worker": None,
            "lease": None,
            "asked_at": now,
            "told_at": None if trial.state == "running" else now,
            "think_s": 0.0,
            **columns,
        }
        for trial in new
    ]
    connection.execute(INSERT, rows)


def update_trial(
    connection: Connection, study: int, number: int, revision: int, **columns: Any
) -> None:
    """Change some columns of a trial."""
    values = {
        name: to_text(value) if name in JSON_COLUMNS and value is not None else value
        for name, value in columns.items()
    }
    which = {"which": study, "at": number}
    connection.execute(UPDATE, {"revision": revision, **values, **which})


def insert_prices(
    connection: Connection, study: int, revision: int, new: Iterable[PricePoint]
) -> None:
    """Costs from elsewhere."""
    rows = [
        {"study": study, "revision": revision, "x": to_text(p.x), "cost": to_text(p.cost)}
        for p in new
    ]
    connection.execute(prices.insert(), rows)


def changed_prices(connection: Connection, study: int, since: int) -> list[PricePoint]:
    """Costs from elsewhere that came after that revision."""
    query = select(prices.c.x, prices.c.cost).order_by(prices.c.id)
    query = query.where(prices.c.study == study, prices.c.revision > since)
    return [
        PricePoint(np.array(from_text(x)), from_text(cost)) for x, cost in connection.execute(query)
    ]


def records(connection: Connection, study: int) -> list[dict[str, Any]]:
    """Every column of every trial, as plain values."""
    query = select(trials).where(trials.c.study == study).order_by(trials.c.number)
    hidden = ("study", "revision", "x")
    return [
        {
            name: from_text(value) if name in JSON_COLUMNS and value is not None else value
            for name, value in row._mapping.items()
            if name not in hidden
        }
        for row in connection.execute(query)
    ]


def _kept(row: Row[*tuple[Any, ...]]) -> Kept:
    number, params, x, state, value, cost, predicted, because, error, notes, *rest = row
    lease, retry, attempt, worker, asked_at = rest
    trial = Trial(
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
    )
    leased = state == "running" and lease is not None
    return Kept(trial, leased, bool(retry), attempt, worker, asked_at)
