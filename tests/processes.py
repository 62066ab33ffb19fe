"""Observe real processes: whether they are alive, and wait for events in them."""

import gc
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

# Seconds to wait for an event. Even on a busy machine, only a broken test takes this long. It is
# less than the limit in pyproject.toml, which would end the process and its remaining tests.
PATIENCE = 200.0
# Seconds that no test waits for. A test that did would exceed the limit in pyproject.toml.
FOREVER = 1800.0
AGAIN = 10.0  # seconds


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def is_reaped(pid: int) -> bool:
    """Whether a process has ended and its parent has waited for it."""
    return not Path(f"/proc/{pid}").exists()


def holds_a_lock_on(file: Path, pid: int | None = None) -> bool:
    """Whether a process (by default this one) has a lock on the file that other processes see."""
    found = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    mine = (str(pid or os.getpid()), str(file.stat().st_ino))
    return any((words[4], words[5].rpartition(":")[2]) == mine for words in found if len(words) > 5)


def wait_until(happened: Callable[[], object], patience: float = PATIENCE) -> bool:
    """Wait for an event in another process."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if happened():
            return True
        time.sleep(0.01)
    return bool(happened())


class Pids:
    """A file to which the processes of a test append their ids."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self) -> None:
        with self.path.open("a") as file:
            file.write(f"{os.getpid()}\n")

    @property
    def all(self) -> list[int]:
        return [int(line) for line in self.path.read_text().split()] if self.path.exists() else []

    @property
    def alive(self) -> list[int]:
        return [pid for pid in self.all if is_alive(pid)]

    def kill(self) -> None:
        for pid in self.alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Lifeline:
    """A pipe whose write end every forked process inherits, to see when all have ended."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()

    def is_cut(self) -> bool:
        """Whether all of them have ended, except supervisor processes, which close the pipe."""
        os.close(self._writing)
        ready, _, _ = select.select([self._reading], [], [], PATIENCE)
        os.close(self._reading)
        return bool(ready)


def children_of(pid: int) -> set[int]:
    """The children of a process that it has not waited for yet, including zombies."""
    found = set()
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit():
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    found.add(int(name))
    return found


def kills_supervisor(is_time: Callable[[], bool]) -> Callable[[Any], None]:
    """A `may_go_on` that kills the children that this process has got since now, once.

    Only the first time they are supervisors. Later ones are orphans that this process has adopted.
    """
    before, killed = children_of(os.getpid()), set[int]()

    def may_go_on(usage: Any) -> None:
        if not killed and is_time():
            killed.update(children_of(os.getpid()) - before)
            for supervisor in killed:
                os.kill(supervisor, signal.SIGKILL)

    return may_go_on


class Remains:
    """The descriptors, children and threads of this process now, to find later what a test left.

    It ignores what earlier tests left, even if that is closed in the meantime.
    """

    def __init__(self) -> None:
        gc.collect()
        self.before = self._now()

    def _now(self) -> list[set[object]]:
        descriptors = set(os.listdir("/proc/self/fd"))
        return [descriptors, children_of(os.getpid()), set(threading.enumerate())]

    @property
    def new(self) -> list[object]:
        """Descriptors, children and threads that did not exist before."""
        return [
            one for then, now in zip(self.before, self._now(), strict=True) for one in now - then
        ]

    def nothing_new(self) -> bool:
        return wait_until(lambda: not self.new, patience=AGAIN)


def fork_off(run: Callable[[], object]) -> int:
    """Run a function in a fork of this process, which can receive signals on return."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray leaves its own handler
            signal.pthread_sigmask(signal.SIG_SETMASK, ())  # other libraries may leave a mask
            os.close(ready)
            os.write(tell, b"!")
            os.close(tell)
            run()
            os._exit(0)
        finally:  # also when interrupted
            os._exit(1)
    os.close(tell)
    os.read(ready, 1)
    os.close(ready)
    return pid


def exit_code(pid: int, *, insist: signal.Signals | None = None) -> int:
    """The exit code of a process from `fork_off`; it is killed if it does not end.

    Args:
        insist: a signal to send every few seconds until the process ends. Python loses an exception
            of a signal handler that runs inside a callback of the garbage collector or a library.
    """
    ended = list[int]()
    again = time.monotonic() + AGAIN

    def has_ended() -> bool:
        nonlocal again
        found, status = os.waitpid(pid, os.WNOHANG)
        ended.extend([status] if found else [])
        if insist is not None and not found and time.monotonic() > again:
            os.kill(pid, insist)
            again = time.monotonic() + AGAIN
        return bool(found)

    if not wait_until(has_ended):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise AssertionError(f"process {pid} did not end")
    return os.waitstatus_to_exitcode(ended[0])
