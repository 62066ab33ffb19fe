"""Record real training: value and cost of a scrambled Sobol sample of a space, one at a time.

    python -m benchmarks.evidence.recorder                          every problem, resumed
    python -m benchmarks.evidence.recorder --only knn-a1a,rf-splice --configurations 50
    python -m benchmarks.evidence.recorder --list

    cost        CPU seconds of fitting and predicting on one thread: independent of other load on
                the machine; `wall` is kept too
    censored    killed at 60 s: `cost` is then a lower bound and there is no value
    noise       the first ten configurations are run three times; every repeat is kept, and the
                standard deviation of ln cost within them is in the file's description

A finished problem is `benchmarks/recorded/<problem>.parquet`, with machine, versions and date in
its description; an unfinished problem is a file of JSON lines in `benchmarks/recorded/partial`.
"""

from __future__ import annotations

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"  # before numpy is loaded

import argparse
import json
import multiprocessing
import platform
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import qmc

from benchmarks.problems.tables import data_folder
from benchmarks.problems.training import RECORDED, Data, Training, load, train
from benchmarks.speed.suggestions import cpu_model
from farthing import Space

Json = dict[str, Any]

FOLDER = Path(__file__).resolve().parents[1] / "recorded"
CONFIGURATIONS = 200
CAP = 60.0
REPEATED, REPEATS = 10, 3
SEED = 0


def sample(space: Space, count: int) -> list[Json]:
    """The first `count` points of a scrambled Sobol sequence, as parameters of the space."""
    power = int(np.ceil(np.log2(max(count, 2))))
    U = qmc.Sobol(space.d, seed=SEED).random_base2(power)[:count]
    return [space.decode(x) for x in space.spread(U)]


class Worker:
    """A process that trains the configurations it receives, and is replaced if it is killed.

    It has fitted one configuration before it is timed: what is loaded or compiled at the first
    call is no part of a configuration's cost.
    """

    def __init__(self, model: str, data: Data, first: Json) -> None:
        self.task = (model, data, first)
        self._start()

    def _start(self) -> None:
        self.pipe, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=_serve, args=(there, *self.task), daemon=True)
        self.process.start()
        there.close()

    def measure(self, params: Json, cap: float) -> Json:
        """Value and cost of one configuration."""
        self.pipe.send(params)
        try:
            # The cap is in CPU seconds, which take longer on a busy machine.
            answer: Json | None = self.pipe.recv() if self.pipe.poll(2.0 * cap) else None
        except EOFError:
            answer = {"value": None, "cost": None, "wall": None, "error": "the process died"}
        if answer is None or answer["cost"] is None:
            self.stop()
            self._start()
        if answer is None or (answer["cost"] or 0.0) > cap:
            return {"value": None, "cost": cap, "wall": cap, "censored": True, "error": None}
        return {"censored": False, **answer}

    def stop(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, model: str, data: Data, first: Json) -> None:
    train(model, first, data)
    while True:
        params = pipe.recv()
        started, cpu = time.perf_counter(), time.process_time()
        value, error = None, None
        try:
            value = train(model, params, data)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        cost, wall = time.process_time() - cpu, time.perf_counter() - started
        pipe.send({"value": value, "cost": cost, "wall": wall, "error": error})


def record(problem: Training, folder: Path, *, count: int, cap: float) -> Path:
    """Record one problem, resuming a partial recording; returns the Parquet file."""
    done = FOLDER / f"{problem.name}.parquet"
    if done.exists():
        return done
    partial = FOLDER / "partial" / f"{problem.name}.jsonl"
    partial.parent.mkdir(parents=True, exist_ok=True)
    rows = (
        [json.loads(line) for line in partial.read_text().splitlines()] if partial.exists() else []
    )
    data = load(problem.data, problem.pipeline, folder)
    configurations = sample(problem.space, count)
    worker = Worker(problem.model, data, configurations[0])
    with partial.open("a") as file:
        for configuration, repeat in list(_order(count))[len(rows) :]:
            measured = worker.measure(configurations[configuration], cap)
            rows.append({"configuration": configuration, "repeat": repeat, **measured})
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
    worker.stop()
    _write(done, problem, configurations, rows, cap)
    partial.unlink()
    return done


def _order(count: int) -> Iterator[tuple[int, int]]:
    """(configuration, repeat), the repeats last: an interrupted recording has every value first."""
    yield from ((i, 0) for i in range(count))
    yield from ((i, r) for r in range(1, REPEATS) for i in range(min(REPEATED, count)))


def here() -> Json:
    """The day, the machine and the Python of a recording."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{cpu_model()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    }


def _write(
    path: Path, problem: Training, configurations: list[Json], rows: list[Json], cap: float
) -> None:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame = pd.DataFrame(
        [
            {**{f"hp_{k}": v for k, v in configurations[r["configuration"]].items()}, **r}
            for r in rows
        ]
    )
    frame["value"] = frame["value"].astype(float)
    frame["error"] = frame["error"].astype("string")
    repeated = frame[
        (frame["configuration"] < REPEATED) & frame["cost"].notna() & ~frame["censored"]
    ]
    within = np.log(repeated["cost"]).groupby(repeated["configuration"]).std(ddof=1)
    libraries = ("scikit-learn", "numpy", "scipy", "xgboost")
    about = {
        "problem": problem.name,
        **here(),
        "versions": {library: version(library) for library in libraries},
        "cap_s": cap,
        "seed": SEED,
        "noise_sd_ln_cost": round(float(np.sqrt((within**2).mean())), 4),
    }
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({"farthing": json.dumps(about)})
    pq.write_table(table, path, compression="zstd")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evidence.recorder", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", help="names of problems, separated by commas")
    parser.add_argument("--configurations", type=int, default=CONFIGURATIONS)
    parser.add_argument("--cap", type=float, default=CAP, help="seconds of one configuration")
    parser.add_argument("--data", help="folder of the data sets (default: FARTHING_DATA)")
    parser.add_argument("--list", action="store_true", help="print the problems' names")
    asked = parser.parse_args(arguments)
    names = asked.only.split(",") if asked.only else list(RECORDED)
    if unknown := [name for name in names if name not in RECORDED]:
        parser.error(f"no problem {unknown[0]!r}; --list prints their names")
    if asked.list:
        print("\n".join(names))
        return 0
    for i, name in enumerate(names, 1):
        started = time.perf_counter()
        path = record(
            RECORDED[name], data_folder(asked.data), count=asked.configurations, cap=asked.cap
        )
        print(f"[{i}/{len(names)}] {path.name} ({time.perf_counter() - started:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
