"""Progress, told from inside an evaluation."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["report_progress"]

Hear = Callable[[bytes], None]

# A process that evaluates one callable has one listener, for all its threads. A process that calls
# objectives itself may do so in several threads, each with its own.
_of_this_process: Hear | None = None
_of_this_call: ContextVar[Hear | None] = ContextVar("_of_this_call", default=None)


def report_progress(
    step: float, value: float | None = None, *, cost: float | Mapping[str, float] | None = None
) -> None:
    """Say how far the evaluation has come, and what it has cost so far.

    In a callable it goes to the engine that evaluates it; in a command it is printed as a line of
    JSON, which is the same.

    Args:
        step: how far: epochs, folds, anything that grows.
        value: the objective at this step.
        cost: what it has cost from the beginning: a number, or {resource: amount}.
    """
    message: dict[str, Any] = {"step": step}
    if value is not None:
        message["value"] = float(value)
    if cost is not None:
        message["cost"] = plain_cost(cost)
    send(message)


def plain_cost(cost: float | Mapping[str, float]) -> float | dict[str, float]:
    """A cost in plain Python numbers."""
    if isinstance(cost, Mapping):
        return {str(resource): float(amount) for resource, amount in cost.items()}
    return float(cost)


def listen_to(hear: Hear) -> None:
    """From now on that hears every message of this process."""
    global _of_this_process
    _of_this_process = hear
    _of_this_call.set(None)  # whoever forked this process listens elsewhere


@contextmanager
def listening(hear: Hear) -> Iterator[None]:
    """That hears every message of what is called within."""
    before = _of_this_call.set(hear)
    try:
        yield
    finally:
        _of_this_call.reset(before)


def send(message: Mapping[str, Any]) -> None:
    """One message to whoever listens."""
    line = json.dumps(message, default=float) + "\n"
    hear = _of_this_call.get() or _of_this_process
    if hear is not None:
        hear(line.encode())
    else:
        sys.stdout.write(line)
        sys.stdout.flush()
