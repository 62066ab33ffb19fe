"""Trials as tasks of a Ray cluster.

    ray.init("auto")
    study.run(objective, engine=Ray(num_gpus=1))

A node runs each trial in its own process group, as on this machine. It measures the trial there,
and leaves none of its processes behind. The task is a stream of what the trial has used and
reported.

If a trial may not continue, its task is cancelled: first with the grace period for the trial, then
by force. A trial whose process or node dies is lost, and Ray does not start it again. If this
process dies, Ray ends its tasks, and with them their trials.

A training in steps waits on its node for the decision of the tuner, which comes through an actor.
If it is paused, its task ends, and it is resumed by another task, which may run on another node.
Its checkpoints must therefore be in a folder that all nodes share.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from farthing.errors import Interrupted, InvalidInput, MissingExtra

try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise MissingExtra("ray", "Ray") from error

from farthing.integrations.capacity import capacity, warn_if_none
from farthing.running import Allowance, CallableTask, Finished, Job, ProcessGroup, Task, Usage
from farthing.running.output import Messages
from farthing.running.remote_part import RemotePart
from farthing.running.result import killed, lost

__all__ = ["Ray"]

NO_USAGE = Usage(0.0, 0.0, 0.0, {})
FORCE = 5.0  # seconds after the grace period until a cancelled task is killed
LISTEN = 0.02  # seconds until a task notices that it was cancelled

# ("used", usage), ("progress", (message, usage)), ("finished", Finished) or ("invalid", why)
Message = tuple[str, Any]


def _no_objective(params: Mapping[str, Any]) -> float:
    raise InvalidInput("Ray() is an engine. Pass it to study.run(objective, engine=Ray()).")


@dataclass(frozen=True)
class Ray:
    """An engine that runs each trial as a task of the Ray cluster of this process.

    Args:
        num_cpus: the CPUs of each trial.
        num_gpus: the GPUs of each trial.
        resources: other resources that nodes were started with, {"license": 1}.
    """

    num_cpus: float = 1
    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    task: Task = field(default=CallableTask(_no_objective), repr=False)
    timeout: float | None = None
    grace: float = 5.0

    kills: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not all(need >= 0 for need in self._needs.values()):
            raise InvalidInput(f"{self}: expected amounts of at least 0.")
        if not any(self._needs.values()):
            raise InvalidInput(
                f"{self}: a trial needs at least one resource. Give num_cpus=0.1 for a small trial."
            )

    @property
    def _needs(self) -> dict[str, float]:
        return {"CPU": self.num_cpus, "GPU": self.num_gpus, **self.resources}

    @property
    def slots(self) -> int:
        """The number of trials that the cluster can run at the same time."""
        return max(1, self._capacity())

    def _capacity(self) -> int:
        _check()
        return capacity(self._needs, [node["Resources"] for node in ray.nodes() if node["Alive"]])

    def evaluating(self, task: Task, *, timeout: float | None, grace: float, lease: float) -> Ray:
        """The engine that evaluates this task on the cluster; Ray itself detects lost trials."""
        warn_if_none(self._capacity(), self._needs)
        return replace(self, task=task, timeout=timeout, grace=grace)

    @cached_property
    def _mailbox(self) -> Any:
        """The actor that passes on decisions. It runs on this machine."""
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        return ray.remote(_Mailbox).options(num_cpus=0, scheduling_strategy=here).remote()

    def run(self, job: Job, allowance: Allowance) -> Finished:
        """Evaluate one trial; see `Engine.run`."""
        _check()
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
            watch.force.cancel()


def _check() -> None:
    if not ray.is_initialized():
        raise InvalidInput(
            'Ray is not initialised. Call ray.init(), or ray.init("auto") to join a cluster.'
        )


class _Mailbox:
    """Decisions on their way to trainings, by the address of a training."""

    def __init__(self) -> None:
        self._boxes: dict[str, asyncio.Queue[str]] = defaultdict(asyncio.Queue)

    async def give(self, address: str, decision: str) -> None:
        await self._boxes[address].put(decision)

    async def receive(self, address: str) -> str:
        return await self._boxes[address].get()


class _Watch:
    """One trial, as this process sees it."""

    def __init__(self, engine: Ray, job: Job, allowance: Allowance) -> None:
        self.engine, self.job, self.allowance = engine, job, allowance
        self.messages = Messages(engine.task.metric)
        self.mailbox = None if job.part is None else engine._mailbox
        self.address = uuid.uuid4().hex
        self.stream: Any = None
        self.used = NO_USAGE
        self.last: float | None = None  # time of the last message; None before the trial starts
        self.finished: Finished | None = None
        self.ending: str | None = None  # why the trial must end
        # Not a check in `wait`: `next` of a stream blocks for as long as its task does not end.
        self.force = threading.Timer(engine.grace + FORCE, self._kill)
        self.force.daemon = True

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
            self.stream = there.remote(
                *(engine.task, self.job, tick, engine.timeout, engine.grace),
                *(self.mailbox, self.address),
            )
        except Exception as error:
            raise InvalidInput(
                f"The objective cannot be sent to Ray: {error}. It must not contain open files, "
                "locks or connections."
            ) from error

    def wait(self) -> Finished:
        """Wait for the end, and check at every tick whether the trial may continue."""
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
        return finished

    def end(self, why: str) -> Finished:
        """End the trial now, even after an error."""
        self.allowance = replace(self.allowance, on_report=None)
        finished = None
        if self.stream is not None and ray.is_initialized():
            with suppress(Exception):
                self._cancel(why)
                while finished is None:
                    finished = self._listen(LISTEN)
        return finished or killed(self.messages, self.usage, why)

    @property
    def usage(self) -> Usage:
        """The known usage so far; a trial that waits for a node uses nothing."""
        if self.last is None:
            return NO_USAGE
        return self.used._replace(wall_s=self.used.wall_s + time.monotonic() - self.last)

    def _cancel(self, why: str) -> None:
        if self.ending is None:
            self.force.start()
        self.ending = self.ending or why
        ray.cancel(self.stream)

    def _kill(self) -> None:
        """End the process of the task, which did not end after it was cancelled."""
        with suppress(Exception):
            ray.cancel(self.stream, force=True)

    def _listen(self, timeout: float) -> Finished | None:
        """Handle one message of the task, if there is one; the result if the trial has ended."""
        try:
            ready, _ = ray.wait([self.stream], timeout=timeout, fetch_local=False)
            if not ready:
                return None
            kind, content = ray.get(next(self.stream))
        except (StopIteration, ray.exceptions.TaskCancelledError):
            return self._over("another process cancelled its task")
        except ray.exceptions.OutOfMemoryError as error:
            return self._over(f"its node ran out of memory: {_first_line(error)}")
        except (
            ray.exceptions.WorkerCrashedError,
            ray.exceptions.NodeDiedError,
            ray.exceptions.LocalRayletDiedError,
            ray.exceptions.ObjectLostError,
        ) as error:
            return self._over(f"its Ray worker died: {_first_line(error)}")
        except ray.exceptions.RayError as error:  # errors of the objective are caught on the node
            *_, reason = str(error).strip().split("\n")
            raise InvalidInput(
                f"Ray cannot evaluate trials: {reason}. Its nodes need the same version of "
                "Farthing, and the modules that the objective imports."
            ) from error
        self.last = time.monotonic()
        if kind == "finished":
            self.finished = content
        elif kind == "invalid":
            raise InvalidInput(content)
        elif kind == "used":
            self.used = content
        else:
            progress, self.used = content
            self.messages.reports.append(progress)
            if self.allowance.on_report is not None:
                self._answer(self.allowance.on_report(progress, self.used))
        return None

    def _answer(self, decision: str | None) -> None:
        """Send a training the decision for which it waits."""
        if decision is not None and self.mailbox is not None:
            self.mailbox.give.remote(self.address, decision)
            self.last = time.monotonic()  # the time until now is not that of the training

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
    task: Task,
    job: Job,
    tick: float,
    timeout: float | None,
    grace: float,
    mailbox: Any,
    address: str,
) -> Iterator[Message]:
    """Evaluate the trial on a node, in a thread, so that this thread notices a cancellation."""
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
    cancelled = threading.Event()

    def may_go_on(usage: Usage) -> str | None:
        messages.put(("used", usage))
        return "cancelled" if cancelled.is_set() else None

    def receive() -> str | None:
        decision = mailbox.receive.remote(address)
        while not cancelled.is_set():
            with suppress(ray.exceptions.GetTimeoutError):
                return str(ray.get(decision, timeout=LISTEN))
        return None

    def evaluate() -> None:
        try:
            part = RemotePart(job, task.metric)

            def on_report(message: Mapping[str, Any], usage: Usage) -> str | None:
                messages.put(("progress", (dict(message), usage)))
                return part.answer(message, receive)

            engine = ProcessGroup(task, timeout=timeout, grace=grace)
            messages.put(("finished", engine.run(job, Allowance(tick, may_go_on, on_report))))
        except InvalidInput as error:
            messages.put(("invalid", str(error)))
        except ray.exceptions.RayError:  # cancelled while it waited for a decision
            pass

    thread = threading.Thread(target=evaluate, daemon=True)
    yield "used", NO_USAGE
    thread.start()
    try:
        while thread.is_alive() or not messages.empty():
            with suppress(queue.Empty):
                yield messages.get(timeout=LISTEN)
    finally:  # after a cancellation, the task ends only when its trial has ended
        cancelled.set()
        while thread.is_alive():
            with suppress(KeyboardInterrupt):
                thread.join(LISTEN)
