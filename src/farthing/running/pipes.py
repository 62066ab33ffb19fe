"""Create pipes, socket pairs and processes in a program with signal handlers and threads."""

from __future__ import annotations

import fcntl
import io
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from typing import NoReturn

__all__ = ["fork", "pipe", "socket_pair"]

_fork_lock = threading.Lock()


def fork(run: Callable[[], NoReturn], started: Callable[[int], None]) -> None:
    """Call `run` in a new process and `started` with its id here, before any signal is handled.

    The new process starts with all signals blocked. It must unblock them after it has installed its
    own handlers.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        child = _quiet_fork()
        if child == 0:
            run()
        started(child)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _quiet_fork() -> int:
    if sys.version_info < (3, 12):
        return os.fork()
    # Python warns that other threads may hold locks. The supervisor needs no locks, and users can
    # spawn an objective that does. All threads share the warning filters, hence the lock.
    with _fork_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def pipe() -> tuple[io.FileIO, io.FileIO]:
    """The read end, which does not block, and the write end."""
    reading, writing = os.pipe()
    ends = io.FileIO(_above_standard(reading)), io.FileIO(_above_standard(writing), "w")
    os.set_blocking(ends[0].fileno(), False)
    return ends


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets."""
    one, other = socket.socketpair()
    return (
        socket.socket(fileno=_above_standard(one.detach())),
        socket.socket(fileno=_above_standard(other.detach())),
    )


def _above_standard(descriptor: int) -> int:
    """Move a descriptor to a number above 2. New files get 0, 1 or 2 if those are closed."""
    if descriptor > 2:
        return descriptor
    higher = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return higher
