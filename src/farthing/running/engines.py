"""The engine that evaluates an objective: on this machine, or on a cluster."""

from __future__ import annotations

from typing import Any

from farthing.core.settings import Settings
from farthing.running.answer import Objective
from farthing.running.cluster import Cluster
from farthing.running.engine import Engine
from farthing.running.function import CallableTask
from farthing.running.pool import check_start
from farthing.running.process_group import ProcessGroup
from farthing.running.task import Task
from farthing.running.training import check_steps

__all__ = ["Objective", "cluster_engine", "local_engine"]


def local_engine(objective: Objective | Task, settings: Settings) -> ProcessGroup:
    """Evaluate each trial in a process group of this machine.

    Raises:
        InvalidInput: the objective cannot start here.
    """
    task = _task(objective)
    check_steps(getattr(task, "objective", None), settings.steps)
    check_start(task, settings)
    return ProcessGroup(task, timeout=settings.timeout, grace=settings.grace)


def cluster_engine(objective: Objective | Task, settings: Settings, cluster: Cluster) -> Engine:
    """Evaluate trials on a cluster.

    Raises:
        InvalidInput: the objective wants to report steps to a study without any.
    """
    task = _task(objective)
    check_steps(getattr(task, "objective", None), settings.steps)
    return cluster.evaluating(
        task, timeout=settings.timeout, grace=settings.grace, lease=settings.lease
    )


def _task(objective: Any) -> Task:
    return objective if hasattr(objective, "prepare") else CallableTask(objective)
