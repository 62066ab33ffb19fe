"""The engine that runs each trial in its own process group, and ends all its processes."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from farthing.errors import Interrupted, InvalidInput
from farthing.running.child import Child
from farthing.running.engine import Allowance, Job
from farthing.running.finished import Finished
from farthing.running.journal import since
from farthing.running.log import Log
from farthing.running.result import ended, killed, lost, paused, read_result_file
from farthing.running.survivors import FOLDER, MARK, adopting_orphans, mark_of
from farthing.running.task import RESULT_FILE, Task
from farthing.running.training import Answers

__all__ = ["ProcessGroup"]

INTERRUPT_GRACE = 1.0  # seconds at most between SIGTERM and SIGKILL after Ctrl-C


@dataclass(frozen=True)
class ProcessGroup:
    """Runs each trial in its own process group on this machine.

    Half a second after a trial has ended, the engine kills the processes that the trial left. On
    Linux this includes processes with their own process group or session.

    Args:
        task: what to evaluate.
        timeout: seconds after which a trial is killed; None for never.
        grace: seconds between SIGTERM and SIGKILL.

    Attributes:
        suspended: the trainings that are stopped and can go on, by number. They end when the
            process that started them ends.
    """

    task: Task
    timeout: float | None = None
    grace: float = 5.0
    suspended: dict[int, Child] = field(default_factory=dict, init=False, repr=False, compare=False)

    kills: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise InvalidInput(
                f"timeout={self.timeout!r}: expected a positive number of seconds, or None for no "
                "limit."
            )
        if not 0 <= self.grace < math.inf:
            raise InvalidInput(f"grace={self.grace!r}: expected a number of seconds, at least 0.")

    def run(self, job: Job, allowance: Allowance) -> Finished:
        """Evaluate one trial (see `Engine.run`). A suspended training goes on where it was."""
        child = self.suspended.pop(job.number, None)
        if child is None:
            child = self._new(job, allowance)
        elif job.part is not None:
            child.resume(allowance, job.part.until, job.journal)
        try:
            with adopting_orphans():
                return replace(self._run(child, job, allowance), tail=child.log.tail)
        except Interrupted as interrupted:
            raise Interrupted(replace(interrupted.finished, tail=child.log.tail)) from interrupted
        finally:
            if job.number not in self.suspended:
                self._close(child)

    def _new(self, job: Job, allowance: Allowance) -> Child:
        part = job.part
        waits = part is not None and self.task.waits
        return Child(
            *(self.task.metric, allowance.on_report, Log(job.log)),
            prints_messages=self.task.prints_messages,
            waits=waits,
            journal=job.journal,
            keeps=waits,  # a function that takes its training writes its reports itself
            is_part=part is not None,
        )

    def _close(self, child: Child) -> None:
        """End an evaluation that still runs, and remove what belongs to it."""
        try:
            child.end(self.grace)
        finally:
            if child.folder is not None:
                shutil.rmtree(child.folder, ignore_errors=True)
            child.log.close()

    def _run(self, child: Child, job: Job, allowance: Allowance) -> Finished:
        try:
            if child.folder is None:
                try:
                    self._start(child, job, allowance)
                except OSError as error:
                    return lost(child.messages, child.usage, f"it could not be started: {error}")
            child.watch(allowance, self.grace)
            if child.is_suspended:
                self.suspended[job.number] = child
                return paused(child.messages, child.usage)
            child.end(self.grace)
            return self._finished(child)
        except KeyboardInterrupt as interrupt:
            with suppress(KeyboardInterrupt):  # a further Ctrl-C changes nothing
                child.end(min(self.grace, INTERRUPT_GRACE))
            if child.folder is not None and child.ended_by_itself:
                finished = self._finished(child)
            else:
                finished = _killed(child, "interrupted from the keyboard")
            raise Interrupted(finished) from interrupt

    def _start(self, child: Child, job: Job, allowance: Allowance) -> None:
        child.folder = Path(tempfile.mkdtemp(prefix=FOLDER))
        if job.part is not None:
            child.answers = Answers(child.folder, job.part.until)
        env = {**(job.env or {}), MARK: mark_of(child.folder)}
        start = self.task.prepare(replace(job, env=env), child.folder)
        deadline = allowance.until()
        child.start(start, child.folder, timeout=self.timeout, deadline=deadline, grace=self.grace)

    def end_suspended(self, numbers: Iterable[int]) -> None:
        """End suspended trainings: all of them at once get SIGTERM, and SIGKILL after the grace."""
        ended = [self.suspended.pop(number) for number in list(numbers)]
        for child in ended:
            child.request_end(self.grace)
        for child in ended:
            self._close(child)

    def _finished(self, child: Child) -> Finished:
        """The result of an evaluation that has ended."""
        assert child.folder is not None
        ending = child.ending
        if ending is None and child.end_reason is not None:
            return _killed(child, child.end_reason)
        if ending is None:
            return lost(child.messages, child.usage, "the trial's supervisor process was killed")
        if ending.start_error is not None:
            reason = f"it could not be started: {ending.start_error}"
            return lost(child.messages, child.usage, reason)
        if child.invalid is not None:
            raise InvalidInput(child.invalid)
        if ending.reason == "timeout":
            return _killed(child, f"killed at its timeout of {self.timeout:g} s")
        if ending.reason == "deadline":
            return _killed(child, "the wall-clock budget is spent")
        if child.is_paused and child.end_reason is None and ending.reason == "requested":
            return paused(child.messages, child.usage)
        if ending.reason is not None or ending.status is None:
            return _killed(child, child.end_reason or "killed on request")
        finished = ended(
            child.messages,
            child.usage,
            status=ending.status,
            tail=child.tail.text,
            result_file=read_result_file(child.folder / RESULT_FILE),
            # A function says itself whether it was paused.
            at_rung=self.task.prints_messages and (child.at_rung or child.is_paused),
        )
        return replace(finished, cost=since(finished.cost, child.before))


def _killed(child: Child, reason: str) -> Finished:
    return killed(child.messages, child.usage, reason, tail=child.tail.text)
