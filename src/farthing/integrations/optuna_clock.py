"""The clock of an Optuna trial: whose seconds are whose."""

from __future__ import annotations

import time
from datetime import datetime

from optuna.trial import FrozenTrial

__all__ = ["Clock"]


class Clock:
    """The seconds of an objective, without those of its sampler.

    Args:
        trial: one that another process has started, at a time that Optuna knows.
    """

    def __init__(self, trial: FrozenTrial | None = None) -> None:
        self.overhead = 0.0  # seconds that are not in a record yet
        self.number: int | None = None
        self._start = time.perf_counter()
        if trial is not None and trial.datetime_start is not None:
            self._start -= max((datetime.now() - trial.datetime_start).total_seconds(), 0.0)
        self._end: float | None = None
        self._sampler_s = 0.0
        self._since = 0.0

    @property
    def seconds(self) -> float:
        """The seconds of the objective until now, or until its end."""
        end = time.perf_counter() if self._end is None else self._end
        return max(end - self._start - self._sampler_s, 1e-9)

    @property
    def running(self) -> float:
        """The seconds in the context so far."""
        return time.perf_counter() - self._since

    def stop(self) -> None:
        """The objective has ended."""
        self._end = time.perf_counter()

    def wait(self, seconds: float) -> None:
        """The sampler worked for another trial: neither the objective nor overhead."""
        if self._end is None:
            self._sampler_s += seconds

    def record(self) -> None:
        """All seconds until now are in a record."""
        self.overhead = -self.running  # the context is still open

    def __enter__(self) -> Clock:
        self._since = time.perf_counter()
        return self

    def __exit__(self, *raised: object) -> None:
        took = self.running
        self.overhead += took
        if self._end is None:
            self._sampler_s += took
