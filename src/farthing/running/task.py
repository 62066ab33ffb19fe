"""The interface between an engine and what it evaluates: a function or a command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

from farthing.running.engine import Job

__all__ = ["PRIVATE", "RESULT_FILE", "Start", "Task"]

# Runs in the new process with the file descriptors for messages and other output. Never returns.
Start = Callable[[int, int], NoReturn]

# Variables with credentials of the database, which no trial needs.
PRIVATE = ("FARTHING_STORAGE", "PGPASSWORD", "PGPASSFILE")
RESULT_FILE = "result.json"  # name of the result file in the folder of the evaluation


class Task(Protocol):
    """What is evaluated: a `CallableTask` or a `CommandTask`."""

    @property
    def metric(self) -> str:
        """The key of the objective value in its messages."""

    @property
    def prints_messages(self) -> bool:
        """Whether its messages are part of its printed output."""

    @property
    def waits(self) -> bool:
        """Whether a training waits for the answer of the tuner when it reports a rung."""

    def check(self, job: Job) -> None:
        """Check that its folder, its program and its files exist here.

        Raises:
            InvalidInput: something is missing; the message says what.
        """

    def prepare(self, job: Job, folder: Path) -> Start:
        """Prepare the evaluation, and return what its process runs.

        Args:
            job: the trial.
            folder: an empty directory that is removed after the evaluation.

        Raises:
            InvalidInput: no trial of this task can run.
            OSError: this trial cannot be prepared now.
        """
