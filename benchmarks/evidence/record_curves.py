"""Record the learning curves of real training, with the seconds of each step.

    python -m benchmarks record-curves                      every task, resumed
    python -m benchmarks record-curves --only mlp-splice,xgboost-satimage
    python -m benchmarks record-curves --list

    configurations   a scrambled Sobol sample of the space
    value            after each step, on held-out rows; NaN after a divergence
    seconds          CPU seconds of each step with its validation, of a process with one thread
                     (`time.process_time`). Time in which another process has the core does not
                     count. A busy machine still disturbs them by a few percent, because processes
                     share caches and the clock rate; `load` in the description is the number of
                     processes ready to run, at the start and at the end of the last session
    the first step   includes the start of the model, but not the preparation of the data

A finished task is `benchmarks/recorded/curves/<task>.parquet`: `hp_*`, the lists `values` and
`seconds`, and a description with space, machine, versions and date. An unfinished task is a file of
JSON lines in `benchmarks/recorded/partial`; an interruption loses the active configuration.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evidence.recorder import SEED, here, sample
from benchmarks.problems.tables import data_folder
from benchmarks.problems.training import Data
from benchmarks.problems.training_curves import TASKS, CurveTask, Learner, learning

Json = dict[str, Any]

FOLDER = Path(__file__).resolve().parents[1] / "recorded"
CONFIGURATIONS = 256
DIGITS = 5  # significant digits of a value and of seconds


def curve_of(learner: Callable[[], Learner], last: int) -> Json:
    """The values after all steps and the CPU seconds of each; shorter if the training diverges."""
    values: list[float] = []
    seconds: list[float] = []
    before, model = time.process_time(), learner()
    while len(values) < last:
        value = model.step()
        now = time.process_time()
        if not np.isfinite(value):
            break
        values.append(float(f"{value:.{DIGITS}g}"))
        seconds.append(float(f"{now - before:.{DIGITS}g}"))
        before = now
    return {"values": values, "seconds": seconds}


def record(task: CurveTask, data: Data, folder: Path, *, count: int = CONFIGURATIONS) -> Path:
    """Record one task, resuming a partial recording; returns the Parquet file."""
    done = folder / "curves" / f"{task.name}.parquet"
    if done.exists():
        return done
    partial = folder / "partial" / f"curves-{task.name}.jsonl"
    for path in (done, partial):
        path.parent.mkdir(parents=True, exist_ok=True)
    lines = partial.read_text().splitlines() if partial.exists() else []
    rows = [json.loads(line) for line in lines]
    configurations, start = sample(task.space, count), learning(task.model, data)
    start(configurations[0], b"").step()  # what is loaded at the first call costs nobody
    busy = [os.getloadavg()[0]]
    with partial.open("a") as file:
        for params in configurations[len(rows) :]:
            rows.append(curve_of(lambda params=params: start(params, b""), task.last))
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
            if len(rows) % 16 == 0:
                print(f"{task.name}: {len(rows)} of {count}", flush=True)
    busy.append(os.getloadavg()[0])
    _write(done, task, configurations, rows, busy)
    partial.unlink()
    return done


def steadiness(rows: Sequence[Mapping[str, list[float]]]) -> Json:
    """How far one rate per configuration describes the seconds of its steps.

    `within` is the median over configurations of the coefficient of variation of the steps after
    the first, `first` the median of the first step over the mean of the others, and `between` the
    ratio of the largest and the smallest cost of a whole training.
    """
    whole = [np.array(row["seconds"]) for row in rows if len(row["seconds"]) > 1]
    costs = [seconds.mean() for seconds in whole]
    return {
        "within": round(float(np.median([s[1:].std() / s[1:].mean() for s in whole])), 3),
        "first": round(float(np.median([s[0] / s[1:].mean() for s in whole])), 2),
        "between": round(max(costs) / min(costs), 1),
    }


def library_versions(*modules: str) -> dict[str, str]:
    """The version that each module names; the distribution may have another name."""
    return {name: import_module(name).__version__ for name in modules}


def _write(
    path: Path, task: CurveTask, configurations: list[Json], rows: list[Json], busy: list[float]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def padded(name: str) -> pa.Array:
        filled = [row[name] + [float("nan")] * (task.last - len(row[name])) for row in rows]
        return pa.array(filled, pa.list_(pa.float32(), task.last))

    columns = {
        f"hp_{name}": [params[name] for params in configurations] for name in task.space.names
    }
    table = pa.table({**columns, "values": padded("values"), "seconds": padded("seconds")})
    about = {
        "task": task.name,
        "model": task.model,
        "data": task.data,
        "pipeline": task.pipeline,
        "rows": task.rows,
        "test_rows": task.test_rows,
        "space": {name: repr(each) for name, each in task.space.parameters.items()},
        "seed": SEED,
        **here(),
        "load": [round(each, 1) for each in busy],
        "versions": library_versions("sklearn", "numpy", "xgboost"),
        **steadiness(rows),
    }
    table = table.replace_schema_metadata({"farthing": json.dumps(about)})
    pq.write_table(table, path, compression="zstd", compression_level=19)


def main(arguments: Sequence[str]) -> int:
    """Record what is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks record-curves", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", help="names of tasks, separated by commas")
    parser.add_argument("--data", help="folder of the data sets (default: FARTHING_DATA)")
    parser.add_argument("--list", action="store_true", help="print the tasks' names")
    asked = parser.parse_args(arguments)
    names = asked.only.split(",") if asked.only else list(TASKS)
    if unknown := [name for name in names if name not in TASKS]:
        parser.error(f"no task {unknown[0]!r}; --list prints their names")
    if asked.list:
        print("\n".join(names))
        return 0
    for i, name in enumerate(names, 1):
        started, task = time.process_time(), TASKS[name]
        path = record(task, task.load(data_folder(asked.data)), FOLDER)
        spent = time.process_time() - started
        print(f"[{i}/{len(names)}] {path.name} ({spent:.0f} CPU seconds)", flush=True)
    return 0
