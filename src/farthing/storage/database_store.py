"""A Store in a database: one transaction per event, and each process reads only what changed.

Every change of a study increases its revision, and the rows that it touches store that revision. A
process keeps a copy of the state and reads the rows with a later revision than its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import ClassVar

from sqlalchemy import Connection

from farthing.budget.ledger import Ledger
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.store import Update
from farthing.errors import StorageError, Superseded, Unreachable
from farthing.history import History
from farthing.storage.ask_lock import ask_lock
from farthing.storage.database import Database
from farthing.storage.json_text import to_text
from farthing.storage.outbox import state_folder
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

JUMP = 1.0  # seconds: two clocks that differ by more in one step have jumped
RETRY = 0.25  # seconds between two attempts while the database does not answer
BACK_OFF = (0.004, 0.25)  # seconds between two looks while another machine suggests


class DatabaseStore:
    """The state of one study in a database.

    Attributes:
        now: the database's clock at the last read or write.
        settings: the current settings of the study; any process may change them.
        trust: whether to import code that other processes put into the settings.
        patience: seconds for which a transaction is retried while the database does not answer.
    """

    shared: ClassVar[bool] = True
    settings: Settings

    def __init__(self, database: Database, id: int, known: int = 0, trust: bool = False) -> None:
        """`known` is the number of changes that the settings already contain."""
        self.trust = trust
        self._database = database
        self._id = id
        self._known = known
        self._state = State(Ledger.of(None))
        self._revision = -1  # of the copy of the state
        self._seen_at = -math.inf  # on the clock of this process
        self.now = 0.0
        self.patience = 0.0
        self._ahead: float | None = None  # database's clock minus the clock of this process
        self._doubted = -math.inf  # when workers may last have been unable to renew
        self._late = -math.inf, 0.0  # when an answer came late, and how many seconds it took

    def look(self, at_most: float = 0.0) -> State:
        """The state, at most that many seconds old."""
        return self._with_retries(lambda: self._look(at_most))

    def commit(self, change: Update) -> State:
        """Apply a change and return the new state. If the state stays equal, nothing is written."""
        return self._with_retries(lambda: self._commit(change))

    def ask_lock(self) -> AbstractContextManager[None]:
        """Inside, as a rule, no other process of this machine asks."""
        return ask_lock(state_folder(self._database.location, str(self._id), "ask_locks"))

    def wait(self, waited: int) -> None:
        """Sleep while a process of another machine suggests.

        Processes of one machine wait at the `ask_lock` instead. Pauses double up to 0.25 s, so that
        the end of a budget or of a suggestion is noticed soon.
        """
        least, most = BACK_OFF
        time.sleep(min(least * 2.0 ** min(waited, 16), most))

    @property
    def can_expire_leases(self) -> bool:
        """Whether an expired lease means that its worker has disappeared.

        It does if every worker had time to renew: for the length of a lease the database answered,
        its clock did not jump, and this machine did not sleep.
        """
        here, lease, (then, took) = time.monotonic(), self.settings.lease, self._late
        doubted = max(self._doubted, then) if took > lease / 3 else self._doubted
        return here - doubted > lease

    def _set_clock(self, now: float) -> None:
        """Note the time on the database's clock."""
        here = time.monotonic()
        if self._ahead is not None and now - here - self._ahead > JUMP:
            self._doubted = here
        self.now, self._ahead = now, now - here

    @contextmanager
    def without_retries(self) -> Iterator[None]:
        """Inside, a transaction fails at once if the database does not answer."""
        patience, self.patience = self.patience, 0.0
        try:
            yield
        finally:
            self.patience = patience

    def _with_retries(self, transaction: Callable[[], State]) -> State:
        started = time.monotonic()
        while True:
            try:
                state = transaction()
            except Superseded:  # waiting does not help
                raise
            except Unreachable:
                self._doubted = time.monotonic()
                if time.monotonic() - started >= self.patience:
                    raise
                time.sleep(min(RETRY, self.patience))
            else:
                if time.monotonic() - started > JUMP:
                    self._late = time.monotonic(), time.monotonic() - started
                return state

    def _look(self, at_most: float) -> State:
        database = self._database
        if time.monotonic() - self._seen_at < at_most:
            return self._state
        with database.querying() as connection:
            row = read_study(connection, database.is_sqlite, self._id)
        database.check_version(row.schema)
        self._set_clock(row.now)
        self._seen_at = time.monotonic()
        if row.revision != self._revision or row.trials != len(self._state.history):
            with database.reading() as connection:  # all rows of one revision
                row = read_study(connection, database.is_sqlite, self._id)
                self._update(connection, row)
        return self._state

    def _commit(self, change: Update) -> State:
        is_sqlite, id = self._database.is_sqlite, self._id
        with self._database.writing() as connection:
            row = read_study(connection, is_sqlite, id, lock=True)
            self._database.check_version(row.schema)
            self._update(connection, row)
            before = self._state
            after = change(before, self.now)
            if after == before:
                return before
            revision = row.revision + 1
            write_study(connection, id, revision, before, after)
            write_trials(connection, id, revision, before, after)
            write_prices(connection, id, revision, before, after)
            new = after.changes[len(before.changes) :]
            texts = [None if c.settings is None else _text(c.settings) for c in new]
            write_changes(connection, id, len(before.changes), zip(new, texts, strict=True))
        # Only now, because the transaction may fail. What this process wrote is not read again.
        self._state, self._revision, self._seen_at = after, revision, time.monotonic()
        self._known = len(after.changes)
        for each in new:
            if each.settings is not None:
                self.settings = each.settings
        return after

    def _update(self, connection: Connection, row: Raw) -> None:
        """Bring the copy of the state to the revision of the study's row."""
        self._set_clock(row.now)
        if not isinstance(row.revision, int):
            raise self._database.invalid(f"the revision {row.revision!r}")
        state = self._state
        known = (len(state.history), len(state.prices), len(state.changes), state.charged_until)
        if row.revision == self._revision:
            if (row.trials, row.prices, row.changes, row.clock_at) != known:
                raise self._older_copy(row)
            return
        if row.revision < self._revision:
            raise self._older_copy(row)
        with self._database.checking():
            self._read(connection, row)

    def _older_copy(self, row: Raw) -> StorageError:
        return StorageError(
            f"The database {self._database.shown} has gone back in time: its last change is number "
            f"{row.revision}, but this process has seen number {self._revision}. An older copy has "
            "replaced it, or its server lost changes. Restore the newer copy, or run again to "
            "continue from the older one."
        )

    def _read(self, connection: Connection, row: Raw) -> None:
        """Read the rows that are newer than the copy of the state."""
        state = state_of(row, self._state)
        trials = list(state.history)
        known = tuple(trials)
        changed = changed_trials(connection, self._id, self._revision, row.trials, known)
        for trial in changed:
            if not 0 <= trial.number <= len(trials):
                raise ValueError(f"trial {trial.number} after {len(trials)} trials")
            trials[trial.number : trial.number + 1] = [trial]
        if len(trials) != row.trials:
            raise ValueError(f"{len(trials)} trials, but the study counts {row.trials}")
        if len({trial.x.shape for trial in (*changed, *trials[:1], *trials[-1:])}) > 1:
            raise ValueError("a trial whose point is of another space than others")
        history, prices, changes = History(tuple(trials)), state.prices, state.changes
        if (row.prices, row.changes) != (len(prices), len(changes)):
            prices = (*prices, *changed_prices(connection, self._id, self._revision))
            if len(prices) != row.prices:  # all were replaced, because the space was enlarged
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
