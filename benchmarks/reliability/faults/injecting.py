"""One injection: run the command, strike, let the same command finish, and look what came of it."""

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
from benchmarks.reliability.faults.processes import Run, orphans, running
from benchmarks.reliability.faults.server import Server
from benchmarks.reliability.faults.strikes import Scene, Struck, small_disk, strike
from farthing.core.state import State
from farthing.running.worker import TICK

STUCK = 300.0  # seconds after which a command is, on however busy a machine
RERUNS = 3  # the command is struck once: the next one should finish
TOO_LATE = "the command had ended before it could be struck"


@dataclass(frozen=True)
class Found:
    """What an injection showed.

    Attributes:
        struck: how many processes, connections or times; 0: it came too late.
        where: between which statements.
        codes: how the command ended, each time it was run.
        commits: that were checked.
        survived_s: how long processes outlived the one they belonged to.
        survivors: how many outlived it for too long.
        overspend: beyond the limit, in seconds.
        allowed: a tick, which is as late as `stall`, and the grace period for every worker; a
            thought that began in time; and `outage`.
        stall: how late a tick of our own was, because the machine was busy.
        thought: seconds that the longest one took.
        outage: seconds for which the database, or whoever had to act, could not.
        faults: all of them, in words.
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
    suggestion: float
    outage: float
    faults: list[str]


def inject(url: str, folder: Path, injection: Injection, server: Server | None = None) -> Found:
    """Run, strike, and let the same command finish; nothing of it is left afterwards."""
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
        auditing(url) as auditor,
    ):

        def start() -> Run:
            # What a clock or an environment is stays so; nobody kills himself twice.
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
            faults.append(f"the command was stuck: {_said(folder)}")
            break
        codes.append(run.code)
        took += run.took
        if run.code == _expected(auditor):
            break
        run = start()
    too_late = GRACE + LEASE + injection.workers * auditor.stall
    auditor.wait(lambda _: ended(_) and not orphans(folder, None), patience=too_late)
    survivors = orphans(folder, None)
    state, rows = auditor.look(), auditor.records()
    if codes[-1:] != [_expected(auditor)]:
        faults.append(f"exit codes {codes}: {_said(folder)}")
    compared = list(compare(rows, _text(folder / "log"), spared=not injection.kills_workers))
    allowed = injection.workers * (TICK[0] + GRACE + auditor.stall) + auditor.suggestion
    allowed += struck.outage
    faults += auditor.faults + [sentence for _, sentence in compared]
    faults += _text(folder / UNBALANCED).splitlines()
    if struck.count == 0:
        faults.append(TOO_LATE)
    if survivors or survived > too_late:
        faults.append(f"{len(survivors)} processes left, the last seen after {survived:.2f} s")
    if auditor.overspend > allowed:
        faults.append(f"{auditor.overspend:.2f} s were overspent, {allowed:.2f} s are allowed")
    # Who was charged before a clock jumped and who after cannot be compared: a tick is paid twice.
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
        auditor.suggestion,
        struck.outage,
        faults,
    )


def _expected(auditor: Auditor) -> int:
    """How a command ends whose study is over: 1 says that there is no value."""
    return 0 if any(row["state"] == "done" for row in auditor.records()) else 1


def _said(folder: Path) -> str:
    return _text(folder / "said")[-500:]


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _is_time(run: Run, state: State | None, injection: Injection) -> bool:
    """Whether as much is spent as was drawn, and there is somebody to strike."""
    if injection.share is None:
        return True
    if state is None:
        return False
    whom = injection.target if injection.kind in ("kill", "stop", "crowd") else "worker"
    if not run.of(whom) or (injection.kind == "come back" and not state.history.running):
        return False
    spent = max(state.ledger[name].spent / state.ledger[name].limit for name in state.ledger)
    return spent >= injection.share
