"""The database: the rows of a study's state, and the settings it was made with."""

from farthing.storage.address import check_no_secret, printable
from farthing.storage.database import Database, is_missing, let_go_of_files
from farthing.storage.database_store import DatabaseStore
from farthing.storage.json_text import to_text
from farthing.storage.outbox import folder_of, kept_meanwhile, tell_kept
from farthing.storage.settings_text import (
    described,
    differing,
    external_in,
    from_described,
    not_given,
    restored,
)
from farthing.storage.studies import (
    create_study,
    delete_study,
    find_study,
    keep_given,
    move_logs,
    names_of,
    overview,
    rename_study,
)

__all__ = [
    "Database",
    "DatabaseStore",
    "check_no_secret",
    "create_study",
    "delete_study",
    "described",
    "differing",
    "external_in",
    "find_study",
    "folder_of",
    "from_described",
    "is_missing",
    "keep_given",
    "kept_meanwhile",
    "let_go_of_files",
    "move_logs",
    "names_of",
    "not_given",
    "overview",
    "printable",
    "rename_study",
    "restored",
    "tell_kept",
    "to_text",
]
