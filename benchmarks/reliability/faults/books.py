"""Check the ledger at every commit, and the stored trials against those that ran."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.reliability.faults.processes import EVERY, processes_of, waits_of
from farthing.budget.ledger import Account
from farthing.core.state import State
from farthing.data.tabular import record
from farthing.errors import FarthingError, StorageError
from farthing.history import Trial
from farthing.storage import Database, DatabaseStore, find_study

STUDY = "faults"
PATIENCE = 120.0  # seconds after which a run counts as stuck, even on a busy machine


def imbalance(state: State) -> Iterator[str]:
    """Errors in one state: trials, reservations, spent + reserved + left = limit + overspent."""
    history, ledger = state.history, state.ledger
    numbers = [trial.number for trial in history]
    if numbers != list(range(len(history))):
        yield f"the trials are numbered {numbers}"
    running = {trial.number for trial in history if trial.state == "running"}
    if set(ledger.reservations) != running:
        yield f"{sorted(ledger.reservations)} have reservations, but {sorted(running)} run"
    for name in ledger:
        account = ledger[name]
        # Wall time passes for all trials at once: it is not the sum of their times.
        spent = paid(history, name) if name in ("worker_s", "usd") else account.spent
        whole = spent + account.reserved + account.left - account.overspent
        if not math.isclose(whole, account.limit):
            yield f"{name}: {spent} paid, {account} does not add up"


def paid(history: Iterable[Trial], resource: str) -> float:
    """The cost of the trials, and of the parts of trainings, that have ended."""
    ended = (t.run.earlier if t.state == "running" else t.cost for t in history)
    return math.fsum(cost.get(resource, 0.0) for cost in ended)


Check = Callable[[State], Iterable[str]]


@dataclass
class Auditor:
    """Reads the database while the command runs, and checks each new state.

    Attributes:
        folder: the working directory of the command; None if its processes are not observed.
        also: a further check of each state; None for no other.
        stall: seconds: the longest time that a process of the command waited for a processor
            between two states, or that a read of ours was late.
    """

    url: str
    folder: Path | None = None
    also: Check | None = None
    commits: int = 0
    faults: list[str] = field(default_factory=list)
    stall: float = 0.0
    overspend: float = 0.0  # seconds: the maximum beyond the limit
    suggestion_s: float = 0.0  # seconds: the longest suggestion, which cannot be interrupted
    _store: DatabaseStore | None = None
    _database: Database | None = None
    _seen: State | None = None
    _done: dict[int, float | None] = field(default_factory=dict)
    _accounts: dict[str, Account] = field(default_factory=dict)
    _waited: dict[int, float] = field(default_factory=dict)

    def look(self) -> State | None:
        """The last state that the database returned; None before the study exists."""
        if self._store is None:
            self._store = self._find()
            return None
        try:
            state = self._store.look()
        except StorageError:
            return self._seen
        if state is not self._seen:
            self._seen = state
            self.commits += 1
            self._observe()
            self.faults += [f"commit {self.commits}: {fault}" for fault in self._check(state)]
        return state

    def _observe(self) -> None:
        """How long the processes have waited for a processor since the last state."""
        waited = {} if self.folder is None else {p: waits_of(p) for p in processes_of(self.folder)}
        new = (seconds - self._waited.get(pid, 0.0) for pid, seconds in waited.items())
        self.stall, self._waited = max([self.stall, *new]), waited

    def _find(self) -> DatabaseStore | None:
        file = Path(self.url.removeprefix("sqlite:///"))
        if self.url.startswith("sqlite") and not file.exists():
            return None
        try:
            self._database = Database(self.url)
        except StorageError:  # the database does not answer
            return None
        try:
            return DatabaseStore(self._database, find_study(self._database, STUDY).id)
        except FarthingError:  # the study does not exist yet
            self._database.close()
            return None

    def _check(self, state: State) -> Iterator[str]:
        history, ledger = state.history, state.ledger
        yield from imbalance(state)
        yield from () if self.also is None else self.also(state)
        for name in ledger:
            account = ledger[name]
            before = self._accounts.get(name, Account(account.limit))
            if account.spent < before.spent or account.limit != before.limit:
                yield f"{name}: {before} became {account}"
            self._accounts[name] = account
            self.suggestion_s = max(self.suggestion_s, account.overhead - before.overhead)
            self.overspend = max(self.overspend, account.spent + account.reserved - account.limit)
        for number, value in self._done.items():
            if history[number].state != "done" or history[number].value != value:
                yield f"trial {number} was done ({value}) and is {history[number].state}"
        self._done = {t.number: t.value for t in history if t.state == "done"}

    def wait(self, happened: Callable[[State | None], bool], patience: float = PATIENCE) -> bool:
        """Read until `happened`. Record how late the machine lets us read."""
        deadline = time.monotonic() + patience
        while True:
            begun, is_found = time.monotonic(), self._store is not None
            if happened(self.look()):
                return True
            if begun > deadline:
                return False
            time.sleep(EVERY)
            if is_found:
                self.stall = max(self.stall, time.monotonic() - begun - EVERY)

    def rest(self, seconds: float) -> None:
        """Read for this time."""
        self.wait(lambda _: False, patience=seconds)

    def records(self) -> list[dict[str, Any]]:
        """The stored trials as dictionaries."""
        if self._store is None:
            return []
        return [record(trial) for trial in self._store.look().history]

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


@contextmanager
def auditing(url: str, folder: Path | None = None, also: Check | None = None) -> Iterator[Auditor]:
    auditor = Auditor(url, folder, also)
    try:
        yield auditor
    finally:
        auditor.close()


def compare(
    rows: list[dict[str, Any]], log: str, alive: Collection[int] = ()
) -> Iterator[tuple[str, str]]:
    """Compare the stored trials with their own log: yield (kind, sentence) for each difference.

    A trial logs its end just before its process ends. If it had ended when a worker was killed, its
    value must have been reported.

    Args:
        alive: processes that had not ended when others were killed. These were killed, too, unless
            they ended first.
    """
    lines = [line.split() for line in log.splitlines()]
    started = Counter(int(number) for word, number, _ in lines if word == "start")
    ended = Counter(int(number) for word, number, _ in lines if word == "end")
    known = {row["number"]: row for row in rows}
    for number, times in started.items():
        if number not in known:
            yield "lost", f"trial {number} ran, but is not stored"
        elif times > 1:
            yield "duplicate", f"trial {number} ran {times} times"
    for number, row in known.items():
        if row["state"] == "running":
            yield "lost", f"trial {number} is still running"
        if row["state"] == "done" and ended[number] != 1:
            yield "duplicate", f"trial {number} is done and ended {ended[number]} times"
        if row["state"] == "done" and row["value"] != row["params"]["seconds"]:
            yield "lost", f"trial {number} has the value {row['value']} of another trial"
    first = [row for row in rows if row["attempt"] == 1]
    for point, times in Counter(row["params"]["seconds"] for row in first).items():
        if times > 1:
            yield "duplicate", f"{point} was suggested {times} times"
    for word, number, pid in lines:
        row = known.get(int(number), {})
        if word == "end" and row.get("state") in ("failed", "lost") and int(pid) not in alive:
            yield "lost", f"trial {number} had ended, but is {row['state']}"
