"""A command such as `python train.py --lr {lr}` as a task; no shell is involved."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from farthing.core.command import filled, placeholders
from farthing.errors import InvalidInput
from farthing.running.engine import Job
from farthing.running.task import PRIVATE, RESULT_FILE, Start
from farthing.running.training import continue_file

__all__ = ["CommandTask"]

# Programs whose first argument is a script, and the suffixes of scripts.
_INTERPRETER = re.compile(
    r"(python|pypy)[\d.]*|(ba|da|k|z)?sh|Rscript|julia|perl|ruby|node|php|lua"
)
_SCRIPT = re.compile(r"\.(py|sh|bash|R|r|jl|pl|rb|js|mjs|php|lua)$")
# Errors with which no other trial can start either, and what to do about them.
_PERMANENT = {
    errno.ENOEXEC: "A script needs a first line such as #!/bin/sh.",
    errno.ENOENT: "The interpreter in its first line is missing.",
    errno.EACCES: "The script or the interpreter in its first line is not executable.",
    errno.E2BIG: "The arguments and the environment together are too long.",
}


@dataclass(frozen=True)
class CommandTask:
    """A program and its arguments. No shell interprets them.

    `{lr}` inside an argument is replaced by the value of `lr`. If a configuration has no `lr` (an
    inactive parameter), an argument with `{lr?}` is omitted. Write `--lr={lr?}` as one argument, so
    that the option is omitted with its value. `{{lr}}` stands for the text `{lr}`.

    The result is the last line on stdout that is a JSON object with the metric and optionally a
    cost, such as `{"value": 0.31, "cost": 12.5}` or `{"value": 0.31, "cost": {"usd": 0.2}}`. If the
    program writes the file named by the variable FARTHING_RESULT, that file is the result instead.
    `{"failed": "reason"}` marks the parameters as bad, and `{"infrastructure": "reason"}` reports a
    problem of the machine. An object with a "step" reports progress. If a command prints no result,
    its last progress with the metric is the result.

    With `steps=...`, a program finds the step at which it was paused in FARTHING_STEP, the next
    step at which the tuner decides in FARTHING_UNTIL, and the folder of its checkpoint in
    FARTHING_CHECKPOINT. It may save a checkpoint and exit when it reaches that step. Or it reads
    the file FARTHING_CONTINUE after it has reported the step: as soon as the file contains a later
    step it may continue, and if it contains "pause" it saves a checkpoint and exits. A program that
    does neither is ended when it is paused.

    Args:
        argv: the program and its arguments.
        metric: the key of the objective value in the result.
        cwd: working directory; by default that of the study, or the current one.
        env: environment variables in addition to those of the study and of this process. `{slot}`
            is replaced. FARTHING_STORAGE, PGPASSWORD and PGPASSFILE are not passed on.
    """

    argv: Sequence[str]
    metric: str = "value"
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] | None = None

    prints_messages: ClassVar[bool] = True
    waits: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.argv, str) or not all(isinstance(part, str) for part in self.argv):
            raise InvalidInput(
                f"CommandTask({self.argv!r}): expected the program and its arguments as a list of "
                'strings, such as ["python", "train.py", "--lr", "{lr}"].'
            )
        if not self.argv or not self.argv[0]:
            raise InvalidInput(
                'The command is empty. Pass a program, such as ["python", "train.py"].'
            )
        object.__setattr__(self, "argv", tuple(self.argv))

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of the parameters in the command."""
        return placeholders(self.argv)

    def filled(self, params: Mapping[str, Any]) -> list[str]:
        """The program and its arguments for one configuration.

        Raises:
            InvalidInput: a placeholder is not a parameter, or a value has a null character.
        """
        return filled(self.argv, params)

    def check(self, job: Job) -> None:
        """Check that the folder, the program and the script of an interpreter exist here.

        Raises:
            InvalidInput: one of them is missing; the message says which.
        """
        argv, cwd = self.filled(job.params), self._folder(job)
        if not (cwd.is_dir() and os.access(cwd, os.X_OK)):
            problem = "you may not enter" if cwd.is_dir() else "is not on this machine"
            raise InvalidInput(
                f"The command runs in the folder {os.fspath(cwd)!r}, which {problem}. "
                "Choose another folder with --cwd FOLDER or cwd=..."
            )
        _find(argv[0], cwd, self._variables(job).get("PATH", os.environ.get("PATH")))
        script = _script(argv)
        if script is not None and not (cwd / script).is_file():
            raise InvalidInput(
                f"There is no file {script!r} in {os.fspath(cwd)!r}, where the command runs. "
                "Check its name, or choose another folder with --cwd FOLDER or cwd=..."
            )

    def _folder(self, job: Job) -> Path:
        return Path(self.cwd or job.cwd or ".").absolute()

    def _variables(self, job: Job) -> dict[str, str]:
        return replace(job, env={**(job.env or {}), **(self.env or {})}).environment

    def prepare(self, job: Job, folder: Path) -> Start:
        """Fill in the parameters and find the program."""
        argv = self.filled(job.params)
        result_file = {"FARTHING_RESULT": os.fspath(folder / RESULT_FILE)}
        inherited = {name: text for name, text in os.environ.items() if name not in PRIVATE}
        if job.part is not None:
            result_file["FARTHING_CONTINUE"] = os.fspath(continue_file(folder))
        environment = {**inherited, **self._variables(job), **result_file}
        cwd = self._folder(job)
        if not cwd.is_dir():
            message = "the working directory does not exist any more"
            raise FileNotFoundError(errno.ENOENT, message, os.fspath(cwd))
        program = _find(argv[0], cwd, environment.get("PATH"))

        def start(messages: int, output: int) -> NoReturn:
            os.dup2(messages, 1)
            os.dup2(output, 2)
            # Python ignores these signals, and the program would inherit that.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            os.chdir(cwd)
            try:
                os.execve(program, argv, environment)
            except OSError as error:
                if error.errno not in _PERMANENT:
                    raise
                raise InvalidInput(
                    f"{program} cannot be started: {error.strerror}. {_PERMANENT[error.errno]}"
                ) from None

        return start


def _script(argv: Sequence[str]) -> str | None:
    """The script that an interpreter runs; None if the command shows none."""
    first = next((part for part in argv[1:] if not part.startswith("-")), "")
    found = _INTERPRETER.fullmatch(os.path.basename(argv[0])) and _SCRIPT.search(first)
    # The argument after -c, -m or -e is not a file.
    return first if found and not {"-c", "-m", "-e"} & set(argv[1 : argv.index(first)]) else None


def _find(program: str, cwd: Path, path: str | None) -> str:
    """The absolute path of the program, as a shell in `cwd` would find it."""
    beside = cwd / program
    found = os.fspath(beside) if os.path.dirname(program) else shutil.which(program, path=path)
    if found is None:
        raise InvalidInput(f"There is no program {program!r} on the PATH. Check its name.")
    if not os.path.exists(found):
        raise InvalidInput(f"There is no program {found!r}. Check its path.")
    if not os.path.isfile(found) or not os.access(found, os.X_OK):
        raise InvalidInput(
            f"{found!r} is not an executable program. Run chmod +x on it, or put its interpreter "
            "first, as in python train.py."
        )
    return os.path.abspath(found)
