"""Ask and tell, in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, overload

import numpy as np

from farthing.belief import Belief
from farthing.decision import Policy, StoppingRule, Verdict
from farthing.errors import InvalidInput, Stopped
from farthing.history import History, Trial
from farthing.ledger import Budget, Ledger
from farthing.plan import (
    Direction,
    Learner,
    Price,
    Thought,
    added_trial,
    asked_trial,
    best_trial,
    bill,
    make_plan,
    one_thread,
    outcome_of,
    think,
    what_is_believed,
)
from farthing.space import Parameter, Space

__all__ = ["Learner", "Optimizer"]


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
        worth: objective units that one unit of cost is worth, or "0.01 = $20".
        direction: "minimize" or "maximize".
        noisy: whether the same parameters may return different values.
        seed: the same seed and the same answers give the same questions.
    """

    def __init__(
        self,
        space: Space | Mapping[str, Parameter],
        budget: str | float | Mapping[str, float] | Budget | None = None,
        *,
        policy: Policy | None = None,
        stop: StoppingRule | None = None,
        cost: Learner | Mapping[str, Learner] | None = None,
        worth: float | str | None = None,
        direction: Direction = "minimize",
        noisy: bool = False,
        seed: int = 0,
    ) -> None:
        self._plan = make_plan(
            space,
            budget,
            policy=policy,
            stop=stop,
            cost=cost,
            worth=worth,
            direction=direction,
            noisy=noisy,
            seed=seed,
        )
        self.space = self._plan.space
        self.budget = self._plan.budget
        self.policy = self._plan.policy
        self.stop = self._plan.stop
        self.worth = self._plan.worth
        self.noisy = self._plan.noisy
        self.seed = self._plan.seed
        self._ledger = Ledger.of(self.budget)
        self._history = History()
        self._thought: Thought | None = None  # kept until something new is known
        self._best: Trial | None = None

    # ── thinking ───────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _thinking(self) -> Iterator[None]:
        """Measure what happens inside and charge it."""
        begun = time.perf_counter()
        try:
            with one_thread():
                yield
        finally:  # a thought that ends in Stopped took its time, too
            self._ledger = self._ledger.think(time.perf_counter() - begun)

    def _think(self) -> Thought:
        if self._thought is None:
            self._thought = think(self._plan, self._history, self._ledger)
        return self._thought

    def _believe(self) -> Belief:
        return what_is_believed(self._plan, self._history, self._ledger)

    @property
    def verdict(self) -> Verdict:
        """Whether to stop now, and why."""
        with self._thinking():
            return self._think().verdict

    # ── asking ─────────────────────────────────────────────────────────────────────────────

    @overload
    def ask(self, count: None = None, *, anyway: bool = False) -> Trial: ...

    @overload
    def ask(self, count: int, *, anyway: bool = False) -> list[Trial]: ...

    def ask(self, count: int | None = None, *, anyway: bool = False) -> Trial | list[Trial]:
        """The next trial, or a list of `count`; what is running takes part as fantasies.

        Args:
            count: how many to evaluate at the same time.
            anyway: ask although a rule said stop; the ledger cannot be overruled.

        Raises:
            Stopped: the verdict is to stop.
        """
        if count is None:
            with self._thinking():
                return self._ask(anyway)
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InvalidInput(f"ask({count!r}): expected how many trials, at least 1.")
        with self._thinking():
            trials = [self._ask(anyway)]
            while len(trials) < count:
                if (self._think().verdict.stop and not anyway) or self._think().proposal.x is None:
                    break  # a smaller batch than wanted, rather than an error after some were made
                trials.append(self._ask(anyway))
            return trials

    def _ask(self, anyway: bool) -> Trial:
        thought = self._think()
        if thought.proposal.x is None or (thought.verdict.stop and not anyway):
            raise Stopped(thought.verdict.because)
        trial, hold = asked_trial(self._plan, thought)
        self._ledger = self._ledger.reserve(trial.number, hold)
        self._history = self._history.adding(trial)
        self._thought = None
        return replace(trial, params=dict(trial.params))  # the user's own, to pop and change

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
        begun = self._running(trial)
        state, told = outcome_of(begun.number, value, failed, killed)
        paid = bill(self._plan, cost, begun.x, required=True)
        with self._thinking():
            self._history = self._history.replacing(
                begun.number, state=state, value=told, cost=paid, error=failed
            )
            self._ledger = self._ledger.charge(begun.number, paid, start=begun.is_start)
            self._thought, self._best = None, None

    def add(self, params: Mapping[str, Any], value: float, *, cost: Price = None) -> Trial:
        """Learn from an evaluation made elsewhere; it takes a number, but nothing of the budget."""
        number, required = len(self._history), self._plan.needs_cost
        trial = added_trial(self._plan, number, params, value, cost=cost, cost_required=required)
        self._history = self._history.adding(trial)
        self._thought, self._best = None, None
        return replace(trial, params=dict(trial.params))

    def _running(self, trial: Trial | int) -> Trial:
        number = trial.number if isinstance(trial, Trial) else trial
        known = isinstance(number, int | np.integer) and 0 <= number < len(self._history)
        begun = self._history[int(number)] if known else None
        if begun is None or (isinstance(trial, Trial) and not np.array_equal(trial.x, begun.x)):
            raise InvalidInput(
                f"Trial {number!r} was never asked here. Tell what ask() returned; "
                "use add(params, value) for an evaluation made elsewhere."
            )
        if begun.state != "running":
            raise InvalidInput(
                f"Trial {number} was told already ({begun.state}). A trial is told once."
            )
        return begun

    # ── looking ────────────────────────────────────────────────────────────────────────────

    @property
    def best(self) -> Trial | None:
        """The best trial so far, by posterior mean if `noisy`; None before the first value."""
        if self._best is None and self._history.done:
            with self._thinking() if self.noisy else nullcontext():
                self._best = best_trial(self._plan, self._history, self._ledger)
        return self._best

    @property
    def ledger(self) -> Ledger:
        """What was spent, what is held for running trials, what is left."""
        return self._ledger

    @property
    def history(self) -> History:
        """Every trial, in the user's units and direction."""
        return self._history
