"""A shell command as a task, without a shell: `python train.py --lr {lr}`."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from farthing.errors import InvalidInput
from farthing.running.engine import Job, plain
from farthing.running.task import PRIVATE, RESULT_FILE, Start

__all__ = ["CommandTask"]

# {{name}} is a literal {name}; {name} and {name?} are placeholders. All other braces, as in JSON or
# in `awk '{print $1}'`, mean themselves.
_PLACEHOLDER = re.compile(r"\{\{(?P<literal>[\w.-]+\??)\}\}|\{(?P<name>[\w.-]+)(?P<maybe>\?)?\}")
# A program whose first argument is a file to read, and how such a file is called.
_INTERPRETER = re.compile(
    r"(python|pypy)[\d.]*|(ba|da|k|z)?sh|Rscript|julia|perl|ruby|node|php|lua"
)
_SCRIPT = re.compile(r"\.(py|sh|bash|R|r|jl|pl|rb|js|mjs|php|lua)$")
# Why no other evaluation can start it either.
_NEVER = {
    errno.ENOEXEC: "A script needs a first line such as #!/bin/sh.",
    errno.ENOENT: "The interpreter in its first line is missing.",
    errno.EACCES: "It, or the interpreter in its first line, may not be executed.",
    errno.E2BIG: "Arguments and environment are too long together.",
}


@dataclass(frozen=True)
class CommandTask:
    """A program and its arguments, each of which arrives as it is written: there is no shell.

    `{lr}` inside an argument is replaced by the value of `lr`. An argument with `{lr?}` is left out
    where the configuration has no `lr` (an inactive parameter); write `--lr={lr?}`, so that the
    option goes with its value. `{{lr}}` stands for the text `{lr}`.

    The result is the last line on stdout that is a JSON object with the metric and perhaps a cost,
    `{"value": 0.31, "cost": 12.5}` or `"cost": {"usd": 0.2}`; or the contents of the file that the
    variable FARTHING_RESULT names, which wins. `{"failed": "why"}` blames the parameters,
    `{"infrastructure": "why"}` the machine. Objects with a "step" are progress; the last of them
    with the metric is the result of a command that printed no other.

    Args:
        argv: the program and its arguments.
        metric: the key of the value in the result.
        cwd: where to run it; by default where the study says, or here.
        env: variables besides those of the study and of this process, of which FARTHING_STORAGE,
            PGPASSWORD and PGPASSFILE are not passed on; `{slot}` is replaced.
    """

    argv: Sequence[str]
    metric: str = "value"
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] | None = None

    prints_messages: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.argv, str) or not all(isinstance(part, str) for part in self.argv):
            raise InvalidInput(
                f"CommandTask({self.argv!r}): expected the program and its arguments as a list of "
                'strings, such as ["python", "train.py", "--lr", "{lr}"].'
            )
        if not self.argv or not self.argv[0]:
            raise InvalidInput(
                'The command is empty. Give a program, such as ["python", "train.py"].'
            )
        object.__setattr__(self, "argv", tuple(self.argv))

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of the parameters it asks for."""
        found = (match for part in self.argv for match in _PLACEHOLDER.finditer(part))
        return frozenset(match["name"] for match in found if match["name"] is not None)

    def filled(self, params: Mapping[str, Any]) -> list[str]:
        """The program and its arguments for one configuration.

        Raises:
            InvalidInput: a placeholder that is no parameter, or a value no argument can hold.
        """
        return [text for part in self.argv if (text := _fill(part, params)) is not None]

    def check(self, job: Job) -> None:
        """Whether it could start here: its folder, its program, and the script of an interpreter.

        Raises:
            InvalidInput: it cannot; the sentence says what is missing.
        """
        argv, cwd = self.filled(job.params), self._folder(job)
        if not (cwd.is_dir() and os.access(cwd, os.X_OK)):
            there = "cannot be entered" if cwd.is_dir() else "is not on this machine"
            raise InvalidInput(
                f"The command runs in the folder {os.fspath(cwd)!r}, which {there}. "
                "Name another: --cwd FOLDER, or cwd=..."
            )
        _find(argv[0], cwd, self._variables(job).get("PATH", os.environ.get("PATH")))
        script = _script(argv)
        if script is not None and not (cwd / script).is_file():
            raise InvalidInput(
                f"There is no file {script!r} in {os.fspath(cwd)!r}, where the command runs. "
                "Check its name, or name another folder: --cwd FOLDER, or cwd=..."
            )

    def _folder(self, job: Job) -> Path:
        return Path(self.cwd or job.cwd or ".").absolute()

    def _variables(self, job: Job) -> dict[str, str]:
        return replace(job, env={**(job.env or {}), **(self.env or {})}).environment

    def prepare(self, job: Job, folder: Path) -> Start:
        """Fill in the parameters and find the program."""
        argv = self.filled(job.params)
        told = {"FARTHING_RESULT": os.fspath(folder / RESULT_FILE)}
        ours = {name: text for name, text in os.environ.items() if name not in PRIVATE}
        environment = {**ours, **self._variables(job), **told}
        # An absolute path, because the child looks at it from another directory.
        cwd = self._folder(job)
        if not cwd.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the working directory is gone", os.fspath(cwd))
        program = _find(argv[0], cwd, environment.get("PATH"))

        def start(messages: int, noise: int) -> NoReturn:
            os.dup2(messages, 1)
            os.dup2(noise, 2)
            # Python ignores them, and a program would go on ignoring them.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            os.chdir(cwd)
            try:
                os.execve(program, argv, environment)
            except OSError as error:
                if error.errno not in _NEVER:
                    raise
                raise InvalidInput(
                    f"{program} cannot be started: {error.strerror}. {_NEVER[error.errno]}"
                ) from None

        return start


def _fill(part: str, params: Mapping[str, Any]) -> str | None:
    """One argument with its placeholders replaced; None to leave it out."""
    left_out = False

    def value(match: re.Match[str]) -> str:
        nonlocal left_out
        name: str | None = match["name"]
        if name is None:
            return "{" + match["literal"] + "}"
        if name in params:
            return _text(params[name])
        if match["maybe"] is None:
            raise InvalidInput(
                f"The command asks for {{{name}}}, but this configuration has only "
                f"{', '.join(params) or 'no parameters'}. Correct the name; write --{name}="
                f"{{{name}?}} for a parameter that is not always there, and {{{{{name}}}}} for the "
                "text itself."
            )
        left_out = True
        return ""

    text = _PLACEHOLDER.sub(value, part)
    if "\0" in text:
        raise InvalidInput(f"The argument {text!r} has a null character, which no program can get.")
    return None if left_out else text


def _text(value: Any) -> str:
    """A value as an argument: text as it is, a number so that it reads back the same."""
    value = value if isinstance(value, str) else plain(value) if hasattr(value, "item") else value
    return value if isinstance(value, str) else repr(value) if _simple(value) else json.dumps(value)


def _simple(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float)


def _script(argv: Sequence[str]) -> str | None:
    """The file that an interpreter is told to read first, where that can be seen."""
    first = next((part for part in argv[1:] if not part.startswith("-")), "")
    told = _INTERPRETER.fullmatch(os.path.basename(argv[0])) and _SCRIPT.search(first)
    # What follows -c or -m is no file.
    return first if told and not {"-c", "-m", "-e"} & set(argv[1 : argv.index(first)]) else None


def _find(program: str, cwd: Path, path: str | None) -> str:
    """Where the program is, as a shell in `cwd` would find it."""
    beside = cwd / program
    found = os.fspath(beside) if os.path.dirname(program) else shutil.which(program, path=path)
    if found is None:
        raise InvalidInput(f"There is no program {program!r} on the PATH. Check its name.")
    if not os.path.exists(found):
        raise InvalidInput(f"There is no program {found!r}. Check its path.")
    if not os.path.isfile(found) or not os.access(found, os.X_OK):
        raise InvalidInput(
            f"{found!r} is not an executable program. Make it one (chmod +x), or name the "
            "interpreter first, as in python train.py."
        )
    return os.path.abspath(found)
