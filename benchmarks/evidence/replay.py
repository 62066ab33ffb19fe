"""Run a method on a problem with a budget and a seed, in virtual time.

    python -m benchmarks.evidence.replay tables --methods EI --problems lcbench/higgs --seeds 10

    clock     the recorded costs; with --charge-overhead also the CPU seconds of ask and tell, which
              farthing then measures, too
    budget    in typical costs of the problem; several budgets are separated by commas
    limits    a trial of farthing is killed at its limit and pays the cost up to then
    the end   an evaluation that would end after the budget is cut off there and has no value;
              a run also ends after `--most` evaluations or if the method has no suggestion
    batches   `Job.batch` trials of farthing at the same time, one batch after the other; the budget
              is elapsed time, and a batch takes the time of its longest evaluation
    tables    a configuration that a sampled table does not have is replaced by the nearest unused
              row, for every method; with --rows farthing knows the rows and suggests only these

Every run is one JSON line of `benchmarks/results/replays/<suite>.jsonl`, written when it ends and
packed by `python -m benchmarks pack`. Kept runs are not repeated, so an interruption loses only the
active runs. `benchmarks/README.md` describes the fields.
"""

from __future__ import annotations

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")  # before numpy is loaded

import argparse
import ast
import gzip
import hashlib
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from unittest.mock import patch
from zlib import crc32

import numpy as np

import farthing
from benchmarks import peers, problems
from benchmarks.methods import Method, Together, make
from benchmarks.problems import recorded
from benchmarks.problems.problem import Evaluation, Problem
from farthing import Float, Space
from farthing.history import TrialState

FOLDER = Path(__file__).resolve().parents[1] / "results" / "replays"
BUDGET = 60.0  # typical costs
MOST = 200  # evaluations of a run, or twice the budget where that is more
WARM_UP = 12  # evaluations: more than any method's initial design
EQUIVALENT = FOLDER.parent / "equivalent_sources.json"
# The code that decides what is evaluated: these modules and folders of the package, and the file
# that calls them.
DECIDING = frozenset(
    {
        *("errors", "notebook", "space", "budget", "history", "models", "cost", "acquisition"),
        *("policies", "stopping"),
    }
)
SUGGESTING = "core/suggest.py"
PATIENCE = 600.0  # CPU seconds of overhead after which a run is ended as too slow


@dataclass(frozen=True)
class Job:
    """The inputs of a run; two equal jobs give the same run."""

    problem: str
    method: str
    seed: int
    budget: float = BUDGET  # typical costs
    most: int = MOST
    clock: bool = False  # whether overhead is charged
    rows: bool = False  # whether farthing knows the rows of a sampled table
    batch: int = 1  # evaluations at the same time: see `_play_together`
    own_seed: bool = False  # whether seeds differ between problems: see `seed_of`


def most_of(budget: float) -> int:
    """The maximum number of evaluations of a run with this budget in typical costs."""
    return max(MOST, round(2 * budget))


def seed_of(job: Job) -> int:
    """The seed of the method.

    With the same seeds on every problem a method has the same initial design on all of them. Five
    seeds are then only five designs, and a lucky design is lucky on every problem. The name of the
    problem is part of the seed, so problems must keep their names.
    """
    return crc32(f"{job.problem} {job.seed}".encode()) >> 1 if job.own_seed else job.seed


@dataclass(frozen=True)
class Run:
    """The result of a job: cost, value (None: failed, cut off), overhead of each evaluation."""

    job: Job
    limit: float  # the budget in units of cost; with batches, of elapsed time
    costs: tuple[float, ...] = ()
    values: tuple[float | None, ...] = ()
    overhead: tuple[float, ...] = ()
    ended: str = ""
    error: str | None = None
    versions: dict[str, str] = field(default_factory=dict)  # of farthing, and its source mark
    # (evaluation, cost, value) that trials killed at a limit of farthing would have had
    killed: tuple[tuple[int, float, float | None], ...] = ()


def replay(problem: Problem, job: Job) -> Run:
    """Ask, evaluate and tell until the budget is spent; an exception of the method ends the run."""
    limit = job.budget * problem.typical_cost
    played, error = _Played(), None
    play = _play if job.batch == 1 else _play_together
    # Farthing shortens its suggestions by its own clock. In wall-clock seconds, a run beside busy
    # processes would pay for the machine.
    clock = patch.object(time, "perf_counter", time.process_time) if job.clock else nullcontext()
    try:
        with clock:
            ended = play(problem, job, limit, played)
    except Exception as raised:
        ended, error = "error", f"{type(raised).__name__}: {raised}"[:500]
    lists = tuple(played.costs), tuple(played.values), tuple(played.overhead)
    return Run(job, limit, *lists, ended, error, versions(), tuple(played.killed))


@dataclass
class _Played:
    """The evaluations of a run so far, as in `Run`."""

    costs: list[float] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    overhead: list[float] = field(default_factory=list)
    killed: list[tuple[int, float, float | None]] = field(default_factory=list)

    def add(self, cost: float, value: float | None, overhead: float) -> None:
        """One more evaluation."""
        self.costs.append(cost)
        self.values.append(value)
        self.overhead.append(overhead)


def _play(problem: Problem, job: Job, limit: float, played: _Played) -> str:
    """Play evaluation by evaluation; returns why the run ended."""
    table = problem.table
    if job.clock:
        warm_up(job.method)
    method: Method = make(
        job.method,
        table if table is not None and job.rows else problem.space,
        budget=limit,
        seed=seed_of(job),
        clock=job.clock,
        evaluations=round(limit / problem.mean_cost),
        move=problem.move,
    )
    rows = Rows(table) if table is not None else None
    spent, before = 0.0, None
    while len(played.costs) < job.most:
        started = time.process_time()
        params = method.ask()
        suggestion = time.process_time() - started
        if params is None:
            return "nothing to ask"
        if rows is not None:
            params = rows.nearest(params)
        value, cost = problem.at(params)
        if problem.move is not None:
            cost, before = problem.move(params, before), params
        spent += suggestion if job.clock else 0.0
        left = limit - spent
        most = getattr(method, "limit", math.inf)  # the cost at which farthing kills it
        if cost > most and most < left:
            played.killed.append((len(played.costs), cost, value))
            played.add(most, None, suggestion)
            spent += most
            method.killed(params, most)  # type: ignore[attr-defined]
            continue
        cut = cost > left
        played.add(max(left, 0.0) if cut else cost, None if cut else value, suggestion)
        spent += cost
        if cut:
            return "budget"
        started = time.process_time()
        method.tell(params, Evaluation(value, cost))
        suggestion = time.process_time() - started
        played.overhead[-1] += suggestion
        spent += suggestion if job.clock else 0.0
        if spent >= limit:
            return "budget"
        if sum(played.overhead) > PATIENCE:
            return "too slow"
    return "evaluations"


def _play_together(problem: Problem, job: Job, limit: float, played: _Played) -> str:
    """Synchronous batches (Lee et al. 2020, algorithm 2): the next starts when all have ended.

    A batch takes the time of its longest evaluation and costs the sum of all. An evaluation that
    would end after the budget is cut off there.
    """
    if job.clock or job.rows or problem.move is not None:
        raise ValueError(
            "Batches cannot be combined with `clock`, `rows` or a cost that depends on the move."
        )
    method = Together(job.method, problem.space, budget=limit, seed=seed_of(job))
    rows = Rows(problem.table) if problem.table is not None else None
    while len(played.costs) < job.most:
        started = time.process_time()
        batch = method.ask(min(job.batch, job.most - len(played.costs)))
        if not batch:
            return "nothing to ask"
        left, ended = limit - method.now, []
        for trial in batch:
            params = trial.params if rows is None else rows.nearest(trial.params)
            value, cost = problem.at(params)
            most = min(trial.limit.get("s", math.inf), left)
            state: TrialState = "killed" if cost > most else "failed" if value is None else "done"
            ended.append(
                (trial, state, Evaluation(value if cost <= most else None, min(cost, most)))
            )
        method.now += max(evaluation.cost for _, _, evaluation in ended)
        for each in ended:
            method.tell(*each)
        suggestion = (time.process_time() - started) / len(batch)
        for _, _, evaluation in ended:
            played.add(evaluation.cost, evaluation.value, suggestion)
        if method.now >= limit * (1 - 1e-12):
            return "budget"
        if sum(played.overhead) > PATIENCE * job.batch:
            return "too slow"
    return "evaluations"


@cache
def warm_up(name: str) -> None:
    """Let a method load its imports, so that no suggestion is charged for them."""
    method = make(name, Space({"x": Float(0.0, 1.0)}), budget=100.0, seed=0, evaluations=30)
    for _ in range(WARM_UP):
        params = method.ask()
        if params is None:
            return
        method.tell(params, Evaluation((params["x"] - 0.3) ** 2, 1.0))


class Rows:
    """The rows of a table; a suggestion is replaced by the nearest row not evaluated yet."""

    def __init__(self, space: Space) -> None:
        self.table, self.plain = space, Space(space.parameters)
        assert space.rows is not None
        self.rows, self.free = space.rows, np.ones(len(space.rows), dtype=bool)

    def nearest(self, params: Any) -> Any:
        """The nearest unused row, or the nearest row if all are used."""
        x = self.plain.encode(params)
        apart = np.where(self.plain.categorical, self.rows != x, np.abs(self.rows - x))
        distance = np.where(self.free, (apart**2).sum(axis=1), np.inf)
        if not self.free.any():
            distance = (apart**2).sum(axis=1)
        i = int(np.argmin(distance))
        self.free[i] = False
        return self.table.decode(self.rows[i])


def job_of(
    problem: str,
    method: str,
    seed: int,
    budget: float,
    *,
    most: int | None = None,
    clock: bool = False,
    rows: bool = False,
) -> Job:
    """The job of a comparison; overhead is charged where costs are seconds of this machine."""
    measured = problem.partition("/")[0] in recorded.FAMILIES
    return Job(
        problem,
        method,
        seed,
        budget,
        most or most_of(budget),
        clock or measured,
        rows,
        own_seed=True,
    )


def attempt(job: Job, folder: str | None) -> Run:
    """The run of a job."""
    return replay(problems.load(job.problem, folder, seed=job.seed), job)


# ── keeping ────────────────────────────────────────────────────────────────────────────────────


def line_of(run: Run) -> str:
    """One JSON line, numbers to the digits that matter."""
    record = {
        **asdict(run.job),
        "limit": _digits(run.limit, 6),
        "costs": [_digits(cost, 5) for cost in run.costs],
        "values": [None if value is None else _digits(value, 7) for value in run.values],
        "thinking": [_digits(seconds, 2) for seconds in run.overhead],
        "ended": run.ended,
        "error": run.error,
        **(run.versions or versions()),
    }
    if run.killed:
        record["killed"] = [
            [i, _digits(cost, 5), None if value is None else _digits(value, 7)]
            for i, cost, value in run.killed
        ]
    return json.dumps(record, separators=(",", ":"))


def run_of(line: str) -> Run:
    """The run of a line."""
    record = json.loads(line)
    job = Job(**{name: record[name] for name in Job.__dataclass_fields__ if name in record})
    return Run(
        job,
        record["limit"],
        tuple(record["costs"]),
        tuple(record["values"]),
        tuple(record["thinking"]),
        record["ended"],
        record["error"],
        {"farthing": record["farthing"], "source": record.get("source", "")},
        tuple((i, cost, value) for i, cost, value in record.get("killed", ())),
    )


def versions() -> dict[str, str]:
    """The version and the source mark of farthing in this process."""
    return {"farthing": version("farthing"), "source": source()}


@cache
def source() -> str:
    """A hash of the code that decides, without comments, docstrings and formatting.

    Code that executes or stores a decision is not part of it.
    """
    folder, marks = Path(farthing.__file__).parent, []
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if inside.parts[0].removesuffix(".py") not in DECIDING and str(inside) != SUGGESTING:
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                node.body = node.body[ast.get_docstring(node) is not None :]
        marks.append(f"{path.name}: {ast.dump(tree)}")
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:12]


def same_decisions(runs: str) -> frozenset[str]:
    """The marks of all sources that make the decisions of this one, its own included.

    A refactoring changes the mark, but no decision. `equivalent_sources.json` lists the marks
    before and after it, and how their equality was shown. A change that leaves some runs as they
    were names these, by what they begin with ("only").

    Args:
        runs: the method of a replay, or a name such as "stopping" or "curves ASHA".
    """
    alike = (
        set(each["marks"])
        for each in _equivalent(EQUIVALENT)
        if source() in each["marks"] and runs.startswith(tuple(each.get("only", [""])))
    )
    return frozenset({source()}.union(*alike))


@cache
def _equivalent(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text("utf-8")))


def _digits(number: float, digits: int) -> float:
    return float(f"{number:.{digits}g}")


def kept(suite: str) -> dict[Job, Run]:
    """Every run of a suite; the later one of two equal jobs."""
    runs = [run_of(line) for line in lines(suite)]
    return {run.job: run for run in runs}


def lines(suite: str) -> Iterator[str]:
    """The lines of a suite, first the packed ones, then the new ones."""
    packed, fresh = FOLDER / f"{suite}.jsonl.gz", FOLDER / f"{suite}.jsonl"
    if packed.exists():
        with gzip.open(packed, "rt") as file:
            yield from file
    if fresh.exists():
        with fresh.open() as file:
            for line in file:
                with suppress(json.JSONDecodeError):  # an interruption may have cut a line
                    json.loads(line)
                    yield line


def appending(suite: str) -> TextIO:
    """The file of a suite, open for more lines; an incomplete last line is ended first."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{suite}.jsonl"
    there = path.read_bytes() if path.exists() else b""
    file = path.open("a")
    if there and not there.endswith(b"\n"):
        file.write("\n")
    return file


def pack(suite: str) -> Path:
    """Move all runs of a suite into its compressed file, sorted."""
    runs = kept(suite)
    order = sorted(runs, key=lambda job: tuple(asdict(job).values()))
    return write_packed(suite, [line_of(runs[job]) + "\n" for job in order])


def write_packed(suite: str, order: Iterable[str]) -> Path:
    """Replace the compressed file of a suite by these lines."""
    path = FOLDER / f"{suite}.jsonl.gz"
    path.write_bytes(gzip.compress("".join(order).encode(), mtime=0))  # no date: equal runs,
    (FOLDER / f"{suite}.jsonl").unlink(missing_ok=True)  # equal file
    return path


def carry_out(
    jobs: Iterable[Job],
    suite: str,
    *,
    processes: int = 2,
    folder: str | None = None,
    quiet: bool = False,
    make_more: bool = True,
    same_source: bool = False,
) -> dict[Job, Run]:
    """The run of every job: kept runs are read, missing ones are made and kept at once.

    Without `make_more` only kept runs are returned. With `same_source`, kept runs of farthing do
    not count if a source with different decisions made them.
    """
    requested = list(jobs)
    have = {
        job: run
        for job, run in kept(suite).items()
        if not same_source
        or job.method in peers.NAMES
        or run.versions["source"] in same_decisions(job.method)
    }
    todo = [job for job in requested if job not in have]
    if not make_more or not todo:
        return {job: have[job] for job in requested if job in have}
    started = time.monotonic()
    context = multiprocessing.get_context("fork")
    with (
        ProcessPoolExecutor(max(1, processes), mp_context=context) as pool,
        appending(suite) as file,
    ):
        futures = [pool.submit(attempt, job, folder) for job in todo]
        for i, future in enumerate(as_completed(futures), 1):
            run = future.result()
            have[run.job] = run
            file.write(line_of(run) + "\n")
            file.flush()
            if not quiet and (i % 10 == 0 or i == len(todo)):
                minutes = (time.monotonic() - started) / 60
                left = minutes / i * (len(todo) - i)
                print(
                    f"{suite}: {i} of {len(todo)} runs, {minutes:.1f} min, {left:.0f} to go",
                    flush=True,
                )
    return {job: have[job] for job in requested}


class Missing(NamedTuple):
    """Planned runs that are not kept, and the CPU hours that they would take."""

    runs: int
    hours: float


def missing_of(jobs: Iterable[Job], runs: Mapping[Job, Run], suite: str) -> Missing:
    """The planned jobs without a run.

    A run would take as long as the median kept run of the suite with the same policy, budget and
    batch; if there is none, as the median of all with this budget and batch.
    """
    todo = [job for job in jobs if job not in runs]
    seconds: dict[tuple[str, float, int], list[float]] = {}
    for job, run in kept(suite).items() if todo else ():
        for policy in (_policy_of(job), ""):
            key = (policy, round(job.budget, -1), job.batch)
            seconds.setdefault(key, []).append(sum(run.overhead))
    hours = 0.0
    for job in todo:
        size = round(job.budget, -1), job.batch
        alike = seconds.get((_policy_of(job), *size)) or seconds.get(("", *size)) or [0.0]
        hours += float(np.median(alike)) / 3600.0
    return Missing(len(todo), hours)


def _policy_of(job: Job) -> str:
    return job.method.removeprefix("paper:")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evidence.replay", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("suite", help="name of the file that keeps the runs")
    parser.add_argument("--methods", required=True, help="names, separated by commas")
    parser.add_argument("--problems", required=True, help="names, separated by commas")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budgets", default=str(BUDGET), help="typical costs (default 60)")
    parser.add_argument(
        "--most", type=int, help="maximum evaluations of a run (default: at least 200)"
    )
    parser.add_argument("--charge-overhead", action="store_true", help="(recordings: always)")
    parser.add_argument("--rows", action="store_true", help="let farthing know the rows of a table")
    parser.add_argument(
        "--same-source",
        action="store_true",
        help="repeat runs of farthing that another source made",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--data", help="folder of tables (default: FARTHING_DATA)")
    args = parser.parse_args(arguments)
    jobs = [
        job_of(
            problem,
            method,
            seed,
            budget,
            most=args.most,
            clock=args.charge_overhead,
            rows=args.rows,
        )
        for seed in range(args.seeds)
        for budget in map(float, args.budgets.split(","))
        for problem in args.problems.split(",")
        for method in args.methods.split(",")
    ]
    runs = carry_out(
        jobs,
        args.suite,
        processes=args.jobs,
        folder=args.data,
        same_source=args.same_source,
    )
    for run in runs.values():
        if run.error:
            print(f"{run.job.method} on {run.job.problem}, seed {run.job.seed}: {run.error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
