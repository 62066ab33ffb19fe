"""The seam between a study and where it is remembered: look at the state, commit an event."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from farthing.state import State

__all__ = ["Change", "Memory", "OneProcess"]

# From the state as it is, and the memory's clock, to the state as it shall be.
Change = Callable[[State, float], State]


class Memory(Protocol):
    """Where the state of a study is kept."""

    @property
    def shared(self) -> bool:
        """Whether other processes may change it."""

    @property
    def now(self) -> float:
        """The memory's clock, in seconds, when it was last looked at or changed."""

    def look(self, at_most: float = 0.0) -> State:
        """The state as it is, or as it was at most so many seconds ago."""

    def commit(self, change: Change, *, durable: bool = True) -> State:
        """The state after a change, which happens as a whole or not at all.

        Args:
            durable: whether it must survive a crash of the machine.
        """


class OneProcess:
    """The memory of this process, which ends with it."""

    shared = False

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def now(self) -> float:
        """A clock that only goes forward."""
        return time.monotonic()

    def look(self, at_most: float = 0.0) -> State:
        """The state."""
        return self._state

    def commit(self, change: Change, *, durable: bool = True) -> State:
        """The state after a change."""
        self._state = change(self._state, self.now)
        return self._state
