"""minimize() and maximize(): run a whole optimisation on this machine with one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

import numpy as np

from farthing.budget.units import Budget
from farthing.core.options import AnyBudget, AnySpace, SearchOptions
from farthing.core.outcomes import missing_cost
from farthing.core.settings import Settings
from farthing.core.signatures import takes_settings
from farthing.data.sources import settings_of
from farthing.errors import InvalidInput
from farthing.history import NOT_ENDED
from farthing.optimizer import Optimizer
from farthing.running import InProcess
from farthing.running.answer import Objective
from farthing.running.callbacks import Callback, calling
from farthing.running.signals import INTERRUPTED
from farthing.running.training import check_steps
from farthing.running.worker import HERE, Place, run_trials
from farthing.view.progress import watching
from farthing.view.result import Result

__all__ = ["maximize", "minimize"]


@takes_settings(SearchOptions)
def minimize(
    objective: Objective,
    space: AnySpace,
    budget: AnyBudget = None,
    *,
    n_trials: int | None = None,
    max_trials: int | None = None,
    workers: int = 1,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
    failures_in_a_row: float = Settings.failures_in_a_row,
    **settings: Unpack[SearchOptions],
) -> Result:
    """Find the parameters with the lowest objective value within a budget.

    With a budget in seconds, minimize() measures the time of each evaluation and charges its own
    overhead to the same budget (`result.ledger.overhead`). For other resources, the objective
    returns its cost, `Outcome(value, cost=...)`, or you pass a known cost, `cost=f`.

    An exception is a failed trial. It is charged, and the models learn from it. The run ends after
    `failures_in_a_row` consecutive failures. With one worker, minimize() does not interrupt an
    evaluation, so the last one may exceed the budget.

    Args:
        objective: params -> value, or an Outcome. With `steps=...`, it also takes its training,
            (params, trial), and calls `trial.report(step, value)`; see `farthing.running.Training`.
        n_trials: a limit of the number of trials besides the budget; `max_trials` is the same.
        workers: the number of parallel evaluations. One worker evaluates in this process. With
            several, each evaluation has its own process, which is killed when the budget cannot
            pay for it any more, as in `Study.run`; what the objective changes in memory or prints
            stays there.
        callbacks: each is called with the optimizer and a trial after the trial has ended. To end
            the run, it raises StopIteration or calls `optimizer.request_stop()`. After any other
            error no trial starts, running trials finish, and the error is raised; its attribute
            `result` has all trials until then.
        progress: whether to show the progress: a live view in a terminal or a notebook, else one
            line for each trial.

    The other arguments are those of the Optimizer.
    """
    limited = _limited(budget, n_trials, max_trials)
    checked = settings_of(space, limited, **settings, failures_in_a_row=failures_in_a_row)
    return _run(objective, checked, workers, callbacks, progress, "minimize")


@takes_settings(SearchOptions)
def maximize(
    objective: Objective,
    space: AnySpace,
    budget: AnyBudget = None,
    *,
    n_trials: int | None = None,
    max_trials: int | None = None,
    workers: int = 1,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
    failures_in_a_row: float = Settings.failures_in_a_row,
    **settings: Unpack[SearchOptions],
) -> Result:
    """Find the parameters with the highest objective value within a budget.

    The arguments and the result are those of `minimize`. Values keep the sign that the objective
    returns.
    """
    if settings.setdefault("direction", "maximize") != "maximize":
        raise InvalidInput(
            f"maximize() cannot have direction={settings['direction']!r}. Leave it out, or call "
            "minimize()."
        )
    limited = _limited(budget, n_trials, max_trials)
    checked = settings_of(space, limited, **settings, failures_in_a_row=failures_in_a_row)
    return _run(objective, checked, workers, callbacks, progress, "maximize")


def _limited(budget: AnyBudget, n_trials: int | None, max_trials: int | None) -> AnyBudget:
    """The budget with a limit of the number of trials."""
    if n_trials is not None and max_trials is not None:
        raise InvalidInput(
            f"n_trials={n_trials!r} and max_trials={max_trials!r} are the same limit. Give one."
        )
    name, count = ("n_trials", n_trials) if max_trials is None else ("max_trials", max_trials)
    if count is None:
        return budget
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InvalidInput(f"{name}={count!r}: expected a whole number of at least 1, such as 50.")
    limits = {} if budget is None else Budget(budget).limits
    if "trials" in limits:
        raise InvalidInput(
            f"{name}={count!r}, but the budget already limits the trials to "
            f"{limits['trials']:g}. Give one of the two."
        )
    return Budget({**limits, "trials": int(count)})


def _run(
    objective: Objective,
    settings: Settings,
    workers: int,
    callbacks: Sequence[Callback],
    progress: bool,
    name: str,
) -> Result:
    if settings.budget is None and settings.stop is None:
        raise InvalidInput(
            f"{name}() without a budget or a stopping rule would never end. "
            'Pass budget="10m" or n_trials=50.'
        )
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InvalidInput(f"workers={workers!r}: expected a whole number of at least 1.")
    if progress and settings.learn_from:
        print(f"Learns from {'; '.join(map(str, settings.learn_from))}.", flush=True)
    run = _run_here if workers == 1 else _run_workers
    result = run(objective, settings, workers, callbacks, progress)
    history = result.history
    if history.done and all(missing_cost(settings, trial.cost) for trial in history.done):
        # The user forgot the cost, which ends the run after its first trial. An error is clearer.
        raise InvalidInput(result.stop_reason.sentence)
    return result


def _run_here(
    objective: Objective,
    settings: Settings,
    workers: int,
    callbacks: Sequence[Callback],
    progress: bool,
) -> Result:
    """Evaluate in this process, one trial at a time."""
    engine = InProcess(objective)
    check_steps(objective, settings.steps)
    optimizer = Optimizer.of(settings)
    with (
        watching(optimizer, quiet=not progress) as show,
        _keeping_result(optimizer),
        _checkpoints(settings) as place,
    ):
        try:
            with calling(optimizer, callbacks, show) as (on_change, exit_check):
                reason = run_trials(optimizer, settings, engine, on_change, exit_check, place)
        except KeyboardInterrupt:  # during a suggestion
            reason = INTERRUPTED
    return Result.of(settings, optimizer.best, reason, optimizer.seen)


@contextmanager
def _checkpoints(settings: Settings) -> Iterator[Place]:
    """A place with a temporary folder for the checkpoints of trainings that can be resumed."""
    if settings.steps is None or not settings.steps.has_checkpoints:
        yield HERE
        return
    with TemporaryDirectory(prefix="farthing-") as folder:
        yield Place(checkpoints=Path(folder))


def _run_workers(
    objective: Objective,
    settings: Settings,
    workers: int,
    callbacks: Sequence[Callback],
    progress: bool,
) -> Result:
    """Evaluate in processes that share a study in a temporary database."""
    from farthing.study import Study  # it needs SQLAlchemy, which takes time to load

    with TemporaryDirectory(prefix="farthing-", ignore_cleanup_errors=True) as folder:
        try:
            study = Study.from_settings(Path(folder) / "run.db", "run", settings)
        except InvalidInput as error:
            raise InvalidInput(
                f"workers={workers}: the workers share a database. {error} A policy or a rule of "
                "your own can be stored if it is a dataclass. Or use workers=1."
            ) from None
        try:
            with watching(study, quiet=not progress) as show, _keeping_result(study):
                return study.run(
                    objective, workers=workers, on_change=lambda _: show(), callbacks=callbacks
                )
        finally:
            study.close()


@contextmanager
def _keeping_result(optimizer: Optimizer) -> Iterator[None]:
    """Attach the result to an error that ends a run: the trials until then were paid."""
    try:
        yield
    except Exception as error:
        settings, state = optimizer.facts
        if state.history:
            reason = state.stop_reason or NOT_ENDED
            with suppress(AttributeError):  # an exception may have slots
                error.result = Result.of(  # type: ignore[attr-defined]
                    settings, optimizer.best, reason, state
                )
                error.add_note(f"The attribute `result` has {len(state.history)} trials.")
        raise
