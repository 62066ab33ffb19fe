"""A Python function as a task."""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import ClassVar, Literal, NoReturn

from farthing.errors import InvalidInput
from farthing.running.answer import METRIC, Objective, answer, check_objective
from farthing.running.engine import Job
from farthing.running.reporting import send, set_receiver
from farthing.running.task import PRIVATE, Start
from farthing.running.training import Training, answer_file, receiver, takes_training

__all__ = ["CallableTask"]


@dataclass(frozen=True)
class CallableTask:
    """A function of the parameters that returns a number or an `Outcome`.

    Its output is not shown. If the trial fails, its error contains the last lines. An exception
    means that the parameters are bad, unless it is `Infrastructure` or says that the disk is full.

    Args:
        objective: called with a dictionary of parameters, in its own process; and with its
            `Training` if it takes one.
        start: "fork" (the default on Linux) also works for lambdas and closures, and the process
            inherits open files. "spawn" (the default on other systems) pickles the objective for a
            new interpreter. It is slower, but safe with libraries whose threads do not survive a
            fork (CUDA, OpenMP).
    """

    objective: Objective
    start: Literal["fork", "spawn"] = "fork" if sys.platform == "linux" else "spawn"

    metric: ClassVar[str] = METRIC
    prints_messages: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_objective(self.objective)
        if self.start not in ("fork", "spawn"):
            raise InvalidInput(f'start={self.start!r}: expected "fork" or "spawn".')

    @property
    def waits(self) -> bool:
        """Whether it waits for the answers of the tuner."""
        return takes_training(self.objective)

    def check(self, job: Job) -> None:
        """Check that the working directory exists."""
        if job.cwd is not None and not Path(job.cwd).is_dir():
            raise InvalidInput(
                f"The objective runs in the folder {os.fspath(job.cwd)!r}, which is not on this "
                "machine. Choose another folder with cwd=..."
            )

    def prepare(self, job: Job, folder: Path) -> Start:
        """Pickle the objective if it is spawned."""
        if self.start == "fork":
            return self._forked(job, answer_file(folder))
        return _spawned(self.objective, job, folder / "objective.pickle")

    def _forked(self, job: Job, answers: Path) -> Start:
        def start(messages: int, output: int) -> NoReturn:
            gc.freeze()  # only the parent may finalise the garbage that this process inherited
            # Keep the inherited streams: on deletion they would write the parent's unflushed text.
            _inherited = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
            sys.stdout = sys.__stdout__ = _stream_to(output, 1)  # type: ignore[misc]
            sys.stderr = sys.__stderr__ = _stream_to(output, 2)  # type: ignore[misc]
            for name in PRIVATE:
                os.environ.pop(name, None)
            os.environ.update(job.environment)
            if job.cwd is not None:
                os.chdir(job.cwd)
            _evaluate(self.objective, job, answers, messages)

        return start


def _stream_to(output: int, descriptor: int) -> TextIOWrapper:
    os.dup2(output, descriptor)
    raw = FileIO(descriptor, "w", closefd=False)
    return TextIOWrapper(
        BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


def _spawned(objective: Objective, job: Job, file: Path) -> Start:
    import cloudpickle  # type: ignore[import-untyped,unused-ignore]

    try:
        job = replace(job, params=dict(job.params))
        payload = cloudpickle.dumps((objective, job))
    except Exception as error:  # __reduce__ may raise anything
        raise InvalidInput(
            f"The objective cannot be sent to another process: {error}. Keep open files, locks and "
            'connections out of it, or use CallableTask(objective, start="fork") on Linux.'
        ) from error
    file.write_bytes(payload)
    inherited = {name: text for name, text in os.environ.items() if name not in PRIVATE}
    environment = {**inherited, **job.environment}

    def start(messages: int, output: int) -> NoReturn:
        os.dup2(output, 1)
        os.dup2(output, 2)
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
    """Evaluate a pickled objective in a new interpreter."""
    os.set_inheritable(messages, False)
    objective, job = pickle.loads(Path(file).read_bytes())
    _evaluate(objective, job, answer_file(Path(file).parent), messages)


def _evaluate(objective: Objective, job: Job, answers: Path, messages: int) -> NoReturn:
    """Evaluate, send the message, and exit without the exit handlers of the parent."""
    set_receiver(partial(_write, messages))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in any Python program
    _seed_global_state(job.seed)
    training = None if job.part is None else Training(job, receiver(answers))
    message = answer(objective, job.params, catching=BaseException, training=training)
    if "failed" in message:  # the log shows the traceback after the output
        with suppress(Exception):
            print(message["failed"], file=sys.stderr)
    send(message)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the objective may have closed or replaced it
            stream.flush()
    os._exit(0)


def _write(messages: int, line: bytes) -> None:
    while line:  # a pipe accepts a long message in pieces
        line = line[os.write(messages, line) :]


def _seed_global_state(seed: int) -> None:
    """Seed the global generators, because every fork inherits the same state."""
    # Imported by name, because a test forbids the global generators in this package.
    importlib.import_module("random").seed(seed)
    importlib.import_module("numpy.random").seed(seed % 2**32)
