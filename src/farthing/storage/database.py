"""One database, an SQLite file or a PostgreSQL server: transactions, its clock, clear errors."""

from __future__ import annotations

import os
import re
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
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

from farthing.errors import FarthingError, StorageError, Superseded
from farthing.storage.address import printable, secrets_in
from farthing.storage.error_codes import CANNOT_OPEN, NO_FOLDER, is_locked, meaning_of
from farthing.storage.looking import can_write, open_to_look, set_up_look
from farthing.storage.schema import prepare, stand_ins

__all__ = ["Database", "clock", "close_sqlite_files", "is_missing"]

PATIENCE = 30.0  # seconds to wait for another transaction, or for a server
IDLE = 60.0  # seconds after which a connection may be broken, so that a new one is opened
MAX_VALUE = 100_000_000  # bytes of one value in a file; the rows of a table are the largest
PREPARING = 0xFA271146  # key of the advisory lock for creating tables in PostgreSQL
KEYWORDS = re.compile(r"(?:^|\s)(?:host|hostaddr|dbname|user|password|passfile|service)\s*=")
_opened: weakref.WeakSet[Database] = weakref.WeakSet()  # every Database of this process
_to_servers: weakref.WeakSet[Any] = weakref.WeakSet()  # every connection of psycopg


@cache
def clock(is_sqlite: bool) -> ColumnElement[float]:
    """The database's clock in seconds, as an SQL expression."""
    if is_sqlite:
        return (func.julianday("now") - literal(2440587.5)) * literal(86400.0)
    return cast(extract("epoch", func.clock_timestamp()), Double)


class Database:
    """A database with studies. Every process has its own connections, also after a fork.

    Attributes:
        url: the address, with its password.
        shown: the address without its password.
        is_sqlite: whether it is an SQLite file; if not, it is a PostgreSQL server.
        version: the version of its schema.
    """

    def __init__(self, url: str | Path, *, look: bool = False) -> None:
        """Open a database, and create or migrate its tables.

        Args:
            look: only read. Nothing is created or migrated before the first `writing`, and no
                permission to write is needed.
        """
        self.url = _url(url)
        self.shown = printable(self.url.render_as_string(hide_password=False))
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._file: tuple[int, int] | None = None
        self._inherited: list[Pool] = []  # of the parent process; not closed here
        self._looks, self._stand_ins = look, list[str]()
        self._connect()
        _opened.add(self)
        if look:
            self._examine()
        else:
            self._prepare()
        self._file = self._identity()

    def _prepare(self) -> None:
        """Create or migrate the tables, after which this process may write."""
        looked = self._looks
        self._look(False)
        try:
            with self.writing(lock=True) as connection, self.checking():
                self.version = prepare(connection)
        except BaseException:
            self._look(looked)
            raise

    def _look(self, only: bool) -> None:
        """Connect anew if this process only looks from now on, or not any more."""
        if only != self._looks:
            self.close()
            self._looks = only
            self._connect()

    def _examine(self) -> None:
        """Find out what connections need in order to read the tables of an older version."""
        self._stand_ins.clear()
        self.close()
        with self.reading() as connection, self.checking():
            self.version, self._stand_ins[:] = stand_ins(connection)
        if self._stand_ins:
            self.close()

    def check_version(self, found: Any) -> None:
        """Check that the schema still has the version that it had when the database was opened.

        If this process only looks, it adapts.

        Raises:
            Superseded: another version of Farthing has changed the schema.
        """
        if found == self.version:
            return
        if self._looks:
            self._examine()
            return
        raise Superseded(
            f"The database {self.shown} has schema version {found!a} now, but had "
            f"{self.version} when this process opened it. Another version of Farthing has changed "
            "it, or another copy has replaced it. Use the newer version of Farthing here too, then "
            "run again."
        )

    def _identity(self) -> tuple[int, int] | None:
        """Device and inode of the file; None if there is no file, or if it is a server."""
        if not self._is_path:
            return None
        try:
            found = os.stat(str(self.url.database))
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @property
    def location(self) -> str:
        """The real path of its file, or its address: the same for all processes of this machine."""
        file = str(self.url.database)
        return os.path.realpath(file) if self.is_sqlite else self.shown

    def _connect(self) -> None:
        if self.is_sqlite:
            if not self._looks:
                _make_private(self.url)
            # No method of this object: the engine must not keep it alive.
            look = partial(open_to_look, str(self.url.database), PATIENCE)
            opens = {"creator": look} if self._looks and self._is_path else {}
            self._engine = create_engine(self.url, connect_args={"timeout": PATIENCE}, **opens)
            if not self._looks:
                event.listen(self._engine, "connect", _use_log)
            event.listen(self._engine, "connect", _set_up_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
            self._reader = self._engine
            self._querier = self._engine.execution_options(single_query=True)
        else:
            self._engine = _postgres(self.url)
            self._reader = self._engine.execution_options(isolation_level="REPEATABLE READ")
            self._querier = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        if self._looks:
            set_up = partial(set_up_look, self._stand_ins, self.is_sqlite)
            event.listen(self._engine, "connect", set_up)
        self._writer = self._engine.execution_options(writes=True)
        self._own_connections()

    @property
    def _is_path(self) -> bool:
        """Whether it is an SQLite file whose address is a path, and not a URI of SQLite."""
        return self.is_sqlite and "uri" not in self.url.query

    def _own_connections(self) -> None:
        """Note that this process opens the connections from now on."""
        self._process, self._used = os.getpid(), time.monotonic()
        weakref.finalize(self, _dispose, self._engine, self._process)

    def _prepare_connections(self) -> None:
        """Check that the file is still the same, and drop inherited and idle connections."""
        if self._file is not None and self._identity() != self._file:
            raise StorageError(
                f"The database {self.shown} was deleted or replaced while it was in use. Earlier "
                "results are in the original file. Restore that file, or run again."
            )
        if self._process != os.getpid():
            self._inherited.append(self._engine.pool)
            self._engine.dispose(close=False)  # keeps the compiled statements
            self._own_connections()
        elif time.monotonic() - self._used > IDLE or (
            # A connection that takes the file for immutable would not notice a change of it.
            self._looks and self._is_path and not can_write(str(self.url.database))
        ):
            self._engine.dispose()
        self._used = time.monotonic()

    @contextmanager
    def querying(self) -> Iterator[Connection]:
        """A connection for single queries, without statements that begin and end a transaction."""
        self._prepare_connections()
        with self._clear_errors(), self._querier.connect() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction: all queries see the same moment."""
        self._prepare_connections()
        with self._clear_errors(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, *, lock: bool = False) -> Iterator[Connection]:
        """A write transaction, which is applied as a whole or not at all.

        SQLite has one writer at a time. PostgreSQL locks the rows that are selected for update.

        Args:
            lock: exclude other transactions with `lock`, in PostgreSQL too.
        """
        if self._looks:
            self._prepare()
        self._prepare_connections()
        with self._clear_errors(), self._writer.begin() as connection:
            if lock and not self.is_sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({PREPARING})"))
            yield connection

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._explained(error) from error
        # Two rows, or none, where one is expected; or a damaged file of which SQLite complains with
        # a message that is not text.
        except (SQLAlchemyError, UnicodeDecodeError) as error:
            raise self.invalid(error) from error

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Inside, an error while interpreting data becomes a `StorageError`."""
        try:
            yield
        except FarthingError:
            raise
        except (ArithmeticError, AttributeError, LookupError, RecursionError) as error:
            raise self.invalid(error) from error
        except (TypeError, ValueError) as error:
            raise self.invalid(error) from error

    def invalid(self, what: object) -> StorageError:
        """The error that says that the database contains what Farthing never writes."""
        found = ascii(str(what)[:200])[1:-1]
        return StorageError(
            f"The database {self.shown} contains data that Farthing did not write ({found}). It is "
            "damaged, or another program changed it. Restore a backup, or name another database."
        )

    def _explained(self, error: DBAPIError) -> StorageError:
        """The error to raise instead. Its class and its sentence depend on the error code only."""
        message = str(error.orig).strip().split("\n")[0]
        for secret in secrets_in(self.url.render_as_string(hide_password=False)):
            message = message.replace(secret, "***")
        meaning = meaning_of(error)
        folder = ""
        if meaning is CANNOT_OPEN and "uri" not in self.url.query:
            folder = os.path.dirname(os.path.abspath(str(self.url.database)))
            meaning = CANNOT_OPEN if os.path.isdir(folder) else NO_FOLDER
        sentence = meaning.sentence.format(message=message, folder=folder, seconds=PATIENCE)
        return meaning.error(f"The database {self.shown} {sentence}")

    def close(self) -> None:
        """Close every connection of this process."""
        _dispose(self._engine, self._process)


def _dispose(engine: Engine, process: int) -> None:
    if process == os.getpid():  # never close the connections of the parent process
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
    """The parsed URL. A path is an SQLite file, and PostgreSQL uses psycopg 3."""
    shown, address = printable(given), str(given)
    if "://" not in address and KEYWORDS.search(address):  # the file name would have the password
        raise StorageError(
            f"{shown!r} is an address in libpq's keywords. Write it as a URL, such as "
            '"postgresql://user@host/name".'
        )
    try:
        url = make_url(address if "://" in address else f"sqlite:///{address}")
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise StorageError(
            f"{shown!r} is not the address of a database. Expected a file name, "
            '"sqlite:///tune.db" or "postgresql://user@host/name".'
        ) from None
    if backend in ("postgres", "postgresql"):
        if "@" in (url.host or ""):  # else a part of the password is taken for the server
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
    """Limit how long to wait for a lock, and for a suspended process that holds one."""
    patience = int(1000 * PATIENCE)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SET lock_timeout = {patience}; SET statement_timeout = {2 * patience}; "
            f"SET idle_in_transaction_session_timeout = {patience}"
        )
    connection.commit()
    _to_servers.add(connection)


def _release_sockets() -> None:
    """In a forked process, close the sockets of its parent, but do not end their sessions.

    A server ends the transaction of a killed process when no process has its socket any more. Until
    then, all others would wait for its locks. Each socket is replaced by the null device, because
    its number must not mean another file when the connection is deleted.
    """
    if not _to_servers:
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for connection in list(_to_servers):
        if not connection.closed:
            os.dup2(null, connection.fileno(), inheritable=False)
    os.close(null)
    _to_servers.clear()


os.register_at_fork(after_in_child=_release_sockets)


def _make_private(url: URL) -> None:
    """Create the file so that only its owner has access. An existing file stays as it is.

    An existing file must not be opened: closing it would release every lock of this process on it.
    The next process that closes the database would then delete the log in use.
    """
    if "uri" not in url.query:
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with suppress(OSError):  # it exists, or opening it raises an error
            os.close(os.open(str(url.database), new, 0o600))


def close_sqlite_files() -> None:
    """Close every SQLite file until it is needed again.

    Call this before a fork whose child uses a database. SQLite would take the locks of the parent
    for the child's own and would not lock the file for it.
    """
    for database in list(_opened):
        if database.is_sqlite:
            database.close()


def is_missing(url: str | Path) -> bool:
    """Whether the address names a file that does not exist; opening it would create one."""
    found = _url(url)
    file = found.database or ""
    return found.get_backend_name() == "sqlite" and not (
        file.startswith("file:") or Path(file).exists()
    )


def _use_log(connection: Any, _: Any) -> None:
    """Let readers and a writer work at the same time."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.Error as error:  # this pragma ignores the timeout
            if not is_locked(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # _begin_sqlite sends BEGIN
    connection.execute("PRAGMA trusted_schema=OFF")  # the file may come from another user
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.execute("PRAGMA synchronous=NORMAL")  # with WAL, safe in a power cut too
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("single_query"):
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes") else "BEGIN")
