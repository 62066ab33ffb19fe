"""The command in its own process, and the processes that belong to it."""

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

EVERY = 0.01  # seconds between two checks


def processes_of(folder: Path) -> dict[int, int]:
    """The live processes whose working directory is the folder, with their parents.

    The current process is never included: it would stop itself and hang.
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
    """T: stopped, Z: dead and not reaped, X: does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def waits_of(pid: int) -> float:
    """Seconds that a process was ready to run and had no processor, as the kernel counts them."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def orphans(folder: Path, runner: int | None) -> list[int]:
    """The processes of a folder that do not descend from the runner.

    The processes are not read at the same moment, so an orphan must be one in two readings.
    """
    found = _orphans(folder, runner)
    return sorted(found & _orphans(folder, runner)) if found else []


def _orphans(folder: Path, runner: int | None) -> set[int]:
    parents = processes_of(folder)

    def descends(pid: int) -> bool:
        return pid == runner or (pid in parents and descends(parents[pid]))

    return {pid for pid in parents if not descends(pid)}


ALIVE = "alive"  # a file of the folder: processes that had not ended when others were killed


def note_alive(folder: Path, *, zombies: bool = False) -> None:
    """Note which processes live now. With `zombies`, those count whose end nobody has seen."""
    states = {int(name): state_of(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    found = [pid for pid, state in states.items() if state != "X" and (zombies or state != "Z")]
    with (folder / ALIVE).open("a") as file:
        file.write("".join(f"{pid}\n" for pid in found))


def kill(choose: Callable[[], list[int]], before: Callable[[], None] = lambda: None) -> int:
    """Kill processes at once: stop all of them first, so that none sees another die.

    Args:
        before: called when all are stopped.
    """
    stopped: set[int] = set()
    while new := set(choose()) - stopped:
        for pid in new:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        # A process may still be forking. If its vfork child was stopped before exec, the parent
        # waits for the child and never stops, so this loop has a limit.
        patience = time.monotonic() + 0.5
        while any(state_of(p) not in "TtZX" for p in new) and time.monotonic() < patience:
            time.sleep(0.001)
        stopped |= new
    before()
    for pid in stopped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(stopped)


def send(number: int, pids: list[int]) -> int:
    """Send a signal to each, and return their number."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return len(pids)


class Run:
    """The command in its own process.

    It is a fork of this process, because its imports take seconds. The fork calls `inside` first.
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
            os.dup2(os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
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
        """The processes of a target, if they exist. A single worker is the runner itself."""
        parents = processes_of(self.folder)
        ours = [pid for pid, parent in parents.items() if parent == self.pid]
        workers = ours if self.is_pool else [self.pid]
        supervisors = [pid for pid, parent in parents.items() if parent in workers]
        return {
            "runner": [self.pid],
            "worker": workers[:1],
            "guard": supervisors[:1],
            "runner and workers": [self.pid, *workers],
            "tree": [self.pid, *parents],
        }[target]


@contextmanager
def running(folder: Path) -> Iterator[list[Run]]:
    """A list for the runs in a folder. At the end, all of their processes are killed."""
    runs: list[Run] = []
    try:
        yield runs
    finally:
        kill(lambda: [*processes_of(folder), *(run.pid for run in runs if not run.has_ended())])
        while not all(run.has_ended() for run in runs):
            time.sleep(EVERY)
