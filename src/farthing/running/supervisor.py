"""Evaluate one configuration in a process group of its own, and be there until it is gone."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from farthing.errors import Interrupted, InvalidInput
from farthing.running.evaluation import Evaluation
from farthing.running.finished import Finished, Usage
from farthing.running.output import costs_of
from farthing.running.result import read_result_file, verdict_of
from farthing.running.task import Job, Task

__all__ = ["supervise"]

IMPATIENT_GRACE = 1.0  # seconds, when somebody waits at the keyboard


def supervise(
    task: Task,
    params: Mapping[str, Any],
    *,
    number: int,
    seed: int,
    timeout: float | None = None,
    grace: float = 5.0,
    tick: float = 0.5,
    allow: Callable[[Usage], bool],
    on_progress: Callable[[Mapping[str, Any], Usage], None] | None = None,
) -> Finished:
    """Evaluate one configuration; nothing of it is left when this returns or raises.

    An evaluation that was told to end is killed, whatever it still says: its value may be that of
    half the work. One that ends takes the rest of its process group with it, after half a second.

    Args:
        task: what to evaluate.
        params: the configuration.
        number: of the trial; the evaluation is told.
        seed: for the evaluation's own randomness.
        timeout: seconds after which it is ended, None for never.
        grace: seconds between SIGTERM and SIGKILL.
        tick: seconds between two questions whether it may go on.
        allow: whether it may go on, given what it has used. Output is not read meanwhile.
        on_progress: called with each progress message and what had been used by then.

    Raises:
        InvalidInput: the task can never run with this configuration; nothing was evaluated.
        Interrupted: Ctrl-C; the evaluation was killed, and `.finished` says what it had used.
    """
    _check(timeout, grace, tick)
    evaluation = Evaluation(task.metric, on_progress)
    folder: str | None = None
    try:
        try:
            folder = tempfile.mkdtemp(prefix="farthing-")
            job = Job(params, number, seed, Path(folder))
            evaluation.start(task.prepare(job), folder, timeout=timeout, grace=grace)
        except OSError as error:
            return _not_its_fault(evaluation, f"it could not be started: {error}")
        evaluation.watch(tick, allow, grace)
        evaluation.end(grace)
        return _finished(evaluation, timeout, read_result_file(job.result_file))
    except KeyboardInterrupt as interrupt:
        with suppress(KeyboardInterrupt):  # one is enough
            evaluation.end(min(grace, IMPATIENT_GRACE))
        if evaluation.ended_by_itself:
            finished = _finished(evaluation, timeout, read_result_file(job.result_file))
        else:
            finished = _killed(evaluation, "interrupted from the keyboard")
        raise Interrupted(finished) from interrupt
    finally:
        evaluation.end(grace)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _check(timeout: float | None, grace: float, tick: float) -> None:
    if timeout is not None and not timeout > 0:
        raise InvalidInput(f"timeout={timeout!r}: expected seconds above 0, or None for no limit.")
    if not 0 <= grace < math.inf:
        raise InvalidInput(f"grace={grace!r}: expected seconds of at least 0.")
    if not 0 < tick < math.inf:
        raise InvalidInput(f"tick={tick!r}: expected seconds above 0.")


def _finished(evaluation: Evaluation, timeout: float | None, result_file: str | None) -> Finished:
    """What became of an evaluation that is over."""
    ending, messages = evaluation.ending, evaluation.messages
    if ending is None:
        return _not_its_fault(evaluation, "its guard was killed")
    if ending.unstarted is not None:
        return _not_its_fault(evaluation, f"it could not be started: {ending.unstarted}")
    if evaluation.invalid is not None:
        raise InvalidInput(evaluation.invalid)
    if ending.why == "timeout":
        return _killed(evaluation, f"killed at its timeout of {timeout:g} s")
    if ending.why is not None or ending.status is None:
        return _killed(evaluation, "killed: it was not allowed to go on")
    verdict = verdict_of(ending.status, messages, evaluation.tail.text, result_file)
    return Finished(*verdict, evaluation.usage, tuple(messages.progress))


def _killed(evaluation: Evaluation, why: str) -> Finished:
    messages = evaluation.messages
    cost: Mapping[str, float] = {}
    with suppress(ValueError):  # what it may have said last
        cost = costs_of((messages.result or {}).get("cost"))
    error = f"{why}\n{evaluation.tail.text}".strip()
    return Finished("killed", None, cost, error, evaluation.usage, tuple(messages.progress))


def _not_its_fault(evaluation: Evaluation, why: str) -> Finished:
    progress = tuple(evaluation.messages.progress)
    return Finished("infrastructure", None, {}, why, evaluation.usage, progress)
