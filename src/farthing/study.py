"""A study: ask and tell whose memory is a database.

Any number of processes may work on one study. Each holds a copy of the trials and reads only what
changed since it last looked. What it proposes is a function of the stored settings, trials and
ledger, so a study that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from farthing.clerk import Clerk
from farthing.decision import Policy, StoppingRule, Verdict
from farthing.errors import InvalidInput
from farthing.evaluations import Evaluation, read_evaluations
from farthing.history import History, Outcome, Trial
from farthing.ledger import Budget, Ledger
from farthing.loop import Result
from farthing.plan import (
    Direction,
    Learner,
    Price,
    added_trial,
    best_trial,
    bill,
    one_thread,
)
from farthing.running import CallableTask, Task
from farthing.space import Parameter, Space
from farthing.storage import (
    Database,
    PricePoint,
    Settings,
    create_book,
    difference,
    find_book,
    make_settings,
    names_of,
    records,
    restore_settings,
    settings_text,
)
from farthing.worker import Terms, run_workers, work

__all__ = ["Study"]

Objective = Callable[[dict[str, Any]], float | Outcome]


class Study:
    """Choose evaluations, from any number of processes, and keep a budget between them.

        study = Study.create("sqlite:///tune.db", name="svm", space=space, budget="2h")
        study.run(objective, workers=4)
        study.best.params

    Or `ask` and `tell` in a program of your own, in as many processes as you like.
    """

    def __init__(self, database: Database, name: str, settings: Settings) -> None:
        """Not for users: see `create` and `open`."""
        self.name = name
        self._clerk = Clerk(database, name, settings)
        self._database = database
        self._settings = settings
        self._mirror = self._clerk.mirror
        self._best: tuple[tuple[int, ...], Trial | None] | None = None
        self._mirror.look()

    # ── making and finding ─────────────────────────────────────────────────────────────────

    @classmethod
    def create(
        cls,
        url: str | Path,
        *,
        name: str,
        space: Space | Mapping[str, Parameter],
        budget: str | float | Mapping[str, float] | Budget | None = None,
        policy: Policy | None = None,
        stop: StoppingRule | None = None,
        cost: Learner | Mapping[str, Learner] | None = None,
        worth: float | str | None = None,
        direction: Direction = "minimize",
        noisy: bool = False,
        seed: int = 0,
        timeout: float | str | None = None,
        retries: int = 0,
    ) -> Study:
        """Make a study, or go on with the one of that name if its settings are the same.

        Args:
            url: "sqlite:///tune.db", a file name, or "postgresql://user@host/database".
            name: of the study; a database holds many.
            timeout: seconds after which a trial is killed, or "10m".
            retries: how many times a trial is tried again whose worker disappeared.

        The other arguments are the Optimizer's.

        Raises:
            InvalidInput: there is a study of that name with other settings.
        """
        if not isinstance(name, str) or not name.strip():
            raise InvalidInput(f"name={name!r}: expected what to call the study, such as 'svm'.")
        settings = make_settings(
            space,
            budget,
            policy=policy,
            stop=stop,
            cost=cost,
            worth=worth,
            direction=direction,
            noisy=noisy,
            seed=seed,
            timeout=timeout,
            retries=retries,
        )
        database = Database(url)
        ledger = Ledger.of(settings.plan.budget)
        if not create_book(database, name, settings_text(settings), ledger):
            differs = difference(find_book(database, name).settings, settings)
            if differs is not None:
                raise InvalidInput(
                    f"There is already a study {name!r} in {database.shown}, and {differs}. "
                    "Use another name, or open it with the settings it has."
                )
        return cls(database, name, settings)

    @classmethod
    def open(
        cls,
        url: str | Path,
        name: str,
        *,
        policy: Policy | None = None,
        stop: StoppingRule | None = None,
        cost: Learner | Mapping[str, Learner] | None = None,
    ) -> Study:
        """Go on with a study; parts that cannot be imported here have to be given again."""
        database = Database(url)
        stored = find_book(database, name).settings
        return cls(database, name, restore_settings(stored, policy=policy, stop=stop, cost=cost))

    @staticmethod
    def names(url: str | Path) -> list[str]:
        """The studies in a database, in the order of their making."""
        return names_of(Database(url))

    def __reduce__(self) -> tuple[Any, ...]:
        url = self._database.url.render_as_string(hide_password=False)
        return _reopen, (url, self.name, self._settings)

    def __repr__(self) -> str:
        return f"Study.open({self._database.shown!r}, {self.name!r})"

    def close(self) -> None:
        """Close the connections of this process to the database."""
        self._database.close()

    # ── asking and telling ─────────────────────────────────────────────────────────────────

    @property
    def verdict(self) -> Verdict:
        """Whether to stop now, and why."""
        return self._clerk.verdict

    def ask(self, *, anyway: bool = False) -> Trial:
        """The next trial; what is running anywhere takes part as fantasies.

        Args:
            anyway: ask although a rule said stop; the ledger cannot be overruled.

        Raises:
            Stopped: the verdict is to stop.
        """
        return self._clerk.ask(anyway=anyway)

    def tell(
        self,
        trial: Trial | int,
        value: float | None = None,
        *,
        cost: Price = None,
        failed: str | None = None,
        killed: bool = False,
    ) -> None:
        """What became of a trial, from any process; arguments as those of `Optimizer.tell`."""
        self._clerk.tell(trial, value, cost=cost, failed=failed, killed=killed)

    def request_stop(self, *, now: bool = False) -> None:
        """Start nothing any more, in whatever process.

        Args:
            now: whether workers kill what is running, and charge it; else it is let finish.
        """
        self._clerk.request_stop(now=now)

    # ── evaluations made elsewhere ─────────────────────────────────────────────────────────

    def add(self, params: Mapping[str, Any], value: float, *, cost: Price = None) -> Trial:
        """Learn from an evaluation made elsewhere; it takes a number, but nothing of the budget."""
        plan = self._settings.plan
        with self._mirror.changing() as change:
            number, required = change.before.trials, plan.needs_cost
            trial = added_trial(plan, number, params, value, cost=cost, cost_required=required)
            change.insert([trial])
            change.book = replace(change.book, trials=number + 1)
        return replace(trial, params=dict(trial.params))

    def import_trials(self, source: Any, *, values: bool = True, costs: bool = True) -> int:
        """Learn from many evaluations made elsewhere; how many were taken in.

        Args:
            source: the path of a CSV file, a data frame, a list of dicts, or another Study.
            values: learn the objective from them.
            costs: learn the costs from them. Without `values`, that is all that is learnt, and
                the same parameters may be proposed again.
        """
        if not (values or costs):
            raise InvalidInput("values=False and costs=False: nothing would be imported.")
        plan = self._settings.plan
        if isinstance(source, Study):
            source._mirror.look()
            found = [_evaluation_of(trial) for trial in source.history]
        else:
            found = list(read_evaluations(source, plan.space, plan.priced[0]))
        added: list[Trial] = []
        prices: list[PricePoint] = []
        with self._mirror.changing() as change:
            number = change.before.trials
            for params, value, cost in found:
                cost = {r: a for r, a in cost.items() if r in plan.priced} if costs else {}
                if values and value is not None:
                    added.append(
                        added_trial(
                            plan,
                            number + len(added),
                            params,
                            value,
                            cost=cost,
                            cost_required=False,
                        )
                    )
                elif cost:
                    x = plan.space.encode(params)
                    prices.append(PricePoint(x, bill(plan, cost, x, required=False)))
            if added:
                change.insert(added)
            if prices:
                change.insert_prices(prices)
            change.book = replace(
                change.book,
                trials=number + len(added),
                prices=change.before.prices + len(prices),
            )
        return len(added) + len(prices)

    # ── looking ────────────────────────────────────────────────────────────────────────────

    @property
    def best(self) -> Trial | None:
        """The best trial so far, by posterior mean if `noisy`; None before the first value."""
        self._mirror.look()
        key = self._clerk.key()
        if self._best is None or self._best[0] != key:
            with one_thread():
                plan, history = self._settings.plan, self._mirror.history
                self._best = key, best_trial(plan, history, self._mirror.book.ledger)
        return self._best[1]

    @property
    def ledger(self) -> Ledger:
        """What was spent, what is held for running trials, what is left."""
        self._mirror.look()
        return self._mirror.book.ledger

    @property
    def history(self) -> History:
        """Every trial, in the user's units and direction."""
        self._mirror.look()
        return self._mirror.history

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the study was made with, as plain values."""
        return self._settings.described

    @property
    def space(self) -> Space:
        """The space that is searched."""
        return self._settings.plan.space

    @property
    def timeout(self) -> float | None:
        """Seconds after which a trial is killed."""
        return self._settings.timeout

    def records(self) -> list[dict[str, Any]]:
        """Everything that is stored of every trial, as plain values."""
        with self._database.reading() as connection:
            return records(connection, self._mirror.book.id)

    def result(self) -> Result:
        """What was found, what was paid, and why it ended."""
        best, book = self.best, self._mirror.book
        reason = book.stop_reason or book.halted
        if reason is None:
            verdict = self.verdict
            reason = verdict.because if verdict.stop else "it has not ended"
        return Result(best, reason, book.ledger, self._mirror.history)

    def dataframe(self) -> Any:
        """One row per trial; needs pandas."""
        frame = self.result().dataframe()
        kept = ("attempt", "worker", "think_s", "queue_s", "run_s", "cpu_s", "peak_mb")
        stored = self.records()
        for name in kept:
            frame[name] = [record[name] for record in stored]
        return frame

    # ── running ────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        objective: Objective | Task,
        *,
        workers: int = 1,
        terms: Terms | None = None,
        progress: Callable[[Study], None] | None = None,
    ) -> Result:
        """Evaluate until it is time to stop; every trial in a process of its own.

        With a budget in seconds the clock runs while this does: the time Farthing thinks is charged
        to it, the time until the next `run` is not. A trial that the budget cannot pay any longer
        is killed. A stop that was requested, or came of failures, is taken back first.

        Args:
            objective: params -> value, or an Outcome; or a CommandTask.
            workers: how many trials at the same time, on this machine.
            terms: how trials are run; a timeout is the study's unless it has its own.
            progress: called with the study whenever something may have happened.
        """
        on_change = None if progress is None else partial(progress, self)
        task, terms = _task(objective), self._with_timeout(terms)
        run_workers(self._clerk, task, terms, workers=workers, on_change=on_change)
        return self.result()

    def work(
        self,
        objective: Objective | Task,
        *,
        terms: Terms | None = None,
        progress: Callable[[Study], None] | None = None,
    ) -> str:
        """Be one worker among others, of this machine or of another, until the study stops."""
        on_change = None if progress is None else partial(progress, self)
        task, terms = _task(objective), self._with_timeout(terms)
        reason = work(self._clerk, task, terms, on_change=on_change)
        if not self._clerk.is_worked_on():
            self._clerk.end(reason)
        return reason

    def _with_timeout(self, terms: Terms | None) -> Terms:
        terms = terms or Terms()
        return replace(terms, timeout=self.timeout) if terms.timeout is None else terms


def _task(objective: Any) -> Task:
    task: Task = objective if hasattr(objective, "prepare") else CallableTask(objective)
    return task


def _reopen(url: str, name: str, settings: Settings) -> Study:
    return Study(Database(url), name, settings)


def _evaluation_of(trial: Trial) -> Evaluation:
    """A trial of another study; what a killed one cost is not known."""
    cost = {} if trial.state in ("killed", "running", "lost") else dict(trial.cost)
    return Evaluation(dict(trial.params), trial.value, cost)
