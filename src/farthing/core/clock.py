"""How long a process was there, and how long it thought, since it was last charged for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from farthing.errors import InvalidInput

__all__ = ["ProcessClock"]


class ProcessClock:
    """The clock of one process.

    Attributes:
        unpaid: seconds of thinking that no event has charged yet.
    """

    def __init__(self) -> None:
        self.unpaid = 0.0
        self._charged: float | None = None  # when it was last charged for being there
        self._measuring = False

    @property
    def present(self) -> float | None:
        """For how long it has been there since it was last charged; None: not on the clock."""
        return None if self._charged is None else time.monotonic() - self._charged

    @contextmanager
    def on_the_clock(self) -> Iterator[None]:
        """While inside, wall clock time is charged as it passes, and not as it is told."""
        self._charged = time.monotonic()
        try:
            yield
        finally:
            self._charged = None

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Measure what happens inside, to be charged with the next event."""
        if self._measuring:
            yield
            return
        begun, before, self._measuring = time.perf_counter(), self.unpaid, True
        try:
            yield
            self.unpaid += time.perf_counter() - begun
        except InvalidInput:  # what was refused is as if it had never been said
            self.unpaid = before
            raise
        except BaseException:  # a thought that ends in `Stopped` took its time, too
            self.unpaid += time.perf_counter() - begun
            raise
        finally:
            self._measuring = False

    def forgive_waiting(self) -> None:
        """Of the time since it was last charged, only what it thought is left to pay."""
        if self._charged is not None:
            self._charged = max(self._charged, time.monotonic() - self.unpaid)

    def paid(self, present: float | None, overhead: float) -> None:
        """An event has charged so much of either."""
        self.unpaid -= overhead
        if self._charged is not None and present is not None:
            self._charged += present
