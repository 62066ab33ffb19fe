"""Trainings that are paused by stopping their processes (SIGSTOP), with `resume="suspend"`.

A plain program that prints its steps and cannot save a checkpoint can go on only in its own
process. So the worker that started it keeps it, stopped, and lets it go on when the tuner resumes
its trial. No other worker can. While it is stopped it costs nothing but memory:

- A worker keeps at most `Steps.suspended` of them.
- If less than LEAST_MEMORY of the machine's memory is available, no more are kept than before.

Beyond that the one of the least value is ended (see `checkpoint_order`). Such a training, and one
whose worker has ended, counts as one without a checkpoint: it stays paused and is not continued.
"""

from __future__ import annotations

from farthing.core.checkpoint_order import least_promising
from farthing.core.settings import Settings
from farthing.errors import InvalidInput
from farthing.history import History
from farthing.running.engine import Engine
from farthing.running.process_group import ProcessGroup

__all__ = ["check_suspending", "end_suspended", "limit_suspended", "waiting_in"]

LEAST_MEMORY = 0.1  # of the memory of the machine
MEMORY = "/proc/meminfo"


def check_suspending(settings: Settings, engine: Engine) -> None:
    """Refuse to suspend trainings that have no process of their own on this machine."""
    if settings.steps is None or not settings.steps.suspends or isinstance(engine, ProcessGroup):
        return
    raise InvalidInput(
        "resume='suspend' needs trainings in processes of their own on this machine. Use "
        "study.run(objective) or farthing run, or choose resume='checkpoint' or 'never'."
    )


def waiting_in(engine: Engine) -> frozenset[int]:
    """The trials whose suspended processes an engine has."""
    return frozenset(engine.suspended) if isinstance(engine, ProcessGroup) else frozenset()


def end_suspended(engine: Engine) -> None:
    """End all suspended trainings of an engine."""
    if isinstance(engine, ProcessGroup):
        engine.end_suspended(engine.suspended)


def limit_suspended(engine: Engine, settings: Settings, history: History) -> None:
    """End the suspended training of the least value if there are too many for the memory."""
    if not isinstance(engine, ProcessGroup) or settings.steps is None or not engine.suspended:
        return
    if len(engine.suspended) > settings.steps.suspended or is_memory_low():
        engine.end_suspended([least_promising(settings, history, engine.suspended)])


def is_memory_low() -> bool:
    """Whether little of the machine's memory is available; False if the system does not say."""
    try:
        with open(MEMORY, encoding="ascii") as file:
            found = dict(line.split(":", 1) for line in file)
        available, total = (int(found[key].split()[0]) for key in ("MemAvailable", "MemTotal"))
    except (OSError, KeyError, ValueError):
        return False
    return available < LEAST_MEMORY * total
