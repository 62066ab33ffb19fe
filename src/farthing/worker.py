"""A worker: ask, run, tell, until it is time to stop; and several of them on one machine."""

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
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from farthing.clerk import Clerk
from farthing.errors import FarthingError, Interrupted, InvalidInput, Stopped, StorageError
from farthing.history import Trial
from farthing.ledger import Ledger
from farthing.meter import Meter
from farthing.running import Allowance, Finished, Job, ProcessGroup, Task, Usage

__all__ = ["INTERRUPTED", "Terms", "run_workers", "work"]

INTERRUPTED = "interrupted from the keyboard"
KEPT_PROGRESS = 1000  # lines of a trial
TICK = (0.05, 1.0)  # seconds between renewals: a hundredth of the time allowed, within these
POLL = 0.1  # seconds between looks whether other workers have finished
NOTHING_USED = Usage(0.0, 0.0, 0.0, {})


@dataclass(frozen=True)
class Terms:
    """How trials are run.

    Attributes:
        timeout: seconds after which a trial is killed; None: when the budget is spent.
        meter: how the use of the machine becomes a cost.
        grace: seconds between SIGTERM and SIGKILL.
        lease: seconds after which a trial is lost whose worker was not heard of.
        failures_in_a_row: so many stop the study.
    """

    timeout: float | None = None
    meter: Meter = Meter()
    grace: float = 5.0
    lease: float = 15.0
    failures_in_a_row: float = 5

    def __post_init__(self) -> None:
        if not 0 < self.lease < math.inf:
            raise InvalidInput(f"lease={self.lease!r}: expected seconds above 0, such as 15.")
        if isinstance(self.failures_in_a_row, bool) or not self.failures_in_a_row >= 1:
            raise InvalidInput(
                f"failures_in_a_row={self.failures_in_a_row!r}: expected a number of at least 1, "
                "or math.inf to go on whatever happens."
            )


def work(
    clerk: Clerk,
    task: Task,
    terms: Terms = Terms(),
    *,
    on_change: Callable[[], None] | None = None,
) -> str:
    """Be one worker of a study until there is nothing more to do; why it ended."""
    with _signals() as must_end, clerk.on_the_clock():
        return _work(clerk, task, terms, must_end, on_change or (lambda: None))


def _work(
    clerk: Clerk,
    task: Task,
    terms: Terms,
    must_end: Callable[[], bool],
    on_change: Callable[[], None],
) -> str:
    name = f"{socket.gethostname()}:{os.getpid()}"
    while not must_end():
        try:
            trial = clerk.ask(worker=name, lease=terms.lease)
        except Stopped as stopped:
            if not clerk.is_worked_on():
                return str(stopped)
            time.sleep(POLL)  # what another is running may leave something to do
            continue
        on_change()
        try:
            _evaluate(clerk, task, trial, terms, must_end, on_change)
        except Interrupted as interrupted:
            cost = terms.meter.cost(interrupted.finished, clerk.ledger)
            clerk.conclude(trial, interrupted.finished, cost, ())
            return INTERRUPTED
        on_change()
        count, first = clerk.failures
        if count >= terms.failures_in_a_row:
            clerk.request_stop(f"{count} trials in a row failed; the first of them:\n{first}")
    return INTERRUPTED


def _evaluate(
    clerk: Clerk,
    task: Task,
    trial: Trial,
    terms: Terms,
    must_end: Callable[[], bool],
    on_change: Callable[[], None],
) -> None:
    ledger = clerk.ledger
    tick = min(_tick(ledger), terms.lease / 3)
    progress = list[dict[str, Any]]()
    heard = time.monotonic()  # when the database last answered

    def may_go_on(usage: Usage) -> str | None:
        nonlocal heard
        if must_end():
            return INTERRUPTED
        cost = terms.meter.cost(usage, ledger)
        share = tick / max(usage.wall_s, tick)
        ahead = {resource: amount * (1 + share) for resource, amount in cost.items()}
        try:
            reason = clerk.renew(
                trial, lease=terms.lease, cost=cost, ahead=ahead, progress=progress
            )
            heard = time.monotonic()
        except StorageError:
            if time.monotonic() - heard > terms.lease:
                raise  # by now others have given the trial up
            return None
        on_change()
        return reason

    def on_progress(message: Mapping[str, Any], usage: Usage) -> None:
        progress.append({**message, "cost": terms.meter.cost(usage, ledger)})
        del progress[:-KEPT_PROGRESS]

    try:
        finished = ProcessGroup(task, terms.timeout, terms.grace).run(
            Job(trial.params, trial.number, clerk.seed_of(trial.number)),
            Allowance(tick, may_go_on, on_progress),
        )
    except InvalidInput as error:  # no other trial could be run either
        unstarted = Finished("lost", None, {}, str(error), NOTHING_USED)
        clerk.conclude(trial, unstarted, {}, ())
        raise
    clerk.conclude(trial, finished, terms.meter.cost(finished, ledger), progress)


def _tick(ledger: Ledger) -> float:
    shortest = min((ledger[r].limit for r in ("s", "worker_s") if r in ledger), default=math.inf)
    least, most = TICK
    return min(max(shortest / 100, least), most)


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
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield must_end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ── several workers ────────────────────────────────────────────────────────────────────────────


def run_workers(
    clerk: Clerk,
    task: Task,
    terms: Terms = Terms(),
    *,
    workers: int = 1,
    on_change: Callable[[], None] | None = None,
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
    clerk.resume()
    if workers == 1:
        reason = work(clerk, task, terms, on_change=on_change)
    else:
        reason = _run_pool(clerk, task, terms, workers, on_change or (lambda: None))
    clerk.end(reason)
    return reason


def _run_pool(
    clerk: Clerk, task: Task, terms: Terms, workers: int, on_change: Callable[[], None]
) -> str:
    context = multiprocessing.get_context("fork")
    with _signals() as must_end:
        pool: dict[Connection, BaseProcess] = {}
        said: list[str | FarthingError] = []
        try:
            for _ in range(workers):
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_member, args=(theirs, clerk, task, terms))
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
                        clerk.forget(pool[heard].pid)  # it may have been killed in thought
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


def _member(out: Connection, clerk: Clerk, task: Task, terms: Terms) -> None:
    """One worker of the pool: it says how it ended."""
    try:
        out.send(work(clerk, task, terms))
    except FarthingError as error:
        out.send(error)
    except KeyboardInterrupt:
        out.send(INTERRUPTED)
