"""`ProcessClock`: the time of one process that has not been charged yet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from farthing.errors import InvalidInput

__all__ = ["ProcessClock"]


class ProcessClock:
    """The clock of one process.

    Attributes:
        unpaid: seconds of overhead that no event has charged yet.
    """

    def __init__(self) -> None:
        self.unpaid = 0.0
        self._charged: float | None = None  # until when the presence of the process is charged
        self._measuring = False

    @property
    def present(self) -> float | None:
        """Seconds since the presence of the process was last charged; None: off the clock."""
        return None if self._charged is None else time.monotonic() - self._charged

    @contextmanager
    def on_the_clock(self) -> Iterator[None]:
        """While inside, wall-clock time is charged as it passes, not as trials report it."""
        self._charged = time.monotonic()
        try:
            yield
        finally:
            self._charged = None

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Measure the time spent inside, to be charged with the next event."""
        if self._measuring:
            yield
            return
        start, before, self._measuring = time.perf_counter(), self.unpaid, True
        try:
            yield
            self.unpaid += time.perf_counter() - start
        except InvalidInput:  # a refused call leaves no trace
            self.unpaid = before
            raise
        except BaseException:  # suggesting took its time even if it ended with `Stopped`
            self.unpaid += time.perf_counter() - start
            raise
        finally:
            self._measuring = False

    def skip_waiting(self) -> None:
        """Charge only the unpaid overhead of the time since the last charge, not the rest."""
        if self._charged is not None:
            self._charged = max(self._charged, time.monotonic() - self.unpaid)

    def paid(self, present: float | None, overhead: float) -> None:
        """Note that an event has charged these seconds of presence and of overhead."""
        self.unpaid -= overhead
        if self._charged is not None and present is not None:
            self._charged += present
