"""Trials as jobs of submitit: on Slurm, or on this machine.

    executor = submitit.AutoExecutor(folder="jobs")
    executor.update_parameters(timeout_min=240, slurm_partition="gpu", gpus_per_node=1)
    study.run(objective, engine=Submitit(executor, jobs=8))

A budget for people on Slurm without a database server: this process runs the study, and each trial
is a job. The node runs the trial in its own process group, measures it, and leaves none of its
processes behind. This process and the job write to each other in files of the folder of the
executor, which all nodes share.

    usage      what the trial has used, by the job at every tick
    progress   what it has reported, one line each
    answer-N   the decision of the tuner about the N-th report that waits for one
    alive      a number that this process raises at every tick
    end        why the trial must end

A job that ends without a result is lost. Slurm may start a job again; it then finds that the trial
has begun, and returns nothing. A job that sees no sign of life of this process ends its trial.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from farthing.errors import Interrupted, InvalidInput, MissingExtra

try:
    from submitit.core.core import Executor
    from submitit.core.utils import JobPaths
except ImportError as error:
    raise MissingExtra("submitit", "submitit") from error

from farthing.running import Allowance, CallableTask, Finished, Job, ProcessGroup, Task, Usage
from farthing.running.output import Messages
from farthing.running.remote_part import RemotePart
from farthing.running.result import killed, lost

__all__ = ["Submitit"]

NO_USAGE = Usage(0.0, 0.0, 0.0, {})
LISTEN = 0.05  # seconds between two looks at the files of a training in steps
LATE = 15.0  # seconds until the last files of a job are visible in a shared folder
SILENCE = 120.0  # seconds at least without a sign of life; a shared folder may be slow


def _no_objective(params: Mapping[str, Any]) -> float:
    raise InvalidInput(
        "Submitit(executor) is an engine. Pass it to study.run(objective, engine=...)."
    )


@dataclass(frozen=True)
class Submitit:
    """An engine that runs each trial as a job.

    Args:
        executor: an executor of submitit, with the resources of a trial. Its time limit should be
            longer than a trial may take: the trial of a job that Slurm ends is lost.
        jobs: the number of trials that wait or run at the same time.
    """

    executor: Any
    jobs: int = 1
    task: Task = field(default=CallableTask(_no_objective), repr=False)
    timeout: float | None = None
    grace: float = 5.0
    lease: float = 15.0
    _lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)

    kills: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.executor, Executor):
            raise InvalidInput(
                f"Submitit({self.executor!r}): expected an executor, such as "
                'submitit.AutoExecutor(folder="jobs").'
            )
        if isinstance(self.jobs, bool) or not isinstance(self.jobs, int) or self.jobs < 1:
            raise InvalidInput(f"Submitit(jobs={self.jobs!r}): expected a number of at least 1.")

    @property
    def slots(self) -> int:
        """The number of trials at the same time."""
        return self.jobs

    def evaluating(
        self, task: Task, *, timeout: float | None, grace: float, lease: float
    ) -> Submitit:
        """The engine that evaluates this task."""
        return replace(self, task=task, timeout=timeout, grace=grace, lease=lease)

    def run(self, job: Job, allowance: Allowance) -> Finished:
        """Evaluate one trial; see `Engine.run`."""
        watch = _Watch(self, job, allowance)
        try:
            watch.start()
            return watch.wait()
        except KeyboardInterrupt as interrupt:
            raise Interrupted(watch.end("interrupted from the keyboard")) from interrupt
        except BaseException:
            watch.end("the run ended")
            raise
        finally:
            watch.close()


class _Watch:
    """One trial, as this process sees it."""

    def __init__(self, engine: Submitit, job: Job, allowance: Allowance) -> None:
        self.engine, self.job, self.allowance = engine, job, allowance
        self.folder = _Folder(
            JobPaths.get_first_id_independent_folder(engine.executor.folder)
            / f"farthing-{uuid.uuid4().hex}"
        )
        self.messages = Messages(engine.task.metric)
        self.submitted: Any = None
        self.used, self.heard = NO_USAGE, ""  # the last usage, and the text of the file
        self.last: float | None = None  # when it was read; None before the trial begins
        self.over: float | None = None  # since when the job has ended
        self.lines = self.answers = self.ticks = 0
        self.ending: str | None = None  # why the trial must end
        self.patience = max(engine.lease, SILENCE)

    def start(self) -> None:
        engine, folder = self.engine, self.folder
        folder.path.mkdir(parents=True)
        arguments = (engine.task, self.job, folder.path, self.allowance.tick)
        limits = (engine.timeout, engine.grace, self.patience)
        try:
            with engine._lock:
                self.submitted = engine.executor.submit(_evaluate, *arguments, *limits)
        except Exception as error:
            raise InvalidInput(
                f"The trial cannot be submitted: {error}. The objective must not contain open "
                "files, locks or connections."
            ) from error

    def wait(self) -> Finished:
        """Wait for the end, and check at every tick whether the trial may continue."""
        tick = self.allowance.tick
        pause = tick if self.job.part is None else min(tick, LISTEN)
        next_tick = ends_at = time.monotonic()
        while (finished := self._finished()) is None:
            self._read()
            now = time.monotonic()
            if now >= next_tick:
                next_tick, self.ticks = now + tick, self.ticks + 1
                self.folder.write("alive", str(self.ticks))
                if self.ending is None and (why := self.allowance.may_go_on(self.usage)):
                    self._tell_to_end(why)
                    ends_at = now + self.engine.grace + self.patience
                if self.ending is not None and (now >= ends_at or not self.folder.has_begun):
                    return self._cancelled()
            time.sleep(pause)
        self._read()
        return finished

    def end(self, why: str) -> Finished:
        """End the trial now, even after an error."""
        self.allowance = replace(self.allowance, on_report=None)
        if self.submitted is None:
            return lost(self.messages, NO_USAGE, why)
        self._tell_to_end(self.ending or why)
        ends_at = time.monotonic() + self.engine.grace + self.engine.lease
        while self.folder.has_begun and time.monotonic() < ends_at:
            if (finished := self._finished()) is not None:
                return finished
            time.sleep(LISTEN)
        return self._cancelled()

    def close(self) -> None:
        shutil.rmtree(self.folder.path, ignore_errors=True)

    @property
    def usage(self) -> Usage:
        """The known usage so far; a trial that waits in the queue uses nothing."""
        if self.last is None:
            return NO_USAGE
        return self.used._replace(wall_s=self.used.wall_s + time.monotonic() - self.last)

    def _tell_to_end(self, why: str) -> None:
        self.ending = why
        self.folder.write("end", why)

    def _cancelled(self) -> Finished:
        with suppress(Exception):
            self.submitted.cancel(check=False)
        return killed(self.messages, self.usage, self.ending or "cancelled")

    def _read(self) -> None:
        """Take note of what the trial has used and reported, and answer it."""
        usage = self.folder.read("usage")
        if usage is not None and usage != self.heard:
            self.used, self.heard, self.last = Usage(*json.loads(usage)), usage, time.monotonic()
        lines = (self.folder.read("progress") or "").split("\n")[:-1]
        for line in lines[self.lines :]:
            message, at = json.loads(line)
            self.used, self.last = Usage(*at), time.monotonic()
            self.messages.reports.append(message)
            if self.allowance.on_report is not None:
                decision = self.allowance.on_report(message, self.used)
                if decision is not None:
                    self.folder.write(f"answer-{self.answers}", decision)
                    self.answers += 1
                    self.last = time.monotonic()  # the time until now is not that of the training
        self.lines = len(lines)

    def _finished(self) -> Finished | None:
        """The result of a job that has ended; None if it has not."""
        if not self.submitted.paths.result_pickle.exists():
            if self.over is None and self.submitted.done():
                self.over = time.monotonic()
            if self.over is None or time.monotonic() < self.over + LATE:
                return None
            return self._lost("its job ended without a result")
        try:
            finished = self.submitted.result()
        except Exception as error:  # errors of the objective are caught in the job
            raise InvalidInput(
                f"The job {self.submitted.job_id} failed: {error}. The nodes need the same version "
                "of Farthing, and the modules that the objective imports."
            ) from error
        if finished is None:
            return self._lost("its job was started again")
        if isinstance(finished, str):
            raise InvalidInput(finished)
        assert isinstance(finished, Finished)
        return finished

    def _lost(self, why: str) -> Finished:
        if self.ending is not None:
            return killed(self.messages, self.usage, self.ending)
        lines = (self.submitted.stderr() or "").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return lost(self.messages, self.usage, f"{why} (job {self.submitted.job_id}){last}")


class _Folder:
    """The files by which this process and a job write to each other."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> None:
        new = self.path / f".{name}"
        new.write_text(text, encoding="utf-8")
        new.replace(self.path / name)

    def append(self, name: str, line: str) -> None:
        with open(self.path / name, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def read(self, name: str) -> str | None:
        with suppress(FileNotFoundError):
            return (self.path / name).read_text(encoding="utf-8")
        return None

    def begin(self) -> bool:
        """Whether this job is the first one that begins the trial."""
        with suppress(FileExistsError):
            os.close(os.open(self.path / "begun", os.O_CREAT | os.O_EXCL))
            return True
        return False

    @property
    def has_begun(self) -> bool:
        return (self.path / "begun").exists()


def _evaluate(
    task: Task,
    job: Job,
    path: Path,
    tick: float,
    timeout: float | None,
    grace: float,
    patience: float,
) -> Finished | str | None:
    """Evaluate the trial in a job.

    Returns:
        Its result; None if another job had begun it; or why no trial of this kind can run.
    """
    folder = _Folder(path)
    if not path.is_dir() or not folder.begin():
        return None
    last, heard, asked = time.monotonic(), None, 0

    def ending() -> str | None:
        """Why the trial must end."""
        nonlocal last, heard
        now = folder.read("alive")
        if now != heard:
            last, heard = time.monotonic(), now
        silent = time.monotonic() - last > patience
        alone = f"the process that runs the study gave no sign of life for {patience:g} s"
        return folder.read("end") or (alone if silent else None)

    def may_go_on(usage: Usage) -> str | None:
        folder.write("usage", json.dumps(usage))
        return ending()

    def receive() -> str | None:
        nonlocal asked
        while (decision := folder.read(f"answer-{asked}")) is None and ending() is None:
            time.sleep(LISTEN)
        asked += 1
        return decision

    def on_report(message: Mapping[str, Any], usage: Usage) -> str | None:
        folder.append("progress", json.dumps((message, usage)))
        return part.answer(message, receive)

    try:
        part = RemotePart(job, task.metric)
        folder.write("usage", json.dumps(NO_USAGE))
        engine = ProcessGroup(task, timeout=timeout, grace=grace)
        return engine.run(job, Allowance(tick, may_go_on, on_report))
    except InvalidInput as error:
        return str(error)
    except OSError:
        if path.is_dir():
            raise
        return None  # the process that runs the study has given up the trial
