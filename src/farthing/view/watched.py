"""`Watched`: what views read from an Optimizer or a Study."""

from __future__ import annotations

from typing import Protocol

from farthing.acquisition.protocols import Verdict
from farthing.budget.ledger import Ledger
from farthing.core.state import State
from farthing.history import History, Trial

__all__ = ["Watched"]


class Watched(Protocol):
    """An Optimizer or a Study, as views see it."""

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
