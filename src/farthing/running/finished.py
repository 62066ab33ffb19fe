"""What an evaluation has used, and what became of it."""

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
        wall_s: seconds since it was started.
        cpu_s: CPU seconds of the evaluation and all its descendants, the finished ones included;
            while it runs only Linux can tell, elsewhere it is 0 until the end.
        peak_mb: the largest memory one of its processes has held. At the end it is at least the
            size of the process that started it, unless it was measured while it ran.
        reported: what its progress said it has cost so far, by resource; a bare number is under "".
    """

    wall_s: float
    cpu_s: float
    peak_mb: float
    reported: Mapping[str, float] = NOTHING


@dataclass(frozen=True)
class Finished:
    """What became of one evaluation.

    Attributes:
        state: done; failed (the parameters are to blame: learn from it); killed (at a limit, so its
            cost is a lower bound); lost (nobody's fault: learn nothing).
        value: the result, when done.
        cost: what its result said it has cost, by resource; a bare number, which is in the
            budget's first resource, is under "".
        error: why there is no value, with the traceback or the last lines of stderr.
        usage: what it has used in all.
        reports: its last progress lines.
        metrics: what else its result said.
        tail: the last lines it printed.
    """

    state: Literal["done", "failed", "killed", "lost"]
    value: float | None
    cost: Mapping[str, float]
    error: str | None
    usage: Usage
    reports: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    tail: str = ""
