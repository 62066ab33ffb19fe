"""A study: an Optimizer whose store is a database.

Any number of processes may work on one study. Each keeps a copy of the state and reads only what
changed since its last look. Its suggestions are a function of the stored settings and state. So an
interrupted study continues as if it had not been interrupted.

`storage/opening.py` creates and opens studies, `view/study_view.py` shows them, and
`running/engines.py` makes the engine of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from farthing.acquisition.protocols import Policy, StoppingRule
from farthing.core.edits import difference
from farthing.core.events import Dropped, Ended, Event, Repeated, Resumed, Told
from farthing.core.options import AnyBudget, AnyCost, AnySpace, RunOptions
from farthing.core.settings import Settings
from farthing.core.signatures import takes_settings
from farthing.core.suggest import warm_up
from farthing.data.sources import Place, settings_of, with_sources
from farthing.data.tabular import record
from farthing.errors import InvalidInput, Unreachable
from farthing.history import StopReason, Trial
from farthing.optimizer import Optimizer
from farthing.running import Cluster, Engine, Task, find_log
from farthing.running.callbacks import Callback, calling
from farthing.running.engines import Objective, cluster_engine, local_engine
from farthing.running.pool import places_of, run_workers
from farthing.storage import (
    Database,
    DatabaseStore,
    Opened,
    Outbox,
    create_or_open,
    delete_study,
    is_missing,
    logs_folder,
    move_logs,
    names_of,
    open_existing,
    overview,
    rename_study,
)
from farthing.storage.address import secrets_in
from farthing.view.card import study_card
from farthing.view.facts import costs, explanation, trial_of
from farthing.view.report import Summary, report_facts, report_text
from farthing.view.report.page import page
from farthing.view.result import Result, summary
from farthing.view.study_view import (
    changes_of,
    external_code,
    plain_settings,
    result_of,
)
from farthing.view.watched import status_of

__all__ = ["Study"]

OUTAGE = 60.0  # seconds for which a run waits for its database, or the lease if that is longer

Differences = Mapping[str, tuple[str, str]]  # {setting: (old, new)}, as text


class Study(Optimizer):
    """An optimisation in a database. Several processes may work on it within one budget.

        study = Study.create("sqlite:///tune.db", name="svm", space=space, budget="2h")
        study.run(objective, workers=4)
        study.best.params

    You can also call `ask` and `tell` in your own program, from any number of processes.

    Attributes:
        changed: the settings that `create` changed in an existing study: {setting: (old, new)}.
        overridden: the settings that `create` did not apply, because the study was changed since
            they were last given: {setting: (given, current)}.
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
        self.changed: Differences = {}
        self.overridden: Differences = {}
        self._id = id
        self._database = database
        self._stored = DatabaseStore(database, id, known, trust)
        self._attach(settings, self._stored, suggests=suggests)

    # ── creating and opening ───────────────────────────────────────────────────────────────

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
        """Create a study, or resume the study of that name.

        Args:
            url: "sqlite:///tune.db", a file name, or "postgresql://user@host/database".
            name: of the study; a database can have many studies.
            timeout: seconds after which a trial is killed, or "10m".
            retries: how often to retry a trial whose worker disappeared.
            failures_in_a_row: stop after this number of consecutive failures (0: never).
            grace: seconds between SIGTERM and SIGKILL.
            lease: seconds without news of a worker after which its trial is lost.
            rate: what the machine costs, "$3.06/h"; or each worker, "$3.06/h per worker".
            measure: which time of a trial counts: "wall" (seconds) or "cpu" (CPU seconds).
            command: the program to tune, if it is a program; other machines need it too.
            metric: the key of the value in its result.
            cwd: the folder in which trials run; by default the current folder of the worker.
            env: environment variables of trials, {"CUDA_VISIBLE_DEVICES": "{slot}"}, in which
                `{slot}` is the slot of the worker. Other users of the database can read them.
            logs: the folder for the output of trials; by default beside the database.

        The other arguments are those of `Optimizer`. If the study exists, arguments that differ
        from those of the last call are applied, as by `change`, and listed in `changed`. Settings
        that were changed since, but are given as in the last call, keep their changed values. The
        study also keeps its policy if you name none.

        Raises:
            InvalidInput: the study exists and has another direction or metric, or the given space
                does not contain its space.
        """
        place = Place(url, name, keeps=True)
        return cls.from_settings(url, name, settings_of(space, budget, place, **settings))

    @classmethod
    def from_settings(
        cls, url: str | Path, name: str, settings: Settings, *, trust: bool = False
    ) -> Study:
        """Create or resume a study from a `Settings` object; `trust` as in `open`."""
        opened = create_or_open(url, name, settings, trust=trust)
        if not opened.differs:
            return cls._of(opened)
        study = cls._of(opened, trust)
        try:
            study.changed = study.change(**opened.new)
        except InvalidInput as error:
            raise InvalidInput(
                f"There is already a study {name!r} in {opened.database.shown}. {error}"
            ) from None
        assert opened.wanted is not None
        study.overridden = {
            each: texts
            for each, texts in difference(opened.wanted, study._settings).items()
            if each not in study.changed and (each != "policy" or not settings.names_no_policy)
        }
        opened.save_given()
        return study

    @classmethod
    def open(
        cls,
        url: str | Path,
        name: str,
        *,
        policy: Policy | str | None = None,
        stop: StoppingRule | str | None = None,
        cost: AnyCost = None,
        look: bool = False,
        trust: bool = False,
    ) -> Study:
        """Open an existing study.

        Other people may write to a database. So if a policy, a stopping rule or a cost model is not
        part of Farthing, pass it again.

        Args:
            look: only look. Code that is not part of Farthing stays text and is not imported, and
                `ask` is refused. The database is not migrated, and you need no permission to
                write it. You can stop the study, change it and add trials to it.
            trust: import that code by the names in the database. Everyone who can write to the
                database can then run programs as you.
        """
        parts = {"policy": policy, "stop": stop, "cost": cost}
        opened = open_existing(url, name, look=look, trust=trust, **parts)
        return cls._of(opened, trust, suggests=not look)

    @classmethod
    def _of(cls, opened: Opened, trust: bool = False, *, suggests: bool = True) -> Study:
        database, name, id, settings, known, *_ = opened
        return cls(database, name, id, settings, known, trust, suggests)

    @staticmethod
    def names(url: str | Path) -> list[str]:
        """The studies in a database, in order of creation; [] if the file does not exist."""
        return [] if is_missing(url) else names_of(Database(url, look=True))

    @staticmethod
    def overview(url: str | Path) -> list[dict[str, Any]]:
        """The studies in a database: trials by state, best value, ledger and stop reason."""
        return [] if is_missing(url) else overview(Database(url, look=True))

    def __reduce__(self) -> tuple[Any, ...]:
        if secrets_in(self._url):
            raise InvalidInput(
                "This study cannot be pickled: its address contains a password, which whoever gets "
                "the pickle could read. Leave it out of the address, and set PGPASSWORD or write "
                "it to ~/.pgpass on every machine that opens the study."
            )
        known = len(self._store.look().changes)
        options = self._stored.trust, self._stored.patience
        return _reopen, (self._url, self.name, self._id, self._settings, known, *options)

    @property
    def _url(self) -> str:
        """The address of the database, with its password."""
        return self._database.url.render_as_string(hide_password=False)

    def close(self) -> None:
        """Close the connections of this process to the database."""
        self._database.close()

    # ── showing ────────────────────────────────────────────────────────────────────────────

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the study, as plain values."""
        return plain_settings(self._settings)

    @property
    def current_settings(self) -> Settings:
        """The settings of the study, after reading it again."""
        return self.facts[0]

    @property
    def own_code(self) -> dict[str, list[str]]:
        """The names of external code in the settings that was not imported, by part."""
        return external_code(self.current_settings)

    @property
    def changes(self) -> list[dict[str, Any]]:
        """What was changed since the study was created, when, and after how many trials."""
        return changes_of(self._look())

    @property
    def timeout(self) -> float | None:
        """Seconds after which a trial is killed."""
        return self._settings.timeout

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """The parameters of enqueued trials that have not started: see `enqueue` and `rerun`."""
        return [dict(queued.params) for queued in self._look().queue]

    def trial(self, number: int) -> Trial:
        """One trial.

        Raises:
            InvalidInput: there is no trial with that number.
        """
        return trial_of(self.history, number)

    def records(self) -> list[dict[str, Any]]:
        """Everything that is stored of every trial, as plain values."""
        return [record(trial) for trial in self.history]

    @property
    def logs(self) -> Path:
        """The folder with the output of trials, one file each: given, or beside the database.

        Logs of other machines are on those machines: see `record["worker"]` and `record["log"]`.
        """
        return logs_folder(self._database, self.name, self._settings.logs)

    def log_of(self, number: int) -> Path | None:
        """The file with the output of a trial; None if you have no such file in `logs`."""
        return find_log(self.logs, number, self.trial(number).run.log)

    def result(self) -> Result:
        """The best trial, the costs, and why the study ended or whether it should."""
        return self._result(suggests=True)

    def _result(self, *, suggests: bool) -> Result:
        state = self._look()
        return result_of(self, self._settings, state, suggests=suggests)

    def explain(self, number: int) -> dict[str, Any]:
        """Why a trial was suggested and what its outcome was, as plain values."""
        return explanation(self._settings, self._look(), number)

    def costs(self) -> list[dict[str, Any]]:
        """How well costs are predicted, each from all the others, as plain values."""
        return costs(self._settings, self._look())

    def summary(self) -> dict[str, Any]:
        """The progress of the study, as plain values; printed, it is a report."""
        return Summary(
            summary(self.name, self._result(suggests=False)),
            lambda: report_text(report_facts(self.name, *self.facts)),
        )

    def report(self, path: str | Path | None = None) -> str:
        """The HTML report: one page that needs no other files.

        Args:
            path: a file to write it to.
        """
        html = page({self.name: self.facts})
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html

    def _repr_html_(self) -> str:
        return study_card(self.name, *self.facts)

    def __repr__(self) -> str:
        opened = f"Study.open({self._database.shown!r}, {self.name!r})"
        return f"{opened}\n{status_of(self)}".strip()

    # ── editing ────────────────────────────────────────────────────────────────────────────

    def change(self, **settings: Any) -> Differences:
        """Change like an Optimizer. `learn_from` may name other studies of the database."""
        new = with_sources(settings, self.current_settings, Place(self._url, self.name))
        return Optimizer.change(self, **new)

    def rename(self, name: str) -> None:
        """Rename the study, and move its logs. Running workers continue."""
        rename_study(self._database, self._id, name)
        before, self.name = self.logs, name
        if self._settings.logs is None:  # a folder that the user chose stays
            move_logs(self._database, self._id, before, self.logs)

    def delete(self) -> None:
        """Delete the study with all its trials. Its running workers end with an error."""
        delete_study(self._database, self._id)

    def drop(self, number: int) -> None:
        """Ignore a trial from now on. Its cost stays charged; if it is running, it is stopped.

        Its parameters may be suggested again, and its result may be reported again.
        """
        self._session.commit(Dropped(number))

    def rerun(self, number: int) -> None:
        """Evaluate the parameters of a trial again, before all others, as a new trial.

        The models keep the value of the earlier trial, but forget a failure.
        """
        self._session.commit(Repeated(number))

    # ── running ────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        objective: Objective | Task,
        *,
        workers: int | None = None,
        slots: Sequence[int | str] | None = None,
        engine: Cluster | None = None,
        on_change: Callable[[Study], None] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Result:
        """Evaluate trials until the study stops, each in a process of its own.

        A budget in seconds is charged with the wall-clock time of the run, including overhead, but
        not with the time between two runs. A trial is killed when the budget cannot pay for it any
        more. The run first cancels a requested stop, and a stop because of failures.

        Args:
            objective: params -> value, or an Outcome; or a CommandTask. With `steps=...`, a
                function may take its training, too: (params, trial).
            workers: the number of parallel trials; by default 1, the number of slots, or the
                capacity of the cluster.
            slots: one name per worker, such as the numbers of GPUs. A trial finds its slot in
                FARTHING_SLOT, and in `env` as `{slot}`. By default 0, 1, 2, ...
            engine: the cluster that evaluates, `Dask(client)` or `Ray()`; None: this machine.
            on_change: called with the study after each possible change.
            callbacks: each is called with the study and a trial after the trial has ended. To end
                the run, it raises StopIteration or calls `study.request_stop()`. After any other
                error no trial starts, running trials finish, and the error is raised.

        The first Ctrl-C lets running trials finish, the second kills them.

        Raises:
            InvalidInput: the objective cannot start here. No trial was started.
        """
        settings, notify = self._settings, self._notifier(on_change)
        evaluator: Engine
        if engine is None:
            evaluator = local_engine(objective, settings)
        else:
            evaluator = cluster_engine(objective, settings, engine)
            workers = engine.slots if workers is None and slots is None else workers
        places = places_of(workers, slots, self.logs)
        self._prepare_run()
        self.commit(Resumed())
        on_cluster = engine is not None
        with calling(self, callbacks, notify) as (on_event, exit_check):
            reason = run_workers(
                *(self, settings, evaluator, on_event, places),
                threads=on_cluster,
                exit_check=exit_check,
            )
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
        """Add one or more workers to the study, on this machine or another, until it stops.

        Raises:
            Unfit: the first trials of a worker all failed, but those of other workers did not.
        """
        places = places_of(workers, slots, self.logs)
        engine, notify = local_engine(objective, self._settings), self._notifier(on_change)
        self._prepare_run()
        reason = run_workers(self, self._settings, engine, notify, places)
        if not self.is_worked_on():
            self.commit(Ended(reason))
        return reason

    def _prepare_run(self) -> None:
        """Load the models, wait for the database from now on, and report saved results."""
        warm_up(self._settings)  # before workers are forked, and before time is charged
        self._stored.patience = max(OUTAGE, self._settings.lease)
        self._outbox.report_all(partial(Optimizer.commit, self), lambda: self.history)

    def _notifier(self, on_change: Callable[[Study], None] | None) -> Callable[[], None]:
        return (lambda: None) if on_change is None else partial(on_change, self)

    # ── if the database does not answer ────────────────────────────────────────────────────

    @property
    def _outbox(self) -> Outbox:
        return Outbox.of(self._database.location, self.name)

    def renew(self, trial: Trial, **facts: Any) -> str | None:
        """Renew like an Optimizer, but without retries: the trial runs meanwhile."""
        with self._stored.without_retries():
            return Optimizer.renew(self, trial, **facts)

    def commit(self, event: Event) -> None:
        """Commit like an Optimizer. If a result cannot be reported, it is saved on this disk."""
        if not (isinstance(event, Told) and isinstance(event.trial, Trial)):
            Optimizer.commit(self, event)
            return
        try:
            with self._stored.without_retries():
                Optimizer.commit(self, event)
        except Unreachable as error:
            again = partial(Optimizer.commit, self)
            self._outbox.retry(event, again, lambda: self.history, error)


def _reopen(
    url: str, name: str, id: int, settings: Settings, known: int, trust: bool, patience: float
) -> Study:
    study = Study(Database(url), name, id, settings, known, trust)
    study._stored.patience = patience
    return study
