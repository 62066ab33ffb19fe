"""Create pipes, socket pairs and processes in a program with signal handlers and threads."""

from __future__ import annotations

import ctypes
import errno
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

__all__ = ["fork", "peek", "pipe", "socket_pair"]

_fork_lock = threading.Lock()
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_NONBLOCK = 2  # SPLICE_F_NONBLOCK
_CHUNK = 1 << 16  # bytes per read


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


def peek(pipe: int) -> tuple[bytes | None, bool]:
    """Look into a pipe that does not block.

    Returns:
        Its first bytes, b"" at the end of the file or None if it is empty; and whether they are
        still in the pipe. Except on Linux, or without free descriptors, this takes them out.
    """
    try:
        reading, writing = os.pipe()
    except OSError:
        return _read(pipe), False
    try:
        # tee(2) copies from one pipe to another.
        size = ctypes.c_size_t(_CHUNK)
        copied = -1 if _LIBC is None else _LIBC.tee(pipe, writing, size, _NONBLOCK)
        if copied >= 0:
            return os.read(reading, _CHUNK) if copied else b"", True
        is_empty = _LIBC is not None and ctypes.get_errno() == errno.EAGAIN
        return (None, True) if is_empty else (_read(pipe), False)
    finally:
        os.close(reading)
        os.close(writing)


def _read(pipe: int) -> bytes | None:
    try:
        return os.read(pipe, _CHUNK)
    except BlockingIOError:
        return None


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
