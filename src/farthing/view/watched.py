"""`Watched`: what views read from an Optimizer or a Study, and its one-line status."""

from __future__ import annotations

from typing import Protocol

from farthing.acquisition.protocols import Verdict
from farthing.budget.ledger import Ledger
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.errors import StorageError
from farthing.history import History, Trial
from farthing.models.constraints import Constraint
from farthing.view.formatting import best_line, counted, spent, why_no_best

__all__ = ["Watched", "status_of"]


class Watched(Protocol):
    """An Optimizer or a Study, as views see it."""

    @property
    def facts(self) -> tuple[Settings, State]:
        """The settings and the state."""

    @property
    def verdict(self) -> Verdict:
        """Whether to stop now, and why."""

    @property
    def best(self) -> Trial | None:
        """The best trial so far; None before the first value."""

    @property
    def seen(self) -> State:
        """The state, up to a fraction of a second old."""

    @property
    def ledger(self) -> Ledger:
        """What is spent, reserved and left."""

    @property
    def history(self) -> History:
        """Every trial."""

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints that a feasible trial meets."""

    @property
    def waits_for_cost(self) -> frozenset[str]:
        """Resources whose cost is unknown until a trial reports it."""


def status_of(optimizer: Watched) -> str:
    """Trials, costs and the best value, in one line; "" if the database does not answer."""
    try:
        ledger, history, best = optimizer.ledger, optimizer.history, optimizer.best
    except StorageError:
        return ""
    trials = counted(history) or "no trial yet"
    found = "none yet" if best is None else best_line(best)
    if best is None and history.done:
        found = f"none yet: {why_no_best(optimizer.constraints, history)}"
    return f"{trials}; {spent(ledger) or 'nothing'} spent; best {found}"
