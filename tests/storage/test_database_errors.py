"""The code of a database error decides what it means, never its message."""

import os
import re
import sqlite3
import threading
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, InternalError, OperationalError

from benchmarks.reliability.faults.server import own_server
from farthing import Float, Ledger, Study
from farthing.errors import StorageError, Unreachable
from farthing.policies import Random
from farthing.storage import Database, close_sqlite_files, database, error_codes
from farthing.storage.error_codes import POSTGRES, SQLITE, is_locked, meaning_of
from farthing.storage.studies import create_study

SERVER = os.environ.get("FARTHING_TEST_POSTGRES")
needs_server = pytest.mark.skipif(
    SERVER is None, reason="FARTHING_TEST_POSTGRES does not name a server: .ci/postgres starts one"
)
# Words that would mislead a search in messages.
FOREIGN = [
    "die Sperre konnte nicht gesetzt werden",
    "database is locked",
    "disk full",
    "could not connect: password",
    "readonly",
    "file is not a database",
    "unable to open database file",
    "",
]


def from_sqlite(code, message):
    orig = sqlite3.OperationalError(message)
    if code is not None:
        orig.sqlite_errorcode = code
    return OperationalError("SELECT 1", {}, orig)


def from_postgres(state, message, *, kind=OperationalError, broken=False):
    orig = psycopg.OperationalError(message)
    orig.sqlstate = state
    return kind("SELECT 1", {}, orig, connection_invalidated=broken)


LATER, NEVER = Unreachable, StorageError
ON_SQLITE = [
    (sqlite3.SQLITE_BUSY, LATER, "was locked by another program"),
    (sqlite3.SQLITE_BUSY_SNAPSHOT, LATER, "was locked by another program"),
    (sqlite3.SQLITE_LOCKED, LATER, "was locked by another program"),
    (sqlite3.SQLITE_PROTOCOL, LATER, "was locked by another program"),
    (sqlite3.SQLITE_FULL, LATER, "cannot grow"),
    (sqlite3.SQLITE_IOERR, LATER, "could not read or write its disk"),
    (sqlite3.SQLITE_IOERR_WRITE, LATER, "could not read or write its disk"),
    (sqlite3.SQLITE_READONLY, NEVER, "cannot be written to"),
    (sqlite3.SQLITE_READONLY_DBMOVED, NEVER, "cannot be written to"),
    (sqlite3.SQLITE_PERM, NEVER, "cannot be written to"),
    (sqlite3.SQLITE_CANTOPEN, NEVER, "cannot be opened"),
    (sqlite3.SQLITE_TOOBIG, NEVER, "contains a value that is larger"),
    (sqlite3.SQLITE_CORRUPT, NEVER, "is damaged"),
    (sqlite3.SQLITE_CORRUPT_VTAB, NEVER, "is damaged"),
    (sqlite3.SQLITE_NOTADB, NEVER, "is damaged"),
    (sqlite3.SQLITE_ERROR, NEVER, "refused a statement"),
    (sqlite3.SQLITE_CONSTRAINT_UNIQUE, NEVER, "refused a statement"),
    (None, NEVER, "refused a statement"),  # raised by Python itself
]
ON_POSTGRES = [
    ("08006", LATER, "cannot be reached"),  # connection_failure
    ("08P01", LATER, "cannot be reached"),  # protocol_violation
    ("40001", LATER, "cancelled a transaction"),  # serialization_failure
    ("40P01", LATER, "cancelled a transaction"),  # deadlock_detected
    ("53100", LATER, "cannot grow"),  # disk_full
    ("53200", LATER, "has run out of memory or connections"),  # out_of_memory
    ("53300", LATER, "has run out of memory or connections"),  # too_many_connections
    ("55P03", LATER, "was locked by another program"),  # lock_not_available
    ("57014", LATER, "cancelled a transaction"),  # query_canceled
    ("57P01", LATER, "cannot be reached"),  # admin_shutdown
    ("57P02", LATER, "cannot be reached"),  # crash_shutdown
    ("57P03", LATER, "cannot be reached"),  # cannot_connect_now
    ("58030", LATER, "could not read or write its disk"),  # io_error
    (None, LATER, "cannot be reached"),  # no answer came
    ("25006", NEVER, "cannot be written to"),  # read_only_sql_transaction
    ("42501", NEVER, "cannot be written to"),  # insufficient_privilege
    ("28P01", NEVER, "refused the connection"),  # invalid_password
    ("3D000", NEVER, "refused the connection"),  # invalid_catalog_name
    ("57P04", NEVER, "refused the connection"),  # database_dropped
    ("XX001", NEVER, "is damaged"),  # data_corrupted
    ("XX002", NEVER, "is damaged"),  # index_corrupted
    ("22P02", NEVER, "refused a statement"),
    ("23505", NEVER, "refused a statement"),  # unique_violation
    ("42P01", NEVER, "refused a statement"),  # undefined_table
    ("55000", NEVER, "refused a statement"),
]


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    return Database(tmp_path_factory.mktemp("where") / "s.db")


@pytest.mark.parametrize(
    ("build", "code", "kind", "sentence"),
    [(from_sqlite, *row) for row in ON_SQLITE] + [(from_postgres, *row) for row in ON_POSTGRES],
)
def test_the_code_decides_whatever_the_message_says(where, build, code, kind, sentence):
    for message in FOREIGN:
        with pytest.raises(StorageError) as raised, where._clear_errors():
            raise build(code, message)
        assert type(raised.value) is kind
        assert str(raised.value).startswith(f"The database {where.shown} {sentence}")
        assert f"({message})" in str(raised.value)


def test_every_row_of_the_tables_is_tested():
    assert set(SQLITE) <= {code & 0xFF for code, *_ in ON_SQLITE if code is not None}
    states = {state for state, *_ in ON_POSTGRES if state is not None}
    assert set(POSTGRES) <= states | {state[:2] for state in states if state not in POSTGRES}


@pytest.mark.parametrize("message", FOREIGN)
def test_a_connection_that_breaks_is_unreachable(message):
    """Even if its SQLSTATE, such as idle_in_transaction_session_timeout, does not say so."""
    for state in ("25P03", "XX000", None):
        for kind in (OperationalError, InternalError):
            error = from_postgres(state, message, kind=kind, broken=True)
            assert meaning_of(error) is error_codes.UNREACHABLE
    whole = from_postgres("25P03", message, kind=InternalError)
    assert meaning_of(whole) is error_codes.OTHER
    assert meaning_of(from_postgres(None, message, kind=InternalError)) is error_codes.OTHER
    dropped = from_postgres("57P04", message, broken=True)
    assert meaning_of(dropped) is error_codes.NO_ACCESS


@pytest.mark.parametrize("message", FOREIGN)
def test_a_lock_is_recognised_by_its_code(message):
    for code, locked in [
        (sqlite3.SQLITE_BUSY, True),
        (sqlite3.SQLITE_BUSY_RECOVERY, True),
        (sqlite3.SQLITE_LOCKED_SHAREDCACHE, True),
        (sqlite3.SQLITE_IOERR_LOCK, False),
        (sqlite3.SQLITE_NOTADB, False),
        (None, False),
    ]:
        assert is_locked(from_sqlite(code, message).orig) is locked


MEANINGS = [m for m in vars(error_codes).values() if isinstance(m, error_codes.Meaning)]


@pytest.mark.parametrize("meaning", MEANINGS, ids=lambda meaning: meaning.sentence[:30])
def test_every_sentence_says_what_to_do(meaning):
    sentence = meaning.sentence.format(message="why", folder="/f", seconds=3.0)
    assert re.search(r"[a-z)]\. [A-Z][^.]+[.?]$", sentence)


def test_a_message_with_braces_is_shown_as_it_is(where):
    with pytest.raises(StorageError, match=r"\(\{message\} \{0\}\)"), where._clear_errors():
        raise from_sqlite(sqlite3.SQLITE_ERROR, "{message} {0}")


# ── SQLite ─────────────────────────────────────────────────────────────────────────────────────


def raised_by(act):
    """The error that Farthing raises, and the primary result code of SQLite."""
    with pytest.raises(StorageError) as raised:
        act()
    cause = raised.value.__cause__
    assert isinstance(cause, DBAPIError)
    return raised.value, cause.orig.sqlite_errorcode & 0xFF


def add(where, name="b", settings="{}"):
    return create_study(where, name, settings, Ledger.of(None))


@pytest.mark.parametrize("mode", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_locked_file_may_be_free_later(tmp_path, monkeypatch, mode):
    Database(tmp_path / "s.db").close()
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as holder:
        holder.execute(f"BEGIN {mode}")
        error, code = raised_by(lambda: Database(tmp_path / "s.db"))
    assert (type(error), code) == (Unreachable, sqlite3.SQLITE_BUSY)
    add(Database(tmp_path / "s.db"))  # it is


def test_opening_waits_for_a_file_that_is_locked(tmp_path, monkeypatch):
    """Switching to WAL needs exclusive access, and SQLite does not wait for it."""
    path = tmp_path / "s.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.executescript("CREATE TABLE theirs (a); BEGIN IMMEDIATE; INSERT INTO theirs VALUES (1)")
    tries, ask = [], is_locked

    def counted(error):
        tries.append(ask(error))
        if len(tries) == 3:
            holder.execute("ROLLBACK")
        return tries[-1]

    monkeypatch.setattr(database, "is_locked", counted)
    with closing(holder):
        Database(path).close()
    assert tries == [True, True, True]


def test_a_file_that_is_not_a_database(tmp_path):
    (tmp_path / "s.db").write_text("no such thing, " * 200)
    error, code = raised_by(lambda: Database(tmp_path / "s.db"))
    assert (type(error), code) == (StorageError, sqlite3.SQLITE_NOTADB)


def test_a_damaged_file(tmp_path):
    path = tmp_path / "s.db"
    add(Database(path))
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.execute("PRAGMA journal_mode=DELETE")
    pages = bytearray(path.read_bytes())
    pages[4096:] = b"\xff" * (len(pages) - 4096)
    path.write_bytes(pages)
    error, code = raised_by(lambda: add(Database(path), "c"))
    assert (type(error), code) == (StorageError, sqlite3.SQLITE_CORRUPT)


def test_a_read_only_file(tmp_path):
    add(Database(tmp_path / "s.db"), "a")
    only = f"sqlite:///file:{tmp_path / 's.db'}?mode=ro&uri=true"  # root may write any file
    error, code = raised_by(lambda: add(Database(only)))
    assert (type(error), code) == (StorageError, sqlite3.SQLITE_READONLY)


@pytest.mark.parametrize("address", ["{}/folder", "sqlite:///file:{}/none?mode=ro&uri=true"])
def test_a_file_that_cannot_be_opened(tmp_path, address):
    (tmp_path / "folder").mkdir()
    error, code = raised_by(lambda: Database(address.format(tmp_path)))
    assert (type(error), code) == (StorageError, sqlite3.SQLITE_CANTOPEN)
    assert "Check that it is a file" in str(error)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    error, code = raised_by(lambda: Database(tmp_path / "no" / "s.db"))
    assert (type(error), code) == (StorageError, sqlite3.SQLITE_CANTOPEN)
    assert f"the folder {tmp_path / 'no'} does not exist" in str(error)


def test_a_full_disk_may_have_space_later(tmp_path):
    where = Database(tmp_path / "s.db")
    with where.querying() as connection:  # the only connection, which is used again
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count = {pages}"))
    large = "x" * 100_000
    error, code = raised_by(lambda: add(where, "large", large))
    assert (type(error), code) == (Unreachable, sqlite3.SQLITE_FULL)
    with where.querying() as connection:
        connection.execute(text("PRAGMA max_page_count = 1000000"))
    add(where, "large", large)


def test_a_value_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "MAX_VALUE", 10_000)
    where = Database(tmp_path / "s.db")
    error, code = raised_by(lambda: add(where, "large", "x" * 20_000))
    assert (type(error), code) == (StorageError, sqlite3.SQLITE_TOOBIG)


# ── PostgreSQL ─────────────────────────────────────────────────────────────────────────────────


def state_of(raised):
    assert isinstance(raised.value.__cause__, DBAPIError)
    return raised.value.__cause__.orig.sqlstate


def statement(where, *statements):
    with where.writing() as connection:
        for each in statements:
            connection.execute(text(each))


on_server = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


@pytest.fixture
def server(url):
    """A separate schema on a server."""
    found = Database(url)
    yield found
    found.close()


@needs_server
def test_a_database_that_does_not_exist():
    """libpq has no SQLSTATE for errors before a connection exists."""
    missing = SERVER.rsplit("/", 1)[0] + "/no_such_database"
    with pytest.raises(Unreachable, match=r"cannot be reached .*no_such_database") as raised:
        Database(missing)
    assert state_of(raised) is None


@on_server
def test_a_lock_that_others_hold(server):
    add(server, "a")
    lock = "SELECT * FROM farthing_studies FOR UPDATE"
    other = create_engine(server.url)
    with other.connect() as holder:
        holder.execute(text(lock))
        with pytest.raises(Unreachable, match="was locked by another program") as raised:
            statement(server, "SET LOCAL lock_timeout = 50", lock)
    other.dispose()
    assert state_of(raised) == "55P03"
    statement(server, lock)


@on_server
def test_a_statement_that_takes_too_long(server):
    with pytest.raises(Unreachable, match="cancelled") as raised:
        statement(server, "SET LOCAL statement_timeout = 50", "SELECT pg_sleep(600)")
    assert state_of(raised) == "57014"


@on_server
def test_two_transactions_that_wait_for_each_other(server):
    add(server, "a")
    add(server, "b")
    both, raised = threading.Barrier(2), []

    def lock(first, second):
        row = "SELECT * FROM farthing_studies WHERE name = '{}' FOR UPDATE"
        try:
            with server.writing() as connection:
                connection.execute(text("SET LOCAL deadlock_timeout = 50"))
                connection.execute(text(row.format(first)))
                both.wait(60)
                connection.execute(text(row.format(second)))
        except StorageError as error:
            raised.append(error)

    threads = [threading.Thread(target=lock, args=names) for names in ("ab", "ba")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (error,) = raised
    assert (type(error), error.__cause__.orig.sqlstate) == (Unreachable, "40P01")


@on_server
def test_a_server_that_refuses_to_write(server):
    with pytest.raises(StorageError, match="cannot be written to") as raised:
        statement(server, "SET TRANSACTION READ ONLY", "DELETE FROM farthing_studies")
    assert (type(raised.value), state_of(raised)) == (StorageError, "25006")


@on_server
def test_a_statement_that_makes_no_sense(server):
    with pytest.raises(StorageError, match="refused a statement") as raised:
        statement(server, "SELECT * FROM locked_connection_password_disk_full")
    assert (type(raised.value), state_of(raised)) == (StorageError, "42P01")


@on_server
def test_a_broken_connection_is_replaced(server):
    with pytest.raises(Unreachable, match="cannot be reached") as raised:
        statement(server, "SELECT pg_terminate_backend(pg_backend_pid())")
    assert state_of(raised) == "57P01"
    statement(server, "SELECT 1")


@pytest.mark.slow
@needs_server
def test_a_server_that_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with own_server(SERVER) as own:
        study = Study.create(own.url, name="s", space={"x": Float(0, 1)}, policy=Random())
        study.ask()
        own.control("-m", "immediate", "stop")
        for _ in range(2):  # the old connection, and a new one
            with pytest.raises(Unreachable, match="cannot be reached"):
                study.ask()
        own.control("start")
        assert study.ask().number == 1


def test_a_damaged_file_of_which_sqlite_complains_in_other_bytes_is_explained(tmp_path):
    """SQLite repeats a damaged definition in its message, which then is not text."""
    file = tmp_path / "study.db"
    Study.create(file, name="s", space={"x": Float(0, 1)}).close()
    close_sqlite_files()
    data, sound = file.read_bytes(), b"CREATE TABLE farthing_trials"
    assert sound in data
    file.write_bytes(data.replace(sound, sound.replace(b"TABLE", b"TABL\xff")))
    with pytest.raises(StorageError, match=r"damaged|malformed"):
        Study.names(file)
