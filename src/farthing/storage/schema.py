"""The tables, and how a database made by an older version becomes one of this version.

Structured values are JSON text (see `json_text`), the same on every database. Times ending in `_at`
and leases are seconds of the database's own clock; durations ending in `_s` were measured by the
worker on a clock that only goes forward. So clocks of different machines do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

from farthing.errors import StorageError

__all__ = ["MIGRATIONS", "changes", "prepare", "prices", "studies", "trials"]

metadata = MetaData()

version = Table("farthing_schema", metadata, Column("version", Integer, nullable=False))

studies = Table(
    "farthing_studies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("settings", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("revision", BigInteger, nullable=False),  # of the last change; a reader's cursor
    Column("trials", Integer, nullable=False),  # how many there are: the next trial's number
    Column("prices", Integer, nullable=False),  # how many costs came from elsewhere
    Column("ledger", Text, nullable=False),
    Column("clock_at", Double),  # until when wall clock time was charged
    Column("thinker", Text),  # who thinks, where thoughts take long enough to wait for,
    Column("thinker_until", Double),  # and when he must have died
    Column("thought_s", Double, nullable=False),  # how long the last thought took
    Column("failures", Integer, nullable=False),  # in a row
    Column("first_error", Text),  # of these
    Column("halted", Text),  # why nothing may start, though the verdict is to go on,
    Column("halted_now", Integer, nullable=False),  # 1: and what is running ends
    Column("stop_reason", Text),  # how the last run ended
    Column("halted_kind", Text),  # the kinds of these two; NULL: written by an older version
    Column("stop_kind", Text),
    Column("given", Text),  # the settings as the last run gave them; NULL: as they are
    Column("changes", Integer, nullable=False, server_default="0"),  # how many were made since
    Column("queue", Text, nullable=False, server_default="[]"),  # what people want evaluated next
    Column("elapsed_s", Double, nullable=False, server_default="0"),  # seconds it was worked on,
    Column("thinking_s", Double, nullable=False, server_default="0"),  # and thought about
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
    Column("cost", Text, nullable=False),  # by resource; so far, while it is running
    Column("censored", Integer, nullable=False),  # 1: the cost is a lower bound
    Column("predicted", Text, nullable=False),
    Column("because", Text, nullable=False),
    Column("origin", Text),  # NULL: written by an older version
    Column("notes", Text, nullable=False),
    Column("error", Text),
    Column("seed", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("retry", Integer, nullable=False),  # 1: waits to be tried again under a new number
    Column("worker", Text),
    Column("lease", Double),  # lost when this has passed; NULL: nobody promised to renew it
    Column("asked_at", Double, nullable=False),
    Column("told_at", Double),
    Column("think_s", Double, nullable=False),
    Column("queue_s", Double),
    Column("run_s", Double),
    Column("cpu_s", Double),
    Column("peak_mb", Double),
    Column("progress", Text),
    Column("metrics", Text),  # what the result said besides value and cost
    Column("slot", Text),
    Column("log", Text),  # the file with what it printed, on its worker's machine,
    Column("tail", Text),  # and the last lines of it
    Index("farthing_trials_by_revision", "study", "revision"),
)

# Costs from elsewhere without a value: they teach the cost model and are no trials.
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

# What people changed about a study after it was made.
changes = Table(
    "farthing_changes",
    metadata,
    Column("study", ForeignKey(studies.c.id), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("trials", Integer, nullable=False),  # how many there were
    Column("said", Text, nullable=False),  # as it was and as it is, in words
    Column("settings", Text),  # from then on; NULL: the same
)

Migration = Callable[[Connection], None]


def _first(connection: Connection) -> None:
    metadata.create_all(connection)


def _price_bounds(connection: Connection) -> None:
    connection.execute(
        text(f"ALTER TABLE {prices.name} ADD COLUMN at_least INTEGER NOT NULL DEFAULT 0")
    )


def _second_day(connection: Connection) -> None:
    """What people do to a study after its first run."""
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
    """Why a study stops and where a trial comes from, besides the sentences that say so."""
    for table, column in ((studies, "halted_kind"), (studies, "stop_kind"), (trials, "origin")):
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column} TEXT"))


# Migration k makes version k + 1 of version k. Never change one that was released: add another,
# and let the first create what the tables above say.
MIGRATIONS: tuple[Migration, ...] = (_first, _price_bounds, _second_day, _kinds)


def prepare(connection: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the database to this version; `connection` is in a transaction that nobody shares."""
    _refuse_programs(connection)
    found = read_version(connection)
    if found == len(migrations):
        return
    if found > len(migrations):
        raise StorageError(
            f"The database has schema version {found}, this Farthing knows versions up to "
            f"{len(migrations)}. It was written by a newer Farthing: upgrade this one."
        )
    if found == 0:
        _first(connection)  # the tables as they are now, whatever the later migrations changed
        connection.execute(version.insert().values(version=len(migrations)))
        return
    for migrate in migrations[found:]:
        migrate(connection)
    connection.execute(version.update().values(version=len(migrations)))


def _refuse_programs(connection: Connection) -> None:
    """Farthing makes no views and no triggers: a file that has some would run them when read."""
    if connection.dialect.name != "sqlite":  # a server's are its administrator's
        return
    query = "SELECT name, type FROM sqlite_master WHERE type IN ('view', 'trigger') LIMIT 1"
    for name, kind in connection.execute(text(query)):
        raise StorageError(
            f"The database has a {kind}, {str(name)[:50]!r}, which no Farthing made. "
            "Use a file of its own for studies."
        )


def read_version(connection: Connection) -> int:
    """The version of the schema; 0 where there is none yet."""
    if not inspect(connection).has_table(version.name):
        return 0
    return int(connection.execute(text(f"SELECT version FROM {version.name}")).scalar_one())
