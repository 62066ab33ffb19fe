"""`State`: everything that is known about a study at one moment.

`Optimizer` keeps a state in memory, `Study` in a database. Both commit the same events, and
`transition.apply` defines what an event does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from farthing.budget.ledger import Ledger
from farthing.core.settings import Settings
from farthing.history import History, PricePoint, StopReason, Trial, TrialState

__all__ = ["Change", "QueueEntry", "State"]


class Change(NamedTuple):
    """A change that a user made to a study after it was created.

    Attributes:
        at: when, on the store's clock.
        trials: the number of trials at that time.
        differences: what changed, as texts: {name: (before, after)}.
        settings: the settings from then on; None if they did not change, or if an older version
            did not store them.
    """

    at: float
    trials: int
    differences: Mapping[str, tuple[str, str]]
    settings: Settings | None = None


class QueueEntry(NamedTuple):
    """A configuration that a user enqueued. It may set only some of the parameters."""

    params: Mapping[str, Any]
    because: str = ""


@dataclass(frozen=True)
class State:
    """A study at one moment.

    Attributes:
        prices: costs that were imported without a trial.
        charged_until: until when wall-clock time was charged, on the store's clock.
        suggester: the process that holds the suggestion lock; None if no process holds it.
        suggester_until: when the suggestion lock expires, on the store's clock.
        suggest_s: seconds that the last suggestion took.
        failures: number of trials that failed in a row.
        first_error: the error of the first of these failures.
        stop_requested: why no trial may start, whatever the stopping rule says; None: one may.
        kill_running: whether running trials are killed, too.
        stop_reason: why the last run ended.
        changes: what users changed since the study was created.
        queue: configurations that users enqueued.
        elapsed_s: seconds during which at least one process worked on the study.
        overhead_s: how many of these seconds were spent suggesting.
    """

    ledger: Ledger
    history: History = History()
    prices: tuple[PricePoint, ...] = ()
    charged_until: float | None = None
    suggester: str | None = None
    suggester_until: float | None = None
    suggest_s: float = 0.0
    failures: int = 0
    first_error: str | None = None
    stop_requested: StopReason | None = None
    kill_running: bool = False
    stop_reason: StopReason | None = None
    changes: tuple[Change, ...] = ()
    queue: tuple[QueueEntry, ...] = ()
    elapsed_s: float = 0.0
    overhead_s: float = 0.0

    @property
    def next_retry(self) -> Trial | None:
        """The oldest lost trial that is to be repeated and is affordable."""
        lost = (trial for trial in self.history.having("lost") if trial.run.retry)
        return next((trial for trial in lost if self._is_affordable(trial)), None)

    def _is_affordable(self, trial: Trial) -> bool:
        """Whether the expected cost of a trial, or its limit if that is lower, is left."""
        expected = ((r, min(a, trial.limit.get(r, a))) for r, a in trial.predicted.items())
        return all(amount <= self.ledger[r].left for r, amount in expected if r in self.ledger)

    def is_suggesting(self, other_than: str | None, now: float) -> bool:
        """Whether another process holds a suggestion lock that has not expired."""
        until = self.suggester_until
        return self.suggester not in (None, other_than) and until is not None and now < until

    def version(self) -> tuple[int, ...]:
        """A key for caches of what depends on the trials, prices, changes and queue.

        It changes with every ask, tell, import and change, and no earlier version comes back.
        """
        states: tuple[TrialState, ...] = ("running", "paused", "done", "failed", "killed", "lost")
        counts = (len(self.history.having(each)) for each in states)
        return *counts, self.history.turns, len(self.prices), len(self.changes), len(self.queue)

    def with_trial(self, trial: Trial) -> State:
        """The state with a trial in place of the one that has the same number."""
        return replace(self, history=self.history.replacing(trial))
