"""Suggestion time, log EI and predictive density of Farthing and its peers, in one run.

In spaces that not all peers support, Farthing's default policy is compared with its own EI.

    python -m benchmarks.speed                       everything: about half an hour on two cores
    python -m benchmarks.speed --quick               a short version in a minute or two
    python -m benchmarks.speed --only time --peers optuna,botorch

Run `python benchmarks/evidence/install_peers.py` first. Results go to benchmarks/results/speed.json
and docs/speed.md. If a part runs again, it replaces only its own results. A quick run writes both
files beside the peers' environment. The table shows peers that are missing, fail or hang.

Times are only compared within one run: at every (n, d) the libraries wait in their own processes
and take turns, so that other work on the machine affects them equally.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.evidence.install_peers import RECORD, REPO, SHARED
from benchmarks.speed import page as speed_page
from benchmarks.speed.peers import PEERS

Json = dict[str, Any]
Clocks = tuple[float, float | None, float]  # seconds: wall, busy cores, our own processes

TOO_SLOW = 10.0  # seconds: a slower library is not measured at a larger n
PATIENCE = 600.0  # seconds without an answer after which a library hangs
PAUSE = 0.05  # seconds before a turn, so that the threads of the last library become idle
LARGE = {"n": 5000, "d": 8, "seed": 0}
LARGE_SUGGESTIONS = 10


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    dimensions: tuple[int, ...]
    sizes: tuple[int, ...]
    rounds: int  # suggestions of each peer at one (n, d); fewer from n = 200
    log_ei_problems: int
    density_splits: int
    own_sizes: tuple[int, ...]
    own_rows: int  # of the table
    results: Path
    page: Path


FULL = Plan(
    dimensions=(8, 4, 16),
    sizes=(25, 50, 100, 200, 400, 800),
    rounds=3,
    log_ei_problems=20,
    density_splits=4,
    own_sizes=(25, 100, 400),
    own_rows=60_000,
    results=REPO / "benchmarks" / "results" / "speed.json",
    page=REPO / "docs" / "speed.md",
)
QUICK = Plan(
    dimensions=(4,),
    sizes=(25, 50),
    rounds=2,
    log_ei_problems=4,
    density_splits=1,
    own_sizes=(25,),
    own_rows=5_000,
    results=SHARED / "speed-quick.json",
    page=SHARED / "speed-quick.md",
)


# ── the processes ──────────────────────────────────────────────────────────────────────────────


class PeerError(Exception):
    """A library could not answer. The message gives the reason."""


class Worker:
    """One library in its own process, which answers JSON lines."""

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.speed.peers", name],
            cwd=REPO,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.complaints: deque[str] = deque(maxlen=20)
        self.listeners = [
            threading.Thread(target=listen, daemon=True)
            for listen in (self._listen_to_complaints, self._listen)
        ]
        for listener in self.listeners:
            listener.start()
        self.cpu_seconds = 0.0  # of all its threads, when it last answered
        self.versions: dict[str, str] = self._answer(PATIENCE)["versions"]

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(line)
        self.listeners[0].join()  # read the last error before the end
        self.answers.put(None)

    def _listen_to_complaints(self) -> None:
        assert self.process.stderr is not None
        self.complaints.extend(line.strip() for line in self.process.stderr if line.strip())

    def _answer(self, patience: float) -> Json:
        try:
            line = self.answers.get(timeout=patience)
        except queue.Empty:
            self.close()
            raise PeerError(f"no answer in {patience:.0f} s") from None
        if line is None:
            last = self.complaints[-1] if self.complaints else "no message"
            raise PeerError(f"its process ended: {last}")
        answer: Json = json.loads(line)
        self.cpu_seconds = answer.get("cpu_seconds", 0.0)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def ask(self, **request: Any) -> Json:
        """Send a request and wait for the answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # `_answer` finds the reason
        return self._answer(PATIENCE)

    def suggest(self, k: int) -> list[float]:
        """Seconds of k consecutive suggestions (fewer if too slow)."""
        seconds: list[float] = self.ask(suggest=k, limit=TOO_SLOW)["seconds"]
        return seconds

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def installed(peer: str) -> tuple[Path | None, str | None]:
    """(Python that has the library, or the reason why there is none), from install_peers.py."""
    if not RECORD.exists():
        return None, "not installed: run python benchmarks/evidence/install_peers.py"
    distribution = PEERS[peer][1][0]
    entry = json.loads(RECORD.read_text())[distribution]
    if entry["error"]:
        return None, f"not installed: {entry['error']}"
    return REPO / entry["python"], None


def warm(name: str) -> Worker:
    """A worker that has made its first suggestions, so that imports and compilation are done."""
    python, error = installed(name)
    if python is None:
        raise PeerError(error)
    worker = Worker(name, python)
    worker.ask(start={"n": 25, "d": 4, "seed": 1})
    worker.suggest(3)
    return worker


# ── suggestion time ────────────────────────────────────────────────────────────────────────────


def refit_cycle(n: int) -> int:
    """The number of suggestions with one refit of Farthing, which comes when n grew by a tenth."""
    return max(5, math.ceil(n / 10) + 1)


class Stopwatch:
    """All libraries at every (n, d), taking turns."""

    def __init__(self, peers: list[str], rounds: int) -> None:
        self.rounds = rounds
        self.workers: dict[str, Worker] = {}
        self.failed: dict[str, str] = {}  # libraries that do not start
        self.skip: dict[tuple[str, int], str] = {}  # (library, d) -> the reason to skip larger n
        for name in peers:
            say(f"starting {name}")
            self._start(name)

    def _start(self, name: str) -> None:
        try:
            self.workers[name] = warm(name)
        except PeerError as error:
            self.failed[name] = str(error)

    def close(self) -> None:
        """End every process."""
        for worker in self.workers.values():
            worker.close()

    def measure(self, n: int, d: int) -> list[Json]:
        """One record per library. The libraries take turns; the first suggestion is separate."""
        rounds = self.rounds if n < 200 else min(self.rounds, 3)
        before = self._clocks()
        records: dict[str, Json] = {}
        waiting: list[str] = []
        for name in (*self.workers, *self.failed):
            records[name] = {"peer": name, "n": n, "d": d, "seconds": []}
            if reason := self.failed.get(name) or self.skip.get((name, d)):
                records[name]["skipped"] = reason
            elif self._turn(records[name], first=True):
                waiting.append(name)
        for _ in range(rounds):
            for name in list(waiting):
                if not self._turn(records[name], k=self._share(name, n, rounds)):
                    waiting.remove(name)
        others = other_work(before, self._clocks())
        return [{**record, "others": others} for record in summarised(list(records.values()))]

    def _clocks(self) -> Clocks:
        """Seconds so far: wall time, busy time of all cores, CPU time of our processes."""
        own = time.process_time() + sum(worker.cpu_seconds for worker in self.workers.values())
        return time.monotonic(), busy_seconds(), own

    def _share(self, name: str, n: int, rounds: int) -> int:
        """Suggestions in one turn: one. Farthing's refit cycle is spread over the rounds."""
        return math.ceil(refit_cycle(n) / rounds) if name == "farthing" else 1

    def _turn(self, record: Json, *, k: int = 1, first: bool = False) -> bool:
        """Add k suggestions to a record. Return False after the library's last turn."""
        name, n, d = record["peer"], record["n"], record["d"]
        try:
            if not self.workers[name].alive:
                self.workers[name] = warm(name)
            worker = self.workers[name]
            if first:
                worker.ask(start={"n": n, "d": d, "seed": n + d})
            time.sleep(PAUSE)
            seconds = worker.suggest(k)
        except PeerError as error:
            record["error"] = str(error)
            self.skip[name, d] = f"skipped: failed at n = {n}"
            return False
        if first:
            record["first"] = seconds[0]
        else:
            record["seconds"] += seconds
        if seconds[-1] > TOO_SLOW:
            self.skip[name, d] = f"skipped: slower than {TOO_SLOW:.0f} s at n = {n}"
        return first or seconds[-1] <= TOO_SLOW


def busy_seconds() -> float | None:
    """Busy seconds of all cores since the machine started, including steal time."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    user, nice, system, _idle, _wait, irq, soft, steal = map(int, stat.read_text().split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def other_work(before: Clocks, after: Clocks) -> float | None:
    """Share of the machine that other programs used between two readings; None: unknown."""
    if before[1] is None or after[1] is None:
        return None
    wall, busy, own = after[0] - before[0], after[1] - before[1], after[2] - before[2]
    return max(0.0, busy - own) / (wall * (os.cpu_count() or 1))


def summarised(records: list[Json]) -> list[Json]:
    """Records with mean, median and the ratio of the mean to Farthing's in this run."""
    for record in records:
        if record["seconds"]:
            record["mean"] = statistics.fmean(record["seconds"])
            record["median"] = statistics.median(record["seconds"])
    ours = next((r["mean"] for r in records if r["peer"] == "farthing" and "mean" in r), None)
    for record in records:
        if ours and "mean" in record:
            record["ratio"] = record["mean"] / ours
    return records


def times(plan: Plan, peers: list[str]) -> Iterator[tuple[list[Json], dict[str, Json]]]:
    """Yield, after each (n, d), its records and the facts about each library."""
    stopwatch = Stopwatch(peers, plan.rounds)
    cases = [(n, d) for d in plan.dimensions for n in plan.sizes]
    try:
        for i, (n, d) in enumerate(cases, start=1):
            records = stopwatch.measure(n, d)
            say(f"[{i}/{len(cases)}] d = {d}, n = {n}: " + ", ".join(map(brief, records)))
            if speed_page.disturbed(records[0]):
                share = f"{records[0]['others']:.0%}"
                say(f"  other work took {share} of the machine: these times decide nothing")
            known = {name: {"versions": w.versions} for name, w in stopwatch.workers.items()}
            yield records, {**known, **{n: {"error": e} for n, e in stopwatch.failed.items()}}
    finally:
        stopwatch.close()


def brief(record: Json) -> str:
    """One library's part of a progress line."""
    if "mean" not in record:
        return f"{record['peer']} {record.get('error') or record.get('skipped')}"
    ratio = f" ({record['ratio']:.1f}x)" if "ratio" in record else ""
    return f"{record['peer']} {record['mean'] * 1e3:.0f} ms{ratio}"


def large() -> Json:
    """Farthing with thousands of observations, in a fresh process to measure its peak memory."""
    say(f"farthing with n = {LARGE['n']}, d = {LARGE['d']}")
    worker = warm("farthing")
    try:
        worker.ask(start=LARGE)
        (first,) = worker.suggest(1)
        seconds = worker.suggest(LARGE_SUGGESTIONS)
        peak = worker.ask(suggest=0, limit=TOO_SLOW)["peak_mib"]
    finally:
        worker.close()
    mean, median = statistics.fmean(seconds), statistics.median(seconds)
    found = {"first": first, "seconds": seconds, "mean": mean, "median": median, "peak_mib": peak}
    say(f"  first {first:.2f} s, then {mean:.2f} s each, at most {peak:.0f} MiB")
    return {**LARGE, **found}


# ── the other comparisons, each in its own process ───────────────────────────────────────────


def stream(module: str, *arguments: object, peer: str = "botorch") -> Iterator[Json]:
    """The JSON lines that a module prints, run by the Python that has a peer."""
    python, error = installed(peer)
    if python is None:
        raise PeerError(f"{peer} {error}")
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [python, "-m", module, *map(str, arguments)],
            cwd=REPO,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
        if process.wait():
            log.seek(0)
            raise PeerError(f"{module} ended: {log.read().strip().splitlines()[-1]}")


def log_ei(plan: Plan) -> list[Json]:
    """Log EI of the suggested points on the same posterior."""
    rows = []
    for row in stream("benchmarks.speed.log_ei", plan.log_ei_problems):
        say(f"log EI: {row['problem']}, n = {row['n']}: ahead by {row['ahead']:+.4f} nats")
        rows.append(row)
    return rows


def own(plan: Plan) -> list[Json]:
    """The default policy with a learnt cost, in a continuous and a mixed space and a table."""
    rows = []
    sizes = ",".join(map(str, plan.own_sizes))
    for row in stream("benchmarks.speed.own", sizes, plan.own_rows, peer="farthing"):
        say(f"{row['case']}, n = {row['n']}: {1e3 * row['median']:.0f} ms ({row['ratio']:.1f}x)")
        rows.append(row)
    return rows


def density(plan: Plan) -> list[Json]:
    """Predictive log density of held-out points."""
    rows = []
    for row in stream("benchmarks.speed.density", plan.density_splits):
        figures = ", ".join(f"{name} {value:.2f}" for name, value in row["all"].items())
        say(f"log density: {row['problem']}: {figures}")
        rows.append(row)
    return rows


# ── the run ────────────────────────────────────────────────────────────────────────────────────


def describe_run(quick: bool) -> Json:
    """The machine, versions, date and commit of a run."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "threads": {name: os.environ[name] for name in threads if name in os.environ},
        "quick": quick,
    }


def commit() -> str:
    """Short hash of HEAD, with a + if the tree differs from it."""
    git = ["git", "-C", str(REPO)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        return "none"
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], capture_output=True)
    return head.stdout.strip() + ("+" if changed.returncode else "")


def cpu_model() -> str:
    """The processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


STARTED = time.monotonic()


def say(message: str) -> None:
    """Print progress with the elapsed minutes."""
    print(f"{(time.monotonic() - STARTED) / 60:5.1f} min  {message}", flush=True)


def save(results: Json, plan: Plan) -> None:
    """Write the results and the page, and drop runs without results."""
    parts = [
        *results["times"],
        *(results[p] for p in ("large", "own", "log_ei", "density") if p in results),
    ]
    used = {part["run"] for part in parts}
    results["runs"] = {key: run for key, run in results["runs"].items() if key in used}
    plan.results.parent.mkdir(parents=True, exist_ok=True)
    plan.results.write_text(json.dumps(results, indent=1) + "\n")
    plan.page.parent.mkdir(parents=True, exist_ok=True)
    plan.page.write_text(speed_page.write(results))


def main() -> int:
    """Measure the chosen parts, and save after every step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="a short version of everything")
    parser.add_argument(
        "--only", choices=("time", "own", "ei", "density"), help="run only this part"
    )
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    arguments = parser.parse_args()
    peers = ["farthing", *(p for p in arguments.peers.split(",") if p != "farthing")]
    if unknown := set(peers) - set(PEERS):
        parser.error(f"unknown peers {sorted(unknown)}: expected some of {', '.join(PEERS)}")
    plan = QUICK if arguments.quick else FULL
    run = describe_run(arguments.quick)
    key = run["date"]
    results: Json = {"runs": {}, "peers": {}, "times": []}
    if plan.results.exists():
        results = json.loads(plan.results.read_text())
    results["runs"][key] = run

    def wanted(part: str) -> bool:
        return arguments.only in (None, part)

    problems = []
    if wanted("time"):
        for records, known in times(plan, peers):
            fresh = {(r["peer"], r["n"], r["d"]) for r in records}
            kept = [r for r in results["times"] if (r["peer"], r["n"], r["d"]) not in fresh]
            results["times"] = kept + [{**record, "run": key} for record in records]
            results["peers"].update(known)
            save(results, plan)
    steps = {"large": large} if wanted("time") else {}
    if wanted("own"):
        steps["own"] = lambda: {"rows": own(plan)}
    if wanted("ei"):
        steps["log_ei"] = lambda: {"rows": log_ei(plan)}
    if wanted("density"):
        steps["density"] = lambda: {"rows": density(plan)}
    for name, step in steps.items():
        try:
            results[name] = {**step(), "run": key}
        except PeerError as error:
            say(f"{name} FAILED: {error}")
            results[name] = {"error": str(error), "run": key}
            problems.append(name)
        save(results, plan)
    say(f"wrote {plan.results.relative_to(REPO)} and {plan.page.relative_to(REPO)}")
    if arguments.quick:
        print(plan.page.read_text())
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
