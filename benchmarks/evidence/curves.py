"""Learning curves: policies on recorded trainings that can be paused and resumed.

    python -m benchmarks curves --seeds 3 --budgets 5,15,60     make missing runs, print the tables
    python -m benchmarks curves --seeds 3 --budgets 5,15 --kept print the tables of kept runs
    python -m benchmarks curves --tasks development             only the tasks of development
    python -m benchmarks curves --kept --picture                draw the picture of the docs

A run replays the curves of one table: a policy proposes parts of trainings, and each part pays for
its steps. No clock is involved. A budget counts median costs of a whole training. The measure is
the share of the table's configurations that end better than the best value seen, in percent; 0 is
the best of the table. With the value "best", the best checkpoint of any training counts, with
"last" only the end of a whole training. A duel compares two methods on the same task and seed; a
tie counts one half, and the intervals come from drawing tasks.

All methods choose among the rows of the table. Optuna proposes points of the space, which become
the nearest free row. The libraries do not know the budget, so one run with the largest budget also
gives their results with smaller ones.

A run is a line of `benchmarks/results/curves.jsonl`: `task, method, budget, seed, better` (the
measure), `best, anytime` (the measure after each sixtieth of the budget), `trials, parts, spent,
cpu_ms` (of one proposal), `versions, source, machine`. Several processes may append to the file; an
interruption loses the active runs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence import curves_syne_tune, replay
from benchmarks.problems.curve_tables import DEVELOPMENT, CurveTable, curve_names, load_curves
from benchmarks.problems.tables import data_folder
from benchmarks.speed.suggestions import cpu_model
from farthing import Budget, History, Ledger, Steps, Trial
from farthing.acquisition.belief import believe
from farthing.acquisition.initial_design import propose
from farthing.acquisition.protocols import Policy, Proposal
from farthing.acquisition.trainings import is_staged
from farthing.cost import LogGP
from farthing.history import CurvePoint, Run
from farthing.policies import (
    ASHA,
    EIPerRemainingCost,
    Gittins,
    Hyperband,
    OneEpoch,
    StagedGittins,
)

Array = NDArray[np.float64]
Json = dict[str, Any]
RESULTS = Path(__file__).resolve().parents[1] / "results" / "curves.jsonl"
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "learning_curves.png"
DRAWN_BUDGET = 15.0
LEAST_DRAWN = 0.02  # percent; less, also 0, is drawn here
OURS = "staged Gittins"
BUDGETS = (5.0, 15.0, 60.0)
THIRDS = (1, 3, 9, 27)  # the rungs of successive halving with eta = 3
SHARES = 60  # of the budget, after each of which the measure is kept
DRAWS = 2000  # of tasks, for an interval


@dataclass(frozen=True)
class Method:
    """A policy and the steps that it is told about."""

    policy: Callable[[], Policy]
    thirds: bool = False  # whether the rungs are THIRDS
    whole: bool = False  # whether trainings are evaluations as a whole
    resume: bool = True
    value: str = "best"

    def steps(self, last: int) -> Steps:
        """The steps of a training of that length."""
        rungs = (*(r for r in THIRDS if r < last), last) if self.thirds else None
        return Steps(
            last,
            value=self.value,  # type: ignore[arg-type]
            resume="checkpoint" if self.resume else "never",
            rungs=(last,) if self.whole else rungs,
        )


METHODS: dict[str, Method] = {
    OURS: Method(StagedGittins),
    "staged Gittins, no resume": Method(StagedGittins, resume=False),
    "staged Gittins, last value": Method(StagedGittins, value="last"),
    "EI per remaining cost": Method(EIPerRemainingCost),
    "ASHA": Method(ASHA, thirds=True),
    "ASHA, last value": Method(ASHA, thirds=True, value="last"),
    "Hyperband": Method(Hyperband, thirds=True),
    "one epoch": Method(OneEpoch),
    "whole trainings (Gittins)": Method(Gittins, whole=True),
}
OPTUNA = ("Optuna TPE + Hyperband", "Optuna TPE + median")
SYNE_TUNE = tuple(curves_syne_tune.SCHEDULERS)  # in an environment of its own: see that file
ALL = (*METHODS, *OPTUNA, *SYNE_TUNE)
RIVALS = frozenset((*OPTUNA, *SYNE_TUNE))  # libraries, which do not know the budget


# ── one run ────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Account:
    """What a run has paid and seen."""

    table: CurveTable
    budget: float
    value: str
    spent: float = 0.0
    best: float = np.inf
    gains: list[tuple[float, float]] = field(default_factory=list)  # (spent, best) when it changed

    @property
    def left(self) -> float:
        return self.budget - self.spent

    def pay(self, row: int, step: int) -> float | None:
        """Train a row for one step: its value, NaN if it diverged, None if it is unaffordable."""
        rate = float(self.table.rate[row])
        if rate > self.left * (1 + 1e-9):
            self.spent = self.budget
            return None
        self.spent += rate
        value = float(self.table.curves[row, step - 1])
        if (self.value == "best" or step == self.table.last) and value < self.best:
            self.best = value
            self.gains.append((self.spent, value))
        return value


def simulate(table: CurveTable, method: Method, budget: float, seed: int) -> Json:
    """One run of a policy of Farthing, one training at a time."""
    policy, steps = method.policy(), method.steps(table.last)
    account = Account(table, budget * table.median_cost, method.value)
    ledger, history = Ledger.of(Budget(account.budget)), History()
    turn, seconds = 0, 0.0
    while account.left > 1e-9 * account.budget:
        started = time.process_time()
        belief = believe(
            table.space,
            history,
            ledger,
            learners={"cost": LogGP()},
            seed=seed,
            steps=steps,
            curves="steps" in policy.needs and "model" in policy.needs,
            model="model" in policy.needs and not is_staged(steps),
        )
        proposal = propose(policy, belief, np.random.default_rng([seed, turn]))
        seconds += time.process_time() - started
        turn += 1
        if proposal.x is None:
            break
        before = account.spent
        notes = {**belief.notes(), **proposal.notes}
        history = _part(account, steps, history, proposal, notes, turn - 1)
        ledger = ledger.charge(None, {"cost": account.spent - before})
    return _result(account, len(history), turn, seconds)


def _part(
    account: Account,
    steps: Steps,
    history: History,
    proposal: Proposal,
    notes: Mapping[str, Any],
    turn: int,
) -> History:
    """The history after the proposed part of a training."""
    for waiting in [t for t in history.having("paused") if t.run.waits]:
        history = history.replacing(replace(waiting, run=replace(waiting.run, waits=False)))
    if proposal.resume is None:
        assert proposal.x is not None
        history = history.adding(Trial(len(history), {}, proposal.x))
    trial = history[len(history) - 1 if proposal.resume is None else proposal.resume]
    row, until = account.table.row_of(trial.x), proposal.until or steps.last
    paid, before = trial.cost.get("cost", 0.0), account.spent
    curve, state = list(trial.curve), "done" if until == steps.last else "paused"
    for step in range(trial.step + 1, until + 1):
        value = account.pay(row, step)
        if value is None or np.isnan(value):
            state = "killed" if value is None else "failed"
            break
        curve.append(CurvePoint(step, value, {"cost": paid + account.spent - before}))
    points = tuple(curve)
    done = replace(
        trial,
        state=state,  # type: ignore[arg-type]
        cost={"cost": paid + account.spent - before},
        curve=points,
        value=steps.value_of(points, 1.0) if state == "done" else None,
        notes=notes,
        run=Run(turn=turn, waits=state == "paused"),
    )
    return history.replacing(done)


def _result(account: Account, trials: int, parts: int, seconds: float) -> Json:
    ends, unit = account.table.ends(account.value), account.table.median_cost
    seen = np.full(SHARES, np.inf)
    for spent, best in account.gains:
        seen[max(int(np.ceil(SHARES * spent / account.budget - 1e-9)) - 1, 0) :] = best
    return {
        "better": round(100.0 * float(np.mean(ends < account.best)), 4),
        "best": account.best,
        "anytime": [round(100.0 * float(np.mean(ends < best)), 4) for best in seen],
        "trials": trials,
        "parts": parts,
        "spent": round(account.spent / unit, 4),
        "cpu_ms": round(1e3 * seconds / max(parts, 1), 2),
    }


def simulate_optuna(table: CurveTable, name: str, budget: float, seed: int) -> Json:
    """One run of Optuna's TPE with a pruner; the point becomes the nearest free row."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    from farthing.integrations.optuna_space import distributions_of

    account = Account(table, budget * table.median_cost, "best")
    pruner = (
        optuna.pruners.HyperbandPruner(1, table.last, 3)
        if "Hyperband" in name
        else optuna.pruners.MedianPruner()
    )
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed), pruner=pruner)
    rows = table.space.rows
    assert rows is not None
    free = np.ones(len(rows), dtype=np.bool_)
    space = type(table.space)(dict(table.space.parameters))
    distributions = distributions_of(space)
    seconds, trials = 0.0, 0
    while account.left > 1e-9 * account.budget and free.any():
        started = time.process_time()
        trial = study.ask(distributions)
        seconds += time.process_time() - started
        trials += 1
        gap = ((rows - space.encode(trial.params)) ** 2).sum(axis=1)
        row = int(np.argmin(np.where(free, gap, np.inf)))
        free[row] = False
        value, state = None, optuna.trial.TrialState.COMPLETE
        for step in range(1, table.last + 1):
            value = account.pay(row, step)
            if value is None or np.isnan(value):
                state = optuna.trial.TrialState.FAIL
                break
            trial.report(value, step)
            if trial.should_prune():
                state = optuna.trial.TrialState.PRUNED
                break
        study.tell(trial, value if state == optuna.trial.TrialState.COMPLETE else None, state)
    return _result(account, trials, trials, seconds)


# ── all of them ────────────────────────────────────────────────────────────────────────────────

Key = tuple[str, str, float, int]


def kept() -> dict[Key, Json]:
    """Every kept run; the later one of two equal ones."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    found = map(json.loads, lines)
    return {(each["task"], each["method"], each["budget"], each["seed"]): each for each in found}


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
    table = load_curves(task, folder)
    own = zlib.crc32(f"{task} {seed}".encode())  # the same for all methods
    if method in OPTUNA:
        found = simulate_optuna(table, method, budget, own)
    elif method in SYNE_TUNE:
        account = Account(table, budget * table.median_cost, "best")
        scheduler = curves_syne_tune.scheduler_of(method, table, own)
        found = _result(account, *curves_syne_tune.drive(scheduler, account))
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


def keep(record: Json) -> None:
    """Append a line with one write call, so that several processes may share the file."""
    line = (json.dumps(record) + "\n").encode()
    file = os.open(RESULTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def suite_of(task: str) -> str:
    """The part of the table of results that a task belongs to."""
    suite, _, name = task.partition("/")
    if suite == "lcbench":
        return "LCBench, development" if name in DEVELOPMENT else "LCBench, held back"
    return "TaskSet"


def duels(runs: Mapping[Key, Json], one: str, other: str, suite: str, budget: float) -> Json:
    """The share of duels that the first method wins, with a 95 % interval from drawing tasks."""
    scores: dict[str, list[float]] = {}
    for (task, method, at, seed), record in runs.items():
        rival = runs.get((task, other, at, seed))
        if method == one and at == budget and suite_of(task) == suite and rival is not None:
            gap = rival["better"] - record["better"]
            scores.setdefault(task, []).append(0.5 + 0.5 * np.sign(gap))
    if not scores:
        return {"duels": 0}
    means = np.array([np.mean(each) for each in scores.values()])
    rng = np.random.default_rng(0)
    drawn = means[rng.integers(len(means), size=(DRAWS, len(means)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {
        "duels": sum(map(len, scores.values())),
        "won": float(means.mean()),
        "low": float(low),
        "high": float(high),
    }


def table_of(runs: Mapping[Key, Json], budgets: Sequence[float]) -> list[str]:
    """For each suite: median / mean of the measure, and the duels of our default against each."""
    rows = []
    for suite in ("LCBench, development", "LCBench, held back", "TaskSet"):
        mine = {key: each for key, each in runs.items() if suite_of(key[0]) == suite}
        if not mine:
            continue
        heads = " | ".join(f"{b:g}: median / mean (runs) | {OURS} wins" for b in budgets)
        rows += [f"\n{suite}\n", f"| method | {heads} |", "|---" * (1 + 2 * len(budgets)) + "|"]
        for method in ALL:
            cells = []
            for budget in budgets:
                better = [e["better"] for k, e in mine.items() if k[1:3] == (method, budget)]
                rival = OURS if "last" not in method else "staged Gittins, last value"
                duel = duels(runs, rival, method, suite, budget)
                cells.append(
                    f"{np.median(better):.2f} / {np.mean(better):.2f} ({len(better)})"
                    if better
                    else "-"
                )
                cells.append(
                    f"{duel['won']:.0%} [{duel['low']:.0%}, {duel['high']:.0%}] of {duel['duels']}"
                    if duel["duels"] and method != rival
                    else "-"
                )
            if any(cell != "-" for cell in cells):
                rows.append(f"| {method} | {' | '.join(cells)} |")
    return rows


def draw(runs: Mapping[Key, Json], path: Path) -> None:
    """A dot per run and the median of each method, with a budget of 15 whole trainings."""
    from matplotlib.figure import Figure

    suites = ("LCBench, held back", "TaskSet")
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, len(suites), sharey=True)
    names = [m for m in ALL if (m, DRAWN_BUDGET) in {key[1:3] for key in runs}]
    for axis, suite in zip(axes, suites, strict=True):
        for row, method in enumerate(names):
            found = [
                max(record["better"], LEAST_DRAWN)
                for (task, name, budget, _), record in runs.items()
                if (name, budget) == (method, DRAWN_BUDGET) and suite_of(task) == suite
            ]
            colour = "C0" if method == OURS else "0.5"
            axis.plot(found, [row] * len(found), "o", color=colour, alpha=0.5, markersize=4)
            axis.plot(np.median(found), row, "|", color=colour, markersize=18, markeredgewidth=2.5)
        count = len({key[0] for key in runs if suite_of(key[0]) == suite})
        axis.set(xscale="log", title=f"{suite} ({count} tasks)", yticks=range(len(names)))
        axis.set_yticklabels(names)
        axis.set_xlabel("configurations that are better, in percent")
        axis.grid(axis="x", alpha=0.3)
    axes[0].invert_yaxis()
    figure.savefig(path, dpi=100)
    print(f"wrote {path.name}")


def main(arguments: Sequence[str]) -> int:
    """Make missing runs and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks curves", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", default="5,15,60", help="in median costs of a whole training")
    parser.add_argument("--methods", help="names, separated by ';' (default: all)")
    parser.add_argument("--tasks", default="", help="development, held-back, lcbench or taskset")
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
    there = with_shortened(kept(), budgets)
    if not options.kept:
        folder = data_folder(options.data)
        chosen = {
            "": lambda task: True,
            "development": lambda task: suite_of(task) == "LCBench, development",
            "held-back": lambda task: suite_of(task) == "LCBench, held back",
            "lcbench": lambda task: task.startswith("lcbench"),
            "taskset": lambda task: task.startswith("taskset"),
        }[options.tasks]
        tasks = [task for task in curve_names(folder) if chosen(task)]
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
    print("\n".join(table_of(there, budgets)))
    if options.picture:
        draw(there, PICTURE)
    return 0
