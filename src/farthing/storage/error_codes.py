"""What an error of the database means. Its code decides, never the words of its message.

A message depends on the language and the version of the server. An SQLSTATE (PostgreSQL) and a
result code (SQLite) do not.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, OperationalError

from farthing.errors import StorageError, Unreachable

__all__ = ["CANNOT_OPEN", "NO_FOLDER", "Meaning", "is_locked", "meaning_of"]


@dataclass(frozen=True)
class Meaning:
    """One kind of database error.

    Attributes:
        error: the class to raise; `Unreachable` if the same transaction may succeed later.
        sentence: completes "The database URL"; `message` is that of the driver, `folder` the folder
            of the file, `seconds` the longest wait for a lock.
    """

    error: type[StorageError]
    sentence: str


LOCKED = Meaning(
    Unreachable,
    "was locked by another program for {seconds:.0f} s ({message}). "
    "End that program, or wait until it has finished.",
)
BUSY = Meaning(
    Unreachable, "cancelled a transaction because it is busy ({message}). Try again later."
)
FULL = Meaning(Unreachable, "cannot grow ({message}). Free some space on its disk.")
DISK = Meaning(
    Unreachable, "could not read or write its disk ({message}). Check the disk, then try again."
)
NO_RESOURCES = Meaning(
    Unreachable,
    "has run out of memory or connections ({message}). Close other connections, or try again "
    "later.",
)
UNREACHABLE = Meaning(
    Unreachable, "cannot be reached ({message}). Is the server running, and is the URL correct?"
)
READ_ONLY = Meaning(
    StorageError, "cannot be written to ({message}). Give this user permission to write to it."
)
CANNOT_OPEN = Meaning(
    StorageError,
    "cannot be opened ({message}). Check that it is a file, and that this user may read and write "
    "it. Or name another file.",
)
NO_FOLDER = Meaning(
    StorageError,
    "cannot be opened: the folder {folder} does not exist. Create the folder, or name another "
    "file.",
)
TOO_LARGE = Meaning(
    StorageError,
    "contains a value that is larger than any that Farthing writes ({message}). Name another file.",
)
DAMAGED = Meaning(
    StorageError,
    "is damaged, or it is not a database ({message}). Restore a backup, or name another database.",
)
NO_ACCESS = Meaning(
    StorageError,
    "refused the connection ({message}). Check the user, the password and the database name in its "
    "URL.",
)
OTHER = Meaning(
    StorageError,
    "refused a statement ({message}). Check that its tables are those that Farthing created.",
)

SQLITE = {  # by primary result code: the low 8 bits of an extended one
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_LOCKED: LOCKED,
    sqlite3.SQLITE_PROTOCOL: LOCKED,  # too many processes competed for the lock of the log
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_IOERR: DISK,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_PERM: READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: CANNOT_OPEN,
    sqlite3.SQLITE_TOOBIG: TOO_LARGE,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
}
POSTGRES = {  # by SQLSTATE, or by its class: the first two characters
    "08": UNREACHABLE,
    "25006": READ_ONLY,  # read_only_sql_transaction
    "28": NO_ACCESS,
    "3D": NO_ACCESS,
    "40": BUSY,  # a deadlock, or a conflict: the transaction was rolled back
    "42501": READ_ONLY,  # insufficient_privilege
    "53": NO_RESOURCES,
    "53100": FULL,
    "55P03": LOCKED,  # lock_not_available: after lock_timeout
    "57": UNREACHABLE,  # the server shuts down, or starts
    "57014": BUSY,  # query_canceled: after statement_timeout, or by an administrator
    "57P04": NO_ACCESS,  # database_dropped
    "58030": DISK,  # io_error
    "XX001": DAMAGED,  # data_corrupted
    "XX002": DAMAGED,  # index_corrupted
}


def meaning_of(error: DBAPIError) -> Meaning:
    """The kind of a database error.

    libpq gives no SQLSTATE if a connection cannot be made or breaks. A wrong password and a
    missing database are among these, so they count as unreachable.
    """
    if (code := _sqlite_code(error.orig)) is not None:
        return SQLITE.get(code, OTHER)
    # Errors that Python's sqlite3 raises by itself have no code at all, and no SQLSTATE.
    state: str | None = getattr(error.orig, "sqlstate", "")
    no_answer = state is None and isinstance(error, OperationalError)
    known = POSTGRES.get(state or "") or POSTGRES.get((state or "")[:2])
    return known or (UNREACHABLE if no_answer or error.connection_invalidated else OTHER)


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock that a statement needs."""
    return SQLITE.get(_sqlite_code(error) or sqlite3.SQLITE_OK) is LOCKED


def _sqlite_code(error: BaseException | None) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
