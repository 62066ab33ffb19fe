"""The engine that runs each trial in its own process group, and ends all its processes."""

from __future__ import annotations

import math
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from farthing.errors import Interrupted, InvalidInput
from farthing.running.child import Child
from farthing.running.engine import Allowance, Job
from farthing.running.finished import Finished
from farthing.running.log import Log
from farthing.running.result import ended, killed, lost, paused, read_result_file
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
    """

    task: Task
    timeout: float | None = None
    grace: float = 5.0

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
        """Evaluate one trial (see `Engine.run`)."""
        log = Log(job.log)
        try:
            return replace(self._run(job, allowance, log), tail=log.tail)
        except Interrupted as interrupted:
            raise Interrupted(replace(interrupted.finished, tail=log.tail)) from interrupted
        finally:
            log.close()

    def _run(self, job: Job, allowance: Allowance, log: Log) -> Finished:
        prints = self.task.prints_messages
        waits = job.part is not None and self.task.waits
        child = Child(
            *(self.task.metric, allowance.on_report, log),
            prints_messages=prints,
            waits=waits,
            # A function that takes its training writes its journal itself.
            journal=None if job.part is None or waits else job.part.journal,
        )
        folder: Path | None = None
        try:
            try:
                folder = Path(tempfile.mkdtemp(prefix="farthing-"))
                if job.part is not None:
                    child.answers = Answers(folder, job.part.until)
                start = self.task.prepare(job, folder)
                deadline = allowance.until()
                child.start(
                    start, folder, timeout=self.timeout, deadline=deadline, grace=self.grace
                )
            except OSError as error:
                return lost(child.messages, child.usage, f"it could not be started: {error}")
            child.watch(allowance, self.grace)
            child.end(self.grace)
            return self._finished(child, folder)
        except KeyboardInterrupt as interrupt:
            with suppress(KeyboardInterrupt):  # a further Ctrl-C changes nothing
                child.end(min(self.grace, INTERRUPT_GRACE))
            if folder is not None and child.ended_by_itself:
                finished = self._finished(child, folder)
            else:
                finished = _killed(child, "interrupted from the keyboard")
            raise Interrupted(finished) from interrupt
        finally:
            child.end(self.grace)
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def _finished(self, child: Child, folder: Path) -> Finished:
        """The result of an evaluation that has ended."""
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
            return _killed(child, "the wall-clock budget is spent, and the worker did not respond")
        if child.is_paused and child.end_reason is None and ending.reason == "requested":
            return paused(child.messages, child.usage)
        if ending.reason is not None or ending.status is None:
            return _killed(child, child.end_reason or "killed on request")
        return ended(
            child.messages,
            child.usage,
            status=ending.status,
            tail=child.tail.text,
            result_file=read_result_file(folder / RESULT_FILE),
            # A function says itself whether it was paused.
            at_rung=self.task.prints_messages and (child.at_rung or child.is_paused),
        )


def _killed(child: Child, reason: str) -> Finished:
    return killed(child.messages, child.usage, reason, tail=child.tail.text)
