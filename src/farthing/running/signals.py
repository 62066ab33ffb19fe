"""Requests to end a run before its study ends: Ctrl-C, SIGTERM, or the end of the pool.

After the first Ctrl-C, running trials finish. The second kills them. The third raises
KeyboardInterrupt at once. SIGTERM kills running trials; a second SIGTERM raises KeyboardInterrupt.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import NamedTuple

from farthing.history import StopReason

__all__ = [
    "INTERRUPTED",
    "ORPHANED",
    "TERMINATED",
    "ExitCheck",
    "ExitRequest",
    "can_handle",
    "combine_stop_reasons",
    "handle_signals",
    "print_exit_requests",
    "received_requests",
]

INTERRUPTED = StopReason("interrupted", "interrupted from the keyboard")
TERMINATED = StopReason("terminated", "ended by SIGTERM")
ORPHANED = StopReason("orphaned", "the parent process ended")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ExitRequest(NamedTuple):
    """Why a run has to end, and whether running trials are killed or may finish."""

    reason: StopReason
    kill: bool

    def message(self, running: Sequence[int]) -> str:
        """The line for the user, given the numbers of the running trials."""
        signal_names = {"interrupted": "Ctrl-C", "terminated": "SIGTERM"}
        cause = signal_names.get(self.reason.kind, self.reason.sentence)
        if not running:
            return f"{cause}: no trial is running, and no further trial starts."
        trials = f"trial{'s' * (len(running) > 1)} {', '.join(map(str, running))}"
        its, them = ("its", "it") if len(running) == 1 else ("their", "them")
        if self.kill:
            return f"{cause}: killing {trials}; {its} cost so far is charged."
        press = "again" if self.reason.kind == "interrupted" else "twice"
        return f"{cause}: waiting for {trials} to finish. Press Ctrl-C {press} to kill {them}."


# Returns the exit request that is in force, or None.
ExitCheck = Callable[[], ExitRequest | None]


@contextmanager
def handle_signals(pool: int | None = None) -> Iterator[ExitCheck]:
    """Record signals instead of acting on them; the worker acts when no result can be lost.

    Args:
        pool: the process that forked this worker. If it ends, so does the worker. None: a run of
            its own, which continues after the shell that started it has ended.
    """
    received = list[int]()

    def record(number: int, frame: object) -> None:
        received.append(number)
        times = received.count(number)
        # A pool repeats SIGTERM until its workers have ended. One KeyboardInterrupt is enough.
        if times > 2 if number == signal.SIGINT else times == 2:
            raise KeyboardInterrupt

    def exit_check() -> ExitRequest | None:
        if pool is not None and os.getppid() != pool:
            return ExitRequest(ORPHANED, kill=True)
        if signal.SIGTERM in received:
            return ExitRequest(TERMINATED, kill=True)
        return ExitRequest(INTERRUPTED, kill=len(received) > 1) if received else None

    if threading.current_thread() is not threading.main_thread():
        yield exit_check  # Python allows signal handlers in the main thread only
        return
    before = {number: signal.signal(number, record) for number in SIGNALS if can_handle(number)}
    try:
        yield exit_check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def can_handle(number: int) -> bool:
    """Whether Python may install a handler: the signal is neither ignored nor handled in C.

    `nohup` makes a process ignore signals. A handler that C code installed is None here, and Python
    could not restore it.
    """
    return signal.getsignal(number) not in (signal.SIG_IGN, None)


def combine_stop_reasons(reasons: Sequence[StopReason]) -> StopReason:
    """Why several workers ended: "interrupted" if one of them was, else the last reason."""
    return next((reason for reason in reasons if reason.kind == "interrupted"), reasons[-1])


def print_exit_requests(exit_check: ExitCheck, running: Callable[[], Sequence[int]]) -> ExitCheck:
    """The same check, which also prints each new request once on stderr.

    Args:
        running: returns the numbers of the running trials.
    """
    printed: list[ExitRequest] = []

    def check() -> ExitRequest | None:
        request = exit_check()
        if request is not None and request not in printed:
            printed.append(request)
            if request.reason.kind != "orphaned":  # no user is left at the terminal
                print(request.message(running()), file=sys.stderr, flush=True)
        return request

    return check


def received_requests(parent: Connection) -> ExitCheck:
    """An exit check that returns the last request from the pool."""
    requests: list[ExitRequest] = []

    def check() -> ExitRequest | None:
        with suppress(OSError, EOFError):  # the pool has ended
            while parent.poll():
                requests.append(parent.recv())
        return requests[-1] if requests else None

    return check
