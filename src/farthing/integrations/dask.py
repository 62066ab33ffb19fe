"""Trials as tasks of a Dask cluster.

    study.run(objective, engine=Dask(Client("tcp://scheduler:8786"), resources={"GPU": 1}))

On the worker each trial runs in a process group of its own, as on this machine: it is measured
there, and nothing of it survives. The worker says every tick what the trial has used and reported,
and from here comes every tick that it may go on, or why it must end. A trial whose worker dies is
lost; Dask would begin it again, which is refused there. A worker that is not told to go on for the
length of a lease ends its trial by itself.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Mapping
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

from farthing.integrations.capacity import places, warn_if_none
from farthing.running import Allowance, CallableTask, Finished, Job, ProcessGroup, Task, Usage
from farthing.running.output import Messages
from farthing.running.result import killed, lost

__all__ = ["Dask"]

BEGIN = "begin"  # the first word to a worker: it is there only once
GO_ON = None
ANSWER = 30.0  # seconds in which a scheduler answers
NOTHING = Usage(0.0, 0.0, 0.0, {})


def _nothing(params: Mapping[str, Any]) -> float:
    raise InvalidInput("Dask(client) is given to study.run(objective, engine=...), not called.")


@dataclass(frozen=True)
class Dask:
    """Each trial as a task of a Dask cluster.

    Args:
        client: connected to the cluster.
        resources: what a trial takes of what workers were started with, {"GPU": 1}; where nothing
            is said, a trial takes one thread.
    """

    client: Any
    resources: Mapping[str, float] = field(default_factory=dict)
    task: Task = field(default=CallableTask(_nothing), repr=False)
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
                "Dask(client): this client is asynchronous. Make one without asynchronous=True."
            )
        if not all(need > 0 for need in self.resources.values()):
            raise InvalidInput(
                f"Dask(resources={dict(self.resources)}): expected amounts above 0. Leave out what "
                "a trial does not take."
            )

    @property
    def slots(self) -> int:
        """Threads of the cluster, or how many times it has what a trial takes."""
        return max(1, self._places())

    def _places(self) -> int:
        self._check()
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        if not self.resources:
            return int(sum(worker["nthreads"] for worker in workers))
        return places(self.resources, [worker["resources"] for worker in workers])

    def evaluating(self, task: Task, *, timeout: float | None, grace: float, lease: float) -> Dask:
        """The engine that evaluates this there."""
        warn_if_none(self._places(), self.resources or {"threads": 1})
        return replace(self, task=task, timeout=timeout, grace=grace, lease=lease)

    def run(self, job: Job, allowance: Allowance) -> Finished:
        """Evaluate one trial, as `Engine.run` says."""
        self._check()
        watch = _Watch(self, job, allowance)
        try:
            watch.start()
            return watch.until_the_end()
        except Infrastructure as error:
            return lost(watch.messages, NOTHING, str(error))
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
                f"The Dask client is {self.client.status}: nothing can be evaluated with it. Make "
                "another, distributed.Client(address), and run again."
            )


class _Watch:
    """One trial, seen from here."""

    def __init__(self, engine: Dask, job: Job, allowance: Allowance) -> None:
        name = f"farthing-{uuid.uuid4().hex}"
        self.engine, self.job, self.allowance, self.name = engine, job, allowance, name
        self.heard = distributed.Queue(f"{name}-heard", client=engine.client)
        self.told = distributed.Queue(f"{name}-told", client=engine.client)
        self.messages = Messages(engine.task.metric)
        self.over = threading.Event()
        self.future: Any = None
        self.begun: float | None = None  # when it was first heard of
        self.last = 0.0  # when it was last heard of
        self.used = NOTHING
        self.ending: str | None = None  # why it was told to end

    def start(self) -> None:
        engine = self.engine
        with _asking_the_scheduler():
            self.told.put(BEGIN, timeout=ANSWER)
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
                f"The objective cannot be sent to the Dask workers: {error}. Keep open files, "
                "locks and connections out of it."
            ) from error
        self.future.add_done_callback(lambda future: self.over.set())

    def until_the_end(self) -> Finished:
        """Ask every tick whether it may go on."""
        tick = self.allowance.tick
        while not self.over.wait(tick):
            try:
                self._hear()
                if self.ending is None:
                    self.ending = self.allowance.may_go_on(self.usage)
                    self._tell(self.ending)
            except Infrastructure as error:
                return self._lost(str(error))
            if self._is_silent():
                return self._given_up()
        with suppress(Infrastructure):
            self._hear()
        return self._result()

    def end(self, why: str) -> Finished:
        """It must end now, whatever has happened."""
        if self.future is None:
            return lost(self.messages, NOTHING, why)
        with suppress(Exception):
            if self.ending is None:
                self.ending = why
                self._tell(why)
            if self.begun is not None:
                self.over.wait(self.engine.grace + self.engine.lease)
        if self.over.is_set():
            with suppress(InvalidInput):
                return self._result()
        return self._given_up()

    def close(self) -> None:
        """Nothing is left of it at the scheduler."""
        with suppress(Exception):
            if self.future is not None:
                self.future.cancel(force=True)
            self.heard.close()
            self.told.close()

    @property
    def usage(self) -> Usage:
        """What it has used, as far as it is known; a trial that waits for a worker uses nothing."""
        if self.begun is None:
            return NOTHING
        since = time.monotonic() - self.last
        return self.used._replace(wall_s=self.used.wall_s + since)

    def _hear(self) -> None:
        with _asking_the_scheduler():
            said = self.heard.get(timeout=ANSWER, batch=True)
        for usage, progress in said:
            self.last = time.monotonic()
            self.begun = self.last if self.begun is None else self.begun
            self.used = Usage(*usage)
            if progress is not None:
                self.messages.reports.append(progress)
                if self.allowance.on_report is not None:
                    self.allowance.on_report(progress, self.used)

    def _tell(self, why: str | None) -> None:
        with _asking_the_scheduler():
            if self.begun is not None:
                self.told.put(GO_ON if why is None else why, timeout=ANSWER)
            elif why is not None:
                self.future.cancel(force=True)

    def _is_silent(self) -> bool:
        patience = self.engine.lease
        if self.ending is not None:
            patience += self.engine.grace
        return self.begun is not None and time.monotonic() - self.last > patience

    def _given_up(self) -> Finished:
        if self.ending is not None:
            return killed(self.messages, self.usage, self.ending)
        return self._lost(f"its Dask worker was not heard of for {self.engine.lease:g} s")

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
            return self._lost(f"the Dask client was closed, or its scheduler lost: {error}")
        except distributed.KilledWorker as error:
            return self._lost(f"its Dask worker was killed: {error}")
        except Exception as error:  # not the objective's, which are caught where it runs
            raise InvalidInput(
                f"The Dask workers cannot evaluate: {type(error).__name__}: {error}. They need the "
                "same farthing, and what the objective imports."
            ) from error
        if finished is None:
            return self._lost("its Dask worker died")
        assert isinstance(finished, Finished)
        return finished


@contextmanager
def _asking_the_scheduler() -> Iterator[None]:
    """Whatever is raised is the machine's fault; a client that is closed raises anything."""
    try:
        yield
    except Exception as error:
        raise Infrastructure(
            f"the Dask client was closed, or its scheduler lost: {error}"
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
    """What a worker does; None: another worker had begun it, and died."""
    heard, told = distributed.Queue(f"{name}-heard"), distributed.Queue(f"{name}-told")
    if told.get(timeout=ANSWER) != BEGIN:
        return None
    heard.put((tuple(NOTHING), None), timeout=ANSWER)
    last = time.monotonic()

    def may_go_on(usage: Usage) -> str | None:
        nonlocal last
        heard.put((tuple(usage), None), timeout=ANSWER)
        words = told.get(timeout=ANSWER, batch=True)
        if words:
            last = time.monotonic()
        why = next((word for word in words if word is not GO_ON), None)
        if why is None and time.monotonic() - last > lease:
            return f"whoever runs the study was not heard of for {lease:g} s"
        return why

    def on_report(message: Mapping[str, Any], usage: Usage) -> None:
        heard.put((tuple(usage), dict(message)), timeout=ANSWER)

    engine = ProcessGroup(task, timeout=timeout, grace=grace)
    return engine.run(job, Allowance(tick, may_go_on, on_report))
