"""The engine that calls the objective in this process."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from farthing.errors import Interrupted
from farthing.running.answer import METRIC, Objective, answer, check_objective
from farthing.running.engine import Allowance, Job
from farthing.running.finished import Finished, Usage
from farthing.running.measuring import megabytes
from farthing.running.output import Messages
from farthing.running.reporting import receiving, send
from farthing.running.result import ended, killed
from farthing.running.training import Training

__all__ = ["InProcess"]


@dataclass(frozen=True)
class InProcess:
    """Calls a function for each trial. It cannot kill a trial that has started.

    It does not seed the global random generators. An objective that raises `SystemExit` ends the
    calling program.

    Args:
        objective: called with a dictionary of parameters, and with its `Training` if it takes one.
    """

    objective: Objective

    kills: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_objective(self.objective)

    def run(self, job: Job, allowance: Allowance) -> Finished:
        """Evaluate one trial (see `Engine.run`)."""
        messages, used, callback_errors = Messages(METRIC), _meter(), list[Exception]()
        answers = ["pause"]  # the last answer of the tuner
        waited = Usage(0.0, 0.0, 0.0)  # for the tuner

        def usage() -> Usage:
            now = used()
            wall_s, cpu_s = now.wall_s - waited.wall_s, now.cpu_s - waited.cpu_s
            return Usage(wall_s, cpu_s, now.peak_mb, dict(messages.reported))

        def receive(line: bytes) -> None:
            nonlocal waited
            for progress in messages.feed(line):
                if allowance.on_report is not None:
                    try:
                        before = used()
                        answer_to_it = allowance.on_report(progress, usage())
                        if answer_to_it is not None:
                            now, answers[:] = used(), [answer_to_it]
                            wall_s = waited.wall_s + now.wall_s - before.wall_s
                            cpu_s = waited.cpu_s + now.cpu_s - before.cpu_s
                            waited = Usage(wall_s, cpu_s, 0.0)
                    except Exception as error:  # the objective may catch it
                        callback_errors.append(error)
                        raise

        try:
            training = None if job.part is None else Training(job, lambda: answers[-1])
            with receiving(receive):
                send(answer(self.objective, job.params, training=training))
            total = usage()
        except KeyboardInterrupt as interrupt:
            if messages.result is None:
                finished = killed(messages, usage(), "interrupted from the keyboard")
            else:  # the objective had just returned
                finished = ended(messages, usage())
            raise Interrupted(finished) from interrupt
        if callback_errors:
            raise callback_errors[0]
        return ended(messages, total)


def _meter() -> Callable[[], Usage]:
    """A function that returns the usage of this process, and its reaped children, since now."""

    def clocks() -> tuple[float, float]:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), time.process_time() + children.ru_utime + children.ru_stime

    wall_s, cpu_s = clocks()

    def used() -> Usage:
        wall_now, cpu_now = clocks()
        own = resource.getrusage(resource.RUSAGE_SELF)
        return Usage(wall_now - wall_s, cpu_now - cpu_s, megabytes(own.ru_maxrss))

    return used
