"""Evaluate trials in this process, in other processes, or on a cluster.

An `Engine` gets a `Job` (parameters, number, seed) and an `Allowance` (limits and callbacks). It
returns a `Finished`: "done", "failed", "killed" or "lost", with what the trial has used. An engine
knows nothing about studies and budgets.

    engine = ProcessGroup(CommandTask(["python", "train.py", "--lr", "{lr}"]), timeout=600)
    allowance = Allowance(0.5, lambda usage: "too much" if usage.cpu_s > 300 else None)
    finished = engine.run(Job({"lr": 0.1}, number=0, seed=0), allowance)
    finished.state, finished.value, finished.usage.wall_s

`InProcess` calls a function in this process and cannot kill it. `ProcessGroup` evaluates a
`CallableTask` (a Python function) or a `CommandTask` (a program with placeholders for the
parameters) in its own process group, and ends all its processes. A `Cluster` evaluates on other
machines: `Dask` and `Ray` of farthing.integrations.

A new engine is one file with one frozen dataclass; in_process.py is the shortest example. Where the
trial runs, `answer` of answer.py turns an objective into one message, and `receiving` of
reporting.py catches its progress. In the worker, `run` passes the messages to a `Messages` of
output.py. If the engine can kill a trial (`kills`), it calls `may_go_on` every tick. `ended`,
`killed` or `lost` of result.py make the `Finished`.
"""

from farthing.errors import Infrastructure, Interrupted
from farthing.running.cluster import Cluster
from farthing.running.command import CommandTask
from farthing.running.engine import Allowance, Engine, Job, Part
from farthing.running.finished import Finished, Usage
from farthing.running.function import CallableTask
from farthing.running.in_process import InProcess
from farthing.running.log import find_log, open_log
from farthing.running.pricing import Pricing
from farthing.running.process_group import ProcessGroup
from farthing.running.reporting import report_progress
from farthing.running.task import Task
from farthing.running.training import Training

__all__ = [
    "Allowance",
    "CallableTask",
    "Cluster",
    "CommandTask",
    "Engine",
    "Finished",
    "InProcess",
    "Infrastructure",
    "Interrupted",
    "Job",
    "Part",
    "Pricing",
    "ProcessGroup",
    "Task",
    "Training",
    "Usage",
    "find_log",
    "open_log",
    "report_progress",
]
