"""A dozen evaluations without earlier studies: which start, transform, rate and prior help?

    python -m benchmarks priors --seeds 10 --budgets 5,15     make missing runs, print the tables
    python -m benchmarks priors --family lcbench              on all tasks of one family
    python -m benchmarks priors --kept                        print the tables of kept runs
    python -m benchmarks priors --models                      fit the priors, predict held-back rows

A method is the default with some factors, or `prototype`, which has the first four, without one.

    start        four uniform configurations instead of the initial design
    transform    log of the values if all are positive, and bad ones clipped at
                 median + 2 max(Q3 - median, (median - D1)/2) instead of Q3 + 1.5 IQR
    rate         the exchange rate starts at a tenth of sd(y) per median cost of the table,
                 instead of per mean cost of the trials
    rows         the rows of a sampled table are known (elsewhere nothing changes)
    additive     the kernel of objective and cost has an additive part (priors_kernel.py)
    hyperpriors  the priors of hyperparameters are fitted on the other families (priors_fit.py)

Runs replay tables, rows hidden otherwise: a suggestion becomes the nearest free row. The measure is
the share of the table's configurations that are better than the best value found. A duel is won by
the smaller share on the same task and seed; intervals draw families, then tasks, then seeds
(`artefacts/duels.py`). No clock is involved.

A run is a line of `benchmarks/results/priors.jsonl`: `task, method, budget, seed, better, best,
trials, spent, cpu_ms` as in transfer.py, and `source`. Runs count only if their source decides as
the present one does. An interruption loses only the active run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks import problems
from benchmarks.evidence import replay
from benchmarks.evidence.artefacts import duels
from benchmarks.evidence.artefacts.artefact import markdown
from benchmarks.evidence.curves import keep
from benchmarks.evidence.priors_fit import fit_all, pair, predictions
from benchmarks.evidence.priors_kernel import using
from benchmarks.evidence.transfer import outcome, values_of
from benchmarks.evidence.transfer_sources import FAMILIES, tasks
from benchmarks.methods import Ours, Params
from benchmarks.problems import tables
from benchmarks.problems.problem import Evaluation, Problem
from benchmarks.without import Without
from farthing import Optimizer
from farthing.acquisition.belief import Belief
from farthing.models import gp
from farthing.policies import Gittins, Random, gittins

Json = dict[str, Any]
Array = NDArray[np.float64]
Key = tuple[str, str, float, int]  # task, method, budget, seed

TABLES = 2  # of each family
RESULTS = Path(__file__).resolve().parents[1] / "results" / "priors.jsonl"
DEFAULT, PROTOTYPE = "default", "prototype"
FACTORS = ("start", "transform", "rate", "rows")
PREDICTED = ("rows", "method", "log density", "rank", "log density of ln c", "rank of costs")


def _arms() -> dict[str, frozenset[str]]:
    """The factors of each method."""
    found = {DEFAULT: frozenset[str](), **{f"+ {f}": frozenset({f}) for f in FACTORS}}
    found[PROTOTYPE] = frozenset(FACTORS)
    found |= {f"{PROTOTYPE} - {f}": frozenset(FACTORS) - {f} for f in FACTORS}
    return found | {"random": frozenset({"random"})}


MODELS = {
    "+ additive": frozenset({"additive"}),
    "+ hyperpriors": frozenset({"hyperpriors"}),
    "+ additive, hyperpriors": frozenset({"additive", "hyperpriors"}),
}
ARMS = _arms() | MODELS


# ── methods ────────────────────────────────────────────────────────────────────────────────────


def clip_tail(y: Array) -> Array:
    """y clipped at median + 2 max(Q3 - median, (median - D1)/2)."""
    tenth, middle, upper = np.quantile(y, [0.1, 0.5, 0.75])
    return np.asarray(np.minimum(y, middle + 2.0 * max(upper - middle, (middle - tenth) / 2.0)))


class Variant(Ours):
    """The default with some factors."""

    def __init__(self, problem: Problem, factors: frozenset[str], budget: float, seed: int) -> None:
        policy = Without("start") if "start" in factors else Gittins()
        rows_known = "rows" in factors and problem.table is not None
        self.optimizer = Optimizer(
            problem.table if rows_known and problem.table else problem.space,
            budget={"cost": budget},
            policy=Random() if "random" in factors else policy,
            seed=seed,
        )
        self.log = "transform" in factors and float(values_of(problem.name)[0]) > 0.0

    def tell(self, params: Params, evaluation: Evaluation) -> None:
        """Report the value, or its logarithm."""
        value, cost = evaluation
        if self.log and value is not None:
            evaluation = Evaluation(float(np.log(value)), cost)
        Ours.tell(self, params, evaluation)


def patched(factors: frozenset[str], problem: Problem) -> ExitStack:
    """The changes of the library while a method runs."""
    stack = ExitStack()
    if "transform" in factors:
        stack.enter_context(patch.object(gp, "clip_outliers", clip_tail))
    if "rate" in factors:

        def first_worth(belief: Belief) -> float:
            return gittins.FIRST_WORTH * belief.scale / problem.typical_cost

        stack.enter_context(patch.object(gittins, "_first_worth", first_worth))
    if factors & {"additive", "hyperpriors"}:
        stack.enter_context(using(*pair(factors, problem.family)))
    return stack


# ── runs ───────────────────────────────────────────────────────────────────────────────────────


def run(task: str, method: str, budget: float, seed: int, folder: str | None = None) -> Json:
    """Make one run."""
    problem, factors = problems.load(task, folder), ARMS[method]
    limit, own = budget * problem.typical_cost, crc32(f"{task} {seed}".encode()) >> 1
    with patched(factors, problem):
        found = outcome(problem, Variant(problem, factors, limit, own), limit, folder)
    key = {"task": task, "method": method, "budget": budget, "seed": seed}
    return {**key, **found, "source": replay.source()}


def kept() -> dict[Key, Json]:
    """The kept runs of the present source, the later one of two equal ones."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    same = replay.same_decisions("priors")
    runs = [each for each in map(json.loads, lines) if each["source"] in same]
    return {(each["task"], each["method"], each["budget"], each["seed"]): each for each in runs}


def carry_out(jobs: Sequence[Key], folder: str | None) -> None:
    """Make runs one after another, keep each when it ends, and print the progress."""
    started = time.monotonic()
    for done, job in enumerate(jobs, 1):
        keep(run(*job, folder), RESULTS)
        minutes = (time.monotonic() - started) / 60
        if done % 20 == 0 or done == len(jobs):
            left = minutes * (len(jobs) / done - 1)
            print(f"{done}/{len(jobs)} runs, {minutes:.1f} min, {left:.0f} left", flush=True)


@cache
def _is_sampled(task: str, folder: str | None) -> bool:
    return problems.load(task, folder).table is not None


def jobs_of(
    names: Sequence[str],
    methods: Sequence[str],
    budgets: Sequence[float],
    seeds: int,
    folder: str | None,
) -> list[Key]:
    """Seed by seed, so that an interruption leaves all families and methods."""
    return [
        (task, method, budget, seed)
        for seed in range(seeds)
        for budget in budgets
        for task in names
        for method in methods
        if "rows" not in method or _is_sampled(task, folder)
    ]


# ── tables ─────────────────────────────────────────────────────────────────────────────────────


def finals_of(runs: Mapping[Key, Json]) -> Json:
    """As `artefacts/duels.py` reads them, with the share of better configurations as the value."""
    found: Json = {}
    for (task, method, budget, seed), record in runs.items():
        by = found.setdefault(f"{budget:g}", {}).setdefault(task, {}).setdefault(method, {})
        by[str(seed)] = [record["better"]]
    return found


def table_of(runs: Mapping[Key, Json]) -> Iterator[str]:
    """The lines that are printed."""
    finals = finals_of(runs)
    for budget in sorted(finals, key=float):
        rows = []
        for method in ARMS:
            by_family: dict[str, list[float]] = {}
            for task, by in finals[budget].items():
                shares = [share for [share] in by.get(method, {}).values()]
                by_family.setdefault(task.partition("/")[0], []).extend(shares)
            shares = [share for each in by_family.values() for share in each]
            if not shares:
                continue
            base = PROTOTYPE if method.startswith(f"{PROTOTYPE} ") else DEFAULT
            met = duels.duel(finals, method, base, [budget]) if method != base else None
            medians = np.mean([np.median(each) for each in by_family.values() if each])
            lcbench = f"{np.median(by_family['lcbench']):.2g}" if by_family.get("lcbench") else "-"
            cells = [f"{medians:.2g}", lcbench]
            duel = [base, met.text(), met.duels] if met else ["", "", ""]
            rows.append([method, *cells, *duel])
        header = ("method", "better, mean of the families' medians, %", "lcbench")
        yield f"\n## {budget} median costs\n"
        yield markdown((*header, "against", "duels won [95 %]", "duels"), rows)


def main(arguments: Sequence[str]) -> int:
    """Make missing runs and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks priors", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budgets", default="5,15", help="in median costs")
    parser.add_argument("--methods", help="names, separated by ';' (default: all)")
    parser.add_argument("--family", help="all tasks of this family, not two of each")
    parser.add_argument("--data", help="folder of tables (default: FARTHING_DATA)")
    parser.add_argument("--kept", action="store_true", help="run nothing")
    parser.add_argument("--models", action="store_true", help="only fit and compare the models")
    options = parser.parse_args(arguments)
    methods = options.methods.split(";") if options.methods else list(ARMS)
    if unknown := [name for name in methods if name not in ARMS]:
        parser.error(f"unknown method {unknown[0]!r}: expected {', '.join(ARMS)}")
    if options.models:
        fit_all()
        print(markdown(PREDICTED, predictions({DEFAULT: frozenset[str]()} | MODELS)))
        return 0
    runs = kept()
    if not options.kept:
        budgets = [float(budget) for budget in options.budgets.split(",")]
        names = tables.names(most=TABLES)
        if options.family:
            names = [name for each in tasks(options.data).values() for name in each]
            names = [name for name in names if name.startswith(f"{options.family}/")]
            if not names:
                parser.error(f"no family {options.family!r}: expected {', '.join(FAMILIES)}")
        jobs = jobs_of(names, methods, budgets, options.seeds, options.data)
        carry_out([job for job in jobs if job not in runs], options.data)
        runs = kept()
    print("\n".join(table_of(runs)))
    return 0
