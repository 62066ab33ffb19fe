"""Trials as tasks of a Dask cluster.

    study.run(objective, engine=Dask(Client("tcp://scheduler:8786"), resources={"GPU": 1}))

The Dask worker runs each trial in its own process group, as on this machine. It measures the trial
there, and leaves none of its processes behind. At every tick the worker sends what the trial has
used and reported, and this process answers that it may continue, or why it must end.

A trial whose worker dies is lost. Dask would start it again, which the new worker refuses. A worker
that gets no answer for the length of a lease ends its trial.

A training in steps waits on its worker for the decision of the tuner. If it is paused, its task
ends, and it is resumed by another task, which may run on another machine. Its checkpoints must
therefore be in a folder that all machines share.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from farthing.errors import (
    FarthingError,
    Infrastructure,
    Interrupted,
    InvalidInput,
    MissingExtra,
)

try:
    import distributed
except ImportError as error:
    raise MissingExtra("dask", "Dask (distributed)") from error

from farthing.integrations.capacity import capacity, warn_if_none
from farthing.running import Allowance, CallableTask, Finished, Job, ProcessGroup, Task, Usage
from farthing.running.output import Messages
from farthing.running.remote_part import RemotePart
from farthing.running.result import killed, lost

__all__ = ["Dask"]

BEGIN = "begin"  # the first message to a worker; only one worker can receive it
CONTINUE = None
ANSWER = 30.0  # timeout of the scheduler in seconds
LISTEN = 0.05  # seconds between two looks at the messages of a training in steps
NO_USAGE = Usage(0.0, 0.0, 0.0, {})


def _no_objective(params: Mapping[str, Any]) -> float:
    raise InvalidInput(
        "Dask(client) is an engine. Pass it to study.run(objective, engine=Dask(client))."
    )


@dataclass(frozen=True)
class Dask:
    """An engine that runs each trial as a task of a Dask cluster.

    Args:
        client: a client that is connected to the cluster.
        resources: the resources of a trial, {"GPU": 1}, among those that workers were started with;
            by default a trial needs one thread.
    """

    client: Any
    resources: Mapping[str, float] = field(default_factory=dict)
    task: Task = field(default=CallableTask(_no_objective), repr=False)
    timeout: float | None = None
    grace: float = 5.0
    lease: float = 15.0

    kills: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.client, distributed.Client):
            raise InvalidInput(
                f"Dask({self.client!r}): expected a client, such as distributed.Client(address)."
            )
        if self.client.asynchronous:
            raise InvalidInput(
                "Dask(client): the client is asynchronous. Create one without asynchronous=True."
            )
        if not all(need > 0 for need in self.resources.values()):
            raise InvalidInput(
                f"Dask(resources={dict(self.resources)}): expected amounts above 0. Leave out "
                "resources that a trial does not need."
            )

    @property
    def slots(self) -> int:
        """The number of trials that the cluster can run at the same time."""
        return max(1, self._capacity())

    def _capacity(self) -> int:
        self._check()
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        if not self.resources:
            return int(sum(worker["nthreads"] for worker in workers))
        return capacity(self.resources, [worker["resources"] for worker in workers])

    def evaluating(self, task: Task, *, timeout: float | None, grace: float, lease: float) -> Dask:
        """The engine that evaluates this task on the cluster."""
        warn_if_none(self._capacity(), self.resources or {"threads": 1})
        return replace(self, task=task, timeout=timeout, grace=grace, lease=lease)

    def run(self, job: Job, allowance: Allowance) -> Finished:
        """Evaluate one trial; see `Engine.run`."""
        self._check()
        watch = _Watch(self, job, allowance)
        try:
            watch.start()
            return watch.wait()
        except Infrastructure as error:
            return lost(watch.messages, NO_USAGE, str(error))
        except KeyboardInterrupt as interrupt:
            raise Interrupted(watch.end("interrupted from the keyboard")) from interrupt
        except BaseException:
            watch.end("the run ended")
            raise
        finally:
            watch.close()

    def _check(self) -> None:
        if self.client.status != "running":
            raise InvalidInput(
                f"The Dask client is {self.client.status}, so it cannot evaluate trials. Create "
                "another one with distributed.Client(address), and run again."
            )


class _Watch:
    """One trial, as this process sees it."""

    def __init__(self, engine: Dask, job: Job, allowance: Allowance) -> None:
        name = f"farthing-{uuid.uuid4().hex}"
        self.engine, self.job, self.allowance, self.name = engine, job, allowance, name
        self.inbox = distributed.Queue(f"{name}-usage", client=engine.client)
        self.outbox = distributed.Queue(f"{name}-answers", client=engine.client)
        self.messages = Messages(engine.task.metric)
        self.over = threading.Event()
        self.future: Any = None
        self.started: float | None = None  # time of the first message
        self.last = 0.0  # time of the last message
        self.used = NO_USAGE
        self.ending: str | None = None  # why the trial must end

    def start(self) -> None:
        engine = self.engine
        with _scheduler_errors():
            self.outbox.put(BEGIN, timeout=ANSWER)
        try:
            self.future = engine.client.submit(
                _evaluate,
                *(engine.task, self.job, self.name, self.allowance.tick),
                *(engine.timeout, engine.grace, engine.lease),
                key=self.name,
                pure=False,
                retries=0,
                resources=dict(engine.resources) or None,
            )
        except Exception as error:
            raise InvalidInput(
                f"The objective cannot be sent to the Dask workers: {error}. It must not contain "
                "open files, locks or connections."
            ) from error
        self.future.add_done_callback(lambda future: self.over.set())

    def wait(self) -> Finished:
        """Wait for the end, and check at every tick whether the trial may continue."""
        tick = self.allowance.tick
        pause = tick if self.job.part is None else min(tick, LISTEN)
        next_tick = time.monotonic() + tick
        while not self.over.wait(pause):
            try:
                self._receive()
                if self.ending is None and time.monotonic() >= next_tick:
                    next_tick = time.monotonic() + tick
                    self.ending = self.allowance.may_go_on(self.usage)
                    self._send(self.ending)
            except Infrastructure as error:
                return self._lost(str(error))
            if self._is_silent():
                return self._without_answer()
        with suppress(Infrastructure):
            self._receive()
        return self._result()

    def end(self, why: str) -> Finished:
        """End the trial now, even after an error."""
        if self.future is None:
            return lost(self.messages, NO_USAGE, why)
        with suppress(Exception):
            if self.ending is None:
                self.ending = why
                self._send(why)
            if self.started is not None:
                self.over.wait(self.engine.grace + self.engine.lease)
        if self.over.is_set():
            with suppress(InvalidInput):
                return self._result()
        return self._without_answer()

    def close(self) -> None:
        """Remove the task and the queues from the scheduler."""
        with suppress(Exception):
            if self.future is not None:
                self.future.cancel(force=True)
            self.inbox.close()
            self.outbox.close()

    @property
    def usage(self) -> Usage:
        """The known usage so far; a trial that waits for a worker uses nothing."""
        if self.started is None:
            return NO_USAGE
        since = time.monotonic() - self.last
        return self.used._replace(wall_s=self.used.wall_s + since)

    def _receive(self) -> None:
        with _scheduler_errors():
            messages = self.inbox.get(timeout=ANSWER, batch=True)
        for usage, progress in messages:
            self.last = time.monotonic()
            self.started = self.last if self.started is None else self.started
            self.used = Usage(*usage)
            if progress is not None:
                self.messages.reports.append(progress)
                if self.allowance.on_report is not None:
                    self._answer(self.allowance.on_report(progress, self.used))

    def _answer(self, decision: str | None) -> None:
        """Send a training the decision for which it waits."""
        if decision is not None:
            with _scheduler_errors():
                self.outbox.put((decision,), timeout=ANSWER)
            self.last = time.monotonic()  # the time until now is not that of the training

    def _send(self, why: str | None) -> None:
        with _scheduler_errors():
            if self.started is not None:
                self.outbox.put(CONTINUE if why is None else why, timeout=ANSWER)
            elif why is not None:
                self.future.cancel(force=True)

    def _is_silent(self) -> bool:
        patience = self.engine.lease
        if self.ending is not None:
            patience += self.engine.grace
        return self.started is not None and time.monotonic() - self.last > patience

    def _without_answer(self) -> Finished:
        if self.ending is not None:
            return killed(self.messages, self.usage, self.ending)
        return self._lost(f"its Dask worker gave no sign of life for {self.engine.lease:g} s")

    def _lost(self, why: str) -> Finished:
        return lost(self.messages, self.usage, why)

    def _result(self) -> Finished:
        if self.future.cancelled() and self.ending is not None:
            return killed(self.messages, self.usage, self.ending)
        try:
            finished = self.future.result(timeout=ANSWER)
        except FarthingError:
            raise
        except (distributed.CancelledError, OSError, TimeoutError) as error:
            return self._lost(
                f"the Dask client was closed, or the connection to its scheduler was lost: {error}"
            )
        except distributed.KilledWorker as error:
            return self._lost(f"its Dask worker was killed: {error}")
        except Exception as error:  # errors of the objective are caught on the worker
            raise InvalidInput(
                f"The Dask workers cannot evaluate trials: {type(error).__name__}: {error}. They "
                "need the same version of Farthing, and the modules that the objective imports."
            ) from error
        if finished is None:
            return self._lost("its Dask worker died")
        assert isinstance(finished, Finished)
        return finished


@contextmanager
def _scheduler_errors() -> Iterator[None]:
    """Turn any error into `Infrastructure`; a closed client may raise any type."""
    try:
        yield
    except Exception as error:
        raise Infrastructure(
            f"the Dask client was closed, or the connection to its scheduler was lost: {error}"
        ) from error


def _evaluate(
    task: Task,
    job: Job,
    name: str,
    tick: float,
    timeout: float | None,
    grace: float,
    lease: float,
) -> Finished | None:
    """Evaluate the trial on a worker; None if another worker had started it, and died."""
    outbox, inbox = distributed.Queue(f"{name}-usage"), distributed.Queue(f"{name}-answers")
    if inbox.get(timeout=ANSWER) != BEGIN:
        return None
    outbox.put((tuple(NO_USAGE), None), timeout=ANSWER)
    last, why = time.monotonic(), CONTINUE
    part = RemotePart(job, task.metric)

    def silence(patience: float) -> str | None:
        if time.monotonic() - last <= patience:
            return None
        return f"the process that runs the study gave no sign of life for {patience:g} s"

    def read(answers: Sequence[str | tuple[str] | None]) -> str | None:
        """The decision among the answers, if there is one."""
        nonlocal last, why
        last = time.monotonic() if answers else last
        ends = (answer for answer in answers if isinstance(answer, str))
        why = next(ends, why)
        return next((answer[0] for answer in answers if isinstance(answer, tuple)), None)

    def may_go_on(usage: Usage) -> str | None:
        outbox.put((tuple(usage), None), timeout=ANSWER)
        read(inbox.get(timeout=ANSWER, batch=True))
        return why or silence(lease)

    def receive() -> str | None:
        nonlocal why
        while (decision := read(inbox.get(timeout=ANSWER, batch=True))) is None and why is None:
            time.sleep(LISTEN)
            why = silence(max(lease, ANSWER))
        return decision

    def on_report(message: Mapping[str, Any], usage: Usage) -> str | None:
        outbox.put((tuple(usage), dict(message)), timeout=ANSWER)
        return part.answer(message, receive)

    engine = ProcessGroup(task, timeout=timeout, grace=grace)
    return engine.run(job, Allowance(tick, may_go_on, on_report))
