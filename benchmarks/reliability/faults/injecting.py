"""One injection: run the command, inject the fault, let the command finish, check the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.reliability.faults.books import Auditor, auditing, compare
from benchmarks.reliability.faults.inside import (
    COMMITS,
    STRUCK,
    UNBALANCED,
    audit_commits,
    strike_inside,
)
from benchmarks.reliability.faults.plan import GRACE, LEASE, Injection
from benchmarks.reliability.faults.processes import ALIVE, Run, orphans, running
from benchmarks.reliability.faults.server import Server
from benchmarks.reliability.faults.strikes import Scene, Struck, small_disk, strike
from farthing.core.state import State
from farthing.running.worker import TICK

STUCK = 300.0  # seconds after which a command counts as stuck, even on a busy machine
RERUNS = 3  # there is one fault, so the first rerun should finish
TOO_LATE = "the command had ended before it could be struck"  # also in the kept results


@dataclass(frozen=True)
class Found:
    """The result of an injection.

    Attributes:
        struck: the number of affected processes, connections or times; 0: it came too late.
        where: the statement before which the process was killed.
        codes: the exit code of each run of the command.
        commits: the number of checked commits.
        survived_s: seconds that processes outlived the process they belonged to.
        survivors: the number that outlived it for too long.
        overspend: seconds beyond the limit.
        allowed: seconds: for every worker a tick, `stall` and the grace period; one suggestion that
            began in time; and `outage`.
        stall: seconds that a process waited for a processor between two commits, or that our own
            tick was late, because the machine was busy.
        suggestion_s: seconds of the longest suggestion.
        outage: seconds during which the database, or the process that had to act, could not act.
        faults: a sentence for each.
    """

    injection: Injection
    struck: int
    where: str
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
    suggestion_s: float
    outage: float
    faults: list[str]


def inject(url: str, folder: Path, injection: Injection, server: Server | None = None) -> Found:
    """Run the command, inject the fault, let the same command finish, and leave nothing behind.

    Args:
        folder: empty; on PostgreSQL its name, which no other has, is that of the connections.
    """
    if injection.target == "of the database":
        url = f"sqlite:///{folder}/small/study.db"
    if injection.database == "PostgreSQL":
        url = f"{url}{'&' if '?' in url else '?'}application_name={folder.name}"
    command = injection.command(url)

    def inside(strikes: bool) -> None:
        audit_commits(folder)
        strike_inside(folder, injection) if strikes else None

    with (
        small_disk(folder, injection),
        running(folder) as runs,
        auditing(url, folder) as auditor,
    ):

        def start() -> Run:
            # A changed clock or environment stays changed; a process kills itself only once.
            again = not runs or injection.kind in ("jump", "lock", "fill disk")
            hook = partial(inside, again)
            runs.append(Run(folder, command, workers=injection.workers, inside=hook))
            return runs[-1]

        return _inject(start, Scene(start(), auditor, folder, url, injection, server))


def _inject(start: Callable[[], Run], scene: Scene) -> Found:
    run, auditor, folder, injection = scene.run, scene.auditor, scene.folder, scene.injection
    codes: list[int | None] = []
    auditor.wait(lambda state: run.has_ended() or _is_time(run, state, injection))
    auditor.rest(injection.delay)
    late = run.has_ended() and injection.kind != "between"
    struck = Struck(0) if late else strike(scene)
    at, survived = time.monotonic(), 0.0

    def ended(_: State | None) -> bool:
        nonlocal survived
        if orphans(folder, None if run.code is not None else run.pid):
            survived = time.monotonic() - at
        return run.has_ended()

    faults, took = list[str](), 0.0
    for _ in range(1 + RERUNS):
        if not auditor.wait(ended, patience=STUCK):
            faults.append(f"the command was stuck: {_output(folder)}")
            break
        codes.append(run.code)
        took += run.took
        if run.code == _expected(auditor) or len(codes) > RERUNS:
            break
        run = start()
    too_late = GRACE + LEASE + injection.workers * auditor.stall
    auditor.wait(lambda _: ended(_) and not orphans(folder, None), patience=too_late)
    survivors = orphans(folder, None)
    state, rows = auditor.look(), auditor.records()
    if codes[-1:] != [_expected(auditor)]:
        faults.append(f"exit codes {codes}: {_output(folder)}")
    alive = {int(pid) for pid in _text(folder / ALIVE).split()}
    compared = list(compare(rows, _text(folder / "log"), alive))
    allowed = injection.workers * (TICK[0] + GRACE + auditor.stall) + auditor.suggestion_s
    allowed += struck.outage
    faults += auditor.faults + [sentence for _, sentence in compared]
    faults += _text(folder / UNBALANCED).splitlines()
    if struck.count == 0:
        faults.append(TOO_LATE)
    if survivors or survived > too_late:
        faults.append(f"{len(survivors)} processes left, the last seen after {survived:.2f} s")
    if auditor.overspend > allowed:
        faults.append(f"{auditor.overspend:.2f} s were overspent, {allowed:.2f} s are allowed")
    # After a clock jump, charges before and after it cannot be compared: a tick is charged twice.
    twice = injection.workers * (TICK[0] + auditor.stall) if injection.kind == "jump" else 0.0
    if state is not None and "s" in state.ledger and state.ledger["s"].spent > took + twice:
        faults.append(f"{state.ledger['s'].spent:.2f} s were charged for {took:.2f} s of work")
    return Found(
        injection,
        struck.count,
        _text(folder / STRUCK),
        codes,
        len(rows),
        auditor.commits + len(_text(folder / COMMITS)),
        survived,
        len(survivors),
        sum(kind == "lost" for kind, _ in compared),
        sum(kind == "duplicate" for kind, _ in compared),
        auditor.overspend,
        allowed,
        auditor.stall,
        auditor.suggestion_s,
        struck.outage,
        faults,
    )


def _expected(auditor: Auditor) -> int:
    """The exit code of a command whose study has ended: 1 if there is no value."""
    return 0 if any(row["state"] == "done" for row in auditor.records()) else 1


def _output(folder: Path) -> str:
    return _text(folder / "output")[-500:]


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _is_time(run: Run, state: State | None, injection: Injection) -> bool:
    """Whether the drawn share is spent and the target exists."""
    if injection.share is None:
        return True
    if state is None:
        return False
    target = injection.target if injection.kind in ("kill", "stop", "crowd") else "worker"
    if not run.of(target) or (injection.kind == "come back" and not state.history.running):
        return False
    spent = max(state.ledger[name].spent / state.ledger[name].limit for name in state.ledger)
    return spent >= injection.share
