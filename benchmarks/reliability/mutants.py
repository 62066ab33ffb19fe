"""Mutation tests: change the source in one place and check whether a test fails.

    python -m benchmarks.reliability.test_map ~/.cache/farthing-mutants -n 2   once: map the tests
    python -m benchmarks.reliability.mutants --layer models --count 25         until models has 25
    python -m benchmarks.reliability.mutants --again                           retry the survivors
    python -m benchmarks.reliability.mutants --fresh 200                       the commit's own draw
    python -m benchmarks.reliability.mutants --table                           write the tables

A layer is a module or a folder of the package. The seed draws lines of a layer, and one change of
each line: another operator, constant, sign or default, a negated or constant condition, a removed
statement or keyword, two swapped arguments, min instead of max. Some code is never changed because
no test should notice: docstrings, annotations, `__all__`, error messages, formatted text,
assertions, `<` against `<=` between real numbers, and the shortcut `if condition.all()`.

The change is made in a copy of the tree. A fork of this process, which has imported what the tests
need, runs the tests that enter the changed function. The tests of the same layer come first, then
the quickest. One row of each parametrised test comes before its other rows. A round has at most
`--limit` seconds of tests. A failure, a crash or a hang kills the mutant. At the end of a layer,
the tests that killed mutants must pass on the unchanged code.

Each mutant is one line of benchmarks/results/mutants.jsonl, with the seed of its draw and its first
outcome. If no test can notice a survivor, its line has the reason under "equivalent", written by
hand. Such a mutant does not count.

`--fresh` draws lines that are spread evenly over the whole package, so each module gets a share by
its size. The hash of the commit is the seed, so nobody can choose the draw. The order is random, so
those that have been tried are a fair sample of the draw at any time. The lines of
benchmarks/results/mutants-fresh.jsonl have the commit and the number in its draw. `--fresh 200
--again` retries the survivors of all such draws; the first outcome is kept.
"""

from __future__ import annotations

import argparse
import ast
import copy
import ctypes
import importlib
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
PACKAGE = Path("src/farthing")
RESULTS = Path(__file__).resolve().parents[1] / "results" / "mutants.jsonl"
FRESH = RESULTS.with_name("mutants-fresh.jsonl")
PAGE = REPO / "docs" / "reliability.md"
MAP = Path.home() / ".cache" / "farthing-mutants" / "map.json"

LIMIT = 40.0  # seconds of tests per round, measured on the unchanged code
ROUNDS = (12, 60)  # test functions that end the first and the second of three rounds
BATCH = 10  # mutants of a fresh draw after which their outcomes are checked and kept
PATIENCE = 60.0  # seconds beyond six times the duration on the unchanged code
MEMORY = 8 << 30
PRELOADED = ("numpy", "scipy.optimize", "scipy.linalg", "scipy.special", "scipy.stats", "pytest")
PRELOADED += ("hypothesis", "sqlalchemy", "click", "rich.live", "mpmath", "pandas", "cloudpickle")
# These tests read the source or the time, so they would notice any change.
NOT_RUN = ("test_architecture", "test_docs", "test_evidence", "test_import_time", "test_speed")

# The present files of lines in mutants.jsonl that were written before the package had folders. A
# class that moved to another file than the rest of its module has its own row.
MOVED = {
    "acquisition.py": "acquisition/scores.py",
    "amending.py": "core/edits.py",
    "asking.py": "core/suggest.py",
    "belief.py": "acquisition/belief.py",
    "bills.py": "core/outcomes.py",
    "calibration.py": "cost/calibration.py",
    "censored.py": "models/censored.py",
    "changes.py": "core/edits.py",
    "climb.py": "acquisition/ascent.py",
    "coordinates.py": "space/coordinates.py",
    "cost/choose.py": "cost/auto_cost.py",
    "cost/median.py": "cost/point_estimate.py",
    "crew.py": "running/thread_pool.py",
    "decision.py": "acquisition/protocols.py",
    "decision.py:_Held": "stopping/combine.py",
    "decision.py:_Several": "stopping/combine.py",
    "display.py": "view/progress.py",
    "drawing.py": "view/primitives.py",
    "facts.py": "view/facts.py",
    "features.py": "models/features.py",
    "figures/drivers.py": "view/figures/drivers.py",
    "figures/learning.py": "view/figures/learning.py",
    "figures/prospect.py": "view/figures/prospect.py",
    "figures/slices.py": "view/figures/slices.py",
    "front.py": "acquisition/pareto.py",
    "futures.py": "acquisition/lookahead.py",
    "gp.py": "models/gp.py",
    "hyper.py": "models/hyperparameters.py",
    "importing.py": "data/importing.py",
    "kernel.py": "models/kernel.py",
    "leaving.py": "running/signals.py",
    "ledger.py": "budget/units.py",
    "ledger.py:Ledger": "budget/ledger.py",
    "loop.py": "minimize.py",
    "markup.py": "view/html.py",
    "memory.py": "core/store.py",
    "normal.py": "models/normal.py",
    "pandora.py": "acquisition/exchange_rate.py",
    "parameters.py": "space/parameters.py",
    "paths.py": "acquisition/posterior_samples.py",
    "plots/svg.py": "view/plots/svg.py",
    "policies/cheap_cover.py": "policies/cost_effective_design.py",
    "pool.py": "running/process_pool.py",
    "rates.py": "budget/rates.py",
    "regression.py": "models/regression.py",
    "report/account.py": "view/report/report_facts.py",
    "report/page.py": "view/report/page.py",
    "report/parts.py": "view/report/parts.py",
    "running/guard.py": "running/supervisor.py",
    "running/plumbing.py": "running/pipes.py",
    "search.py": "acquisition/search.py",
    "settings.py": "core/settings.py",
    "space.py": "space/space.py",
    "standing.py": "core/worker_health.py",
    "start.py": "acquisition/initial_design.py",
    "state.py": "core/state.py",
    "stopping/ei_faded.py": "stopping/ei_ratio.py",
    "stopping/insignificant.py": "stopping/small_improvement.py",
    "stopping/regret_gap_faded.py": "stopping/regret_gap_ratio.py",
    "stopping/stalled.py": "stopping/no_improvement.py",
    "storage/memory.py": "storage/database_store.py",
    "storage/untold.py": "storage/outbox.py",
    "table.py": "space/table.py",
    "tabular.py": "data/tabular.py",
    "thinking.py": "core/suggest.py",
    "thrift.py": "acquisition/overhead.py",
    "timekeeping.py": "core/clock.py",
    "transition.py": "core/transition.py",
    "words.py": "view/formatting.py",
    "worker.py": "running/worker.py",
}

# ── changes ────────────────────────────────────────────────────────────────────────────────────

NEGATED = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
BOUNDARY = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OPPOSITES = {"min": "max", "minimum": "maximum", "any": "all", "floor": "ceil", "argmin": "argmax"}
OPPOSITES |= {there: here for here, there in OPPOSITES.items()}
# These keywords have no effect on results, or concern only speed or text.
KEPT_KEYWORDS = {"strict", "encoding", "check_finite", "dtype", "copy", "daemon", "help", "name"}
KEPT_KEYWORDS |= {"stacklevel", "overwrite_a", "overwrite_b", "repr", "newline", "metavar", "key"}
TINY = 1e-100  # smaller constants only prevent a division by zero; their size does not matter
TEXT = {"__repr__", "_repr_html_", "__str__"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str  # relative to the package
    line: int
    function: str  # the innermost function around it; empty at module level
    change: str
    number: int  # in the order of `changes`


def is_integer(node: ast.expr) -> bool:
    """A comparison with an integer depends on its boundary (`<` or `<=`)."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "len"


def replaced_expressions(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions that may replace `node`."""
    new: Any = copy.deepcopy(node)
    match node:
        case ast.Compare(ops=[op]):
            new.ops = [NEGATED[type(op)]()]
            if type(op) in BOUNDARY and (is_integer(node.left) or is_integer(node.comparators[0])):
                new.ops = [BOUNDARY[type(op)]()]
            yield new
        case ast.BinOp() if type(node.op) in OPERATORS and not is_text(node.left):
            new.op = OPERATORS[type(node.op)]()
            yield new
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield new
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            yield new.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()) if not 0 < abs(node.value) < TINY:
            yield ast.Constant(replaced_number(node.value))
        case ast.IfExp():
            yield ast.IfExp(ast.UnaryOp(ast.Not(), new.test), new.body, new.orelse)
        case ast.Call():
            yield from replaced_calls(node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            for i, generator in enumerate(node.generators):
                if generator.ifs:
                    less = copy.deepcopy(new)
                    less.generators[i].ifs = []
                    yield less


def replaced_calls(node: ast.Call) -> Iterator[ast.expr]:
    first_two = node.args[:2]
    plain = not any(isinstance(a, ast.Starred) for a in first_two)
    symmetric = ast.unparse(node.func).split(".")[-1] in {*OPPOSITES, "isinstance", "hypot"}
    if len({ast.dump(a) for a in first_two}) == 2 and plain and not symmetric:
        new = copy.deepcopy(node)
        new.args[:2] = [new.args[1], new.args[0]]
        yield new
    for i, keyword in enumerate(node.keywords):
        if keyword.arg and keyword.arg not in KEPT_KEYWORDS and not is_text(keyword.value):
            new = copy.deepcopy(node)
            del new.keywords[i]
            yield new
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    if name in OPPOSITES:
        other: Any = copy.deepcopy(node)
        if isinstance(other.func, ast.Attribute):
            other.func.attr = OPPOSITES[name]
        else:
            other.func = ast.Name(OPPOSITES[name])
        yield other


def replaced_number(value: float) -> float:
    if isinstance(value, int):
        return value + 1
    if value == 0.0 or math.isinf(value):
        return 1.0
    return value * 2 if 1e-3 < abs(value) < 1e3 else value * 100


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def replaced_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    """The statements that may replace `node`."""
    new: Any = copy.deepcopy(node)
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue():
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.If():
            shortcut = isinstance(node.test, ast.Call) and ast.unparse(node.test).endswith(".all()")
            for test in (ast.UnaryOp(ast.Not(), new.test), ast.Constant(False))[: 2 - shortcut]:
                other = copy.deepcopy(new)
                other.test = test
                yield other
        case ast.Return(value=ast.expr()) if ast.unparse(node.value) != "None":
            if is_text(node.value):
                return
            new.value = ast.Constant(None)
            yield new


def is_skipped(node: ast.AST) -> bool:
    """Whether no test should notice a change of `node`."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Assert() | ast.Import():
            return True
        case ast.ImportFrom() | ast.Global() | ast.Nonlocal():
            return True
        case ast.FunctionDef(name=name):
            return name in TEXT
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.startswith("__")
        case ast.If(test=test):
            return ast.unparse(test) == "TYPE_CHECKING" or "__name__" in ast.unparse(test)
        case ast.Expr(value=ast.Call(func=func)):
            return ast.unparse(func).split(".")[0] in ("warnings", "logging", "_log", "log")
    return False


SKIPPED_FIELDS = {
    "decorator_list",
    "returns",
    "annotation",
    "type_params",
    "exc",
    "cause",
    "format_spec",
}


Site = tuple[ast.AST, str, int | None, str]


def sites(node: ast.AST, scope: str = "", function: str = "") -> Iterator[Site]:
    """Every node of a tree as parent, field, index, and the qualified name of its function."""
    if isinstance(node, ast.ClassDef):
        scope = f"{scope}{node.name}."
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function, scope = f"{scope}{node.name}", f"{scope}{node.name}.<locals>."
    for name, value in ast.iter_fields(node):
        if name in SKIPPED_FIELDS:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not is_skipped(child):
                yield (node, name, index, function)
                yield from sites(child, scope, function)


def changes(file: str) -> Iterator[tuple[ast.Module, ast.AST, ast.AST, str]]:
    """Yield each change of a file: the changed tree, the old node, the new node and the name of the
    function around it. The next step undoes the change."""
    tree = ast.parse((REPO / PACKAGE / file).read_text(encoding="utf-8"))
    for parent, name, index, function in sites(tree):
        at = getattr(parent, name)
        node = at if index is None else at[index]
        others: Iterator[Any] = iter(())
        if isinstance(parent, ast.UnaryOp) and isinstance(node, ast.Constant):
            continue  # a negative number is one constant: the minus is changed instead
        if isinstance(node, ast.expr):
            others = replaced_expressions(node)
        elif isinstance(node, ast.stmt):
            others = replaced_statements(node)
        for other in others:
            put(parent, name, index, other)
            yield tree, node, other, function
            put(parent, name, index, node)


def mutants_of(file: str) -> list[Mutant]:
    """`file` is relative to the package."""
    return [
        Mutant(file, node.lineno, function, f"{one_line(node)}  ->  {one_line(other)}", i)
        for i, (_, node, other, function) in enumerate(changes(file))
    ]


def source_of(mutant: Mutant) -> str:
    tree, *_ = next(islice(changes(mutant.file), mutant.number, None))
    return ast.unparse(ast.fix_missing_locations(tree))


def put(parent: ast.AST, name: str, index: int | None, node: Any) -> None:
    if index is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[index] = node


def one_line(node: ast.AST) -> str:
    text = ast.unparse(node).splitlines()
    return text[0][:160] + (" ..." if len(text) > 1 else "")


def layers() -> list[str]:
    """The modules and then the folders of the package."""
    entries = sorted((REPO / PACKAGE).iterdir())
    modules = [path.stem for path in entries if path.suffix == ".py" and path.stem != "__init__"]
    return modules + [path.name for path in entries if (path / "__init__.py").exists()]


def present_file(record: dict[str, Any]) -> str:
    """The file of a stored mutant in the present package."""
    file = record["file"]
    owner = record["function"].partition(".")[0]
    return MOVED.get(f"{file}:{owner}") or MOVED.get(file, file)


def layer_of(file: str) -> str:
    return Path(file).with_suffix("").parts[0]


def sample(layer: str, seed: int) -> Iterator[Mutant]:
    """The changes of a layer in random order: one of every line, then a second, and so on."""
    single = REPO / PACKAGE / f"{layer}.py"
    files = [single] if single.exists() else sorted((REPO / PACKAGE / layer).rglob("*.py"))
    rng = random.Random(f"{seed} {layer}")
    lines: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for file in files:
        for mutant in mutants_of(file.relative_to(REPO / PACKAGE).as_posix()):
            lines[mutant.file, mutant.line].append(mutant)
    queues = list(lines.values())
    for queue in queues:
        rng.shuffle(queue)
    while queues:
        rng.shuffle(queues)
        yield from [queue.pop() for queue in queues]
        queues = [queue for queue in queues if queue]


# ── tests ──────────────────────────────────────────────────────────────────────────────────────


class TestMap:
    """The tests that enter each function, as `benchmarks.reliability.test_map` found them."""

    def __init__(self, path: Path, limit: float = LIMIT) -> None:
        self.limit = limit
        found = json.loads(path.read_text(encoding="utf-8"))
        self.tests: list[tuple[str, float]] = found["tests"]
        self.entered: dict[str, list[int]] = found["entered"]
        self.sure: set[str] = set()  # tests that passed here on the unchanged code
        self.unsure: set[str] = set()  # tests that failed on it

    def rounds(self, mutant: Mutant) -> list[tuple[list[str], float]]:
        """The tests of a mutant in rounds, and the duration of each round on the unchanged code."""
        where = f"{mutant.file}:{mutant.function}"
        numbers = set(self.entered.get(where, ()))
        stem = Path(mutant.file).stem
        own = re.compile(rf"tests/({layer_of(mutant.file)}/|(\w+/)*test_{stem}\b)")
        if not numbers:  # module level: the code that runs at import
            of_file = (n for at, n in self.entered.items() if at.startswith(f"{mutant.file}:"))
            numbers = {i for found in of_file for i in found}
            numbers |= {i for i, (name, _) in enumerate(self.tests) if own.match(name)}
        kinds: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for name, seconds in sorted((self.tests[i] for i in numbers), key=lambda t: t[1]):
            if name not in self.unsure and not any(f"/{stem}" in name for stem in NOT_RUN):
                kinds[name.partition("[")[0]].append((name, seconds))

        def place(tests: list[tuple[str, float]]) -> tuple[bool, float]:
            return (not own.match(tests[0][0]), tests[0][1])

        ordered = sorted(kinds.values(), key=place)
        a, b = ROUNDS
        one_of_each = [tests[0] for tests in ordered]
        rest = one_of_each[b:] + [test for tests in ordered for test in tests[1:]]
        rest.sort(key=lambda test: test[1])  # if not, slow tests would leave no time for the rows
        return [self._within(tests) for tests in (one_of_each[:a], one_of_each[a:b], rest)]

    def _within(self, tests: list[tuple[str, float]]) -> tuple[list[str], float]:
        names, total = [], 0.0
        for name, seconds in tests:
            if total + seconds > self.limit and names:
                break
            names.append(name)
            total += seconds
        return names, total


class Copy:
    """A copy of the tree to change, and forks of this process that test it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tracked = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=REPO, capture_output=True, text=True, check=True,
        )  # fmt: skip
        for name in tracked.stdout.splitlines():
            source = REPO / name
            if source.is_file() and not source.is_symlink():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, folder / name)
        for name in PRELOADED:
            importlib.import_module(name)
        # A process that a test leaves behind becomes a child of this one.
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)

    def write(self, file: str, source: str) -> None:
        path = self.folder / PACKAGE / file
        path.write_text(source, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()

    def restore(self, file: str) -> None:
        self.write(file, (REPO / PACKAGE / file).read_text(encoding="utf-8"))

    def failure(self, tests: list[str], seconds: float) -> str | None:
        """The first test that failed, "hang", "crash" or an exit code; None if all passed."""
        failed = self.folder / ".failed"
        failed.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            self._test(tests, seconds, failed)
        deadline = time.monotonic() + 6 * seconds + PATIENCE
        status = None
        while status is None and time.monotonic() < deadline:
            pid, code = os.waitpid(child, os.WNOHANG)
            status = code if pid else None
            time.sleep(0.02)
        for pid in descendants():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        if failed.exists():
            return failed.read_text(encoding="utf-8")
        if status is None or os.WIFSIGNALED(status):
            return "hang" if status is None or os.WTERMSIG(status) == signal.SIGXCPU else "crash"
        code = os.WEXITSTATUS(status)
        log = (self.folder / ".log").read_text(encoding="utf-8", errors="replace")
        if code == 4 and "no match in any of" in log:  # no test ran
            raise SystemExit(f"{MAP} names tests that no longer exist. Run test_map again.")
        return None if code in (0, 5) else f"exit {code}"

    def _test(self, tests: list[str], seconds: float, failed: Path) -> None:
        """In the fork: run the tests and exit."""
        import pytest

        class First:
            def pytest_runtest_logreport(self, report: Any) -> None:
                if report.failed and not failed.exists():
                    failed.write_text(report.nodeid, encoding="utf-8")

        try:
            os.setsid()
            log = os.open(self.folder / ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            limit = int(3 * seconds + PATIENCE / 2)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            os.chdir(self.folder)
            here = [str(self.folder / "src"), str(self.folder)]
            os.environ["PYTHONPATH"] = os.pathsep.join(here)
            for name in [m for m in sys.modules if m.split(".")[0] in ("farthing", "benchmarks")]:
                del sys.modules[name]
            sys.path[:] = here + [p for p in sys.path if p not in ("", str(REPO))]
            options = ["-x", "-p", "no:cacheprovider", "-n", "0", "--no-header"]
            options += [f"--basetemp={self.folder / '.tmp'}", "-o", "faulthandler_timeout=0"]
            options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
            code = pytest.main([*options, *tests], plugins=[First()])
            sys.stdout.flush()
            os._exit(int(code))
        except BaseException:
            traceback.print_exc()
            os._exit(70)


def descendants() -> list[int]:
    parents = {}
    for name in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            stat = Path(f"/proc/{int(name)}/stat").read_text()
            parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    found, new = set(), {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return sorted(found)


# ── runs ───────────────────────────────────────────────────────────────────────────────────────


def kept(file: Path = RESULTS) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def write(file: Path, records: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    file.write_text(text, encoding="utf-8")


def keep(records: list[dict[str, Any]]) -> None:
    order = layers()
    records.sort(
        key=lambda r: (order.index(layer_of(present_file(r))), r["file"], r["line"], r["change"])
    )
    write(RESULTS, records)


def name_of(mutant: Mutant) -> tuple[str, str, str]:
    """Identifies a mutant even if its line number changes."""
    return (mutant.file, mutant.function, mutant.change)


def named(record: dict[str, Any]) -> tuple[str, str, str]:
    return (present_file(record), record["function"], record["change"])


def outcome(tree: Copy, test_map: TestMap, mutant: Mutant) -> dict[str, str]:
    """The test that killed the mutant, or the number of tests that it survived."""
    count = 0
    tree.write(mutant.file, source_of(mutant))
    try:
        for tests, seconds in test_map.rounds(mutant):
            if tests and (by := tree.failure(tests, seconds)) is not None:
                if "::" not in by:  # a failed import or a busy machine: is the change the reason?
                    tree.restore(mutant.file)
                    if (also := tree.failure(tests, seconds)) is not None:
                        raise SystemExit(f"{also} on the unchanged code: {', '.join(tests)}")
                return {"killed": by}
            count += len(tests)
    finally:
        tree.restore(mutant.file)
    return {"survived": f"{count} tests"}


Note = Callable[[Mutant, dict[str, str]], None]


def try_all(tree: Copy, test_map: TestMap, mutants: list[Mutant], note: Note) -> None:
    """Try the mutants. If a test that killed some also fails on the unchanged code, retry those."""
    killed = defaultdict(list)
    for mutant in mutants:
        found = outcome(tree, test_map, mutant)
        note(mutant, found)
        if "::" in (by := found.get("killed", "")):
            killed[by].append(mutant)
    new = [test for test in killed if test not in test_map.sure]
    while new and (wrong := tree.failure(new, LIMIT)) in new:
        test_map.unsure.add(wrong)
        new.remove(wrong)
        try_all(tree, test_map, killed[wrong], note)
    test_map.sure.update(new)


def note(seed: int, mutant: Mutant, found: dict[str, str]) -> None:
    """Store the outcome, beside the seed of the first draw and the outcome then."""
    name, records = name_of(mutant), kept()
    was = next((r for r in records if named(r) == name), {"seed": seed, "first": next(iter(found))})
    record = place_of(mutant) | {"seed": was["seed"], "first": was["first"]} | found
    keep([r for r in records if named(r) != name] + [record])
    show(mutant, found)


def place_of(mutant: Mutant) -> dict[str, Any]:
    return {key: value for key, value in vars(mutant).items() if key != "number"}


def show(mutant: Mutant, found: dict[str, str]) -> None:
    label = "killed  " if "killed" in found else "SURVIVED"
    print(label, f"{mutant.file}:{mutant.line}", mutant.change, *found.values(), flush=True)


def to_try(layer: str, count: int, seed: int) -> list[Mutant]:
    """The next mutants of a layer's sample, until the draw has `count`."""
    of_layer = [r for r in kept() if layer_of(present_file(r)) == layer]
    done = {named(r) for r in of_layer}
    new = (mutant for mutant in sample(layer, seed) if name_of(mutant) not in done)
    return list(islice(new, max(0, count - sum(r["seed"] == seed for r in of_layer))))


def survivors(layer: str) -> list[Mutant]:
    """The mutants of a layer that survived."""
    records = [r for r in kept() if layer_of(present_file(r)) == layer]
    return [found for r in records if is_survivor(r) and (found := present(r)) is not None]


def is_survivor(record: dict[str, Any]) -> bool:
    return "survived" in record and "equivalent" not in record


def present(record: dict[str, Any]) -> Mutant | None:
    """A stored mutant in the present code: of its name, the one nearest to its old line."""
    all_of = mutants_of(present_file(record))
    same = [mutant for mutant in all_of if name_of(mutant) == named(record)]
    return min(same, key=lambda mutant: abs(mutant.line - record["line"]), default=None)


# ── fresh draws ────────────────────────────────────────────────────────────────────────────────


def head() -> str:
    """The hash of the commit whose package this is."""
    git = partial(subprocess.run, cwd=REPO, capture_output=True, text=True, check=True)
    if git(["git", "status", "--porcelain", "--", str(PACKAGE)]).stdout:
        raise SystemExit(f"{PACKAGE} has changes. Commit them: the hash is the seed.")
    return git(["git", "rev-parse", "HEAD"]).stdout.strip()


def draw(commit: str, count: int) -> list[Mutant]:
    """One change of each of `count` lines that are spread evenly over the package, shuffled."""
    lines: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for file in sorted((REPO / PACKAGE).rglob("*.py")):
        for mutant in mutants_of(file.relative_to(REPO / PACKAGE).as_posix()):
            lines[mutant.file, mutant.line].append(mutant)
    rng, all_of = random.Random(f"fresh {commit}"), list(lines.values())
    step = len(all_of) / count
    first = rng.random() * step
    drawn = [rng.choice(all_of[int(first + i * step)]) for i in range(count)]
    rng.shuffle(drawn)
    return drawn


def try_fresh(tree: Copy, test_map: TestMap, count: int, some: list[str] | None) -> None:
    """Try what is missing of the draw of this commit, in some layers or in all."""
    commit = head()
    drawn = draw(commit, count)
    done = {r["number"] for r in kept(FRESH) if r["commit"] == commit}
    missing = [
        number
        for number, mutant in enumerate(drawn)
        if number not in done and (some is None or layer_of(mutant.file) in some)
    ]
    for i in range(0, len(missing), BATCH):
        outcomes = dict[int, dict[str, str]]()

        def note(mutant: Mutant, found: dict[str, str], outcomes: Any = outcomes) -> None:
            outcomes[drawn.index(mutant)] = found
            show(mutant, found)

        try_all(tree, test_map, [drawn[number] for number in missing[i : i + BATCH]], note)
        new = [
            {"commit": commit, "number": number, "of": count, **place_of(drawn[number])}
            | {"first": next(iter(found)), **found}
            for number, found in outcomes.items()
        ]
        write(FRESH, kept(FRESH) + new)
        print(fresh_table(), flush=True)


def retry_fresh(tree: Copy, test_map: TestMap) -> None:
    """Retry the survivors of all fresh draws, and keep what was found first."""

    def note(mutant: Mutant, found: dict[str, str]) -> None:
        records = kept(FRESH)
        for r in records:
            if is_survivor(r) and named(r) == name_of(mutant):
                del r["survived"]
                r |= found
        write(FRESH, records)
        show(mutant, found)

    again = [present(r) for r in kept(FRESH) if is_survivor(r)]
    try_all(tree, test_map, [mutant for mutant in again if mutant is not None], note)


def fresh_table() -> str:
    """One row per draw: how many of its changes were noticed, with 95 % Clopper-Pearson limits."""
    header = ("commit", "drawn", "tried", "cannot be noticed", "noticed at first", "noticed now")
    rows = [f"| {' | '.join(header)} |", "|---|---|---|---|---|---|"]
    draws: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for r in kept(FRESH):
        draws[r["commit"], r["of"]].append(r)
    for (commit, count), records in draws.items():
        made = [r for r in records if "equivalent" not in r]
        noticed = (
            share(sum(r["first"] == "killed" for r in made), len(made)),
            share(sum("killed" in r for r in made), len(made)),
        )
        numbers = (commit[:7], count, len(records), len(records) - len(made), *noticed)
        rows.append(f"| {' | '.join(map(str, numbers))} |")
    return "\n".join(rows)


def share(some: int, of: int) -> str:
    """A share in percent, with its 95 % interval."""
    from scipy.stats import binomtest

    if of == 0:
        return ""
    low, high = binomtest(some, of).proportion_ci(method="exact")
    return f"{some} ({100 * some / of:.0f} %; {100 * low:.0f} to {100 * high:.0f} %)"


def table() -> str:
    """One row per layer and draw: the number of changes and the number that tests noticed."""
    header = ("folder or module", "changes", "noticed at first", "noticed now", "share now")
    rows = [f"| {' | '.join((*header, 'cannot be noticed'))} |", "|---|---|---|---|---|---|"]
    counts: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for r in kept():
        for layer in (layer_of(present_file(r)), "all"):
            count = counts[layer, r["seed"]]
            if "equivalent" in r:
                count["equivalent"] += 1
                continue
            count["made"] += 1
            count["first"] += r["first"] == "killed"
            count["now"] += "killed" in r
    for seed in sorted({seed for _, seed in counts}):
        for layer in (*layers(), "all"):
            if made := (count := counts[layer, seed])["made"]:
                name = f"{layer}, draw {seed + 1}" if seed else layer
                share = f"{100 * count['now'] / made:.0f} %"
                numbers = (made, count["first"], count["now"], share, count["equivalent"])
                rows.append(f"| {name} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(rows)


HEADING = "## Mutation tests\n"


def write_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for header, text in (("| commit | drawn |", fresh_table()), ("| folder or module |", table())):
        begin = page.index(header, page.index(HEADING))
        end = page.find("\n\n", begin)
        page = page[:begin] + text + (page[end:] if end >= 0 else "\n")
    PAGE.write_text(page, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability.mutants")
    parser.add_argument("--layer", action="append", help="module or folder; repeatable (all)")
    parser.add_argument("--count", type=int, default=25, help="changes per layer and draw (25)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw (0)")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of tests per round")
    parser.add_argument("--fresh", type=int, metavar="N", help="N changes drawn by the commit")
    parser.add_argument("--again", action="store_true", help="retry the survivors")
    parser.add_argument("--table", action="store_true", help="only write the tables of the page")
    parser.add_argument("--map", type=Path, default=MAP, help="what test_map wrote")
    chosen = parser.parse_args()
    if chosen.table:
        write_page()
        return
    test_map = TestMap(chosen.map, chosen.limit)
    with tempfile.TemporaryDirectory(prefix="farthing-mutants-") as folder:
        tree = Copy(Path(folder))
        if chosen.fresh and chosen.again:
            retry_fresh(tree, test_map)
        elif chosen.fresh:
            try_fresh(tree, test_map, chosen.fresh, chosen.layer)
        for layer in () if chosen.fresh else chosen.layer or layers():
            again = chosen.again
            try_all(
                tree,
                test_map,
                survivors(layer) if again else to_try(layer, chosen.count, chosen.seed),
                partial(note, chosen.seed),
            )


if __name__ == "__main__":
    main()
