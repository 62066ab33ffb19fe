"""Trials as tasks of a Ray cluster.

    ray.init("auto")
    study.run(objective, engine=Ray(num_gpus=1))

On the node each trial runs in a process group of its own, as on this machine: it is measured there,
and nothing of it survives. The task is a stream of what the trial has used and reported; one that
may not go on is cancelled, first so that its trial can end in its grace, then by force. A trial
whose process or node dies is lost, and Ray is told not to begin it again. When this process dies,
Ray ends its tasks, and with them their trials.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from farthing.errors import Interrupted, InvalidInput, MissingExtra

try:
    import ray
except ImportError as error:
    raise MissingExtra("ray", "Ray") from error

from farthing.integrations.capacity import places, warn_if_none
from farthing.running import Allowance, CallableTask, Finished, Job, ProcessGroup, Task, Usage
from farthing.running.output import Messages
from farthing.running.result import killed, lost

__all__ = ["Ray"]

NOTHING = Usage(0.0, 0.0, 0.0, {})
FORCE = 5.0  # seconds after its grace, until a task that was cancelled is killed
LISTEN = 0.02  # seconds: how soon a task notices that it was cancelled

Word = tuple[
    str, Any
]  # "used" usage, "progress" (message, usage), "finished" Finished, "invalid" why


def _nothing(params: Mapping[str, Any]) -> float:
    raise InvalidInput("Ray() is given to study.run(objective, engine=...), not called.")


@dataclass(frozen=True)
class Ray:
    """Each trial as a task of the Ray cluster that this process is connected to.

    Args:
        num_cpus: of each trial.
        num_gpus: of each trial.
        resources: others that nodes were started with, {"license": 1}.
    """

    num_cpus: float = 1
    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    task: Task = field(default=CallableTask(_nothing), repr=False)
    timeout: float | None = None
    grace: float = 5.0

    kills: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not all(need >= 0 for need in self._needs.values()):
            raise InvalidInput(f"{self}: expected amounts of at least 0.")
        if not any(self._needs.values()):
            raise InvalidInput(f"{self}: a trial takes something. Say num_cpus=0.1 for little.")

    @property
    def _needs(self) -> dict[str, float]:
        return {"CPU": self.num_cpus, "GPU": self.num_gpus, **self.resources}

    @property
    def slots(self) -> int:
        """How many times the nodes of the cluster have what a trial takes."""
        return max(1, self._places())

    def _places(self) -> int:
        _check()
        return places(self._needs, [node["Resources"] for node in ray.nodes() if node["Alive"]])

    def evaluating(self, task: Task, *, timeout: float | None, grace: float, lease: float) -> Ray:
        """The engine that evaluates this there; Ray has its own way to see who is lost."""
        warn_if_none(self._places(), self._needs)
        return replace(self, task=task, timeout=timeout, grace=grace)

    def run(self, job: Job, allowance: Allowance) -> Finished:
        """Evaluate one trial, as `Engine.run` says."""
        _check()
        watch = _Watch(self, job, allowance)
        try:
            watch.start()
            return watch.until_the_end()
        except KeyboardInterrupt as interrupt:
            raise Interrupted(watch.end("interrupted from the keyboard")) from interrupt
        except BaseException:
            watch.end("the run ended")
            raise


def _check() -> None:
    if not ray.is_initialized():
        raise InvalidInput(
            'Ray is not started here: say ray.init() first, or ray.init("auto") to join a cluster.'
        )


class _Watch:
    """One trial, seen from here."""

    def __init__(self, engine: Ray, job: Job, allowance: Allowance) -> None:
        self.engine, self.job, self.allowance = engine, job, allowance
        self.messages = Messages(engine.task.metric)
        self.stream: Any = None
        self.used = NOTHING
        self.last: float | None = None  # when it was last heard of; None: it has not begun
        self.finished: Finished | None = None
        self.ending: str | None = None  # why it was told to end
        self.force_at = float("inf")

    def start(self) -> None:
        engine = self.engine
        there = ray.remote(_evaluate).options(
            num_cpus=engine.num_cpus,
            num_gpus=engine.num_gpus,
            resources=dict(engine.resources) or None,
            max_retries=0,
            num_returns="streaming",
        )
        try:
            tick = self.allowance.tick
            self.stream = there.remote(engine.task, self.job, tick, engine.timeout, engine.grace)
        except Exception as error:
            raise InvalidInput(
                f"The objective cannot be sent to Ray: {error}. Keep open files, locks and "
                "connections out of it."
            ) from error

    def until_the_end(self) -> Finished:
        """Listen, and ask every tick whether it may go on."""
        tick = self.allowance.tick
        next_tick = time.monotonic() + tick
        while (finished := self._listen(max(next_tick - time.monotonic(), 0.0))) is None:
            now = time.monotonic()
            if now >= next_tick:
                next_tick = now + tick
                if self.ending is None:
                    why = self.allowance.may_go_on(self.usage)
                    if why is not None:
                        self._cancel(why)
                elif now >= self.force_at:
                    ray.cancel(self.stream, force=True)
        return finished

    def end(self, why: str) -> Finished:
        """It must end now, whatever has happened."""
        self.allowance = replace(self.allowance, on_report=None)
        finished = None
        if self.stream is not None and ray.is_initialized():
            with suppress(Exception):
                self._cancel(why)
                while finished is None:
                    if time.monotonic() >= self.force_at:
                        ray.cancel(self.stream, force=True)
                    finished = self._listen(LISTEN)
        return finished or killed(self.messages, self.usage, why)

    @property
    def usage(self) -> Usage:
        """What it has used, as far as it is known; a trial that waits for a node uses nothing."""
        if self.last is None:
            return NOTHING
        return self.used._replace(wall_s=self.used.wall_s + time.monotonic() - self.last)

    def _cancel(self, why: str) -> None:
        self.ending = self.ending or why
        self.force_at = time.monotonic() + self.engine.grace + FORCE
        ray.cancel(self.stream)

    def _listen(self, timeout: float) -> Finished | None:
        """One word of the task, if there is one; what became of the trial, if it is over."""
        try:
            ready, _ = ray.wait([self.stream], timeout=timeout, fetch_local=False)
            if not ready:
                return None
            kind, word = ray.get(next(self.stream))
        except (StopIteration, ray.exceptions.TaskCancelledError):
            return self._over("its task was cancelled from elsewhere")
        except ray.exceptions.OutOfMemoryError as error:
            return self._over(f"its node ran out of memory: {_first_line(error)}")
        except (
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.LocalRayletDiedError,
            ray.exceptions.ObjectLostError,
        ) as error:
            return self._over(f"its Ray worker died: {_first_line(error)}")
        except ray.exceptions.RayError as error:  # not the objective's, which are caught there
            *_, reason = str(error).strip().split("\n")
            raise InvalidInput(
                f"Ray cannot evaluate: {reason}. Its nodes need the same farthing, and what the "
                "objective imports."
            ) from error
        self.last = time.monotonic()
        if kind == "finished":
            self.finished = word
        elif kind == "invalid":
            raise InvalidInput(word)
        elif kind == "used":
            self.used = word
        else:
            progress, self.used = word
            self.messages.reports.append(progress)
            if self.allowance.on_report is not None:
                self.allowance.on_report(progress, self.used)
        return None

    def _over(self, why: str) -> Finished:
        if self.finished is not None:
            if self.ending is not None and self.finished.state == "killed":
                return replace(self.finished, error=self.ending)
            return self.finished
        if self.ending is not None:
            return killed(self.messages, self.usage, self.ending)
        return lost(self.messages, self.usage, why)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _evaluate(
    task: Task, job: Job, tick: float, timeout: float | None, grace: float
) -> Iterator[Word]:
    """What a node does: the trial in a thread, so that this one hears when it is cancelled."""
    words: queue.SimpleQueue[Word] = queue.SimpleQueue()
    cancelled = threading.Event()

    def may_go_on(usage: Usage) -> str | None:
        words.put(("used", usage))
        return "cancelled" if cancelled.is_set() else None

    def on_report(message: Mapping[str, Any], usage: Usage) -> None:
        words.put(("progress", (dict(message), usage)))

    def evaluate() -> None:
        try:
            engine = ProcessGroup(task, timeout=timeout, grace=grace)
            words.put(("finished", engine.run(job, Allowance(tick, may_go_on, on_report))))
        except InvalidInput as error:
            words.put(("invalid", str(error)))

    thread = threading.Thread(target=evaluate, daemon=True)
    yield "used", NOTHING
    thread.start()
    try:
        while thread.is_alive() or not words.empty():
            with suppress(queue.Empty):
                yield words.get(timeout=LISTEN)
    finally:  # cancelled: nothing of it runs any more when the task is over
        cancelled.set()
        while thread.is_alive():
            with suppress(KeyboardInterrupt):
                thread.join(LISTEN)
