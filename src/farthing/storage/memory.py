"""The memory that is a database: one transaction an event, and only what changed is read.

Every change of a study has a revision, and the rows it touched have it, too. A process holds a copy
of the state and reads the rows with a later revision than the last it has seen.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import ClassVar

from sqlalchemy import Connection

from farthing.history import History
from farthing.ledger import Ledger
from farthing.memory import Change
from farthing.state import State
from farthing.storage.database import Database
from farthing.storage.rows import (
    Raw,
    changed_prices,
    changed_trials,
    read_study,
    state_of,
    write_prices,
    write_study,
    write_trials,
)

__all__ = ["DatabaseMemory"]


class DatabaseMemory:
    """The state of one study in a database.

    Attributes:
        now: the database's clock when it was last looked at or changed.
    """

    shared: ClassVar[bool] = True

    def __init__(self, database: Database, id: int) -> None:
        self._database = database
        self._id = id
        self._state = State(Ledger.of(None))
        self._revision = -1  # the last that was seen
        self._seen_at = -math.inf  # on the clock of this process
        self.now = 0.0

    def look(self, at_most: float = 0.0) -> State:
        """The state as it is, or as it was at most so many seconds ago."""
        database = self._database
        if time.monotonic() - self._seen_at < at_most:
            return self._state
        with database.glancing() as connection:
            row = read_study(connection, database.is_sqlite, self._id)
        self.now, self._seen_at = row.now, time.monotonic()
        if row.revision != self._revision:
            with database.reading() as connection:  # rows of one moment
                row = read_study(connection, database.is_sqlite, self._id)
                self._take_in(connection, row)
        return self._state

    def commit(self, change: Change, *, durable: bool = True) -> State:
        """The state after a change; where nothing changes, nothing is written."""
        is_sqlite, id = self._database.is_sqlite, self._id
        with self._database.writing() as connection:
            row = read_study(connection, is_sqlite, id, lock=True, durable=durable)
            self._take_in(connection, row)
            before = self._state
            after = change(before, self.now)
            if after == before:
                return before
            revision = row.revision + 1
            write_study(connection, id, revision, before, after)
            write_trials(connection, id, revision, before, after)
            if new := after.prices[len(before.prices) :]:
                write_prices(connection, id, revision, new)
        # It is committed. What came from here need not be read again.
        self._state, self._revision, self._seen_at = after, revision, time.monotonic()
        return after

    def _take_in(self, connection: Connection, row: Raw) -> None:
        """Read what changed since it was last seen."""
        self.now = row.now
        if row.revision == self._revision:
            return
        state = state_of(row, self._state)
        trials = list(state.history)
        for trial in changed_trials(connection, self._id, self._revision):
            trials[trial.number : trial.number + 1] = [trial]
        new = changed_prices(connection, self._id, self._revision)
        history, prices = History(tuple(trials)), (*state.prices, *new)
        self._state = replace(state, history=history, prices=prices)
        self._revision = row.revision
