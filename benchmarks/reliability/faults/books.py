"""Whether the books add up, at every commit, and whether the trials are those that were run."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.reliability.faults.processes import EVERY
from farthing.budget.ledger import Account
from farthing.core.state import State
from farthing.data.tabular import record
from farthing.errors import FarthingError, StorageError
from farthing.history import Trial
from farthing.storage import Database, DatabaseStore, find_study

STUDY = "faults"
PATIENCE = 120.0  # seconds after which a run is stuck, on however busy a machine


def imbalance(state: State) -> Iterator[str]:
    """What is wrong with one state: trials, holds, and spent + reserved + left = limit."""
    history, ledger = state.history, state.ledger
    numbers = [trial.number for trial in history]
    if numbers != list(range(len(history))):
        yield f"there are the trials {numbers}"
    running = {trial.number for trial in history if trial.state == "running"}
    if set(ledger.reservations) != running:
        yield f"{sorted(ledger.reservations)} hold something, {sorted(running)} run"
    for name in ledger:
        account = ledger[name]
        # Time passes for all trials together, and is not the sum of theirs.
        spent = paid(history, name) if name == "worker_s" else account.spent
        if not math.isclose(spent + account.reserved + account.left, account.limit):
            yield f"{name}: {spent} paid, {account} does not add up"


def paid(history: Iterable[Trial], resource: str) -> float:
    """What the trials that are over have cost."""
    return math.fsum(t.cost.get(resource, 0.0) for t in history if t.state != "running")


@dataclass
class Auditor:
    """Reads the database beside the command, and checks the books at every commit it sees."""

    url: str
    commits: int = 0
    faults: list[str] = field(default_factory=list)
    stall: float = 0.0  # seconds: the latest that a look was, so busy was the machine
    overspend: float = 0.0  # seconds beyond the limit, the most that was seen
    suggestion: float = 0.0  # seconds: the longest, which is not broken off
    _store: DatabaseStore | None = None
    _database: Database | None = None
    _seen: State | None = None
    _done: dict[int, float | None] = field(default_factory=dict)
    _accounts: dict[str, Account] = field(default_factory=dict)

    def look(self) -> State | None:
        """The study as it is, or was when the database last answered; None before it is made."""
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
            self.faults += [f"commit {self.commits}: {fault}" for fault in self._check(state)]
        return state

    def _find(self) -> DatabaseStore | None:
        file = Path(self.url.removeprefix("sqlite:///"))
        if self.url.startswith("sqlite") and not file.exists():
            return None
        try:
            self._database = Database(self.url)
        except StorageError:  # it does not answer
            return None
        try:
            return DatabaseStore(self._database, find_study(self._database, STUDY).id)
        except FarthingError:  # not made yet
            self._database.close()
            return None

    def _check(self, state: State) -> Iterator[str]:
        history, ledger = state.history, state.ledger
        yield from imbalance(state)
        for name in ledger:
            account = ledger[name]
            before = self._accounts.get(name, Account(account.limit))
            if account.spent < before.spent or account.limit != before.limit:
                yield f"{name}: {before} became {account}"
            self._accounts[name] = account
            self.suggestion = max(self.suggestion, account.overhead - before.overhead)
            self.overspend = max(self.overspend, account.spent + account.reserved - account.limit)
        for number, value in self._done.items():
            if history[number].state != "done" or history[number].value != value:
                yield f"trial {number} was done ({value}) and is {history[number].state}"
        self._done = {t.number: t.value for t in history if t.state == "done"}

    def wait(self, happened: Callable[[State | None], bool], patience: float = PATIENCE) -> bool:
        """Look until something has happened; how the machine keeps us waiting is noted."""
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
        """Go on looking for so long."""
        self.wait(lambda _: False, patience=seconds)

    def records(self) -> list[dict[str, Any]]:
        """Everything that is stored of the trials."""
        if self._store is None:
            return []
        return [record(trial) for trial in self._store.look().history]

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


@contextmanager
def auditing(url: str) -> Iterator[Auditor]:
    auditor = Auditor(url)
    try:
        yield auditor
    finally:
        auditor.close()


def compare(
    rows: list[dict[str, Any]], log: str, *, spared: bool = False
) -> Iterator[tuple[str, str]]:
    """What the database says of the trials and what they wrote themselves: (kind, sentence).

    Args:
        spared: no worker was killed, so each has told of all that ended.
    """
    lines = [line.split() for line in log.splitlines()]
    started = Counter(int(number) for word, number, _ in lines if word == "start")
    ended = Counter(int(number) for word, number, _ in lines if word == "end")
    known = {row["number"]: row for row in rows}
    for number, times in started.items():
        if number not in known:
            yield "lost", f"trial {number} was run, but is not there"
        elif times > 1:
            yield "duplicate", f"trial {number} was run {times} times"
    for number, row in known.items():
        if row["state"] == "running":
            yield "lost", f"trial {number} is still running"
        if row["state"] == "done" and ended[number] != 1:
            yield "duplicate", f"trial {number} is done and ended {ended[number]} times"
        if row["state"] == "done" and row["value"] != row["params"]["seconds"]:
            yield "lost", f"trial {number} has the value {row['value']} of another"
    first = [row for row in rows if row["attempt"] == 1]
    for point, times in Counter(row["params"]["seconds"] for row in first).items():
        if times > 1:
            yield "duplicate", f"{point} was suggested {times} times"
    # A worker that was killed between the end of its trial and telling of it loses that one.
    told = {number for number, row in known.items() if row["state"] == "done"}
    untold = Counter(known[number]["worker"] for number in ended.keys() & known.keys() - told)
    for worker, times in untold.items():
        if times > 1:
            yield "lost", f"worker {worker} has not told of {times} trials that ended"
    for number in ended if spared else ():
        if known.get(number, {}).get("state") == "lost":
            yield "lost", f"trial {number} has ended, its worker lives, and it was not told"
