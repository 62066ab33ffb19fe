"""Train real models step by step in wall-clock time: pausing and pruning against whole trainings.

    python -m benchmarks curves-realtime --seeds 10                 make missing runs, print tables
    python -m benchmarks curves-realtime --kept --picture           draw the picture of kept runs

    xgboost-pendigits   128 rounds, log loss
    mlp-satimage        40 epochs, log loss

    clock     starts when a method is created and ends with the budget. It includes the overhead of
              the method and its checkpoints, but no imports (each method first runs on a free
              training), and not the preparation of the data
    value     the best log loss of held-out rows after any step; a step that ends after the budget
              does not count
    overhead  the share of the time in which nothing is trained, saved or loaded

One worker trains in the process of the method, on one thread of one core. A run is a line of
`benchmarks/results/curves_realtime.jsonl`: `task, method, seconds, seed, best`, the improvements
(`times`, `values`), `trials, steps, training, checkpoints` (seconds), `overhead` (a share),
`ended, versions, source, machine, load` (processes ready to run at the start: times of a busy
machine are worthless). An interruption loses the active run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.evidence import replay, run_peers
from benchmarks.evidence.realtime import GRACE, ONE_THREAD
from benchmarks.evidence.record_curves import library_versions
from benchmarks.problems.tables import data_folder
from benchmarks.problems.training_curves import CurveTask, Learner, learning
from benchmarks.speed.suggestions import cpu_model
from farthing import Outcome, Space, Steps, minimize
from farthing.policies import ASHA

Json = dict[str, Any]
Start = Callable[[Mapping[str, Any], bytes], Learner]

REPO = Path(__file__).resolve().parents[2]
RESULTS = REPO / "benchmarks" / "results" / "curves_realtime.jsonl"
PICTURE = REPO / "docs" / "figures" / "curves_realtime.png"
SECONDS = 120.0
OURS = "Farthing, steps"
WHOLE = "Farthing, whole trainings"
HALVING = "Farthing, ASHA"
METHODS = (OURS, WHOLE, HALVING, "Optuna TPE + Hyperband", "Optuna TPE + median")
THIRDS = (1, 3, 9, 27, 81)  # the rungs of successive halving with eta = 3
WARM_UP = 6  # trials
TASKS = {
    task.name: task
    for task in (
        CurveTask("xgboost", "pendigits", rows=3000, test_rows=2000),
        CurveTask("mlp", "satimage", "s", rows=4000, test_rows=1500),
    )
}


class Job(NamedTuple):
    """The inputs of a run."""

    task: str
    method: str
    seconds: float
    seed: int


# ── one run ────────────────────────────────────────────────────────────────────────────────────


class Watch:
    """Trains for a method, and notes when each improvement was reached."""

    def __init__(self, start: Start, last: int, seconds: float) -> None:
        self.start, self.last, self.budget = start, last, seconds
        self.times: list[float] = []
        self.values: list[float] = []
        self.trials = self.steps = 0
        self.training = self.checkpoints = 0.0
        self.began = time.perf_counter()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.began

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent."""
        return self.now >= self.budget

    def begin(self, params: Mapping[str, Any]) -> Learner:
        """A new training."""
        self.trials += 1
        before = self.now
        learner = self.start(params, b"")
        self.training += self.now - before
        return learner

    def resume(self, params: Mapping[str, Any], path: Path) -> Learner:
        """A paused training."""
        before = self.now
        learner = self.start(params, path.read_bytes())
        self.checkpoints += self.now - before
        return learner

    def save(self, learner: Learner, path: Path) -> None:
        """Save a training that pauses."""
        before = self.now
        path.write_bytes(learner.saved())
        self.checkpoints += self.now - before

    def step(self, learner: Learner) -> float | None:
        """The value after one more step; None if it diverged, or if the budget is spent."""
        if self.is_over:
            return None
        before = self.now
        value = learner.step()
        after = self.now
        self.training += after - before
        self.steps += 1
        if not np.isfinite(value):
            return None
        if after <= self.budget and (not self.values or value < self.values[-1]):
            self.times.append(round(after, 4))
            self.values.append(float(f"{value:.7g}"))
        return value


def drive(method: str, space: Space, watch: Watch, seed: int, most: int | None = None) -> str:
    """Run a method for the time of the watch, or for `most` trials; returns why it ended."""
    if method.startswith("Optuna"):
        return _optuna(method, space, watch, seed, most)
    budget = f"{watch.budget:g}s" + ("" if most is None else f", {most} trials")
    no_value = Outcome(failed="it diverged, or the time was over")

    def whole(params: Mapping[str, Any]) -> float | Outcome:
        learner, values = watch.begin(params), []
        for _ in range(watch.last):
            value = watch.step(learner)
            if value is None:
                return no_value
            values.append(value)
        return min(values)

    def train(params: Mapping[str, Any], trial: Any) -> Outcome | None:
        file = trial.checkpoint / "model"
        learner = watch.resume(params, file) if trial.step else watch.begin(params)
        for step in range(trial.step + 1, watch.last + 1):
            value = watch.step(learner)
            if value is None:
                return no_value
            decision = trial.report(step, value)
            if decision == "pause":
                watch.save(learner, file)
            if decision != "continue":
                break
        return None

    if method == WHOLE:
        result = minimize(whole, space, budget, seed=seed)
    elif method == HALVING:
        steps = Steps(watch.last, rungs=tuple(rung for rung in THIRDS if rung < watch.last))
        result = minimize(train, space, budget, steps=steps, policy=ASHA(), seed=seed)
    else:
        result = minimize(train, space, budget, steps=watch.last, seed=seed)
    return str(result.stop_reason)


def _optuna(method: str, space: Space, watch: Watch, seed: int, most: int | None) -> str:
    import optuna

    from farthing.integrations.optuna_space import distributions_of

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = (
        optuna.pruners.HyperbandPruner(1, watch.last, 3)
        if "Hyperband" in method
        else optuna.pruners.MedianPruner()
    )
    sampler = optuna.samplers.TPESampler(seed=seed)
    # HyperbandPruner draws the bracket of a trial from the name of the study.
    study = optuna.create_study(sampler=sampler, pruner=pruner, study_name=str(seed))
    distributions, states = distributions_of(space), optuna.trial.TrialState
    while not watch.is_over and (most is None or watch.trials < most):
        trial = study.ask(distributions)
        learner, values, state = watch.begin(trial.params), [], states.COMPLETE
        for step in range(1, watch.last + 1):
            value = watch.step(learner)
            if value is None:
                state = states.FAIL
                break
            values.append(value)
            trial.report(value, step)
            if step < watch.last and trial.should_prune():
                state = states.PRUNED
                break
        study.tell(trial, min(values) if state == states.COMPLETE else None, state)
    return "budget"


def run(job: Job, task: CurveTask, start: Start) -> Json:
    """The line of a job."""
    load = os.getloadavg()[0]
    free = Watch(lambda params, saved: _Free(), task.last, GRACE)
    drive(job.method, task.space, free, seed=99, most=WARM_UP)
    watch = Watch(start, task.last, job.seconds)
    ended = drive(job.method, task.space, watch, job.seed)
    elapsed = watch.now
    return {
        **job._asdict(),
        "best": watch.values[-1] if watch.values else None,
        "times": watch.times,
        "values": watch.values,
        "trials": watch.trials,
        "steps": watch.steps,
        "training": round(watch.training, 4),
        "checkpoints": round(watch.checkpoints, 4),
        "overhead": round(1.0 - (watch.training + watch.checkpoints) / elapsed, 5),
        "ended": ended,
        "versions": {**replay.versions(), **library_versions("optuna", "sklearn", "xgboost")},
        "source": replay.source(),
        "machine": cpu_model(),
        "load": round(load, 2),
    }


class _Free:
    """A training that costs nothing."""

    def step(self) -> float:
        return 0.5

    def saved(self) -> bytes:
        return b"saved"


# ── all of them ────────────────────────────────────────────────────────────────────────────────


def kept() -> dict[Job, Json]:
    """Every kept run; the later one of two equal jobs."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    found = map(json.loads, lines)
    return {Job(*(each[name] for name in Job._fields)): each for each in found}


def in_a_process(job: Job, folder: Path) -> Json:
    """The line of a job that another process on one core runs."""
    core = min(os.sched_getaffinity(0))
    module = "benchmarks.evidence.curves_realtime"
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, job), str(folder)],
        cwd=REPO,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": run_peers.import_path()},
        stdout=subprocess.PIPE,
        text=True,
        timeout=job.seconds + GRACE,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    record: Json = json.loads(done.stdout.splitlines()[-1])
    return record


def duels(runs: Mapping[Job, Json], task: str, other: str, seconds: float) -> tuple[float, int]:
    """(duels that ours wins, number of duels) on the same seeds; a tie counts one half."""
    scores = []
    for job, record in runs.items():
        rival = runs.get(job._replace(method=other))
        if job[:3] == (task, OURS, seconds) and rival is not None:
            mine, theirs = _best(record), _best(rival)
            scores.append(0.5 if mine == theirs else float(mine < theirs))
    return sum(scores), len(scores)


def _best(record: Json) -> float:
    """The best value of a run; infinite without any."""
    return np.inf if record["best"] is None else float(record["best"])


def table_of(runs: Mapping[Job, Json], seconds: float) -> list[str]:
    """For each task and method: the median of the best value, the duels of ours, the overhead."""
    rows = []
    for task in TASKS:
        rows += [
            f"\n{task}, {seconds:g} s\n",
            f"| method | best, median (runs) | {OURS} wins | trials | steps | ms per step "
            "| overhead |",
            "|---|---|---|---|---|---|---|",
        ]
        for method in METHODS:
            found = _of(runs, task, method, seconds)
            if not found:
                continue
            best = np.median([_best(record) for record in found])
            won, count = duels(runs, task, method, seconds)
            trials, steps, overhead = (
                np.median([r[name] for r in found]) for name in ("trials", "steps", "overhead")
            )
            step = np.median([1e3 * r["training"] / r["steps"] for r in found])
            duel = f"{won:g} of {count}" if count and method != OURS else "-"
            rows.append(
                f"| {method} | {best:.4g} ({len(found)}) | {duel} | {trials:g} | {steps:g} "
                f"| {step:.1f} | {overhead:.1%} |"
            )
    return rows


def _of(runs: Mapping[Job, Json], task: str, method: str, seconds: float) -> list[Json]:
    return [record for job, record in runs.items() if job[:3] == (task, method, seconds)]


def best_at(record: Json, times: np.ndarray) -> np.ndarray:
    """The best value of a run at each time; infinite before its first value."""
    values = np.array([np.inf, *record["values"]])
    return np.asarray(values[np.searchsorted(record["times"], times, side="right")])


def draw(runs: Mapping[Job, Json], seconds: float, path: Path) -> None:
    """The median of the best value against time, and the quartiles of ours."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    times = np.linspace(0.0, seconds, 400)
    for axis, task in zip(figure.subplots(1, len(TASKS)), TASKS, strict=True):
        for i, method in enumerate(METHODS):
            found = _of(runs, task, method, seconds)
            if not found:
                continue
            reached = np.array([best_at(record, times) for record in found])
            low, middle, high = np.quantile(reached, [0.25, 0.5, 0.75], axis=0, method="nearest")
            axis.plot(times, middle, color=f"C{i}", label=method)
            if method == OURS:
                shown = np.isfinite(high)
                axis.fill_between(times[shown], low[shown], high[shown], color=f"C{i}", alpha=0.2)
        axis.set(title=task, xlabel="seconds", yscale="log")
    figure.axes[0].set_ylabel("best log loss, median")
    figure.axes[-1].legend(fontsize=8)
    figure.savefig(path, dpi=100)
    print(f"wrote {path.name}")


def main(arguments: Sequence[str]) -> int:
    """Make missing runs and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks curves-realtime", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the budget of each run")
    parser.add_argument("--data", help="folder of the data sets (default: FARTHING_DATA)")
    parser.add_argument("--kept", action="store_true", help="run nothing")
    parser.add_argument("--picture", action="store_true", help="draw the picture of the docs")
    options = parser.parse_args(arguments)
    there = kept()
    jobs = [
        Job(task, method, options.seconds, seed)
        for seed in range(options.seeds)
        for task in TASKS
        for method in METHODS
    ]
    todo = [] if options.kept else [job for job in jobs if job not in there]
    for i, job in enumerate(todo, 1):
        there[job] = in_a_process(job, data_folder(options.data))
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(there[job], separators=(",", ":")) + "\n")
        print(f"{i} of {len(todo)}:", *job, there[job]["best"], flush=True)
    print("\n".join(table_of(there, options.seconds)))
    if options.picture:
        draw(there, options.seconds, PICTURE)
    return 0


def _one(task: str, method: str, seconds: str, seed: str, folder: str) -> None:
    """Print the line of one job."""
    here = TASKS[task]
    start = learning(here.model, here.load(Path(folder)))
    print(json.dumps(run(Job(task, method, float(seconds), int(seed)), here, start)))


if __name__ == "__main__":
    _one(*sys.argv[1:])
