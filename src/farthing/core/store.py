"""The seam between a study and where it is remembered: look at the state, commit an event."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from farthing.core.settings import Settings
from farthing.core.state import State

__all__ = ["InMemoryStore", "Store", "Update"]

# From the state as it is, and the memory's clock, to the state as it shall be.
Update = Callable[[State, float], State]


class Store(Protocol):
    """Where the state of a study is kept.

    Attributes:
        settings: what it is made with, as it was when it was last looked at or changed.
    """

    settings: Settings

    @property
    def shared(self) -> bool:
        """Whether other processes may change it."""

    @property
    def now(self) -> float:
        """The memory's clock, in seconds, when it was last looked at or changed."""

    @property
    def calm(self) -> bool:
        """Whether a lease that has passed on its clock says that a worker has disappeared."""

    def look(self, at_most: float = 0.0) -> State:
        """The state as it is, or as it was at most so many seconds ago."""

    def commit(self, change: Update) -> State:
        """The state after a change, which happens as a whole or not at all, and survives a crash
        of the machine where anything does.
        """

    def turn(self) -> AbstractContextManager[None]:
        """Inside, no other process of this machine asks, as a rule; who waits for it looks at
        nothing.
        """

    def wait(self, waited: int) -> None:
        """Until whoever thinks has ended, as a rule; or for a while, the longer the more often
        this was `waited` for already.
        """


class InMemoryStore:
    """The memory of this process, which ends with it."""

    shared = False
    calm = True
    settings: Settings

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def now(self) -> float:
        """A clock that only goes forward."""
        return time.monotonic()

    def look(self, at_most: float = 0.0) -> State:
        """The state."""
        return self._state

    def turn(self) -> AbstractContextManager[None]:
        """There is nobody else."""
        return nullcontext()

    def wait(self, waited: int) -> None:
        """There is nobody to wait for."""

    def commit(self, change: Update) -> State:
        """The state after a change."""
        before, self._state = self._state, change(self._state, self.now)
        for each in self._state.changes[len(before.changes) :]:
            if each.settings is not None:
                self.settings = each.settings
        return self._state
