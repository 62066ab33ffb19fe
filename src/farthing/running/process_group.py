"""The engine that evaluates in a process group of its own, and is there until it is gone."""

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
from farthing.running.result import ended, killed, lost, read_result_file
from farthing.running.task import RESULT_FILE, Task

__all__ = ["ProcessGroup"]

IMPATIENT_GRACE = 1.0  # seconds, when somebody waits at the keyboard


@dataclass(frozen=True)
class ProcessGroup:
    """Each trial in a process group of its own that nothing survives, on this machine.

    One that ends takes with it whatever it started, after half a second: on Linux also what made a
    group or a session of its own.

    Args:
        task: what to evaluate.
        timeout: seconds after which a trial is ended, None for never.
        grace: seconds between SIGTERM and SIGKILL.
    """

    task: Task
    timeout: float | None = None
    grace: float = 5.0

    kills: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise InvalidInput(
                f"timeout={self.timeout!r}: expected seconds above 0, or None for no limit."
            )
        if not 0 <= self.grace < math.inf:
            raise InvalidInput(f"grace={self.grace!r}: expected seconds of at least 0.")

    def run(self, job: Job, allowance: Allowance) -> Finished:
        """Evaluate one trial, as `Engine.run` says."""
        log = Log(job.log)
        try:
            return replace(self._run(job, allowance, log), tail=log.tail)
        except Interrupted as interrupted:
            raise Interrupted(replace(interrupted.finished, tail=log.tail)) from interrupted
        finally:
            log.close()

    def _run(self, job: Job, allowance: Allowance, log: Log) -> Finished:
        prints = self.task.prints_messages
        child = Child(self.task.metric, allowance.on_report, log, prints_messages=prints)
        folder: Path | None = None
        try:
            try:
                folder = Path(tempfile.mkdtemp(prefix="farthing-"))
                start = self.task.prepare(job, folder)
                until = allowance.until()
                child.start(start, folder, timeout=self.timeout, until=until, grace=self.grace)
            except OSError as error:
                return lost(child.messages, child.usage, f"it could not be started: {error}")
            child.watch(allowance, self.grace)
            child.end(self.grace)
            return self._finished(child, folder)
        except KeyboardInterrupt as interrupt:
            with suppress(KeyboardInterrupt):  # one is enough
                child.end(min(self.grace, IMPATIENT_GRACE))
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
        """What became of a child that is no more."""
        ending = child.ending
        if ending is None and child.told_to_end is not None:
            return _killed(child, child.told_to_end)
        if ending is None:
            return lost(child.messages, child.usage, "its guard was killed")
        if ending.unstarted is not None:
            why = f"it could not be started: {ending.unstarted}"
            return lost(child.messages, child.usage, why)
        if child.invalid is not None:
            raise InvalidInput(child.invalid)
        if ending.why == "timeout":
            return _killed(child, f"killed at its timeout of {self.timeout:g} s")
        if ending.why == "spent":
            return _killed(child, "the budget of wall time is spent, and nobody had asked")
        if ending.why is not None or ending.status is None:
            return _killed(child, child.told_to_end or "killed: it was told to end")
        return ended(
            child.messages,
            child.usage,
            status=ending.status,
            tail=child.tail.text,
            result_file=read_result_file(folder / RESULT_FILE),
        )


def _killed(child: Child, why: str) -> Finished:
    return killed(child.messages, child.usage, why, tail=child.tail.text)
