"""A file lock that lets one process of this machine ask at a time.

Waiting for it sends nothing to the database. The operating system releases it when its holder ends,
even by SIGKILL.

The lock only saves work. Between machines, and if the file cannot be created, the suggestion lease
on the study's row decides. If one process holds the lock for longer than `LONGEST`, the others
replace the file and continue.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["ask_lock"]

LONGEST = 15.0  # seconds for which one process may hold the lock


@contextmanager
def ask_lock(file: Path, longest: float = LONGEST) -> Iterator[None]:
    """Inside, no other process of this machine holds the lock of this file."""
    descriptor = _acquire(file, longest)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _acquire(file: Path, longest: float) -> int | None:
    """The descriptor that holds the lock, or None if the file or its lock cannot be created."""
    while True:
        try:
            descriptor = _open(file)
        except OSError:
            return None
        try:
            if _lock(descriptor, longest) and _is_current(file, descriptor):
                os.utime(descriptor)
                return descriptor
            if _is_current(file, descriptor):  # its holder is suspended, or takes too long
                with suppress(OSError):
                    file.unlink()
        except OSError:  # the file system has no locks
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # this process or another one has replaced the file


def _lock(descriptor: int, longest: float) -> bool:
    """Wait for the lock. False means that one process has held it for longer than `longest`.

    `flock` has no timeout, so a thread waits. An abandoned thread acquires the lock in the end and
    releases it.
    """
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    duplicate, acquired = os.dup(descriptor), threading.Event()

    def wait() -> None:
        try:
            fcntl.flock(duplicate, fcntl.LOCK_EX)
        except OSError:
            os.close(duplicate)
            return
        os.close(duplicate)  # first, because the lock is free only when both are closed
        acquired.set()

    threading.Thread(target=wait, name="farthing-ask-lock", daemon=True).start()
    while True:
        last_acquired = os.fstat(descriptor).st_mtime_ns
        if acquired.wait(longest):
            return True
        if os.fstat(descriptor).st_mtime_ns == last_acquired:
            return False


def _open(file: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(file, flags, 0o600)
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(file, flags, 0o600)


def _is_current(file: Path, descriptor: int) -> bool:
    """Whether the path still names the open file."""
    try:
        found = os.stat(file)
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))
