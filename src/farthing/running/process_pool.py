"""Several workers on one machine, each a process with a slot of its own."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from farthing.core.events import TimePassed
from farthing.core.settings import Settings
from farthing.cost import KnownBeforehand
from farthing.errors import FarthingError, InvalidInput, Unfit
from farthing.history import StopReason
from farthing.optimizer import Optimizer
from farthing.running import Engine, Job, Task
from farthing.running.signals import (
    INTERRUPTED,
    ExitCheck,
    ExitRequest,
    announced,
    hears,
    interrupted_or_last,
    signals,
)
from farthing.running.worker import POLL, Notice, Place, name_of, until_stopped
from farthing.storage import let_go_of_files

__all__ = ["check_start", "places_of", "work"]

CHECKED = 32  # configurations with which a task is tried on paper


class _Work(NamedTuple):
    """What every worker is told."""

    optimizer: Optimizer
    settings: Settings
    engine: Engine


def check_start(task: Task, settings: Settings) -> None:
    """Whether it could start here, finds its parameters in every branch of the space, and a price
    list their price.

    Raises:
        InvalidInput: it cannot.
    """
    known = [each for each in settings.learners.values() if isinstance(each, KnownBeforehand)]
    for x in settings.space.sample(CHECKED, np.random.default_rng(0)):
        for price_list in known:
            price_list.price_at(settings.space, x)
        params = settings.space.decode(x)
        task.check(Job(params, 0, 0, env=settings.env, cwd=settings.cwd))


def places_of(workers: int | None, slots: Sequence[Any] | None, logs: Path) -> list[Place]:
    """A place for each worker: so many, or one for each slot; slots are 0, 1, 2, ... if not given.

    A slot that stands there twice is shared by two workers.
    """
    if workers is not None and (
        isinstance(workers, bool) or not isinstance(workers, int) or workers < 1
    ):
        raise InvalidInput(f"workers={workers!r}: expected how many, at least 1.")
    if slots is None:
        slots = range(workers or 1)
    elif isinstance(slots, str) or not slots or not all(_is_slot(slot) for slot in slots):
        raise InvalidInput(f"slots={slots!r}: expected numbers or names, such as [0, 1, 2, 3].")
    elif workers is not None and workers != len(slots):
        raise InvalidInput(
            f"workers={workers!r} and {len(slots)} slots: each worker has one. Leave workers out; "
            "a slot that two workers share is named twice."
        )
    return [Place(str(slot), logs) for slot in slots]


def _is_slot(slot: Any) -> bool:
    return isinstance(slot, int | str) and bool(str(slot).strip()) and "\0" not in str(slot)


def work(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    on_change: Notice,
    places: Sequence[Place],
) -> StopReason:
    """Work on a study, in each of these places at the same time; why it ended.

    One place is worked in by this process, several by as many others.

    Args:
        on_change: called in this process when something may have happened.

    Raises:
        FarthingError: what a worker met; the others were ended first. One that cannot work while
            others can is said on stderr, and the others go on.
    """
    with signals() as exit_requested:
        if len(places) > 1:
            return _run_pool(_Work(optimizer, settings, engine), on_change, places, exit_requested)
        exit_requested = announced(exit_requested, lambda: _running(optimizer, [name_of()]))
        with optimizer.on_the_clock():
            reason = until_stopped(
                optimizer, settings, engine, on_change, exit_requested, places[0]
            )
            optimizer.commit(
                TimePassed()
            )  # the last thought led to no trial, and is paid all the same
            return reason


def _running(optimizer: Optimizer, workers: Iterable[str]) -> list[int]:
    """The trials that these workers are running."""
    whose = set(workers)
    return [t.number for t in optimizer.history.running if t.run.worker in whose]


def _run_pool(
    work: _Work, on_change: Notice, places: Sequence[Place], exit_requested: ExitCheck
) -> StopReason:
    pool: dict[Connection, BaseProcess] = {}
    optimizer = work.optimizer

    def running() -> list[int]:
        return _running(optimizer, [name_of(process.pid) for process in pool.values()])

    exit_requested, told = announced(exit_requested, running), list[ExitRequest]()
    said, ending = list[StopReason | FarthingError](), False
    try:
        let_go_of_files()
        for place in places:
            _begin(pool, work, place)
        waiting = set(pool)
        while waiting:
            leave = exit_requested()
            if leave is not None and leave not in told:
                told.append(leave)
                _pass_on(leave, waiting)
            if not ending and any(_is_fatal(word) for word in said):
                _end(pool[ours] for ours in waiting)
                ending = True  # a second SIGTERM would not leave them their grace
            for heard in wait(waiting, timeout=POLL):
                assert isinstance(heard, Connection)
                try:
                    said.append(heard.recv())
                    if isinstance(said[-1], Unfit):
                        print(said[-1], file=sys.stderr, flush=True)
                except (EOFError, ConnectionError):
                    # It has ended, or was killed before it could say anything.
                    waiting.remove(heard)
                    optimizer.forget(pool[heard].pid)  # it may have been killed in thought
            on_change()
    except KeyboardInterrupt:
        while any(process.is_alive() for process in pool.values()):
            _end(pool.values())  # until each has heard it twice
            time.sleep(POLL)
        raise
    finally:
        _end(pool.values())
        for ours, member in pool.items():
            member.join()
            ours.close()
    return _together(said, told, pool.values())


def _begin(pool: dict[Connection, BaseProcess], work: _Work, place: Place) -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_member, args=(theirs, work, place))
    with warnings.catch_warnings():
        # The threads it warns of are idle: those of BLAS.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    pool[ours] = process


def _pass_on(leave: ExitRequest, members: Iterable[Connection]) -> None:
    for ours in members:
        with suppress(OSError):  # it has just ended
            ours.send(leave)


def _together(
    said: Sequence[StopReason | FarthingError],
    told: Sequence[ExitRequest],
    pool: Iterable[BaseProcess],
) -> StopReason:
    """Why they ended."""
    for word in said:
        if isinstance(word, FarthingError) and _is_fatal(word):
            raise word
    reasons = [word for word in said if isinstance(word, StopReason)]
    if told:
        return told[-1].because
    if reasons:
        return interrupted_or_last(reasons)
    for word in said:
        if isinstance(word, FarthingError):
            raise word
    codes = sorted({str(process.exitcode) for process in pool})
    raise FarthingError(f"Every worker was killed (exit code {', '.join(codes)}). Run again.")


def _is_fatal(word: StopReason | FarthingError) -> bool:
    return isinstance(word, FarthingError) and not isinstance(word, Unfit)


def _end(processes: Iterable[BaseProcess]) -> None:
    for process in processes:
        if process.is_alive():
            process.terminate()


def _member(parent: Connection, work: _Work, place: Place) -> None:
    """One worker of the pool: it hears from its parent when to leave, and says how it ended."""
    optimizer, settings, engine = work
    if not hears(signal.SIGTERM):  # which is how the pool ends it
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hears(signal.SIGINT):  # a terminal tells the parent, too, which passes it on
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals() as exit_requested, optimizer.on_the_clock():
            asked = _or_asked(exit_requested, parent)
            reason = until_stopped(optimizer, settings, engine, _nothing, asked, place)
            optimizer.commit(TimePassed())
            parent.send(reason)
    except FarthingError as error:
        parent.send(error)
    except KeyboardInterrupt:
        parent.send(INTERRUPTED)


def _or_asked(exit_requested: ExitCheck, parent: Connection) -> ExitCheck:
    """When this process must leave, or its parent says so."""
    told: list[ExitRequest] = []

    def asked() -> ExitRequest | None:
        with suppress(OSError, EOFError):  # a parent that is gone is noticed otherwise
            while parent.poll():
                told.append(parent.recv())
        return exit_requested() or (told[-1] if told else None)

    return asked


def _nothing() -> None:
    pass
