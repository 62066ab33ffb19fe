"""The database: one write at ask, one at tell, the ledger and the lease in the same transaction."""

from farthing.storage.book import Book, create_book, find_book, names_of
from farthing.storage.database import Database
from farthing.storage.lifecycle import begin, begin_again, finish, give_up, renew, to_hold
from farthing.storage.mirror import Change, Mirror
from farthing.storage.rows import Kept, PricePoint, expired, records
from farthing.storage.settings import (
    Settings,
    difference,
    make_settings,
    restore_settings,
    settings_text,
)

__all__ = [
    "Book",
    "Change",
    "Database",
    "Kept",
    "Mirror",
    "PricePoint",
    "Settings",
    "begin",
    "begin_again",
    "create_book",
    "difference",
    "expired",
    "find_book",
    "finish",
    "give_up",
    "make_settings",
    "names_of",
    "records",
    "renew",
    "restore_settings",
    "settings_text",
    "to_hold",
]
