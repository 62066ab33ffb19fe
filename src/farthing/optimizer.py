"""`Optimizer`: ask for trials and tell their outcomes, in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Unpack, overload

import numpy as np

from farthing.acquisition.protocols import Policy, StoppingRule, Verdict
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget
from farthing.core.asking import Asker
from farthing.core.edits import change_event
from farthing.core.events import (
    Added,
    Enqueued,
    Event,
    Price,
    Renewed,
    StopRequested,
    TimePassed,
    Told,
)
from farthing.core.options import AnyBudget, AnySpace, SearchOptions
from farthing.core.outcomes import added_trial, outcome_of, reported_constraints
from farthing.core.parts import check_step
from farthing.core.predict import predict, scores_at
from farthing.core.session import Session
from farthing.core.settings import Settings
from farthing.core.signatures import takes_settings
from farthing.core.state import QueueEntry, State
from farthing.core.store import InMemoryStore, Store
from farthing.core.suggest import AskOptions, best_trial, warm_up
from farthing.core.transition import kill_reason
from farthing.data.importing import Imported, select_new
from farthing.data.sources import settings_of, with_sources
from farthing.data.tabular import curve_rows, frame_of, points_of, to_frame
from farthing.errors import InvalidInput, Outdated
from farthing.history import CurvePoint, Here, History, StopReason, Trial
from farthing.models.constraints import Constraint
from farthing.space.space import Space
from farthing.view.card import study_card
from farthing.view.plots import Plots
from farthing.view.watched import status_of

__all__ = ["Optimizer"]


class Optimizer:
    """Suggest trials, learn from their values and costs, and say when to stop.

        optimizer = Optimizer(space, budget="$40")
        while not optimizer.verdict.stop:
            trial = optimizer.ask()
            optimizer.tell(trial, value, cost=...)
        optimizer.best.params

    Args:
        space: a Space, or {name: parameter}.
        budget: the limit of what may be spent: "2h", "$40", 40, {"s": 3600, "usd": 5} or a Budget;
            None for no limit.
        settings: how to choose trials, when to stop, how to predict costs. See `Settings`.
    """

    @takes_settings(SearchOptions)
    def __init__(
        self, space: AnySpace, budget: AnyBudget = None, **settings: Unpack[SearchOptions]
    ) -> None:
        checked = settings_of(space, budget, **settings)
        self._attach(checked, InMemoryStore(State(Ledger.of(checked.budget))))

    @classmethod
    def of(cls, settings: Settings) -> Optimizer:
        """An Optimizer from a `Settings` value."""
        optimizer = cls.__new__(cls)
        optimizer._attach(settings, InMemoryStore(State(Ledger.of(settings.budget))))
        return optimizer

    def _attach(self, settings: Settings, store: Store, *, suggests: bool = True) -> None:
        """Use a store, which may have a state already."""
        store.settings = settings
        self._store = store
        self._session = Session(store)
        self._asker = Asker(self._session)
        self._best: tuple[tuple[int, ...], Trial | None] | None = None
        if suggests:
            warm_up(settings)

    @property
    def _settings(self) -> Settings:
        """The settings when the state was last loaded. Another process may have changed them."""
        return self._store.settings

    def _look(self) -> State:
        """The state as if the overhead of this process had been charged already."""
        return self._session.look()

    # ── settings ───────────────────────────────────────────────────────────────────────────

    @property
    def space(self) -> Space:
        """The space that is searched."""
        return self._settings.space

    @property
    def budget(self) -> Budget | None:
        """The limit of what may be spent."""
        return self._settings.budget

    @property
    def policy(self) -> Policy:
        """The policy that chooses trials."""
        return self._settings.policy

    @property
    def stop(self) -> StoppingRule | None:
        """The stopping rule besides the budget."""
        return self._settings.stop

    @property
    def worth(self) -> float | None:
        """Exchange rate: how much objective one unit of cost is worth."""
        return self._settings.exchange_rate

    @property
    def noisy(self) -> bool:
        """Whether the same parameters may return different values."""
        return self._settings.noisy

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints that a feasible trial meets."""
        return self._settings.bounds

    @property
    def waits_for_cost(self) -> frozenset[str]:
        """Resources whose cost is unknown until a trial reports it. Workers wait for the first."""
        return self._settings.billed

    @property
    def seed(self) -> int:
        """Random seed. The same seed and the same results give the same suggestions."""
        return self._settings.seed

    # ── asking ─────────────────────────────────────────────────────────────────────────────

    @property
    def verdict(self) -> Verdict:
        """Whether to stop now, and why."""
        state = self._look()
        if state.stop_requested is not None:
            return Verdict(True, state.stop_requested.sentence, kind=state.stop_requested.kind)
        return self._asker.suggest(state).suggestion.verdict

    @overload
    def ask(
        self,
        count: None = ...,
        *,
        anyway: bool = ...,
        worker: str | None = ...,
        lease: float | None = ...,
        here: Here = ...,
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
        here: Here = Here(),
    ) -> Trial | list[Trial]:
        """The next trial, or a list of `count` trials. Pending trials are fantasised.

        Args:
            count: the number of trials to evaluate at the same time. The list is never empty, but
                shorter if the budget, the stopping rule or the space allows no more.
            anyway: start a trial although the stopping rule says stop. The budget still holds.
            worker: the name of the worker that evaluates the trial.
            lease: seconds after which the trial is lost unless `renew` is called; None: never.
            here: which paused trainings the worker can resume.

        Raises:
            Stopped: no trial may start, because of the stopping rule, the budget or a request.
        """
        options = AskOptions(anyway, self._asker.id(), worker, lease, here)
        if count is None:
            return _for_user(self._asker.ask(1, options)[0])
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InvalidInput(f"ask({count!r}): expected the number of trials, at least 1.")
        return [_for_user(trial) for trial in self._asker.ask(int(count), options)]

    def release_suggest_lock(self, process: int | None) -> None:
        """Release the suggestion lock of this process, or of a process forked from it."""
        self._asker.release_lock(process)

    # ── running trials ─────────────────────────────────────────────────────────────────────

    def on_the_clock(self) -> AbstractContextManager[None]:
        """While inside, wall-clock time is charged as it passes, not as trials report it."""
        if self._session.clock.unpaid:  # overhead from before is charged as overhead
            self._session.commit(TimePassed())
        return self._session.clock.on_the_clock()

    def commit(self, event: Event) -> None:
        """Apply an event of an engine or a run. See `farthing.core.events`."""
        if isinstance(event, TimePassed):
            self._session.commit_time()
            return
        with self._session.measured():
            self._session.commit(event, overhead=self._session.clock.unpaid)

    def renew(
        self,
        trial: Trial,
        *,
        lease: float,
        cost: Mapping[str, float],
        ahead: Mapping[str, float],
        reports: Sequence[Mapping[str, Any]] = (),
        run: Mapping[str, Any] = MappingProxyType({}),
        curve: Sequence[CurvePoint] = (),
    ) -> str | None:
        """Extend the lease of a running trial, and reserve what it needs until the next call.

        Args:
            lease: seconds after which the trial is lost unless it is renewed again.
            cost: what it has used so far.
            ahead: what it will have used at the next call.
            reports: the progress that it has reported.
            run: where it runs: `slot`, `log`.
            curve: the points that its part has reported.

        Returns:
            Why the trial must be killed now; None if it may continue.
        """
        session = self._session
        event = Renewed(trial.number, lease, cost, ahead, tuple(reports), run, tuple(curve))
        # Renew before expiring: the clock may have jumped, and this worker is alive.
        state = session.commit(event)
        if session.expire_leases(state) is not state:  # this trial may need what became free
            state = session.commit(event)
        return kill_reason(self._settings, state, event, session.moment())

    def continue_trial(self, told: Told, here: Here = Here()) -> Trial | str:
        """The trial with the step to which a running training goes on, or why it is to be paused.

        Args:
            told: what would be told if the training were paused now.
        """
        return self._asker.continued(told, here)

    def is_worked_on(self) -> bool:
        """Whether any worker is running a trial."""
        state = self._session.expire_leases(self._store.look())
        return any(trial.run.lease is not None for trial in state.history.running)

    def before_loss(self, call: Callable[[Sequence[Trial]], None] | None) -> None:
        """Call this with trials that are about to be lost: it may report what they returned."""
        self._session.before_loss = call

    # ── telling ────────────────────────────────────────────────────────────────────────────

    def tell(
        self,
        trial: Trial | int,
        value: float | None = None,
        *,
        cost: Price = None,
        failed: str | None = None,
        killed: bool = False,
        step: int | None = None,
        constraints: Mapping[str, float] | None = None,
    ) -> None:
        """Report the outcome of a trial: a value, a failure or a kill, and its cost.

        With `steps=...`, a trial is a training that runs from `trial.step` to `trial.until`. Report
        its value there, and the cost of this part. Before the last step the trial is then paused,
        and `ask` may return it again.

        Args:
            trial: what `ask` returned, or its number.
            value: the objective value.
            cost: in the first resource of the budget, or {resource: amount}. The cost of a killed
                trial is a lower bound of its full cost. Not needed if the cost is known beforehand.
            failed: why there is no value. The policy avoids such parameters from then on.
            killed: whether the trial was stopped before it had a value.
            step: the step that a training reached; by default `trial.until`. A training that ends
                at an earlier step is done.
            constraints: the measured quantities that the study constrains: {"latency_ms": 12.0}.
        """
        check_step(self._settings, step)
        number = trial.number if isinstance(trial, Trial) else trial
        state, checked = outcome_of(value, failed, killed, f"trial {number}")
        metrics = reported_constraints(state, constraints)
        run = {"metrics": metrics} if metrics else {}
        with self._session.measured():
            self._session.commit(Told(trial, state, checked, cost, failed, run=run, step=step))

    def add(
        self,
        params: Mapping[str, Any],
        value: float | None = None,
        *,
        cost: Price = None,
        failed: str | None = None,
        killed: bool = False,
        running: bool = False,
        constraints: Mapping[str, float] | None = None,
    ) -> Trial:
        """Learn from an external evaluation. It gets a number, but the budget does not pay for it.

        Args:
            value, cost, failed, killed, constraints: as in `tell`.
            running: whether it is still running. It is fantasised until `tell` reports its outcome.
        """
        trial = added_trial(
            self._settings,
            params,
            value,
            cost=cost,
            failed=failed,
            killed=killed,
            running=running,
            constraints=constraints,
        )
        history = self._session.commit(Added((trial,))).history
        return _for_user(history[len(history) - 1])

    def import_trials(self, source: Any, *, values: bool = True, costs: bool = True) -> Imported:
        """Learn from many external evaluations. Evaluations that were imported before are skipped.

        Args:
            source: the path of a CSV or JSON file, a data frame, a list of dicts, or another
                Study or Result.
            values: whether to learn the objective and the failures from them.
            costs: whether to learn the costs from them. The cost of a killed trial is a lower
                bound. Without `values`, the same parameters may be suggested again.
        """
        source = source.history if isinstance(source, Optimizer) else source
        state = self._store.look()
        found = select_new(source, self._settings, state, values=values, costs=costs)
        if found.taken:
            self._session.commit(Added(found.trials, found.prices))
        return found

    # ── editing ────────────────────────────────────────────────────────────────────────────

    def enqueue(self, params: Mapping[str, Any], *, once: bool = False) -> None:
        """Evaluate these parameters next, even if the stopping rule says stop.

        Args:
            params: some or all parameters. The policy sets the others.
            once: skip them if they were enqueued before.
        """
        self._session.commit(Enqueued((QueueEntry(dict(params)),), once))

    def change(self, **settings: Any) -> Mapping[str, tuple[str, str]]:
        """Continue with other settings: `change(budget="+10m", policy=EI())`. A space only grows.

        Returns:
            What changed, as texts: {setting: (before, after)}.
        """
        while True:
            known = len(self._store.look().changes)
            new = with_sources(settings, self._settings)
            event = change_event(self._settings, new, known, self._store.shared)
            try:
                if event.differences:
                    self._session.commit(event)
                return event.differences
            except Outdated:  # another process was faster: apply "+10m" to what it changed
                continue

    # ── looking ────────────────────────────────────────────────────────────────────────────

    @property
    def best(self) -> Trial | None:
        """The best feasible trial so far, by posterior mean if `noisy`; None if there is none."""
        state = self._store.look()
        version = state.version()
        if self._best is None or self._best[0] != version:
            with self._session.clock.measuring() if self.noisy else nullcontext():
                self._best = version, best_trial(self._settings, state.history)
        return self._best[1]

    @property
    def best_params(self) -> dict[str, Any] | None:
        """The parameters of the best trial; None before the first value."""
        return None if self.best is None else dict(self.best.params)

    @property
    def best_value(self) -> float | None:
        """The value of the best trial; None before the first value."""
        return None if self.best is None else self.best.value

    @property
    def seen(self) -> State:
        """The state, up to a fraction of a second old: for callers that look often."""
        return self._session.look_recent()

    @property
    def ledger(self) -> Ledger:
        """What is spent, what is reserved for running trials, and what is left."""
        return self._look().ledger

    @property
    def history(self) -> History:
        """Every trial, in the user's units and direction."""
        return self._store.look().history

    @property
    def trials(self) -> list[Trial]:
        """Every trial, in the order in which they were suggested."""
        return list(self.history)

    def dataframe(self) -> Any:
        """One row per trial; needs pandas."""
        return to_frame(self.history)

    def curves(self) -> Any:
        """One row per trial and reported step; needs pandas."""
        return frame_of(curve_rows(self.history), "curves()")

    @property
    def facts(self) -> tuple[Settings, State]:
        """The settings and the state of one moment, from which all views are made."""
        state = self._store.look()
        return self._settings, state  # in this order, because a look may change the settings

    @property
    def plot(self) -> Plots:
        """The figures: `optimizer.plot.curve()`, `study.plot.pareto(12)`; see `Plots`."""
        return Plots(lambda: self.facts)

    def predict(self, params: Any) -> Any:
        """What the models of all ended trials predict at some parameters; needs pandas.

        Args:
            params: one configuration, a list of them, or a data frame with a column for each
                parameter, named `<name>` or `param_<name>`.

        Returns:
            A data frame with one row per configuration, in the user's units and direction: `mean`
            and `std` of the objective (NaN while there is no model), `success`, the probability
            that the evaluation returns a value, and the 10 %, 50 % and 90 % quantiles of each
            cost that is learnt or known: `cost_usd_p10`, `cost_usd_p50`, `cost_usd_p90`.
        """
        settings, state = self.facts
        rows = predict(settings, state, points_of(params, settings.space)).rows()
        index = params.index if hasattr(params, "to_dict") else None
        return frame_of(rows, "predict()", index)

    def acquisition(self, params: Any) -> Any:
        """The score that the policy maximises to choose the next trial; higher is better.

        The policy compares affordable points that were not tried. Pending trials are fantasised.
        It is a number for one configuration, else an array.

        Args:
            params: as in `predict`.

        Raises:
            InvalidInput: the initial design, or a policy such as Random, chooses without a score.
        """
        settings, state = self.facts
        scores = scores_at(settings, state, points_of(params, settings.space))
        return float(scores[0]) if isinstance(params, Mapping) else scores

    def __repr__(self) -> str:
        return f"Optimizer({', '.join(self.space.names)})\n{status_of(self)}".strip()

    def _repr_html_(self) -> str:
        return study_card("Optimizer", *self.facts)

    # ── stopping ───────────────────────────────────────────────────────────────────────────

    def request_stop(self, because: str = "a stop was requested", *, now: bool = False) -> None:
        """Let no process start another trial.

        Args:
            now: whether workers kill their running trials, which are charged; if not, they finish.
        """
        self._session.commit(StopRequested(StopReason("requested", because), now))


def _for_user(trial: Trial) -> Trial:
    """A trial with a copy of its parameters, which the user may change."""
    return replace(trial, params=dict(trial.params))
