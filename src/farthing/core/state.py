"""What is known of a study at one moment, and the events that change it.

`Optimizer` keeps a state in memory, `Study` in a database; both commit the same events, and
`transition.apply` holds the rules of what they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from farthing.budget.ledger import Ledger
from farthing.core.settings import Settings
from farthing.history import History, PricePoint, StopReason, Trial, TrialState

__all__ = ["Change", "State", "Wanted"]


class Change(NamedTuple):
    """What a person changed about a study that was begun.

    Attributes:
        at: on the memory's clock.
        trials: how many there were.
        said: what was changed, as it was and as it is, in words.
        settings: those that hold from then on; None: the same, or read of an older change.
    """

    at: float
    trials: int
    said: Mapping[str, tuple[str, str]]
    settings: Settings | None = None


class Wanted(NamedTuple):
    """A configuration that a person wants evaluated; some of its parameters are enough."""

    params: Mapping[str, Any]
    because: str = ""


@dataclass(frozen=True)
class State:
    """A study at one moment.

    Attributes:
        prices: costs from elsewhere that belong to no trial.
        charged_until: until when wall clock time was charged, on the memory's clock.
        thinker: who thinks, where thoughts take long enough to wait for.
        thinker_until: when he must have died.
        thought_s: how long the last thought took.
        failures: how many trials in a row went wrong.
        first_error: of these.
        halted: why nothing may start, though the verdict is to go on.
        halted_now: whether what is running ends, too.
        stop_reason: how the last run ended.
        changes: what people changed since it was made.
        queue: what people want evaluated next.
        elapsed_s: seconds that it was worked on, by however many.
        thinking_s: how many of them were our own thought.
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
    halted: StopReason | None = None
    halted_now: bool = False
    stop_reason: StopReason | None = None
    changes: tuple[Change, ...] = ()
    queue: tuple[Wanted, ...] = ()
    elapsed_s: float = 0.0
    overhead_s: float = 0.0

    @property
    def waiting(self) -> Trial | None:
        """The oldest trial that was lost, is to be tried again, and can be paid."""
        lost = (trial for trial in self.history.having("lost") if trial.run.retry)
        return next((trial for trial in lost if self._can_pay(trial)), None)

    def _can_pay(self, trial: Trial) -> bool:
        """Whether what is left is as much as a trial was expected to cost, or may at most."""
        expected = ((r, min(a, trial.limit.get(r, a))) for r, a in trial.predicted.items())
        return all(amount <= self.ledger[r].left for r, amount in expected if r in self.ledger)

    def is_suggesting(self, other_than: str | None, now: float) -> bool:
        """Whether somebody else is thinking, and should be alive."""
        until = self.suggester_until
        return self.suggester not in (None, other_than) and until is not None and now < until

    def known(self) -> tuple[int, ...]:
        """What a thought depends on: it changes with every ask, tell, import and change, and never
        back.
        """
        states: tuple[TrialState, ...] = ("running", "done", "failed", "killed", "lost")
        counts = (len(self.history.having(each)) for each in states)
        return *counts, len(self.prices), len(self.changes), len(self.queue)
