"""`Session`: the access of one process to a study, which charges its time with every event."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from farthing.core.charging import charge_time
from farthing.core.clock import ProcessClock
from farthing.core.events import Event, LeasesExpired, Moment, TimePassed, UntimedEvent
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.store import Store
from farthing.core.transition import apply
from farthing.history import Trial

__all__ = ["Session"]

FRESH = 0.05  # seconds that a loaded state stays usable, where other workers report at any moment
LEASE_CHECKS = 1.0  # seconds between two checks for expired leases


class Session:
    """The access of one process to a study.

    Attributes:
        store: where the state is kept.
        clock: the time of this process that has not been charged yet.
        leases_checked: when this process last checked for expired leases.
        before_loss: called with trials that are about to be lost, because their leases have
            expired. It may still report what they have returned.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = ProcessClock()
        self.leases_checked = -math.inf
        self.before_loss: Callable[[Sequence[Trial]], None] | None = None

    @property
    def settings(self) -> Settings:
        """The settings when the state was last loaded. Another process may have changed them."""
        return self.store.settings

    def look(self, at_most: float = 0.0) -> State:
        """The state as if the overhead of this process had been charged already.

        Args:
            at_most: how old the state may be, in seconds.
        """
        state = self.store.look(at_most)
        if not self.clock.unpaid or self.clock.present is not None:
            return state
        return charge_time(self.settings, state, Moment(self.store.now, None, self.clock.unpaid))

    def look_recent(self) -> State:
        """The state, up to a fraction of a second old: for callers that look often."""
        return self.look(FRESH)

    def moment(self) -> Moment:
        """The present moment, without overhead."""
        return Moment(self.store.now, self.clock.present)

    def measured(self) -> AbstractContextManager[None]:
        """Charge the time spent inside as overhead, unless it may be spent waiting for others."""
        return nullcontext() if self.store.shared else self.clock.measuring()

    def commit(
        self, event: Event, *, overhead: float = 0.0, waiting_is_free: bool = False
    ) -> State:
        """Apply an event to the present state, and charge the time since the last event.

        Args:
            overhead: how many of these seconds were spent suggesting. Off the clock, all unpaid
                overhead is charged.
            waiting_is_free: past the limit, charge only the unpaid overhead, and not the time that
                this transaction waited for others.
        """
        is_timed = not isinstance(event, UntimedEvent)
        present, unpaid = None, self.clock.unpaid if is_timed else 0.0

        def change(state: State, now: float) -> State:
            nonlocal present, overhead
            if waiting_is_free and state.ledger.used_up:
                self.clock.skip_waiting()
            # Read only here: waiting for other processes takes time.
            present = self.clock.present if is_timed else None
            overhead = unpaid if present is None else overhead
            return apply(self.settings, state, event, Moment(now, present, overhead))

        state = self.store.commit(change)
        self.clock.paid(present, unpaid)
        return state

    def expire_leases(self, state: State) -> State:
        """The state in which trials whose worker disappeared are lost; checked once a second."""
        leases = [(t.run.lease, t) for t in state.history.running if t.run.lease is not None]
        if not leases or time.monotonic() - self.leases_checked < LEASE_CHECKS:
            return state
        self.leases_checked = time.monotonic()
        if state.charged_until is not None and self.store.now < state.charged_until:
            self.commit_time()  # the clock was set back, and this sets the leases back
            return self.store.look()
        overdue = [trial for lease, trial in leases if lease < self.store.now]
        if not overdue or not self.store.can_expire_leases:
            return state
        if self.before_loss is not None:
            self.before_loss(overdue)
        return self.commit(LeasesExpired())

    def commit_time(self) -> None:
        """Charge the overhead since the last event, but not the time spent waiting for others."""
        with self.measured():
            self.clock.skip_waiting()
            self.commit(TimePassed(), overhead=self.clock.unpaid, waiting_is_free=True)
