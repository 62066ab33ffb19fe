"""One database: SQLite file or PostgreSQL server; transactions, its clock, and clear errors."""

from __future__ import annotations

import os
import select
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import Pool

from farthing.errors import FarthingError, StorageError
from farthing.storage.address import printable, secrets_in
from farthing.storage.error_codes import CANNOT_OPEN, NO_FOLDER, is_locked, meaning_of
from farthing.storage.schema import prepare

__all__ = ["Database", "clock", "is_missing", "let_go_of_files"]

PATIENCE = 30.0  # seconds to wait for somebody else's transaction, or for a server
IDLE = 60.0  # seconds after which a connection may have been cut, so that a new one is made
MAX_VALUE = (
    100_000_000  # bytes of one value in a file: the rows of a table are the largest we write
)
PREPARING = 0xFA271146  # the advisory lock under which PostgreSQL tables are made
_opened: weakref.WeakSet[Database] = weakref.WeakSet()  # by this process


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
        self.shown = printable(self.url.render_as_string(hide_password=False))
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._file: tuple[int, int] | None = None
        self._inherited: list[Pool] = []  # of the process that forked us: not ours to close
        self._connect()
        _opened.add(self)
        with self.writing(lock=True) as connection, self.understanding():
            prepare(connection)
        self._file = self._identity()

    def _identity(self) -> tuple[int, int] | None:
        """Which file it is, whatever its name; None: there is none, or it is no file."""
        if not self.is_sqlite or "uri" in self.url.query:
            return None
        try:
            found = os.stat(str(self.url.database))
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @property
    def place(self) -> str:
        """The same for all who mean it on this machine: where its file is, or its address."""
        file = str(self.url.database)
        return os.path.realpath(file) if self.is_sqlite else self.shown

    def _connect(self) -> None:
        if self.is_sqlite:
            _make_private(self.url)
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
        self._belong()

    def _belong(self) -> None:
        """The connections made from now on are of this process."""
        self._process, self._used = os.getpid(), time.monotonic()
        weakref.finalize(self, _dispose, self._engine, self._process)

    def _own(self) -> None:
        """Connections of this process that are likely to be alive, to a file that is there."""
        if self._file is not None and self._identity() != self._file:
            raise StorageError(
                f"The database {self.shown} was deleted or replaced while it was in use. Earlier "
                "results are in the original file. Restore that file, or run again."
            )
        if self._process != os.getpid():
            self._inherited.append(self._engine.pool)
            self._engine.dispose(close=False)  # the statements that were compiled are kept
            self._belong()
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
    def listening(self, channel: int) -> Iterator[tuple[Connection, Callable[[float], None]]]:
        """A connection to PostgreSQL, and what waits on it, for so many seconds at most, until
        somebody has notified. To wait is no statement.
        """
        with self.glancing() as connection:
            raw: Any = connection.connection.driver_connection
            words: list[Any] = []

            def heard(seconds: float) -> None:
                if not words and raw.pgconn.notifies() is None:  # it may have come with an answer
                    select.select([raw.pgconn.socket], [], [], seconds)

            raw.add_notify_handler(words.append)
            try:
                connection.exec_driver_sql(f"LISTEN farthing_{channel:d}")
                yield connection, heard
                connection.exec_driver_sql("UNLISTEN *")
            finally:
                raw.remove_notify_handler(words.append)

    def notify(self, connection: Connection, channel: int) -> None:
        """Wake those who listen, when the transaction is committed; SQLite has no such word."""
        if not self.is_sqlite:
            connection.exec_driver_sql(f"NOTIFY farthing_{channel:d}")

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._explained(error) from error
        except SQLAlchemyError as error:  # two rows where there is one, or none
            raise self.strange(error) from error

    @contextmanager
    def understanding(self) -> Iterator[None]:
        """What is read in here was written by Farthing, or it is an error with a sentence."""
        try:
            yield
        except FarthingError:
            raise
        except (ArithmeticError, AttributeError, LookupError, RecursionError) as error:
            raise self.strange(error) from error
        except (TypeError, ValueError) as error:
            raise self.strange(error) from error

    def strange(self, what: object) -> StorageError:
        """The database holds what no Farthing wrote."""
        said = ascii(str(what)[:200])[1:-1]
        return StorageError(
            f"The database {self.shown} contains data that Farthing did not write ({said}). It is "
            "damaged, or another program changed it. Restore a backup, or name another database."
        )

    def _explained(self, error: DBAPIError) -> StorageError:
        """The error to raise instead: its class and its sentence follow from the code alone."""
        said = str(error.orig).strip().split("\n")[0]
        for secret in secrets_in(self.url.render_as_string(hide_password=False)):
            said = said.replace(secret, "***")
        meaning = meaning_of(error)
        folder = ""
        if meaning is CANNOT_OPEN and "uri" not in self.url.query:
            folder = os.path.dirname(os.path.abspath(str(self.url.database)))
            meaning = CANNOT_OPEN if os.path.isdir(folder) else NO_FOLDER
        sentence = meaning.sentence.format(said=said, folder=folder, seconds=PATIENCE)
        return meaning.error(f"The database {self.shown} {sentence}")

    def close(self) -> None:
        """Close every connection of this process."""
        _dispose(self._engine, self._process)


def _dispose(engine: Engine, process: int) -> None:
    if process == os.getpid():  # never the connections of the process that forked this one
        engine.dispose()


def _postgres(url: URL) -> Engine:
    patience = int(PATIENCE)
    try:
        engine = create_engine(
            url,
            connect_args={"connect_timeout": patience, "tcp_user_timeout": 2_000 * patience},
        )
        event.listen(engine, "connect", _set_up_postgres)
        return engine
    except ImportError:
        raise StorageError(
            "PostgreSQL needs psycopg, which is not installed. "
            "Run: pip install 'farthing[postgres]'."
        ) from None


def _url(given: str | Path) -> URL:
    """A URL as it was given; a path is an SQLite file, and PostgreSQL is spoken by psycopg 3."""
    shown, told = printable(given), str(given)
    try:
        url = make_url(told if "://" in told else f"sqlite:///{told}")
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise StorageError(
            f"{shown!r} is not the address of a database. Expected a file name, "
            '"sqlite:///tune.db" or "postgresql://user@host/name".'
        ) from None
    if backend in ("postgres", "postgresql"):
        if "@" in (url.host or ""):  # or a part of the password would be taken for the server
            raise StorageError(f"{shown!r}: the password contains an @. Write it as %40.")
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StorageError(
            f"{shown!r}: a study is stored in an SQLite file or on a PostgreSQL server. "
            'Write "sqlite:///tune.db" or "postgresql://user@host/name".'
        )
    if url.database in (None, "", ":memory:"):
        raise StorageError(
            f"{shown!r}: a study must be stored in a file, so that it survives this process. "
            'Write "sqlite:///tune.db".'
        )
    return url


def _set_up_postgres(connection: Any, _: Any) -> None:
    """Nobody waits for ever: not for a lock, and not for one who was stopped while he held it."""
    patience = int(1000 * PATIENCE)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SET lock_timeout = {patience}; SET statement_timeout = {2 * patience}; "
            f"SET idle_in_transaction_session_timeout = {patience}"
        )
    connection.commit()


def _make_private(url: URL) -> None:
    """A new file is its owner's only; one that is there stays as it is.

    It must not even be opened: to close it would give up every lock that this process has on it,
    and whoever closes it next elsewhere would take away the log that we still write to.
    """
    if "uri" not in url.query:
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with suppress(OSError):  # it is there, or it is said when it is opened
            os.close(os.open(str(url.database), new, 0o600))


def let_go_of_files() -> None:
    """Close every SQLite file until it is needed again. To be done before a fork whose child will
    use one: SQLite would take the locks of this process for the child's, and not lock for it.
    """
    for database in list(_opened):
        if database.is_sqlite:
            database.close()


def is_missing(url: str | Path) -> bool:
    """Whether it names a file that is not there; to open it would make one."""
    found = _url(url)
    file = found.database or ""
    return found.get_backend_name() == "sqlite" and not (
        file.startswith("file:") or Path(file).exists()
    )


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.Error as error:  # switching does not wait for others by itself
            if not is_locked(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA trusted_schema=OFF")  # the file may be somebody else's
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.execute("PRAGMA synchronous=NORMAL")  # safe with WAL, also in a power cut
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("glances"):
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")
