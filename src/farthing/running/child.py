"""An evaluation in another process, as seen from this one."""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from farthing.running.engine import Allowance
from farthing.running.finished import Usage
from farthing.running.guard import GIVE_UP, INVALID, UNSTARTED, Ending, Orders, stand_guard
from farthing.running.log import Log
from farthing.running.measuring import groups_of, measure
from farthing.running.output import Messages, Tail
from farthing.running.plumbing import fork, pipe, socket_pair
from farthing.running.task import Start

__all__ = ["Child"]

End = TypeVar("End", socket.socket, FileIO)

CHUNK = 1 << 16  # bytes read at once
MAX_REST = 1 << 24  # bytes read after the end, when only a daemon can still be writing
FRESH = 0.05  # seconds that a measurement is good for
HEED = 1.0  # seconds at most until Ctrl-C is heeded that came just before a wait
GONE = 0  # the processes that are no more
PATIENCE = GIVE_UP + 5.0  # seconds beyond the grace until a guard that says nothing is killed
SAME = 1.02  # times the guard's own memory, which a program seems to have had before it began


class Child:
    """From before its start until nothing of it is left: `start`, `watch`, and always `end`.

    Attributes:
        messages: what it said so far.
        tail: the last lines of what else it wrote.
        ending: how it ended; None while it runs, and for ever if its guard was killed.
        told_to_end: why it may not go on, if that is so.
    """

    def __init__(
        self,
        metric: str,
        on_report: Callable[[Mapping[str, Any], Usage], None] | None,
        log: Log,
        *,
        prints_messages: bool,
    ) -> None:
        self.messages = Messages(metric)
        self.tail = Tail()
        self._log, self._prints_messages = log, prints_messages
        self.ending: Ending | None = None
        self.told_to_end: str | None = None
        self._on_report = on_report
        self._begun = time.monotonic()
        self._guard: int | None = None  # None: before the start and after the end
        self._leader: int | None = None
        self._link: socket.socket | None = None  # None: the guard is gone
        self._said = b""  # by the guard, up to the end of a line
        self._until = math.inf  # as the guard knows it
        self._give_up_at = math.inf  # on a guard that was told to end it
        self._wall_s = self._cpu_s = 0.0
        self._peak_mb = {GONE: 0.0}  # by process
        self._measured_at = -math.inf
        self._open = ExitStack()
        self._sources = selectors.PollSelector()

    def start(
        self, start: Start, folder: Path, *, timeout: float | None, until: float, grace: float
    ) -> None:
        """Fork the guard, which starts the evaluation.

        Raises:
            OSError: there was no process or no descriptor to be had.
        """
        self._until = until
        with ExitStack() as theirs:
            link, far_link = self._share(socket_pair(), theirs, self._hear)
            _, far_messages = self._share(pipe(), theirs, self._read)
            _, far_noise = self._share(pipe(), theirs, self._skim)
            orders = Orders(
                supervisor=os.getpid(),
                messages=far_messages.fileno(),
                noise=far_noise.fileno(),
                timeout=timeout,
                until=until,
                grace=grace,
                folder=os.fspath(folder),
            )

            def in_the_guard() -> NoReturn:
                self._open.close()
                stand_guard(far_link, start, orders)

            def started(guard: int) -> None:
                self._guard, self._link = guard, link

            fork(in_the_guard, started)

    def watch(self, allowance: Allowance, grace: float) -> None:
        """Listen, and ask every tick whether it may go on, until it is over."""
        tick = allowance.tick
        next_tick = time.monotonic() + tick
        while self._link is not None:
            asking = self.told_to_end is None
            self._listen(next_tick - time.monotonic() if asking else HEED)
            if asking and self._link is not None and time.monotonic() >= next_tick:
                self.told_to_end = allowance.may_go_on(self.usage)
                next_tick = time.monotonic() + tick
                if self.told_to_end is not None:
                    self._ask_to_end(grace)
                elif abs(allowance.until() - self._until) > tick:
                    self._until = allowance.until()
                    self._send(f"until {self._until}")
        self._read_the_rest()

    def end(self, grace: float) -> None:
        """Wait until nothing is left of it; ask it to end if it still runs."""
        self._on_report = None  # whoever leaves early has no use for more
        interrupted = None
        while self._guard is not None:
            try:
                self._ask_to_end(grace)
                while self._link is not None:
                    self._listen(HEED)
                self._read_the_rest()
                if self.ending is None and self._leader is not None:  # its guard was killed
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(self._leader, signal.SIGKILL)
                with suppress(ChildProcessError):  # somebody else waits for all children
                    os.waitpid(self._guard, 0)
                self._guard = None
            except KeyboardInterrupt as again:
                interrupted, grace = again, 0.0
        self._open.close()
        self._sources.close()
        if interrupted is not None:
            raise interrupted

    @property
    def usage(self) -> Usage:
        """What it has used so far, or in all."""
        ending = self.ending
        if ending is None:
            self._measure()
        # It may be asked after the end and before the news of it: what was told stays true.
        at = time.monotonic() if ending is None else ending.at
        self._wall_s = max(self._wall_s, at - self._begun)
        peak_mb = max(self._peak_mb.values())
        if ending is not None:
            self._cpu_s = max(self._cpu_s, ending.cpu_s)
            # A program counts as large as the process was that became it: then look at samples.
            if ending.peak_mb > SAME * ending.guard_mb or not peak_mb:
                peak_mb = ending.peak_mb
        return Usage(self._wall_s, self._cpu_s, peak_mb, dict(self.messages.reported))

    @property
    def ended_by_itself(self) -> bool:
        """Whether it ended before anybody told it to."""
        return self.ending is not None and self.ending.why is None

    @property
    def invalid(self) -> str | None:
        """Why no evaluation of this kind can ever start, if that is so."""
        result = self.messages.result or {}
        unstarted = self.ending is not None and self.ending.status == UNSTARTED << 8
        return str(result["infrastructure"]) if unstarted and INVALID in result else None

    # ── listening ──────────────────────────────────────────────────────────────────────────

    def _share(
        self, ends: tuple[End, End], theirs: ExitStack, read: Callable[[End], Any]
    ) -> tuple[End, End]:
        """One end is ours until the end, the other theirs."""
        mine, other = ends
        self._open.enter_context(mine)
        theirs.enter_context(other)
        self._sources.register(mine, selectors.EVENT_READ, read)
        return ends

    def _ask_to_end(self, grace: float) -> None:
        self._give_up_at = min(self._give_up_at, time.monotonic() + grace + PATIENCE)
        self._send(f"end {grace}")

    def _send(self, order: str) -> None:
        if self._link is not None:
            # It has just ended, or it is stopped and has not read for very long.
            with suppress(OSError):
                self._link.send(f"{order}\n".encode(), socket.MSG_DONTWAIT)

    def _listen(self, timeout: float) -> None:
        for key, _ in self._sources.select(min(max(0.0, timeout), HEED)):
            key.data(key.fileobj)
        if time.monotonic() >= self._give_up_at:  # after listening: it may be us who were stopped
            self._kill_with_its_guard()

    def _kill_with_its_guard(self) -> None:
        """Of a guard that is stopped, or stuck: what it guards first, which it still holds."""
        guard, link = self._guard, self._link
        if guard is None or link is None:
            return
        groups = groups_of(guard) | ({self._leader} if self._leader is not None else set())
        for group in groups - {os.getpgrp()}:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(guard, signal.SIGKILL)
        self._sources.unregister(link)
        self._link = None

    def _hear(self, link: socket.socket) -> None:
        try:
            said = link.recv(CHUNK)
        except ConnectionError:
            said = b""
        *lines, self._said = (self._said + said).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "leader" in message:
                self._guard, self._leader = message["guard"], message["leader"]
            else:
                self.ending = Ending(**message)
        if not said or self.ending is not None:
            self._sources.unregister(link)
            self._link = None

    def _read(self, messages: FileIO) -> int:
        data = messages.read(CHUNK)
        if data == b"":
            self._sources.unregister(messages)
        if self._prints_messages:
            self._log.feed(messages, data or b"")
        self._pass_on(self.messages.feed(data or b""))
        return len(data or b"")

    def _skim(self, noise: FileIO) -> int:
        data = noise.read(CHUNK)
        if data == b"":
            self._sources.unregister(noise)
        self._log.feed(noise, data or b"")
        self.tail.feed(data or b"")
        return len(data or b"")

    def _read_the_rest(self) -> None:
        """What was written before the end and not read yet."""
        for key in tuple(self._sources.get_map().values()):
            read = 0
            while (more := key.data(key.fileobj)) and read < MAX_REST:
                read += more
        self._pass_on(self.messages.close())

    def _pass_on(self, progress: list[Mapping[str, Any]]) -> None:
        for message in progress:
            if self._on_report is not None:
                self._on_report(message, self.usage)

    def _measure(self) -> None:
        now = time.monotonic()
        if self._leader is not None and self._guard is not None and now - self._measured_at > FRESH:
            measured = measure(self._guard)
            self._cpu_s = max(self._cpu_s, measured.cpu_s)
            gone = (mb for pid, mb in self._peak_mb.items() if pid not in measured.peak_mb)
            # The last of each, because a process that becomes a new program begins anew.
            self._peak_mb = {GONE: max(gone, default=0.0), **measured.peak_mb}
            self._measured_at = now
