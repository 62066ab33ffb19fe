"""One evaluation in another process, as the worker process sees it."""

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
from farthing.running.journal import BEFORE, append, rewrite, since, with_usage
from farthing.running.log import Log
from farthing.running.measuring import family, groups_of, measure
from farthing.running.output import Messages, Tail
from farthing.running.pipes import fork, peek, pipe, socket_pair
from farthing.running.supervisor import (
    INVALID,
    KILL_TIMEOUT,
    NOT_STARTED,
    Ending,
    SupervisorConfig,
    supervise,
)
from farthing.running.survivors import end_survivors
from farthing.running.task import Start
from farthing.running.training import Answers

__all__ = ["Child"]

End = TypeVar("End", socket.socket, FileIO)

CHUNK = 1 << 16  # bytes per read
MAX_REST = 1 << 24  # bytes read after the end, when only a daemon can still be writing
FRESH = 0.05  # seconds for which a measurement is reused
MAX_WAIT = 1.0  # seconds per wait, because Ctrl-C just before a wait does not interrupt it
ENDED = 0  # key of the processes that have ended
PATIENCE = KILL_TIMEOUT + 5.0  # seconds after the grace period until a silent supervisor is killed
SAME = 1.02  # a peak below this multiple of the supervisor's own memory counts as inherited


class Child:
    """Call `start`, then `watch`, and in any case `end`.

    Attributes:
        messages: its messages so far.
        tail: the last lines of its other output.
        ending: how it ended; None while it runs, and if its supervisor was killed.
        end_reason: why the worker ended it; None if the worker did not.
        is_paused: whether the tuner told a training to end.
        at_rung: whether the last step of a training is one at which the tuner decided.
        is_suspended: whether it is stopped and can go on.
        before: the cost that it had reported when it was last suspended, by resource.
        folder: its temporary folder; None before it exists.

    Args:
        waits: whether a training waits for the answer to its report. That time is not its own.
        journal: the file for its messages; None for no file.
        keeps: whether it writes its progress into the journal itself.
        is_part: whether it is a part of a training, of which every report counts.
    """

    def __init__(
        self,
        metric: str,
        on_report: Callable[[Mapping[str, Any], Usage], str | None] | None,
        log: Log,
        *,
        prints_messages: bool,
        waits: bool = False,
        journal: Path | None = None,
        keeps: bool = False,
        is_part: bool = False,
    ) -> None:
        self.messages = Messages(metric)
        self.tail = Tail()
        self.log, self._prints_messages = log, prints_messages
        self.ending: Ending | None = None
        self._early: Ending | None = None  # as it was before the supervisor waited for descendants
        self.end_reason: str | None = None
        self.is_paused = self.at_rung = self.is_suspended = False
        self.before = dict[str, float]()
        self.folder: Path | None = None
        self.answers: Answers | None = None
        self._waits, self._waited = waits, 0.0  # seconds in which it waited for answers
        self._suspends = False  # whether the supervisor was told to stop it
        self._pause_until = math.inf  # when to end a training that does not end by itself
        self._grace = 0.0
        self._journal, self._keeps, self._is_part = journal, keeps, is_part
        self._on_report = on_report
        self._started_at = time.monotonic()
        self._supervisor: int | None = None  # process id; None before the start and after the end
        self._leader: int | None = None
        self._family = set[int]()  # the other processes of an evaluation that was killed from here
        self._link: socket.socket | None = None  # None if the supervisor has ended
        self._received = b""  # an incomplete line from the supervisor
        self._deadline = math.inf  # as last sent to the supervisor
        self._give_up_at = math.inf  # when to kill a supervisor that does not end the evaluation
        self._wall_s = self._cpu_s = 0.0
        self._cpu_before = 0.0  # CPU seconds until it was last suspended
        self._peak_mb = {ENDED: 0.0}  # by process id
        self._measured_at = -math.inf
        self._open = ExitStack()
        self._sources = selectors.PollSelector()

    def start(
        self, start: Start, folder: Path, *, timeout: float | None, deadline: float, grace: float
    ) -> None:
        """Fork the supervisor, which starts the evaluation.

        Raises:
            OSError: the system has no process or no file descriptor left.
        """
        self._deadline, self._grace = deadline, grace
        with ExitStack() as theirs:
            link, far_link = self._share(socket_pair(), theirs, self._receive)
            messages, far_messages = self._share(pipe(), theirs, self._read_messages)
            _, far_output = self._share(pipe(), theirs, self._read_output)
            config = SupervisorConfig(
                parent=os.getpid(),
                messages=far_messages.fileno(),
                output=far_output.fileno(),
                timeout=timeout,
                deadline=deadline,
                grace=grace,
                folder=os.fspath(folder),
                metric=self.messages.metric,
                journal="" if self._journal is None else os.fspath(self._journal),
                unread=-1 if self._journal is None else os.dup(messages.fileno()),
            )
            if config.unread != -1:
                theirs.callback(os.close, config.unread)

            def in_the_supervisor() -> NoReturn:
                self._open.close()
                supervise(far_link, start, config)

            def started(supervisor: int) -> None:
                self._supervisor, self._link = supervisor, link

            fork(in_the_supervisor, started)

    def watch(self, allowance: Allowance, grace: float) -> None:
        """Read its output until it ends, and ask `allowance.may_go_on` every tick."""
        tick = allowance.tick
        next_tick = time.monotonic() + tick
        while self._link is not None and not self.is_suspended:
            may_run = self.end_reason is None
            self._wait(
                min(next_tick, self._pause_until) - time.monotonic() if may_run else MAX_WAIT
            )
            if time.monotonic() >= self._pause_until:
                self._pause_until = math.inf
                self.request_end(grace)
            if may_run and self._link is not None and time.monotonic() >= next_tick:
                self.end_reason = allowance.may_go_on(self.usage)
                next_tick = time.monotonic() + tick
                if self.end_reason is not None:
                    self.request_end(grace)
                elif abs(allowance.until() - self._deadline) > tick:
                    self._deadline = allowance.until()
                    self._send(f"deadline {self._deadline}")
        self._read_rest()

    def resume(self, allowance: Allowance, until: int, journal: Path | None) -> None:
        """Let a suspended training go on to another step, as a new part with its own usage."""
        self._on_report, self._journal = allowance.on_report, journal
        self.is_paused = self.at_rung = self.is_suspended = False
        self._pause_until, self._suspends = math.inf, False
        self.before, self._cpu_before = dict(self.messages.reported), self._cpu_s
        self._started_at, self._waited, self._wall_s = time.monotonic(), 0.0, 0.0
        self._deadline = allowance.until()
        if journal is not None:
            append(journal, [{BEFORE: self.before}])
        if self.answers is not None:
            self.answers.give(f"continue {until}", journal)
        self._send(f"continue {self._deadline}", "" if journal is None else os.fspath(journal))

    def end(self, grace: float) -> None:
        """End it if it still runs, and wait until all its processes have ended."""
        self._on_report = None  # after an error or an interrupt, the caller needs no more reports
        interrupted = None
        while self._supervisor is not None:
            try:
                self.request_end(grace)
                while self._link is not None:
                    self._wait(MAX_WAIT)
                self._read_rest()
                if self.ending is None and self._leader is not None:  # the supervisor was killed
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(self._leader, signal.SIGKILL)
                with suppress(ChildProcessError):  # a handler of the program has reaped it
                    os.waitpid(self._supervisor, 0)
                self._replace_supervisor()
                self._supervisor = None
            except KeyboardInterrupt as again:
                interrupted, grace = again, 0.0
        self._open.close()
        self._sources.close()
        if self.answers is not None:
            self.answers.close()
            self.answers = None
        if interrupted is not None:
            raise interrupted

    def _replace_supervisor(self) -> None:
        """If the supervisor was killed, find out how the evaluation ended, and end the rest."""
        if self.ending is not None or self.folder is None:
            return
        ended_at = time.monotonic()
        status = end_survivors(self.folder, self._leader, self._family)
        has_exited = status is not None and os.WIFEXITED(status)
        if self._early is not None:
            self.ending = self._early
        elif has_exited and self.end_reason is None:  # it ended before its supervisor
            self.ending = Ending(ended_at, status)

    @property
    def usage(self) -> Usage:
        """What it has used so far; the total after its end."""
        ending = self.ending
        if ending is None:
            self._measure()
        # Usage never decreases, though the news of the end may arrive after a later measurement.
        at = time.monotonic() if ending is None else ending.at
        self._wall_s = max(self._wall_s, at - self._started_at - self._waited)
        peak_mb = max(self._peak_mb.values())
        if ending is not None:
            self._cpu_s = max(self._cpu_s, ending.cpu_s)
            # The kernel counts the memory of the forked process as that of the program it
            # executes. If the peak is no larger than that, the samples are more accurate.
            if ending.peak_mb > SAME * ending.supervisor_mb or not peak_mb:
                peak_mb = ending.peak_mb
        return Usage(
            self._wall_s,
            self._cpu_s - self._cpu_before,
            peak_mb,
            since(self.messages.reported, self.before),
        )

    @property
    def ended_by_itself(self) -> bool:
        """Whether it ended without being ended by the worker or the supervisor."""
        return self.ending is not None and self.ending.reason is None

    @property
    def invalid(self) -> str | None:
        """Why no evaluation of this kind can ever start; None if one may."""
        result = self.messages.result or {}
        not_started = self.ending is not None and self.ending.status == NOT_STARTED << 8
        return str(result["infrastructure"]) if not_started and INVALID in result else None

    # ── communication ──────────────────────────────────────────────────────────────────────

    def _share(
        self, ends: tuple[End, End], theirs: ExitStack, read: Callable[[End], Any]
    ) -> tuple[End, End]:
        """Keep the first end until `end`, and the second until the fork."""
        mine, other = ends
        self._open.enter_context(mine)
        theirs.enter_context(other)
        self._sources.register(mine, selectors.EVENT_READ, read)
        return ends

    def request_end(self, grace: float) -> None:
        """Ask the supervisor to end it."""
        self._give_up_at = min(self._give_up_at, time.monotonic() + grace + PATIENCE)
        self._send(f"end {grace}")

    def _send(self, command: str, rest: str = "") -> None:
        if self._link is not None:
            # The supervisor may have just ended, or be stopped with a full receive buffer.
            with suppress(OSError):
                self._link.send(os.fsencode(f"{command} {rest}\n"), socket.MSG_DONTWAIT)

    def _wait(self, timeout: float) -> None:
        for key, _ in self._sources.select(min(max(0.0, timeout), MAX_WAIT)):
            key.data(key.fileobj)
        # Checked after reading, because this process itself may have been stopped.
        if time.monotonic() >= self._give_up_at:
            self._kill_supervisor()

    def _kill_supervisor(self) -> None:
        """Kill a stopped or stuck supervisor after its descendants, which it keeps in its tree."""
        supervisor, link = self._supervisor, self._link
        if supervisor is None or link is None:
            return
        self._family = set(family(supervisor)) - {supervisor}
        groups = groups_of(supervisor) | ({self._leader} if self._leader is not None else set())
        for group in groups - {os.getpgrp()}:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGKILL)
        self._sources.unregister(link)
        self._link = None

    def _receive(self, link: socket.socket) -> None:
        try:
            data = link.recv(CHUNK)
        except ConnectionError:
            data = b""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "leader" in message:
                self._supervisor, self._leader = message["supervisor"], message["leader"]
            elif "suspended" in message:
                self.is_suspended = True
            elif "ended" in message:
                self._early = Ending(**message["ended"])
            else:
                self.ending = Ending(**message)
        if not data or self.ending is not None:
            self._sources.unregister(link)
            self._link = None

    def _read_messages(self, messages: FileIO) -> int:
        data, is_left = peek(messages.fileno())
        if data == b"":
            self._sources.unregister(messages)
        if self._prints_messages:
            self.log.feed(messages, data or b"")
        result = self.messages.result
        progress = self.messages.feed(data or b"")
        self._write_journal(progress, is_new=self.messages.result is not result)
        if data and is_left:  # if this process is killed before, the supervisor finds them
            messages.read(len(data))
        self._pass_on(progress)
        return len(data or b"")

    def _write_journal(self, progress: list[Mapping[str, Any]], *, is_new: bool) -> None:
        """Write what was read into the journal; `is_new`: there is a new result."""
        messages = self.messages
        if self._journal is None or not (progress or is_new or messages.partial):
            return
        results = [] if messages.result is None else [messages.result]
        if self._is_part:
            wall_s = time.monotonic() - self._started_at - self._waited
            used = wall_s, self._cpu_s - self._cpu_before
            new = [] if self._keeps else [with_usage(each, *used) for each in progress]
            append(self._journal, [*new, *(results if is_new else [])], messages.partial)
        else:  # its last value and its cost suffice
            valued = (each for each in reversed(messages.reports) if messages.metric in each)
            last = {"step": 0, **next(valued, {}), "cost": messages.reported}
            rewrite(self._journal, [last, *results], messages.partial)

    def _read_output(self, output: FileIO) -> int:
        data = output.read(CHUNK)
        if data == b"":
            self._sources.unregister(output)
        self.log.feed(output, data or b"")
        self.tail.feed(data or b"")
        return len(data or b"")

    def _read_rest(self) -> None:
        """Read what was written before the end, or before it was suspended."""
        for key in tuple(self._sources.get_map().values()):
            if key.fileobj is self._link:
                continue
            read = 0
            while (more := key.data(key.fileobj)) and read < MAX_REST:
                read += more
        if not self.is_suspended:
            self._pass_on(self.messages.close())

    def _pass_on(self, progress: list[Mapping[str, Any]]) -> None:
        for message in progress:
            if self._on_report is None:
                continue
            if self.is_paused and not self._suspends:  # it continues although it was told to end
                self._pause_until = -math.inf
            asked_at = time.monotonic()
            answer = self._on_report(message, self.usage)
            self.at_rung = answer is not None
            if answer is None or self.answers is None:
                continue
            if answer == "suspend":  # it gets its answer when it goes on
                self.is_paused = self._suspends = True
                self._send("suspend 0")
                continue
            self.answers.give(answer)
            if self._waits:
                self._waited += time.monotonic() - asked_at
            if not answer.startswith("continue"):
                self.is_paused = True
                if not self._waits:  # it may not know that it can be paused
                    self._pause_until = time.monotonic() + (0 if answer == "stop" else self._grace)

    def _measure(self) -> None:
        now = time.monotonic()
        if self._leader is None or self._supervisor is None or now - self._measured_at <= FRESH:
            return
        measured = measure(self._supervisor)
        self._cpu_s = max(self._cpu_s, measured.cpu_s)
        ended = (mb for pid, mb in self._peak_mb.items() if pid not in measured.peak_mb)
        # Only the last peak of a running process counts: the kernel resets it at each `exec`.
        self._peak_mb = {ENDED: max(ended, default=0.0), **measured.peak_mb}
        self._measured_at = now
