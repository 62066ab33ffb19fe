"""Fault injection: `farthing run` is killed at random moments, and nothing may be lost by it.

    python -m benchmarks.faults --count 200               some five seconds each on two idle cores
    python -m benchmarks.faults --database sqlite --count 5 --seed 7
    python -m benchmarks.faults --budget-check            a budget of a minute, trials of any length

Each injection runs the real command with two workers on a database of its own, and kills with
SIGKILL the runner, one worker, the runner and all its workers, or the whole process tree. Then the
same command finishes the study. Meanwhile this process reads the database as often as it can, and
checks the books at every commit that it saw (`Auditor`); afterwards it compares the trials with
what they themselves wrote into a log (`compare`).

Every injection has a folder of its own, and the working directory tells which processes belong to
it: also those that were forked and never executed anything, and those whose parent is dead.

PostgreSQL is the server that FARTHING_TEST_POSTGRES names (`.ci/postgres` starts one). Figures go
to benchmarks/results/faults.json. The exit code is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.speed import commit, cpu_model
from benchmarks.storage import databases
from farthing.cli import main as farthing
from farthing.errors import FarthingError
from farthing.history import Trial
from farthing.ledger import Account
from farthing.state import State
from farthing.storage import Database, DatabaseMemory, find_study
from farthing.tabular import record
from farthing.worker import TICK

RESULTS = Path(__file__).parent / "results" / "faults.json"

EXECUTABLE = Path(sys.executable).parent / "farthing"

WORKERS = 2
GRACE, LEASE = 0.3, 1.5  # seconds
STUDY = "faults"
TARGETS = ("runner", "worker", "runner and workers", "tree")
BUDGETS = ("2s", "3 worker_s", "2s, 3 worker_s")
POLICIES = ("random", "ei", "carbo")
RERUNS = 3  # the command is killed once: the next one should finish
PATIENCE = 120.0  # seconds after which a run is stuck, on however busy a machine
EVERY = 0.01  # seconds between two looks
TOO_LATE = "the command had ended before it could be killed"

# It says when it begins and ends; some leave behind a process that does not care for SIGTERM.
TRIAL = """
echo "start $FARTHING_TRIAL $$" >> log
case $FARTHING_TRIAL in *3|*7) (trap '' TERM; exec sleep 600) & ;; esac
sleep "$0"
echo "end $FARTHING_TRIAL $$" >> log
echo "{\\"value\\": $0}"
"""
# Of unknown length, and not all of them obedient.
LONG_TRIAL = """
case $FARTHING_TRIAL in *1|*5) trap '' TERM ;; esac
sleep "$0"
echo "{\\"value\\": $0}"
"""


# ── processes ──────────────────────────────────────────────────────────────────────────────────


def processes_of(folder: Path) -> dict[int, int]:
    """The processes that work in a folder, and their parents; the dead are in no folder."""
    found = {}
    for name in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(folder):
                stat = Path(f"/proc/{name}/stat").read_text()
                found[int(name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def state_of(pid: int) -> str:
    """T: stopped, Z: dead and not waited for, X: gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def orphans(folder: Path, runner: int | None) -> list[int]:
    """The processes of a folder that do not descend from the runner."""
    parents = processes_of(folder)

    def descends(pid: int) -> bool:
        return pid == runner or (pid in parents and descends(parents[pid]))

    return [pid for pid in parents if not descends(pid)]


def kill(choose: Callable[[], list[int]]) -> int:
    """Kill processes all at once: they are stopped first, so that none sees another die."""
    stopped: set[int] = set()
    while new := set(choose()) - stopped:
        for pid in new:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        # It may still be forking. A parent whose vfork was stopped before it could exec waits for
        # it and never stops itself: not for ever, then.
        patience = time.monotonic() + 0.5
        while any(state_of(p) not in "TtZX" for p in new) and time.monotonic() < patience:
            time.sleep(0.001)
        stopped |= new
    for pid in stopped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(stopped)


class Run:
    """The command in a process of its own.

    It is a fork of this one, because its imports take seconds; or else a fresh interpreter.
    """

    def __init__(self, folder: Path, arguments: list[str], *, fresh: bool = False) -> None:
        self.folder = folder
        self.code: int | None = None
        self.begun, self.took = time.monotonic(), 0.0
        self.pid = os.fork()
        if self.pid == 0:
            self._become(arguments, fresh)

    def _become(self, arguments: list[str], fresh: bool) -> NoReturn:
        try:
            os.setsid()
            os.chdir(self.folder)
            os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
            os.dup2(1, 2)
            if fresh:
                os.execv(EXECUTABLE, [str(EXECUTABLE), *arguments])
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            sys.argv = ["farthing", *arguments]
            farthing()
        except SystemExit as ended:
            sys.stdout.flush()
            os._exit(int(ended.code or 0))
        finally:
            os._exit(99)

    def has_ended(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                self.took = time.monotonic() - self.begun
        return self.code is not None

    @property
    def workers(self) -> list[int]:
        return [pid for pid, parent in processes_of(self.folder).items() if parent == self.pid]

    def of(self, target: str) -> list[int]:
        """The processes of a target; none if it has no workers yet."""
        workers = self.workers
        return {
            "runner": [self.pid],
            "worker": workers[:1],
            "runner and workers": [self.pid, *workers],
            "tree": [self.pid, *processes_of(self.folder)],
        }[target]


# ── the books ──────────────────────────────────────────────────────────────────────────────────


@dataclass
class Auditor:
    """Reads the database beside the command, and checks the books at every commit it sees."""

    url: str
    commits: int = 0
    faults: list[str] = field(default_factory=list)
    stall: float = 0.0  # seconds: the latest that a look was, so busy was the machine
    overspend: float = 0.0  # seconds beyond the limit, the most that was seen
    thought: float = 0.0  # seconds: the longest, which is not broken off
    _memory: DatabaseMemory | None = None
    _database: Database | None = None
    _seen: State | None = None
    _done: dict[int, float | None] = field(default_factory=dict)
    _accounts: dict[str, Account] = field(default_factory=dict)

    def look(self) -> State | None:
        """The study as it is; None before it is made."""
        if self._memory is None:
            self._memory = self._find()
            return None
        state = self._memory.look()
        if state is not self._seen:
            self._seen = state
            self.commits += 1
            self.faults += [f"commit {self.commits}: {fault}" for fault in self._check(state)]
        return state

    def _find(self) -> DatabaseMemory | None:
        file = Path(self.url.removeprefix("sqlite:///"))
        if self.url.startswith("sqlite") and not file.exists():
            return None
        self._database = Database(self.url)
        try:
            return DatabaseMemory(self._database, find_study(self._database, STUDY).id)
        except FarthingError:  # not made yet
            self._database.close()
            return None

    def _check(self, state: State) -> Iterator[str]:
        history, ledger = state.history, state.ledger
        numbers = [trial.number for trial in history]
        if numbers != list(range(len(history))):
            yield f"there are the trials {numbers}"
        running = {trial.number for trial in history if trial.state == "running"}
        if set(ledger.holds) != running:
            yield f"{sorted(ledger.holds)} hold something, {sorted(running)} run"
        for name in ledger:
            account = ledger[name]
            # Time passes for all trials together, and is not the sum of theirs.
            spent = account.spent if name == "s" else paid(history, name)
            if not math.isclose(spent + account.reserved + account.left, account.limit):
                yield f"{name}: {spent} paid, {account} does not add up"
            before = self._accounts.get(name, Account(account.limit))
            if account.spent < before.spent or account.limit != before.limit:
                yield f"{name}: {before} became {account}"
            self._accounts[name] = account
            self.thought = max(self.thought, account.thinking - before.thinking)
            self.overspend = max(self.overspend, account.spent + account.reserved - account.limit)
        for number, value in self._done.items():
            if history[number].state != "done" or history[number].value != value:
                yield f"trial {number} was done ({value}) and is {history[number].state}"
        self._done = {t.number: t.value for t in history if t.state == "done"}

    def wait(self, happened: Callable[[State | None], bool], patience: float = PATIENCE) -> bool:
        """Look until something has happened; how the machine keeps us waiting is noted."""
        deadline = time.monotonic() + patience
        while True:
            begun, is_found = time.monotonic(), self._memory is not None
            if happened(self.look()):
                return True
            if begun > deadline:
                return False
            time.sleep(EVERY)
            if is_found:
                self.stall = max(self.stall, time.monotonic() - begun - EVERY)

    def records(self) -> list[dict[str, Any]]:
        """Everything that is stored of the trials."""
        assert self._memory is not None
        return [record(trial) for trial in self._memory.look().history]

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


def paid(history: Iterable[Trial], resource: str) -> float:
    """What the trials that are over have cost."""
    return math.fsum(t.cost.get(resource, 0.0) for t in history if t.state != "running")


def compare(rows: list[dict[str, Any]], log: str) -> Iterator[tuple[str, str]]:
    """What the database says of the trials and what they wrote themselves: (kind, sentence)."""
    lines = [line.split() for line in log.splitlines()]
    started = Counter(int(number) for word, number, _ in lines if word == "start")
    ended = Counter(int(number) for word, number, _ in lines if word == "end")
    known = {row["number"]: row for row in rows}
    for number, times in started.items():
        if number not in known:
            yield "lost", f"trial {number} was run, but is not there"
        elif times > 1:
            yield "duplicate", f"trial {number} was run {times} times"
    for number, row in known.items():
        if row["state"] == "running":
            yield "lost", f"trial {number} is still running"
        if row["state"] == "done" and ended[number] != 1:
            yield "duplicate", f"trial {number} is done and ended {ended[number]} times"
        if row["state"] == "done" and row["value"] != row["params"]["seconds"]:
            yield "lost", f"trial {number} has the value {row['value']} of another"
    first = [row for row in rows if row["attempt"] == 1]
    for point, times in Counter(row["params"]["seconds"] for row in first).items():
        if times > 1:
            yield "duplicate", f"{point} was suggested {times} times"
    # A worker that was killed between the end of its trial and telling of it loses that one.
    told = {number for number, row in known.items() if row["state"] == "done"}
    untold = Counter(known[number]["worker"] for number in ended.keys() & known.keys() - told)
    for worker, times in untold.items():
        if times > 1:
            yield "lost", f"worker {worker} has not told of {times} trials that ended"


# ── one injection ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Injection:
    """What is killed, and when.

    Attributes:
        share: of the budget that is spent by then; None: while the command begins.
        delay: seconds after that.
    """

    target: str
    share: float | None
    delay: float
    budget: str
    policy: str

    @classmethod
    def draw(cls, seed: int, number: int) -> Injection:
        """Injection `number` of a sequence; targets take turns."""
        rng = random.Random(f"{seed} {number}")
        target = TARGETS[number % len(TARGETS)]
        early = target != "worker" and rng.random() < 0.15
        return cls(
            target=target,
            share=None if early else rng.uniform(0.0, 0.8),
            delay=rng.uniform(0.0, 0.3 if early else 0.1),
            budget=rng.choice(BUDGETS),
            policy=rng.choice(POLICIES),
        )

    def command(self, url: str) -> list[str]:
        study = ["--storage", url, "--name", STUDY, "--budget", self.budget]
        terms = ["--grace", f"{GRACE}s", "--lease", f"{LEASE}s", "--retries", "1"]
        how = ["--workers", str(WORKERS), "--policy", self.policy]
        space = ["--param", "seconds=float:0.05:0.3"]
        return ["run", *study, *terms, *how, *space, "--", "sh", "-c", TRIAL, "{seconds}"]


@dataclass(frozen=True)
class Found:
    """What an injection showed.

    Attributes:
        killed: how many processes were.
        codes: how the command ended, each time it was run.
        commits: that were seen.
        survived_s: how long processes outlived the one they belonged to.
        survivors: how many outlived it for too long.
        overspend: beyond the limit, in seconds.
        allowed: a tick, which is as late as `stall`, and the grace period for every worker; and a
            thought that began in time.
        stall: how late a tick of our own was, because the machine was busy.
        thought: seconds that the longest one took.
        faults: all of them, in words.
    """

    injection: Injection
    killed: int
    codes: list[int | None]
    trials: int
    commits: int
    survived_s: float
    survivors: int
    lost: int
    duplicates: int
    overspend: float
    allowed: float
    stall: float
    thought: float
    faults: list[str]


def inject(url: str, folder: Path, injection: Injection, *, fresh: bool = False) -> Found:
    """Run the command, kill, and let the same command finish; nothing of it is left afterwards."""
    command = injection.command(url)
    with running(folder, fresh=fresh) as start, auditing(url) as auditor:
        return _inject(lambda: start(command), auditor, folder, injection)


@contextmanager
def running(folder: Path, *, fresh: bool = False) -> Iterator[Callable[[list[str]], Run]]:
    """Something that runs the command in a folder; whatever happens, no process stays behind."""
    runs: list[Run] = []

    def start(command: list[str]) -> Run:
        runs.append(Run(folder, command, fresh=fresh))
        return runs[-1]

    try:
        yield start
    finally:
        kill(lambda: [*processes_of(folder), *(run.pid for run in runs if not run.has_ended())])
        while not all(run.has_ended() for run in runs):
            time.sleep(EVERY)


@contextmanager
def auditing(url: str) -> Iterator[Auditor]:
    auditor = Auditor(url)
    try:
        yield auditor
    finally:
        auditor.close()


def _inject(
    start: Callable[[], Run], auditor: Auditor, folder: Path, injection: Injection
) -> Found:
    run = start()
    codes: list[int | None] = []
    auditor.wait(lambda state: run.has_ended() or _is_time(run, state, injection))
    auditor.wait(lambda _: False, patience=injection.delay)
    killed = 0 if run.has_ended() else kill(lambda: run.of(injection.target))
    at, survived = time.monotonic(), 0.0

    def ended(_: State | None) -> bool:
        nonlocal survived
        if orphans(folder, None if run.code is not None else run.pid):
            survived = time.monotonic() - at
        return run.has_ended()

    faults, took = [], 0.0
    for _ in range(1 + RERUNS):
        if not auditor.wait(ended):
            faults.append(f"the command was stuck: {(folder / 'said').read_text()[-500:]}")
            break
        codes.append(run.code)
        took += run.took
        if run.code in (0, 1):
            break
        run = start()
    too_late = GRACE + LEASE + auditor.stall
    auditor.wait(lambda _: ended(_) and not orphans(folder, None), patience=too_late)
    survivors = orphans(folder, None)
    state, rows = auditor.look(), auditor.records()
    finished = 0 if any(row["state"] == "done" for row in rows) else 1
    if codes[-1:] != [finished]:
        faults.append(f"exit codes {codes}: {(folder / 'said').read_text()[-500:]}")
    log = folder / "log"
    compared = list(compare(rows, log.read_text() if log.exists() else ""))
    allowed = WORKERS * (TICK[0] + GRACE + auditor.stall) + auditor.thought
    faults += auditor.faults + [sentence for _, sentence in compared]
    if killed == 0:
        faults.append(TOO_LATE)
    if survivors or survived > too_late:
        faults.append(f"{len(survivors)} processes left, the last seen after {survived:.2f} s")
    if auditor.overspend > allowed:
        faults.append(f"{auditor.overspend:.2f} s were overspent, {allowed:.2f} s are allowed")
    if state is not None and "s" in state.ledger and state.ledger["s"].spent > took:
        faults.append(f"{state.ledger['s'].spent:.2f} s were charged for {took:.2f} s of work")
    return Found(
        injection,
        killed,
        codes,
        len(rows),
        auditor.commits,
        survived,
        len(survivors),
        sum(kind == "lost" for kind, _ in compared),
        sum(kind == "duplicate" for kind, _ in compared),
        auditor.overspend,
        allowed,
        auditor.stall,
        auditor.thought,
        faults,
    )


def _is_time(run: Run, state: State | None, injection: Injection) -> bool:
    """Whether as much is spent as was drawn, and there is somebody to kill."""
    if injection.share is None:
        return True
    if state is None or not run.of(injection.target):
        return False
    spent = max(state.ledger[name].spent / state.ledger[name].limit for name in state.ledger)
    return spent >= injection.share


# ── a budget and trials of any length ──────────────────────────────────────────────────────────


def overrun(
    url: str, folder: Path, *, seconds: float, grace: float, workers: int
) -> dict[str, Any]:
    """Trials of 0.1 to 60 s on a budget of time: how long it took, and how much was charged."""
    command = ["run", "--storage", url, "--name", STUDY, "--budget", f"{seconds}s"]
    command += ["--grace", f"{grace}s", "--workers", str(workers), "--policy", "random"]
    command += ["--param", "seconds=float:0.1:60:log", "--", "sh", "-c", LONG_TRIAL, "{seconds}"]
    with running(folder) as start, auditing(url) as auditor:
        run = start(command)
        ended = auditor.wait(lambda _: run.has_ended(), patience=seconds + grace + PATIENCE)
        assert ended, (folder / "said").read_text()
        rows, left = auditor.records(), len(processes_of(folder))
    return {
        "budget": seconds,
        "grace": grace,
        "workers": workers,
        "took": run.took,
        "overspend": auditor.overspend,
        "stall": auditor.stall,
        "thought": auditor.thought,
        "states": dict(Counter(row["state"] for row in rows)),
        "left": left,
        "faults": auditor.faults,
    }


# ── many of them ───────────────────────────────────────────────────────────────────────────────


def inject_many(
    new_url: Callable[[], str], count: int, seed: int, *, fresh: bool
) -> Iterator[Found]:
    for number in range(count):
        with tempfile.TemporaryDirectory(prefix="farthing-faults-") as name:
            folder = Path(name).resolve()
            yield inject(new_url(), folder, Injection.draw(seed, number), fresh=fresh)


def table_of(found: dict[str, list[Found]]) -> Any:
    """The figures that matter, a row for each database and target."""
    from rich.table import Table

    names = ("database", "killed", "times", "commits", "trials", "survivors", "lost", "twice")
    names += ("overspent", "allowed", "with faults")
    table = Table(*names)
    for where, all_of in found.items():
        for target in TARGETS:
            some = [one for one in all_of if one.injection.target == target]
            if some:
                table.add_row(where, target, *map(str, _row(some)))
        table.add_section()
    return table


def _row(some: list[Found]) -> list[Any]:
    return [
        len(some),
        sum(one.commits for one in some),
        sum(one.trials for one in some),
        sum(one.survivors for one in some),
        sum(one.lost for one in some),
        sum(one.duplicates for one in some),
        f"{max(one.overspend for one in some):.2f} s",
        f"{max(one.allowed for one in some):.2f} s",
        sum(bool(one.faults) for one in some),
    ]


def keep(part: str, figures: Any, results: Path) -> None:
    """Write a part of the results file, and leave the others as they are."""
    before = json.loads(results.read_text()) if results.exists() else {}
    run = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}
    run |= {"cpu": cpu_model(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps({**before, part: {"run": run, **figures}}, indent=1) + "\n")


def check_budget(made: dict[str, Callable[[], str]], results: Path) -> bool:
    figures = {}
    for where, url in made.items():
        with tempfile.TemporaryDirectory(prefix="farthing-faults-") as name:
            folder = Path(name).resolve()
            figures[where] = overrun(url(), folder, seconds=60.0, grace=5.0, workers=8)
        print(where, figures[where], flush=True)
    keep("budget", figures, results)
    return all(
        not of["faults"] and of["left"] == 0 and of["overspend"] <= of["grace"] + TICK[1]
        for of in figures.values()
    )


def inject_all(made: dict[str, Callable[[], str]], arguments: argparse.Namespace) -> bool:
    from rich.console import Console
    from rich.progress import Progress

    console, found = Console(), {where: list[Found]() for where in made}
    # It must not have a thread of its own: this process is forked.
    quiet = {"auto_refresh": False, "redirect_stdout": False, "redirect_stderr": False}
    with Progress(console=console, **quiet) as progress:
        for where, url in made.items():
            bar = progress.add_task(where, total=arguments.count)
            many = inject_many(url, arguments.count, arguments.seed, fresh=arguments.fresh)
            for one in many:
                found[where].append(one)
                progress.advance(bar)
                progress.refresh()
                for fault in one.faults:
                    number = len(found[where]) - 1
                    progress.print(f"{where} {number} {one.injection}: {fault}", markup=False)
    console.print(table_of(found))
    figures = {where: [asdict(one) for one in all_of] for where, all_of in found.items()}
    keep("injections", {"seed": arguments.seed, "found": figures}, arguments.results)
    return not any(one.faults for all_of in found.values() for one in all_of)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="of injections, on each database")
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="a new interpreter for each run")
    parser.add_argument("--budget-check", action="store_true", help="instead: a budget of 60 s")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    wanted = {"sqlite": ["SQLite"], "postgres": ["PostgreSQL"]}.get(arguments.database)
    with tempfile.TemporaryDirectory() as folder, databases(folder) as made:
        chosen = {where: url for where, url in made.items() if wanted is None or where in wanted}
        if len(chosen) < len(wanted or ["SQLite", "PostgreSQL"]):
            parser.error("FARTHING_TEST_POSTGRES does not name a server: .ci/postgres starts one")
        check = check_budget(chosen, arguments.results) if arguments.budget_check else None
        passed = inject_all(chosen, arguments) if check is None else check
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
