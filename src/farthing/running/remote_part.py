"""A part of a training on a machine of a cluster, which asks another process for decisions."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

from farthing.errors import InvalidInput
from farthing.running.answer import METRIC
from farthing.running.engine import Job
from farthing.running.output import number_of

__all__ = ["RemotePart", "step_and_value"]


def step_and_value(message: Mapping[str, Any], metric: str, last: int) -> tuple[int, float] | None:
    """The point of a curve in a progress message; None if it has no whole step or no value."""
    step = number_of(message.get("step"))
    value = number_of(message.get(metric, message.get(METRIC)))
    if step is None or value is None or step != int(step) or not 1 <= step <= last:
        return None
    return int(step), value


class RemotePart:
    """The reports of one part that wait for an answer.

    Args:
        job: the trial.
        metric: the key of the objective value in its messages.

    Raises:
        InvalidInput: this machine does not see the folder of the checkpoint.
    """

    def __init__(self, job: Job, metric: str) -> None:
        self._part, self._metric = job.part, metric
        self._until = None if job.part is None else job.part.until
        folder = None if job.part is None else job.part.checkpoint
        if folder is not None and not folder.is_dir():
            raise InvalidInput(
                f"The machine {socket.gethostname()!r} has no folder {str(folder)!r} for the "
                "checkpoint of a training. Give the study a folder that all machines of the "
                "cluster share, logs=..., or no checkpoints, Steps(..., resume='never')."
            )

    def answer(self, message: Mapping[str, Any], receive: Callable[[], str | None]) -> str | None:
        """The answer to a report; None if the tuner does not decide at its step.

        Args:
            receive: waits for the decision of the tuner; None if the training is to be ended.
        """
        if self._part is None or self._until is None:
            return None
        point = step_and_value(message, self._metric, self._part.last)
        if point is None or not self._until <= point[0] < self._part.last:
            return None
        decision = receive()
        goes_on, _, until = (decision or "").partition(" ")
        self._until = int(until) if goes_on == "continue" else None  # otherwise it ends
        return decision
