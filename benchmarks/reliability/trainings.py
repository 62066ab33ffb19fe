"""Kill trainings that pause and resume, their supervisors and workers, and check what is stored.

    python -m benchmarks.reliability.trainings --count 300     about half an hour on a busy machine
    python -m benchmarks.reliability.trainings --table         print the kept results

A session is one study with three workers and small real trainings (`logged_training`). At random
moments it sends SIGKILL to a training, its process group, a supervisor, a worker, the process that
started the workers, or all of them. If nothing runs any more, the same study is run again, until
its budget is spent. Then every training that is paused is resumed and completed.

What must hold, in every commit and at the end: spent + reserved + left = limit + overspent, where
spent is the sum of the parts of all trials; no stored point disappears; every value whose report
returned is in the curve of its trial; no trial is charged for more steps than it trained; two
processes never train the same trial at once; the study overspends by at most one tick per worker;
nothing hangs, no process is left, and every paused training can be resumed. Of every third session
or so, the paused trainings are suspended (`resume="suspend"`) and end with their workers.

Each session is a line of benchmarks/results/faults-trainings.jsonl.
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
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.reliability import logged_training
from benchmarks.reliability.faults.books import STUDY, Auditor, auditing
from benchmarks.reliability.faults.inside import UNBALANCED, audit_commits
from benchmarks.reliability.faults.kept import keep_session, kept
from benchmarks.reliability.faults.processes import Run, kill, processes_of, running
from benchmarks.reliability.logged_training import LAST, SECONDS, train
from benchmarks.speed.storage import databases
from farthing import Float, Steps, Study
from farthing.acquisition.protocols import Proposal
from farthing.core.state import State
from farthing.errors import FarthingError
from farthing.history import Trial
from farthing.policies import ASHA
from farthing.running import CommandTask
from farthing.running.survivors import sweep
from farthing.running.worker import TICK
from farthing.storage import close_sqlite_files

RESULTS = Path(__file__).resolve().parents[1] / "results" / "faults-trainings.jsonl"
TARGETS = ("training", "group", "guard", "worker", "runner", "runner and workers", "tree")
LIMIT = 12.0  # seconds
BUDGETS = {"worker_s": f"{LIMIT} worker_s", "usd": "$250", "s": f"{LIMIT}s"}
WORKERS, GRACE, LEASE = 3, 0.3, 1.5
KILLS = 15  # of a session at most; its budget may be spent earlier
BETWEEN = (0.02, 0.9)  # seconds between two of them
ENDING = 60.0  # seconds until processes that were told to end have ended, even on a busy machine
STUCK = 300.0  # seconds after which a run counts as stuck, even on a busy machine


@dataclass(frozen=True)
class Session:
    """A study, and the processes that are killed while it runs.

    Attributes:
        kind: whether the training is a Python "function" or a "program".
        resource: of the budget.
        resume: "checkpoint", or "suspend": a paused training stays in memory, stopped, and ends
            with its worker.
    """

    seed: int
    database: str
    kind: str
    resource: str
    policy: str
    kills: int = KILLS
    resume: str = "checkpoint"

    @classmethod
    def draw(cls, seed: int, database: str) -> Session:
        rng = random.Random(f"trainings {seed}")
        kind, resource = rng.choice(["function", "program"]), rng.choice(list(BUDGETS))
        policy = rng.choice(["asha", "asha", "default"])
        resume = rng.choice(["checkpoint", "checkpoint", "suspend"])
        return cls(seed, database, kind, resource, policy, resume=resume)


@dataclass
class Found:
    """The result of a session.

    Attributes:
        kills: the targets, in the order in which they were killed.
        codes: the exit codes of the runs.
        reports: the values whose report returned.
        unread: lines that a program printed and nobody read, because it was killed together with
            its supervisor and its worker. Nothing can keep them.
        parts: the number of parts that began.
        faults: a sentence for each.
    """

    session: Session
    kills: list[str] = field(default_factory=list)
    codes: list[int | None] = field(default_factory=list)
    trials: int = 0
    parts: int = 0
    reports: int = 0
    unread: int = 0
    completed: int = 0
    overspend: float = 0.0
    allowed: float = 0.0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Complete:
    """Resumes paused trainings until none is left, and starts no new one."""

    needs: ClassVar[frozenset[str]] = frozenset({"steps"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief: Any, rng: Any) -> Proposal:
        for trial in belief.history.having("paused"):
            return Proposal(trial.x, "it is paused", resume=trial.number, until=LAST)
        return Proposal(None, "no training is paused")


def work(url: str, folder: Path, session: Session, workers: int, more: str | None) -> None:
    """Run the study in a forked process, and exit.

    Args:
        more: an addition to the budget, for which paused trainings are completed; None: run it.
    """
    close_sqlite_files()
    audit_commits(folder)
    program = [sys.executable, "-S", os.path.abspath(logged_training.__file__)]
    task: Any = train if session.kind == "function" else CommandTask(program)
    chosen = {"policy": ASHA()} if session.policy == "asha" else {}
    try:
        if more is not None:
            study = Study.open(url, STUDY, policy=Complete())
            study.change(budget=more)
        else:
            study = Study.create(
                url,
                name=STUDY,
                space={"lr": Float(0.5, 0.99)},
                budget=BUDGETS[session.resource],
                steps=Steps(LAST, resume=session.resume),
                grace=GRACE,
                lease=LEASE,
                logs=str(folder / "logs"),
                failures_in_a_row=0,
                seed=session.seed,
                **chosen,
            )
        study.run(task, workers=workers)
    except FarthingError as error:
        print(error, flush=True)
        raise SystemExit(3) from error
    raise SystemExit(0)


def targets(run: Run, target: str, rng: random.Random) -> list[int]:
    """The processes of a target, if there are any."""
    parents = processes_of(run.folder)
    workers = [pid for pid, parent in parents.items() if parent == run.pid]
    guards = [pid for pid, parent in parents.items() if parent in workers]
    trainings = [pid for pid, parent in parents.items() if parent in guards]
    every = {
        "training": trainings,
        "group": trainings,
        "guard": guards,
        "worker": workers,
        "runner": [run.pid],
        "runner and workers": [run.pid, *workers],
        "tree": [run.pid, *parents],
    }[target]
    one = target in ("training", "group", "guard", "worker")
    return [rng.choice(every)] if every and one else every


def strike(run: Run, target: str, rng: random.Random) -> list[int]:
    """Kill a target, and return its processes."""
    chosen = targets(run, target, rng)
    if target == "group" and chosen:
        with suppress(ProcessLookupError):
            os.killpg(chosen[0], signal.SIGKILL)
    elif chosen:
        kill(lambda: chosen)
    return chosen


def hold(url: str, folder: Path, session: Session) -> Found:
    """Run a session, check it, and leave no process behind."""
    found, rng = Found(session), random.Random(f"kills {session.seed}")

    def start(runs: list[Run], workers: int, more: str | None = None) -> Run:
        inside = partial(work, url, folder, session, workers, more)
        runs.append(Run(folder, [], workers=workers, inside=inside))
        return runs[-1]

    with running(folder) as runs, auditing(url) as auditor:
        curves, at_once = Curves(found.faults), set[int]()
        ended = partial(_ended, curves)
        run = start(runs, WORKERS)
        while True:
            if len(found.kills) < session.kills:
                _rest(auditor, run, curves, rng.uniform(*BETWEEN))
                target = rng.choice(TARGETS)
                if not run.has_ended() and (struck := strike(run, target, rng)):
                    found.kills.append(target)
                    at_once |= set(struck) if target == "tree" else set()
                    continue
                if not run.has_ended():
                    continue
            if not auditor.wait(lambda state, run=run: ended(run, state), patience=STUCK):
                found.faults.append(f"the run was stuck: {_text(folder / 'output')[-500:]}")
                return found
            found.codes.append(run.code)
            if run.code == 0 or len(found.codes) > 2 * session.kills + 3:
                break
            run = start(runs, WORKERS)
        if run.code != 0:
            found.faults.append(f"exit codes {found.codes}: {_text(folder / 'output')[-500:]}")
        found.overspend = auditor.overspend
        found.allowed = _allowed(session, auditor)
        if found.overspend > found.allowed:
            found.faults.append(f"{found.overspend:.2f} overspent, {found.allowed:.2f} allowed")
        check(auditor.look(), folder, found, at_once)
        # Every paused training can be resumed and completed, unless it has ended with its worker.
        more = {"worker_s": "+900 worker_s", "usd": "+$9000", "s": "+900s"}[session.resource]
        suspends = session.resume == "suspend"
        run = run if suspends else start(runs, WORKERS, more)
        if not auditor.wait(lambda state: ended(run, state), patience=STUCK):
            found.faults.append("completing the paused trainings was stuck")
        found.codes += [] if suspends else [run.code]
        if run.code != 0:
            found.faults.append(f"exit codes {found.codes}: {_text(folder / 'output')[-500:]}")
        found.faults += auditor.faults + _text(folder / UNBALANCED).splitlines()
        sweep()  # as the next worker would: a worker and its supervisor may both have been killed
        if not auditor.wait(lambda _: not processes_of(folder), patience=ENDING):
            found.faults.append(f"{len(processes_of(folder))} processes are left")
    study = Study.open(url, STUDY, look=True)  # anew, because the settings have changed
    check(study.facts[1], folder, found, at_once, finished=not suspends)
    study.close()
    return found


class Curves:
    """Checks that no point of a curve disappears."""

    def __init__(self, faults: list[str]) -> None:
        self.faults, self.seen = faults, dict[int, set[tuple[int, float]]]()

    def check(self, state: State | None) -> None:
        for trial in () if state is None else state.history:
            now = {(point.step, point.value) for point in trial.curve}
            if missing := self.seen.get(trial.number, set()) - now:
                self.faults.append(f"trial {trial.number} has lost the points {sorted(missing)}")
            self.seen[trial.number] = now


def _ended(curves: Curves, run: Run, state: State | None) -> bool:
    curves.check(state)
    return run.has_ended()


def _rest(auditor: Auditor, run: Run, curves: Curves, seconds: float) -> None:
    auditor.wait(partial(_ended, curves, run), patience=seconds)


def _allowed(session: Session, auditor: Auditor) -> float:
    """One tick per worker, with the delay that the load gave it and with the grace period.

    A step costs a dollar at once, and what is in use when a tick ends is paid.
    """
    late = GRACE + auditor.stall
    if session.resource == "usd":
        return WORKERS * (1.0 + (TICK[1] + late) / SECONDS)
    tick = LIMIT / 100  # of a budget of time
    return WORKERS * (tick + late) + auditor.suggestion_s


def check(
    state: State | None, folder: Path, found: Found, at_once: set[int], *, finished: bool = False
) -> None:
    """Compare the stored curves and costs with what the trainings have logged.

    Args:
        at_once: trainings that were killed together with their supervisor and their worker. Of a
            program, nobody may have read the last line.
    """
    lines = [line.split() for line in _text(folder / "log").splitlines()]
    logged = [(w, int(n), int(s), v) for w, n, s, v, _ in lines]
    last = {int(pid): (int(n), int(s)) for w, n, s, _, pid in lines if w == "after"}
    unread = {last[pid] for pid in at_once & last.keys() if found.session.kind == "program"}
    if state is None:
        found.faults.append("there is no study")
        return
    found.trials = len(state.history)
    found.parts = sum(word == "start" for word, *_ in logged)
    found.reports = sum(word == "after" for word, *_ in logged)
    found.faults += [f"two processes trained trial {n}" for w, n, *_ in logged if w == "overlap"]
    known = {t.number: {p.step: p.value for p in t.curve} for t in state.history}
    for word, number, step, value in logged:
        if word != "after" or known.get(number, {}).get(step) == float(value):
            continue
        if (number, step) in unread:
            found.unread += not finished
        else:
            found.faults.append(f"step {step} of trial {number} was reported and is not stored")
    trained = Counter(number for word, number, *_ in logged if word == "before")
    for trial in state.history:
        lost = {step for number, step in unread if number == trial.number}
        found.faults += _wrong(trial, trained[trial.number], found.session.resource, lost)
        if finished and trial.state in ("paused", "running"):
            found.faults.append(f"trial {trial.number} is {trial.state} and was not completed")
    if finished:
        found.completed = sum(trial.state == "done" for trial in state.history)
        if journals := list((folder / "logs" / "reports").glob("*")):
            found.faults.append(f"{len(journals)} journals are left")


def _wrong(trial: Trial, trained: int, resource: str, lost: Set[int]) -> Iterator[str]:
    """What is wrong with the stored trial; `lost` are the steps that nobody may have read."""
    steps = [point.step for point in trial.curve]
    if steps != sorted(set(steps)):
        yield f"the curve of trial {trial.number} has the steps {steps}"
    if trial.state == "done" and not {*steps} <= {*range(1, LAST + 1)} <= {*steps} | lost:
        yield f"trial {trial.number} is done with the steps {steps}"
    for point in trial.curve:
        if point.value != trial.params["lr"] ** point.step:
            yield f"trial {trial.number} has another value at step {point.step}"
    # If nothing is known of the cost of a failed part, it is the predicted one.
    if resource == "usd" and trial.state != "failed" and trial.cost.get("usd", 0.0) > trained:
        yield f"trial {trial.number} trained {trained} steps and cost {trial.cost['usd']}"


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def show(file: Path) -> bool:
    """Print the kept sessions; whether there was no fault."""
    rows = kept(file)
    killed = Counter(target for row in rows for target in row["kills"])
    print("| killed | times |\n|---|---|")
    for target in (*TARGETS, None):
        print(f"| {target or 'all'} | {killed[target] if target else killed.total()} |")
    sums = {key: sum(row[key] for row in rows) for key in ("trials", "parts", "reports", "unread")}
    print(f"\n{len(rows)} sessions, {', '.join(f'{n} {key}' for key, n in sums.items())}")
    for row in rows:
        for fault in row["faults"]:
            print(row["session"], row["commit"], fault)
    return not any(row["faults"] for row in rows)


def inject(made: dict[str, Callable[[], str]], count: int, seed: int, file: Path) -> bool:
    """Hold sessions until `count` processes were killed; whether there was no fault."""
    sound, done = True, 0
    while done < count and (sound or done):
        for database, url in made.items():
            with tempfile.TemporaryDirectory(prefix="farthing-trainings-") as name:
                began = time.monotonic()
                found = hold(url(), Path(name).resolve(), Session.draw(seed, database))
            keep_session(file, found)
            done, seed, sound = done + len(found.kills), seed + 1, sound and not found.faults
            how = found.session
            print(
                f"{done}/{count}",
                how.seed,
                how.database,
                how.kind,
                how.resource,
                how.policy,
                how.resume,
                f"{time.monotonic() - began:.0f} s,",
                len(found.kills),
                "kills,",
                "; ".join(found.faults) or f"no fault, {found.reports} reports",
                flush=True,
            )
    return sound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=300, help="processes to kill (300)")
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    parser.add_argument("--seed", type=int, default=0, help="of the first session")
    parser.add_argument("--table", action="store_true", help="only print the kept results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.table:
        sys.exit(0 if show(options.results) else 1)
    wanted = {"sqlite": ["SQLite"], "postgres": ["PostgreSQL"]}.get(options.database)
    with tempfile.TemporaryDirectory() as folder, databases(folder) as made:
        urls = {where: url for where, url in made.items() if wanted is None or where in wanted}
        if not urls:
            parser.error("FARTHING_TEST_POSTGRES does not name a server: .ci/postgres starts one")
        sys.exit(0 if inject(urls, options.count, options.seed, options.results) else 1)


if __name__ == "__main__":
    main()
