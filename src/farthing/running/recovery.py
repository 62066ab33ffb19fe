"""Values that trainings reported, and that their workers could not store before they died."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from farthing.core.events import Recovered
from farthing.errors import StorageError
from farthing.history import CurvePoint
from farthing.optimizer import Optimizer
from farthing.running.finished import Usage
from farthing.running.journal import journals_in, messages_in

__all__ = ["recover"]

Points = Callable[[Iterable[tuple[Mapping[str, Any], Usage]]], Iterable[CurvePoint]]


def recover(optimizer: Optimizer, logs: Path | None, points: Points) -> None:
    """Add what is missing in the curves of parts that have ended, and delete their journals.

    If the database does not answer, the journals stay for the next time. If two workers do this at
    the same time, the second one adds nothing.

    Args:
        logs: the folder of the log files; None if there is none.
        points: makes the points of a curve from the messages of a part and its usage at each.
    """
    for number, asked_at, file in [] if logs is None else journals_in(logs):
        history = optimizer.seen.history
        trial = history[number] if number < len(history) else None
        if trial is not None and trial.state == "running" and trial.run.asked_at == asked_at:
            continue
        if trial is not None:
            curve = tuple(points(messages_in(file)))
            known = {point.step for point in trial.curve}
            if not all(point.step in known for point in curve):
                try:
                    optimizer.commit(Recovered(number, asked_at, curve))
                except StorageError:
                    return
        with suppress(OSError):
            file.unlink()
