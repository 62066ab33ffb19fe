"""Why a training started, continued, was paused and was resumed.

`Trial.because` is the reason of the last part. The notes of a trial keep the reasons of all its
parts, each with the step and the cost at that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from farthing.history import Trial

__all__ = ["MAX_REASONS", "PartReason", "reasons_of", "with_reason"]

NOTE = "reasons"
MAX_REASONS = 64  # kept: the first and the latest
MAX_CHARS = 400  # of a reason

Kind = Literal["started", "continued", "paused", "resumed"]


class PartReason(NamedTuple):
    """One decision about a training.

    Attributes:
        part: 1, 2, ...: the part of the training that begins, continues or ends.
        step: the step that the training had reached.
        cost: what was paid for the trial up to then, by resource.
        because: the reason; "" if a user decided.
        at: when, on the store's clock.
    """

    kind: Kind
    part: int
    step: int
    cost: Mapping[str, float]
    because: str
    at: float


def reasons_of(trial: Trial) -> list[PartReason]:
    """The decisions about a training so far. The first one is that it started."""
    found = [PartReason(**each) for each in trial.notes.get(NOTE, ())]
    return found or [PartReason("started", 1, 0, {}, trial.because, trial.run.asked_at)]


def with_reason(
    notes: Mapping[str, Any],
    trial: Trial,
    kind: Kind,
    because: str,
    at: float,
    *,
    step: int,
    cost: Mapping[str, float],
) -> dict[str, Any]:
    """Notes with the decisions about a trial so far, and a further one."""
    earlier = reasons_of(trial)
    part = earlier[-1].part + (kind == "resumed")
    kept = [*earlier, PartReason(kind, part, step, dict(cost), because[:MAX_CHARS], at)]
    if len(kept) > MAX_REASONS:
        kept = [kept[0], *kept[1 - MAX_REASONS :]]
    return {**notes, NOTE: [each._asdict() for each in kept]}
