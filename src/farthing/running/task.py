"""The seam between what is evaluated and how it is watched over."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

__all__ = ["Job", "Start", "Task"]

# What the new process does: (where messages go, where all other output goes) -> never returns.
Start = Callable[[int, int], NoReturn]


@dataclass(frozen=True)
class Job:
    """One evaluation of a task.

    Attributes:
        params: the configuration.
        number: of the trial.
        seed: for the evaluation's own randomness.
        folder: an empty directory that is removed after the evaluation.
    """

    params: Mapping[str, Any]
    number: int
    seed: int
    folder: Path

    @property
    def result_file(self) -> Path:
        """Where a command may write its result instead of printing it."""
        return self.folder / "result.json"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that tell an evaluation who it is."""
        return {
            "FARTHING_PARAMS": json.dumps(dict(self.params), default=plain),
            "FARTHING_TRIAL": str(self.number),
            "FARTHING_SEED": str(self.seed),
        }


class Task(Protocol):
    """What is evaluated: a `CallableTask` or a `CommandTask`."""

    @property
    def metric(self) -> str:
        """The key of the value in its messages."""

    def prepare(self, job: Job) -> Start:
        """Everything that can be checked and made before a process is started.

        Raises:
            InvalidInput: this can never run.
            OSError: it could not be prepared here and now.
        """


def plain(value: Any) -> Any:
    """The Python value of a NumPy scalar; whatever else JSON does not know, as text."""
    return value.item() if hasattr(value, "item") else str(value)
