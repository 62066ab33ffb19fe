"""Workers that are processes, forked from this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from farthing.core.settings import Settings
from farthing.errors import FarthingError
from farthing.optimizer import Optimizer
from farthing.running import Engine
from farthing.running.signals import INTERRUPTED, can_handle, handle_signals, received_requests
from farthing.running.worker import Place, Report, run_worker
from farthing.storage import close_sqlite_files

__all__ = ["process_starter"]


def process_starter(
    optimizer: Optimizer, settings: Settings, engine: Engine
) -> Callable[[Connection, Place, list[Report]], BaseProcess]:
    """A function that forks a worker, which sends its report over the connection."""
    context = multiprocessing.get_context("fork")
    close_sqlite_files()

    def start(connection: Connection, place: Place, reports: list[Report]) -> BaseProcess:
        arguments = (connection, os.getpid(), optimizer, settings, engine, place)
        process = context.Process(target=_run_in_process, args=arguments)
        with warnings.catch_warnings():
            # Python warns about other threads. Here they are idle threads of BLAS.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        connection.close()
        return process

    return start


def _run_in_process(
    parent: Connection,
    pool: int,
    optimizer: Optimizer,
    settings: Settings,
    engine: Engine,
    place: Place,
) -> None:
    if not can_handle(signal.SIGTERM):  # the pool ends its workers with SIGTERM
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if can_handle(signal.SIGINT):  # a terminal also sends it to the parent, which passes it on
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    received = received_requests(parent)
    try:
        with handle_signals(pool) as exit_check:
            check = lambda: exit_check() or received()  # noqa: E731
            parent.send(run_worker(optimizer, settings, engine, lambda: None, check, place))
    except FarthingError as error:
        parent.send(error)
    except KeyboardInterrupt:
        parent.send(INTERRUPTED)
