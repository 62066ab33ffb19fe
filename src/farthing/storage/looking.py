"""Connections that only read: they change nothing, and need no permission to write."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

__all__ = ["can_write", "open_to_look", "set_up_look"]


def open_to_look(file: str, patience: float) -> sqlite3.Connection:
    """Open an existing SQLite file.

    If this user can write the file, SQLite maintains its log as usual. A file that `_is_still` is
    read as immutable, because SQLite could not create the index of the log.
    """
    mode = "mode=rw" if can_write(file) else "immutable=1" if _is_still(file) else "mode=ro"
    address = f"file:{quote(os.path.abspath(file))}?{mode}"
    return sqlite3.connect(address, patience, check_same_thread=False, uri=True)


def _is_still(file: str) -> bool:
    """Whether this user cannot write an SQLite file, and no process has it open for writing.

    A process that writes keeps a log and its index beside the file.
    """
    if can_write(file) or os.path.exists(f"{file}-shm"):
        return False
    with suppress(OSError):  # there is no log
        return os.path.getsize(f"{file}-wal") == 0
    return True


def set_up_look(
    statements: Sequence[str], is_sqlite: bool, connection: Any, _: object = None
) -> None:
    """Execute the statements of `schema.stand_ins`, and refuse every change from then on."""
    cursor = connection.cursor()
    for statement in statements:
        cursor.execute(statement)
    only = "PRAGMA query_only=ON" if is_sqlite else "SET default_transaction_read_only=on"
    cursor.execute(only)
    cursor.close()
    connection.commit()


def can_write(file: str) -> bool:
    """Whether this user can write a file and create others beside it."""
    places = os.path.abspath(file), os.path.dirname(os.path.abspath(file))
    effective = os.access in os.supports_effective_ids
    return all(os.access(place, os.W_OK, effective_ids=effective) for place in places)
