"""A study: an Optimizer whose memory is a database.

Any number of processes may work on one study. Each holds a copy of the state and reads only what
changed since it last looked. What it proposes is a function of the stored settings and state, so a
study that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack
from urllib.parse import quote

from farthing.acquisition.protocols import Policy, StoppingRule
from farthing.budget.ledger import Ledger
from farthing.core.edits import difference
from farthing.core.events import Dropped, Ended, Event, Repeated, Resumed, Told
from farthing.core.settings import (
    AnyBudget,
    AnySpace,
    Learner,
    RunOptions,
    Settings,
    takes_settings,
)
from farthing.core.state import State
from farthing.core.suggest import warm_up
from farthing.data.tabular import record
from farthing.errors import InvalidInput, StorageError, Unreachable
from farthing.history import NOT_ENDED, Outcome, StopReason, Trial
from farthing.optimizer import Optimizer
from farthing.running import CallableTask, Cluster, ProcessGroup, Task, find_log
from farthing.running.process_pool import check_start, places_of, work
from farthing.running.thread_pool import run_thread_pool
from farthing.storage import (
    Database,
    DatabaseStore,
    check_no_secret,
    create_study,
    delete_study,
    described,
    differing,
    external_in,
    find_study,
    folder_of,
    from_described,
    is_missing,
    keep_given,
    kept_meanwhile,
    move_logs,
    names_of,
    not_given,
    overview,
    printable,
    rename_study,
    restored,
    tell_kept,
    to_text,
)
from farthing.view.formatting import best_line, counted, spent
from farthing.view.plots import Plots
from farthing.view.report import Summary, card, in_words, page, report_facts
from farthing.view.result import Result, costs, explanation, summary, trial_of

__all__ = ["Study"]

OUTAGE = 60.0  # seconds, or the lease if that is longer, that a run waits for its database

Objective = Callable[[dict[str, Any]], float | Outcome]
Words = Mapping[str, tuple[str, str]]  # what was changed, in words


class Study(Optimizer):
    """Choose evaluations, from any number of processes, and keep a budget between them.

        study = Study.create("sqlite:///tune.db", name="svm", space=space, budget="2h")
        study.run(objective, workers=4)
        study.best.params

    Or `ask` and `tell` in a program of your own, in as many processes as you like.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        id: int,
        settings: Settings,
        known: int = 0,
        trust: bool = False,
        suggests: bool = True,
    ) -> None:
        """Not for users: see `create` and `open`."""
        self.name = name
        self.changed: Words = {}  # by the call that opened it: as it was, as it is
        self.overridden: Words = {}  # though it gave what held before a change: as given, as it is
        self._id = id
        self._database = database
        self._stored = DatabaseStore(database, id, known, trust)
        self._remember(settings, self._stored, suggests=suggests)

    # ── making and finding ─────────────────────────────────────────────────────────────────

    @classmethod
    @takes_settings(RunOptions)
    def create(
        cls,
        url: str | Path,
        *,
        name: str,
        space: AnySpace,
        budget: AnyBudget = None,
        **settings: Unpack[RunOptions],
    ) -> Study:
        """Make a study, or go on with the one of that name.

        Args:
            url: "sqlite:///tune.db", a file name, or "postgresql://user@host/database".
            name: of the study; a database holds many.
            timeout: seconds after which a trial is killed, or "10m".
            retries: how many times a trial is tried again whose worker disappeared.
            failures_in_a_row: so many end a run; 0: none do.
            grace: seconds between SIGTERM and SIGKILL.
            lease: seconds after which a trial is lost whose worker was not heard of.
            rate: what the machine costs, "$3.06/h"; or each worker, "$3.06/h per worker".
            measure: whether the seconds ("wall") or the CPU seconds ("cpu") of a trial count.
            command: the program that is tuned, where it is one, for workers elsewhere.
            metric: the key of the value in its result.
            cwd: the folder in which trials run; by default that of whoever runs them.
            env: variables trials are given, {"CUDA_VISIBLE_DEVICES": "{slot}"}: `{slot}` is the
                slot of the worker. They are kept in the database, where others may read them.
            logs: the folder that keeps what trials print; by default beside the database.

        The other arguments are the Optimizer's. What is given otherwise than the last time is
        changed, as by `change`, and `changed` says it; what was changed meanwhile, and is given as
        the last time, stays as it is.

        Raises:
            InvalidInput: there is a study of that name with another direction or metric, or with a
                space that this one does not hold.
        """
        return cls.from_settings(url, name, Settings.of(space, budget, **settings))

    @classmethod
    def from_settings(
        cls, url: str | Path, name: str, settings: Settings, *, trust: bool = False
    ) -> Study:
        """Make a study, or go on with it, from settings made already; `trust` as in `open`."""
        if not isinstance(name, str) or not name.strip():
            raise InvalidInput(f"name={name!r}: expected what to call the study, such as 'svm'.")
        check_no_secret(url, text := to_text(described(settings)))
        database = Database(url)
        found = create_study(database, name, text, Ledger.of(settings.budget))
        if found.settings == text and found.given in (None, text):
            return cls(database, name, found.id, settings, found.changes)
        with database.understanding():
            there = restored(found.settings, settings, trust=trust)
        study = cls(database, name, found.id, there, found.changes, trust)
        last = found.given or found.settings
        other = differing(last, text)
        try:
            study.changed = study.change(**{each: getattr(settings, each) for each in other})
        except InvalidInput as error:
            raise InvalidInput(
                f"There is already a study {name!r} in {database.shown}. {error}"
            ) from None
        given = difference(settings, study._settings)
        study.overridden = {
            each: words for each, words in given.items() if each not in study.changed
        }
        if last != text:
            keep_given(database, found.id, text)
        return study

    @classmethod
    def open(
        cls,
        url: str | Path,
        name: str,
        *,
        policy: Policy | None = None,
        stop: StoppingRule | None = None,
        cost: Learner | Mapping[str, Learner] | None = None,
        look: bool = False,
        trust: bool = False,
    ) -> Study:
        """Go on with a study.

        A database may be written by others: a policy, a rule or a cost that is not Farthing's own
        has to be given again.

        Args:
            look: only look at it: such parts are texts, nothing of them is imported, and nothing
                can be asked. It can be stopped, changed and added to.
            trust: import them by the names in the database; whoever can write it can then run
                programs as you.
        """
        if is_missing(url):
            raise InvalidInput(
                f"There is no study {name!r} in {printable(url)}: there is no such file."
            )
        database = Database(url)
        found = find_study(database, name)
        with database.understanding():
            settings = restored(found.settings, trust=trust, policy=policy, stop=stop, cost=cost)
        if not look:
            for part, unseen in settings.unseen.items():
                raise not_given(part, unseen)
        return cls(database, name, found.id, settings, found.changes, trust, not look)

    @staticmethod
    def names(url: str | Path) -> list[str]:
        """The studies in a database, in the order of their making; none where there is none."""
        return [] if is_missing(url) else names_of(Database(url))

    @staticmethod
    def overview(url: str | Path) -> list[dict[str, Any]]:
        """The studies in a database: their trials by state, best value, ledger and ending."""
        return [] if is_missing(url) else overview(Database(url))

    def rename(self, name: str) -> None:
        """Call it otherwise; whoever works on it goes on. What was printed moves with it."""
        rename_study(self._database, self._id, name)
        before, self.name = self.logs, name
        if self._settings.logs is None:  # a folder that was given stays as it is
            move_logs(self._database, self._id, before, self.logs)

    def delete(self) -> None:
        """Delete it with all its trials. Workers that are running it end with an error."""
        delete_study(self._database, self._id)

    def __reduce__(self) -> tuple[Any, ...]:
        url = self._database.url.render_as_string(hide_password=False)
        known = len(self._memory.look().changes)
        trust = self._stored.trust, self._stored.patience
        return _reopen, (url, self.name, self._id, self._settings, known, *trust)

    def __repr__(self) -> str:
        opened = f"Study.open({self._database.shown!r}, {self.name!r})"
        try:  # of all things, to look must not fail
            facts = self._facts()
        except StorageError:
            return opened
        return f"{opened}\n{facts['trials']}; {facts['spent']} spent; best {facts['best']}"

    def _facts(self) -> dict[str, str]:
        state, best = self._look(), self.best
        return {
            "trials": counted(state.history) or "no trial yet",
            "spent": spent(state.ledger) or "nothing",
            "best": "none yet" if best is None else best_line(best),
        }

    def close(self) -> None:
        """Close the connections of this process to the database."""
        self._database.close()

    # ── looking ────────────────────────────────────────────────────────────────────────────

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the study was made with, as plain values."""
        return from_described(to_text(described(self._settings)))

    @property
    def own_code(self) -> dict[str, list[str]]:
        """What it is made with that is not Farthing's own and was not imported: names by part."""
        parts = self.current_settings.unseen.items()
        return {part: [str(n) for n in external_in(unseen.described)] for part, unseen in parts}

    @property
    def current_settings(self) -> Settings:
        """What the study is made with, as it is now."""
        self._look()
        return self._settings

    @property
    def changes(self) -> list[dict[str, Any]]:
        """What was changed since it was made, when, and after how many trials, as plain values."""
        return [
            {"at": change.at, "trials": change.trials, "said": dict(change.said)}
            for change in self._look().changes
        ]

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """What was asked for and not begun yet: `enqueue`, `rerun`."""
        return [dict(wanted.params) for wanted in self._look().queue]

    @property
    def timeout(self) -> float | None:
        """Seconds after which a trial is killed."""
        return self._settings.timeout

    def records(self) -> list[dict[str, Any]]:
        """Everything that is stored of every trial, as plain values."""
        return [record(trial) for trial in self.history]

    @property
    def logs(self) -> Path:
        """The folder that keeps what trials print, in a file each: beside the database, or given.

        Those of another machine are on that machine: see `record["worker"]` and `record["log"]`.
        """
        beside = self._database.url.database if self._database.is_sqlite else "farthing"
        folder = Path(self._settings.logs or f"{beside}-logs")
        # A name may hold whatever a path may not.
        name = quote(self.name, safe=" ")
        return (folder / (name if name.strip(".") else f"study{name}")).absolute()

    def trial(self, number: int) -> Trial:
        """One trial.

        Raises:
            InvalidInput: there is none of that number.
        """
        return trial_of(self.history, number)

    def log_of(self, number: int) -> Path | None:
        """The file with what a trial printed; None if there is none of yours in `logs`."""
        return find_log(self.logs, number, self.trial(number).run.log)

    def result(self) -> Result:
        """What was found, what was paid, and why it ended, or whether it should."""
        return self._result(suggests=True)

    def _result(self, *, suggests: bool) -> Result:
        state = self._look()
        reason = state.stop_reason or state.halted
        if reason is None:
            judged = (suggests or state.ledger.used_up) and not self._settings.unseen
            verdict = self.verdict if judged else None
            reason = verdict.reason if verdict and verdict.stop else NOT_ENDED
        return Result.of(self._settings, self.best, reason, state)

    # ── amending ───────────────────────────────────────────────────────────────────────────

    def drop(self, number: int) -> None:
        """Learn nothing any more from a trial. What it cost is paid; if it is running, it ends.

        Its parameters may be proposed again, and it may be told again.
        """
        self._commit(Dropped(number), silent=True)

    def rerun(self, number: int) -> None:
        """Evaluate the parameters of a trial again, under a new number, before anything else.

        What a value has taught stays, and that it failed does not.
        """
        self._commit(Repeated(number), silent=True)

    def dataframe(self) -> Any:
        """One row per trial; needs pandas."""
        return self._result(suggests=False).dataframe()

    def summary(self) -> dict[str, Any]:
        """What was spent, what runs, how far it has come: plain values; printed, the report."""
        return Summary(
            summary(self.name, self._result(suggests=False)),
            lambda: in_words(report_facts(self.name, *self.facts)),
        )

    def report(self, path: str | Path | None = None) -> str:
        """One HTML page with everything to be seen of it, which needs nothing else to be shown.

        Args:
            path: a file to write it to.
        """
        made = page({self.name: self.facts})
        if path is not None:
            Path(path).write_text(made, encoding="utf-8")
        return made

    def _repr_html_(self) -> str:
        return card(self.name, *self.facts)

    @property
    def facts(self) -> tuple[Settings, State]:
        """The settings and what is known, of which everything is made that is shown."""
        state = self._memory.look()
        return self._settings, state  # as they are then, whoever changed them

    def explain(self, number: int) -> dict[str, Any]:
        """Why a trial was chosen, and what came of it, as plain values."""
        return explanation(self._settings, self._look(), number)

    def costs(self) -> list[dict[str, Any]]:
        """How well costs are predicted, every bill by the others, as plain values."""
        return costs(self._settings, self._look())

    @property
    def plot(self) -> Plots:
        """Its figures: `study.plot.curve()`, `study.plot.pareto(12)`; see `farthing.view.plots`."""
        return Plots(lambda: self.facts)

    # ── running ────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        objective: Objective | Task,
        *,
        workers: int | None = None,
        slots: Sequence[int | str] | None = None,
        engine: Cluster | None = None,
        on_change: Callable[[Study], None] | None = None,
    ) -> Result:
        """Evaluate until it is time to stop; every trial in a process of its own.

        With a budget in seconds the clock runs while this does: the time Farthing thinks is charged
        to it, the time until the next `run` is not. A trial that the budget cannot pay any longer
        is killed. A stop that was requested, or came of failures, is taken back first.

        Args:
            objective: params -> value, or an Outcome; or a CommandTask.
            workers: how many trials at the same time; 1, one for each slot, or what a cluster has.
            slots: what belongs to each worker, such as the numbers of GPUs: a trial finds its own
                in FARTHING_SLOT, and in `env` as `{slot}`. By default 0, 1, 2, ...
            engine: the cluster that evaluates, `Dask(client)` or `Ray()`; None: this machine.
            on_change: called with the study whenever something may have happened.

        The first Ctrl-C lets running trials finish, the second kills them.

        Raises:
            InvalidInput: the command could not be started here; nothing was asked.
        """
        settings, notify = self._settings, self._notifier(on_change)
        if engine is None:
            places = places_of(workers, slots, self.logs)
            here = self._engine(objective)
            self.commit(Resumed())
            reason = work(self, settings, here, notify, places)
        else:
            there = engine.evaluating(
                _task(objective),
                timeout=settings.timeout,
                grace=settings.grace,
                lease=settings.lease,
            )
            if workers is None and slots is None:
                workers = engine.slots
            places = places_of(workers, slots, self.logs)
            self._be_patient()
            self.commit(Resumed())
            reason = run_thread_pool(self, settings, there, notify, places)
        self.commit(Ended(reason))
        return self.result()

    def work(
        self,
        objective: Objective | Task,
        *,
        workers: int | None = None,
        slots: Sequence[int | str] | None = None,
        on_change: Callable[[Study], None] | None = None,
    ) -> StopReason:
        """Be one worker, or several, among others, of this machine or of another, until it stops.

        Raises:
            Unfit: its first trials all failed, while those of others did not.
        """
        places = places_of(workers, slots, self.logs)
        engine, notify = self._engine(objective), self._notifier(on_change)
        reason = work(self, self._settings, engine, notify, places)
        if not self.is_worked_on():
            self.commit(Ended(reason))
        return reason

    # ── when the database does not answer ──────────────────────────────────────────────────

    def renew(self, trial: Trial, **said: Any) -> str | None:
        """As an Optimizer does, at once or not at all: the trial goes on meanwhile."""
        with self._stored.impatient():
            return Optimizer.renew(self, trial, **said)

    def commit(self, event: Event) -> None:
        """As an Optimizer does; a result that cannot be told now waits on this machine's disk."""
        if not (isinstance(event, Told) and isinstance(event.trial, Trial)):
            Optimizer.commit(self, event)
            return
        try:
            with self._stored.impatient():
                Optimizer.commit(self, event)
        except Unreachable as error:
            with kept_meanwhile(self._untold, event, error):
                self._tell_again(event)

    def _tell_again(self, told: Told) -> None:
        """What may have been told already, by the message that was not answered."""
        number = told.trial.number if isinstance(told.trial, Trial) else told.trial
        try:
            Optimizer.commit(self, told)
        except InvalidInput:
            if self.history[number].state in ("running", "lost"):
                raise
        except Unreachable as error:
            raise Unreachable(
                f"{error} The result of trial {number} is kept on this machine: the next run of "
                "the study here tells it."
            ) from error

    def _be_patient(self) -> None:
        """A run can think, waits for its database, and tells what an earlier one could not."""
        warm_up(self._settings)  # before workers are forked, and on nobody's clock
        self._stored.patience = max(OUTAGE, self._settings.lease)
        tell_kept(self._untold, self.history, self._tell_again)

    @property
    def _untold(self) -> Path:
        return folder_of(self._database.place, self.name)

    def _engine(self, objective: Any) -> ProcessGroup:
        task = _task(objective)
        check_start(task, self._settings)
        self._be_patient()
        return ProcessGroup(task, timeout=self._settings.timeout, grace=self._settings.grace)

    def _notifier(self, on_change: Callable[[Study], None] | None) -> Callable[[], None]:
        return (lambda: None) if on_change is None else partial(on_change, self)


def _task(objective: Any) -> Task:
    return objective if hasattr(objective, "prepare") else CallableTask(objective)


def _reopen(
    url: str, name: str, id: int, settings: Settings, known: int, trust: bool, patience: float
) -> Study:
    study = Study(Database(url), name, id, settings, known, trust)
    study._stored.patience = patience
    return study
