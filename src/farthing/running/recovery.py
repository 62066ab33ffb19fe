"""What evaluations reported, and their workers could not store before they died."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from farthing.core.events import Recovered, Told
from farthing.errors import StorageError
from farthing.history import CurvePoint, Trial
from farthing.optimizer import Optimizer
from farthing.running.finished import Finished, Usage
from farthing.running.journal import Journal, delete_journal, journals_in, read_journal

__all__ = ["recover"]

Points = Callable[[Iterable[tuple[Mapping[str, Any], Usage]]], Iterable[CurvePoint]]
Outcome = Callable[[Trial, Finished], Told | None]


def recover(optimizer: Optimizer, logs: Path | None, points: Points, outcome: Outcome) -> None:
    """Report what is known of evaluations whose workers have died, and delete their journals.

    This adds what is missing in the curves of parts that have ended, and tells the outcome of a
    trial that was lost after its evaluation had ended. If the database does not answer, the
    journals stay for the next time. If two workers do this at the same time, the second one changes
    nothing.

    Args:
        logs: the folder of the log files; None if there is none.
        points: makes the points of a curve from the messages of a part and its usage at each.
        outcome: what to tell of a lost trial that has this result; None for nothing.
    """
    journals = [] if logs is None else journals_in(logs)
    if journals:
        optimizer.is_worked_on()  # trials whose leases have expired are lost from now on
    for number, asked_at, file in journals:
        history = optimizer.seen.history
        trial = history[number] if number < len(history) else None
        if trial is not None and trial.state == "running" and trial.run.asked_at == asked_at:
            continue
        if trial is not None:
            try:
                _report(optimizer, trial, asked_at, read_journal(file), points, outcome)
            except StorageError:
                return
        delete_journal(file)


def _report(
    optimizer: Optimizer,
    trial: Trial,
    asked_at: float,
    journal: Journal,
    points: Points,
    outcome: Outcome,
) -> None:
    curve = tuple(points(journal.messages))
    known = {point.step for point in trial.curve}
    if not all(point.step in known for point in curve):
        optimizer.commit(Recovered(trial.number, asked_at, curve))
        trial = optimizer.seen.history[trial.number]
    if journal.finished is None or trial.run.asked_at != asked_at:
        return
    if trial.state in ("lost", "paused") and (told := outcome(trial, journal.finished)) is not None:
        optimizer.commit(told)
