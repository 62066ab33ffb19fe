"""Tests that would notice: one change of the source at a time, and does any test fail?

    python -m benchmarks.reliability.test_map ~/.cache/farthing-mutants -n 2    once: who enters which function
    python -m benchmarks.reliability.mutants --room normal --count 25           until a room has 25
    python -m benchmarks.reliability.mutants --again                            survivors, after new tests
    python -m benchmarks.reliability.mutants --table                            the table of docs/trust.md

A room's lines are drawn by the seed, and of each line one change: another operator, constant, sign
or default, a condition turned round or taken for granted, a statement or a keyword left out, two
arguments swapped, min for max. Left alone is what no test should notice: docstrings, annotations,
`__all__`, what errors say, formatted text, assertions, `<` for `<=` between real numbers, and a
shortcut for the case that something holds of all elements, left out.

The change is made in a copy of the tree. A fork of this process, which has loaded what tests need,
runs the tests that enter the changed function, those of its own room first, the quickest first and
one of each kind before the rest of its kind, up to `--limit` seconds of them a round. A failure,
a crash or a hang notices. That the tests that noticed pass without the change is checked at the end
of a room.

Every mutant is a line of benchmarks/results/mutants.jsonl, with the seed of its draw and how it
ended at first. A survivor that cannot be noticed has the reason in its line, "equivalent", written
by hand; it does not count.
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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
PACKAGE = Path("src/farthing")
RESULTS = Path(__file__).resolve().parents[1] / "results" / "mutants.jsonl"
PAGE = REPO / "docs" / "trust.md"
MAP = Path.home() / ".cache" / "farthing-mutants" / "map.json"

LIMIT = 40.0  # seconds of tests a round, as they took unchanged
ROUNDS = (12, 60)  # kinds of tests in the first rounds; the rest is the last
PATIENCE = 60.0  # seconds beyond six times as long as it took
MEMORY = 8 << 30
PRELOADED = ("numpy", "scipy.optimize", "scipy.linalg", "scipy.special", "scipy.stats", "pytest")
PRELOADED += ("hypothesis", "sqlalchemy", "click", "rich.live", "mpmath", "pandas", "cloudpickle")
# Read the source or the time: they would notice any change.
NOT_ASKED = ("test_architecture", "test_docs", "test_evidence", "test_import_time", "test_speed")

# ── changes ────────────────────────────────────────────────────────────────────────────────────

TURNED = {
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
EDGE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
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
# Of no consequence, or a matter of speed and of text.
KEYWORDS_LEFT = {"strict", "encoding", "check_finite", "dtype", "copy", "daemon", "help", "name"}
KEYWORDS_LEFT |= {"stacklevel", "overwrite_a", "overwrite_b", "repr", "newline", "metavar", "key"}
TINY = 1e-100  # keeps a division from failing, whatever it is
TEXT = {"__repr__", "_repr_html_", "__str__"}


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    room: str
    file: str  # in the package
    line: int
    function: str  # the innermost that it is in; empty: none
    change: str
    number: int  # in the order of `changes`


def whole(node: ast.expr) -> bool:
    """Compared with it, the edge matters."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "len"


def other_expressions(node: ast.expr) -> Iterator[ast.expr]:
    """What may stand for an expression."""
    new: Any = copy.deepcopy(node)
    match node:
        case ast.Compare(ops=[op]):
            new.ops = [TURNED[type(op)]()]
            if type(op) in EDGE and (whole(node.left) or whole(node.comparators[0])):
                new.ops = [EDGE[type(op)]()]
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
            yield ast.Constant(other_number(node.value))
        case ast.IfExp():
            yield ast.IfExp(ast.UnaryOp(ast.Not(), new.test), new.body, new.orelse)
        case ast.Call():
            yield from other_calls(node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            for i, generator in enumerate(node.generators):
                if generator.ifs:
                    less = copy.deepcopy(new)
                    less.generators[i].ifs = []
                    yield less


def other_calls(node: ast.Call) -> Iterator[ast.expr]:
    first_two = node.args[:2]
    plain = not any(isinstance(a, ast.Starred) for a in first_two)
    symmetric = ast.unparse(node.func).split(".")[-1] in {*OPPOSITES, "isinstance", "hypot"}
    if len({ast.dump(a) for a in first_two}) == 2 and plain and not symmetric:
        new = copy.deepcopy(node)
        new.args[:2] = [new.args[1], new.args[0]]
        yield new
    for i, keyword in enumerate(node.keywords):
        if keyword.arg and keyword.arg not in KEYWORDS_LEFT and not is_text(keyword.value):
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


def other_number(value: float) -> float:
    if isinstance(value, int):
        return value + 1
    if value == 0.0 or math.isinf(value):
        return 1.0
    return value * 2 if 1e-3 < abs(value) < 1e3 else value * 100


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def other_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    """What may stand for a statement."""
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


def left_alone(node: ast.AST) -> bool:
    """What no test should notice."""
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


SKIPPED = {"decorator_list", "returns", "annotation", "type_params", "exc", "cause", "format_spec"}


Site = tuple[ast.AST, str, int | None, str]


def sites(node: ast.AST, scope: str = "", function: str = "") -> Iterator[Site]:
    """The places in a tree: parent, field, index, and the qualified name of their function."""
    if isinstance(node, ast.ClassDef):
        scope = f"{scope}{node.name}."
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function, scope = f"{scope}{node.name}", f"{scope}{node.name}.<locals>."
    for name, value in ast.iter_fields(node):
        if name in SKIPPED:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not left_alone(child):
                yield (node, name, index, function)
                yield from sites(child, scope, function)


def changes(file: str) -> Iterator[tuple[ast.Module, ast.AST, ast.AST, str]]:
    """Every change of a file that is made here, one at a time: the tree, what stood there, what
    stands there now, and in which function."""
    tree = ast.parse((REPO / PACKAGE / file).read_text(encoding="utf-8"))
    for parent, name, index, function in sites(tree):
        at = getattr(parent, name)
        node = at if index is None else at[index]
        others: Iterator[Any] = iter(())
        if isinstance(parent, ast.UnaryOp) and isinstance(node, ast.Constant):
            continue  # a negative number is one constant: its sign and size are changed above
        if isinstance(node, ast.expr):
            others = other_expressions(node)
        elif isinstance(node, ast.stmt):
            others = other_statements(node)
        for other in others:
            put(parent, name, index, other)
            yield tree, node, other, function
            put(parent, name, index, node)


def mutants_of(room: str, file: str) -> list[Mutant]:
    """`file` is relative to the package."""
    return [
        Mutant(room, file, node.lineno, function, f"{one_line(node)}  ->  {one_line(other)}", i)
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


def rooms() -> list[str]:
    """As docs/architecture.md lists them."""
    page = (REPO / "docs" / "architecture.md").read_text(encoding="utf-8")
    return re.findall(r"^\| [a-z ]+ \| `(\w+)` \|", page, re.M)


def sample(room: str, seed: int) -> Iterator[Mutant]:
    """The changes of a room in random order, the next of a line only after one of every line."""
    single = REPO / PACKAGE / f"{room}.py"
    files = [single] if single.exists() else sorted((REPO / PACKAGE / room).rglob("*.py"))
    rng = random.Random(f"{seed} {room}")
    lines: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for file in files:
        for mutant in mutants_of(room, file.relative_to(REPO / PACKAGE).as_posix()):
            lines[mutant.file, mutant.line].append(mutant)
    queues = list(lines.values())
    for queue in queues:
        rng.shuffle(queue)
    while queues:
        rng.shuffle(queues)
        yield from [queue.pop() for queue in queues]
        queues = [queue for queue in queues if queue]


# ── tests ──────────────────────────────────────────────────────────────────────────────────────


class Noticing:
    """Which tests could notice a change: what `benchmarks.reliability.test_map` found."""

    def __init__(self, path: Path, limit: float = LIMIT) -> None:
        self.limit = limit
        found = json.loads(path.read_text(encoding="utf-8"))
        self.tests: list[tuple[str, float]] = found["tests"]
        self.entered: dict[str, list[int]] = found["entered"]
        self.sure: set[str] = set()  # tests that passed unchanged, here
        self.unsure: set[str] = set()

    def rounds(self, mutant: Mutant) -> list[tuple[list[str], float]]:
        """The tests of a mutant, in rounds, and how long each round took unchanged."""
        where = f"{mutant.file}:{mutant.function}"
        numbers = set(self.entered.get(where, ()))
        stem = Path(mutant.file).stem
        own = re.compile(rf"tests/({mutant.room}/|test_({mutant.room}|{stem})\b)")
        if not numbers:  # of no function: what runs when the file is imported
            of_file = (n for at, n in self.entered.items() if at.startswith(f"{mutant.file}:"))
            numbers = {i for found in of_file for i in found}
            numbers |= {i for i, (name, _) in enumerate(self.tests) if own.match(name)}
        kinds: dict[str, list[tuple[str, float]]] = defaultdict(list)
        for name, seconds in sorted((self.tests[i] for i in numbers), key=lambda t: t[1]):
            if name not in self.unsure and not any(f"/{stem}" in name for stem in NOT_ASKED):
                kinds[name.partition("[")[0]].append((name, seconds))

        def place(tests: list[tuple[str, float]]) -> tuple[bool, float]:
            return (not own.match(tests[0][0]), tests[0][1])

        ordered = sorted(kinds.values(), key=place)
        a, b = ROUNDS
        one_of_each = [tests[0] for tests in ordered]
        rest = one_of_each[b:] + [test for tests in ordered for test in tests[1:]]
        rest.sort(key=lambda test: test[1])  # or slow kinds would leave no time for the rows
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
        # Whatever a test leaves behind becomes a child of this process.
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)

    def write(self, file: str, source: str) -> None:
        path = self.folder / PACKAGE / file
        path.write_text(source, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()

    def restore(self, file: str) -> None:
        self.write(file, (REPO / PACKAGE / file).read_text(encoding="utf-8"))

    def noticed(self, tests: list[str], seconds: float) -> str | None:
        """The test that failed first, "hang" or "crash"; None if all passed."""
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
        if code == 4 and "no match in any of" in log:  # not noticed: nobody was asked
            raise SystemExit(f"{MAP} names tests that are gone: make it anew, see --help.")
        return None if code in (0, 5) else f"exit {code}"

    def _test(self, tests: list[str], seconds: float, failed: Path) -> None:
        """In the fork: run the tests and leave."""
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
            options = ["-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
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


def kept() -> list[dict[str, Any]]:
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def keep(records: list[dict[str, Any]]) -> None:
    order = rooms()
    records.sort(key=lambda r: (order.index(r["room"]), r["file"], r["line"], r["change"]))
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    RESULTS.write_text(text, encoding="utf-8")


def name_of(mutant: Mutant) -> tuple[str, str, str]:
    """The same while the lines around it move."""
    return (mutant.file, mutant.function, mutant.change)


def named(record: dict[str, Any]) -> tuple[str, str, str]:
    return (record["file"], record["function"], record["change"])


def outcome(tree: Copy, noticing: Noticing, mutant: Mutant) -> dict[str, str]:
    """Which test noticed, or how many did not."""
    count = 0
    tree.write(mutant.file, source_of(mutant))
    try:
        for tests, seconds in noticing.rounds(mutant):
            if tests and (by := tree.noticed(tests, seconds)) is not None:
                return {"killed": by}
            count += len(tests)
    finally:
        tree.restore(mutant.file)
    return {"survived": f"{count} tests"}


def try_all(tree: Copy, noticing: Noticing, mutants: list[Mutant], seed: int) -> None:
    """Try mutants; those that a test noticed which fails without them, too, are tried again."""
    noticed = defaultdict(list)
    for mutant in mutants:
        found = outcome(tree, noticing, mutant)
        note(mutant, found, seed)
        if "::" in (by := found.get("killed", "")):
            noticed[by].append(mutant)
    new = [test for test in noticed if test not in noticing.sure]
    while new and (wrong := tree.noticed(new, LIMIT)) in new:
        noticing.unsure.add(wrong)
        new.remove(wrong)
        try_all(tree, noticing, noticed[wrong], seed)
    noticing.sure.update(new)


def note(mutant: Mutant, found: dict[str, str], seed: int) -> None:
    """Beside how it ends is kept in which draw it was first, and how it ended then."""
    name, records = name_of(mutant), kept()
    was = next((r for r in records if named(r) == name), {"seed": seed, "first": next(iter(found))})
    record = {
        "room": mutant.room,
        "file": mutant.file,
        "line": mutant.line,
        "function": mutant.function,
        "change": mutant.change,
        "seed": was["seed"],
        "first": was["first"],
    } | found
    keep([r for r in records if named(r) != name] + [record])
    say = "killed  " if "killed" in found else "SURVIVED"
    print(say, f"{mutant.file}:{mutant.line}", mutant.change, *found.values(), flush=True)


def to_try(room: str, count: int, seed: int) -> list[Mutant]:
    """The next of a room's sample until the draw has `count`."""
    of_room = [r for r in kept() if r["room"] == room]
    done = {named(r) for r in of_room}
    new = (mutant for mutant in sample(room, seed) if name_of(mutant) not in done)
    return list(islice(new, max(0, count - sum(r["seed"] == seed for r in of_room))))


def survivors(room: str) -> list[Mutant]:
    """What survived; of those that have the same name the one nearest to where it was."""
    found = defaultdict(list)
    for mutant in sample(room, 0):
        found[name_of(mutant)].append(mutant)
    return [
        min(found[name], key=lambda mutant: abs(mutant.line - r["line"]))
        for r in kept()
        if r["room"] == room and "survived" in r and "equivalent" not in r
        and (name := named(r)) in found
    ]  # fmt: skip


def table() -> str:
    """One row a room and draw: how many changes were made and how many were noticed."""
    rows = ["| room | changes | noticed at first | noticed now | share now | cannot be noticed |"]
    rows.append("|---|---|---|---|---|---|")
    counts: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for r in kept():
        for room in (r["room"], "all"):
            count = counts[room, r["seed"]]
            if "equivalent" in r:
                count["equivalent"] += 1
                continue
            count["made"] += 1
            count["first"] += r["first"] == "killed"
            count["now"] += "killed" in r
    for seed in sorted({seed for _, seed in counts}):
        for room in (*rooms(), "all"):
            if made := (count := counts[room, seed])["made"]:
                name = f"{room}, draw {seed + 1}" if seed else room
                share = f"{100 * count['now'] / made:.0f} %"
                numbers = (made, count["first"], count["now"], share, count["equivalent"])
                rows.append(f"| {name} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(rows)


HEADING = "## Tests that would notice\n"


def write_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    begin = page.index("| room | changes |", page.index(HEADING))
    end = page.find("\n\n", begin)
    rest = page[end:] if end >= 0 else "\n"
    PAGE.write_text(page[:begin] + table() + rest, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability.mutants")
    parser.add_argument("--room", action="append", help="one or more; all")
    parser.add_argument("--count", type=int, default=25, help="changes of each room, in all")
    parser.add_argument("--seed", type=int, default=0, help="of a draw; --count is of each draw")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of tests a round")
    parser.add_argument("--again", action="store_true", help="what survived, once more")
    parser.add_argument("--table", action="store_true", help="only the table of docs/trust.md")
    parser.add_argument("--map", type=Path, default=MAP, help="by benchmarks.reliability.test_map")
    chosen = parser.parse_args()
    if chosen.table:
        write_page()
        return
    noticing = Noticing(chosen.map, chosen.limit)
    with tempfile.TemporaryDirectory(prefix="farthing-mutants-") as folder:
        tree = Copy(Path(folder))
        for room in chosen.room or rooms():
            again = chosen.again
            try_all(
                tree,
                noticing,
                survivors(room) if again else to_try(room, chosen.count, chosen.seed),
                chosen.seed,
            )


if __name__ == "__main__":
    main()
