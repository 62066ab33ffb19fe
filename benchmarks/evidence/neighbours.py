"""An Optuna study and a scikit-learn search on real models, before and after using farthing.

    python -m benchmarks.evidence.neighbours --seeds 10          make missing runs, print a table
    python -m benchmarks.evidence.neighbours --seeds 10 --kept   print a table of kept runs

    optuna    the same objective and the same seconds: TPE with its defaults, and CostAwareSampler
    sklearn   RandomizedSearchCV(n_iter=30), then BudgetSearchCV with as many seconds as that took

Everything runs in wall-clock seconds on one core, overhead included. A value that arrives after the
budget does not count. Nothing else may run on the machine. A run is a line of
`benchmarks/results/neighbours.jsonl`: `experiment, method, seed, budget`, and of each evaluation
`ends` (seconds since the start) and `values` (lower is better: an error); `test`, the error of the
final model on unused test rows (scikit-learn only); `versions`, `source`, `machine`,
`load`. An interruption loses the active run.

The table has the median best value before, at the end of its budget; how many of the runs after
reach that value, and the median share of the budget that they need for it; and the number of seeds
in which the final value after is better or worse.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")  # before numpy is loaded

import numpy as np

from benchmarks.evidence import replay
from benchmarks.evidence.realtime import MODELS, Clock, _versions, digits
from benchmarks.speed.suggestions import cpu_model

Json = dict[str, Any]
RESULTS = Path(__file__).resolve().parents[1] / "results" / "neighbours.jsonl"
BUDGET = 60.0  # seconds of an Optuna study
N_ITER = 30  # candidates of RandomizedSearchCV
FIT_FOLDS = 5


# ── Optuna ─────────────────────────────────────────────────────────────────────────────────────


def optuna_run(model: str, method: str, seed: int, budget: float) -> Json:
    import optuna

    from farthing.integrations.optuna import CostAwareSampler
    from farthing.integrations.optuna_space import distributions_of

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = distributions_of(MODELS[model].space)
    clock = Clock(MODELS[model].load())

    def objective(trial: Any) -> float:
        params = {name: trial._suggest(name, each) for name, each in distributions.items()}
        value = clock.evaluate(params).value
        if value is None:
            raise ValueError("it failed")
        return float(value)

    if method == "before":
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        study.optimize(objective, timeout=budget, catch=(ValueError,))
    else:
        sampler = CostAwareSampler(budget=f"{budget:g}s", seed=seed)
        study = optuna.create_study(sampler=sampler)
        study.optimize(objective, catch=(ValueError,))
    return {"ends": clock.ends, "values": clock.values}


# ── scikit-learn ───────────────────────────────────────────────────────────────────────────────


def _svm() -> tuple[Any, Json]:
    from scipy.stats import loguniform, uniform
    from sklearn.svm import SVC

    space = {
        "C": loguniform(1e-3, 1e3),
        "gamma": loguniform(1e-5, 10.0),
        "kernel": ["rbf", "poly", "sigmoid"],
        "coef0": uniform(0.0, 2.0),
    }
    return SVC(cache_size=100, max_iter=200_000), space


def _forest() -> tuple[Any, Json]:
    from scipy.stats import loguniform, randint, uniform
    from sklearn.ensemble import RandomForestClassifier

    space = {
        "n_estimators": [5, 10, 20, 40, 80, 160],
        "max_depth": randint(1, 41),
        "min_samples_leaf": randint(1, 51),
        "max_features": uniform(0.05, 0.95),
        "ccp_alpha": loguniform(1e-6, 1e-1),
    }
    return RandomForestClassifier(random_state=0), space


ESTIMATORS: dict[str, Callable[[], tuple[Any, Json]]] = {"svm": _svm, "forest": _forest}


def sklearn_run(name: str, method: str, seed: int, budget: float) -> Json:
    from sklearn.model_selection import RandomizedSearchCV

    from farthing.integrations.sklearn import BudgetSearchCV

    estimator, space = ESTIMATORS[name]()
    data = digits()
    if method == "before":
        search = RandomizedSearchCV(
            estimator, space, n_iter=N_ITER, cv=FIT_FOLDS, random_state=seed, refit=True
        )
        search.fit(data.X, data.y)
        results = search.cv_results_
        took = FIT_FOLDS * (results["mean_fit_time"] + results["mean_score_time"])
        ends, values = np.cumsum(took).tolist(), (1 - results["mean_test_score"]).tolist()
    else:
        search = BudgetSearchCV(
            estimator, space, f"{budget:g}s", cv=FIT_FOLDS, random_state=seed
        ).fit(data.X, data.y)
        trials = [t for t in search.result_.history if not t.is_external]
        first = trials[0].run.asked_at - trials[0].run.suggest_s
        ends = [float(trial.run.told_at or math.inf) - first for trial in trials]
        values = [1 - trial.value if trial.state == "done" else None for trial in trials]
    return {"ends": ends, "values": values, "test": 1 - search.score(data.X_test, data.y_test)}


# ── all of them ────────────────────────────────────────────────────────────────────────────────

EXPERIMENTS: dict[str, Callable[[str, int, float], Json]] = {
    "optuna svm-digits": lambda *job: optuna_run("svm-digits", *job),
    "optuna mlp-digits": lambda *job: optuna_run("mlp-digits", *job),
    "sklearn svm": lambda *job: sklearn_run("svm", *job),
    "sklearn forest": lambda *job: sklearn_run("forest", *job),
}


def kept() -> dict[tuple[str, str, int], Json]:
    """Every kept run; the later one of two equal ones."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    records = map(json.loads, lines)
    return {(each["experiment"], each["method"], each["seed"]): each for each in records}


def run(experiment: str, method: str, seed: int, budget: float) -> Json:
    """Make one run and keep it."""
    load, started = os.getloadavg()[0], time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that has not converged counts as well
        found = EXPERIMENTS[experiment](method, seed, budget)
    ends = [round(end, 3) for end in found["ends"]]
    if experiment.startswith("sklearn") and method == "before":
        budget = ends[-1]
    record = {
        "experiment": experiment,
        "method": method,
        "seed": seed,
        "budget": budget,
        "ends": ends,
        "values": found["values"],
        "test": found.get("test"),
        "seconds": round(time.perf_counter() - started, 3),
        "versions": _versions(),
        "source": replay.source(),
        "machine": cpu_model(),
        "load": round(load, 2),
    }
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
    return record


def best_by(record: Json, until: float) -> float:
    """The best value up to a time."""
    there = zip(record["ends"], record["values"], strict=True)
    return min((v for end, v in there if end <= until and v is not None), default=math.inf)


def time_to(record: Json, target: float) -> float:
    """The time of the first value that is at least as good."""
    there = zip(record["ends"], record["values"], strict=True)
    return next((end for end, v in there if v is not None and v <= target), math.inf)


def table(runs: Mapping[tuple[str, str, int], Json]) -> list[str]:
    """A row for each experiment."""
    rows = [
        "| experiment | seeds | before | after | reach what was before | with | better / worse |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in EXPERIMENTS:
        seeds = sorted(s for e, m, s in runs if e == name and m == "after")
        seeds = [seed for seed in seeds if (name, "before", seed) in runs]
        if not seeds:
            continue
        pairs = [(runs[name, "before", seed], runs[name, "after", seed]) for seed in seeds]
        before = np.array([best_by(b, b["budget"]) for b, _ in pairs])
        after = np.array([best_by(a, b["budget"]) for b, a in pairs])
        target = float(np.median(before))
        shares = [time_to(a, target) / b["budget"] for b, a in pairs]
        reached = sum(share <= 1 for share in shares)
        share = float(np.median(shares))
        rows.append(
            f"| {name} | {len(seeds)} | {np.median(before):.4f} | {np.median(after):.4f} | "
            f"{reached} of {len(seeds)} | {f'{share:.0%}' if share <= 1 else 'more'} | "
            f"{int(np.sum(after < before))} / {int(np.sum(after > before))} |"
        )
    return rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of an Optuna study")
    parser.add_argument("--kept", action="store_true", help="run nothing")
    args = parser.parse_args(arguments)
    there = kept()
    for seed in () if args.kept else range(args.seeds):
        for name in EXPERIMENTS:
            budget = args.budget
            for method in ("before", "after"):
                if (record := there.get((name, method, seed))) is None:
                    record = there[name, method, seed] = run(name, method, seed, budget)
                    best = best_by(record, math.inf)
                    print(f"{name} {method} seed {seed}: {best:.4f}", flush=True)
                budget = record["budget"]
    print("\n".join(table({key: each for key, each in there.items() if key[2] < args.seeds})))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
