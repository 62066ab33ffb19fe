"""Workers that are threads of this process: they wait while a cluster evaluates.

A process that holds a connection to a cluster must not be forked. Each thread has a handle of its
own on the study, so each is a worker like any other.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence

from farthing.core.events import TimePassed
from farthing.core.settings import Settings
from farthing.history import StopReason
from farthing.optimizer import Optimizer
from farthing.running import Engine
from farthing.running.signals import (
    INTERRUPTED,
    ExitCheck,
    ExitRequest,
    announced,
    interrupted_or_last,
    signals,
)
from farthing.running.worker import POLL, Notice, Place, name_of, until_stopped

__all__ = ["run_thread_pool"]

WORKER_ERROR = StopReason("worker_error", "another worker met an error")


def run_thread_pool(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    on_change: Notice,
    places: Sequence[Place],
) -> StopReason:
    """Work on a study with a thread for each place; why it ended.

    Args:
        on_change: called in this thread when something may have happened.

    Raises:
        FarthingError: what a worker met; the others were ended first.
    """
    said, told = list[StopReason | BaseException](), list[ExitRequest]()

    def leaving() -> ExitRequest | None:
        return told[-1] if told else None

    def running() -> list[int]:
        return [t.number for t in optimizer.history.running if t.run.worker == name_of()]

    crew = [
        threading.Thread(
            target=_member,
            args=(copy.copy(optimizer), settings, engine, leaving, place, said),
            name=f"farthing-{place.slot}",
        )
        for place in places
    ]
    with signals() as exit_requested:
        exit_requested = announced(exit_requested, running)
        try:
            for member in crew:
                member.start()
            while any(member.is_alive() for member in crew):
                for member in crew:
                    member.join(POLL / len(crew))
                leave = exit_requested()
                if leave is not None and leave not in told:
                    told.append(leave)
                if any(isinstance(word, BaseException) for word in said):
                    told.append(ExitRequest(WORKER_ERROR, now=True))
                on_change()
        finally:  # also at a third Ctrl-C: what is running is ended, and told
            told.append(ExitRequest(INTERRUPTED, now=True))
            for member in crew:
                if member.ident is not None:
                    member.join()
    for word in said:
        if isinstance(word, BaseException):
            raise word
    return interrupted_or_last([word for word in said if isinstance(word, StopReason)])


def _member(
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    leaving: ExitCheck,
    place: Place,
    said: list[StopReason | BaseException],
) -> None:
    """One worker: it says how it ended."""
    try:
        with optimizer.on_the_clock():
            reason = until_stopped(optimizer, settings, engine, lambda: None, leaving, place)
            optimizer.commit(
                TimePassed()
            )  # the last thought led to no trial, and is paid all the same
            said.append(reason)
    except BaseException as error:
        said.append(error)
    finally:
        close = getattr(optimizer, "close", None)
        if close is not None:
            close()
