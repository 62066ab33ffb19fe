"""Report progress from inside an evaluation."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["report_progress"]

Receiver = Callable[[bytes], None]  # called with each message as a line

# A process that evaluates one objective has one receiver for all its threads. A process that calls
# objectives itself may do so in several threads, each with its own receiver.
_process_receiver: Receiver | None = None
_call_receiver: ContextVar[Receiver | None] = ContextVar("_call_receiver", default=None)


def report_progress(
    step: float, value: float | None = None, *, cost: float | Mapping[str, float] | None = None
) -> None:
    """Report the progress of the evaluation, and its cost so far.

    In an objective, the report goes to the engine. In a command, it is printed as a line of JSON,
    which the engine reads.

    Args:
        step: the progress: epochs, folds, or any number that grows.
        value: the objective value at this step.
        cost: the cost since the start of the evaluation: a number, or {resource: amount}.
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


def set_receiver(receiver: Receiver) -> None:
    """Pass all messages of this process to the receiver from now on."""
    global _process_receiver
    _process_receiver = receiver
    _call_receiver.set(None)  # an inherited receiver belongs to the parent process


@contextmanager
def receiving(receiver: Receiver) -> Iterator[None]:
    """Pass the messages of the calls inside this context to the receiver."""
    before = _call_receiver.set(receiver)
    try:
        yield
    finally:
        _call_receiver.reset(before)


def send(message: Mapping[str, Any]) -> None:
    """Pass a message to the receiver, or print it if there is none."""
    line = json.dumps(message, default=float) + "\n"
    receiver = _call_receiver.get() or _process_receiver
    if receiver is not None:
        receiver(line.encode())
    else:
        sys.stdout.write(line)
        sys.stdout.flush()
