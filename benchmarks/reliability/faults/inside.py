"""Faults inside the command's own processes, prepared after the fork and before it starts.

Nothing of this is in `src`: functions are replaced in this process and in its forks.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from sqlalchemy import Double, Engine, bindparam, event

from benchmarks.reliability.faults.books import imbalance
from benchmarks.reliability.faults.plan import Injection
from benchmarks.reliability.faults.processes import note_alive
from farthing.core.events import Asked, AskedAgain, AskedTogether, Renewed, Told
from farthing.core.session import Session
from farthing.core.state import State
from farthing.storage import DatabaseStore, database, rows, studies

VERBS = {"ask": (Asked, AskedAgain, AskedTogether), "renew": (Renewed,), "tell": (Told,)}
STRUCK, COMMITS, UNBALANCED, CLOCK = "struck", "commits", "unbalanced", "clock"  # files


def audit_commits(folder: Path) -> None:
    """Check every committed state. One file lists the errors, another counts the commits."""
    commit = DatabaseStore._commit

    def audited(self: DatabaseStore, change: Any) -> State:
        before = self._revision
        after = commit(self, change)
        if self._revision != before:
            _append(folder / COMMITS, ".")
            for fault in imbalance(after):
                _append(folder / UNBALANCED, f"revision {self._revision}: {fault}\n")
        return after

    DatabaseStore._commit = audited  # type: ignore[method-assign]


def _append(file: Path, text: str) -> None:
    with file.open("a") as out:
        out.write(text)


def strike_inside(folder: Path, injection: Injection) -> None:
    """Prepare this process for the kind of the injection."""
    if injection.kind == "between":
        die_between(folder, injection)
    elif injection.kind == "jump":
        let_the_clock_jump(folder)
    elif injection.kind == "lock":
        database.PATIENCE = injection.more["patience"]
    elif injection.target == "of the worker":
        os.environ["TMPDIR"] = os.environ["XDG_STATE_HOME"] = str(folder / "small")


def die_between(folder: Path, injection: Injection) -> None:
    """Kill this process before statement `gap` of its ask, renewal or tell number `after`.

    If there are fewer statements, kill it after the commit and before the call returns.
    """
    events, gap = VERBS[injection.target], injection.more["gap"]
    done, position, is_inside = 0, 0, False
    commit = Session.commit

    def die(what: str) -> None:
        try:
            file = os.open(folder / STRUCK, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:  # another process was killed already
            return
        note_alive(folder)
        os.write(file, f"{injection.target}: before {' '.join(what.split())[:60]}".encode())
        os.kill(os.getpid(), signal.SIGKILL)

    def before(what: str) -> None:
        nonlocal position
        if is_inside and done == injection.more["after"]:
            if position == gap:
                die(what)
            position += 1

    def watched(self: Session, event: Any, **how: Any) -> State:
        nonlocal done, position, is_inside
        is_inside, position = isinstance(event, events), 0
        try:
            state = commit(self, event, **how)
            if is_inside and done == injection.more["after"]:
                die("the answer")
            done += is_inside
            return state
        finally:
            is_inside = False

    @event.listens_for(Engine, "before_cursor_execute")
    def execute(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        before(statement)

    @event.listens_for(Engine, "commit")
    def commits(connection: Any) -> None:
        before("COMMIT")

    Session.commit = watched  # type: ignore[method-assign]


def let_the_clock_jump(folder: Path) -> None:
    """Let the database's clock be ahead by the seconds in a file."""
    real, file = database.clock, folder / CLOCK

    def ahead() -> float:
        return float(file.read_text()) if file.exists() else 0.0

    def jumping(is_sqlite: bool) -> Any:
        return real(is_sqlite) + bindparam(None, callable_=ahead, type_=Double)

    rows.clock = studies.clock = jumping  # type: ignore[assignment, attr-defined]
    rows._by_id.cache_clear()
