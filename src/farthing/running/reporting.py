"""Progress, told from inside an evaluation."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["report"]

_channel: int | None = None  # of the callable that this process evaluates


def report(
    step: float, value: float | None = None, *, cost: float | Mapping[str, float] | None = None
) -> None:
    """Say how far the evaluation has come, and what it has cost so far.

    In a callable it goes to the process that watches over it; in a command it is printed as a line
    of JSON, which is the same.

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


def listen_to(channel: int) -> None:
    """From now on messages of this process go to that descriptor."""
    global _channel
    _channel = channel


def send(message: Mapping[str, Any]) -> None:
    """One message to whoever watches over this process."""
    line = json.dumps(message, default=float) + "\n"
    if _channel is None:
        sys.stdout.write(line)
        sys.stdout.flush()
        return
    data = line.encode()
    while data:  # a pipe takes long messages in pieces
        data = data[os.write(_channel, data) :]
