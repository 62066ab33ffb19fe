"""Train real models in wall-clock time: one method, model and seed per run, on one core.

    python -m benchmarks realtime --budgets 60,300 --seeds 10         make the missing runs
    python -m benchmarks.evidence.realtime svm-digits farthing 0 60   print the line of one run

    clock     starts when the method is created and ends with the budget; it includes the overhead
              of every method, but no imports (each method is first run on a free function)
    value     the error on held-out rows; a value that arrives after the budget does not count
    farthing  `minimize` with a budget of seconds and no other setting; `cooling` and others: the
              same with this policy
    held      the models of HELD_BACK served only to check the default after it was chosen

A run is a separate process on one core. Its line of `benchmarks/results/replays/realtime.jsonl`:
`model, method, seed, budget`, and of each evaluation `ends` (seconds since the start), `values`
(null: it failed) and `seconds`; `thinking` (the overhead: seconds not spent evaluating), `ended`,
`error`, `versions`, `source`, `machine`, `load` (processes ready to run at the start: times of a
busy machine are worthless).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.evidence import install_peers, replay, run_peers
from benchmarks.methods import POLICIES
from benchmarks.problems import training
from benchmarks.problems.problem import Evaluation
from benchmarks.problems.tables import data_folder
from benchmarks.problems.training import Data
from benchmarks.speed.suggestions import cpu_model
from farthing import Categorical, Float, Int, Outcome, Space, minimize
from farthing.stopping import MaxTrials

Json = dict[str, Any]
Objective = Callable[[Mapping[str, Any]], float]

SUITE = "realtime"
METHODS = ("farthing", "PBGI", "optuna-tpe", "optuna-gp", "flaml-cfo", "random")
CANDIDATES = (
    "PBGI",
    "cooling",
    "cooling_0.5",
    "EI",
)  # policies of farthing that could be its default
BUDGETS = (60.0, 300.0)  # seconds
EVALUATIONS = 60  # a guess for the peers, whose defaults depend on it
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
GRACE = 600.0  # seconds that the last evaluation may overrun before the process is killed


@dataclass(frozen=True)
class Job:
    """The inputs of a run."""

    model: str
    method: str
    seed: int
    budget: float  # seconds


# ── the models ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Model:
    """A space, and how to make the function that trains a configuration and returns its error."""

    space: Space
    load: Callable[[], Objective]


def digits() -> Data:
    """The handwritten digits of scikit-learn."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X / 16.0, y, test_size=0.4, random_state=0, stratify=y)
    X, X_test, y, y_test = parts
    return Data(X, y, X_test, y_test, classes=10)


def _stored(name: str, pipeline: str = "plain") -> Data:
    return training.load(name, pipeline, data_folder())


def _trained(make: Callable[[Mapping[str, Any]], Any], data: Data) -> Objective:
    return lambda params: training.error_of(make(params), data)


def _svm() -> Objective:
    from sklearn.svm import SVC

    return _trained(lambda p: SVC(**p, cache_size=100, max_iter=200_000), digits())


def _mlp() -> Objective:
    from sklearn.neural_network import MLPClassifier

    def make(p: Mapping[str, Any]) -> Any:
        return MLPClassifier(
            (p["width"],) * p["layers"],
            activation=p["activation"],
            alpha=p["alpha"],
            learning_rate_init=p["rate"],
            batch_size=p["batch"],
            max_iter=p["epochs"],
            random_state=0,
        )

    return _trained(make, digits())


def _forest() -> Objective:
    from sklearn.ensemble import RandomForestClassifier

    return _trained(
        lambda p: RandomForestClassifier(**p, random_state=0, n_jobs=1), _stored("satimage")
    )


def _boosting() -> Objective:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return _trained(
        lambda p: HistGradientBoostingClassifier(**p, early_stopping=False, random_state=0),
        _stored("openml_1489_phoneme"),
    )


def _xgboost() -> Objective:
    data = _stored("pendigits")
    return lambda params: training.train("xgboost", params, data)


def _boosting_wine() -> Objective:
    from sklearn.ensemble import GradientBoostingRegressor

    return _trained(
        lambda p: GradientBoostingRegressor(**p, random_state=0),
        _stored("openml_287_wine_quality"),
    )


def _trees_texture() -> Objective:
    from sklearn.ensemble import ExtraTreesClassifier

    return _trained(
        lambda p: ExtraTreesClassifier(**p, random_state=0, n_jobs=1),
        _stored("openml_task125922_texture"),
    )


def _mlp_kin8nm() -> Objective:
    from sklearn.neural_network import MLPRegressor

    def make(p: Mapping[str, Any]) -> Any:
        return MLPRegressor(
            hidden_layer_sizes=(p["width"],) * p["layers"],
            alpha=p["alpha"],
            learning_rate_init=p["rate"],
            batch_size=p["batch"],
            max_iter=p["epochs"],
            random_state=0,
        )

    return _trained(make, _stored("openml_189_kin8nm", "s"))


def _svr_wind() -> Objective:
    from sklearn.svm import SVR

    data = _stored("openml_503_wind", "s")
    return _trained(lambda p: SVR(**p, cache_size=100, max_iter=200_000), data)


MODELS = {
    "svm-digits": Model(
        Space(
            {
                "C": Float(1e-3, 1e3, log=True),
                "gamma": Float(1e-5, 10.0, log=True),
                "kernel": Categorical(["rbf", "poly", "sigmoid"]),
                "coef0": Float(0.0, 2.0),
                "tol": Float(1e-5, 1e-1, log=True),
            }
        ),
        _svm,
    ),
    "mlp-digits": Model(
        Space(
            {
                "layers": Int(1, 4),
                "width": Int(8, 256, log=True),
                "activation": Categorical(["logistic", "tanh", "relu"]),
                "alpha": Float(1e-6, 1.0, log=True),
                "rate": Float(1e-5, 1e-1, log=True),
                "batch": Int(8, 512, log=True),
                "epochs": Int(5, 100, log=True),
            }
        ),
        _mlp,
    ),
    "forest-satimage": Model(
        Space(
            {
                "n_estimators": Int(5, 300, log=True),
                "max_depth": Int(1, 40),
                "min_samples_leaf": Int(1, 50, log=True),
                "max_features": Float(0.05, 1.0),
                "criterion": Categorical(["gini", "entropy"]),
            }
        ),
        _forest,
    ),
    "boosting-phoneme": Model(
        Space(
            {
                "max_iter": Int(5, 500, log=True),
                "learning_rate": Float(1e-3, 1.0, log=True),
                "max_leaf_nodes": Int(2, 128, log=True),
                "min_samples_leaf": Int(1, 100, log=True),
                "l2_regularization": Float(1e-6, 100.0, log=True),
                "max_bins": Int(8, 255, log=True),
            }
        ),
        _boosting,
    ),
    "xgboost-pendigits": Model(training.XGBOOST, _xgboost),
    "boosting-wine": Model(
        Space(
            {
                "n_estimators": Int(5, 400, log=True),
                "learning_rate": Float(1e-3, 1.0, log=True),
                "max_depth": Int(1, 12),
                "subsample": Float(0.1, 1.0),
                "max_features": Float(0.1, 1.0),
                "min_samples_leaf": Int(1, 100, log=True),
            }
        ),
        _boosting_wine,
    ),
    "trees-texture": Model(
        Space(
            {
                "n_estimators": Int(5, 300, log=True),
                "max_depth": Int(1, 40),
                "min_samples_leaf": Int(1, 50, log=True),
                "max_features": Float(0.05, 1.0),
                "bootstrap": Categorical([False, True]),
            }
        ),
        _trees_texture,
    ),
    "mlp-kin8nm": Model(
        Space(
            {
                "layers": Int(1, 3),
                "width": Int(8, 128, log=True),
                "alpha": Float(1e-6, 1.0, log=True),
                "rate": Float(1e-5, 1e-1, log=True),
                "batch": Int(16, 512, log=True),
                "epochs": Int(2, 60, log=True),
            }
        ),
        _mlp_kin8nm,
    ),
    "svr-wind": Model(
        Space(
            {
                "C": Float(1e-2, 1e3, log=True),
                "gamma": Float(1e-4, 1.0, log=True),
                "epsilon": Float(1e-3, 1.0, log=True),
            }
        ),
        _svr_wind,
    ),
}
HELD_BACK = ("boosting-wine", "trees-texture", "mlp-kin8nm", "svr-wind")


# ── one run ────────────────────────────────────────────────────────────────────────────────────


class Clock:
    """The end and the value of each evaluation."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.ends: list[float] = []
        self.values: list[float | None] = []
        self.seconds: list[float] = []
        self.started = time.perf_counter()

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    def evaluate(self, params: Mapping[str, Any]) -> Evaluation:
        """The value (None if the evaluation failed) and the seconds it took."""
        before = self.now
        try:
            value: float | None = self.objective(params)
        except Exception:
            value = None
        self.ends.append(self.now)
        self.values.append(value)
        self.seconds.append(self.ends[-1] - before)
        return Evaluation(value, self.seconds[-1])


class _Random:
    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.rng = space, np.random.default_rng(seed)

    def ask(self) -> Any:
        return self.space.decode(self.space.sample(1, self.rng)[0])

    def tell(self, params: Any, evaluation: Evaluation) -> None:
        pass


def drive(
    method: str,
    space: Space,
    clock: Clock,
    *,
    budget: float,
    seed: int,
    most: int | None = None,
) -> str:
    """Run a method for its time or `most` evaluations; returns why it ended."""
    if method == "farthing" or method in CANDIDATES:

        def objective(params: Mapping[str, Any]) -> Outcome:
            value, _ = clock.evaluate(params)
            return Outcome(value) if value is not None else Outcome(failed="no value")

        stop = None if most is None else MaxTrials(most)
        policy = POLICIES[method]() if method in CANDIDATES else None
        result = minimize(
            objective, space, budget=f"{budget:g}s", policy=policy, stop=stop, seed=seed
        )
        return str(result.stop_reason)
    if method == "random":
        tuner: Any = _Random(space, seed)
    else:
        tuner = peers.make(method, space, budget=budget, seed=seed, evaluations=EVALUATIONS)
    while clock.now < budget and (most is None or len(clock.ends) < most):
        params = tuner.ask()
        if params is None:
            return "nothing to ask"
        if clock.now >= budget:
            break
        tuner.tell(params, clock.evaluate(params))
    return "budget"


def run(job: Job) -> Json:
    """The line of a job."""
    load = os.getloadavg()[0]
    model = MODELS[job.model]
    objective = model.load()
    warm = Clock(lambda params: 0.5)
    drive(job.method, model.space, warm, budget=60.0, seed=99, most=replay.WARM_UP)
    clock, error = Clock(objective), None
    try:
        ended = drive(job.method, model.space, clock, budget=job.budget, seed=job.seed)
    except Exception as raised:
        ended, error = "error", f"{type(raised).__name__}: {raised}"[:300]
    return {
        **asdict(job),
        "ends": [round(end, 3) for end in clock.ends],
        "values": [None if value is None else float(f"{value:.7g}") for value in clock.values],
        "seconds": [float(f"{seconds:.4g}") for seconds in clock.seconds],
        "thinking": round(max(0.0, clock.now - sum(clock.seconds)), 3),
        "ended": ended,
        "error": error,
        "versions": _versions(),
        "source": replay.source(),
        "machine": cpu_model(),
        "load": round(load, 2),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in ("farthing", "optuna", "flaml", "scikit-learn", "xgboost"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


# ── all of them ────────────────────────────────────────────────────────────────────────────────


def kept() -> dict[Job, Json]:
    """Every kept run; the later one of two equal jobs."""
    found = {}
    for line in replay.lines(SUITE):
        record = json.loads(line)
        found[Job(**{name: record[name] for name in Job.__dataclass_fields__})] = record
    return found


def pack() -> Path:
    """Move all runs into the compressed file, sorted."""
    runs = kept()
    order = sorted(runs, key=lambda job: tuple(asdict(job).values()))
    return replay.write_packed(SUITE, [_line(runs[job]) for job in order])


def _line(record: Json) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def carry_out(
    jobs: Iterable[Job], *, processes: int = 1, same_source: bool = False, more: bool = True
) -> dict[Job, Json]:
    """The run of every job: kept runs are read, missing ones are made and kept at once."""
    requested, sources = list(jobs), replay.same_decisions("realtime")
    have = {
        job: record
        for job, record in kept().items()
        if not same_source
        or job.method not in ("farthing", *CANDIDATES)
        or record["source"] in sources
    }
    todo = [job for job in requested if job not in have]
    if more and todo:
        pythons = _pythons({job.method for job in todo})
        cores: SimpleQueue[int] = SimpleQueue()
        for core in sorted(os.sched_getaffinity(0))[: max(1, processes)]:
            cores.put(core)
        with ThreadPoolExecutor(max(1, processes)) as pool, replay.appending(SUITE) as file:
            futures = {
                pool.submit(_in_a_process, job, pythons[job.method], cores): job
                for job in todo
                if job.method in pythons
            }
            for i, future in enumerate(as_completed(futures), 1):
                have[futures[future]] = future.result()
                file.write(_line(future.result()))
                file.flush()
                print(f"{SUITE}: {i} of {len(futures)} runs", flush=True)
    return {job: have[job] for job in requested if job in have}


def _pythons(methods: Iterable[str]) -> dict[str, str]:
    """The Python of each method, with its library, scikit-learn and XGBoost."""
    found, missing = run_peers.environments([m for m in methods if m in peers.NAMES])
    pythons = {m: str(install_peers.REPO / python) for python, some in found.items() for m in some}
    for method, why in missing.items():
        print(f"{method}: not run: {why.splitlines()[-1]}")
    shared = install_peers.REPO / ".venv-peers" / "bin" / "python"
    for method in set(methods) - set(peers.NAMES):
        pythons[method] = sys.executable if _trains() or not shared.exists() else str(shared)
    return pythons


@cache
def _trains() -> bool:
    return find_spec("sklearn") is not None and find_spec("xgboost") is not None


def _in_a_process(job: Job, python: str, cores: SimpleQueue[int]) -> Json:
    core = cores.get()
    try:
        done = subprocess.run(
            [python, "-m", "benchmarks.evidence.realtime", *map(str, asdict(job).values())],
            cwd=install_peers.REPO,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": run_peers.import_path()},
            capture_output=True,
            text=True,
            timeout=job.budget + GRACE,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
    except subprocess.TimeoutExpired:
        return _nothing(job, f"the last evaluation ran {GRACE:g} s over the budget")
    finally:
        cores.put(core)
    if done.returncode:
        return _nothing(job, (done.stderr.strip().splitlines() or ["no output"])[-1][:300])
    record: Json = json.loads(done.stdout.splitlines()[-1])
    return record


def _nothing(job: Job, why: str) -> Json:
    """The line of a run whose process returned none."""
    empty: Json = {"ends": [], "values": [], "seconds": [], "thinking": 0.0}
    about = {"versions": {}, "source": replay.source(), "machine": cpu_model(), "load": 0.0}
    return {**asdict(job), **empty, "ended": "error", "error": why, **about}


def main(arguments: list[str]) -> int:
    model, method, seed, budget = arguments
    print(_line(run(Job(model, method, int(seed), float(budget)))), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
