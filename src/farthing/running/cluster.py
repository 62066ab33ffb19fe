"""The seam between a study and a cluster that evaluates its trials."""

from __future__ import annotations

from typing import Protocol

from farthing.running.engine import Engine
from farthing.running.task import Task

__all__ = ["Cluster"]


class Cluster(Protocol):
    """Where trials are evaluated outside of this machine's processes: `Dask` or `Ray`."""

    @property
    def slots(self) -> int:
        """How many trials fit there at the same time, as it is now."""

    def evaluating(
        self, task: Task, *, timeout: float | None, grace: float, lease: float
    ) -> Engine:
        """The engine that evaluates this there.

        Args:
            task: what to evaluate.
            timeout: seconds after which a trial is ended, None for never.
            grace: seconds between SIGTERM and SIGKILL.
            lease: seconds after which one is lost that nothing was heard of.
        """
