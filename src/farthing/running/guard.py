"""The guard: a process between an evaluation and whoever watches over it.

    supervising process <-- link --> guard --> evaluation (leader of its own session) --> ...

It starts the evaluation, ends it when it is asked to, when the time is up, or when the supervising
process is gone, however that died, and tells how the evaluation ended. It is forked for each
evaluation, imports nothing, has one thread, and waits almost all the time. On Linux it adopts the
orphans of the evaluation, so that it sees every descendant, and ends them all, also those that made
a process group or a session of their own; and it takes the evaluation with it if it is itself
killed. Elsewhere a descendant that leaves the process group is let go.
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, NoReturn

from farthing.errors import InvalidInput
from farthing.running.measuring import groups_of, megabytes
from farthing.running.task import Start

__all__ = ["GIVE_UP", "INVALID", "UNSTARTED", "Ending", "Orders", "stand_guard"]

LINGER = 0.5  # seconds that processes may outlive the evaluation they belong to
LOOK = 1.0  # seconds between two looks whether the supervising process is there
LOOK_AT_REST = 0.05  # the same for what outlives the evaluation, where nobody tells of its death
GIVE_UP = 10.0  # seconds after which even SIGKILL has not helped: the kernel holds the process

UNSTARTED = 70  # exit code of an evaluation that could not even begin
INVALID = "farthing.invalid"  # and never will, says its last message

Why = Literal["asked", "timeout", "spent", "orphaned"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Orders:
    """What a guard is told before it begins.

    Attributes:
        supervisor: the process that watches.
        messages: where the evaluation writes its messages.
        noise: where its other output goes.
        timeout: seconds after which it is ended.
        until: by the monotonic clock, when its budget of wall time is spent; told anew meanwhile.
        grace: seconds between SIGTERM and SIGKILL.
        folder: what to remove if the supervisor cannot.
    """

    supervisor: int
    messages: int
    noise: int
    timeout: float | None
    until: float
    grace: float
    folder: str


@dataclass(frozen=True)
class Ending:
    """What a guard tells in the end.

    Attributes:
        at: when the evaluation ended, by the monotonic clock.
        status: how it ended, as `os.wait` tells it; None if even SIGKILL could not end it.
        why: it was told to end; None if it ended by itself.
        cpu_s: what it and its descendants used.
        peak_mb: of the largest of them.
        guard_mb: of the guard itself.
        unstarted: why it could not be started.
    """

    at: float
    status: int | None = None
    why: Why | None = None
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    guard_mb: float = 0.0
    unstarted: str | None = None


def stand_guard(link: socket.socket, start: Start, orders: Orders) -> NoReturn:
    """Run in a new process: start the evaluation, watch over it, tell how it ended."""
    try:
        gc.disable()  # what the parent had not collected yet is the parent's to finalise
        for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        # Where the supervisor ignores it, one that ends at once would be nobody's to wait for.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        adopts = _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        begun, guard = time.monotonic(), os.getpid()
        leader = os.fork()
        if leader == 0:
            link.close()
            _become_evaluation(start, orders, guard)
        _close_all_but(link.fileno())
        _tell(link, {"guard": guard, "leader": leader})
        _tell(link, asdict(_Watch(leader, link, begun, orders, adopts).until_the_end()))
        if os.getppid() != orders.supervisor:
            shutil.rmtree(orders.folder, ignore_errors=True)
    except OSError as error:  # it could not be forked
        _tell(link, asdict(Ending(time.monotonic(), unstarted=str(error))))
    finally:
        os._exit(0)


def _become_evaluation(start: Start, orders: Orders, guard: int) -> NoReturn:
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == guard:  # else it died before we could ask to be told
            _reset_signals()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            start(orders.messages, orders.noise)
    except InvalidInput as error:
        _say(orders.messages, {"infrastructure": str(error), INVALID: True})
    except BaseException as error:
        _say(orders.messages, {"infrastructure": f"it could not be started: {error}"})
    finally:
        os._exit(UNSTARTED)


def _reset_signals() -> None:
    """As in a new Python process, whatever the supervising process does with its signals."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError, ValueError):  # some are the C library's own
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class _Watch:
    """Over an evaluation and all that it started, until they are gone."""

    def __init__(
        self, leader: int, link: socket.socket, begun: float, orders: Orders, adopts: bool
    ) -> None:
        self.leader, self.link, self.orders = leader, link, orders
        self.adopts = adopts  # whether every descendant is a child in the end
        self.status: int | None = None  # how the leader ended
        self.ended_at = begun
        self.why: Why | None = None  # it was told to end
        self.deadline = math.inf if orders.timeout is None else begun + orders.timeout
        self.until = orders.until
        self.heard = b""  # up to the end of a line
        self.asked: float | None = None  # to end it, with so many seconds of grace
        self.kill_at = self.give_up_at = math.inf
        self.wake = _wake_when_a_child_ends()
        self.events = select.poll()
        self.events.register(self.wake, select.POLLIN)
        self.events.register(link, select.POLLIN)

    def until_the_end(self) -> Ending:
        """See to it that they go, and say how they went."""
        while not self._is_over(time.monotonic()):
            self._ask_to_end(time.monotonic())
            self._kill(time.monotonic())
            self._wait(time.monotonic())
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Ending(
            self.ended_at,
            self.status,
            self.why,
            used.ru_utime + used.ru_stime,
            megabytes(used.ru_maxrss),
            megabytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss),
        )

    def _is_over(self, now: float) -> bool:
        alone = False
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.leader:
                    self.status, self.ended_at = ended[1], now
                    if self.why is None:
                        self.kill_at = now + LINGER
        except ChildProcessError:  # no child is left
            alone = True
        gone = alone if self.adopts else not _exists(self.leader)
        return (self.status is not None and gone) or now >= self.give_up_at

    def _ask_to_end(self, now: float) -> None:
        if self.why is None and self.status is None:
            self.why = self._reason(now)
            if self.why is not None:
                self._signal(signal.SIGTERM)
                self._signal(signal.SIGCONT)  # one that is stopped could not obey
                self.kill_at = now + self.orders.grace
        if self.asked is not None:  # perhaps a second time, with less patience
            self.kill_at, self.asked = min(self.kill_at, now + self.asked), None

    def _reason(self, now: float) -> Why | None:
        if self.asked is not None:
            return "asked"
        if now >= self.deadline:
            return "timeout"
        if now >= self.until:
            return "spent"
        return "orphaned" if os.getppid() != self.orders.supervisor else None

    def _kill(self, now: float) -> None:
        if now >= self.kill_at:
            self._signal(signal.SIGKILL)
            self.kill_at = now + LOOK_AT_REST  # one that was just being forked may have slipped by
            self.give_up_at = min(self.give_up_at, now + GIVE_UP)

    def _signal(self, number: int) -> None:
        """To the group of the evaluation, and to every other that a descendant is in."""
        _signal(self.leader, number)
        if self.adopts:
            for group in groups_of(os.getpid()) - {self.leader, os.getpgrp()}:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, number)

    def _wait(self, now: float) -> None:
        look = now + (LOOK if self.status is None else LOOK_AT_REST)
        ends = min(self.deadline, self.until) if self.why is None else math.inf
        wake_at = min(self.kill_at, look, ends)
        for descriptor, _ in self.events.poll(max(0.0, wake_at - now) * 1000):
            if descriptor == self.wake:
                os.read(self.wake, 4096)
            else:
                self._hear()

    def _hear(self) -> None:
        try:
            said = self.link.recv(4096)
        except OSError:  # the other end died with something unread
            said = b""
        *lines, self.heard = (self.heard + said).split(b"\n")
        for line in lines:
            word, amount = line.split()
            if word == b"until":
                self.until = float(amount)
            else:
                self.asked = float(amount)
        if not said:  # and it never will
            self.asked = self.orders.grace
            self.events.unregister(self.link)


def _wake_when_a_child_ends() -> int:
    """A descriptor that has something to read when a child has ended."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return reading


def _signal(leader: int, number: int) -> None:
    """To the group, or to the leader while it has not made its group yet."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        with suppress(ProcessLookupError):
            os.kill(leader, number)
    except PermissionError:
        pass  # it has taken on another user's identity: only that one may end it


def _exists(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _close_all_but(kept: int) -> None:
    """A guard holds nothing that somebody else waits to see closed."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    try:
        held = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:  # where it is not to be seen, try the likely ones
        held = list(range(1024))
    for descriptor in set(held) - {0, 1, 2, kept}:
        with suppress(OSError):
            os.close(descriptor)


def _prctl(option: int, argument: int) -> bool:
    """Whether the kernel has done it."""
    return _LIBC is not None and _LIBC.prctl(option, argument, 0, 0, 0) == 0


def _tell(link: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):  # there may be nobody left to tell
        link.sendall(json.dumps(message).encode() + b"\n")


def _say(messages: int, message: dict[str, Any]) -> None:
    with suppress(OSError):
        os.write(messages, b"\n" + json.dumps(message).encode() + b"\n")
