"""Whose turn it is to ask on this machine: a lock of the operating system, which costs the database
nothing while one waits, and ends with the process that holds it, however that dies.

It is a courtesy, not a right: between machines, and where the file cannot be made, the lease on the
study's row decides. Whoever holds it for too long is stopped, or thinks for very long: the others
put a new file in its place, and go on.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["turn"]

LONGEST = 15.0  # seconds that one may hold it


@contextmanager
def turn(file: Path, longest: float = LONGEST) -> Iterator[None]:
    """Inside, nobody else on this machine is."""
    held = _held(file, longest)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _held(file: Path, longest: float) -> int | None:
    """The descriptor that holds the lock; None: there is no place for one."""
    while True:
        try:
            descriptor = _opened(file)
        except OSError:
            return None
        try:
            if _locked(descriptor, longest) and _is(file, descriptor):
                os.utime(descriptor)
                return descriptor
            if _is(file, descriptor):  # whoever holds it is stopped
                with suppress(OSError):
                    file.unlink()
        except OSError:  # a file system without locks
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was replaced while we waited, or now


def _locked(descriptor: int, longest: float) -> bool:
    """Wait for the lock, as a rule in the order of coming; False: one has held it for too long.

    A thread waits, for there is no way to wait for so many seconds. One that is left behind gets
    the lock in the end, and lets it go.
    """
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    same, ours = os.dup(descriptor), threading.Event()

    def wait() -> None:
        try:
            fcntl.flock(same, fcntl.LOCK_EX)
        except OSError:
            os.close(same)
            return
        os.close(same)  # first: the lock is free only when both are closed
        ours.set()

    threading.Thread(target=wait, name="farthing-turn", daemon=True).start()
    while True:
        taken = os.fstat(descriptor).st_mtime_ns  # when the last of them took it
        if ours.wait(longest):
            return True
        if os.fstat(descriptor).st_mtime_ns == taken:
            return False


def _opened(file: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(file, flags, 0o600)
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(file, flags, 0o600)


def _is(file: Path, descriptor: int) -> bool:
    """Whether that is still the file of this name."""
    try:
        there = os.stat(file)
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))
