"""The studies of a database by name: make one, find one, and the settings it was made with."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import select

from farthing.errors import InvalidInput
from farthing.ledger import Ledger
from farthing.storage.database import Database, clock
from farthing.storage.rows import ledger_text
from farthing.storage.schema import studies

__all__ = ["Found", "create_study", "find_study", "names_of", "replace_settings"]


class Found(NamedTuple):
    """A study: its number in the database, and its settings as text."""

    id: int
    settings: str


BY_NAME = select(studies.c.id, studies.c.settings)


def create_study(database: Database, name: str, settings: str, ledger: Ledger) -> Found:
    """Make a study, unless the name is taken: then it is the one that has it."""
    with database.writing(lock=True) as connection:
        taken = connection.execute(BY_NAME.where(studies.c.name == name)).first()
        if taken is not None:
            return Found(*taken)
        made = connection.execute(
            studies.insert().values(
                name=name,
                settings=settings,
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
        assert made.inserted_primary_key is not None
    return Found(made.inserted_primary_key[0], settings)


def names_of(database: Database) -> list[str]:
    """The studies in a database, in the order of their making."""
    with database.reading() as connection:
        return list(connection.execute(select(studies.c.name).order_by(studies.c.id)).scalars())


def find_study(database: Database, name: str) -> Found:
    """The study of that name."""
    with database.glancing() as connection:
        found = connection.execute(BY_NAME.where(studies.c.name == name)).first()
    if found is None:
        names = names_of(database)
        there = f"It has {', '.join(map(repr, names[:5]))}." if names else "It has none."
        raise InvalidInput(
            f"There is no study {name!r} in {database.shown}. {there} Make it with Study.create."
        )
    return Found(*found)


def replace_settings(database: Database, id: int, settings: str) -> None:
    """Keep other settings with a study."""
    with database.writing() as connection:
        update = studies.update().where(studies.c.id == id)
        connection.execute(update.values(settings=settings))
