"""The command in a process of its own, and everything that belongs to it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from farthing.cli import main as farthing

EVERY = 0.01  # seconds between two looks


def processes_of(folder: Path) -> dict[int, int]:
    """The processes that work in a folder, and their parents; the dead are in no folder.

    This one is not among them, wherever it is: it would stop itself, and hang.
    """
    found = {}
    others = set(os.listdir("/proc")) - {str(os.getpid())}
    for name in others:
        with suppress(OSError, ValueError):
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(folder):
                stat = Path(f"/proc/{name}/stat").read_text()
                found[int(name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def state_of(pid: int) -> str:
    """T: stopped, Z: dead and not waited for, X: gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def orphans(folder: Path, runner: int | None) -> list[int]:
    """The processes of a folder that do not descend from the runner.

    Not all are looked at in the same moment: what seems an orphan must seem so twice.
    """
    found = _orphans(folder, runner)
    return sorted(found & _orphans(folder, runner)) if found else []


def _orphans(folder: Path, runner: int | None) -> set[int]:
    parents = processes_of(folder)

    def descends(pid: int) -> bool:
        return pid == runner or (pid in parents and descends(parents[pid]))

    return {pid for pid in parents if not descends(pid)}


def kill(choose: Callable[[], list[int]]) -> int:
    """Kill processes all at once: they are stopped first, so that none sees another die."""
    stopped: set[int] = set()
    while new := set(choose()) - stopped:
        for pid in new:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        # It may still be forking. A parent whose vfork was stopped before it could exec waits for
        # it and never stops itself: not for ever, then.
        patience = time.monotonic() + 0.5
        while any(state_of(p) not in "TtZX" for p in new) and time.monotonic() < patience:
            time.sleep(0.001)
        stopped |= new
    for pid in stopped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(stopped)


def send(number: int, pids: list[int]) -> int:
    """A signal to each; how many there are."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return len(pids)


class Run:
    """The command in a process of its own.

    It is a fork of this one, because its imports take seconds, and `inside` is called in it first.
    """

    def __init__(
        self,
        folder: Path,
        arguments: list[str],
        *,
        workers: int = 2,
        inside: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder, self.is_pool = folder, workers > 1
        self.code: int | None = None
        self.begun, self.took = time.monotonic(), 0.0
        self.pid = os.fork()
        if self.pid == 0:
            self._become(arguments, inside)

    def _become(self, arguments: list[str], inside: Callable[[], None]) -> NoReturn:
        try:
            os.setsid()
            os.chdir(self.folder)
            os.environ["XDG_STATE_HOME"] = str(self.folder / "state")
            os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
            os.dup2(1, 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            sys.argv = ["farthing", *arguments]
            inside()
            farthing()
        except SystemExit as ended:
            sys.stdout.flush()
            os._exit(int(ended.code or 0))
        finally:
            os._exit(99)

    def has_ended(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                self.took = time.monotonic() - self.begun
        return self.code is not None

    def of(self, target: str) -> list[int]:
        """The processes of a target; none if it is not there yet. One worker is the runner."""
        parents = processes_of(self.folder)
        ours = [pid for pid, parent in parents.items() if parent == self.pid]
        workers = ours if self.is_pool else [self.pid]
        guards = [pid for pid, parent in parents.items() if parent in workers]
        return {
            "runner": [self.pid],
            "worker": workers[:1],
            "guard": guards[:1],
            "runner and workers": [self.pid, *workers],
            "tree": [self.pid, *parents],
        }[target]


@contextmanager
def running(folder: Path) -> Iterator[list[Run]]:
    """A list for the runs in a folder; whatever happens, no process stays behind."""
    runs: list[Run] = []
    try:
        yield runs
    finally:
        kill(lambda: [*processes_of(folder), *(run.pid for run in runs if not run.has_ended())])
        while not all(run.has_ended() for run in runs):
            time.sleep(EVERY)
