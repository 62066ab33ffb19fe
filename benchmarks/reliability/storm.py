"""Many workers, and random signals to their processes; every committed state is checked.

    python -m benchmarks reliability storm --signals 200       about half an hour on a busy machine
    python -m benchmarks reliability storm --workers 4         sessions with four workers
    python -m benchmarks reliability storm --table             print the kept results

A session is one study with 1, 4 or 16 workers and a budget of one to three resources. Its trials
are short programs that report their price when they end, or trainings that pause and resume
(`logged_training`). In sessions of unknown prices, the budget pays for four trials: nothing may be
overspent, and only one trial may run before the first price is known. At random moments a worker, a
supervisor, an evaluation or the process that started the workers gets SIGKILL or SIGTERM, or is
stopped for up to two leases. If nothing runs any more, the study is run again, until its budget is
spent.

What must hold, in every commit and at the end: spent + reserved + left = limit + overspent, where
spent is the sum of the costs of all trials; no value changes or disappears; every trial that had
ended when its worker was killed is stored with its value; no trial runs twice under one number;
nothing hangs, and no process is left. How much is overspent is measured: the time for which a
process was stopped, and what one tick per worker costs, are allowed.

Each session is a line of benchmarks/results/storm.jsonl.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.reliability.faults.books import STUDY, Auditor, auditing, compare
from benchmarks.reliability.faults.inside import UNBALANCED, audit_commits
from benchmarks.reliability.faults.kept import keep_session, kept
from benchmarks.reliability.faults.processes import (
    ALIVE,
    Run,
    kill,
    processes_of,
    running,
    send,
    state_of,
)
from benchmarks.reliability.logged_training import LAST, train
from benchmarks.speed.storage import databases
from farthing import Float, Steps, Study
from farthing.core.state import State
from farthing.errors import FarthingError
from farthing.policies import ASHA, Random
from farthing.running import CommandTask
from farthing.running.measuring import family
from farthing.running.survivors import sweep
from farthing.running.worker import TICK
from farthing.storage import close_sqlite_files

RESULTS = Path(__file__).resolve().parents[1] / "results" / "storm.jsonl"
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)
TARGETS = ("worker", "worker", "guard", "evaluation", "runner")
GRACE, LEASE, STUCK = 0.3, 1.5, 300.0  # seconds
ENDING = 60.0  # seconds until processes that were told to end have ended, even on a busy machine
BUDGETS = (
    {"usd": 30.0},
    {"worker_s": 10.0},
    {"s": 12.0, "usd": 60.0},
    {"s": 12.0, "worker_s": 30.0, "usd": 60.0},
)
PRICE = 1.0  # dollars of a trial, or of a step of a training
FEW = {"usd": 4 * PRICE}

# It logs its start and end, and reports its price when it ends.
TRIAL = """
echo "start $FARTHING_TRIAL $$" >> log
case $FARTHING_TRIAL in *3|*7) (trap '' TERM; exec sleep 600) & ;; esac
sleep "$0"
echo "{\\"value\\": $0, \\"cost\\": {\\"usd\\": 1.0}}"
echo "end $FARTHING_TRIAL $$" >> log
"""


@dataclass(frozen=True)
class Session:
    """A study and the number of signals.

    Attributes:
        pauses: whether its trials are trainings.
        unknown: whether the budget pays for so few trials that it matters that prices are unknown.
    """

    seed: int
    database: str
    workers: int
    budget: dict[str, float]
    pauses: bool
    signals: int = 40
    unknown: bool = False

    @classmethod
    def draw(cls, seed: int, database: str, workers: int | None = None) -> Session:
        rng = random.Random(f"storm {seed}")
        drawn, budget, pauses = rng.choice((1, 4, 16, 16)), rng.choice(BUDGETS), rng.random() < 0.4
        if rng.random() < 0.4:
            drawn = rng.choice((1, 4, 16))
            return cls(seed, database, workers or drawn, FEW, pauses=False, unknown=True)
        return cls(seed, database, workers or drawn, budget, pauses)


@dataclass
class Found:
    """The result of a session.

    Attributes:
        signals: "signal target", in the order in which they were sent.
        stopped: seconds for which processes were stopped.
        overspent: by resource.
        faults: a sentence for each.
    """

    session: Session
    signals: list[str] = field(default_factory=list)
    codes: list[int | None] = field(default_factory=list)
    trials: int = 0
    commits: int = 0
    stopped: float = 0.0
    overspent: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def work(url: str, folder: Path, session: Session) -> None:
    """Run the study in a forked process, and exit."""
    close_sqlite_files()
    audit_commits(folder)
    settings: dict[str, Any] = {"space": {"seconds": Float(0.05, 0.3)}, "policy": Random()}
    if session.pauses:
        settings = {"space": {"lr": Float(0.5, 0.99)}, "policy": ASHA(), "steps": Steps(LAST)}
    task: Any = train if session.pauses else CommandTask(["sh", "-c", TRIAL, "{seconds}"])
    try:
        study = Study.create(
            url,
            name=STUDY,
            budget=session.budget,
            grace=GRACE,
            lease=LEASE,
            logs=str(folder / "logs"),
            failures_in_a_row=0,
            retries=1,
            seed=session.seed,
            **settings,
        )
        study.run(task, workers=session.workers)
    except FarthingError as error:
        print(error, flush=True)
        raise SystemExit(3) from error
    raise SystemExit(0)


def targets(run: Run, target: str) -> list[int]:
    """The processes of a kind. A single worker is the runner itself."""
    parents = processes_of(run.folder)
    children = [pid for pid, parent in parents.items() if parent == run.pid]
    workers = children if run.is_pool else [run.pid]
    guards = [pid for pid, parent in parents.items() if parent in workers]
    evaluations = [pid for pid, parent in parents.items() if parent in guards]
    found = {"worker": workers, "guard": guards, "evaluation": evaluations, "runner": [run.pid]}
    return found[target]


def strike(run: Run, auditor: Auditor, rng: random.Random, found: Found) -> None:
    """Send one signal to one process, if there is one."""
    number, target = rng.choice(SIGNALS), rng.choice(TARGETS)
    chosen = targets(run, target)
    if not chosen or run.has_ended():
        return
    pid = rng.choice(chosen)
    found.signals.append(f"{number.name} {target}")
    if number == signal.SIGSTOP:
        began = time.monotonic()
        send(signal.SIGSTOP, [pid])
        auditor.rest(rng.uniform(0.1, 2 * LEASE))
        send(signal.SIGCONT, [pid])
        found.stopped += time.monotonic() - began
    elif number == signal.SIGKILL:
        kill(lambda: [pid], partial(_note, run.folder, pid))
    else:
        _note(run.folder, pid)
        send(number, [pid])


def _note(folder: Path, pid: int) -> None:
    """Note the descendants of a process that have not ended: those end with it."""
    found = [each for each in family(pid) if state_of(each) not in "ZX"]
    with (folder / ALIVE).open("a") as file:
        file.write("".join(f"{each}\n" for each in found))


def hold(url: str, folder: Path, session: Session) -> Found:
    """Run a session, check it, and leave no process behind."""
    found, rng = Found(session), random.Random(f"signals {session.seed}")
    also = blind if session.unknown else None
    with running(folder) as runs, auditing(url, folder, also) as auditor:

        def start() -> Run:
            inside = partial(work, url, folder, session)
            runs.append(Run(folder, [], workers=session.workers, inside=inside))
            return runs[-1]

        run = start()
        while True:
            while len(found.signals) < session.signals and not run.has_ended():
                auditor.wait(lambda _, run=run: run.has_ended(), patience=rng.uniform(0.05, 0.5))
                strike(run, auditor, rng, found)
            if not auditor.wait(lambda _, run=run: run.has_ended(), patience=STUCK):
                found.faults.append(f"the run was stuck: {_text(folder / 'output')[-500:]}")
                return found
            found.codes.append(run.code)
            if run.code == 0 and _is_over(auditor.look()):
                break
            if len(found.codes) > 2 * session.signals + 3:
                found.faults.append(f"codes {found.codes}: {_text(folder / 'output')[-500:]}")
                break
            run = start()
        audit(auditor, folder, found)
        sweep()  # as the next worker would: a worker and its supervisor may both have been killed
        if not auditor.wait(lambda _: not processes_of(folder), patience=ENDING):
            found.faults.append(f"{len(processes_of(folder))} processes are left")
    return found


def blind(state: State) -> Iterator[str]:
    """Errors in a state: several trials run, though no price is known."""
    running, done = len(state.history.running), state.history.done
    if running > 1 and not done:
        yield f"{running} trials run before the first price is known"


def _is_over(state: State | None) -> bool:
    """Whether the budget has ended the study, and not a signal."""
    kinds = ("interrupted", "terminated", "orphaned", "worker_error")
    reason = None if state is None else state.stop_reason
    return reason is not None and reason.kind not in kinds


def audit(auditor: Auditor, folder: Path, found: Found) -> None:
    """Compare the study with what its trials have logged, and with its budget."""
    state, session = auditor.look(), found.session
    if state is None:
        found.faults.append("there is no study")
        return
    found.trials, found.commits = len(state.history), auditor.commits
    found.faults += auditor.faults + _text(folder / UNBALANCED).splitlines()
    log, alive = _text(folder / "log"), {int(pid) for pid in _text(folder / ALIVE).split()}
    if not session.pauses:
        found.faults += [sentence for _, sentence in compare(auditor.records(), log, alive)]
    found.faults += [line for line in log.splitlines() if line.startswith("overlap")]
    late = TICK[1] + GRACE + auditor.stall + auditor.suggestion_s + found.stopped
    for resource in state.ledger:
        account = state.ledger[resource]
        found.overspent[resource] = over = max(account.spent - account.limit, 0.0)
        # Every worker may have a trial that ends with the budget, and that costs what it costs.
        allowed = late if resource == "s" else session.workers * max(late, PRICE)
        if session.unknown:
            allowed = 1e-9
        if resource == "usd" and session.pauses:
            allowed = session.workers * PRICE * (1 + late / 0.03)
        if over > allowed:
            found.faults.append(f"{over:.2f} {resource} overspent, {allowed:.2f} allowed")


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def show(file: Path) -> bool:
    """Print the kept sessions; whether there was no fault."""
    rows = kept(file)
    sent = Counter(each for row in rows for each in row["signals"])
    print("| signal and target | times |\n|---|---|")
    for each, times in sorted(sent.items()):
        print(f"| {each} | {times} |")
    sums = {key: sum(row[key] for row in rows) for key in ("trials", "commits")}
    print(f"\n{len(rows)} sessions, {sent.total()} signals, {sums}")
    for row in rows:
        for fault in row["faults"]:
            print(row["session"], row["commit"], fault)
    return not any(row["faults"] for row in rows)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks reliability storm", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--signals", type=int, default=200, help="signals to send in all (200)")
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--workers", type=int, choices=[1, 4, 16], help="of all sessions (drawn)")
    parser.add_argument("--seed", type=int, default=0, help="of the first session")
    parser.add_argument("--table", action="store_true", help="only print the kept results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    if options.table:
        return 0 if show(options.results) else 1
    wanted = {"sqlite": ["SQLite"], "postgres": ["PostgreSQL"]}.get(options.database)
    sent, seed, sound = 0, options.seed, True
    with tempfile.TemporaryDirectory() as folder, databases(folder) as made:
        urls = {where: url for where, url in made.items() if wanted is None or where in wanted}
        if not urls:
            parser.error("FARTHING_TEST_POSTGRES does not name a server: .ci/postgres starts one")
        while sent < options.signals:
            for database, url in urls.items():
                began = time.monotonic()
                session = Session.draw(seed, database, options.workers)
                with tempfile.TemporaryDirectory(prefix="farthing-storm-") as name:
                    found = hold(url(), Path(name).resolve(), session)
                keep_session(options.results, found)
                sent, seed, sound = sent + len(found.signals), seed + 1, sound and not found.faults
                took = f"{time.monotonic() - began:.0f} s"
                what = "; ".join(found.faults) or f"no fault, {found.trials} trials"
                print(f"{sent}/{options.signals}", session, took, what, flush=True)
    return 0 if sound else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
