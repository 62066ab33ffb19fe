"""The memory that is a database: one transaction an event, and only what changed is read.

Every change of a study has a revision, and the rows it touched have it, too. A process holds a copy
of the state and reads the rows with a later revision than the last it has seen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import ClassVar

from sqlalchemy import Connection

from farthing.budget.ledger import Ledger
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.store import Update
from farthing.errors import StorageError, Unreachable
from farthing.history import History
from farthing.storage.ask_lock import turn
from farthing.storage.database import Database
from farthing.storage.json_text import to_text
from farthing.storage.outbox import folder_of
from farthing.storage.rows import (
    Raw,
    changed_prices,
    changed_trials,
    new_changes,
    read_study,
    state_of,
    write_changes,
    write_prices,
    write_study,
    write_trials,
)
from farthing.storage.settings_text import described, restored

__all__ = ["DatabaseStore"]

JUMP = 1.0  # seconds by which two clocks may differ in their steps
AGAIN = 0.25  # seconds until a database that did not answer is asked again
BACK_OFF = (0.004, 0.25)  # seconds between looks whether a thinker elsewhere has ended
WORD_LOST = 0.25  # seconds after which it is looked at without a word: a budget may have ended


class DatabaseStore:
    """The state of one study in a database.

    Attributes:
        now: the database's clock when it was last looked at or changed.
        settings: of the study, whoever changed them.
        trust: whether what others change them to is imported, whatever it is.
        patience: seconds for which a database that does not answer is asked again.
    """

    shared: ClassVar[bool] = True
    settings: Settings

    def __init__(self, database: Database, id: int, known: int = 0, trust: bool = False) -> None:
        """`known` is how many changes the settings have in them."""
        self.trust = trust
        self._database = database
        self._id = id
        self._known = known
        self._state = State(Ledger.of(None))
        self._revision = -1  # the last that was seen
        self._seen_at = -math.inf  # on the clock of this process
        self.now = 0.0
        self.patience = 0.0
        self._ahead: float | None = None  # the database's clock, of this process's
        self._doubted = -math.inf  # when others may last have been unable to renew
        self._late = -math.inf, 0.0  # when an answer came late, and how many seconds it took

    def look(self, at_most: float = 0.0) -> State:
        """The state as it is, or as it was at most so many seconds ago."""
        return self._patiently(lambda: self._look(at_most))

    def commit(self, change: Update) -> State:
        """The state after a change; where nothing changes, nothing is written."""
        return self._patiently(lambda: self._commit(change))

    def turn(self) -> AbstractContextManager[None]:
        """Inside, no other process of this machine asks, as a rule."""
        return turn(folder_of(self._database.place, str(self._id), "turns"))

    def wait(self, waited: int) -> None:
        """Until whoever thinks has ended: PostgreSQL says so; or for a while."""
        state, database = self._state, self._database
        least, most = BACK_OFF
        if database.is_sqlite:
            time.sleep(min(least * 2.0 ** min(waited, 16), most))
            return
        left = max((state.suggester_until or 0.0) - self.now, 0.0)
        with suppress(Unreachable), database.listening(self._id) as (connection, heard):
            # It may have ended before we listened.
            row = read_study(connection, database.is_sqlite, self._id)
            if (row.thinker, row.thinker_until) == (state.suggester, state.suggester_until):
                heard(max(min(left, WORD_LOST), least))

    @property
    def calm(self) -> bool:
        """Whether leases can be believed: for as long as a worker has time to renew, the database
        has answered, its clock did not jump, and this machine did not sleep.
        """
        here, lease, (then, took) = time.monotonic(), self.settings.lease, self._late
        doubted = max(self._doubted, then) if took > lease / 3 else self._doubted
        return here - doubted > lease

    def _hear(self, now: float) -> None:
        """What the database's clock says."""
        here = time.monotonic()
        if self._ahead is not None and now - here - self._ahead > JUMP:
            self._doubted = here
        self.now, self._ahead = now, now - here

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Inside, nothing waits for a database that does not answer."""
        patience, self.patience = self.patience, 0.0
        try:
            yield
        finally:
            self.patience = patience

    def _patiently(self, act: Callable[[], State]) -> State:
        begun = time.monotonic()
        while True:
            try:
                state = act()
            except Unreachable:
                self._doubted = time.monotonic()
                if time.monotonic() - begun >= self.patience:
                    raise
                time.sleep(min(AGAIN, self.patience))
            else:
                if time.monotonic() - begun > JUMP:
                    self._late = time.monotonic(), time.monotonic() - begun
                return state

    def _look(self, at_most: float) -> State:
        database = self._database
        if time.monotonic() - self._seen_at < at_most:
            return self._state
        with database.glancing() as connection:
            row = read_study(connection, database.is_sqlite, self._id)
        self._hear(row.now)
        self._seen_at = time.monotonic()
        if row.revision != self._revision or row.trials != len(self._state.history):
            with database.reading() as connection:  # rows of one moment
                row = read_study(connection, database.is_sqlite, self._id)
                self._take_in(connection, row)
        return self._state

    def _commit(self, change: Update) -> State:
        is_sqlite, id = self._database.is_sqlite, self._id
        with self._database.writing() as connection:
            row = read_study(connection, is_sqlite, id, lock=True)
            self._take_in(connection, row)
            before = self._state
            after = change(before, self.now)
            if after == before:
                return before
            revision = row.revision + 1
            write_study(connection, id, revision, before, after)
            write_trials(connection, id, revision, before, after)
            write_prices(connection, id, revision, before, after)
            made = after.changes[len(before.changes) :]
            texts = [None if c.settings is None else _text(c.settings) for c in made]
            write_changes(connection, id, len(before.changes), zip(made, texts, strict=True))
            if before.suggester is not None and after.suggester is None:
                self._database.notify(connection, id)
        # It is committed. What came from here need not be read again.
        self._state, self._revision, self._seen_at = after, revision, time.monotonic()
        self._known = len(after.changes)
        for each in made:
            if each.settings is not None:
                self.settings = each.settings
        return after

    def _take_in(self, connection: Connection, row: Raw) -> None:
        """Read what changed since it was last seen."""
        self._hear(row.now)
        if not isinstance(row.revision, int):
            raise self._database.strange(f"a revision {row.revision!r}")
        state = self._state
        known = (len(state.history), len(state.prices), len(state.changes), state.charged_until)
        if row.revision == self._revision:
            if (row.trials, row.prices, row.changes, row.clock_at) != known:
                raise self._gone_back(row)
            return
        if row.revision < self._revision:
            raise self._gone_back(row)
        with self._database.understanding():
            self._read(connection, row)

    def _gone_back(self, row: Raw) -> StorageError:
        return StorageError(
            f"The database {self._database.shown} has gone back in time: its last change is number "
            f"{row.revision}, and this process has seen number {self._revision}. An older copy was "
            "put in its place, or a server lost what it had written. Put the newer copy back, or "
            "run again: it goes on from what is there."
        )

    def _read(self, connection: Connection, row: Raw) -> None:
        state = state_of(row, self._state)
        trials = list(state.history)
        for trial in changed_trials(connection, self._id, self._revision, row.trials):
            if not 0 <= trial.number <= len(trials):
                raise ValueError(f"a trial {trial.number} after {len(trials)} trials")
            trials[trial.number : trial.number + 1] = [trial]
        if len(trials) != row.trials:
            raise ValueError(f"{len(trials)} trials where it says that there are {row.trials}")
        history, prices, changes = History(tuple(trials)), state.prices, state.changes
        if (row.prices, row.changes) != (len(prices), len(changes)):
            prices = (*prices, *changed_prices(connection, self._id, self._revision))
            if len(prices) != row.prices:  # they were all moved, to a larger space
                prices = tuple(changed_prices(connection, self._id, since=-1))
        if row.changes > len(changes):
            found = new_changes(connection, self._id, len(changes))
            changes = (*changes, *(change for change, _ in found))
            texts = [text for _, text in found[self._known - len(changes) :] if text is not None]
            if row.changes > self._known and texts:
                self.settings = restored(texts[-1], self.settings, trust=self.trust)
            self._known = row.changes
        self._state = replace(state, history=history, prices=prices, changes=changes)
        self._revision = row.revision


def _text(settings: Settings) -> str:
    return to_text(described(settings))
