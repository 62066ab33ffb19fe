"""The result of an evaluation, and what it has used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

__all__ = ["Finished", "Usage"]

NOTHING: Mapping[str, float] = MappingProxyType({})


class Usage(NamedTuple):
    """What an evaluation has used so far.

    Attributes:
        wall_s: seconds since its start.
        cpu_s: CPU seconds of the evaluation and all its descendants, including those that have
            ended. Except on Linux, this is 0 until the evaluation has ended.
        peak_mb: peak memory of its largest process in MB. If it was not measured during the run,
            it is at least the size of the process that started it.
        reported: the cost so far as its progress messages report it, by resource; a number without
            a resource has the key "".
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    reported: Mapping[str, float] = NOTHING


@dataclass(frozen=True)
class Finished:
    """The result of one evaluation.

    Attributes:
        state: "done"; "paused" if a training ended at a step before the last; "failed" because of
            the parameters, so the models learn from it; "killed" at a limit, so its cost is a lower
            bound; or "lost" because of the machine, so the models ignore it.
        value: the objective value if done.
        cost: the cost in its result, by resource. A number without a resource has the key "" and is
            in the first resource of the budget.
        error: why there is no value, with the traceback or the last lines of stderr.
        usage: its total usage.
        reports: its last progress messages.
        metrics: the other keys of its result.
        tail: the last lines of its output.
    """

    state: Literal["done", "paused", "failed", "killed", "lost"]
    value: float | None
    cost: Mapping[str, float]
    error: str | None
    usage: Usage
    reports: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    tail: str = ""
