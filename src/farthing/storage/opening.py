"""Create or open a study: its database, its id, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from farthing.budget.ledger import Ledger
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.earlier import Source
from farthing.errors import InvalidInput
from farthing.storage.address import check_no_secret, printable
from farthing.storage.database import Database, is_missing
from farthing.storage.database_store import DatabaseStore
from farthing.storage.json_text import to_text
from farthing.storage.settings_text import (
    described,
    differing,
    missing_code,
    named,
    restored,
)
from farthing.storage.studies import check_name, create_study, find_study, names_of, save_given

__all__ = ["Opened", "create_or_open", "look_at", "open_existing", "sources_given"]


class Opened(NamedTuple):
    """A study that was created or opened.

    Attributes:
        settings: its current settings.
        known: the number of changes that these settings contain.
        differs: whether its settings differ from those that the caller gives, or once did.
        new: the settings to change, because the last caller gave other ones.
        given: the text of the settings that the caller gives, if the database does not have it.
        wanted: the settings that the caller gives; None if it gives none.
    """

    database: Database
    name: str
    id: int
    settings: Settings
    known: int
    differs: bool = False
    new: Mapping[str, Any] = MappingProxyType({})
    given: str | None = None
    wanted: Settings | None = None

    def save_given(self) -> None:
        """Store the settings that the caller gives, to see what the next caller changes."""
        if self.given is not None:
            save_given(self.database, self.id, self.given)


def create_or_open(url: str | Path, name: str, settings: Settings, *, trust: bool) -> Opened:
    """Create a study, or open the one that has this name, which keeps its policy if none is named.

    Raises:
        InvalidInput: the name is empty, or the settings contain the password of the database.
    """
    check_name(name)
    check_no_secret(url, text := to_text(described(settings)))
    database = Database(url)
    asked = to_text(named(settings))
    found = create_study(database, name, text, Ledger.of(settings.budget), asked)
    if found.settings == text and found.given in (None, asked):
        return Opened(database, name, found.id, settings, found.changes)
    with database.checking():
        stored = restored(found.settings, settings, trust=trust)
    last = found.given or found.settings
    kept = ("policy",) if settings.names_no_policy else ()
    new = {each: getattr(settings, each) for each in differing(last, asked) if each not in kept}
    given = None if last == asked else asked
    return Opened(database, name, found.id, stored, found.changes, True, new, given, settings)


def open_existing(url: str | Path, name: str, *, look: bool, trust: bool, **parts: Any) -> Opened:
    """Open a study.

    Args:
        look: allow code that is not part of Farthing and was not imported.
        trust: import all code that the database names.
        parts: the policy, stopping rule and cost model that the caller passes.

    Raises:
        InvalidInput: the study does not exist, or needs code that was not passed.
    """
    if is_missing(url):
        raise InvalidInput(
            f"There is no study {name!r} in {printable(url)}, because that file does not exist. "
            "Check the address, or create the study first."
        )
    database = Database(url, look=look)
    found = find_study(database, name)
    with database.checking():
        settings = restored(found.settings, trust=trust, **parts)
    if not look:
        for part, code in settings.unimported.items():
            raise missing_code(part, code)
    return Opened(database, name, found.id, settings, found.changes)


def look_at(url: str | Path, name: str) -> tuple[Settings, State]:
    """The settings and the state of a study, without a change to it and without running code."""
    opened = open_existing(url, name, look=True, trust=False)
    try:
        store = DatabaseStore(opened.database, opened.id, opened.known)
        store.settings = opened.settings
        state = store.look()
        return store.settings, state  # in this order, because a look may change the settings
    finally:
        opened.database.close()


def sources_given(url: str | Path, name: str) -> tuple[Source, ...]:
    """The sources that a study was last created or resumed with; () if it does not exist."""
    if is_missing(url):
        return ()
    database = Database(url, look=True)
    try:
        if name not in names_of(database):
            return ()
        found = find_study(database, name)
        with database.checking():
            return restored(found.given or found.settings).learn_from
    finally:
        database.close()
