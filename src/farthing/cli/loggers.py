"""The logs of `farthing run --log`: MLflow and Weights & Biases."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.running.callbacks import Callback

__all__ = ["LOGS", "loggers_of"]

LOGS = {"mlflow": "MLflow", "wandb": "WandB"}  # {module of farthing.integrations: its callback}


def loggers_of(names: str | Sequence[str]) -> list[Callback]:
    """The callbacks of these logs.

    Raises:
        MissingExtra: the library of a log is not installed.
    """
    found = [names] if isinstance(names, str) else list(names)
    for name in found:
        if name not in LOGS:
            raise InvalidInput(f"log = {name!r}: expected {' or '.join(LOGS)}.")
    return [getattr(import_module(f"farthing.integrations.{n}"), LOGS[n])() for n in found]
