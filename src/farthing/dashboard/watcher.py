"""Keeps snapshots of the studies of a database, so that many pages cause few reads.

A Study is not thread-safe, so one thread reads all of them; the results are immutable. A second
thread computes the slow figures. A study is read only when a page asks for changes. The slow
figures pause between computations, so that they take at most a tenth of a core from running
trials.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.errors import FarthingError, StorageError
from farthing.running import open_log
from farthing.study import Study
from farthing.view.primitives import Figure
from farthing.view.report.parts import slow_figures
from farthing.view.web import forecast_values

__all__ = ["Snapshot", "Watcher"]

EVERY = 0.1  # seconds between two reads of a study, at least
FRESH = 1.0  # seconds after a read for a page for which other requests need no new one
PATIENCE = 1.0  # seconds for which a page waits for the database
CHECK = 0.25  # seconds between two checks whether figures are due
WATCHED = 10.0  # seconds after its last question for which a page counts as open
PAUSE = 9.0  # between computations of slow figures, in multiples of the time that one took
MIN_PAUSE = 2.0  # seconds

MAX_OUTPUT = 20_000  # bytes shown of the output of a trial: the last

T = TypeVar("T")


def _json(make: Callable[..., object], *args: object) -> bytes:
    return json.dumps(make(*args), allow_nan=False, separators=(",", ":")).encode()


def _end_of(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        with open_log(path) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - MAX_OUTPUT, 0))
            return file.read(MAX_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return ""


@dataclass
class Snapshot:
    """The latest known state of a study.

    Attributes:
        version: increases with each change.
        error: why the last read failed; the other fields are then older.
        changed: the version in which each trial last changed.
        figures: the slow figures that are ready.
        forecast: what one more trial would buy; None: it is not computed yet.
        figures_of: the version that the figures show; -1: there are none.
        drawn: increases with each new figure and forecast.
        entry: the study in the list of studies; None: it is not computed for this version.
        polled_at: when a page last asked for changes.
        read_at: when the study was last read.
        reading: the latest task that reads it for a page.
        paused_until: when the slow figures may be computed again.
    """

    facts: tuple[Settings, State] | None = None
    version: int = 0
    error: str = ""
    changed: list[int] = field(default_factory=list)
    forecast: dict[str, Any] | None = None
    figures: list[Figure] = field(default_factory=list)
    figures_of: int = -1
    drawn: int = 0
    entry: dict[str, Any] | None = None
    polled_at: float = -math.inf
    read_at: float = -math.inf
    reading: asyncio.Task[None] | None = None
    paused_until: float = 0.0

    @property
    def is_fresh(self) -> bool:
        """Whether it was read for a page a moment ago."""
        return time.monotonic() - self.read_at < FRESH

    @property
    def is_watched(self) -> bool:
        """Whether a page still asks for changes."""
        return time.monotonic() - self.polled_at < WATCHED

    def take(self, facts: tuple[Settings, State]) -> None:
        """Take a new state as the next version, and note which trials have changed.

        A state shares the trials that did not change with the state before it.
        """
        before = () if self.facts is None else self.facts[1].history.trials
        if self.facts is not None and self.facts[0].space is not facts[0].space:
            before = ()  # the columns of the table may differ
        trials, self.version = facts[1].history.trials, self.version + 1
        kept = [
            at if new is old else self.version
            for new, old, at in zip(trials, before, self.changed, strict=False)
        ]
        self.changed = kept + [self.version] * (len(trials) - len(kept))
        self.facts, self.entry = facts, None

    def since(self, version: int) -> list[int]:
        """The numbers of the trials that have changed after a version."""
        return [number for number, at in enumerate(self.changed) if at > version]

    def stamp(self) -> dict[str, object]:
        """A value that changes when a page should load its parts again."""
        return {"version": self.version, "drawn": self.drawn, "error": self.error}


class Watcher:
    """Reads the studies of one database for the pages of the dashboard."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.epoch = secrets.token_hex(4)  # versions of another process mean nothing here
        self._reader = ThreadPoolExecutor(1, "reads")
        self._draws = ThreadPoolExecutor(1, "draws")
        self._explains = ThreadPoolExecutor(1, "explains")  # slow, and a page waits for it
        self._answers = ThreadPoolExecutor(1, "answers")  # quick: no model is fitted
        self._studies: dict[str, tuple[Study, object]] = {}
        self._seen: dict[str, Snapshot] = {}

    # ── for pages ──────────────────────────────────────────────────────────────────────────

    def seen(self, name: str) -> Snapshot:
        """The latest snapshot of a study; this reads nothing."""
        return self._seen.setdefault(name, Snapshot())

    async def names(self) -> list[str]:
        """The names of the studies.

        Raises:
            StorageError: the database cannot be read.
        """
        return await self._read(lambda: self._names())

    async def look(self, name: str) -> Snapshot:
        """Read a study. If that fails, return the last snapshot with the error.

        Raises:
            InvalidInput: there is no such study.
        """
        seen = self.seen(name)
        try:
            facts = await self._read(lambda: self._open(name).facts)
        except StorageError as error:
            seen.error = str(error)
        except FarthingError as error:
            if seen.facts is None:
                self._seen.pop(name, None)
                raise
            seen.error = str(error)
        else:
            seen.error = ""
            if seen.facts is None or facts[1] is not seen.facts[1]:
                seen.take(facts)
        return seen

    async def printed(self, name: str, number: int) -> str:
        """The end of the output of a trial, if its log file is on this machine."""
        return await self._read(lambda: _end_of(self._open(name).log_of(number)))

    async def change(self, name: str, action: Callable[[Study], object]) -> None:
        """Apply a change to a study."""
        await self._read(lambda: action(self._open(name)))
        await self.look(name)

    async def answer(self, make: Callable[..., object], *args: object) -> bytes:
        """Compute something without a model, as JSON."""
        return await asyncio.get_running_loop().run_in_executor(self._answers, _json, make, *args)

    async def explain(self, make: Callable[..., object], *args: object) -> bytes:
        """Compute something slow that a page waits for, as JSON."""
        return await asyncio.get_running_loop().run_in_executor(self._explains, _json, make, *args)

    async def poll(self, name: str) -> Snapshot:
        """The latest snapshot of a study. If the database is slow, a page gets the one before."""
        seen, now = self.seen(name), time.monotonic()
        seen.polled_at = now
        is_reading = seen.reading is not None and not seen.reading.done()
        if not is_reading and now - seen.read_at >= EVERY:
            seen.reading = asyncio.create_task(self._read_for_pages(name))
        if seen.reading is not None:
            await asyncio.wait([seen.reading], timeout=PATIENCE)
        return seen

    async def _read_for_pages(self, name: str) -> None:
        with suppress(FarthingError):  # the study does not exist; its page shows that
            await self.look(name)
        self.seen(name).read_at = time.monotonic()

    # ── in the background ──────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Draw in the background inside the block."""
        drawing = asyncio.create_task(self._keep_drawing())
        try:
            yield
        finally:
            drawing.cancel()
            for threads in (self._reader, self._draws, self._explains, self._answers):
                threads.shutdown(wait=False, cancel_futures=True)

    async def _keep_drawing(self) -> None:
        while True:
            due = [
                (name, seen)
                for name, seen in self._seen.items()
                if seen.is_watched and seen.facts and seen.figures_of != seen.version
                and time.monotonic() >= seen.paused_until
            ]  # fmt: skip
            for _, seen in due:
                await self._draw(seen)
            await asyncio.sleep(CHECK)

    async def _draw(self, seen: Snapshot) -> None:
        assert seen.facts is not None
        started, version, figures = time.monotonic(), seen.version, slow_figures(*seen.facts)
        first, ready, loop = not seen.figures, list[Figure](), asyncio.get_running_loop()
        forecast = await loop.run_in_executor(self._draws, forecast_values, *seen.facts)
        seen.forecast, seen.drawn = forecast, seen.drawn + 1
        while (figure := await loop.run_in_executor(self._draws, next, figures, None)) is not None:
            ready.append(figure)
            if first:  # there are no older figures: show each one as soon as it is ready
                seen.figures, seen.drawn = list(ready), seen.drawn + 1
        seen.figures, seen.figures_of, seen.drawn = ready, version, seen.drawn + 1
        now = time.monotonic()
        seen.paused_until = now + max(PAUSE * (now - started), MIN_PAUSE)

    async def _read(self, read: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, read)

    # ── in the reading thread ──────────────────────────────────────────────────────────────

    def _names(self) -> list[str]:
        self._check_file()
        return Study.names(self.url)

    def _open(self, name: str) -> Study:
        """The study, opened again if its file was replaced."""
        file = self._check_file()
        study, known_file = self._studies.get(name, (None, None))
        if study is not None and known_file == file:
            return study
        if study is not None:
            study.close()
        study = Study.open(self.url, name, look=True)
        self._studies[name] = study, self._check_file()
        return study

    def _check_file(self) -> object:
        """The identity of an SQLite file. If the file is missing, do not create a new one."""
        if "://" in self.url and not self.url.startswith("sqlite:///"):
            return None
        path = self.url.removeprefix("sqlite:///")
        try:
            found = os.stat(path)
        except OSError:
            raise StorageError(
                f"The database {path} does not exist any more. Restore it, or start the dashboard "
                "with another database."
            ) from None
        return found.st_dev, found.st_ino
