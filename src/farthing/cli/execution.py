"""How the trials of a study are run; kept with its settings, so that workers elsewhere know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from farthing.meter import Meter
from farthing.running import CommandTask
from farthing.storage import Database, find_book
from farthing.storage.schema import studies
from farthing.storage.text import from_text, to_text
from farthing.worker import Terms

__all__ = ["Execution", "keep_execution", "kept_execution"]

KEY = "execution"


@dataclass(frozen=True)
class Execution:
    """A command and its terms, as plain values.

    Attributes:
        command: the program and its arguments.
        metric: the key of the value in its result.
        rate: what the machine costs, "$3.06/h".
        cpu: whether CPU seconds are counted, not those of the clock.
        grace: seconds between SIGTERM and SIGKILL.
        lease: seconds after which a trial is lost whose worker was not heard of.
        failures_in_a_row: so many end it; 0: however many.
    """

    command: Sequence[str]
    metric: str = "value"
    rate: str | None = None
    cpu: bool = False
    grace: float = Terms().grace
    lease: float = Terms().lease
    failures_in_a_row: int = 5

    @property
    def task(self) -> CommandTask:
        """The command."""
        return CommandTask(self.command, metric=self.metric)

    def terms(self, timeout: float | None) -> Terms:
        """How its trials are run."""
        return Terms(
            timeout=timeout,
            meter=Meter(cpu=self.cpu) if self.rate is None else Meter.at(self.rate, cpu=self.cpu),
            grace=self.grace,
            lease=self.lease,
            failures_in_a_row=self.failures_in_a_row or math.inf,
        )


def kept_execution(url: str, name: str) -> Execution | None:
    """How the trials of a study are run; None if it was not made by a command."""
    database = Database(url)
    try:
        found = from_text(find_book(database, name).settings).get(KEY)
        return None if found is None else Execution(**found)
    finally:
        database.close()


def keep_execution(url: str, name: str, execution: Execution) -> None:
    """Keep it, in place of what was kept before."""
    database = Database(url)
    try:
        with database.writing(lock=True) as connection:
            query = studies.select().where(studies.c.name == name)
            settings = from_text(connection.execute(query).one().settings)
            after = to_text({**settings, KEY: asdict(execution)})
            update = studies.update().where(studies.c.name == name)
            connection.execute(update.values(settings=after))
    finally:
        database.close()
