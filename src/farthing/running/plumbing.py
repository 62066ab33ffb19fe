"""Pipes and forks, made so that no signal and no thread can come between."""

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

_one_at_a_time = threading.Lock()


def fork(run: Callable[[], NoReturn], started: Callable[[int], None]) -> None:
    """Run something in a new process, whose id is known here before any signal is handled.

    The new process has all signals blocked; it is to unblock them once it has its own handlers.
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
    # It warns that other threads may hold locks: a guard needs none, and an objective that does can
    # be spawned. The filters are shared by all threads, so only one of ours may change them.
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def pipe() -> tuple[io.FileIO, io.FileIO]:
    """The end to read from, which never blocks, and the end to write to."""
    reading, writing = os.pipe()
    ends = io.FileIO(_no_standard_one(reading)), io.FileIO(_no_standard_one(writing), "w")
    os.set_blocking(ends[0].fileno(), False)
    return ends


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends that both read and write."""
    one, other = socket.socketpair()
    return (
        socket.socket(fileno=_no_standard_one(one.detach())),
        socket.socket(fileno=_no_standard_one(other.detach())),
    )


def _no_standard_one(descriptor: int) -> int:
    """The same under a number above 2; where stdin or stdout is closed, new files get those."""
    if descriptor > 2:
        return descriptor
    higher = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return higher
