"""The supervisor: a process between the worker and the evaluation of one trial.

    worker process <-- link --> supervisor --> evaluation (leader of its own session) --> ...

The supervisor starts the evaluation and reports how it ended. It ends the evaluation on request, at
the timeout or the deadline, and if the worker process has ended in any way.

The worker forks one supervisor for each evaluation. A supervisor imports nothing, has one thread,
and waits almost all the time. On Linux it is a subreaper: it adopts orphaned descendants, so it can
end all of them, also those with their own process group or session. If the supervisor is killed,
the kernel kills the evaluation, and `survivors` ends the rest. On other systems, a descendant that
leaves the process group survives.
"""

from __future__ import annotations

import gc
import json
import math
import os
import resource
import select
import shutil
import signal
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from farthing.errors import InvalidInput
from farthing.running.journal import amend_ending, save_ending
from farthing.running.measuring import cpu_of, groups_of, measure, megabytes
from farthing.running.pipes import peek
from farthing.running.result import read_result_file
from farthing.running.survivors import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    lock_mark,
    mark_of,
    prctl,
)
from farthing.running.task import RESULT_FILE, Start

__all__ = ["INVALID", "KILL_TIMEOUT", "NOT_STARTED", "Ending", "SupervisorConfig", "supervise"]

LINGER = 0.5  # seconds that descendants may outlive the evaluation
CHECK_PARENT = 1.0  # seconds between checks whether the worker process is alive
CHECK_DESCENDANTS = 0.05  # seconds between checks for descendants after the evaluation has ended
KILL_TIMEOUT = 10.0  # seconds after SIGKILL until the supervisor stops waiting for the process

NOT_STARTED = 70  # exit code of an evaluation that could not start
INVALID = "farthing.invalid"  # key of a message: no evaluation of this kind can start

Reason = Literal["requested", "timeout", "deadline", "orphaned"]


@dataclass(frozen=True)
class SupervisorConfig:
    """What a supervisor knows from the start.

    Attributes:
        parent: process id of the worker.
        messages: file descriptor for the messages of the evaluation.
        output: file descriptor for its other output.
        timeout: seconds after which the evaluation is ended; None for never.
        deadline: monotonic time at which the wall-clock budget is spent. The worker may change it.
        grace: seconds between SIGTERM and SIGKILL.
        folder: temporary folder to remove if the worker cannot.
        metric: the key of the objective value in the messages.
        journal: the file of the messages that the worker has read (see `journal`); "" for none. The
            worker changes it when a suspended training goes on.
        unread: file descriptor of the messages that it has not read.
    """

    parent: int
    messages: int
    output: int
    timeout: float | None
    deadline: float
    grace: float
    folder: str
    metric: str = "value"
    journal: str = ""
    unread: int = -1


@dataclass(frozen=True)
class Ending:
    """How an evaluation ended; the last message of its supervisor.

    Attributes:
        at: monotonic time at which the evaluation ended.
        status: exit status as `os.wait` returns it; None if even SIGKILL did not end it.
        reason: why the supervisor ended it; None if it ended by itself.
        cpu_s: CPU seconds of the evaluation and its descendants.
        peak_mb: peak memory of the largest of these processes.
        supervisor_mb: peak memory of the supervisor.
        start_error: why the evaluation could not be started; None if it was.
    """

    at: float
    status: int | None = None
    reason: Reason | None = None
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    supervisor_mb: float = 0.0
    start_error: str | None = None


def supervise(link: socket.socket, start: Start, config: SupervisorConfig) -> NoReturn:
    """Run in a new process: start the evaluation, watch it, report how it ended."""
    try:
        gc.disable()  # only the parent may finalise the garbage that this process inherited
        for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        # If the parent ignores SIGCHLD, the kernel would reap the evaluation before `waitpid`.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        adopts = prctl(PR_SET_CHILD_SUBREAPER, 1)
        mark = lock_mark(config.folder)
        started_at, supervisor = time.monotonic(), os.getpid()
        leader = os.fork()
        if leader == 0:
            link.close()
            os.close(mark)  # only the supervisor keeps it locked
            _run_evaluation(start, config, supervisor)
        _close_all_except(link.fileno(), config.unread, mark)
        _send(link, {"supervisor": supervisor, "leader": leader})
        watch = _Watch(leader, link, started_at, config, adopts)
        _send(link, asdict(watch.wait_for_end()))
        if os.getppid() != config.parent:
            watch.save()  # again, because descendants may have printed more
            shutil.rmtree(config.folder, ignore_errors=True)
    except OSError as error:  # the fork failed
        _send(link, asdict(Ending(time.monotonic(), start_error=str(error))))
    finally:
        os._exit(0)


def _run_evaluation(start: Start, config: SupervisorConfig, supervisor: int) -> NoReturn:
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == supervisor:  # it may have died before the call above
            _reset_signals()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.open(mark_of(config.folder), os.O_RDONLY)  # a forked process has it open, too
            start(config.messages, config.output)
    except InvalidInput as error:
        _write(config.messages, {"infrastructure": str(error), INVALID: True})
    except BaseException as error:
        _write(config.messages, {"infrastructure": f"it could not be started: {error}"})
    finally:
        os._exit(NOT_STARTED)


def _reset_signals() -> None:
    """Restore the signal handlers of a new Python process."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError, ValueError):  # the C library reserves some
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class _Watch:
    """Watches an evaluation and its descendants until they have ended."""

    def __init__(
        self,
        leader: int,
        link: socket.socket,
        started_at: float,
        config: SupervisorConfig,
        adopts: bool,
    ) -> None:
        self.leader, self.link, self.config = leader, link, config
        self.adopts = adopts  # whether orphaned descendants become children of this process
        self.status: int | None = None  # how the leader ended
        self.is_reaped = False  # whether the leader no longer exists
        self.started_at = self.ended_at = started_at
        self.cpu_before = 0.0  # CPU seconds until it was last suspended
        self.journal = config.journal
        self.reason: Reason | None = None  # why this process ends the evaluation
        self.timeout_at = math.inf if config.timeout is None else started_at + config.timeout
        self.deadline = config.deadline
        self.received = b""  # an incomplete line from the worker
        self.requested_grace: float | None = None  # seconds; set if the worker requests the end
        self.kill_at = self.give_up_at = math.inf
        self.is_suspended = False  # while it is, neither the timeout nor the deadline holds
        self.stop_again_at = math.inf
        self.wake = _wake_when_a_child_ends()
        self.events = select.poll()
        self.events.register(self.wake, select.POLLIN)
        self.events.register(link, select.POLLIN)

    def wait_for_end(self) -> Ending:
        while not self._is_over(time.monotonic()):
            self._terminate(time.monotonic())
            self._stop_again(time.monotonic())
            self._kill(time.monotonic())
            self._wait(time.monotonic())
        return self._ending()

    def _ending(self) -> Ending:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Ending(
            self.ended_at,
            self.status,
            self.reason,
            used.ru_utime + used.ru_stime + (0.0 if self.is_reaped else cpu_of(self.leader)),
            megabytes(used.ru_maxrss),
            megabytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss),
        )

    def save(self) -> None:
        """Keep on the disk how the evaluation ended, because the worker may be killed now."""
        if not self.journal:
            return
        ending = self._ending()
        facts = {
            "status": ending.status,
            "reason": ending.reason or ("orphaned" if ending.status is None else None),
            "wall_s": ending.at - self.started_at,
            "cpu_s": ending.cpu_s - self.cpu_before,
            "peak_mb": ending.peak_mb,
            "metric": self.config.metric,
            "result_file": read_result_file(Path(self.config.folder, RESULT_FILE)),
        }
        save_ending(self.journal, facts, peek(self.config.unread)[0] or b"")

    def _tell_early(self) -> Ending:
        """Tell the worker how the leader ended, before descendants have ended."""
        ending = self._ending()
        _send(self.link, {"ended": asdict(ending)})
        return ending

    def _is_over(self, now: float) -> bool:
        no_child = False
        try:
            while (ended := _ended_child()) is not None:
                pid, status = ended
                if pid != self.leader:
                    _reap(pid)
                    continue
                self.status, self.ended_at = status, now
                self._tell_early()
                self.save()
                _reap(pid)  # only now, because this process may be killed at any time
                self.is_reaped = True
                ending = self._tell_early()
                if self.journal:
                    cpu_s = ending.cpu_s - self.cpu_before
                    amend_ending(self.journal, {"cpu_s": cpu_s, "peak_mb": ending.peak_mb})
                if self.reason is None:
                    self.kill_at = time.monotonic() + LINGER
        except ChildProcessError:
            no_child = True
        all_ended = no_child if self.adopts else not _exists(self.leader)
        return (self.status is not None and all_ended) or now >= self.give_up_at

    def _terminate(self, now: float) -> None:
        if self.reason is None and self.status is None:
            self.reason = self._reason_to_end(now)
            if self.reason is not None:
                self._signal(signal.SIGTERM)
                self._signal(signal.SIGCONT)  # a stopped process cannot handle SIGTERM
                self.kill_at = now + self.config.grace
        if self.requested_grace is not None:  # a second request may shorten the grace period
            self.kill_at = min(self.kill_at, now + self.requested_grace)
            self.requested_grace = None

    def _reason_to_end(self, now: float) -> Reason | None:
        if self.requested_grace is not None:
            return "requested"
        if now >= self.timeout_at and not self.is_suspended:
            return "timeout"
        if now >= self.deadline and not self.is_suspended:
            return "deadline"
        return "orphaned" if os.getppid() != self.config.parent else None

    def _suspend(self, now: float) -> None:
        """Stop all processes of the evaluation, and tell the worker."""
        self.is_suspended = True
        self._signal(signal.SIGSTOP)
        self.stop_again_at = now + CHECK_DESCENDANTS
        _send(self.link, {"suspended": True})

    def _stop_again(self, now: float) -> None:
        """Stop a process that was just being forked and has missed the signal."""
        if self.is_suspended and self.reason is None and now >= self.stop_again_at:
            self.stop_again_at = math.inf
            self._signal(signal.SIGSTOP)

    def _continue(self, now: float, deadline: float, journal: str) -> None:
        """Let all processes go on. The timeout holds for each part of a training."""
        self.is_suspended, self.deadline, self.journal = False, deadline, journal
        self.started_at, self.cpu_before = now, measure(os.getpid()).cpu_s
        if self.config.timeout is not None:
            self.timeout_at = now + self.config.timeout
        self._signal(signal.SIGCONT)

    def _kill(self, now: float) -> None:
        if now >= self.kill_at:
            self._signal(signal.SIGKILL)
            # Repeated, because a process that was just being forked may have missed the signal.
            self.kill_at = now + CHECK_DESCENDANTS
            self.give_up_at = min(self.give_up_at, now + KILL_TIMEOUT)

    def _signal(self, number: int) -> None:
        """Send a signal to the evaluation's process group and to those of its descendants."""
        _signal(self.leader, number)
        if self.adopts:
            for group in groups_of(os.getpid()) - {self.leader, os.getpgrp()}:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, number)

    def _wait(self, now: float) -> None:
        check_at = now + (CHECK_PARENT if self.status is None else CHECK_DESCENDANTS)
        is_timed = self.reason is None and not self.is_suspended
        end_at = min(self.timeout_at, self.deadline) if is_timed else self.stop_again_at
        wake_at = min(self.kill_at, check_at, end_at)
        for descriptor, _ in self.events.poll(max(0.0, wake_at - now) * 1000):
            if descriptor == self.wake:
                os.read(self.wake, 4096)
            else:
                self._receive()

    def _receive(self) -> None:
        """Read what the worker requests, each with a time in seconds.

        "deadline TIME", "suspend 0", "continue DEADLINE JOURNAL" and "end GRACE".
        """
        try:
            data = self.link.recv(4096)
        except OSError:  # the worker died with unread data
            data = b""
        *lines, self.received = (self.received + data).split(b"\n")
        for line in lines:
            command, seconds, *rest = line.split(b" ", 2)
            if command == b"deadline":
                self.deadline = float(seconds)
            elif command == b"suspend":
                self._suspend(time.monotonic())
            elif command == b"continue":
                self._continue(time.monotonic(), float(seconds), os.fsdecode(rest[0]))
            else:
                self.requested_grace = float(seconds)
        if not data:  # the worker has ended
            self.requested_grace = self.config.grace
            self.events.unregister(self.link)
            self.save()  # now, because this process may be killed soon, too


def _ended_child() -> tuple[int, int] | None:
    """The id and exit status of a child that has ended, which `_reap` then removes.

    Where the system cannot look at a child without reaping it, this reaps it: macOS before
    Python 3.13.
    """
    if not hasattr(os, "waitid"):
        pid, status = os.waitpid(-1, os.WNOHANG)
        return (pid, status) if pid else None
    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    has_exited = found.si_code == os.CLD_EXITED
    core = 0x80 if found.si_code == os.CLD_DUMPED else 0
    return found.si_pid, found.si_status << 8 if has_exited else found.si_status | core


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _wake_when_a_child_ends() -> int:
    """A file descriptor that becomes readable when a child process ends."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return reading


def _signal(leader: int, number: int) -> None:
    """Send a signal to the process group, or to the leader if it has no group yet."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        with suppress(ProcessLookupError):
            os.kill(leader, number)
    except PermissionError:
        pass  # it runs as another user by now, so this process may not signal it


def _exists(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _close_all_except(*kept: int) -> None:
    """Close inherited file descriptors, because other processes may wait for their end of file."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    try:
        descriptors = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:  # this system does not list them: try the likely ones
        descriptors = list(range(1024))
    for descriptor in set(descriptors) - {0, 1, 2, *kept}:
        with suppress(OSError):
            os.close(descriptor)


def _send(link: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):  # the worker may have ended
        link.sendall(json.dumps(message).encode() + b"\n")


def _write(messages: int, message: dict[str, Any]) -> None:
    with suppress(OSError):
        os.write(messages, b"\n" + json.dumps(message).encode() + b"\n")
