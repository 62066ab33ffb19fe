"""What evaluations reported, and their workers could not store before they died."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from farthing.core.events import Recovered, TimePassed, Told
from farthing.errors import StorageError
from farthing.history import CurvePoint, Trial
from farthing.optimizer import Optimizer
from farthing.running.finished import Finished, Usage
from farthing.running.journal import Journal, delete_journal, journal_of, journals_in, read_journal

__all__ = ["recover", "rescue"]

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


def rescue(
    optimizer: Optimizer, logs: Path | None, outcome: Outcome, trials: Iterable[Trial]
) -> None:
    """Tell the outcomes of trials whose evaluations have ended, though their workers have died.

    If these trials were lost first, other workers could repeat them, and pay for them again.
    """
    if logs is None:
        return
    for trial in trials:
        finished = read_journal(journal_of(logs, trial)).finished
        if finished is not None and (told := outcome(trial, finished)) is not None:
            _tell(optimizer, told)


def _tell(optimizer: Optimizer, told: Told) -> None:
    if optimizer.seen.ledger.used_up:  # past the limit, waiting for others is free
        optimizer.commit(TimePassed())
    optimizer.commit(told)


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
        _tell(optimizer, told)
