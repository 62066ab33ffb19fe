"""The tables, and the migrations of databases that older versions made.

Structured values are JSON text (see `json_text`) on every database. Times ending in `_at` and
leases are seconds of the database's own clock. Workers measure durations ending in `_s` on a
monotonic clock. So the clocks of different machines do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    inspect,
    text,
)
from sqlalchemy.schema import DefaultClause

from farthing.errors import StorageError

__all__ = [
    "MIGRATIONS",
    "changes",
    "curves",
    "prepare",
    "prices",
    "stand_ins",
    "studies",
    "trials",
    "version",
]

metadata = MetaData()

version = Table("farthing_schema", metadata, Column("version", Integer, nullable=False))

studies = Table(
    "farthing_studies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("settings", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column(
        "revision", BigInteger, nullable=False
    ),  # of the last change; readers compare it with theirs
    Column("trials", Integer, nullable=False),  # their number, so the number of the next trial
    Column("prices", Integer, nullable=False),  # the number of imported costs without a value
    Column("ledger", Text, nullable=False),
    Column("clock_at", Double),  # until when wall-clock time is charged
    Column("thinker", Text),  # who holds the suggestion lock
    Column("thinker_until", Double),  # when that lock expires
    Column("thought_s", Double, nullable=False),  # seconds that the last suggestion took
    Column("failures", Integer, nullable=False),  # in a row
    Column("first_error", Text),  # of these failures
    Column("halted", Text),  # why no trial may start, whatever the verdict
    Column("halted_now", Integer, nullable=False),  # 1: running trials end too
    Column("stop_reason", Text),  # why the last run ended
    Column("halted_kind", Text),  # the kinds of these reasons; NULL: an older version wrote them
    Column("stop_kind", Text),
    Column("given", Text),  # the settings of the last Study.create; NULL: never changed
    Column("changes", Integer, nullable=False, server_default="0"),  # their number
    Column("queue", Text, nullable=False, server_default="[]"),  # what users enqueued
    Column(
        "elapsed_s", Double, nullable=False, server_default="0"
    ),  # seconds that workers were present
    Column("thinking_s", Double, nullable=False, server_default="0"),  # seconds of overhead
)

trials = Table(
    "farthing_trials",
    metadata,
    Column("study", ForeignKey(studies.c.id), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),  # the study's at the last change
    Column("state", Text, nullable=False),
    Column("params", Text, nullable=False),
    Column("x", Text, nullable=False),
    Column("value", Double),
    Column("cost", Text, nullable=False),  # by resource; so far, if it is running
    Column("censored", Integer, nullable=False),  # 1: the cost is a lower bound
    Column("predicted", Text, nullable=False),
    Column("because", Text, nullable=False),
    Column("origin", Text),  # NULL: an older version wrote it
    Column("notes", Text, nullable=False),
    Column("error", Text),
    Column("seed", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("retry", Integer, nullable=False),  # 1: a retry is due, under a new number
    Column("worker", Text),
    Column("lease", Double),  # when it expires; NULL: no worker renews it
    Column("asked_at", Double, nullable=False),
    Column("told_at", Double),
    Column("think_s", Double, nullable=False),
    Column("queue_s", Double),
    Column("run_s", Double),
    Column("cpu_s", Double),
    Column("peak_mb", Double),
    Column("progress", Text),
    Column("metrics", Text),  # other entries of the result
    Column("slot", Text),
    Column("log", Text),  # the file with its output, on its worker's machine
    Column("tail", Text),  # the last lines of its output
    # Of trainings in parts; NULL in all other trials, and where an older version wrote them.
    Column("until", Integer),  # the step that the part goes to
    Column("since", Integer),  # the step at which it began
    Column("earlier", Text),  # the cost of the parts before it
    Column("turn", Integer),  # its place in the order of all starts; NULL: the number
    Column("points", Integer),  # of its curve
    Index("farthing_trials_by_revision", "study", "revision"),
)

# The values that trainings report. Rows are only ever added.
curves = Table(
    "farthing_curves",
    metadata,
    Column("study", ForeignKey(studies.c.id), primary_key=True),
    Column("trial", Integer, primary_key=True, autoincrement=False),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    Column("value", Double, nullable=False),
    Column("cost", Text, nullable=False),  # of the trial up to this step, by resource
    Index("farthing_curves_by_revision", "study", "revision"),
)

# Imported costs without a value: the cost model learns from them, but they are not trials.
prices = Table(
    "farthing_prices",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study", ForeignKey(studies.c.id), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("x", Text, nullable=False),
    Column("cost", Text, nullable=False),
    Column("at_least", Integer, nullable=False),  # 1: the cost is a lower bound
    Index("farthing_prices_by_revision", "study", "revision"),
)

# What users changed in a study after its creation.
changes = Table(
    "farthing_changes",
    metadata,
    Column("study", ForeignKey(studies.c.id), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("trials", Integer, nullable=False),  # the number of trials at that time
    Column("said", Text, nullable=False),  # {setting: [old, new]} as text
    Column("settings", Text),  # after the change; NULL: not changed
)

Migration = Callable[[Connection], None]


def _first(connection: Connection) -> None:
    metadata.create_all(connection)


def _price_bounds(connection: Connection) -> None:
    connection.execute(
        text(f"ALTER TABLE {prices.name} ADD COLUMN at_least INTEGER NOT NULL DEFAULT 0")
    )


def _changes_and_logs(connection: Connection) -> None:
    """Changes of settings, the queue, logs and metrics."""
    for column in (
        "given TEXT",
        "changes INTEGER NOT NULL DEFAULT 0",
        "queue TEXT NOT NULL DEFAULT '[]'",
        "elapsed_s DOUBLE PRECISION NOT NULL DEFAULT 0",
        "thinking_s DOUBLE PRECISION NOT NULL DEFAULT 0",
    ):
        connection.execute(text(f"ALTER TABLE {studies.name} ADD COLUMN {column}"))
    changes.create(connection)
    for column in ("metrics", "slot", "log", "tail"):
        connection.execute(text(f"ALTER TABLE {trials.name} ADD COLUMN {column} TEXT"))


def _kinds(connection: Connection) -> None:
    """Kinds of stop reasons and origins of trials, beside the sentences."""
    for table, column in ((studies, "halted_kind"), (studies, "stop_kind"), (trials, "origin")):
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column} TEXT"))


def _curves(connection: Connection) -> None:
    """Trainings in parts, and their curves."""
    for column in (
        "until INTEGER",
        "since INTEGER",
        "earlier TEXT",
        "turn INTEGER",
        "points INTEGER",
    ):
        connection.execute(text(f"ALTER TABLE {trials.name} ADD COLUMN {column}"))
    curves.create(connection)


# Migration k turns version k into version k + 1. Never change a released one; add another. The
# first one creates the tables as they are above.
MIGRATIONS: tuple[Migration, ...] = (_first, _price_bounds, _changes_and_logs, _kinds, _curves)


def prepare(connection: Connection) -> int:
    """Bring the database to this version, and return it. The transaction must be exclusive."""
    found, known = _checked_version(connection), len(MIGRATIONS)
    if found == 0:
        _first(connection)  # creates the current tables, with what later migrations add
        connection.execute(version.insert().values(version=known))
    elif found < known:
        for migrate in MIGRATIONS[found:]:
            migrate(connection)
        connection.execute(version.update().values(version=known))
    return known


def stand_ins(connection: Connection) -> tuple[int, list[str]]:
    """The version of the database, and what a connection executes to read it as the current one.

    The statements create temporary views, which only that connection sees. A view has the name and
    the rows of a table, and the columns that later versions have added, with their defaults. So a
    database of an older version can be read without a change to it.
    """
    found = _checked_version(connection)
    if found == len(MIGRATIONS):
        return found, []
    return found, [*_views(connection)]


def _views(connection: Connection) -> Iterator[str]:
    inspector, dialect = inspect(connection), connection.dialect
    schema = "main" if dialect.name == "sqlite" else inspector.default_schema_name
    for table in metadata.tables.values():
        exists = inspector.has_table(table.name)
        known = {c["name"] for c in inspector.get_columns(table.name)} if exists else set()
        columns = ["*"] if exists else []
        columns += [
            f"CAST({_default(column)} AS {column.type.compile(dialect)}) AS {column.name}"
            for column in table.columns
            if column.name not in known
        ]
        if columns != ["*"]:
            rows = f"FROM {schema}.{table.name}" if exists else "WHERE 1 = 0"
            yield f"CREATE TEMPORARY VIEW {table.name} AS SELECT {', '.join(columns)} {rows}"


def _default(column: Column[Any]) -> str:
    if isinstance(column.server_default, DefaultClause):
        return f"'{column.server_default.arg}'"
    return "NULL" if column.nullable else "0"


def _checked_version(connection: Connection) -> int:
    """The version of a database that this version of Farthing can read."""
    _refuse_views_and_triggers(connection)
    found, known = read_version(connection), len(MIGRATIONS)
    if found > known:
        raise StorageError(
            f"The database has schema version {found}, but this version of Farthing knows versions "
            f"up to {known}. A newer Farthing wrote it. Upgrade Farthing."
        )
    return found


def _refuse_views_and_triggers(connection: Connection) -> None:
    """Refuse views and triggers, which would run when the file is read. Farthing creates none."""
    if connection.dialect.name != "sqlite":  # on a server, its administrator is responsible
        return
    query = "SELECT name, type FROM sqlite_master WHERE type IN ('view', 'trigger') LIMIT 1"
    for name, kind in connection.execute(text(query)):
        raise StorageError(
            f"The database has a {kind}, {str(name)[:50]!r}, which Farthing did not create. "
            "Use a separate file for studies."
        )


def read_version(connection: Connection) -> int:
    """The version of the schema; 0 if the tables do not exist yet."""
    if not inspect(connection).has_table(version.name):
        return 0
    return int(connection.execute(text(f"SELECT version FROM {version.name}")).scalar_one())
