"""Looking at real processes: which are alive, and waiting for things to happen to them."""

import gc
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# Nothing takes this long, however busy the machine is, unless it is broken. Who waits in vain fails
# before pyproject.toml's limit ends the process, and with it all that it had still to test.
PATIENCE = 200.0
# What is never waited for: a test that did would run into its limit, which pyproject.toml sets.
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
    """Whether a process is gone, and somebody has waited for it."""
    return not Path(f"/proc/{pid}").exists()


def holds_a_lock_on(file: Path, pid: int | None = None) -> bool:
    """Whether a process, or this one, has a lock on this file that other processes see."""
    found = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    mine = (str(pid or os.getpid()), str(file.stat().st_ino))
    return any((words[4], words[5].rpartition(":")[2]) == mine for words in found if len(words) > 5)


def wait_until(happened: Callable[[], object], patience: float = PATIENCE) -> bool:
    """Wait for something that another process does."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if happened():
            return True
        time.sleep(0.01)
    return bool(happened())


class Pids:
    """A file in which processes of a test write their ids."""

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
    """A pipe whose writing end goes to every process that is forked, to see when all are gone."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()

    def is_cut(self) -> bool:
        """Whether all of them have closed it and so are ending; but for guards, who close it."""
        os.close(self._writing)
        ready, _, _ = select.select([self._reading], [], [], PATIENCE)
        os.close(self._reading)
        return bool(ready)


def children_of(pid: int) -> set[int]:
    """The processes a process has started and not waited for yet, zombies included."""
    found = set()
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit():
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    found.add(int(name))
    return found


class Remains:
    """What this process has by now: whatever is new later, and stays, was left behind.

    What others left before, and a collector or a thread of theirs closes meanwhile, is no concern.
    """

    def __init__(self) -> None:
        gc.collect()
        self.before = self._now()

    def _now(self) -> list[set[object]]:
        descriptors = set(os.listdir("/proc/self/fd"))
        return [descriptors, children_of(os.getpid()), set(threading.enumerate())]

    @property
    def new(self) -> list[object]:
        """Descriptors, children and threads."""
        return [
            one for then, now in zip(self.before, self._now(), strict=True) for one in now - then
        ]

    def nothing_new(self) -> bool:
        return wait_until(lambda: not self.new, patience=AGAIN)


def fork_off(run: Callable[[], object]) -> int:
    """Run something in a copy of this process, which is ready for signals on return."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray leaves a handler of its own,
            signal.pthread_sigmask(signal.SIG_SETMASK, ())  # and others may leave a mask
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
    """How a process that was forked off ended; one that does not end, even stopped, is killed.

    Args:
        insist: on ending it with this signal, again every few seconds: one that Python handles
            inside a callback of the collector, or of a library's, it forgets.
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
