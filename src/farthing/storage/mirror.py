"""A process's copy of a study, kept up to date by reading only what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from farthing.history import History, Trial
from farthing.storage.book import Book, read_book, write_book
from farthing.storage.database import Database
from farthing.storage.rows import (
    Kept,
    PricePoint,
    changed_prices,
    changed_trials,
    insert_prices,
    insert_trials,
    update_trial,
)

__all__ = ["Change", "Mirror"]

TRIAL_FIELDS = ("state", "value", "cost", "error")  # that change after it was asked


class Change:
    """One transaction: what it does to the book and to the trials has the same revision.

    Attributes:
        before: the book as it was found.
        book: as it shall be; replaced by whoever changes it.
        kept: the trials that changed, as they are now.
        unfinished: the trials that were running or lost.
    """

    def __init__(self, connection: Connection, mirror: Mirror) -> None:
        self.connection = connection
        self.before = mirror.book
        self.book = mirror.book
        self.kept: dict[int, Kept] = {}
        self.unfinished = mirror.unfinished

    @property
    def revision(self) -> int:
        """Of everything that changes here."""
        return self.before.revision + 1

    def insert(self, trials: Sequence[Trial], **columns: Any) -> None:
        """New trials; `columns` are those a Trial does not have."""
        study, now = self.before.id, self.before.now
        insert_trials(self.connection, study, self.revision, now, trials, **columns)
        attempt, worker = columns.get("attempt", 1), columns.get("worker")
        leased = columns.get("lease") is not None
        for trial in trials:
            self.kept[trial.number] = Kept(trial, leased, False, attempt, worker, now)

    def update(self, number: int, **columns: Any) -> None:
        """Some columns of a trial that is running or lost."""
        update_trial(self.connection, self.before.id, number, self.revision, **columns)
        kept = self.kept.get(number) or self.unfinished[number]
        told = {name: columns[name] for name in TRIAL_FIELDS if name in columns}
        self.kept[number] = kept._replace(
            trial=replace(kept.trial, **told),
            leased=columns["lease"] is not None if "lease" in columns else kept.leased,
            retry=bool(columns.get("retry", kept.retry)),
        )

    def insert_prices(self, points: Iterable[PricePoint]) -> None:
        """Costs from elsewhere; they are read again with whatever comes next."""
        insert_prices(self.connection, self.before.id, self.revision, points)


class Mirror:
    """The book and the trials as they were when last looked at.

    Attributes:
        unfinished: the trials that are running or lost, with what the database knows of them.
        prices: costs from elsewhere.
    """

    def __init__(self, database: Database, book: Book) -> None:
        self.database = database
        self.book = book
        self.unfinished: dict[int, Kept] = {}
        self.prices: list[PricePoint] = []
        self._trials: list[Trial] = []
        self._history: History | None = None
        self._seen = -1

    @property
    def history(self) -> History:
        """All trials."""
        if self._history is None:
            self._history = History(tuple(self._trials))
        return self._history

    def look(self) -> None:
        """Take in what changed."""
        with self.database.glancing() as connection:
            self.book = read_book(connection, self.database.is_sqlite, self.book.id)
        if self.book.revision == self._seen:
            return
        with self.database.reading() as connection:
            self._take_in(connection, read_book(connection, self.database.is_sqlite, self.book.id))

    @contextmanager
    def changing(self, *, durable: bool = True) -> Iterator[Change]:
        """A transaction on the study as it is now; where nothing changes, nothing is written."""
        here = self.database.is_sqlite, self.book.id
        with self.database.writing() as connection:
            book = read_book(connection, *here, lock=True, durable=durable)
            self._take_in(connection, book)
            change = Change(connection, self)
            yield change
            if not change.kept and change.book == book:
                return
            after = write_book(connection, book, change.book)
        # It is committed. What came from here need not be read again.
        self.book = after
        if after.prices == len(self.prices):
            for kept in change.kept.values():
                self._keep(kept)
            self._seen = after.revision

    def _take_in(self, connection: Connection, book: Book) -> None:
        self.book = book
        if book.revision == self._seen:
            return
        for kept in changed_trials(connection, book.id, self._seen):
            self._keep(kept)
        if book.prices > len(self.prices):
            self.prices += changed_prices(connection, book.id, self._seen)
        self._seen = book.revision

    def _keep(self, kept: Kept) -> None:
        number = kept.trial.number
        if number == len(self._trials):
            self._trials.append(kept.trial)
        else:
            self._trials[number] = kept.trial
        self.unfinished.pop(number, None)
        if kept.trial.state in ("running", "lost"):
            self.unfinished[number] = kept
        self._history = None
