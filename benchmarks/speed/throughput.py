"""Trials per second with 1 to 32 workers, and the time of one ask and one status of 50,000 trials.

    eval "$(.ci/postgres start /tmp/server)"          start a PostgreSQL server, or use your own
    python -m benchmarks.speed.throughput             about a quarter of an hour on two cores
    .ci/postgres stop /tmp/server

The workers are real: each trial is a process that sleeps, with its supervisor. All runs use the
default policy, under a budget of seconds (which limits overhead) and one of dollars (which does
not). A rate counts the trials reported after the first `WARM` of a run. `ask` is the time between a
worker's tell and its next ask. `around` is the time between ask and tell without the trial itself.
`cpu_ms` is the CPU time of a trial in all processes but the server, and `statements` the number of
its SQL statements. Results go to benchmarks/results/throughput.json; `--only` measures and replaces
a part. Without FARTHING_TEST_POSTGRES only SQLite is measured.

`--machines` gives each worker its own file lock, as if it had its own machine. `--workers 16
--trial 0.01 --lasting 10` measures one run of that size. These results are printed, not kept:

    python -m benchmarks.speed.throughput --where PostgreSQL --budget dollars --machines \\
        --workers 16 --trial 0.01 --lasting 10
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine, event

from benchmarks.speed.storage import databases, versions
from benchmarks.speed.suggestions import commit, cpu_model
from farthing import Float, Outcome, Space, Study
from farthing.history import Trial
from farthing.storage import close_sqlite_files

RESULTS = Path(__file__).resolve().parents[1] / "results" / "throughput.json"
NAMES = ("a", "b", "c", "d")
WARM = 1 / 4  # of a run, and at least two trials long: not counted
BUDGETS: dict[str, Any] = {"seconds": "1h", "dollars": "$1000000"}
RUNS = (  # seconds of a trial, workers, seconds of a run
    (0.01, 1, 10.0),
    (0.01, 4, 10.0),
    (0.01, 32, 15.0),
    (2.0, 32, 30.0),
)
MANY = 50_000  # trials of the large study

Json = dict[str, Any]


def objective(seconds: float) -> Callable[[dict[str, float]], Outcome]:
    def sleep(params: dict[str, float]) -> Outcome:
        time.sleep(seconds)
        value = sum((params[name] - 0.3) ** 2 for name in NAMES)
        return Outcome(value, cost={"usd": 1.0 + params["a"]})

    return sleep


def space() -> Space:
    return Space({name: Float(0, 1) for name in NAMES})


class Counted:
    """The number of SQL statements that this process and its forks send."""

    def __init__(self) -> None:
        self._sent = multiprocessing.get_context("fork").Value("q", 0)

    def __enter__(self) -> Counted:
        event.listen(Engine, "before_cursor_execute", self._count)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(Engine, "before_cursor_execute", self._count)

    def _count(self, *_: object) -> None:
        with self._sent.get_lock():
            self._sent.value += 1

    @property
    def statements(self) -> int:
        return int(self._sent.value)


def quantiles(seconds: Sequence[float]) -> Json:
    found = sorted(1e3 * s for s in seconds)
    at = {"median": 0.5, "p90": 0.9, "most": 1.0}
    return {name: round(found[int((len(found) - 1) * q)], 1) for name, q in at.items()}


def waits(trials: Sequence[Trial]) -> tuple[list[float], list[float]]:
    """Seconds between each worker's tell and its next ask, and within trials without evaluating."""
    asks, around, told = [], [], dict[str | None, float]()
    for trial in trials:
        run = trial.run
        if run.worker in told:
            asks.append(run.asked_at - told[run.worker])
        if run.told_at is not None and run.queue_s is not None:
            told[run.worker] = run.told_at
            around.append(run.queue_s)
    return asks, around


def pooled(
    url: str,
    folder: str,
    budget: Any,
    seconds: float,
    workers: int,
    lasting: float,
    machines: bool = False,
) -> Json:
    """Run workers with logs in the folder; with `machines`, as if each had its own machine."""
    logs = tempfile.mkdtemp(prefix="farthing-logs-", dir=folder)
    study = Study.create(url, name="throughput", space=space(), budget=budget, grace=0.5, logs=logs)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours = time.process_time()
    with Counted() as counted:
        end = threading.Timer(lasting, study_stop, args=(url,))
        end.start()
        if machines:
            on_machines(url, folder, seconds, workers)
        else:
            study.run(objective(seconds), workers=workers)
        end.join()
        statements = counted.statements
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime - before.ru_utime + used.ru_stime - before.ru_stime
    cpu += time.process_time() - ours
    trials = [trial for trial in study.history if trial.state == "done"]
    first = min(trial.run.asked_at for trial in trials)
    since = first + max(WARM * lasting, 2 * seconds)
    until = first + lasting
    told = sum(since <= (trial.run.told_at or 0.0) < until for trial in trials)
    asks, around = waits(trials)
    suggestions = [
        t.run.suggest_s for t in trials if t.run.suggest_s and t.notes.get("effort") != "none"
    ]
    study.close()
    return {
        "rate": told / (until - since),
        "ideal": workers / seconds,
        "trials": len(trials),
        "ask_ms": quantiles(asks),
        "around_ms": quantiles(around),
        "thought_ms": quantiles(suggestions or [0.0]),
        "thoughts": len(suggestions),
        "cpu_ms": 1e3 * cpu / len(trials),
        "statements": statements / len(trials),
        "statements_s": statements / lasting,
    }


def on_machines(url: str, folder: str, seconds: float, workers: int) -> None:
    """Workers that share nothing but the database: each has its own folder for file locks."""

    def work(number: int) -> None:
        os.environ["XDG_STATE_HOME"] = f"{folder}/machine-{number}"
        Study.open(url, "throughput").work(objective(seconds), workers=1)

    close_sqlite_files()
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=work, args=(number,)) for number in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def study_stop(url: str) -> None:
    """Stop the study; running trials end at once."""
    study = Study.open(url, "throughput", look=True)
    study.request_stop("the measurement is over", now=True)
    study.close()


def filled(url: str, trials: int) -> Study:
    """A study with this number of imported trials."""
    study = Study.create(url, name="many", space=space(), budget={"usd": 10.0 * trials})
    rng = np.random.default_rng(0)
    X = rng.random((trials, len(NAMES)))
    noise = rng.normal(0, 0.01, trials)
    rows = [
        dict(zip(NAMES, map(float, x), strict=True))
        | {"value": float(((x - 0.3) ** 2).sum() + e), "cost_usd": float(1 + x[0])}
        for x, e in zip(X, noise, strict=True)
    ]
    study.import_trials(rows)
    return study


LATE = """
import resource, sys, time
from farthing import Study
study = Study.open(sys.argv[1], "many")
begun = time.perf_counter()
study.history
opened = time.perf_counter()
found = []
for _ in range(3):
    asked = time.perf_counter()
    trial = study.ask()
    found.append(time.perf_counter() - asked)
    study.tell(trial, 1.0, cost=1.0)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(opened - begun, *found, peak)
"""
LOOK = """
import resource, subprocess, sys, time
begun = time.perf_counter()
command = [sys.executable, "-c", "from farthing.cli.entry import main; main()", *sys.argv[1:]]
subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def numbers_from(code: str, *arguments: str) -> list[float]:
    """The numbers that a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, text=True, stdout=subprocess.PIPE
    )
    return [float(word) for word in done.stdout.split()]


def among_many(url: str, trials: int) -> Json:
    """Time one ask and one `farthing status` in a study with this number of trials."""
    filled(url, trials).close()
    read, *asks, peak = numbers_from(LATE, url)
    look, look_cpu, look_peak = numbers_from(LOOK, "status", "--storage", url, "--name", "many")
    return {
        "trials": trials,
        "read_s": read,
        "first_s": read + asks[0],
        "ask_s": statistics.median(asks),
        "asks_s": asks,
        "ask_peak_mb": peak,
        "status_s": look,
        "status_cpu_s": look_cpu,
        "status_peak_mb": look_peak,
    }


def key_of(row: Json) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("what", "where", "budget", "seconds", "workers"))


def shown(row: Json) -> str:
    if row["what"] == "many":
        return (
            f"{row['where']:11}{row['trials']:,} trials: ask {row['ask_s']:.2f} s, first ask "
            f"{row['asks_s'][0]:.2f} s, with reading {row['first_s']:.2f} s; status "
            f"{row['status_s']:.2f} s ({row['status_cpu_s']:.2f} s of CPU); peak "
            f"{max(row['ask_peak_mb'], row['status_peak_mb']):.0f} MB"
        )
    return (
        f"{row['where']:11}{row['budget']:8}{row['workers']:3} workers x {row['seconds']:g} s: "
        f"{row['rate']:6.2f}/s of {row['ideal']:.0f}; ask {row['ask_ms']['median']:.0f} ms, around "
        f"{row['around_ms']['median']:.0f} ms, suggestion {row['thought_ms']['median']:.0f} ms "
        f"({row['thoughts']} of {row['trials']}), cpu {row['cpu_ms']:.0f} ms, "
        f"{row['statements']:.1f} statements"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=["runs", "many"], help="measure only this part")
    parser.add_argument("--where", choices=["SQLite", "PostgreSQL"], help="use only this database")
    parser.add_argument("--budget", choices=list(BUDGETS), help="use only this budget")
    parser.add_argument("--workers", type=int, help="only runs with this number of workers")
    parser.add_argument("--trial", type=float, help="only runs with trials of this length (s)")
    parser.add_argument("--lasting", type=float, help="a single run of this length (s)")
    parser.add_argument("--machines", action="store_true", help="each worker has its own file lock")
    parser.add_argument(
        "--trials", type=int, default=MANY, help=f"trials of the large study ({MANY:,})"
    )
    parser.add_argument(
        "--note", default="", help="a remark on the machine, stored with the results"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    one = arguments.lasting is not None
    if one and None in (arguments.workers, arguments.trial):
        parser.error("--lasting needs --workers and --trial")
    if arguments.machines and not one:
        parser.error("--machines needs --lasting")
    runs = ((arguments.trial, arguments.workers, arguments.lasting),) if one else RUNS
    rows: list[Json] = []
    with tempfile.TemporaryDirectory() as folder, databases(folder) as made:
        wanted = {w: u for w, u in made.items() if arguments.where in (None, w)}
        for seconds, workers, lasting in runs if arguments.only != "many" else ():
            if arguments.workers not in (None, workers) or arguments.trial not in (None, seconds):
                continue
            for where, url in wanted.items():
                for name in BUDGETS if arguments.budget is None else [arguments.budget]:
                    which = {"what": "run", "where": where, "budget": name}
                    which |= {"seconds": seconds, "workers": workers}
                    how = seconds, workers, lasting, arguments.machines
                    found = pooled(url(), folder, BUDGETS[name], *how)
                    rows.append(which | {"load": os.getloadavg()[0]} | found)
                    print(shown(rows[-1]), flush=True)
        for where, url in wanted.items() if arguments.only != "runs" and not one else ():
            found = among_many(url(), arguments.trials)
            rows.append({"what": "many", "where": where, "load": os.getloadavg()[0]} | found)
            print(shown(rows[-1]), flush=True)
    if one:
        return
    machine = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}
    machine |= {"cpu": cpu_model(), "cores": os.cpu_count(), "versions": versions()}
    machine |= {"note": arguments.note}
    measured = {key_of(row) for row in rows}
    before = json.loads(arguments.results.read_text())["rows"] if arguments.results.exists() else []
    rows = [row for row in before if key_of(row) not in measured] + rows
    arguments.results.write_text(json.dumps({"run": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
