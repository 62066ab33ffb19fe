"""What the callbacks of training loops share: the value to report, and the file of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from farthing.errors import InvalidInput
from farthing.running.training import Training

__all__ = ["metric_of", "saved", "saving"]


def metric_of(metrics: Mapping[str, Any], name: str | None, advice: str) -> Any:
    """The metric of that name, or the last one.

    Raises:
        InvalidInput: there is no such metric.
    """
    if not metrics or (name is not None and name not in metrics):
        there = f"there are only {', '.join(metrics)}" if metrics else "there is none at all"
        raise InvalidInput(f"The training has no metric {name or 'to report'}: {there}. {advice}")
    return metrics[name] if name is not None else list(metrics.values())[-1]


def saved(trial: Training, name: str) -> Path | None:
    """The checkpoint of that name in the folder of the training; None if it was not saved."""
    file = None if trial.checkpoint is None else trial.checkpoint / name
    return file if file is not None and file.exists() else None


@contextmanager
def saving(trial: Training, name: str) -> Iterator[Path]:
    """Yield the path to write to, and rename that file when it is complete."""
    assert trial.checkpoint is not None, "a training without a folder is stopped, not paused"
    new = trial.checkpoint / f"new-{name}"
    yield new
    new.replace(trial.checkpoint / name)
