"""The earlier studies that a user names in `learn_from`, as sources.

A study knows its own direction. The values of a table are in the direction of the present study.
Looking at a study runs no code of its database and changes nothing in it.

The rows of a source are copied into the settings, and so into the database of a study. If the study
exists already, a source that it has under the same name is not read again: the study continues with
its copy, whatever happened to the source.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from farthing.core.options import AnyBudget, AnySpace, RunOptions
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.data.tabular import evaluation_of, has_values, read_rows, row, unread_columns
from farthing.earlier import Source, matched
from farthing.errors import FarthingError, InvalidInput
from farthing.history import History
from farthing.space.space import Space

__all__ = ["Place", "read_sources", "settings_of", "with_sources"]

ALL = "all"  # the studies of a database, all but the present one
FILES = (".csv", ".json")
SQLITE = b"SQLite format 3\0"  # the beginning of a database file
SHOWN = 5  # studies that an error lists


class Place(NamedTuple):
    """Where the present study is or will be: names of other studies belong to its database.

    Attributes:
        url: its database; None if it is in memory.
        name: its name in the database.
        keeps: whether it continues with its copies of sources, if it exists already.
        say: called with a sentence about each study that `all` leaves out.
    """

    url: str | Path | None = None
    name: str = ""
    keeps: bool = False
    say: Callable[[str], None] = lambda sentence: None

    def copies(self) -> tuple[Source, ...]:
        """The sources that the study has already."""
        if self.url is None or not self.keeps:
            return ()
        from farthing.storage import sources_given  # SQLAlchemy takes time to load

        return sources_given(self.url, self.name)


HERE = Place()


def settings_of(
    space: AnySpace, budget: AnyBudget = None, place: Place = HERE, **options: Unpack[RunOptions]
) -> Settings:
    """`Settings.of`, with the sources that `learn_from` names."""
    given = options.pop("learn_from", None)
    settings = Settings.of(space, budget, **options)
    sources = read_sources(given, settings, place)
    if not sources:
        return settings
    options["learn_from"] = sources
    return Settings.of(space, budget, **options)


def with_sources(
    new: Mapping[str, Any], settings: Settings, place: Place = HERE
) -> Mapping[str, Any]:
    """New settings of a study, with the sources that their `learn_from` names."""
    if "learn_from" not in new:
        return new
    space = new.get("space", settings.space)
    space = space if isinstance(space, Space) else Space(space)
    there = replace(settings, space=space, start=(), learn_from=())
    return {**new, "learn_from": read_sources(new["learn_from"], there, place)}


def read_sources(given: Any, settings: Settings, place: Place) -> tuple[Source, ...]:
    """The sources that a user gives: one, a list, or a dict of names.

    Raises:
        InvalidInput: one of them does not exist, cannot be read, or does not fit the space.
    """
    items = _items(given)
    kept = place.copies() if items else ()
    copies = {each.name: each for each in kept if each.x.shape[1] == settings.space.d}
    found: dict[str, Source] = {}  # by fingerprint: a copy of a source teaches nothing more
    names: set[str] = set()
    for label, item in items:
        for source in _sources(label, item, settings, place, copies):
            if source.fingerprint not in found:
                name, count = source.name, 1
                while name in names:
                    count += 1
                    name = f"{source.name} {count}"
                names.add(name)
                found[source.fingerprint] = replace(source, name=name)
    return tuple(found.values())


def _items(given: Any) -> list[tuple[str, Any]]:
    """What the user gives, one by one, each with its name or ""."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [(str(name), item) for name, item in given.items()]
    is_table = isinstance(given, list | tuple) and all(isinstance(e, Mapping) for e in given)
    if not isinstance(given, list | tuple) or (given and is_table):
        return [("", given)]
    return [("", item) for item in given]


def _sources(
    label: str, item: Any, settings: Settings, place: Place, copies: Mapping[str, Source]
) -> list[Source]:
    if isinstance(item, Source):
        return [replace(item, name=label) if label else item]
    is_text = isinstance(item, str | Path)
    own = _shown(str(item)) if is_text else getattr(item, "name", None)
    name = label or (own if isinstance(own, str) else "")
    if name in copies:
        return [copies[name]]
    if copies and is_text and str(item).rpartition("#")[2] == ALL:
        return list(copies.values())
    if is_text:
        return _named(name, str(item), settings, place)
    return [_from_object(name, item, settings)]


def _from_object(name: str, item: Any, settings: Settings) -> Source:
    """The source of a Study, an Optimizer, a Result, a History or a table."""
    facts = getattr(item, "facts", None)
    if isinstance(facts, tuple):
        there, state = facts
        return _from_study(name or type(item).__name__.lower(), there, state, settings)
    history = item if isinstance(item, History) else getattr(item, "history", None)
    if isinstance(history, History):  # a result without its settings has no direction of its own
        rows = [row(trial) for trial in history]
        return _matched(name or type(item).__name__.lower(), rows, settings.sign, settings)
    return _from_table(name or "table", read_rows(item), settings)


def _from_study(name: str, there: Settings, state: State, settings: Settings) -> Source:
    rows = [row(trial) for trial in state.history]
    return _matched(name, rows, there.sign, settings, there.space.names)


def _from_table(name: str, rows: Sequence[Any], settings: Settings) -> Source:
    columns = list(dict.fromkeys(str(column) for each in rows for column in each))
    if not columns:
        raise InvalidInput(f"{name!r} has no rows. Expected one for each trial, with its value.")
    if not has_values(rows, settings):
        raise InvalidInput(
            f"{name!r} has no column 'value'; its columns are {', '.join(columns) or 'none'}. "
            "Rename the column with the values."
        )
    nested = [each["params"] for each in rows if isinstance(each.get("params"), Mapping)]
    named = [c.removeprefix("param_") for c in columns if c.startswith("param_")]
    named += dict.fromkeys(str(parameter) for each in nested for parameter in each)
    known = [c for c in columns if c in settings.space.names]
    others = [c for c in unread_columns(rows, settings) if not c.startswith(("cost_", "metric_"))]
    return _matched(name, rows, settings.sign, settings, (*named, *known, *others))


def _matched(
    name: str, rows: Sequence[Any], sign: float, settings: Settings, theirs: Sequence[str] = ()
) -> Source:
    evaluations = [evaluation_of(each, settings, sign) for each in rows]
    return matched(name, evaluations, settings.space, settings.required_costs, theirs)


# ── names of studies and files ─────────────────────────────────────────────────────────────────


def _named(name: str, text: str, settings: Settings, place: Place) -> list[Source]:
    """The sources of a text: a study of the database, "other.db#NAME", a file, or "all"."""
    here = [] if place.url is None else _names(place.url)
    url, _, study = text.rpartition("#")
    try:
        if place.url is not None and text == ALL:
            others = [each for each in here if each != place.name]
            return _compatible(place.url, others, settings, place.say)
        if place.url is not None and text in here:
            if text == place.name:
                raise InvalidInput("A study cannot learn from itself. Name another one.")
            return [_from_database(name, place.url, text, settings)]
        if Path(text).is_file() or text.lower().endswith(FILES):
            return [_from_table(name, _file_rows(text), settings)]
        if url and study == ALL:
            return _compatible(url, _names(url), settings, place.say)
        if url:
            return [_from_database(name, url, study, settings)]
        raise InvalidInput(_unknown(text, here, place))
    except InvalidInput as error:
        raise InvalidInput(f"learn_from={name!r}: {error}") from None


def _from_database(name: str, url: str | Path, study: str, settings: Settings) -> Source:
    from farthing.storage import look_at  # it needs SQLAlchemy, which takes time to load

    return _from_study(name, *look_at(url, study), settings)


def _compatible(
    url: str | Path, names: Sequence[str], settings: Settings, say: Callable[[str], None]
) -> list[Source]:
    """The sources of those studies that fit the space."""
    found = []
    for each in names:
        try:
            found.append(_from_database(each, url, each, settings))
        except FarthingError as error:
            say(f"Learns nothing from study {each!r}: {error}")
    if not found:
        say("Learns from no earlier study: the database has none that fits this space.")
    return found


def _file_rows(file: str) -> list[Any]:
    """The rows of a CSV or JSON file."""
    with suppress(OSError), open(file, "rb") as stream:
        if stream.read(len(SQLITE)) == SQLITE:
            names = ", ".join(map(repr, _names(file)[:SHOWN])) or "none"
            raise InvalidInput(
                f"It is a database. Name one of its studies, {file}#NAME, or all of them, "
                f"{file}#{ALL}. It has {names}."
            )
    return list(read_rows(file))


def _names(url: str | Path) -> list[str]:
    from farthing.storage import Database, is_missing, names_of

    if is_missing(url):
        return []
    database = Database(url, look=True)
    try:
        return names_of(database)
    finally:
        database.close()


def _unknown(text: str, here: Sequence[str], place: Place) -> str:
    """The error for a text that is neither a study nor a file."""
    forms = "'other.db#NAME' or the path of a CSV or JSON file"
    if place.url is None:
        return f"There is no such file. Without a database, expected {forms}."
    close = difflib.get_close_matches(text, here, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    others = [each for each in here if each != place.name]
    listed = ", ".join(map(repr, others[-SHOWN:])) or "no other study"
    return f"There is no such study or file.{hint} The database has {listed}. Expected {forms}."


def _shown(text: str) -> str:
    """The text without the password of an address."""
    if "://" not in text:
        return text
    from farthing.storage import printable

    return printable(text)
