"""Workers that are threads of this process and wait while a cluster evaluates.

A process with a connection to a cluster must not fork, so these workers cannot be processes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from multiprocessing.connection import Connection
from threading import Thread

from farthing.core.settings import Settings
from farthing.optimizer import Optimizer
from farthing.running import Engine
from farthing.running.signals import received_requests
from farthing.running.worker import Place, Report, run_worker

__all__ = ["thread_starter"]


def thread_starter(
    optimizer: Optimizer, settings: Settings, engine: Engine
) -> Callable[[Connection, Place, list[Report]], Thread]:
    """A function that starts a worker with its own copy of the study object."""

    def start(connection: Connection, place: Place, reports: list[Report]) -> Thread:
        own, check = copy.copy(optimizer), received_requests(connection)

        def work() -> None:
            try:
                reports.append(run_worker(own, settings, engine, lambda: None, check, place))
            except BaseException as error:
                reports.append(error)
            finally:
                connection.close()
                close = getattr(own, "close", None)
                if close is not None:
                    close()

        thread = Thread(target=work, name=f"farthing-{place.slot}")
        thread.start()
        return thread

    return start
