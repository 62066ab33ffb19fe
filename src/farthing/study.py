"""A study: an Optimizer whose memory is a database.

Any number of processes may work on one study. Each holds a copy of the state and reads only what
changed since it last looked. What it proposes is a function of the stored settings and state, so a
study that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from farthing.decision import Policy, StoppingRule
from farthing.errors import InvalidInput
from farthing.facts import Result, costs, explanation, summary
from farthing.history import Outcome
from farthing.ledger import Ledger
from farthing.optimizer import Optimizer
from farthing.running import CallableTask, ProcessGroup, Task
from farthing.settings import AnyBudget, AnySpace, Conditions, Learner, Settings, takes_settings
from farthing.state import Ended
from farthing.storage import (
    Database,
    DatabaseMemory,
    changed,
    create_study,
    described,
    difference,
    find_study,
    from_described,
    names_of,
    replace_settings,
    restored,
    to_text,
)
from farthing.tabular import record
from farthing.worker import run_workers, work

__all__ = ["Study"]

Objective = Callable[[dict[str, Any]], float | Outcome]


class Study(Optimizer):
    """Choose evaluations, from any number of processes, and keep a budget between them.

        study = Study.create("sqlite:///tune.db", name="svm", space=space, budget="2h")
        study.run(objective, workers=4)
        study.best.params

    Or `ask` and `tell` in a program of your own, in as many processes as you like.
    """

    def __init__(self, database: Database, name: str, id: int, settings: Settings) -> None:
        """Not for users: see `create` and `open`."""
        self.name = name
        self.changed: Mapping[str, Any] = {}  # how trials were run until now, where it differs
        self._id = id
        self._database = database
        self._remember(settings, DatabaseMemory(database, id))

    # ── making and finding ─────────────────────────────────────────────────────────────────

    @classmethod
    @takes_settings(Conditions)
    def create(
        cls,
        url: str | Path,
        *,
        name: str,
        space: AnySpace,
        budget: AnyBudget = None,
        **settings: Unpack[Conditions],
    ) -> Study:
        """Make a study, or go on with the one of that name if its settings are the same.

        Args:
            url: "sqlite:///tune.db", a file name, or "postgresql://user@host/database".
            name: of the study; a database holds many.
            timeout: seconds after which a trial is killed, or "10m".
            retries: how many times a trial is tried again whose worker disappeared.
            failures_in_a_row: so many end a run; math.inf: none do.
            grace: seconds between SIGTERM and SIGKILL.
            lease: seconds after which a trial is lost whose worker was not heard of.
            rate: what the machine costs, "$3.06/h".
            measure: whether the seconds ("wall") or the CPU seconds ("cpu") of a trial count.
            command: the program that is tuned, where it is one, for workers elsewhere.
            metric: the key of the value in its result.

        The other arguments are the Optimizer's. How trials are run (all from `failures_in_a_row`
        on) may be otherwise when it is made again, and is then kept.

        Raises:
            InvalidInput: there is a study of that name with other settings.
        """
        return cls.made(url, name, Settings.of(space, budget, **settings))

    @classmethod
    def made(cls, url: str | Path, name: str, settings: Settings) -> Study:
        """Make a study, or go on with it, from settings that are made already."""
        if not isinstance(name, str) or not name.strip():
            raise InvalidInput(f"name={name!r}: expected what to call the study, such as 'svm'.")
        text = to_text(described(settings))
        database = Database(url)
        found = create_study(database, name, text, Ledger.of(settings.budget))
        if found.settings != text:
            differs = difference(found.settings, settings)
            if differs is not None:
                raise InvalidInput(
                    f"There is already a study {name!r} in {database.shown}, and {differs}. "
                    "Use another name, or open it with the settings it has."
                )
            replace_settings(database, found.id, text)
        study = cls(database, name, found.id, settings)
        study.changed = changed(found.settings, text)
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
    ) -> Study:
        """Go on with a study; parts that cannot be imported here have to be given again."""
        database = Database(url)
        found = find_study(database, name)
        settings = restored(found.settings, policy=policy, stop=stop, cost=cost)
        return cls(database, name, found.id, settings)

    @staticmethod
    def names(url: str | Path) -> list[str]:
        """The studies in a database, in the order of their making."""
        return names_of(Database(url))

    def __reduce__(self) -> tuple[Any, ...]:
        url = self._database.url.render_as_string(hide_password=False)
        return _reopen, (url, self.name, self._id, self._settings)

    def __repr__(self) -> str:
        return f"Study.open({self._database.shown!r}, {self.name!r})"

    def close(self) -> None:
        """Close the connections of this process to the database."""
        self._database.close()

    # ── looking ────────────────────────────────────────────────────────────────────────────

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the study was made with, as plain values."""
        return from_described(to_text(described(self._settings)))

    @property
    def timeout(self) -> float | None:
        """Seconds after which a trial is killed."""
        return self._settings.timeout

    def records(self) -> list[dict[str, Any]]:
        """Everything that is stored of every trial, as plain values."""
        return [record(trial) for trial in self.history]

    def result(self) -> Result:
        """What was found, what was paid, and why it ended."""
        state = self._look()
        reason = state.stop_reason or state.halted
        if reason is None:
            verdict = self.verdict
            reason = verdict.because if verdict.stop else "it has not ended"
        return Result(self.best, reason, state.ledger, state.history)

    def dataframe(self) -> Any:
        """One row per trial; needs pandas."""
        return self.result().dataframe()

    def summary(self) -> dict[str, Any]:
        """What was spent, what is running, and how far it has come, as plain values."""
        return summary(self.name, self.result())

    def explain(self, number: int) -> dict[str, Any]:
        """Why a trial was chosen, and what came of it, as plain values."""
        return explanation(self._settings, self._look(), number)

    def costs(self) -> list[dict[str, Any]]:
        """How well costs are predicted, every bill by the others, as plain values."""
        return costs(self._settings, self._look())

    # ── running ────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        objective: Objective | Task,
        *,
        workers: int = 1,
        progress: Callable[[Study], None] | None = None,
    ) -> Result:
        """Evaluate until it is time to stop; every trial in a process of its own.

        With a budget in seconds the clock runs while this does: the time Farthing thinks is charged
        to it, the time until the next `run` is not. A trial that the budget cannot pay any longer
        is killed. A stop that was requested, or came of failures, is taken back first.

        Args:
            objective: params -> value, or an Outcome; or a CommandTask.
            workers: how many trials at the same time, on this machine.
            progress: called with the study whenever something may have happened.
        """
        engine, on_change = self._engine(objective), self._notice(progress)
        run_workers(self, self._settings, engine, on_change, workers)
        return self.result()

    def work(
        self,
        objective: Objective | Task,
        *,
        progress: Callable[[Study], None] | None = None,
    ) -> str:
        """Be one worker among others, of this machine or of another, until the study stops."""
        engine, on_change = self._engine(objective), self._notice(progress)
        reason = work(self, self._settings, engine, on_change)
        if not self.is_worked_on():
            self.commit(Ended(reason))
        return reason

    def _engine(self, objective: Any) -> ProcessGroup:
        task = objective if hasattr(objective, "prepare") else CallableTask(objective)
        return ProcessGroup(task, timeout=self._settings.timeout, grace=self._settings.grace)

    def _notice(self, progress: Callable[[Study], None] | None) -> Callable[[], None]:
        return (lambda: None) if progress is None else partial(progress, self)


def _reopen(url: str, name: str, id: int, settings: Settings) -> Study:
    return Study(Database(url), name, id, settings)
