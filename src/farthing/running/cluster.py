"""The interface between a study and a cluster that evaluates its trials."""

from __future__ import annotations

from typing import Protocol

from farthing.running.engine import Engine
from farthing.running.task import Task

__all__ = ["Cluster"]


class Cluster(Protocol):
    """A cluster that evaluates trials: `Dask` or `Ray` of farthing.integrations."""

    @property
    def slots(self) -> int:
        """The number of trials that the cluster can evaluate at the same time now."""

    def evaluating(
        self, task: Task, *, timeout: float | None, grace: float, lease: float
    ) -> Engine:
        """The engine that evaluates the task on the cluster.

        Args:
            task: what to evaluate.
            timeout: seconds after which a trial is killed; None for never.
            grace: seconds between SIGTERM and SIGKILL.
            lease: seconds without a message after which a trial counts as lost.
        """
