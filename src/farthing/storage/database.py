"""One database: SQLite file or PostgreSQL server; transactions, its clock, and clear errors."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Engine,
    cast,
    create_engine,
    event,
    extract,
    func,
    literal,
    make_url,
    text,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from farthing.errors import StorageError
from farthing.storage.schema import prepare

__all__ = ["Database", "clock"]

PATIENCE = 30.0  # seconds to wait for somebody else's transaction, or for a server
IDLE = 60.0  # seconds after which a connection may have been cut, so that a new one is made
PREPARING = 0xFA271146  # the advisory lock under which PostgreSQL tables are made


@cache
def clock(is_sqlite: bool) -> ColumnElement[float]:
    """The database's clock, in seconds, as SQL."""
    if is_sqlite:
        return (func.julianday("now") - literal(2440587.5)) * literal(86400.0)
    return cast(extract("epoch", func.clock_timestamp()), Double)


class Database:
    """Where studies are kept; every process has its own connections, also after a fork."""

    def __init__(self, url: str | Path) -> None:
        self.url = _url(url)
        self.shown = self.url.render_as_string(hide_password=True)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._inherited: list[Engine] = []  # of the process that forked us: not ours to close
        self._connect()
        with self.writing(lock=True) as connection:
            prepare(connection)

    def _connect(self) -> None:
        self._process, self._used = os.getpid(), time.monotonic()
        if self.is_sqlite:
            self._engine = create_engine(self.url, connect_args={"timeout": PATIENCE})
            event.listen(self._engine, "connect", _set_up_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
            self._reader = self._engine
            self._glancer = self._engine.execution_options(glances=True)
        else:
            self._engine = _postgres(self.url)
            self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ")
            self._glancer = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._writer = self._engine.execution_options(writes=True)
        weakref.finalize(self, _dispose, self._engine, self._process)

    def _own(self) -> None:
        """Connections of this process that are likely to be alive."""
        if self._process != os.getpid():
            self._inherited.append(self._engine)
            self._connect()
        elif time.monotonic() - self._used > IDLE:
            self._engine.dispose()
        self._used = time.monotonic()

    @contextmanager
    def glancing(self) -> Iterator[Connection]:
        """A single question, without the messages that begin and end a transaction."""
        self._own()
        with self._clear_errors(), self._glancer.connect() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A view of one moment."""
        self._own()
        with self._clear_errors(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, *, lock: bool = False) -> Iterator[Connection]:
        """A transaction that happens as a whole or not at all.

        SQLite has one writer at a time. PostgreSQL locks what is selected for update; `lock` keeps
        everybody out who also asks for it.
        """
        self._own()
        with self._clear_errors(), self._writer.begin() as connection:
            if lock and not self.is_sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({PREPARING})"))
            yield connection

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise StorageError(self._sentence(error)) from error

    def _sentence(self, error: DBAPIError) -> str:
        said = str(error.orig).strip().split("\n")[0]
        low = said.lower()
        where = f"The database {self.shown}"
        if "readonly" in low or "read-only" in low or "permission denied" in low:
            return f"{where} cannot be written to ({said}). Give this user the right to write it."
        if "locked" in low or "lock timeout" in low:
            return (
                f"{where} was locked by another program for {PATIENCE:.0f} s ({said}). "
                "End that program, or wait for it."
            )
        if "unable to open" in low:
            folder = Path(self.url.database or ".").absolute().parent
            there = "exists, but not for you" if folder.is_dir() else "does not exist"
            return f"{where} cannot be opened: the folder {folder} {there}. Name another file."
        if "not a database" in low or "malformed" in low:
            return f"{where} is not one that can be read ({said}). Name another file."
        if "disk" in low or "full" in low or "no space" in low:
            return f"{where} cannot grow ({said}). Make room on the disk."
        if error.connection_invalidated or "connect" in low or "password" in low:
            return f"{where} cannot be reached ({said}). Is the server running, and the URL right?"
        return f"{where} refused: {said}."

    def close(self) -> None:
        """Close every connection of this process."""
        _dispose(self._engine, self._process)


def _dispose(engine: Engine, process: int) -> None:
    if process == os.getpid():  # never the connections of the process that forked this one
        engine.dispose()


def _postgres(url: URL) -> Engine:
    try:
        return create_engine(url, connect_args={"connect_timeout": int(PATIENCE)})
    except ImportError:
        raise StorageError(
            "PostgreSQL is spoken by psycopg, which is not installed: "
            "pip install 'farthing[postgres]'."
        ) from None


def _url(given: str | Path) -> URL:
    """A URL as it was given; a path is an SQLite file, and PostgreSQL is spoken by psycopg 3."""
    shown = str(given)
    try:
        url = make_url(shown if "://" in shown else f"sqlite:///{shown}")
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise StorageError(
            f"{shown!r} is not the address of a database. "
            'Write "sqlite:///tune.db", a file name, or "postgresql://user@host/name".'
        ) from None
    if backend in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StorageError(
            f"{shown!r}: a study is kept in an SQLite file or on a PostgreSQL server. "
            'Write "sqlite:///tune.db" or "postgresql://user@host/name".'
        )
    if url.database in (None, "", ":memory:"):
        raise StorageError(
            f"{shown!r}: a study is kept in a file, so that it outlives this process. "
            'Write "sqlite:///tune.db".'
        )
    return url


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except Exception as error:  # switching does not wait for others by itself
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous=NORMAL")  # safe with WAL, also in a power cut
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("glances"):
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")
