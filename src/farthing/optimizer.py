"""Ask and tell, in memory."""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, Unpack, overload

import numpy as np

from farthing.bills import foreign_trial, outcome_of
from farthing.decision import Policy, StoppingRule, Verdict
from farthing.errors import InvalidInput, Outdated, Stopped
from farthing.history import History, Trial, TrialState
from farthing.ledger import Budget, Ledger, format_amount
from farthing.memory import Memory, OneProcess
from farthing.settings import AnyBudget, AnySpace, Choices, Settings, takes_settings
from farthing.space import Space
from farthing.state import (
    Added,
    Asked,
    AskedAgain,
    Ended,
    Event,
    GivenUp,
    Halted,
    Moment,
    Passed,
    Price,
    Renewed,
    Resumed,
    State,
    Told,
    Turn,
)
from farthing.tabular import learnt_from, read_rows, row
from farthing.thinking import Thought, best_trial, make_ready, one_thread, think
from farthing.timekeeping import Timekeeper
from farthing.transition import apply, time_is_short, why_it_must_end

__all__ = ["Optimizer"]

SLOW = 0.05  # seconds: from here on only one process thinks at a time
POLL = (0.002, 0.02)  # seconds between looks whether another has finished thinking
THINKER_LEASE = (10.0, 5.0)  # a thinker is dead after 10 s + 5 x the last thought
FRESH = 0.05  # seconds that a look is good for, where many workers tell at any moment
LEASES_ARE_CHECKED = 1.0  # seconds between looks for workers that disappeared


class _Kept(NamedTuple):
    """A thought, what was known when it was thought, and the seconds it took."""

    known: tuple[int, ...]
    thought: Thought
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
        policy: how to choose; by default Gittins with a budget of something paid, EI otherwise.
        stop: a reason to stop besides the budget, such as `stopping.NotWorthIt(worth=0.01)`.
        cost: what evaluations cost: a function of the parameters where it is known, else a learner
            from `farthing.cost`; {resource: either} where several resources are limited.
        worth: objective units that one unit of cost is worth, "0.01 = $20", or "budget".
        direction: "minimize" or "maximize".
        noisy: whether the same parameters may return different values.
        seed: the same seed and the same answers give the same questions.
        start: configurations to evaluate first, {"width": 16} or a list; the rest is filled in.
        leash: kill a running trial that is expected to cost this many times more, still, than it
            was expected to cost in all; None: it is let run while the budget pays.
        thinking: with a budget of seconds, the share of what trials cost that thinking may add.
    """

    @takes_settings(Choices)
    def __init__(
        self, space: AnySpace, budget: AnyBudget = None, **settings: Unpack[Choices]
    ) -> None:
        made = Settings.of(space, budget, **settings)
        self._remember(made, OneProcess(State(Ledger.of(made.budget))))

    @classmethod
    def made_with(cls, settings: Settings) -> Optimizer:
        """An Optimizer from settings that are made already."""
        optimizer = cls.__new__(cls)
        optimizer._remember(settings, OneProcess(State(Ledger.of(settings.budget))))
        return optimizer

    def _remember(self, settings: Settings, memory: Memory) -> None:
        """Begin, with a memory that may hold something already."""
        self._settings = settings
        self._memory = memory
        self._name = uuid.uuid4().hex  # shared with the processes that are forked from this one
        self._kept: _Kept | None = None  # until something new is known
        self._best: tuple[tuple[int, ...], Trial | None] | None = None
        self._time = Timekeeper()
        self._checked = -math.inf  # when leases were last checked
        make_ready(settings)

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
        return nullcontext() if self._memory.shared else self._time.thinking()

    def _look(self, at_most: float = 0.0) -> State:
        """The state, as if the thinking that nobody has paid for yet had been charged."""
        state = self._memory.look(at_most)
        if not self._time.unpaid or self._time.present is not None:
            return state
        return replace(state, ledger=state.ledger.think(self._time.unpaid))

    def _think(self, state: State) -> _Kept:
        """One thought, kept until something new is known."""
        known = state.known()
        if self._kept is None or self._kept.known != known:
            begun = time.perf_counter()
            with self._time.thinking(), one_thread():
                thought = think(self._settings, state)
            self._kept = _Kept(known, thought, time.perf_counter() - begun)
        return self._kept

    @property
    def verdict(self) -> Verdict:
        """Whether to stop now, and why."""
        state = self._look()
        if state.halted is not None:
            return Verdict(True, state.halted)
        return self._think(state).thought.verdict

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
            count: how many to evaluate at the same time.
            anyway: ask although a rule said stop; the ledger cannot be overruled.
            worker: who will evaluate it.
            lease: seconds after which it is lost unless `renew` was called; None: never.

        Raises:
            Stopped: the verdict is to stop.
        """
        if count is None:
            with self._charged():
                return self._ask(anyway, worker, lease)
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InvalidInput(f"ask({count!r}): expected how many trials, at least 1.")
        with self._charged():
            trials = [self._ask(anyway, worker, lease)]
        try:
            while len(trials) < count:
                with self._charged():
                    trials.append(self._ask(anyway, worker, lease))
        except Stopped:
            pass  # a smaller batch than wanted, rather than an error after some were made
        return trials

    def _ask(self, anyway: bool, worker: str | None, lease: float | None) -> Trial:
        crowded = False  # whether a thought was in vain because another was quicker
        while True:
            # A worker has just looked, when it told of its last trial.
            state = self._give_up_lost(self._look(0.0 if lease is None else FRESH))
            if state.halted is not None:
                raise Stopped(state.halted)
            self._stop_if_time_is_short(state)
            try:
                if state.waiting is not None:
                    return self._again(state, anyway, worker, lease)
                if self._may_think(state, crowded):
                    return self._chosen(state, anyway, worker, lease)
            except Outdated:
                self._kept, crowded = None, True
                self._memory.look()
                continue
            time.sleep(min(max(state.thought_s / 2, POLL[0]), POLL[1]))

    def _chosen(self, state: State, anyway: bool, worker: str | None, lease: float | None) -> Trial:
        """The trial that a thought leads to."""
        try:
            kept = self._think(state)
            proposal, verdict = kept.thought.proposal, kept.thought.verdict
            if proposal.x is None or (verdict.stop and not anyway):
                raise Stopped(verdict.because)
        except BaseException:  # nobody waits for a thought that led to nothing
            if self._memory.shared and self._memory.look().thinker == self._me():
                self.forget(os.getpid())
            raise
        trial, hold = kept.thought.trial(self._settings.leash)
        event = Asked(trial, hold, kept.seconds, self._me(), worker, lease)
        after = self._commit(event, thought=kept.seconds, durable=False)
        return _own(after.history[trial.number])

    def _again(self, state: State, anyway: bool, worker: str | None, lease: float | None) -> Trial:
        """The oldest trial that was lost and is to be tried again, unless a rule says stop."""
        if self._settings.stop is not None and not anyway:
            verdict = self._think(state).thought.verdict
            if verdict.stop:
                raise Stopped(verdict.because)
        after = self._commit(AskedAgain(worker, lease), durable=False)
        return _own(after.history[len(after.history) - 1])

    # ── thinking among others ──────────────────────────────────────────────────────────────

    def _me(self, process: int | None = None) -> str:
        """Who thinks."""
        return f"{self._name}:{os.getpid() if process is None else process}"

    def _may_think(self, state: State, crowded: bool) -> bool:
        """Whether it is our turn; where thoughts are quick and thinkers few there are no turns."""
        me = self._me()
        if not self._memory.shared or state.thinker == me:
            return True
        if state.is_thinking(me, self._memory.now):
            return False
        if state.thought_s < SLOW and not crowded:
            return True
        patience, times = THINKER_LEASE
        try:
            self._commit(Turn(me, patience + times * state.thought_s), silent=True, durable=False)
        except Outdated:
            return False
        return True

    def forget(self, process: int | None) -> None:
        """Nobody waits any more for a thought of this process, or of one forked from it."""
        self._commit(Turn(self._me(process)), silent=True, durable=False)

    def _stop_if_time_is_short(self, state: State) -> None:
        """Begin no thought that would end after the budget, if it took as long as the last one."""
        if not time_is_short(state, Moment(self._memory.now, self._time.present)):
            return
        account = state.ledger["s"]
        if account.left > 0:  # beyond the limit, to wait for others is free
            account = self._commit(Passed(), durable=False).ledger["s"]
        because = f"the budget of {format_amount('s', account.limit)} is spent"
        if account.left > 0:
            left = format_amount("s", account.left)
            because += f", but for the {left} that another thought would take"
        raise Stopped(because)

    # ── events ─────────────────────────────────────────────────────────────────────────────

    def on_the_clock(self) -> AbstractContextManager[None]:
        """While inside, wall clock time is charged as it passes, and not as it is told."""
        return self._time.on_the_clock()

    def _commit(
        self,
        event: Event,
        *,
        thought: float = 0.0,
        silent: bool = False,
        durable: bool = True,
    ) -> State:
        """Apply an event to the state as it is, and charge the time passed since the last one.

        Args:
            thought: how many of these seconds were spent thinking; off the clock, what is unpaid.
            silent: it brings no time with it.
        """
        present, unpaid = self._time.present, self._time.unpaid
        if present is None:
            thought = unpaid
        if silent:
            present, thought, unpaid = None, 0.0, 0.0

        def change(state: State, now: float) -> State:
            return apply(self._settings, state, event, Moment(now, present, thought))

        state = self._memory.commit(change, durable=durable)
        self._time.paid(present, unpaid)
        return state

    def commit(self, event: Event) -> None:
        """What an engine has to say of a trial, or a run of itself: see `farthing.state`."""
        with self._charged():
            self._commit(event, silent=isinstance(event, Resumed | Ended | Halted | Added))

    def renew(
        self,
        trial: Trial,
        *,
        lease: float,
        cost: Mapping[str, float],
        ahead: Mapping[str, float],
        progress: Sequence[Mapping[str, Any]] = (),
    ) -> str | None:
        """Keep a running trial, and draw what it needs from what is left.

        Args:
            lease: seconds for which it is kept.
            cost: what it has used so far.
            ahead: what it will have used when this is called next.
            progress: what it has reported.

        Returns:
            Why it must end now; None if it may go on.
        """
        self._give_up_lost(self._memory.look(FRESH))  # what they held may be what this one needs
        event = Renewed(trial.number, lease, cost, ahead, tuple(progress))
        state = self._commit(event, durable=False)
        return why_it_must_end(state, event, Moment(self._memory.now, self._time.present))

    def _give_up_lost(self, state: State) -> State:
        """Trials whose worker disappeared are lost; looked for once in a while."""
        leases = [trial.run.lease for trial in state.history.running if trial.run.lease is not None]
        if not leases or time.monotonic() - self._checked < LEASES_ARE_CHECKED:
            return state
        self._checked = time.monotonic()
        if min(leases) >= self._memory.now:
            return state
        return self._commit(GivenUp(), silent=True)

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
        state: TrialState = "running"
        if not running:
            state, value = outcome_of(value, failed, killed, "it")
        elif value is not None or failed is not None or killed or cost is not None:
            raise InvalidInput(
                "add(running=True): what is still running has no value and no cost yet. "
                "Tell them when it has ended."
            )
        required = "cost" in self._settings.needs and state == "done"
        trial = foreign_trial(
            self._settings, params, state, value, cost=cost, error=failed, required=required
        )
        history = self._commit(Added((trial,)), silent=True).history
        return _own(history[len(history) - 1])

    def import_trials(self, source: Any, *, values: bool = True, costs: bool = True) -> int:
        """Learn from many evaluations made elsewhere; how many were taken in.

        Args:
            source: the path of a CSV or JSON file, a data frame, a list of dicts, or another Study.
            values: learn the objective from them, and what fails.
            costs: learn the costs from them; of a killed trial, that it costs at least so much.
                Without `values`, that is all that is learnt, and the same parameters may be
                proposed again.
        """
        if not (values or costs):
            raise InvalidInput("values=False and costs=False: nothing would be imported.")
        found = source.history if isinstance(source, Optimizer) else None
        rows = read_rows(source) if found is None else [row(trial) for trial in found]
        trials, prices = learnt_from(rows, self._settings, values=values, costs=costs)
        if trials or prices:
            self._commit(Added(trials, prices), silent=True)
        return len(trials) + len(prices)

    # ── looking ────────────────────────────────────────────────────────────────────────────

    @property
    def best(self) -> Trial | None:
        """The best trial so far, by posterior mean if `noisy`; None before the first value."""
        state = self._memory.look()
        known = state.known()
        if self._best is None or self._best[0] != known:
            with self._time.thinking() if self.noisy else nullcontext():
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
        self._commit(Halted(because, now), silent=True)


def _own(trial: Trial) -> Trial:
    """The user's own, to pop and change."""
    return replace(trial, params=dict(trial.params))
