"""One or several workers on this machine: checks before the start, and the main loop."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from farthing.core.settings import Settings
from farthing.cost import KnownBeforehand
from farthing.errors import FarthingError, InvalidInput, Unfit
from farthing.history import StopReason
from farthing.optimizer import Optimizer
from farthing.running import Engine, Job, Task
from farthing.running.process_pool import process_starter
from farthing.running.signals import (
    INTERRUPTED,
    ExitCheck,
    ExitRequest,
    combine_stop_reasons,
    handle_signals,
    print_exit_requests,
)
from farthing.running.thread_pool import thread_starter
from farthing.running.worker import POLL, OnChange, Place, Report, run_worker, running_trials

__all__ = ["check_start", "places_of", "run_workers"]

CHECKED = 32  # random configurations for which a task is checked before it starts
WORKER_ERROR = StopReason("worker_error", "another worker met an error")

# Starts a worker. The worker receives exit requests over the connection and closes it at its end.
# It sends its report over the connection (a process) or appends it to the list (a thread).
Starter = Callable[[Connection, Place, list[Report]], BaseProcess | Thread]


def check_start(task: Task, settings: Settings) -> None:
    """Check random configurations: the task can start here, and each price list has a price.

    Raises:
        InvalidInput: the program, a file, a parameter or a price is missing.
    """
    known = [each for each in settings.learners.values() if isinstance(each, KnownBeforehand)]
    for x in settings.space.sample(CHECKED, np.random.default_rng(0)):
        for price_list in known:
            price_list.price_at(settings.space, x)
        params = settings.space.decode(x)
        task.check(Job(params, 0, 0, env=settings.env, cwd=settings.cwd))


def places_of(workers: int | None, slots: Sequence[Any] | None, logs: Path) -> list[Place]:
    """One place for each worker, with the slots 0, 1, 2, ... by default.

    Two workers share a slot that is listed twice.
    """
    if workers is not None and (
        isinstance(workers, bool) or not isinstance(workers, int) or workers < 1
    ):
        raise InvalidInput(f"workers={workers!r}: expected a whole number of at least 1.")
    if slots is None:
        slots = range(workers or 1)
    elif isinstance(slots, str) or not slots or not all(_is_slot(slot) for slot in slots):
        raise InvalidInput(
            f"slots={slots!r}: expected a list of numbers or names, such as [0, 1, 2, 3]."
        )
    elif workers is not None and workers != len(slots):
        raise InvalidInput(
            f"workers={workers!r}, but there are {len(slots)} slots: each worker needs one slot. "
            "Omit workers. If two workers share a slot, list it twice."
        )
    return [Place(str(slot), logs, logs / "checkpoints") for slot in slots]


def _is_slot(slot: Any) -> bool:
    return isinstance(slot, int | str) and bool(str(slot).strip()) and "\0" not in str(slot)


def run_workers(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    on_change: OnChange,
    places: Sequence[Place],
    *,
    threads: bool = False,
    exit_check: ExitCheck = lambda: None,
) -> StopReason:
    """Work on a study at every place at the same time; return why it ended.

    Args:
        on_change: called in this thread whenever the study may have changed.
        threads: whether to start a thread for each place. If not, this process works at a single
            place itself, and forks one worker for each of several places.
        exit_check: a request to end the run, besides those of signals.

    Raises:
        BaseException: the first error of a worker; the other workers are ended first. If a worker
            process is unfit, its error is printed on stderr, and the other workers continue.
    """
    if threads or len(places) > 1:
        starter = thread_starter if threads else process_starter
        start = starter(optimizer, settings, engine)
        tolerated = () if threads else (Unfit,)
        return _run_pool(optimizer, start, places, on_change, tolerated, exit_check)
    with handle_signals() as signalled:
        check = print_exit_requests(
            lambda: signalled() or exit_check(), lambda: running_trials(optimizer, None)
        )
        return run_worker(optimizer, settings, engine, on_change, check, places[0])


def _run_pool(
    optimizer: Optimizer,
    start: Starter,
    places: Sequence[Place],
    on_change: OnChange,
    tolerated: tuple[type[BaseException], ...],
    exit_check: ExitCheck,
) -> StopReason:
    workers = dict[Connection, BaseProcess | Thread]()
    alive = set[Connection]()
    reports, requests = list[Report](), list[ExitRequest]()

    def pid(worker: BaseProcess | Thread) -> int | None:
        return getattr(worker, "pid", None)  # None for a thread of this process

    def running() -> list[int]:
        return running_trials(optimizer, *map(pid, workers.values()))

    def is_fatal(report: Report) -> bool:
        return isinstance(report, BaseException) and not isinstance(report, tolerated)

    def request_exit(request: ExitRequest) -> None:
        requests.append(request)
        for ours in alive:
            with suppress(OSError):  # the worker has just ended
                ours.send(request)

    def collect() -> None:
        for ours in wait(alive, timeout=POLL):
            assert isinstance(ours, Connection)
            try:
                reports.append(ours.recv())
                if isinstance(reports[-1], tolerated):
                    print(reports[-1], file=sys.stderr, flush=True)
            except (EOFError, ConnectionError):  # the worker has ended, or was killed
                alive.remove(ours)
                if pid(workers[ours]) is not None:  # it may still hold the suggestion lock
                    optimizer.release_suggest_lock(pid(workers[ours]))

    with handle_signals() as signalled:
        check = print_exit_requests(lambda: signalled() or exit_check(), running)
        try:
            for place in places:
                ours, theirs = multiprocessing.Pipe()
                workers[ours] = start(theirs, place, reports)
                alive.add(ours)
            while alive:
                failed = any(map(is_fatal, reports))
                request = ExitRequest(WORKER_ERROR, kill=True) if failed else check()
                if request is not None and request not in requests:
                    request_exit(request)
                collect()
                on_change()
        except BaseException as error:
            request_exit(ExitRequest(INTERRUPTED, kill=True))
            while alive and isinstance(error, KeyboardInterrupt):
                for worker in workers.values():  # the second SIGTERM ends its grace period
                    if isinstance(worker, BaseProcess) and worker.is_alive():
                        worker.terminate()
                collect()
            raise
        finally:
            for ours, worker in workers.items():
                worker.join()
                ours.close()
    fatal = [report for report in reports if is_fatal(report)]
    reasons = [report for report in reports if isinstance(report, StopReason)]
    if requests and not fatal:
        return requests[-1].reason
    if reasons and not fatal:
        return combine_stop_reasons(reasons)
    for report in fatal or reports:
        if isinstance(report, BaseException):
            raise report
    codes = sorted({str(getattr(worker, "exitcode", None)) for worker in workers.values()})
    raise FarthingError(
        f"Every worker was killed (exit code {', '.join(codes)}). Run again to resume."
    )
