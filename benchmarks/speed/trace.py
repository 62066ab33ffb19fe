"""The functions, files, SQL statements and database connections of one trial from a shell.

    python -m benchmarks.speed.trace                       this repository
    python -m benchmarks.speed.trace --tree /old/src       another copy of the package
    python -m benchmarks.speed.trace --json > counts.json

`farthing run` evaluates a tiny command three times in an empty folder, in a fresh interpreter that
is traced. The counts exclude forked processes (the supervisor process and the command):

    functions    different functions and lambdas of the package that were entered, without the
                 bodies of modules and classes, and without comprehensions
    files        their files
    openings     databases opened: connection pools that made their first connection
    connections  connections that the driver made
    statements   SQL by its first word and its table, as SQLAlchemy passes it to the driver, with
                 BEGIN but without COMMIT and the setup of a new connection

    command      from the first import to the exit
    trial        from the row of the second trial to the row of the third: the second is evaluated
                 and reported and the third suggested, so every step of one trial occurs once
    ask          what the outermost function `ask` entered when it made the row of the second trial
    library      the sixth `Study.ask` of a program with the default policy: the first that fits a
                 model, after another handle reported the fifth trial

A trial is renewed once per second, so a run with a slow trial is repeated.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

REPO = Path(__file__).resolve().parents[2]
ARGUMENTS = (
    *("run", "--budget", "3 trials", "--param", "x=float:0:1", "--policy", "random"),
    *("--", "sh", "-c", 'echo "{\\"value\\": $0}"', "{x}"),
)
PARTS = ("command", "trial", "ask", "library")
ROW_OF_A_TRIAL = "INSERT farthing_trials"
SYNTHETIC = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # gone in newer Pythons
QUICK = 0.5  # seconds between the rows of two trials
TRIES = 5
PATIENCE = 120  # seconds for one run

Json = dict[str, Any]


@dataclass
class Tally:
    """The counts of one section of a run."""

    functions: set[CodeType] = field(default_factory=set)
    statements: Counter[str] = field(default_factory=Counter)
    openings: int = 0
    connections: int = 0


class Watcher:
    """Counts the sections of a run: all of it, between the rows of trials, and each `ask`."""

    def __init__(self, package: Path) -> None:
        self.package = str(package) + os.sep
        self.all = Tally()
        self.sections = [Tally()]  # before the first row, between rows, and after the last
        self.asks: list[Tally] = []
        self.asks_with_row: list[Tally] = []
        self.rows_at: list[float] = []
        self._asking: FrameType | None = None

    def tallies(self) -> list[Tally]:
        """The present sections."""
        return [self.all, self.sections[-1], *(self.asks[-1:] if self._asking else [])]

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """For sys.setprofile."""
        if event == "return" and frame is self._asking:
            self._asking = None
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self.package):
            return
        if not code.co_flags & inspect.CO_OPTIMIZED or code.co_name in SYNTHETIC:
            return
        if code.co_name == "ask" and self._asking is None:
            self._asking = frame
            self.asks.append(Tally())
        for tally in self.tallies():
            tally.functions.add(code)

    def statement(self, *arguments: Any) -> None:
        """For before_cursor_execute(connection, cursor, statement, ...)."""
        kind = kind_of(arguments[2])
        for tally in self.tallies():
            tally.statements[kind] += 1
        if kind == ROW_OF_A_TRIAL:
            self.rows_at.append(time.monotonic())
            self.asks_with_row.append(self.asks[-1] if self._asking else Tally())
            self.sections.append(Tally())

    def opening(self, *_: Any) -> None:
        """For first_connect of a pool."""
        for tally in self.tallies():
            tally.openings += 1

    def connection(self, *_: Any) -> None:
        """For connect of a pool."""
        for tally in self.tallies():
            tally.connections += 1

    def counts(self) -> Json:
        """The counts of a run of the command, and the longest time between two rows."""
        if len(self.rows_at) != 3:
            raise RuntimeError(f"{len(self.rows_at)} trials have a row; expected 3")
        tallies = (self.all, self.sections[2], self.asks_with_row[1])
        numbers = {part: self.numbers(tally) for part, tally in zip(PARTS, tallies, strict=False)}
        return {**numbers, "slowest": max(b - a for a, b in pairwise(self.rows_at))}

    def numbers(self, tally: Tally) -> Json:
        """The counts of one section."""
        names = {(c.co_filename, c.co_qualname, c.co_firstlineno) for c in tally.functions}
        by_file = Counter(name.removeprefix(self.package) for name, _, _ in sorted(names))
        return {
            "functions": len(names),
            "files": len(by_file),
            "openings": tally.openings,
            "connections": tally.connections,
            "statements": dict(sorted(tally.statements.items())),
            "functions_by_file": dict(by_file),
        }


def kind_of(statement: str) -> str:
    """The first word of a statement, and the first table of Farthing in it."""
    word = statement.split(None, 1)[0].upper()
    table = re.search(r"\bfarthing_\w+", statement)
    return f"{word} {table.group()}" if table else word


def watch(tree: Path, out: Path) -> None:
    """Run the command in this process and write its counts to a file."""
    from sqlalchemy import Engine, event
    from sqlalchemy.pool import Pool

    watcher = Watcher(tree / "farthing")
    event.listen(Engine, "before_cursor_execute", watcher.statement)
    event.listen(Pool, "first_connect", watcher.opening)
    event.listen(Pool, "connect", watcher.connection)
    os.register_at_fork(after_in_child=lambda: sys.setprofile(None))
    sys.argv[:] = ["farthing", *ARGUMENTS]
    sys.setprofile(watcher.profile)
    try:
        from farthing import cli
        from farthing.core import asking, session

        # Even on a busy machine, a worker's last look counts as fresh and suggestions as fast.
        session.FRESH = asking.SLOW = 3600.0
        cli.main()
    except SystemExit as exit:
        if exit.code:
            raise
    finally:
        sys.setprofile(None)
    if not str(cli.__file__).startswith(watcher.package):
        raise RuntimeError(f"{cli.__file__} was run, which is not in {tree}")
    counts = watcher.counts()
    ask_with_a_model(watcher)
    out.write_text(json.dumps(counts | {"library": watcher.numbers(watcher.asks[-1])}))


def ask_with_a_model(watcher: Watcher) -> None:
    """Share five trials between two handles, and trace the sixth ask."""
    from farthing import Float, Study

    study = Study.create("library.db", name="library", space={"x": Float(0, 1)}, budget=40)
    other = Study.open("library.db", "library")
    for _ in range(5):
        trial = study.ask()
        other.tell(trial, trial.params["x"], cost=1 + trial.params["x"])
    sys.setprofile(watcher.profile)
    study.ask()
    sys.setprofile(None)
    other.close()
    study.close()


def trace(tree: Path) -> Json:
    """The counts of a copy of the package."""
    tree = tree.resolve()
    if not (tree / "farthing" / "__init__.py").exists():
        raise SystemExit(
            f"{tree} has no farthing/__init__.py. Pass the folder that contains farthing/."
        )
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "counts.json"
            found = subprocess.run(
                [sys.executable, "-m", "benchmarks.speed.trace", "--tree", tree, "--watched", out],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{REPO}"},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            if found.returncode:
                raise RuntimeError(f"farthing {' '.join(ARGUMENTS)}\n{found.stdout}{found.stderr}")
            counts: Json = json.loads(out.read_text())
        if counts.pop("slowest") < QUICK:
            return counts
    raise RuntimeError(
        f"A trial took more than {QUICK} s in {TRIES} runs: the machine is too busy. Try later."
    )


def table(counts: Json) -> str:
    """The counts as a table: a row for each number, a column for each part."""
    kinds = sorted({kind for part in PARTS for kind in counts[part]["statements"]})
    rows = [
        ["", *PARTS],
        *(
            [name, *(str(counts[part][name]) for part in PARTS)]
            for name in ("functions", "files", "openings", "connections")
        ),
        ["statements", *(str(sum(counts[part]["statements"].values())) for part in PARTS)],
        *(
            [f"  {kind}", *(str(counts[part]["statements"].get(kind, 0)) for part in PARTS)]
            for kind in kinds
        ),
    ]
    return "\n".join(f"{row[0]:36}" + "".join(f"{cell:>9}" for cell in row[1:]) for row in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.trace", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--tree", type=Path, default=REPO / "src", help="the folder that contains farthing/"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--watched", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.watched is not None:
        watch(chosen.tree, chosen.watched)
        return
    counts = trace(chosen.tree)
    python = ".".join(map(str, sys.version_info[:3]))
    made_with = {"versions": {"python": python, "SQLAlchemy": version("SQLAlchemy")}}
    print(json.dumps(made_with | counts, indent=1) if chosen.json else table(counts))


if __name__ == "__main__":
    main()
