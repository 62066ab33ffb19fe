"""Evaluate trials: one way to say what is wanted, several places to do it.

An `Engine` is told a `Job` (parameters, number, seed) and an `Allowance` (every how many seconds to
ask whether the trial may go on, whom to ask, who hears of progress), and hands back one `Finished`:
done, failed, killed or lost, with what it has used. It knows nothing of studies and budgets.

    engine = ProcessGroup(CommandTask(["python", "train.py", "--lr", "{lr}"]), timeout=600)
    allowance = Allowance(0.5, lambda usage: "too much" if usage.cpu_s > 300 else None)
    finished = engine.run(Job({"lr": 0.1}, number=0, seed=0), allowance)
    finished.state, finished.value, finished.usage.wall_s

`InProcess` calls a function in this process and cannot end it. `ProcessGroup` evaluates a
`CallableTask` (a Python function) or a `CommandTask` (a program with placeholders for the
parameters) in a process group of its own that nothing survives.

`Cluster` is a cluster that evaluates: `Dask` and `Ray` of farthing.integrations.

Another engine is one file with one frozen dataclass. Where the trial runs, `answer` of
answer.py makes of an objective one message, and `listening` of reporting.py catches what it
reports. Here, `run` feeds what it is sent to a `Messages` of output.py, asks `may_go_on` every tick
if it can cancel (`kills`), and makes its result with `ended`, `killed` or `lost` of result.py.
in_process.py is the shortest example.
"""

from farthing.errors import Infrastructure, Interrupted
from farthing.running.cluster import Cluster
from farthing.running.command import CommandTask
from farthing.running.engine import Allowance, Engine, Job
from farthing.running.finished import Finished, Usage
from farthing.running.function import CallableTask
from farthing.running.in_process import InProcess
from farthing.running.log import find_log, open_log
from farthing.running.pricing import Pricing
from farthing.running.process_group import ProcessGroup
from farthing.running.reporting import report_progress
from farthing.running.task import Task

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
    "Pricing",
    "ProcessGroup",
    "Task",
    "Usage",
    "find_log",
    "open_log",
    "report_progress",
]
