"""What the studies of a database look like now, for many who ask and little that is read.

A study is not for several threads, so one thread reads all of them; what it hands out does not
change. Another works out what takes long. A study is looked at while somebody listens, and what
takes long is worked out again when it rests: at most a tenth of a core is taken from a study that
runs on the same machine.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.errors import FarthingError, StorageError
from farthing.running import open_log
from farthing.study import Study
from farthing.view.primitives import Figure
from farthing.view.report.parts import slow_figures

__all__ = ["Snapshot", "Watcher"]

EVERY = 0.4  # seconds between looks
REST = 9.0  # times as long as it took: until what takes long is worked out again
LEAST_REST = 2.0  # seconds

MOST_PRINTED = 20_000  # bytes shown of what a trial printed, the last

T = TypeVar("T")


def _end_of(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        with open_log(path) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - MOST_PRINTED, 0))
            return file.read(MOST_PRINTED).decode("utf-8", "replace")
    except OSError:
        return ""


@dataclass
class Snapshot:
    """A study as it was last seen.

    Attributes:
        version: one more for each change.
        trouble: why it could not be looked at; the rest is then older.
        figures: those that take long, as far as they are ready.
        figures_of: the version they were worked out for; -1: none was.
        drawn: one more for each of them.
        listeners: pages that want to hear of changes.
    """

    facts: tuple[Settings, State] | None = None
    version: int = 0
    trouble: str = ""
    figures: list[Figure] = field(default_factory=list)
    figures_of: int = -1
    drawn: int = 0
    listeners: int = 0
    rested: float = 0.0  # when it may be worked out again

    def stamp(self) -> dict[str, object]:
        """What changes when a page should ask again."""
        return {"version": self.version, "drawn": self.drawn, "trouble": self.trouble}


class Watcher:
    """Looks at the studies of one database.

    Attributes:
        closing: nobody is to listen any longer.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.closing = False
        self._reader = ThreadPoolExecutor(1, "reads")
        self._draws = ThreadPoolExecutor(1, "draws")
        self._explains = ThreadPoolExecutor(1, "explains")  # somebody waits for it
        self._studies: dict[str, tuple[Study, object]] = {}
        self._seen: dict[str, Snapshot] = {}
        self._changed = asyncio.Condition()

    # ── for pages ──────────────────────────────────────────────────────────────────────────

    def seen(self, name: str) -> Snapshot:
        """A study as it was last seen; nothing is read."""
        return self._seen.setdefault(name, Snapshot())

    async def names(self) -> list[str]:
        """The studies there are.

        Raises:
            StorageError: the database cannot be read.
        """
        return await self._read(lambda: self._names())

    async def look(self, name: str) -> Snapshot:
        """A study as it is; where it cannot be read, as it was, with the trouble.

        Raises:
            InvalidInput: there is no such study.
        """
        seen, before = self.seen(name), self.seen(name).stamp()
        try:
            facts = await self._read(lambda: self._open(name).facts)
        except StorageError as error:
            seen.trouble = str(error)
        except FarthingError as error:
            if seen.facts is None:
                self._seen.pop(name, None)
                raise
            seen.trouble = str(error)
        else:
            seen.trouble = ""
            if seen.facts is None or facts[1] is not seen.facts[1]:
                seen.facts, seen.version = facts, seen.version + 1
        if seen.stamp() != before:
            await self._tell()
        return seen

    async def printed(self, name: str, number: int) -> str:
        """The end of what a trial has printed, where its file is on this machine."""
        return await self._read(lambda: _end_of(self._open(name).log_of(number)))

    async def change(self, name: str, action: Callable[[Study], object]) -> None:
        """Do something to a study."""
        await self._read(lambda: action(self._open(name)))
        await self.look(name)

    async def explain(self, make: Callable[[], T]) -> T:
        """Something that takes long, and that somebody waits for."""
        return await asyncio.get_running_loop().run_in_executor(self._explains, make)

    @asynccontextmanager
    async def listening(self, name: str) -> AsyncIterator[Snapshot]:
        """While inside, the study is looked at."""
        seen = self.seen(name)
        seen.listeners += 1
        try:
            yield seen
        finally:
            seen.listeners -= 1

    async def wait(self, seconds: float) -> None:
        """Until something changed, or for so long."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait()
        except TimeoutError:
            pass

    # ── for itself ─────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """While inside, studies are looked at for those who listen."""
        tasks = [
            asyncio.create_task(self._keep_looking()),
            asyncio.create_task(self._keep_drawing()),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for threads in (self._reader, self._draws, self._explains):
                threads.shutdown(wait=False, cancel_futures=True)

    async def _keep_looking(self) -> None:
        while True:
            for name in [name for name, seen in self._seen.items() if seen.listeners]:
                try:
                    await self.look(name)
                except FarthingError:
                    continue  # it was never there; the page has said so
            await asyncio.sleep(EVERY)

    async def _keep_drawing(self) -> None:
        while True:
            due = [
                (name, seen)
                for name, seen in self._seen.items()
                if seen.listeners and seen.facts and seen.figures_of != seen.version
                and time.monotonic() >= seen.rested
            ]  # fmt: skip
            for _, seen in due:
                await self._draw(seen)
            await asyncio.sleep(EVERY)

    async def _draw(self, seen: Snapshot) -> None:
        assert seen.facts is not None
        begun, version, figures = time.monotonic(), seen.version, slow_figures(*seen.facts)
        first, ready, loop = not seen.figures, list[Figure](), asyncio.get_running_loop()
        while (figure := await loop.run_in_executor(self._draws, next, figures, None)) is not None:
            ready.append(figure)
            if first:  # nothing better is there: show them as they come
                seen.figures, seen.drawn = list(ready), seen.drawn + 1
                await self._tell()
        seen.figures, seen.figures_of, seen.drawn = ready, version, seen.drawn + 1
        now = time.monotonic()
        seen.rested = now + max(REST * (now - begun), LEAST_REST)
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _read(self, read: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, read)

    # ── in the thread that reads ───────────────────────────────────────────────────────────

    def _names(self) -> list[str]:
        self._check_file()
        return Study.names(self.url)

    def _open(self, name: str) -> Study:
        """The study, opened again if its file is another one now."""
        file = self._check_file()
        study, was = self._studies.get(name, (None, None))
        if study is not None and was == file:
            return study
        if study is not None:
            study.close()
        study = Study.open(self.url, name, look=True)
        self._studies[name] = study, self._check_file()
        return study

    def _check_file(self) -> object:
        """Which file an SQLite database is, so that none is made where there was one."""
        if "://" in self.url and not self.url.startswith("sqlite:///"):
            return None
        path = self.url.removeprefix("sqlite:///")
        try:
            found = os.stat(path)
        except OSError:
            raise StorageError(
                f"The database {path} is not there. Bring it back, or start the dashboard with "
                "another."
            ) from None
        return found.st_dev, found.st_ino
