"""`Store`: where the state of a study is kept. A store loads the state and commits changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from farthing.core.settings import Settings
from farthing.core.state import State

__all__ = ["InMemoryStore", "Store", "Update"]

# From the present state and the time on the store's clock to the next state.
Update = Callable[[State, float], State]


class Store(Protocol):
    """Where the state of a study is kept.

    Attributes:
        settings: the settings of the study when its state was last loaded or changed.
    """

    settings: Settings

    @property
    def shared(self) -> bool:
        """Whether other processes may change the state."""

    @property
    def now(self) -> float:
        """The store's clock, in seconds, when the state was last loaded or changed."""

    @property
    def can_expire_leases(self) -> bool:
        """Whether an expired lease proves that a worker has disappeared.

        It does not if the store itself was out of reach for a while.
        """

    def look(self, at_most: float = 0.0) -> State:
        """The state, at most `at_most` seconds old."""

    def commit(self, change: Update) -> State:
        """Apply a change as a whole or not at all, durably, and return the state after it."""

    def ask_lock(self) -> AbstractContextManager[None]:
        """Inside, no other process of this machine asks, as far as the store can ensure that.

        A process that waits for the lock does not read the state.
        """

    def wait(self, waited: int) -> None:
        """Wait until the process that suggests may have finished.

        Args:
            waited: how many times the caller has waited before. The time limit grows with it.
        """


class InMemoryStore:
    """A state in the memory of this process."""

    shared = False
    can_expire_leases = True
    settings: Settings

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def now(self) -> float:
        """A monotonic clock."""
        return time.monotonic()

    def look(self, at_most: float = 0.0) -> State:
        """The state."""
        return self._state

    def ask_lock(self) -> AbstractContextManager[None]:
        """No lock: no other process asks."""
        return nullcontext()

    def wait(self, waited: int) -> None:
        """Return at once: no other process suggests."""

    def commit(self, change: Update) -> State:
        """The state after a change."""
        before, self._state = self._state, change(self._state, self.now)
        for each in self._state.changes[len(before.changes) :]:
            if each.settings is not None:
                self.settings = each.settings
        return self._state
