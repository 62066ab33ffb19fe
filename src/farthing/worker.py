"""A worker: ask, evaluate, tell, until it is time to stop; and several of them on one machine."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from farthing.errors import FarthingError, Interrupted, InvalidInput, Stopped, StorageError
from farthing.history import Trial
from farthing.ledger import Budget, rate_of
from farthing.optimizer import Optimizer
from farthing.running import Allowance, Engine, Finished, Job, Pricing, Usage
from farthing.settings import Settings
from farthing.state import Ended, Resumed, Told

__all__ = ["INTERRUPTED", "run_workers", "until_stopped", "work"]

INTERRUPTED = "interrupted from the keyboard"
KEPT_PROGRESS = 1000  # lines of a trial
TICK = (0.05, 1.0)  # seconds between renewals: a hundredth of the time allowed, within these
POLL = 0.1  # seconds between looks whether other workers have finished
SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTHING_USED = Usage(0.0, 0.0, 0.0, {})

Notice = Callable[[], None]


# ── one worker ─────────────────────────────────────────────────────────────────────────────────


def until_stopped(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    on_change: Notice,
    must_end: Callable[[], bool] = lambda: False,
) -> str:
    """Ask, evaluate, tell; why it ended."""
    name = f"{socket.gethostname()}:{os.getpid()}"
    lease = settings.lease if engine.kills else None
    while not must_end():
        try:
            trial = optimizer.ask(worker=name, lease=lease)
        except Stopped as stopped:
            if not optimizer.is_worked_on():
                return str(stopped)
            time.sleep(POLL)  # what another is running may leave something to do
            continue
        on_change()
        try:
            _evaluate(optimizer, settings, engine, trial, on_change, must_end)
        except Interrupted as interrupted:
            _conclude(optimizer, settings, trial, interrupted.finished)
            return INTERRUPTED
        on_change()
    return INTERRUPTED


def _evaluate(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    trial: Trial,
    on_change: Notice,
    must_end: Callable[[], bool],
) -> None:
    pricing = _pricing(settings)
    tick = min(_tick(settings.budget), settings.lease / 3)
    progress = list[dict[str, Any]]()
    heard = time.monotonic()  # when the memory last answered

    def may_go_on(usage: Usage) -> str | None:
        nonlocal heard
        if must_end():
            return INTERRUPTED
        cost = pricing.cost(usage, {}, settings.resources)
        share = tick / max(usage.wall_s, tick)
        ahead = {resource: amount * (1 + share) for resource, amount in cost.items()}
        try:
            reason = optimizer.renew(
                trial, lease=settings.lease, cost=cost, ahead=ahead, progress=progress
            )
        except StorageError:
            if time.monotonic() - heard > settings.lease:
                raise  # by now others have given the trial up
            return None
        heard = time.monotonic()
        on_change()
        return reason

    def on_progress(message: Mapping[str, Any], usage: Usage) -> None:
        progress.append({**message, "cost": pricing.cost(usage, {}, settings.resources)})
        del progress[:-KEPT_PROGRESS]

    job = Job(trial.params, trial.number, trial.run.seed)
    try:
        finished = engine.run(job, Allowance(tick, may_go_on, on_progress))
    except InvalidInput as error:  # no other trial could be run either
        unstarted = Finished("lost", None, {}, str(error), NOTHING_USED)
        _conclude(optimizer, settings, trial, unstarted)
        raise
    _conclude(optimizer, settings, trial, finished, progress)


def _conclude(
    optimizer: Optimizer,
    settings: Settings,
    trial: Trial,
    finished: Finished,
    progress: Iterable[Mapping[str, Any]] = (),
) -> None:
    """Tell what became of a trial, and what it used."""
    usage = finished.usage
    used = {"run_s": usage.wall_s, "cpu_s": usage.cpu_s, "peak_mb": usage.peak_mb}
    cost = _pricing(settings).cost(usage, finished.cost, settings.resources)
    optimizer.commit(
        Told(
            *(trial, finished.state, finished.value, cost, finished.error),
            certain=False,
            run={**used, "progress": tuple(progress)},
        )
    )


def _pricing(settings: Settings) -> Pricing:
    rate = {} if settings.rate is None else rate_of(settings.rate)
    return Pricing(rate, cpu=settings.measure == "cpu")


def _tick(budget: Budget | None) -> float:
    limits = {} if budget is None else budget.limits
    shortest = min(limits.get("s", math.inf), limits.get("worker_s", math.inf))
    least, most = TICK
    return min(max(shortest / 100, least), most)


def work(optimizer: Optimizer, settings: Settings, engine: Engine, on_change: Notice) -> str:
    """Be one worker of a study until there is nothing more to do; why it ended."""
    with _signals() as must_end, optimizer.on_the_clock():
        return until_stopped(optimizer, settings, engine, on_change, must_end)


@contextmanager
def _signals() -> Iterator[Callable[[], bool]]:
    """Whether to end: Ctrl-C, SIGTERM, or the death of the process that started this one.

    A signal is noted and acted upon where nothing can be lost by it; a second Ctrl-C interrupts.
    """
    parent, noted = os.getppid(), list[int]()

    def note(number: int, frame: object) -> None:
        if noted and number == signal.SIGINT:
            raise KeyboardInterrupt
        noted.append(number)

    def must_end() -> bool:
        return bool(noted) or os.getppid() != parent

    if threading.current_thread() is not threading.main_thread():
        yield must_end  # only the main thread hears signals
        return
    before = {number: signal.signal(number, note) for number in SIGNALS if _may_hear(number)}
    try:
        yield must_end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _may_hear(number: int) -> bool:
    """Whether a signal is neither ignored, as by nohup, nor another's, who is not of Python.

    A handler that was installed from C is None here, and could not be put back.
    """
    return signal.getsignal(number) not in (signal.SIG_IGN, None)


# ── several workers ────────────────────────────────────────────────────────────────────────────


def run_workers(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    on_change: Notice,
    workers: int = 1,
) -> str:
    """Work on a study with several processes of this machine; why it ended.

    Args:
        workers: how many trials at the same time.
        on_change: called in this process when something may have happened.

    Raises:
        FarthingError: what a worker met; the others were ended first.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InvalidInput(f"workers={workers!r}: expected how many, at least 1.")
    optimizer.commit(Resumed())
    if workers == 1:
        reason = work(optimizer, settings, engine, on_change)
    else:
        reason = _run_pool(optimizer, settings, engine, on_change, workers)
    optimizer.commit(Ended(reason))
    return reason


def _run_pool(
    optimizer: Optimizer, settings: Settings, engine: Engine, on_change: Notice, workers: int
) -> str:
    context = multiprocessing.get_context("fork")
    with _signals() as must_end:
        pool: dict[Connection, BaseProcess] = {}
        said: list[str | FarthingError] = []
        try:
            for _ in range(workers):
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(
                    target=_member, args=(theirs, optimizer, settings, engine)
                )
                with warnings.catch_warnings():
                    # The threads it warns of are idle: those of BLAS.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                theirs.close()
                pool[ours] = process
            waiting = set(pool)
            while waiting:
                if must_end() or any(isinstance(word, FarthingError) for word in said):
                    _end(pool[ours] for ours in waiting)
                for heard in wait(waiting, timeout=POLL):
                    assert isinstance(heard, Connection)
                    try:
                        said.append(heard.recv())
                    except EOFError:  # it has ended, or was killed before it could say anything
                        waiting.remove(heard)
                        optimizer.forget(pool[heard].pid)  # it may have been killed in thought
                on_change()
        finally:
            _end(pool.values())
            for ours, member in pool.items():
                member.join()
                ours.close()
    for word in said:
        if isinstance(word, FarthingError):
            raise word
    reasons = [word for word in said if isinstance(word, str)]
    if not reasons:
        codes = sorted({str(process.exitcode) for process in pool.values()})
        raise FarthingError(f"Every worker was killed (exit code {', '.join(codes)}). Run again.")
    return INTERRUPTED if INTERRUPTED in reasons else reasons[-1]


def _end(processes: Iterable[BaseProcess]) -> None:
    for process in processes:
        if process.is_alive():
            process.terminate()


def _member(out: Connection, optimizer: Optimizer, settings: Settings, engine: Engine) -> None:
    """One worker of the pool: it says how it ended."""
    if not _may_hear(signal.SIGTERM):  # which is how the pool ends it
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        out.send(work(optimizer, settings, engine, lambda: None))
    except FarthingError as error:
        out.send(error)
    except KeyboardInterrupt:
        out.send(INTERRUPTED)
