"""Evaluate one configuration, in a process group of its own that nothing survives.

A `CallableTask` is a Python function, a `CommandTask` a program with placeholders for the
parameters. `supervise` evaluates either: it measures, passes progress on, asks every tick whether
the evaluation may go on, ends it if not, and says what became of it. It knows nothing of studies.

    finished = supervise(
        CommandTask(["python", "train.py", "--lr", "{lr}"]), {"lr": 0.1},
        number=0, seed=0, timeout=600, allow=lambda usage: usage.cpu_s < 300,
    )
    finished.state, finished.value, finished.usage.wall_s
"""

from farthing.errors import Infrastructure, Interrupted
from farthing.running.command import CommandTask
from farthing.running.finished import Finished, Usage
from farthing.running.function import CallableTask
from farthing.running.reporting import report
from farthing.running.supervisor import supervise
from farthing.running.task import Task

__all__ = [
    "CallableTask",
    "CommandTask",
    "Finished",
    "Infrastructure",
    "Interrupted",
    "Task",
    "Usage",
    "report",
    "supervise",
]
