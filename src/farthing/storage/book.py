"""The row of a study: its ledger, its clock, who thinks, and whether it may go on.

Wall clock time, the resource `s`, is charged while the study is being worked on: with four workers
an hour is still an hour, and nothing is charged while nobody works. Every worker knows for how long
it has been there since it last wrote to the book, on its own clock. The book knows, on the
database's clock, until when time has been charged. At each event of a worker

    charged  =  min(now - charged until,  how long this worker has been there)

so time that two workers spent together is charged once, time in which nobody was there is charged
to nobody, and what a worker did between its last event and its death is forgiven. No clocks of two
machines are ever compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select

from farthing.errors import InvalidInput
from farthing.ledger import Account, Ledger
from farthing.storage.database import Database, clock
from farthing.storage.schema import studies
from farthing.storage.text import from_text, to_text

__all__ = ["Book", "create_book", "find_book", "names_of", "read_book", "write_book"]


@dataclass(frozen=True)
class Book:
    """A study at one revision; columns as in `schema`.

    Attributes:
        now: the database's clock when this was read.
    """

    id: int
    settings: str
    revision: int
    trials: int
    prices: int
    ledger: Ledger
    clock_at: float | None
    thinker: str | None
    thinker_until: float | None
    thought_s: float
    failures: int
    first_error: str | None
    halted: str | None
    halted_now: int
    stop_reason: str | None
    now: float

    def elapsed(self, present: float | None, *, thought: float = 0.0, start: bool = False) -> Book:
        """After the wall clock time that a worker was there for is charged.

        Args:
            present: for how many seconds it has been there since its last event; None: it is not
                on the clock, and only its thinking is charged.
            thought: how many of these seconds it was thinking.
            start: whether the time belongs to the initial design.
        """
        if "s" not in self.ledger:
            return self
        if present is None:
            return replace(self, ledger=self.ledger.pay({"s": thought}, thought=thought))
        since = math.inf if self.clock_at is None else max(self.now - self.clock_at, 0.0)
        gained = min(since, present)
        until = self.now if self.clock_at is None else max(self.now, self.clock_at)
        # Part of a thought may have been charged by others meanwhile, as time like any other.
        paid = self.ledger.pay({"s": gained}, thought=min(thought, gained), start=start)
        return replace(self, ledger=paid, clock_at=until)

    def is_thinking(self, other_than: str) -> bool:
        """Whether somebody else is thinking, and should be alive."""
        until = self.thinker_until
        return self.thinker not in (None, other_than) and until is not None and self.now < until


COLUMNS = [column for column in studies.c if column.name in Book.__dataclass_fields__]


def create_book(database: Database, name: str, settings: str, ledger: Ledger) -> bool:
    """Make a study; False if the name is taken."""
    with database.writing(lock=True) as connection:
        taken = connection.execute(select(studies.c.id).where(studies.c.name == name)).first()
        if taken is None:
            connection.execute(
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
    return taken is None


def names_of(database: Database) -> list[str]:
    """The studies in a database, in the order of their making."""
    with database.reading() as connection:
        return list(connection.execute(select(studies.c.name).order_by(studies.c.id)).scalars())


def find_book(database: Database, name: str) -> Book:
    """The study of that name."""
    with database.reading() as connection:
        found = connection.execute(
            select(*COLUMNS, clock(database.is_sqlite).label("now")).where(studies.c.name == name)
        ).first()
    if found is None:
        names = names_of(database)
        there = f"It has {', '.join(map(repr, names[:5]))}." if names else "It has none."
        raise InvalidInput(
            f"There is no study {name!r} in {database.shown}. {there} Make it with Study.create."
        )
    return _book(found._asdict())


def read_book(
    connection: Connection, is_sqlite: bool, id: int, *, lock: bool = False, durable: bool = True
) -> Book:
    """The study as it is.

    Args:
        lock: nobody else can change it until the transaction ends.
        durable: whether what is then written must survive a crash of the server. SQLite may lose
            the last moments in a power cut either way, but never a part of a transaction.
    """
    row = connection.execute(_by_id(is_sqlite, lock, durable), {"which": id}).one()
    return _book(row._asdict())


@cache
def _by_id(is_sqlite: bool, lock: bool, durable: bool) -> Select[Any]:
    """Made once: to make a statement takes longer than to execute it."""
    query = select(*COLUMNS, clock(is_sqlite).label("now"))
    query = query.where(studies.c.id == bindparam("which"))
    if not (is_sqlite or durable):  # in the same message: until the transaction ends
        query = query.where(func.set_config("synchronous_commit", "off", True) == "off")
    return query.with_for_update() if lock else query


UPDATE = studies.update().where(studies.c.id == bindparam("which"))


def write_book(connection: Connection, before: Book, after: Book) -> Book:
    """Store what differs, as a new revision."""
    after = replace(after, revision=before.revision + 1)
    changes: dict[str, Any] = {
        name: getattr(after, name)
        for name in Book.__dataclass_fields__
        if name != "now" and getattr(after, name) != getattr(before, name)
    }
    if "ledger" in changes:
        changes["ledger"] = ledger_text(after.ledger)
    connection.execute(UPDATE, {"which": before.id, **changes})
    return after


def _book(row: Mapping[str, Any]) -> Book:
    return Book(**{**row, "ledger": ledger_from_text(row["ledger"])})


def ledger_text(ledger: Ledger) -> str:
    """The ledger, exactly."""
    accounts = {
        name: [ledger[name].limit, ledger[name].spent, ledger[name].thinking, ledger[name].start]
        for name in ledger
    }
    return to_text({"accounts": accounts, "holds": ledger.holds})


def ledger_from_text(text: str) -> Ledger:
    """The same ledger."""
    stored = from_text(text)
    holds = {int(number): held for number, held in stored["holds"].items()}
    accounts = {
        name: Account(
            limit,
            spent,
            math.fsum(held.get(name, 0.0) for held in holds.values()),
            thinking,
            start,
        )
        for name, (limit, spent, thinking, start) in stored["accounts"].items()
    }
    return Ledger(
        tuple(accounts.items()),
        tuple((number, tuple(held.items())) for number, held in holds.items()),
    )
