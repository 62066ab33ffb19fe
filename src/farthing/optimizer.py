"""Ask and tell, in memory."""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, NamedTuple, Unpack, overload

import numpy as np

from farthing.acquisition.protocols import Policy, StoppingRule, Verdict
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget
from farthing.core.clock import ProcessClock
from farthing.core.edits import change_to
from farthing.core.events import (
    Added,
    Asked,
    AskedTogether,
    Ended,
    Enqueued,
    Event,
    LeasesExpired,
    Moment,
    Price,
    Renewed,
    Resumed,
    StopRequested,
    SuggestLock,
    TimePassed,
    Told,
)
from farthing.core.outcomes import elsewhere, outcome_of
from farthing.core.settings import AnyBudget, AnySpace, SearchOptions, Settings, takes_settings
from farthing.core.state import State, Wanted
from farthing.core.store import InMemoryStore, Store
from farthing.core.suggest import (
    Suggestion,
    Terms,
    best_trial,
    next_trials,
    no_time_to_suggest,
    one_thread,
    own,
    suggest,
    warm_up,
)
from farthing.core.transition import apply, out_of_time, passed, why_it_must_end
from farthing.data.importing import Imported, take_in
from farthing.errors import InvalidInput, Outdated, Stopped
from farthing.history import History, StopReason, Trial
from farthing.space.space import Space

__all__ = ["Optimizer"]

SLOW = 0.05  # seconds: from here on only one process thinks at a time
SUGGESTER_LEASE = (10.0, 5.0)  # a thinker is dead after 10 s + 5 x the last thought
FRESH = 0.05  # seconds that a look is good for, where many workers tell at any moment
LEASES_ARE_CHECKED = 1.0  # seconds between looks for workers that disappeared


class _Kept(NamedTuple):
    """A thought, what was known when it was thought, and the seconds it took."""

    known: tuple[int, ...]
    suggestion: Suggestion
    seconds: float


class Optimizer:
    """Choose evaluations, learn from what they returned and cost, and say when to stop.

        optimizer = Optimizer(space, budget="$40")
        while not optimizer.verdict.stop:
            trial = optimizer.ask()
            optimizer.tell(trial, value, cost=...)
        optimizer.best.params

    Args:
        space: a Space, or {name: parameter}.
        budget: what may be spent: "2h", "$40", 40, {"s": 3600, "usd": 5}, a Budget; None: no limit.
        settings: how to choose, when to stop, what is known of costs: see `Settings`.
    """

    @takes_settings(SearchOptions)
    def __init__(
        self, space: AnySpace, budget: AnyBudget = None, **settings: Unpack[SearchOptions]
    ) -> None:
        made = Settings.of(space, budget, **settings)
        self._remember(made, InMemoryStore(State(Ledger.of(made.budget))))

    @classmethod
    def of(cls, settings: Settings) -> Optimizer:
        """An Optimizer from settings that are made already."""
        optimizer = cls.__new__(cls)
        optimizer._remember(settings, InMemoryStore(State(Ledger.of(settings.budget))))
        return optimizer

    def _remember(self, settings: Settings, memory: Store, *, suggests: bool = True) -> None:
        """Begin, with a memory that may hold something already."""
        self._memory = memory
        memory.settings = settings
        self._name = uuid.uuid4().hex  # shared with the processes that are forked from this one
        self._kept: _Kept | None = None  # until something new is known
        self._best: tuple[tuple[int, ...], Trial | None] | None = None
        self._time = ProcessClock()
        self._checked = -math.inf  # when leases were last checked
        if suggests:
            warm_up(settings)

    @property
    def _settings(self) -> Settings:
        """As they are at the moment that was last looked at, whoever changed them."""
        return self._memory.settings

    # ── what it was made with ──────────────────────────────────────────────────────────────

    @property
    def space(self) -> Space:
        """The space that is searched."""
        return self._settings.space

    @property
    def budget(self) -> Budget | None:
        """What may be spent."""
        return self._settings.budget

    @property
    def policy(self) -> Policy:
        """How it chooses."""
        return self._settings.policy

    @property
    def stop(self) -> StoppingRule | None:
        """A reason to stop besides the budget."""
        return self._settings.stop

    @property
    def worth(self) -> float | None:
        """Objective units that one unit of cost is worth."""
        return self._settings.exchange

    @property
    def noisy(self) -> bool:
        """Whether the same parameters may return different values."""
        return self._settings.noisy

    @property
    def seed(self) -> int:
        """The same seed and the same answers give the same questions."""
        return self._settings.seed

    # ── thinking ───────────────────────────────────────────────────────────────────────────

    def _charged(self) -> AbstractContextManager[None]:
        """All of an ask or a tell is ours to pay, but for the time that other processes take."""
        return nullcontext() if self._memory.shared else self._time.measuring()

    def _look(self, at_most: float = 0.0) -> State:
        """The state, as if the thinking that nobody has paid for yet had been charged."""
        state = self._memory.look(at_most)
        if not self._time.unpaid or self._time.present is not None:
            return state
        return passed(self._settings, state, Moment(self._memory.now, None, self._time.unpaid))

    def _suggest(self, state: State) -> _Kept:
        """One thought, kept until something new is known."""
        known = state.known()
        if self._kept is None or self._kept.known != known:
            begun = time.perf_counter()
            with self._time.measuring(), one_thread():
                suggestion = suggest(self._settings, state)
            self._kept = _Kept(known, suggestion, time.perf_counter() - begun)
        return self._kept

    @property
    def verdict(self) -> Verdict:
        """Whether to stop now, and why."""
        state = self._look()
        if state.halted is not None:
            return Verdict(True, state.halted.sentence, kind=state.halted.kind)
        return self._suggest(state).suggestion.verdict

    # ── asking ─────────────────────────────────────────────────────────────────────────────

    @overload
    def ask(
        self,
        count: None = ...,
        *,
        anyway: bool = ...,
        worker: str | None = ...,
        lease: float | None = ...,
    ) -> Trial: ...

    @overload
    def ask(
        self, count: int, *, anyway: bool = ..., worker: str | None = ..., lease: float | None = ...
    ) -> list[Trial]: ...

    def ask(
        self,
        count: int | None = None,
        *,
        anyway: bool = False,
        worker: str | None = None,
        lease: float | None = None,
    ) -> Trial | list[Trial]:
        """The next trial, or a list of `count`; what is running takes part as fantasies.

        Args:
            count: how many to evaluate at the same time; it may be another number each time. The
                list is shorter where the budget, a rule or the space allows no more, never empty.
            anyway: ask although a rule said stop; the ledger cannot be overruled.
            worker: who will evaluate it.
            lease: seconds after which it is lost unless `renew` was called; None: never.

        Raises:
            Stopped: the verdict is to stop, and not even one may start.
        """
        terms = Terms(anyway, self._me(), worker, lease)
        if count is None:
            with self._charged(), self._memory.turn():  # waiting is paid for, too
                return self._ask(1, terms)[0]
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InvalidInput(f"ask({count!r}): expected how many trials, at least 1.")
        with self._charged(), self._memory.turn():
            return self._ask(int(count), terms)

    def _ask(self, count: int, terms: Terms) -> list[Trial]:
        crowded, waited = False, 0  # whether a thought was in vain because another was quicker
        while True:
            # A worker has just looked, when it told of its last trial.
            state = self._give_up_lost(self._look(0.0 if terms.lease is None else FRESH))
            if state.halted is not None:
                raise Stopped(state.halted)
            self._stop_if_time_is_short(state)
            try:
                without_suggesting = count == 1 and state.waiting is not None
                if without_suggesting or self._may_suggest(state, crowded, count):
                    return self._begin(state, count, terms)
            except Outdated:
                self._kept, crowded = None, True
                self._memory.look()
                continue
            self._memory.wait(waited)
            waited += 1

    def _begin(self, state: State, count: int, terms: Terms) -> list[Trial]:
        """The trials that thoughts lead to, and those that were lost, in one commit."""
        now, begun = self._memory.now, time.monotonic()

        def moment() -> Moment:
            return Moment(now + time.monotonic() - begun, self._time.present)

        def suggester(state: State) -> tuple[Suggestion, float]:
            kept = self._suggest(state)
            return kept.suggestion, kept.seconds

        try:
            asked = next_trials(self._settings, state, count, suggester, terms, moment)
        except BaseException:
            if self._memory.shared:
                self._end_turn(self._memory.look())
            raise
        event: Event = asked[0] if len(asked) == 1 else AskedTogether(asked)
        overhead = sum(each.suggest_s for each in asked if isinstance(each, Asked))
        after = self._commit(event, overhead=overhead)
        self._end_turn(after)
        return [own(trial) for trial in after.history.trials[-len(asked) :]]

    # ── thinking among others ──────────────────────────────────────────────────────────────

    def _me(self, process: int | None = None) -> str:
        """Who thinks."""
        return f"{self._name}:{os.getpid() if process is None else process}"

    def _may_suggest(self, state: State, crowded: bool, suggestions: int = 1) -> bool:
        """Whether it is our turn; where thoughts are quick and thinkers few there are no turns."""
        me = self._me()
        if not self._memory.shared or state.suggester == me:
            return True
        if state.is_suggesting(me, self._memory.now):
            return False
        if state.suggest_s < SLOW and not crowded:
            return True
        patience, times = SUGGESTER_LEASE
        try:
            turn = SuggestLock(me, patience + times * suggestions * state.suggest_s)
            self._commit(turn, silent=True)
        except Outdated:
            return False
        return True

    def _end_turn(self, state: State) -> None:
        """Nobody waits for a thought that led to nothing, or only to what was lost before."""
        if state.suggester == self._me():
            self.forget(os.getpid())

    def forget(self, process: int | None) -> None:
        """Nobody waits any more for a thought of this process, or of one forked from it."""
        self._commit(SuggestLock(self._me(process)), silent=True)

    def _stop_if_time_is_short(self, state: State) -> None:
        """Begin no thought that would end after the budget, if it took as long as the last one."""
        moment = Moment(self._memory.now, self._time.present)
        resource = out_of_time(self._settings, state, moment)
        if resource is None:
            return
        if state.ledger[resource].left > 0:  # beyond the limit, to wait for others is free
            state = self._commit(TimePassed())
        raise Stopped(no_time_to_suggest(state.ledger, resource))

    # ── events ─────────────────────────────────────────────────────────────────────────────

    def on_the_clock(self) -> AbstractContextManager[None]:
        """While inside, wall clock time is charged as it passes, and not as it is told."""
        if self._time.unpaid:  # thought before that, which is paid for as such
            self._commit(TimePassed())
        return self._time.on_the_clock()

    def _commit(self, event: Event, *, overhead: float = 0.0, silent: bool = False) -> State:
        """Apply an event to the state as it is, and charge the time passed since the last one.

        Args:
            thought: how many of these seconds were spent thinking; off the clock, what is unpaid.
            silent: it brings no time with it.
        """
        present, unpaid = None, 0.0 if silent else self._time.unpaid

        def change(state: State, now: float) -> State:
            nonlocal present, overhead
            present = None if silent else self._time.present  # now: to wait for others takes time
            overhead = unpaid if present is None else overhead
            return apply(self._settings, state, event, Moment(now, present, overhead))

        state = self._memory.commit(change)
        self._time.paid(present, unpaid)
        return state

    def commit(self, event: Event) -> None:
        """What an engine has to say of a trial, or a run of itself: see `farthing.core.state`."""
        with self._charged():
            if isinstance(event, TimePassed):  # a worker that ends has waited for others
                self._time.forgive_waiting()
            silent = isinstance(event, Resumed | Ended | StopRequested | Added)
            self._commit(event, overhead=self._time.unpaid, silent=silent)

    def renew(
        self,
        trial: Trial,
        *,
        lease: float,
        cost: Mapping[str, float],
        ahead: Mapping[str, float],
        reports: Sequence[Mapping[str, Any]] = (),
        run: Mapping[str, Any] = MappingProxyType({}),
    ) -> str | None:
        """Keep a running trial, and draw what it needs from what is left.

        Args:
            lease: seconds for which it is kept.
            cost: what it has used so far.
            ahead: what it will have used when this is called next.
            reports: what it has reported.
            run: where it runs: `slot`, `log`.

        Returns:
            Why it must end now; None if it may go on.
        """
        event = Renewed(trial.number, lease, cost, ahead, tuple(reports), run)
        state = self._commit(event)  # first: a clock may have jumped, and this one is alive
        if self._give_up_lost(state) is not state:  # what they held may be what this one needs
            state = self._commit(event)
        moment = Moment(self._memory.now, self._time.present)
        return why_it_must_end(self._settings, state, event, moment)

    def _give_up_lost(self, state: State) -> State:
        """Trials whose worker disappeared are lost; looked for once in a while."""
        leases = [trial.run.lease for trial in state.history.running if trial.run.lease is not None]
        if not leases or time.monotonic() - self._checked < LEASES_ARE_CHECKED:
            return state
        self._checked = time.monotonic()
        if state.charged_until is not None and self._memory.now < state.charged_until:
            self.commit(TimePassed())  # the clock was set back, and leases go with it
            return self._memory.look()
        if min(leases) >= self._memory.now or not self._memory.calm:
            return state
        return self._commit(LeasesExpired(), silent=True)

    def is_worked_on(self) -> bool:
        """Whether a worker somewhere is running a trial."""
        state = self._give_up_lost(self._memory.look())
        return any(trial.run.lease is not None for trial in state.history.running)

    # ── telling ────────────────────────────────────────────────────────────────────────────

    def tell(
        self,
        trial: Trial | int,
        value: float | None = None,
        *,
        cost: Price = None,
        failed: str | None = None,
        killed: bool = False,
    ) -> None:
        """What became of a trial: a value, a failure, or that it was killed; and what it cost.

        Args:
            trial: what `ask` returned, or its number.
            value: what is optimised.
            cost: in the budget's first resource, or {resource: amount}; of a killed trial, a lower
                bound of what it would have cost. Not needed where the cost is known beforehand.
            failed: why there is no value. Such parameters are avoided from then on.
            killed: it was stopped before it had a value.
        """
        number = trial.number if isinstance(trial, Trial) else trial
        state, told = outcome_of(value, failed, killed, f"trial {number}")
        with self._charged():
            self._commit(Told(trial, state, told, cost, failed))

    def add(
        self,
        params: Mapping[str, Any],
        value: float | None = None,
        *,
        cost: Price = None,
        failed: str | None = None,
        killed: bool = False,
        running: bool = False,
    ) -> Trial:
        """Learn from an evaluation made elsewhere; it takes a number, but nothing of the budget.

        Args:
            value, cost, failed, killed: as in `tell`.
            running: it is still running elsewhere: it takes part as a fantasy until it is told.
        """
        trial = elsewhere(
            self._settings, params, value, cost=cost, failed=failed, killed=killed, running=running
        )
        history = self._commit(Added((trial,)), silent=True).history
        return own(history[len(history) - 1])

    def import_trials(self, source: Any, *, values: bool = True, costs: bool = True) -> Imported:
        """Learn from many evaluations made elsewhere; the same ones are taken in only once.

        Args:
            source: the path of a CSV or JSON file, a data frame, a list of dicts, or another
                Study or Result.
            values: learn the objective from them, and what fails.
            costs: learn the costs from them; of a killed trial, that it costs at least so much.
                Without `values`, that is all that is learnt, and the same parameters may be
                proposed again.
        """
        source = source.history if isinstance(source, Optimizer) else source
        state = self._memory.look()
        found = take_in(source, self._settings, state, values=values, costs=costs)
        if found.taken:
            self._commit(Added(found.trials, found.prices), silent=True)
        return found

    # ── changing ───────────────────────────────────────────────────────────────────────────

    def enqueue(self, params: Mapping[str, Any], *, once: bool = False) -> None:
        """Evaluate these parameters next, whatever a rule says; the policy completes them.

        Args:
            once: unless the same was asked for before.
        """
        self._commit(Enqueued((Wanted(dict(params)),), once), silent=True)

    def change(self, **settings: Any) -> Mapping[str, tuple[str, str]]:
        """Go on with other settings: `change(budget="+10m", policy=EI())`; a space only grows.

        Returns:
            What is otherwise now: {setting: (as it was, as it is)}, in words.
        """
        while True:
            state = self._memory.look()
            event = change_to(self._settings, settings, len(state.changes), self._memory.shared)
            try:
                if event.said:
                    self._commit(event, silent=True)
                return event.said
            except Outdated:  # another was quicker: "+10m" is now more of what he made of it
                continue

    # ── looking ────────────────────────────────────────────────────────────────────────────

    @property
    def best(self) -> Trial | None:
        """The best trial so far, by posterior mean if `noisy`; None before the first value."""
        state = self._memory.look()
        known = state.known()
        if self._best is None or self._best[0] != known:
            with self._time.measuring() if self.noisy else nullcontext():
                self._best = known, best_trial(self._settings, state.history)
        return self._best[1]

    @property
    def seen(self) -> State:
        """What is known, as it was a moment ago: for those who look often."""
        return self._look(FRESH)

    @property
    def ledger(self) -> Ledger:
        """What was spent, what is held for running trials, what is left."""
        return self._look().ledger

    @property
    def history(self) -> History:
        """Every trial, in the user's units and direction."""
        return self._memory.look().history

    # ── stopping ───────────────────────────────────────────────────────────────────────────

    def request_stop(self, because: str = "a stop was requested", *, now: bool = False) -> None:
        """Start nothing any more, in whatever process.

        Args:
            because: why.
            now: whether workers kill what is running, and charge it; else it is let finish.
        """
        self._commit(StopRequested(StopReason("requested", because), now), silent=True)
