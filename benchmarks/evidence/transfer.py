"""Earlier studies: what they save on another task of the family, and what misleading ones cost.

    python -m benchmarks transfer --seeds 3 --budgets 5,15,60    make missing runs, print the tables
    python -m benchmarks transfer --kept                         print the tables of kept runs
    python -m benchmarks transfer --kept --picture               draw the picture of the docs
    python -m benchmarks transfer --tasks development            only the tasks of development
    python -m benchmarks transfer --only-sources                 make the missing earlier studies
    python -m benchmarks transfer --models                       compare models on held-back rows

A run replays one table with a budget in median costs, rows hidden: a suggestion becomes the nearest
free row. The sources are earlier studies of 30 trials on other tasks of the family, drawn at random
for each task and seed (`transfer_sources.py`). The measure is the share of the table's
configurations that are better than the best value found, in percent. `transfer_measures.py` says
what is printed. No clock is involved.

The tasks of `DEVELOPMENT` were used to choose the constants of the method. The other tasks judge.

A run is a line of `benchmarks/results/transfer.jsonl`: `task, method, budget, seed, better` (the
measure), `best` (each improvement: median costs spent, value), `trials, spent, cpu_ms` (of one
proposal), `trust` (in each source at the end), `versions, source, machine`. Runs of Farthing count
only if their source decides as the present one does. An interruption loses only the active run.
GPSampler needs torch; without it the method is left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks import problems
from benchmarks.evidence import replay
from benchmarks.evidence.curves import keep
from benchmarks.evidence.transfer_measures import PORTFOLIO, Key, draw, table_of
from benchmarks.evidence.transfer_models import compare
from benchmarks.evidence.transfer_sources import (
    chosen,
    group_of,
    make_all,
    play,
    source_of,
    study,
    tasks,
)
from benchmarks.methods import Method, Ours, make
from benchmarks.problems.problem import Problem
from benchmarks.speed.suggestions import cpu_model
from farthing import Optimizer
from farthing.acquisition.belief import believe
from farthing.acquisition.portfolio import ranked
from farthing.budget.ledger import Ledger
from farthing.core.settings import Settings
from farthing.earlier import Source
from farthing.history import History, Trial
from farthing.policies import Gittins

Json = dict[str, Any]
Array = NDArray[np.float64]

RESULTS = Path(__file__).resolve().parents[1] / "results" / "transfer.jsonl"
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "earlier_studies.png"
MOST = 200  # evaluations of a run
STARTING = 5  # configurations of the portfolio alone
PEERS = {"TPE": "optuna-tpe", "GPSampler": "optuna-gp"}
DEVELOPMENT = frozenset(
    {
        *(f"lcbench/{t}" for t in ("APSFailure", "adult", "car", "dionis", "higgs", "jasmine")),
        *(f"yahpo_rbv2_rpart/{t}" for t in ("14", "40975", "41212")),
        *(f"yahpo_rbv2_xgboost/{t}" for t in ("1049_t10", "1489_t10", "40536_t10")),
        *(f"yahpo_rbv2_xgboost/{t}" for t in ("1049_g7", "15_g7", "6_g7")),
        *(f"tabrepo_lightgbm/{i}" for i in (3, 13, 23, 33, 43, 53)),
    }
)
OTHER = {"lcbench": "deepar", "deepar": "lcbench"}  # the family that misleads; else lcbench


# ── methods ────────────────────────────────────────────────────────────────────────────────────


def earlier(task: str, count: int, seed: int, kind: str = "default") -> list[Source]:
    """`count` sources of a task."""
    return [source_of(study(name, kind), name) for name in chosen(task, count, seed)]


def negated(source: Source) -> Source:
    """The best trials are the worst, and the other way round."""
    return replace(source, y=-source.y)


def shuffled(source: Source) -> Source:
    """Values and costs belong to other configurations of the study."""
    rng = np.random.default_rng(crc32(source.name.encode()))
    return replace(source, x=source.x[rng.permutation(len(source.x))])


def unvalued(source: Source) -> Source:
    """Only the costs."""
    return replace(source, y=np.full(len(source.y), np.nan))


def misleading(task: str, count: int, seed: int) -> list[Source]:
    """Sources of another family, whose parameters are taken for those of this one, in order."""
    family = task.partition("/")[0]
    names = tasks()[OTHER.get(family, "lcbench")]
    rng = np.random.default_rng(crc32(f"other family {task} {seed}".encode()))
    space, found = problems.load(task).space, []
    for i in rng.permutation(len(names))[:count]:
        source = source_of(study(names[i], "default"), names[i])
        x = np.full((len(source.x), space.d), np.nan)
        shared = min(space.d, source.x.shape[1])
        x[:, :shared] = source.x[:, :shared]
        found.append(replace(source, x=space.snap(np.where(np.isnan(x), 0.5, x))))
    return found


def mixed(task: str, count: int, seed: int) -> list[Source]:
    """One good source, the others negated; fewer if the family has fewer tasks."""
    first, *others = earlier(task, count, seed)
    return [first, *map(negated, others)]


SOURCES: dict[str, Callable[[str, int], list[Source]]] = {
    "no sources": lambda task, seed: [],
    "3 sources": lambda task, seed: earlier(task, 3, seed),
    "1 source": lambda task, seed: earlier(task, 1, seed),
    "10 sources": lambda task, seed: earlier(task, 10, seed),
    "3 random": lambda task, seed: earlier(task, 3, seed, "random"),
    "costs only": lambda task, seed: [*map(unvalued, earlier(task, 3, seed))],
    "3 negated": lambda task, seed: [*map(negated, earlier(task, 3, seed))],
    "3 shuffled": lambda task, seed: [*map(shuffled, earlier(task, 3, seed))],
    "3 of another family": lambda task, seed: misleading(task, 3, seed),
    "9 negated, 1 good": lambda task, seed: mixed(task, 10, seed),
}
ALL = (*SOURCES, PORTFOLIO, *PEERS)


class WithSources(Ours):
    """The default with sources, Gittins, or the same policy with configurations to start with."""

    def __init__(
        self, problem: Problem, budget: float, seed: int, sources: Sequence[Source], start: Any = ()
    ) -> None:
        settings = Settings.of(
            problem.space, {"cost": budget}, policy=Gittins(), seed=seed, start=start
        )
        self.optimizer = Optimizer.of(replace(settings, learn_from=tuple(sources)))


def portfolio(problem: Problem, sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The first configurations of the initial design, whatever values they have here."""
    space, found = problem.space, []
    for _ in range(STARTING):
        trials = [Trial(i, space.decode(x), x) for i, x in enumerate(found)]
        belief = believe(
            space, History(tuple(trials)), Ledger.of(None), learners={}, sources=tuple(sources)
        )
        X, _ = ranked(belief, np.full(space.d, 0.5))
        if not len(X):
            break
        found.append(X[0])
    return [space.decode(x) for x in found]


def method_of(problem: Problem, method: str, budget: float, seed: int, own: int) -> Method:
    """A new run of a method; `own` is its random seed."""
    if method in PEERS:
        evaluations = round(budget / problem.mean_cost)
        return make(PEERS[method], problem.space, budget=budget, seed=own, evaluations=evaluations)
    if method == PORTFOLIO:
        start = portfolio(problem, earlier(problem.name, 3, seed))
        return WithSources(problem, budget, own, (), start)
    return WithSources(problem, budget, own, SOURCES[method](problem.name, seed))


# ── runs ───────────────────────────────────────────────────────────────────────────────────────


@cache
def values_of(task: str, folder: str | None = None) -> Array:
    """The values of all configurations of a table, sorted."""
    problem = problems.load(task, folder)
    space = problem.space if problem.table is None else problem.table
    points = space.rows if space.rows is not None else space.points(2**20)
    assert points is not None
    values = (problem.at(space.decode(x)).value for x in points)
    return np.sort([np.inf if value is None else value for value in values])


def outcome(problem: Problem, made: Method, limit: float, folder: str | None = None) -> Json:
    """Play a method until the limit: what it found, and what that took."""
    started = time.process_time()
    trials = play(problem, made, limit, MOST)
    cpu = time.process_time() - started
    spent, best, improvements = 0.0, np.inf, []
    for _, (value, cost), _ in trials:
        spent += cost / problem.typical_cost
        if value is not None and value < best:
            best = value
            improvements.append([float(f"{spent:.4g}"), float(f"{value:.7g}")])
    values = values_of(problem.name, folder)
    return {
        "better": float(f"{100 * np.searchsorted(values, best) / len(values):.4g}"),
        "best": improvements,
        "trials": len(trials),
        "spent": float(f"{spent:.4g}"),
        "cpu_ms": float(f"{1000 * cpu / max(len(trials), 1):.3g}"),
    }


def run(task: str, method: str, budget: float, seed: int, folder: str | None = None) -> Json:
    """Make one run."""
    problem = problems.load(task, folder)
    limit, own = budget * problem.typical_cost, crc32(f"{task} {seed}".encode()) >> 1
    made = method_of(problem, method, limit, seed, own)
    found = outcome(problem, made, limit, folder)
    history = made.optimizer.history if isinstance(made, Ours) else ()
    trust = dict(history[-1].notes.get("trust", {})) if history else {}
    return {
        "task": task,
        "method": method,
        "budget": budget,
        "seed": seed,
        **found,
        "trust": {name: round(share, 2) for name, share in trust.items()},
        "versions": replay.versions() | ({"optuna": version("optuna")} if method in PEERS else {}),
        "source": replay.source(),
        "machine": cpu_model(),
    }


def kept() -> tuple[dict[Key, Json], int]:
    """The kept runs, the later one of two equal ones; how many of another source are left out."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    found, same = [json.loads(line) for line in lines], replay.same_decisions("transfer")
    used = [each for each in found if each["method"] in PEERS or each["source"] in same]
    runs = {(each["task"], each["method"], each["budget"], each["seed"]): each for each in used}
    return runs, len(found) - len(used)


def carry_out(jobs: Sequence[Key], folder: str | None) -> dict[Key, Json]:
    """Make runs one after another, keep each when it ends, and print the progress."""
    made: dict[Key, Json] = {}
    started = time.monotonic()
    for job in jobs:
        record = made[job] = run(*job, folder)
        keep(record, RESULTS)
        minutes = (time.monotonic() - started) / 60
        left = minutes * (len(jobs) / len(made) - 1)
        progress = f"{len(made)}/{len(jobs)} ({minutes:.1f} min, about {left:.0f} left)"
        print(progress, *job, f"{record['better']:g} %", flush=True)
    return made


def main(arguments: Sequence[str]) -> int:
    """Make missing runs and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks transfer", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", default="5,15,60", help="in median costs")
    parser.add_argument("--methods", help="names, separated by ';' (default: all)")
    parser.add_argument("--tasks", default="judging", choices=("judging", "development", "all"))
    parser.add_argument("--family", help="only the tasks of this family")
    parser.add_argument("--every", type=int, default=1, help="only each n-th task of a family")
    parser.add_argument("--data", help="folder of tables (default: FARTHING_DATA)")
    parser.add_argument("--kept", action="store_true", help="run nothing")
    parser.add_argument("--only-sources", action="store_true", help="make the earlier studies")
    parser.add_argument("--models", action="store_true", help="compare models on held-back rows")
    parser.add_argument("--picture", action="store_true", help="draw the picture of the docs")
    options = parser.parse_args(arguments)
    methods = options.methods.split(";") if options.methods else list(ALL)
    if unknown := [name for name in methods if name not in ALL]:
        parser.error(f"unknown method {unknown[0]!r}: expected {', '.join(ALL)}")
    if options.models:
        compare(sorted(DEVELOPMENT), lambda task: earlier(task, 3, 0))
        return 0
    runs, left_out = kept()
    if not options.kept:
        if "GPSampler" in methods and find_spec("torch") is None:
            print("left out: GPSampler, because torch is not installed here")
            methods.remove("GPSampler")
        groups = [
            list(filter(partial(_asked, tasks_of=options.tasks), members))[:: options.every]
            for group, members in tasks(options.data).items()
            if group.startswith(options.family or "")
        ]
        # The first task of each group, then the second: an interruption leaves all families.
        names = [name for each in zip_longest(*groups) for name in each if name is not None]
        make_all(dict.fromkeys(n for name in names for n in tasks()[group_of(name)]), options.data)
        if options.only_sources:
            return 0
        jobs = [
            (task, method, budget, seed)
            for seed in range(options.seeds)  # a seed is complete before the next one starts
            for budget in map(float, options.budgets.split(","))
            for task in names
            for method in methods
        ]
        runs |= carry_out([job for job in jobs if job not in runs], options.data)
    judged = {key: each for key, each in runs.items() if _asked(key[0], options.tasks)}
    print("\n".join(table_of(judged, ALL)))
    if left_out:
        print(f"\nleft out: {left_out} runs of another source")
    if options.picture:
        draw(judged, PICTURE)
        print(f"wrote {PICTURE.name}")
    return 0


def _asked(task: str, tasks_of: str) -> bool:
    return tasks_of == "all" or (task in DEVELOPMENT) == (tasks_of == "development")
