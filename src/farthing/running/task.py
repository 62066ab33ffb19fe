"""What a process group evaluates: a callable or a command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

from farthing.running.engine import Job

__all__ = ["PRIVATE", "RESULT_FILE", "Start", "Task"]

# What the new process does: (where messages go, where all other output goes) -> never returns.
Start = Callable[[int, int], NoReturn]

# Variables of this process that hold a way into the database: no trial needs them for our sake.
PRIVATE = ("FARTHING_STORAGE", "PGPASSWORD", "PGPASSFILE")
RESULT_FILE = "result.json"  # in its folder: what it writes there is its result


class Task(Protocol):
    """What is evaluated: a `CallableTask` or a `CommandTask`."""

    @property
    def metric(self) -> str:
        """The key of the value in its messages."""

    @property
    def prints_messages(self) -> bool:
        """Whether its messages are part of what it prints."""

    def check(self, job: Job) -> None:
        """Whether this could start here: its folder, its program, its files.

        Raises:
            InvalidInput: it cannot; the sentence says what is missing.
        """

    def prepare(self, job: Job, folder: Path) -> Start:
        """Everything that can be checked and made before a process is started.

        Args:
            job: the trial.
            folder: an empty directory that is removed after the evaluation.

        Raises:
            InvalidInput: this can never run.
            OSError: it could not be prepared here and now.
        """
