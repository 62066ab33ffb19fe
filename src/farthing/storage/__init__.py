"""Studies in a database: their settings, their state, and a Store that processes share."""

from farthing.storage.address import check_no_secret, printable
from farthing.storage.database import Database, close_sqlite_files, is_missing
from farthing.storage.database_store import DatabaseStore
from farthing.storage.json_text import to_text
from farthing.storage.opening import Opened, create_or_open, look_at, open_existing, sources_given
from farthing.storage.outbox import Outbox
from farthing.storage.settings_text import (
    described,
    differing,
    external_in,
    from_described,
    missing_code,
    restored,
)
from farthing.storage.studies import (
    create_study,
    delete_study,
    find_study,
    logs_folder,
    move_logs,
    names_of,
    overview,
    rename_study,
    save_given,
)

__all__ = [
    "Database",
    "DatabaseStore",
    "Opened",
    "Outbox",
    "check_no_secret",
    "close_sqlite_files",
    "create_or_open",
    "create_study",
    "delete_study",
    "described",
    "differing",
    "external_in",
    "find_study",
    "from_described",
    "is_missing",
    "logs_folder",
    "look_at",
    "missing_code",
    "move_logs",
    "names_of",
    "open_existing",
    "overview",
    "printable",
    "rename_study",
    "restored",
    "save_given",
    "sources_given",
    "to_text",
]
