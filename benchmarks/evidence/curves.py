"""Learning curves: policies on recorded trainings that can be paused and resumed.

    python -m benchmarks curves --seeds 3 --budgets 5,15,60     make missing runs, print the tables
    python -m benchmarks curves --seeds 3 --budgets 5,15 --kept print the tables of kept runs
    python -m benchmarks curves --tasks development             only the tasks of development
    python -m benchmarks curves --kept --picture                draw the pictures of the docs

A run replays the curves of one table: a policy proposes parts of trainings, and each part pays for
its steps (`curves_simulator.py`). No clock is involved. A budget counts median costs of a whole
training. The measure is the share of the table's configurations that end better than the best value
seen, in percent; 0 is the best of the table. With the value "best", the best checkpoint of any
training counts, with "last" only the end of a whole training. `curves_measures.py` says what is
printed. `curves_syne_tune.py` says how to run Syne Tune, which has an environment of its own.

All methods choose among the rows of the table. Optuna proposes points of the space, which become
the nearest free row. Methods whose names
end with "continuous" train at any point of the space, on a surrogate of the table
(`curve_surrogates.py`); their measure is the share of points of the space. The libraries do not
know the budget, so one run with the largest budget also gives their results with smaller ones.

A run is a line of `benchmarks/results/curves.jsonl`: `task, method, budget, seed, better` (the
measure), `best, anytime` (the measure after each sixtieth of the budget), `trials, parts, spent`,
`elapsed` (the spent cost and the simulated time, in whole trainings), `cpu_ms` (of one proposal),
`versions, source, machine`. Runs of Farthing's policies count only if their source decides as the
present one does. Several processes may append to the file; an interruption loses the active runs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks.evidence import curves_syne_tune, replay
from benchmarks.evidence.curves_measures import (
    DRAWN_BUDGET,
    SUITES,
    Key,
    draw,
    draw_anytime,
    suite_of,
    table_of,
)
from benchmarks.evidence.curves_simulator import (
    METHODS,
    OPTUNA,
    SHARES,
    Account,
    Json,
    is_smooth,
    result_of,
    simulate,
    simulate_optuna,
)
from benchmarks.problems.curve_surrogates import smooth_curves
from benchmarks.problems.curve_tables import curve_names, load_curves
from benchmarks.problems.tables import data_folder
from benchmarks.speed.suggestions import cpu_model

RESULTS = Path(__file__).resolve().parents[1] / "results" / "curves.jsonl"
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "learning_curves.png"
SYNE_TUNE = tuple(curves_syne_tune.SCHEDULERS)
ALL = (*METHODS, *OPTUNA, *SYNE_TUNE)
SHOWN = tuple(name for name in ALL if ", " not in name)  # in the pictures: the main setting
TASKS = {
    "all": "",
    "lcbench": "LCBench",
    "development": "LCBench, development",
    "held-back": "LCBench, held back",
    "taskset": "TaskSet",
    "recorded": "Recorded",
}
RIVALS = frozenset((*OPTUNA, *SYNE_TUNE))  # libraries, which do not know the budget


def kept() -> tuple[dict[Key, Json], int]:
    """The kept runs, the later one of two equal ones; how many old ones are left out."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    found = [json.loads(line) for line in lines]
    used = [each for each in found if "anytime" in each and _counts(each)]
    runs = {(each["task"], each["method"], each["budget"], each["seed"]): each for each in used}
    return runs, len(found) - len(used)


def _counts(record: Json) -> bool:
    method = record["method"]
    return method in RIVALS or record["source"] in replay.same_decisions(f"curves {method}")


def shortened(record: Json, budget: float) -> Json | None:
    """The run of a library with a smaller budget, which is the beginning of this one."""
    after = SHARES * budget / record["budget"]
    if record["method"] not in RIVALS or "anytime" not in record or after != round(after):
        return None
    anytime = record["anytime"][: round(after)]
    return {**record, "budget": budget, "better": anytime[-1], "anytime": anytime}


def with_shortened(runs: Mapping[Key, Json], budgets: Sequence[float]) -> dict[Key, Json]:
    """The runs, and what they give with smaller budgets; a run of its own counts first."""
    found = dict(runs)
    for (task, method, at, seed), record in sorted(runs.items(), key=lambda each: each[0]):
        for budget in (b for b in budgets if b < at):
            if short := shortened(record, budget):
                found.setdefault((task, method, budget, seed), short)
    return found


def run(task: str, method: str, budget: float, seed: int, folder: Path) -> Json:
    """Make one run."""
    table = (smooth_curves if is_smooth(method) else load_curves)(task, folder)
    own = zlib.crc32(f"{task} {seed}".encode())  # the same for all methods
    if method in OPTUNA:
        found = simulate_optuna(table, method, budget, own)
    elif method in SYNE_TUNE:
        account = Account(table, budget * table.median_cost, "best")
        scheduler = curves_syne_tune.scheduler_of(method, table, own)
        found = result_of(account, *curves_syne_tune.drive(scheduler, account))
    else:
        found = simulate(table, METHODS[method], budget, own)
    return {
        "task": task,
        "method": method,
        "budget": budget,
        "seed": seed,
        **found,
        "versions": {**replay.versions(), **_rival_version(method)},
        "source": replay.source(),
        "machine": cpu_model(),
    }


def _library(method: str) -> str | None:
    """The distribution that a method needs besides Farthing."""
    return "optuna" if method in OPTUNA else "syne-tune" if method in SYNE_TUNE else None


def _rival_version(method: str) -> dict[str, str]:
    library = _library(method)
    return {library: version(library)} if library else {}


def _installed(method: str) -> bool:
    library = _library(method)
    return library is None or find_spec(library.replace("-", "_")) is not None


def make(jobs: Sequence[Key], folder: Path, processes: int) -> dict[Key, Json]:
    """Make runs, keep each when it ends, and print the progress."""
    made: dict[Key, Json] = {}
    started = time.monotonic()
    for job, record in _finished(jobs, folder, processes):
        keep(record)
        made[job] = record
        minutes = (time.monotonic() - started) / 60
        left = minutes * (len(jobs) / len(made) - 1)
        progress = f"{len(made)}/{len(jobs)} ({minutes:.1f} min, about {left:.0f} left)"
        print(progress, *job, f"{record['better']:g} %", flush=True)
    return made


def _finished(jobs: Sequence[Key], folder: Path, processes: int) -> Iterator[tuple[Key, Json]]:
    if processes == 1:
        yield from ((job, run(*job, folder)) for job in jobs)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        active = {pool.submit(run, *job, folder): job for job in jobs}
        yield from ((active[each], each.result()) for each in as_completed(active))


def keep(record: Json, path: Path | None = None) -> None:
    """Append a line with one write call, so that several processes may share the file."""
    line = (json.dumps(record) + "\n").encode()
    file = os.open(path or RESULTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def main(arguments: Sequence[str]) -> int:
    """Make missing runs and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks curves", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", default="5,15,60", help="in median costs of a whole training")
    parser.add_argument("--methods", help="names, separated by ';' (default: all)")
    parser.add_argument("--tasks", default="all", choices=TASKS, help="only these tasks")
    parser.add_argument("--data", help="folder of tables (default: FARTHING_DATA)")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--kept", action="store_true", help="run nothing")
    parser.add_argument("--picture", action="store_true", help="draw the picture of the docs")
    options = parser.parse_args(arguments)
    budgets = tuple(map(float, options.budgets.split(",")))
    methods = options.methods.split(";") if options.methods else ALL
    if unknown := [name for name in methods if name not in ALL]:
        parser.error(f"unknown method {unknown[0]!r}: expected {', '.join(ALL)}")
    if not options.kept and (absent := [name for name in methods if not _installed(name)]):
        if options.methods:
            needs = f"{absent[0]} needs {_library(absent[0])}, which is not installed here"
            parser.error(f"{needs}. Syne Tune has its own environment: see curves_syne_tune.py")
        print(f"left out, their library is not installed here: {', '.join(absent)}")
        methods = [name for name in methods if name not in absent]
    runs, left_out = kept()
    there = with_shortened(runs, budgets)
    if not options.kept:
        folder = data_folder(options.data)
        tasks = [t for t in curve_names(folder) if suite_of(t).startswith(TASKS[options.tasks])]
        jobs = [
            (t, m, b, s)
            for s in range(options.seeds)  # a seed is complete before the next one starts
            for b in sorted(budgets)
            for m in methods
            if b == max(budgets) or m not in RIVALS
            for t in tasks
        ]
        there |= make([job for job in jobs if job not in there], folder, options.jobs)
        there = with_shortened(there, budgets)
    print("\n".join(table_of(there, budgets, ALL)))
    if left_out:
        print(f"\nleft out: {left_out} runs of another source or without `anytime`")
    if options.picture:
        draw(there, ALL, PICTURE)
        print(f"wrote {PICTURE.name}")
        for suite in SUITES:
            name = suite.lower().replace(", ", "_").replace(" ", "_")
            path = PICTURE.with_name(f"learning_curves_{name}.png")
            if draw_anytime(there, suite, DRAWN_BUDGET, SHOWN, path):
                print(f"wrote {path.name}")
    return 0
