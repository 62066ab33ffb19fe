"""Record the functions of `src` that each test enters; `mutants` chooses tests by this map.

    python -m benchmarks.reliability.test_map FOLDER -n 2                all tests; resumable
    python -m benchmarks.reliability.test_map FOLDER --rows 2            two rows of each test
    python -m benchmarks.reliability.test_map FOLDER tests/test_new.py   add these to FOLDER

This is a pytest plugin with a tracer in every process that a test starts. `sitecustomize` in FOLDER
starts the tracer with every interpreter, and forked children inherit it. Each process appends to
its own file at once, because it may be killed: `T test`, then `F file:name` for each function that
the test enters. `D seconds test` is a test that passed; other tests are not used. Tests that FOLDER
has are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

REPO = Path(__file__).resolve().parents[2]
FOLDER = "FARTHING_NOTICING"  # where traces are written
ROWS = "FARTHING_NOTICING_ROWS"  # rows of each parametrised test

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


def pytest_configure(config: Any) -> None:
    import pytest  # only here, because `sitecustomize` imports this module into every process

    class Selection:
        @pytest.hookimpl(trylast=True)  # of the tests that -m and -k have left
        def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
            left_out = not_needed([item.nodeid for item in items])
            config.hook.pytest_deselected(items=[i for i in items if i.nodeid in left_out])
            items[:] = [item for item in items if item.nodeid not in left_out]

    config.pluginmanager.register(Selection())


def not_needed(tests: list[str]) -> set[str]:
    """The tests that FOLDER has, and the rows of each test beyond the first ROWS."""
    found = {name for name, _ in passed(Path(os.environ[FOLDER]))}
    rows: Counter[str] = Counter()
    for name in tests:
        rows[name.partition("[")[0]] += 1
        if rows[name.partition("[")[0]] > int(os.environ[ROWS]):
            found.add(name)
    return found


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


def passed(folder: Path) -> list[tuple[str, float]]:
    """The tests that have passed, and their seconds."""
    file = folder / "passed"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    found = (line.split(" ", 2) for line in lines)
    return [(name, float(seconds)) for _, seconds, name in found]


def collect(folder: Path) -> dict[str, Any]:
    """The passed tests as [name, seconds], and for each function the indices of its tests."""
    tests = passed(folder)
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
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reliability.test_map",
        epilog="Further options are those of pytest.",
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each test (all)")
    chosen, options = parser.parse_known_args()
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        "from benchmarks.reliability.test_map import start\nstart()\n", encoding="utf-8"
    )
    path = os.pathsep.join(map(str, (folder, REPO / "src", REPO)))
    environment = os.environ | {FOLDER: str(folder), ROWS: str(chosen.rows), "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    command += ["-p", "benchmarks.reliability.test_map", *options]
    subprocess.run(command, cwd=REPO, env=environment, check=False)
    (folder / "map.json").write_text(json.dumps(collect(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
