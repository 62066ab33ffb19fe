"""The time of ask + tell in a database, compared with Optuna in one run.

    pip install -e '.[postgres]' optuna==5.0.0        in a virtual environment
    eval "$(.ci/postgres start /tmp/server)"          start a PostgreSQL server, or use your own
    python -m benchmarks.speed.storage                some minutes
    .ci/postgres stop /tmp/server

Both use random search, so suggestions take almost no time. All cases take turns, one ask + tell
each, so that other work on the machine affects them equally. The numbers are from the last 200 of
1,000 trials. `open` is the time from a new object to 20,000 trials in memory. `commit` is an insert
into a table with one column: the time that the disk and the server need for a durable transaction.
Results go to benchmarks/results/storage.json. Without FARTHING_TEST_POSTGRES only SQLite is
measured, and without Optuna only Farthing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.speed.suggestions import commit, cpu_model
from farthing import Float, Space, Study
from farthing.policies import Random
from farthing.storage import Database

RESULTS = Path(__file__).resolve().parents[1] / "results" / "storage.json"
NAMES = ("a", "b", "c", "d")
MEASURED = 200  # trials, the last ones
MANY = 20_000  # trials to open

Step = Callable[[], None]


def farthing_steps(url: str) -> Step:
    study = Study.create(url, name="asks", space=space(), policy=Random())

    def step() -> None:
        trial = study.ask()
        study.tell(trial, trial.params["a"])

    return step


def optuna_steps(url: str) -> Step:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(storage=url, study_name="asks", sampler=sampler)
    distributions = {name: optuna.distributions.FloatDistribution(0, 1) for name in NAMES}

    def step() -> None:
        trial = study.ask(distributions)
        study.tell(trial, trial.params["a"])

    return step


def commit_steps(url: str) -> Step:
    database = Database(url)
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE one (x INTEGER)")

    def step() -> None:
        with database.writing() as connection:
            connection.exec_driver_sql("INSERT INTO one VALUES (1)")

    return step


def space() -> Space:
    return Space({name: Float(0, 1) for name in NAMES})


def opening(url: str, trials: int) -> float:
    """Seconds from a new object to all trials in memory."""
    study = Study.create(url, name="opens", space=space(), policy=Random())
    study.import_trials(
        [dict.fromkeys(NAMES, k * 0.618 % 1) | {"value": 1.0} for k in range(trials)]
    )
    begun = time.perf_counter()
    assert len(Study.open(url, "opens").history) == trials
    return time.perf_counter() - begun


@contextmanager
def databases(folder: str) -> Iterator[dict[str, Callable[[], str]]]:
    """Functions that return the address of a new, empty database."""
    made: dict[str, Callable[[], str]] = {
        "SQLite": lambda: f"sqlite:///{folder}/{uuid.uuid4().hex}.db"
    }
    server = os.environ.get("FARTHING_TEST_POSTGRES")
    if server is None:
        yield made
        return
    import psycopg

    schemas: list[str] = []
    with psycopg.connect(server.replace("+psycopg", ""), autocommit=True) as connection:

        def schema() -> str:
            schemas.append(f"bench_{uuid.uuid4().hex}")
            connection.execute(f"CREATE SCHEMA {schemas[-1]}")
            return f"{server}?options={quote(f'-csearch_path={schemas[-1]}')}"

        made["PostgreSQL"] = schema
        try:
            yield made
        finally:
            for name in schemas:
                connection.execute(f"DROP SCHEMA {name} CASCADE")


def milliseconds(steps: dict[tuple[str, str], Step], trials: int) -> dict[tuple[str, str], Any]:
    """Median and 90 % quantile of the last steps of each case; the cases take turns."""
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in steps}
    for k in range(trials):
        for key, step in steps.items():
            begun = time.perf_counter()
            step()
            seconds[key].append(time.perf_counter() - begun)
        if k % 100 == 99:
            print(f"{k + 1} of {trials} trials", flush=True)
    last = {key: [1e3 * s for s in found[-MEASURED:]] for key, found in seconds.items()}
    return {
        key: {"median": statistics.median(found), "p90": statistics.quantiles(found, n=10)[-1]}
        for key, found in last.items()
    }


def versions() -> dict[str, str]:
    found = {}
    for name in ("farthing", "optuna", "SQLAlchemy", "psycopg"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    makers = {"commit": commit_steps, "farthing": farthing_steps}
    if "optuna" in versions():
        makers["optuna"] = optuna_steps
    with tempfile.TemporaryDirectory() as folder, databases(folder) as made:
        steps = {
            (who, where): make(url()) for where, url in made.items() for who, make in makers.items()
        }
        asked = milliseconds(steps, arguments.trials)
        opened = {where: opening(url(), MANY) for where, url in made.items()}
    rows: list[dict[str, Any]] = [
        {"what": "ask + tell", "who": who, "where": where, "trials": arguments.trials, "ms": ms}
        for (who, where), ms in asked.items()
    ]
    rows += [
        {"what": "open", "who": "farthing", "where": where, "trials": MANY, "s": seconds}
        for where, seconds in opened.items()
    ]
    load = os.getloadavg()[0]
    machine = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}
    machine |= {"cpu": cpu_model(), "cores": os.cpu_count(), "load": load, "versions": versions()}
    arguments.results.write_text(json.dumps({"run": machine, "rows": rows}, indent=1) + "\n")
    print(f"\nload average {load:.1f} on {os.cpu_count()} cores")
    for row in rows:
        figure = (
            f"{row['ms']['median']:8.2f} ms median {row['ms']['p90']:8.2f} ms p90"
            if "ms" in row
            else f"{row['s']:8.2f} s"
        )
        print(f"{row['what']:11}{row['who']:10}{row['where']:12}{row['trials']:7,} trials {figure}")


if __name__ == "__main__":
    main()
