"""The database: the rows of a study's state, and the settings it was made with."""

from farthing.storage.database import Database
from farthing.storage.json_text import to_text
from farthing.storage.memory import DatabaseMemory
from farthing.storage.settings_text import changed, described, difference, from_described, restored
from farthing.storage.studies import (
    create_study,
    find_study,
    names_of,
    replace_settings,
)

__all__ = [
    "Database",
    "DatabaseMemory",
    "changed",
    "create_study",
    "described",
    "difference",
    "find_study",
    "from_described",
    "names_of",
    "replace_settings",
    "restored",
    "to_text",
]
