"""`Asker`: suggests trials and starts them, as one of several processes that work on a study.

Only one process suggests at a time if suggestions take long: it holds the suggestion lock, which
is part of the state and expires. Other processes wait. A suggestion that is based on an outdated
state is refused when it is committed, and made again.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from farthing.acquisition.next_rung import next_rung
from farthing.core.charging import out_of_time
from farthing.core.endings import is_running
from farthing.core.events import (
    AskedAgain,
    AskedPart,
    AskedTogether,
    Continued,
    Event,
    Moment,
    SuggestLock,
    TimePassed,
    Told,
)
from farthing.core.part_reasons import reasons_of
from farthing.core.session import Session
from farthing.core.state import State
from farthing.core.suggest import (
    AskOptions,
    Suggestion,
    next_trials,
    no_time_to_suggest,
    one_thread,
    suggest,
)
from farthing.core.transition import apply
from farthing.errors import Outdated, Stopped
from farthing.history import Here, Trial

__all__ = ["Asker", "CachedSuggestion"]

SLOW = 0.05  # seconds: if a suggestion takes longer, only one process suggests at a time
MOST_SUGGESTING = 0.5  # share of the time between rungs; more, and the last model decides
SUGGESTER_LEASE = (10.0, 5.0)  # the lock expires after 10 s + 5 x the time of the last suggestion


class CachedSuggestion(NamedTuple):
    """A suggestion, the version of the state that it is based on, and the seconds it took."""

    version: tuple[int, ...]
    suggestion: Suggestion
    seconds: float


class Asker:
    """Suggests trials for one process and starts them.

    Args:
        session: the access of this process to the study.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._name = uuid.uuid4().hex  # shared with the processes that are forked from this one
        self._cached: CachedSuggestion | None = None
        self._chose: dict[int, Suggestion] = {}  # the last one for each training that runs here

    def id(self, process: int | None = None) -> str:
        """The name under which a process holds the suggestion lock: this one, or a forked one."""
        return f"{self._name}:{os.getpid() if process is None else process}"

    def suggest(self, state: State) -> CachedSuggestion:
        """A suggestion for the state, from the cache if its version is the same."""
        # A worker that lacks a checkpoint now may have it later.
        lacking = (t.number for t in state.history.having("paused") if t.run.elsewhere)
        version = (*state.version(), *lacking)
        if self._cached is None or self._cached.version != version:
            start = time.perf_counter()
            with self._session.clock.measuring(), one_thread():
                suggestion = suggest(self._session.settings, state)
            self._cached = CachedSuggestion(version, suggestion, time.perf_counter() - start)
        return self._cached

    def ask(self, count: int, options: AskOptions) -> list[Trial]:
        """Start `count` trials, or fewer if no more may start.

        Raises:
            Stopped: no trial may start.
        """
        session = self._session
        with session.measured(), session.store.ask_lock():  # waiting is charged, too
            return self._ask(count, options)

    def _ask(self, count: int, options: AskOptions) -> list[Trial]:
        session = self._session
        is_contended, waited = False, 0  # whether another process was faster
        while True:
            # A worker has just loaded the state, when it reported its last trial.
            state = session.look() if options.lease is None else session.look_recent()
            state = session.expire_leases(state)
            if state.stop_requested is not None:
                raise Stopped(state.stop_requested)
            self._stop_if_time_is_short(state)
            try:
                is_retry = count == 1 and state.next_retry is not None
                if is_retry or self.may_suggest(state, is_contended, count):
                    return self.start(state, count, options)
            except Outdated:
                self._cached, is_contended = None, True
                session.store.look()
                continue
            session.store.wait(waited)
            waited += 1

    def start(self, state: State, count: int, options: AskOptions) -> list[Trial]:
        """Suggest up to `count` trials for a state, and start them and lost ones in one commit."""
        session = self._session
        now, began = session.store.now, time.monotonic()

        def moment() -> Moment:
            return Moment(now + time.monotonic() - began, session.clock.present)

        def suggester(state: State) -> tuple[Suggestion, float]:
            cached = self.suggest(state)
            return cached.suggestion, cached.seconds

        state = _seen_from(options.here, state)
        try:
            asked = next_trials(session.settings, state, count, suggester, options, moment)
        except BaseException:
            if session.store.shared:
                self._release_own_lock(session.store.look())
            raise
        event: Event = asked[0] if len(asked) == 1 else AskedTogether(asked)
        overhead = sum(each.suggest_s for each in asked if not isinstance(each, AskedAgain))
        after = session.commit(event, overhead=overhead)
        self._release_own_lock(after)
        new = sum(not isinstance(each, AskedPart) for each in asked)
        numbers = iter(range(len(after.history) - new, len(after.history)))
        trials = [
            after.history[each.trial.number if isinstance(each, AskedPart) else next(numbers)]
            for each in asked
        ]
        if self._cached is not None and len(asked) == 1 and not isinstance(asked[0], AskedAgain):
            self._remember(after, trials[0].number, self._cached.suggestion)
        return trials

    def continued(self, told: Told, here: Here = Here()) -> Trial | str:
        """Continue a running training beyond its rung if that is the best thing to do next.

        No lock is needed: at worst, two processes compute the same suggestion.

        Args:
            told: what would be told if the training were paused now.
            here: which other paused trainings the worker can resume.

        Returns:
            The trial with its next rung, or why it is to be paused.
        """
        session = self._session
        assert isinstance(told.trial, Trial)
        number = told.trial.number
        with session.measured():
            state = session.look_recent()
            if state.stop_requested is not None:
                return state.stop_requested.sentence
            if not is_running(state, number):
                return "it was lost or dropped meanwhile"
            if (resource := out_of_time(session.settings, state, session.moment())) is not None:
                return no_time_to_suggest(state.ledger, resource).sentence
            start = time.perf_counter()
            with session.clock.measuring(), one_thread():
                as_if_paused = self._as_if_paused(_seen_from(here, state), told)
                known = self._by_last_model(as_if_paused, number)
            if isinstance(known, str):
                return known
            if known is not None:
                try:
                    return self._carry_on(state, told, *known, time.perf_counter() - start)
                except Outdated:  # a new suggestion decides
                    pass
            with session.clock.measuring(), one_thread():
                suggestion = suggest(session.settings, as_if_paused)
            if suggestion.verdict.stop:
                return suggestion.verdict.because
            if suggestion.proposal.resume != number:
                return f"instead, {suggestion.proposal.because}"
            try:
                return self._carry_on(state, told, suggestion, None, time.perf_counter() - start)
            except (Outdated, Stopped) as refused:
                return str(refused)

    def _carry_on(
        self, state: State, told: Told, suggestion: Suggestion, bound: float | None, seconds: float
    ) -> Trial:
        """Commit that a running training goes on as suggested.

        Raises:
            Outdated: the state has changed too much.
            Stopped: the study ends.
        """
        session = self._session
        assert isinstance(told.trial, Trial)
        assert isinstance(told.cost, Mapping)
        billed = None if told.trial.run.lease is None else session.settings.billed
        trial, reservation = suggestion.trial(session.settings.max_overrun, billed)
        changes = len(state.changes)
        event = Continued(trial, reservation, told.cost, told.curve, seconds, changes, bound)
        after = session.commit(event, overhead=seconds)
        self._remember(after, trial.number, suggestion)
        return after.history[trial.number]

    def _by_last_model(self, state: State, number: int) -> tuple[Suggestion, float] | str | None:
        """The suggestion that a training goes on, and its index, or why it is to be paused.

        None: a new suggestion decides. It knows more, so it decides unless suggestions for all
        running trainings would take too much of their time.

        Args:
            state: in which the training is paused.
        """
        settings, last = self._session.settings, self._chose.pop(number, None)
        rivals = None if last is None else last.proposal.ahead_of
        if last is None or rivals is None or settings.stop is not None:
            return None
        start, *_, end = (each.at for each in reasons_of(state.history[number])[-2:])
        if len(state.history.running) * state.suggest_s <= MOST_SUGGESTING * (end - start):
            return None
        belief = replace(last.belief, ledger=state.ledger, history=state.history)
        found = next_rung(belief, state.history[number], rivals)
        if found is None:
            return None
        if found.proposal is not None:
            return Suggestion(belief, found.proposal, last.verdict), found.value
        can_return = settings.steps is not None and settings.steps.can_resume
        return "another training is ahead of it by the last model" if can_return else None

    def _remember(self, state: State, number: int, suggestion: Suggestion) -> None:
        """Keep the suggestion that chose a training while it runs, for its next rungs."""
        self._chose = {n: each for n, each in self._chose.items() if is_running(state, n)}
        if suggestion.proposal.ahead_of is not None:
            self._chose[number] = suggestion

    def _as_if_paused(self, state: State, told: Told) -> State:
        """The state in which a training is paused, and its process waits for the decision.

        What users have enqueued can wait until the training is complete or paused.
        """
        session = self._session
        state = apply(session.settings, replace(state, queue=()), told, session.moment())
        assert isinstance(told.trial, Trial)
        return _seen_from(Here(frozenset({told.trial.number})), state)

    def _stop_if_time_is_short(self, state: State) -> None:
        """Refuse a suggestion that would end after the budget if it took as long as the last."""
        session = self._session
        resource = out_of_time(session.settings, state, session.moment())
        if resource is None:
            return
        if state.ledger[resource].left > 0:  # past the limit, waiting for others is free
            state = session.commit(TimePassed(), overhead=session.clock.unpaid)
        raise Stopped(no_time_to_suggest(state.ledger, resource))

    # ── the suggestion lock ────────────────────────────────────────────────────────────────

    def may_suggest(self, state: State, is_contended: bool, count: int = 1) -> bool:
        """Whether this process may suggest now; it acquires the suggestion lock if needed.

        No lock is needed while suggestions are fast and no other process was faster.
        """
        me, store = self.id(), self._session.store
        if not store.shared or state.suggester == me:
            return True
        if state.is_suggesting(me, store.now):
            return False
        if state.suggest_s < SLOW and not is_contended:
            return True
        seconds, times = SUGGESTER_LEASE
        try:
            self._session.commit(SuggestLock(me, seconds + times * count * state.suggest_s))
        except Outdated:
            return False
        return True

    def _release_own_lock(self, state: State) -> None:
        """Release a lock that no started trial has released: after an error, or for a retry."""
        if state.suggester == self.id():
            self.release_lock(os.getpid())

    def release_lock(self, process: int | None) -> None:
        """Release the suggestion lock of this process, or of one that was forked from it."""
        self._session.commit(SuggestLock(self.id(process)))


def _seen_from(here: Here, state: State) -> State:
    """The state for a worker, whose suggestions depend on which paused trainings it can resume."""
    lacking = here.lacking(state.history)
    for number in here.waiting | lacking:
        trial = state.history[number]
        if trial.state == "paused":
            run = replace(trial.run, waits=number in here.waiting, elsewhere=number in lacking)
            state = state.with_trial(replace(trial, run=run))
    return state
