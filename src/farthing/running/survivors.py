"""Processes of an evaluation whose supervisor was killed (Linux only).

A supervisor ends all processes of its evaluation. If it is killed itself, three things replace it:

- The kernel kills the evaluation, but not what the evaluation has started.
- The worker adopts orphans while it evaluates (`adopting_orphans`), so it learns how the evaluation
  ended, and kills the rest (`end_survivors`).
- If the worker was killed, too, the next worker of this user on this machine does so (`sweep`).

The processes of an evaluation are found by a mark, the file `<its folder>/guard`: the environment
of every program has its path, and a forked process has it open. The supervisor has locked this
file, so a mark whose file nobody has locked belongs to a survivor. A process without the mark is
found if it descends from one with it. One that has neither survives.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from farthing.running.measuring import family

__all__ = [
    "FOLDER",
    "MARK",
    "adopting_orphans",
    "end_survivors",
    "lock_mark",
    "mark_of",
    "prctl",
    "sweep",
]

MARK = "FARTHING_GUARD"  # the environment variable
FOLDER = "farthing-"  # the start of the name of the folder of an evaluation
MARKED = re.compile(f"/{FOLDER}[^/]*/guard$")
EVERY = 0.02  # seconds between two looks at processes that were killed
PATIENCE = 10.0  # seconds until a process that cannot be killed is left alone

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_adopting = 0  # evaluations of this process
_lock = threading.Lock()


def prctl(option: int, argument: int) -> bool:
    """Call Linux's prctl; whether it succeeded."""
    return _LIBC is not None and _LIBC.prctl(option, argument, 0, 0, 0) == 0


def mark_of(folder: str | os.PathLike[str]) -> str:
    """The mark of the evaluation that has this folder."""
    return os.path.join(folder, "guard")


def lock_mark(folder: str) -> int:
    """Create and lock the mark; it stays locked until the returned descriptor is closed.

    It has another name until it is locked: otherwise a sweep in between would kill the supervisor.
    """
    name = os.path.join(folder, "new")
    mark = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    fcntl.flock(mark, fcntl.LOCK_EX)
    os.rename(name, mark_of(folder))
    return mark


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Inside, orphaned descendants become children of this process."""
    global _adopting
    with _lock:
        _adopting += 1
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        with _lock:
            _adopting -= 1
            if not _adopting:
                prctl(PR_SET_CHILD_SUBREAPER, 0)


def end_survivors(
    folder: str | os.PathLike[str], leader: int | None = None, known: Iterable[int] = ()
) -> int | None:
    """Kill the processes of an evaluation whose supervisor is dead, and wait until they have ended.

    Args:
        leader: the process of the evaluation.
        known: others that belong to it.

    Returns:
        The exit status of the leader if this process has adopted it, else None.
    """
    mark, ended, give_up_at = mark_of(folder), dict[int, int](), time.monotonic() + PATIENCE
    pids = {*known} if leader is None else {*known, leader}
    while time.monotonic() < give_up_at:
        found = _kill({pid for pid, its in _marked().items() if its == mark})
        pids |= found | {pid for pid, its in _own_children().items() if its == leader}
        if not _reap(pids, ended) and not found:
            break
        time.sleep(EVERY)
    return None if leader is None else ended.get(leader)


def sweep() -> None:
    """Kill all survivors of this user on this machine."""
    give_up_at = time.monotonic() + PATIENCE
    while time.monotonic() < give_up_at:
        own = os.environ.get(MARK)  # this process may be part of an evaluation itself
        found = {pid: mark for pid, mark in _marked().items() if mark != own}
        if not _kill({pid for pid, mark in found.items() if not _is_supervised(mark)}):
            break
        time.sleep(EVERY)


def _kill(pids: set[int]) -> set[int]:
    """Kill processes and their descendants, and return all of these."""
    every = {each for root in pids for each in family(root)} - {os.getpid()}
    for pid in every:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return every


def _own_children() -> dict[int, int]:
    """The children of this process, and the session of each."""
    own, processes = os.getpid(), family(os.getpid())
    return {pid: int(f[3]) for pid, f in processes.items() if f and int(f[1]) == own}


def _reap(pids: set[int], ended: dict[int, int]) -> bool:
    """Reap those that are children of this process; whether another look is needed.

    It is if one has not ended yet, or only now: what it had started is adopted when it ends.
    """
    is_left = False
    for pid in pids - ended.keys():
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            is_left |= os.path.exists(f"/proc/{pid}")
        else:
            ended |= {pid: status} if found else {}
            is_left = True
    return is_left


def _marked() -> dict[int, str]:
    """The living processes of this user with a mark, and the mark."""
    found = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        with suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.geteuid():
                mark = _mark_in(Path("/proc", name))
                if mark is not None and int(name) != os.getpid():
                    found[int(name)] = mark
    return found


def _mark_in(process: Path) -> str | None:
    for variable in (process / "environ").read_bytes().split(b"\0"):
        if variable.startswith(MARK.encode() + b"="):
            return os.fsdecode(variable.partition(b"=")[2])
    for descriptor in os.listdir(process / "fd"):
        with suppress(OSError):  # it has just been closed
            path = os.readlink(process / "fd" / descriptor)
            if MARKED.search(path):
                return path
    return None


def _is_supervised(mark: str) -> bool:
    """Whether a supervisor has locked the mark. If the file is gone, nobody knows."""
    try:
        descriptor = os.open(mark, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
