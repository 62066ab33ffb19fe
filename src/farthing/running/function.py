"""A Python callable as a task."""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

from farthing.errors import InvalidInput
from farthing.running.answer import METRIC, Objective, answer, check_objective
from farthing.running.engine import Job
from farthing.running.reporting import listen_to, send
from farthing.running.task import PRIVATE, Start

__all__ = ["CallableTask"]


@dataclass(frozen=True)
class CallableTask:
    """A function of the parameters that returns a number or an `Outcome`.

    What it prints is not shown; the last lines come with the error if there is one. An exception is
    a failure of the parameters, unless it is `Infrastructure` or says that the disk is full.

    Args:
        objective: called with a dictionary of parameters, in a process of its own.
        start: "fork" (Linux) takes the objective as it is, lambdas and closures too, with the
            files it has open; "spawn" (elsewhere) pickles it for a fresh interpreter, which is
            slower, but safe with libraries whose threads do not survive a fork (CUDA, OpenMP).
    """

    objective: Objective
    start: Literal["fork", "spawn"] = "fork" if sys.platform == "linux" else "spawn"

    metric: ClassVar[str] = METRIC
    prints_messages: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if self.start not in ("fork", "spawn"):
            raise InvalidInput(f'start={self.start!r}: expected "fork" or "spawn".')

    def check(self, job: Job) -> None:
        """A function can start wherever its folder is."""
        if job.cwd is not None and not Path(job.cwd).is_dir():
            raise InvalidInput(
                f"The objective runs in the folder {os.fspath(job.cwd)!r}, which is not on this "
                "machine. Name another: cwd=..."
            )

    def prepare(self, job: Job, folder: Path) -> Start:
        """Nothing to prepare for a fork; a pickle for a fresh interpreter."""
        if self.start == "fork":
            return self._forked(job)
        return _spawned(self.objective, job, folder / "objective.pickle")

    def _forked(self, job: Job) -> Start:
        def start(messages: int, noise: int) -> NoReturn:
            gc.freeze()  # what the parent had not collected yet is the parent's to finalise
            # Held for ever: a stream that goes would write what the parent had not flushed yet.
            _inherited = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
            sys.stdout = sys.__stdout__ = _stream_to(noise, 1)  # type: ignore[misc]
            sys.stderr = sys.__stderr__ = _stream_to(noise, 2)  # type: ignore[misc]
            for name in PRIVATE:
                os.environ.pop(name, None)
            os.environ.update(job.environment)
            if job.cwd is not None:
                os.chdir(job.cwd)
            _evaluate(self.objective, job.params, job.seed, messages)

        return start


def _stream_to(noise: int, descriptor: int) -> TextIOWrapper:
    os.dup2(noise, descriptor)
    raw = FileIO(descriptor, "w", closefd=False)
    return TextIOWrapper(
        BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


def _spawned(objective: Objective, job: Job, file: Path) -> Start:
    import cloudpickle  # type: ignore[import-untyped,unused-ignore]

    try:
        payload = cloudpickle.dumps((objective, dict(job.params), job.seed))
    except Exception as error:  # whatever a __reduce__ raises
        raise InvalidInput(
            f"The objective cannot be sent to another process: {error}. Keep open files, locks and "
            'connections out of it, or use CallableTask(objective, start="fork") on Linux.'
        ) from error
    file.write_bytes(payload)
    ours = {name: text for name, text in os.environ.items() if name not in PRIVATE}
    environment = {**ours, **job.environment}

    def start(messages: int, noise: int) -> NoReturn:
        os.dup2(noise, 1)
        os.dup2(noise, 2)
        os.set_inheritable(messages, True)
        if job.cwd is not None:
            os.chdir(job.cwd)
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from farthing.running.function import evaluate_pickled; "
            f"evaluate_pickled({os.fspath(file)!r}, {messages})"
        )
        os.execve(sys.executable, [sys.executable, "-c", code], environment)

    return start


def evaluate_pickled(file: str, messages: int) -> NoReturn:
    """What a fresh interpreter does."""
    os.set_inheritable(messages, False)
    objective, params, seed = pickle.loads(Path(file).read_bytes())
    _evaluate(objective, params, seed, messages)


def _evaluate(
    objective: Objective, params: Mapping[str, Any], seed: int, messages: int
) -> NoReturn:
    """Evaluate, send what came of it, and leave without the parent's exit handlers."""
    listen_to(partial(_write, messages))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in any Python program
    _seed_global_state(seed)
    said = answer(objective, params, catching=BaseException)
    if "failed" in said:  # what it printed is kept, and this belongs to it
        with suppress(Exception):
            print(said["failed"], file=sys.stderr)
    send(said)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the objective may have closed or replaced it
            stream.flush()
    os._exit(0)


def _write(messages: int, line: bytes) -> None:
    while line:  # a pipe takes long messages in pieces
        line = line[os.write(messages, line) :]


def _seed_global_state(seed: int) -> None:
    """Seed what objectives draw from when they forget to seed; all forks share it otherwise."""
    # By name, because nothing else in this package may touch the global generators.
    importlib.import_module("random").seed(seed)
    importlib.import_module("numpy.random").seed(seed % 2**32)
