"""The logs of `farthing run --log`: MLflow and Weights & Biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from farthing.errors import InvalidInput

if TYPE_CHECKING:
    from farthing.running.callbacks import Callback

__all__ = ["LOGS", "loggers_of"]

LOGS = ("mlflow", "wandb")


def loggers_of(names: str | Sequence[str]) -> list[Callback]:
    """The callbacks of these logs.

    Raises:
        MissingExtra: the library of a log is not installed.
    """
    return [_logger(name) for name in ([names] if isinstance(names, str) else names)]


def _logger(name: str) -> Callback:
    if name == "mlflow":
        from farthing.integrations.mlflow import MLflow

        return MLflow()
    if name == "wandb":
        from farthing.integrations.wandb import WandB

        return WandB()
    raise InvalidInput(f"log = {name!r}: expected {' or '.join(LOGS)}.")
