"""Faults from outside the command, one function for each kind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.reliability.faults.books import Auditor
from benchmarks.reliability.faults.inside import CLOCK, STRUCK
from benchmarks.reliability.faults.plan import LEASE, Injection
from benchmarks.reliability.faults.processes import Run, kill, note_alive, send
from benchmarks.reliability.faults.server import Server
from farthing.core.state import State
from farthing.storage import Database

DROP = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
SMALL = 16  # MB of the file system that fills up
SOON = 4 * LEASE  # seconds within which another worker gets the trial


@dataclass(frozen=True)
class Scene:
    """The run that gets the fault, and what observes it."""

    run: Run
    auditor: Auditor
    folder: Path
    url: str
    injection: Injection
    server: Server | None = None


class Struck(NamedTuple):
    """The number of affected processes, connections or times, and the seconds of the outage."""

    count: int
    outage: float = 0.0


def strike(scene: Scene) -> Struck:
    """Inject the fault."""
    return STRIKES[scene.injection.kind](scene)


def _targets(scene: Scene) -> list[int]:
    """Wait for the target and return its processes: a supervisor lives as long as its trial."""
    run, target = scene.run, scene.injection.target
    scene.auditor.wait(lambda _: run.has_ended() or bool(run.of(target)))
    return [] if run.has_ended() else run.of(target)


def _kill(scene: Scene) -> Struck:
    if not _targets(scene):
        return Struck(0)
    # If the supervisors are killed, too, the outcome of a zombie may not be on the disk yet. The
    # outcome of a trial that no longer exists is.
    note = partial(note_alive, scene.folder, zombies=scene.injection.target == "tree")
    return Struck(kill(lambda: scene.run.of(scene.injection.target), note))


def _stop(scene: Scene) -> Struck:
    """Stop for longer than the lease, then continue."""
    stopped = _targets(scene)
    with _stopped(stopped):
        scene.auditor.rest(scene.injection.more["seconds"])
    return Struck(len(stopped), scene.injection.more["seconds"])


@contextmanager
def _stopped(pids: list[int]) -> Iterator[None]:
    send(signal.SIGSTOP, pids)
    try:
        yield
    finally:
        send(signal.SIGCONT, pids)


def _between(scene: Scene) -> Struck:
    """The process kills itself: see `inside`."""
    struck = scene.folder / STRUCK
    scene.auditor.wait(lambda _: struck.exists() or scene.run.has_ended())
    return Struck(int(struck.exists()))


def _come_back(scene: Scene) -> Struck:
    """Stop a worker, wait until another repeats or reports its trial, and let it continue."""
    state = scene.auditor.look()
    assert state is not None
    busy = {int(str(t.run.worker).rpartition(":")[2]): t.number for t in state.history.running}
    stopped = [pid for pid in scene.run.of("runner and workers")[1:] if pid in busy][:1]

    def is_taken_over(state: State | None) -> bool:
        if state is None:
            return False
        is_retried = any(trial.run.attempt > 1 for trial in state.history)
        return is_retried or any(state.history[busy[pid]].state == "done" for pid in stopped)

    with _stopped(stopped):
        taken_over = bool(stopped) and scene.auditor.wait(is_taken_over, patience=SOON)
    return Struck(int(taken_over), SOON)


def _drop_connections(scene: Scene) -> Struck:
    import psycopg

    name, dropped = scene.folder.name, 0
    server = scene.url.split("?")[0].replace("+psycopg", "")
    with psycopg.connect(server, autocommit=True) as connection:
        for _ in range(scene.injection.more["times"]):
            dropped += connection.execute(DROP, (name,)).rowcount
            scene.auditor.rest(scene.injection.more["pause"])
    return Struck(dropped, scene.injection.more["times"] * scene.injection.more["pause"])


def _restart_server(scene: Scene) -> Struck:
    assert scene.server is not None
    began = time.monotonic()
    scene.server.crash_and_restart()
    return Struck(1, time.monotonic() - began)


def _lock(scene: Scene) -> Struck:
    """Hold a transaction for longer than the command waits."""
    seconds, database = scene.injection.more["seconds"], Database(scene.url)
    began = time.monotonic()
    try:
        with database.writing() as connection:
            if not database.is_sqlite:
                connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
                connection.exec_driver_sql("SELECT 1 FROM farthing_studies FOR UPDATE")
            scene.auditor.rest(seconds)
    finally:
        database.close()
    return Struck(1, time.monotonic() - began)


def _fill_disk(scene: Scene) -> Struck:
    full = scene.folder / "small" / "full"
    began = time.monotonic()
    with full.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        scene.auditor.rest(scene.injection.more["seconds"])
    full.unlink()
    return Struck(1, time.monotonic() - began)


def _jump(scene: Scene) -> Struck:
    """Set the clock a day ahead or back. The trial of a dead worker must still count as lost."""
    note = partial(note_alive, scene.folder)
    is_dead = "dead" in scene.injection.target
    dead = kill(lambda: scene.run.of("worker"), note) if is_dead else 0
    new = scene.folder / f"{CLOCK}.new"
    new.write_text(str(scene.injection.more["seconds"]))
    os.replace(new, scene.folder / CLOCK)
    return Struck(1 + dead)


STRIKES: dict[str, Callable[[Scene], Struck]] = {
    "kill": _kill,
    "stop": _stop,
    "between": _between,
    "come back": _come_back,
    "drop connections": _drop_connections,
    "restart server": _restart_server,
    "lock": _lock,
    "fill disk": _fill_disk,
    "jump": _jump,
    "crowd": _kill,
}


@contextmanager
def small_disk(folder: Path, injection: Injection) -> Iterator[None]:
    """Mount a small file system if the injection fills it."""
    if injection.kind != "fill disk":
        yield
        return
    place = folder / "small"
    place.mkdir()
    mount: dict[str, Any] = {"check": True, "stdin": subprocess.DEVNULL}
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}m", "tmpfs", place], **mount)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], **mount)
