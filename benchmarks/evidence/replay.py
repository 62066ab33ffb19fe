"""A method against a problem with a budget and a seed, in virtual time.

    python -m benchmarks.evidence.replay tables --methods EI,EIpu --problems lcbench/higgs --seeds 10

    clock     the recorded costs; with --charge-thinking the CPU seconds of ask and tell, too
    budget    so many typical costs of the problem, several budgets separated by commas
    limits    where ours would have a trial killed it is, and pays what it had cost by then
    the end   an evaluation that would end after the budget is cut off there and has no value;
              a run also ends after `--most` evaluations, and when the method has nothing to ask
    batches   `Job.batch` of ours at the same time, one batch after the other: the budget is of the
              time that passes, of each batch its dearest evaluation
    tables    whatever is asked of a sampled table becomes the nearest row that is free, for every
              method; with --rows ours is told the rows and asks for those

Every run is one JSON line of `benchmarks/results/replays/<suite>.jsonl`, written when it ends and
packed by `python -m benchmarks pack`; runs that are there are not made again, so a kill loses only
what was running. `benchmarks/README.md` has the fields.
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
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO
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
WARM_UP = 12  # evaluations: more than the initial design of anybody
EQUIVALENT = FOLDER.parent / "equivalent_sources.json"
# Where it is decided what is evaluated: these modules and folders of the package, and the file from
# which they are called.
DECIDING = frozenset(
    ("errors", "notebook", "space", "budget", "history", "models", "cost", "acquisition")
    + ("policies", "stopping")
)
SUGGESTING = "core/suggest.py"
PATIENCE = 600.0  # CPU seconds of thinking after which a run is given up


@dataclass(frozen=True)
class Job:
    """What is to be run; two equal jobs give the same run."""

    problem: str
    method: str
    seed: int
    budget: float = BUDGET  # typical costs
    most: int = MOST
    clock: bool = False  # whether thinking is charged
    rows: bool = False  # whether ours is told the rows of a sampled table
    batch: int = 1  # evaluations at the same time: see `_play_together`
    own_seed: bool = False  # whether the problem has seeds of its own: see `seed_of`


def most_of(budget: float) -> int:
    """Evaluations that a run of so many typical costs may make."""
    return max(MOST, round(2 * budget))


def seed_of(job: Job) -> int:
    """What the method is seeded with.

    With the same seeds on every problem a method makes the same start on all of them, so that five
    seeds are five starts, however many problems there are: a lucky one is lucky everywhere.
    """
    return crc32(f"{job.problem} {job.seed}".encode()) >> 1 if job.own_seed else job.seed


@dataclass(frozen=True)
class Run:
    """What came of a job: cost, value (None: failed or cut off) and thinking of each evaluation."""

    job: Job
    limit: float  # the budget in units of cost; with batches, of time that they share
    costs: tuple[float, ...] = ()
    values: tuple[float | None, ...] = ()
    overhead: tuple[float, ...] = ()
    ended: str = ""
    error: str | None = None
    versions: dict[str, str] = field(default_factory=dict)  # farthing's, and of its source
    # (evaluation, cost, value) that those killed at a limit of ours would have had
    killed: tuple[tuple[int, float, float | None], ...] = ()


def replay(problem: Problem, job: Job) -> Run:
    """Ask, evaluate, tell, until the budget is spent; what a method raises ends its run."""
    limit = job.budget * problem.typical_cost
    costs: list[float] = []
    values: list[float | None] = []
    overhead: list[float] = []
    killed: list[tuple[int, float, float | None]] = []
    error = None
    try:
        if job.batch == 1:
            ended = _play(problem, job, limit, costs, values, overhead, killed)
        else:
            ended = _play_together(problem, job, limit, costs, values, overhead)
    except Exception as raised:
        ended, error = "error", f"{type(raised).__name__}: {raised}"[:500]
    lists = tuple(costs), tuple(values), tuple(overhead)
    return Run(job, limit, *lists, ended, error, versions(), tuple(killed))


def _play(
    problem: Problem,
    job: Job,
    limit: float,
    costs: list[float],
    values: list[float | None],
    overhead: list[float],
    killed: list[tuple[int, float, float | None]],
) -> str:
    """Fill the lists, evaluation by evaluation; why it ended."""
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
    while len(costs) < job.most:
        begun = time.process_time()
        params = method.ask()
        suggestion = time.process_time() - begun
        if params is None:
            return "nothing to ask"
        if rows is not None:
            params = rows.nearest(params)
        value, cost = problem.at(params)
        if problem.move is not None:
            cost, before = problem.move(params, before), params
        spent += suggestion if job.clock else 0.0
        left = limit - spent
        most = getattr(method, "limit", math.inf)  # where it would have a trial killed: ours
        if cost > most and most < left:
            killed.append((len(costs), cost, value))
            costs.append(most)
            values.append(None)
            overhead.append(suggestion)
            spent += most
            method.killed(params, most)  # type: ignore[attr-defined]
            continue
        cut = cost > left
        costs.append(max(left, 0.0) if cut else cost)
        values.append(None if cut else value)
        overhead.append(suggestion)
        spent += cost
        if cut:
            return "budget"
        begun = time.process_time()
        method.tell(params, Evaluation(value, cost))
        suggestion = time.process_time() - begun
        overhead[-1] += suggestion
        spent += suggestion if job.clock else 0.0
        if spent >= limit:
            return "budget"
        if sum(overhead) > PATIENCE:
            return "too slow"
    return "evaluations"


def _play_together(
    problem: Problem,
    job: Job,
    limit: float,
    costs: list[float],
    values: list[float | None],
    overhead: list[float],
) -> str:
    """Synchronous batches (Lee et al. 2020, algorithm 2): the next is asked when all have ended.

    A batch takes the time of its dearest evaluation, and costs the sum of them. What would end
    after the budget is cut off there, as everything is.
    """
    if job.clock or job.rows or problem.move is not None:
        raise ValueError("batches are replayed without thinking, told rows and moves")
    method = Together(job.method, problem.space, budget=limit, seed=seed_of(job))
    rows = Rows(problem.table) if problem.table is not None else None
    while len(costs) < job.most:
        begun = time.process_time()
        batch = method.ask(min(job.batch, job.most - len(costs)))
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
        suggestion = (time.process_time() - begun) / len(batch)
        costs.extend(evaluation.cost for _, _, evaluation in ended)
        values.extend(evaluation.value for _, _, evaluation in ended)
        overhead.extend([suggestion] * len(batch))
        if method.now >= limit * (1 - 1e-12):
            return "budget"
        if sum(overhead) > PATIENCE * job.batch:
            return "too slow"
    return "evaluations"


@cache
def warm_up(name: str) -> None:
    """Let a method import what it imports: no suggestion is charged for that."""
    method = make(name, Space({"x": Float(0.0, 1.0)}), budget=100.0, seed=0, evaluations=30)
    for _ in range(WARM_UP):
        params = method.ask()
        if params is None:
            return
        method.tell(params, Evaluation((params["x"] - 0.3) ** 2, 1.0))


class Rows:
    """The rows of a table: what a method asks for becomes the nearest row not evaluated yet."""

    def __init__(self, space: Space) -> None:
        self.table, self.plain = space, Space(space.parameters)
        assert space.rows is not None
        self.rows, self.free = space.rows, np.ones(len(space.rows), dtype=bool)

    def nearest(self, params: Any) -> Any:
        """The row itself if it is one."""
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
    """The job of a comparison: thinking is charged where costs are seconds of this machine."""
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
    return replay(problems.load(job.problem, folder), job)


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
    """What this process runs."""
    return {"farthing": version("farthing"), "source": source()}


@cache
def source() -> str:
    """A mark of the code that decides: the same where only comments, docstrings or form differ.

    Code that carries a decision out or stores it is not part of the mark.
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


def same_decisions() -> frozenset[str]:
    """The marks of all sources that make the decisions of this one, its own included.

    A refactoring changes the mark, but no decision. `equivalent_sources.json` lists the marks before
    and after it, and how their equality was shown.
    """
    listed = json.loads(EQUIVALENT.read_text("utf-8"))
    alike = (set(each["marks"]) for each in listed if source() in each["marks"])
    return frozenset({source()}.union(*alike))


def _digits(number: float, digits: int) -> float:
    return float(f"{number:.{digits}g}")


def kept(suite: str) -> dict[Job, Run]:
    """Every run of a suite, the later of two equal jobs."""
    runs = [run_of(line) for line in lines(suite)]
    return {run.job: run for run in runs}


def lines(suite: str) -> Iterator[str]:
    """The lines of a suite: first what is packed, then what is new."""
    packed, fresh = FOLDER / f"{suite}.jsonl.gz", FOLDER / f"{suite}.jsonl"
    if packed.exists():
        with gzip.open(packed, "rt") as file:
            yield from file
    if fresh.exists():
        with fresh.open() as file:
            for line in file:
                with suppress(json.JSONDecodeError):  # a kill may have cut one short
                    json.loads(line)
                    yield line


def appending(suite: str) -> TextIO:
    """The file of a suite, open for more lines; one that a kill cut short is ended first."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{suite}.jsonl"
    there = path.read_bytes() if path.exists() else b""
    file = path.open("a")
    if there and not there.endswith(b"\n"):
        file.write("\n")
    return file


def pack(suite: str) -> Path:
    """Put every run of a suite into its compressed file, in order."""
    runs = kept(suite)
    order = sorted(runs, key=lambda job: tuple(asdict(job).values()))
    return write_packed(suite, [line_of(runs[job]) + "\n" for job in order])


def write_packed(suite: str, order: Iterable[str]) -> Path:
    """These lines, and no others, as the compressed file of a suite."""
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
    """Every job's run: those that are kept, and the others made now, each kept at once.

    With `make_more` off, only those that are kept; with `same_source`, runs of ours that another
    source of farthing made do not count.
    """
    wanted, ours = list(jobs), same_decisions()
    have = {
        job: run
        for job, run in kept(suite).items()
        if not same_source or job.method in peers.NAMES or run.versions["source"] in ours
    }
    todo = [job for job in wanted if job not in have]
    if not make_more or not todo:
        return {job: have[job] for job in wanted if job in have}
    begun = time.monotonic()
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
                minutes = (time.monotonic() - begun) / 60
                left = minutes / i * (len(todo) - i)
                print(
                    f"{suite}: {i} of {len(todo)} runs, {minutes:.1f} min, {left:.0f} to go",
                    flush=True,
                )
    return {job: have[job] for job in wanted}


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
    parser.add_argument("--most", type=int, help="evaluations of a run (default 200 and more)")
    parser.add_argument("--charge-thinking", action="store_true", help="(recordings: always)")
    parser.add_argument("--rows", action="store_true", help="tell ours the rows of a table")
    parser.add_argument(
        "--same-source", action="store_true", help="make runs of ours again that are of other code"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--data", help="folder of tables (default: FARTHING_DATA)")
    asked = parser.parse_args(arguments)
    jobs = [
        job_of(
            problem,
            method,
            seed,
            budget,
            most=asked.most,
            clock=asked.charge_thinking,
            rows=asked.rows,
        )
        for seed in range(asked.seeds)
        for budget in map(float, asked.budgets.split(","))
        for problem in asked.problems.split(",")
        for method in asked.methods.split(",")
    ]
    runs = carry_out(
        jobs,
        asked.suite,
        processes=asked.jobs,
        folder=asked.data,
        same_source=asked.same_source,
    )
    for run in runs.values():
        if run.error:
            print(f"{run.job.method} on {run.job.problem}, seed {run.job.seed}: {run.error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
