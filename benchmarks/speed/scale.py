"""How far Farthing scales: real workers on PostgreSQL, and a simulation of many more.

    eval "$(.ci/postgres start /tmp/server)"          start a PostgreSQL server, or use your own
    python -m benchmarks.speed.scale --measure        five minutes on an idle machine
    .ci/postgres stop /tmp/server
    python -m benchmarks.speed.scale                  simulate; write docs/scale.md and its figure

The real runs have trials of one second and 1 to 64 workers. Some workers are `far`: they use the
suggestion lock as if each had its own machine, without the file lock. The time of each part comes
from the library's own functions, which are wrapped before the workers are forked: CPU time from
`resource.getrusage`, that of the server from /proc. A run that benchmarks/results/scale.json has
for this commit is not measured again, unless `--workers 8,64` names it. `scale_page.py` writes the
page from this file, and `scale_model.py` has the simulation.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import farthing.core.asking
from benchmarks.speed.scale_page import Json, name_of, write
from benchmarks.speed.storage import databases, versions
from benchmarks.speed.suggestions import commit, cpu_model
from benchmarks.speed.throughput import BUDGETS, NAMES, WARM, pooled, space
from farthing import Optimizer, Study
from farthing.running import ProcessGroup
from farthing.storage import Database
from farthing.storage.database_store import DatabaseStore

RESULTS = Path(__file__).resolve().parents[1] / "results" / "scale.json"
LASTING = 20.0  # seconds of a run
RUNS = (  # workers, seconds of a trial, far
    *((workers, 1.0, False) for workers in (1, 8, 16, 32, 64)),
    (64, 6.0, False),  # many renewals
    *((workers, 1.0, True) for workers in (8, 32)),
)
AMONG = 200  # finished trials when a suggestion is timed
RUNNING = (0, 16, 64, 256, 1024, 4096)  # running trials when a suggestion is timed
RENEWED = (0, 16, 64, 256)  # other renewed trials when a renewal is timed
BATCHES = (1, 4, 16, 64)
KEPT = 30_000  # recorded calls of a function in one run


def cpu() -> float:
    """CPU seconds of this thread and of the child processes that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + ended.ru_utime + ended.ru_stime


class Timed:
    """Records begin, end and CPU time of the successful calls of a function, here and in forked
    processes.
    """

    def __init__(self, owner: Any, name: str) -> None:
        context = multiprocessing.get_context("fork")
        self._calls = context.Value("q", 0)
        self._kept = context.Array("d", 3 * KEPT, lock=False)
        self._owner, self._name = owner, name

    def __enter__(self) -> Timed:
        self._was = was = getattr(self._owner, self._name)

        @functools.wraps(was)
        def call(*arguments: Any, **named: Any) -> Any:
            with self._timing():
                return was(*arguments, **named)

        @contextmanager
        def inside(*arguments: Any, **named: Any) -> Iterator[Any]:
            with was(*arguments, **named) as entered, self._timing():
                yield entered

        is_entered = self._name in ("ask_lock", "writing")
        setattr(self._owner, self._name, inside if is_entered else call)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(self._owner, self._name, self._was)

    @contextmanager
    def _timing(self) -> Iterator[None]:
        begun, used = time.perf_counter(), cpu()
        yield  # a call that raises is not counted
        row = begun, time.perf_counter(), cpu() - used
        with self._calls.get_lock():
            k = self._calls.value
            self._calls.value += 1
        if k < KEPT:
            self._kept[3 * k : 3 * k + 3] = row

    @property
    def rows(self) -> Any:
        """(calls, 3): begin, end, CPU seconds; sorted by end."""
        rows = np.array(self._kept[: 3 * min(self._calls.value, KEPT)]).reshape(-1, 3)
        return rows[rows[:, 1].argsort()]


def stat(process: int) -> tuple[int, list[float]]:
    """The parent of a process and its CPU seconds: user, system, and both of ended children."""
    words = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(words[1]), [int(w) / os.sysconf("SC_CLK_TCK") for w in words[11:15]]


def server_cpu(server: int) -> float:
    """CPU seconds of all processes of a server on this machine so far."""
    used = sum(stat(server)[1])
    for name in filter(str.isdigit, os.listdir("/proc")):
        with ExitStack() as gone:
            gone.push(lambda kind, *_: kind in (FileNotFoundError, ProcessLookupError))
            parent, seconds = stat(int(name))
            used += sum(seconds[:2]) if parent == server else 0.0
    return used


def _spin(seconds: float) -> float:
    """The share of a core that a busy process gets."""
    begun, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - begun < seconds:
        pass
    return (time.process_time() - used) / (time.perf_counter() - begun)


def other_jobs(seconds: float = 0.5) -> float:
    """Estimate the number of other jobs from the share c / (c + others) that is left."""
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("fork").Pool(cores) as pool:
        got = statistics.mean(pool.map(_spin, [seconds] * cores, chunksize=1))
    return cores * max(1 / got - 1, 0.0)


PARTS: dict[str, tuple[Any, str]] = {
    "thought": (farthing.core.asking, "suggest"),
    "held": (DatabaseStore, "ask_lock"),
    "ask": (Optimizer, "ask"),
    "look": (DatabaseStore, "look"),
    "commit": (DatabaseStore, "commit"),
    "locked": (Database, "writing"),
    "wait": (DatabaseStore, "wait"),
    "run": (ProcessGroup, "run"),
    "renew": (Optimizer, "renew"),
    "tell": (Optimizer, "commit"),
}


def real(url: str, folder: str, server: int, workers: int, seconds: float, far: bool) -> Json:
    """A run of real workers."""
    with ExitStack() as wrapped:
        if far:
            ask_lock = DatabaseStore.ask_lock
            wrapped.callback(setattr, DatabaseStore, "ask_lock", ask_lock)
            DatabaseStore.ask_lock = lambda _: nullcontext()
        timed = {name: wrapped.enter_context(Timed(*of)) for name, of in PARTS.items()}
        before, served, begun = other_jobs(), server_cpu(server), time.perf_counter()
        row = pooled(url, folder, BUDGETS["dollars"], seconds, workers, LASTING)
        served = server_cpu(server) - served
    others = (before + other_jobs()) / 2
    rows = {name: part.rows for name, part in timed.items()}
    trials, held = len(rows["run"]), rows["held"]
    since = LASTING - seconds * ((1 - WARM) * LASTING // seconds)  # as all may begin at once
    told = np.searchsorted(rows["run"][:, 1] - begun, (since, LASTING))
    asks = rows["ask"][: len(held), 0]  # they end in the same order
    waited = asks[1:] < held[: len(asks) - 1, 1]
    gaps = (held[1 : len(asks), 0] - held[: len(asks) - 1, 1])[waited & (not far)]
    late = rows["thought"][len(rows["thought"]) // 2 :, 2]
    return row | {
        "rate": int(told[1] - told[0]) / (LASTING - since),
        "others": others,
        "server_ms": 1e3 * served / trials,
        "handover_ms": 1e3 * float(np.median(gaps)) if len(gaps) else 0.0,
        "thoughts_ms": [1e3 * float(t) for t in np.quantile(late, np.arange(0.025, 1, 0.05))],
        "parts": {  # calls per trial, and milliseconds per call
            name: {
                "calls": len(part) / trials,
                "wall_ms": 1e3 * float((part[:, 1] - part[:, 0]).mean()),
                "cpu_ms": 1e3 * float(part[:, 2].mean()),
            }
            for name, part in rows.items()
            if len(part)
        },
    }


def timed_cpu(act: Callable[[], Any]) -> float:
    begun = time.thread_time()
    act()
    return 1e3 * (time.thread_time() - begun)


def knowing(running: int) -> Optimizer:
    """An Optimizer with `AMONG` finished trials and this number of running ones."""
    optimizer = Optimizer(space(), budget={"usd": 1e9})
    X = np.random.default_rng(0).random((AMONG + running, len(NAMES)))
    points = [dict(zip(NAMES, map(float, x), strict=True)) for x in X]
    done = zip(points[:AMONG], X, strict=False)
    optimizer.import_trials(
        [p | {"value": float(((x - 0.3) ** 2).sum()), "cost_usd": 1 + p["a"]} for p, x in done]
    )
    for point in points[AMONG:]:
        optimizer.add(point, running=True)
    optimizer.tell(optimizer.ask(), 1.0, cost=1.0)  # the first suggestion fits from scratch
    return optimizer


def suggestions(repeats: int = 5) -> Json:
    """CPU time of an ask in memory by number of running trials, and of a batch by size."""
    found: Json = {"among": AMONG, "running": {}, "batch": {}}
    for running in RUNNING:
        optimizer = knowing(running)
        took = [timed_cpu(optimizer.ask) for _ in range(repeats if running < 1000 else 1)]
        found["running"][str(running)] = min(took)
    for size in BATCHES:
        optimizer, took = knowing(0), []
        for _ in range(repeats if size < 16 else 1):
            took.append(timed_cpu(functools.partial(optimizer.ask, size)))
            for trial in optimizer.history.running:
                optimizer.tell(trial, 1.0, cost=1.0)
        found["batch"][str(size)] = min(took)
    return found


def renewals(url: str, repeats: int = 3) -> Json:
    """CPU time of a renewal, by the number of other trials renewed since the last one."""
    study = Study.create(url, name="renewals", space=space(), budget={"usd": 1e9})
    for k in range(10):
        study.tell(study.ask(), float(k), cost=1.0)
    other, found = Study.open(url, "renewals"), dict[str, float]()

    def renew(study: Study, trial: Any) -> None:
        study.renew(trial, lease=1e6, cost={"usd": 1.0}, ahead={"usd": 1.1})

    ours, *theirs = (study.ask(lease=1e6) for _ in range(1 + max(RENEWED)))
    for count in RENEWED:
        took = []
        for _ in range(repeats):
            for trial in theirs[:count]:
                renew(study, trial)
            took.append(timed_cpu(lambda: renew(other, ours)))
        found[str(count)] = min(took)
    other.close()
    study.close()
    return {"renewed": found}


def machine(note: str) -> Json:
    """The facts about the machine that each row has."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit().rstrip("+"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "versions": versions(),
        "note": note,
    }


def measure(results: Path, note: str, only: Sequence[int] | None) -> None:
    """Measure what is missing, or `only` these numbers of workers; store each result at once."""
    import psycopg

    address = os.environ.get("FARTHING_TEST_POSTGRES")
    if address is None:
        raise SystemExit(
            "No PostgreSQL server: set FARTHING_TEST_POSTGRES to a server on this machine."
        )
    with psycopg.connect(address.replace("+psycopg", "")) as connection:
        (ours,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        server = stat(ours)[0]

    def keep(row: Json) -> None:
        rows = read(results) if results.exists() else []
        rows = [old for old in rows if key_of(old) != key_of(row)]
        results.write_text(json.dumps([*rows, machine(note) | row], indent=1) + "\n")

    def is_kept(what: Json) -> bool:
        rows = read(results) if results.exists() and only is None else []
        found = [row for row in rows if key_of(row) == key_of(what)]
        return any(row["commit"] == commit().rstrip("+") for row in found)

    with tempfile.TemporaryDirectory() as folder, databases(folder) as made:
        if only is None and not is_kept({"what": "parts"}):
            keep({"what": "parts"} | suggestions() | renewals(made["PostgreSQL"]()))
        for workers, seconds, far in RUNS:
            what = {"what": "run", "workers": workers, "seconds": seconds, "far": far}
            if (only is None or workers in only) and not is_kept(what):
                url = made["PostgreSQL"]()
                keep(row := what | real(url, folder, server, workers, seconds, far))
                print(f"{name_of(row)}: {row['rate']:.2f} trials/s", flush=True)


def read(results: Path) -> list[Json]:
    rows: list[Json] = json.loads(results.read_text())
    return rows


def key_of(row: Json) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("what", "workers", "seconds", "far"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--measure", action="store_true", help="measure the real runs that are missing"
    )
    parser.add_argument("--workers", help="measure these numbers of workers again, e.g. 8,64")
    parser.add_argument(
        "--note", default="", help="a remark on the machine, stored with the results"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.measure:
        only = [int(n) for n in arguments.workers.split(",")] if arguments.workers else None
        measure(arguments.results, arguments.note, only)
    else:
        write(read(arguments.results))


if __name__ == "__main__":
    main()
