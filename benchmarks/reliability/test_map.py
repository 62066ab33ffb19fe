"""Record the functions of `src` that each test enters; `mutants` chooses tests by this map.

    python -m benchmarks.reliability.test_map FOLDER -n 2                all tests
    python -m benchmarks.reliability.test_map FOLDER tests/test_new.py   add these to FOLDER

This is a pytest plugin with a tracer in every process that a test starts. `sitecustomize` in FOLDER
starts the tracer with every interpreter, and forked children inherit it. Each process appends to
its own file at once, because it may be killed: `T test`, then `F file:name` for each function that
the test enters. `D seconds test` is a test that passed; other tests are not used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

REPO = Path(__file__).resolve().parents[2]
FOLDER = "FARTHING_NOTICING"  # where traces are written

_test = ""
_seen: set[int] = set()
_written: tuple[int, str] | None = None  # process and test of the last line


def trace(frame: FrameType, event: str, argument: Any) -> None:
    code = frame.f_code
    if id(code) in _seen:
        return
    _seen.add(id(code))
    if _test and "/src/farthing/" in code.co_filename:
        file = code.co_filename.partition("/src/farthing/")[2]
        _write(f"F {file}:{code.co_qualname}\n")


def _write(line: str) -> None:
    global _written
    here = (os.getpid(), _test)
    if here != _written:
        _written = here
        line = f"T {_test}\n{line}"
    with open(f"{os.environ[FOLDER]}/{os.getpid()}.trace", "a", encoding="utf-8") as out:
        out.write(line)


def start() -> None:
    """Trace this process if `FOLDER` is set."""
    global _test
    if FOLDER in os.environ and sys.gettrace() is None:
        _test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        sys.settrace(trace)
        threading.settrace(trace)


def pytest_runtest_setup(item: Any) -> None:
    global _test
    _test = item.nodeid
    _seen.clear()


_seconds: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: Any) -> None:
    """Runs in the process that collects the reports."""
    _seconds[report.nodeid] += report.duration if report.passed else float("nan")
    if report.when == "teardown" and _seconds[report.nodeid] >= 0 and FOLDER in os.environ:
        with open(f"{os.environ[FOLDER]}/passed", "a", encoding="utf-8") as out:
            out.write(f"D {_seconds[report.nodeid]:.3f} {report.nodeid}\n")


def collect(folder: Path) -> dict[str, Any]:
    """The passed tests as [name, seconds], and for each function the indices of its tests."""
    tests = []
    for line in (folder / "passed").read_text("utf-8").splitlines():
        _, seconds, name = line.split(" ", 2)
        tests.append((name, float(seconds)))
    number = {name: i for i, (name, _) in enumerate(tests)}
    entered: dict[str, set[int]] = defaultdict(set)
    for file in sorted(folder.glob("*.trace")):
        now = None
        for line in file.read_text("utf-8").splitlines():
            kind, what = line[0], line[2:]
            if kind == "T":
                now = number.get(what)
            elif now is not None:
                entered[what].add(now)
    return {"tests": tests, "entered": {name: sorted(found) for name, found in entered.items()}}


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        "from benchmarks.reliability.test_map import start\nstart()\n", encoding="utf-8"
    )
    path = os.pathsep.join(map(str, (folder, REPO / "src", REPO)))
    environment = os.environ | {FOLDER: str(folder), "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    command += ["-p", "benchmarks.reliability.test_map", *sys.argv[2:]]
    subprocess.run(command, cwd=REPO, env=environment, check=False)
    (folder / "map.json").write_text(json.dumps(collect(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
