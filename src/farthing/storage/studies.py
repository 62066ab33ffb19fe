"""Create, find, list, rename and delete the studies of a database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from sqlalchemy import func, literal, select

from farthing.budget.ledger import Ledger
from farthing.errors import InvalidInput
from farthing.storage.database import Database, clock
from farthing.storage.rows import ledger_of, ledger_text, reason_of
from farthing.storage.schema import changes, curves, prices, studies, trials
from farthing.storage.settings_text import from_described

__all__ = [
    "Found",
    "check_name",
    "create_study",
    "delete_study",
    "find_study",
    "logs_folder",
    "move_logs",
    "names_of",
    "overview",
    "rename_study",
    "save_given",
]


class Found(NamedTuple):
    """A study in a database.

    Attributes:
        id: its number in the database.
        settings: its current settings as text.
        changes: the number of changes that these settings contain.
        given: the settings that `Study.create` was last called with; None if they never changed.
    """

    id: int
    settings: str
    changes: int = 0
    given: str | None = None


BY_NAME = select(studies.c.id, studies.c.settings, studies.c.changes, studies.c.given)


def check_name(name: object) -> None:
    """Refuse a name that no database can store."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(f"name={name!r}: expected a name for the study, such as 'svm'.")
    # A byte of the command line that cannot be decoded becomes a lone surrogate.
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise InvalidInput(
            f"name={name!r}: expected text in UTF-8, without NUL. Choose another name."
        )


def create_study(
    database: Database, name: str, settings: str, ledger: Ledger, given: str | None = None
) -> Found:
    """Create a study, or find the one that has this name.

    Args:
        given: the settings that the caller gives; None: `settings`.
    """
    given = given or settings
    with database.writing(lock=True) as connection:
        taken = connection.execute(BY_NAME.where(studies.c.name == name)).first()
        if taken is not None:
            return Found(*taken)
        created = connection.execute(
            studies.insert().values(
                name=name,
                settings=settings,
                given=given,
                created_at=clock(database.is_sqlite),
                revision=0,
                trials=0,
                prices=0,
                ledger=ledger_text(ledger),
                thought_s=0.0,
                failures=0,
                halted_now=0,
            )
        )
        assert created.inserted_primary_key is not None
    return Found(created.inserted_primary_key[0], settings, 0, given)


def names_of(database: Database) -> list[str]:
    """The names of the studies in a database, in order of creation."""
    with database.reading() as connection:
        return list(connection.execute(select(studies.c.name).order_by(studies.c.id)).scalars())


def find_study(database: Database, name: str) -> Found:
    """The study of that name.

    Raises:
        InvalidInput: there is none.
    """
    check_name(name)
    with database.querying() as connection:
        found = connection.execute(BY_NAME.where(studies.c.name == name)).first()
    if found is None:
        names = names_of(database)
        there = f"It has {', '.join(map(repr, names[:5]))}." if names else "It has no studies."
        raise InvalidInput(
            f"There is no study {name!r} in {database.shown}. {there} Give the name of an existing "
            "study, or create this one first."
        )
    return Found(*found)


def save_given(database: Database, id: int, settings: str) -> None:
    """Store the settings that `Study.create` got, to see what its next call changes."""
    with database.writing() as connection:
        update = studies.update().where(studies.c.id == id)
        connection.execute(update.values(given=settings))


def rename_study(database: Database, id: int, name: str) -> None:
    """Rename a study."""
    check_name(name)
    with database.writing(lock=True) as connection:
        if connection.execute(BY_NAME.where(studies.c.name == name)).first() is not None:
            raise InvalidInput(
                f"There is already a study {name!r} in {database.shown}. Choose another name."
            )
        update = studies.update().where(studies.c.id == id)
        connection.execute(update.values(name=name))


def logs_folder(database: Database, name: str, given: str | Path | None) -> Path:
    """The folder for the logs of a study, by default beside the database."""
    beside = database.url.database if database.is_sqlite else "farthing"
    folder = Path(given or f"{beside}-logs")
    # The name of a study may contain characters that a path must not.
    quoted = quote(name, safe=" ")
    return (folder / (quoted if quoted.strip(".") else f"study{quoted}")).absolute()


def move_logs(database: Database, id: int, before: Path, now: Path) -> None:
    """Move the logs of a study to another folder, and change the paths in its rows.

    A later study with the old name would overwrite them. If they cannot be moved, they stay.
    """
    try:
        before.rename(now)
    except OSError:  # there are no logs here, or the new folder exists
        return
    within = trials.c.log.startswith(f"{before}/", autoescape=True)
    moved = literal(str(now)).concat(func.substr(trials.c.log, len(str(before)) + 1))
    with database.writing(lock=True) as connection:
        connection.execute(trials.update().where(trials.c.study == id, within).values(log=moved))


def delete_study(database: Database, id: int) -> None:
    """Delete a study with its trials, costs and changes."""
    with database.writing(lock=True) as connection:
        for table in (curves, trials, prices, changes):
            connection.execute(table.delete().where(table.c.study == id))
        connection.execute(studies.delete().where(studies.c.id == id))


def overview(database: Database) -> list[dict[str, Any]]:
    """The studies in a database in order of creation, as plain values and a ledger."""
    columns = (
        *("id", "name", "created_at", "settings", "ledger"),
        *("halted", "halted_kind", "stop_reason", "stop_kind"),
    )
    extremes = func.min(trials.c.value), func.max(trials.c.value)
    by_state = select(trials.c.study, trials.c.state, func.count(), *extremes)
    by_state = by_state.group_by(trials.c.study, trials.c.state)
    with database.reading() as connection:
        query = select(*(studies.c[name] for name in columns)).order_by(studies.c.id)
        rows = [row._asdict() for row in connection.execute(query)]
        counts: dict[int, dict[str, int]] = {row["id"]: {} for row in rows}
        values: dict[int, dict[str, tuple[float, float]]] = {row["id"]: {} for row in rows}
        for study, state, count, least, most in connection.execute(by_state):
            if study not in counts:
                raise database.invalid(f"trials of a study {study!r} that does not exist")
            counts[study][state] = count
            if least is not None:
                values[study][state] = least, most
    with database.checking():
        return [_facts(row, counts[row["id"]], values[row["id"]]) for row in rows]


def _facts(
    row: Mapping[str, Any],
    counts: Mapping[str, int],
    values: Mapping[str, tuple[float, float]],
) -> dict[str, Any]:
    settings = from_described(row["settings"])
    maximizes, steps = settings["direction"] == "maximize", settings["steps"]
    # Of a paused training, the best checkpoint counts.
    states = ("done", "paused") if steps is not None and steps["value"] == "best" else ("done",)
    extremes = [values[state][maximizes] for state in states if state in values]
    reason = reason_of(row["stop_reason"], row["stop_kind"])
    reason = reason or reason_of(row["halted"], row["halted_kind"])
    return {
        "name": row["name"],
        "created_at": float(row["created_at"]),
        "trials": counts,
        "best": (max if maximizes else min)(extremes, default=None),
        "ledger": ledger_of(row["ledger"]),
        "ended": None if reason is None else reason.sentence,
        "stop_kind": None if reason is None else reason.kind,
    }
