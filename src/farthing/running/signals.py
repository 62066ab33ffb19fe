"""When a run has to end before its study does: Ctrl-C, SIGTERM, or a parent that is gone.

The first Ctrl-C lets running trials finish, the second kills them, and a third interrupts whatever
this process is doing. SIGTERM is sent by those who will not wait: it kills, a second interrupts.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from farthing.history import StopReason

__all__ = [
    "INTERRUPTED",
    "TERMINATED",
    "ExitCheck",
    "ExitRequest",
    "announced",
    "hears",
    "interrupted_or_last",
    "signals",
]

INTERRUPTED = StopReason("interrupted", "interrupted from the keyboard")
TERMINATED = StopReason("terminated", "ended by SIGTERM")
ORPHANED = StopReason("orphaned", "the process that started it is gone")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ExitRequest(NamedTuple):
    """Why to end, and whether what is running is killed or let finish."""

    because: StopReason
    now: bool

    def sentence(self, running: Sequence[int]) -> str:
        """What a person is told, given the numbers of the trials that are running."""
        signal_names = {"interrupted": "Ctrl-C", "terminated": "SIGTERM"}
        said = signal_names.get(self.because.kind, self.because.sentence)
        if not running:
            return f"{said}: nothing is running, and nothing more is started."
        trials = f"trial{'s' * (len(running) > 1)} {', '.join(map(str, running))}"
        it, are = ("it", "is") if len(running) == 1 else ("they", "are")
        if self.now:
            return f"{said}: {trials} {are} killed; what {it} used is charged."
        them = "it" if len(running) == 1 else "them"
        return f"{said}: {trials} {are} let finish, then this ends. Ctrl-C again kills {them}."


ExitCheck = Callable[[], ExitRequest | None]


@contextmanager
def signals() -> Iterator[ExitCheck]:
    """Whether to end. A signal is noted, and acted upon where nothing can be lost by it."""
    parent, noted = os.getppid(), list[int]()

    def note(number: int, frame: object) -> None:
        noted.append(number)
        times = noted.count(number)
        # A pool repeats SIGTERM until its workers are gone: one interrupt is enough for them.
        if times > 2 if number == signal.SIGINT else times == 2:
            raise KeyboardInterrupt

    def exit_requested() -> ExitRequest | None:
        if os.getppid() != parent:
            return ExitRequest(ORPHANED, now=True)
        if signal.SIGTERM in noted:
            return ExitRequest(TERMINATED, now=True)
        return ExitRequest(INTERRUPTED, now=len(noted) > 1) if noted else None

    if threading.current_thread() is not threading.main_thread():
        yield exit_requested  # only the main thread hears signals
        return
    before = {number: signal.signal(number, note) for number in SIGNALS if hears(number)}
    try:
        yield exit_requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def hears(number: int) -> bool:
    """Whether a signal is neither ignored, as by nohup, nor another's, who is not of Python.

    A handler that was installed from C is None here, and could not be put back.
    """
    return signal.getsignal(number) not in (signal.SIG_IGN, None)


def interrupted_or_last(reasons: Sequence[StopReason]) -> StopReason:
    """Why several workers ended: Ctrl-C, if one of them says so, or what the last says."""
    return next((reason for reason in reasons if reason.kind == "interrupted"), reasons[-1])


def announced(exit_requested: ExitCheck, running: Callable[[], Sequence[int]]) -> ExitCheck:
    """The same, and a person is told, once each; `running` has the numbers of the trials."""
    told: list[ExitRequest] = []

    def asked() -> ExitRequest | None:
        leave = exit_requested()
        if leave is not None and leave not in told:
            told.append(leave)
            if leave.because.kind != "orphaned":
                print(leave.sentence(running()), file=sys.stderr, flush=True)
        return leave

    return asked
