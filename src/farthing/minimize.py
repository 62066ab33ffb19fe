"""minimize(): run a whole optimisation in this process with one call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

from farthing.core.options import AnyBudget, AnySpace, SearchOptions
from farthing.core.outcomes import missing_cost
from farthing.core.settings import Settings
from farthing.core.signatures import takes_settings
from farthing.errors import InvalidInput
from farthing.optimizer import Optimizer
from farthing.running import InProcess
from farthing.running.answer import Objective
from farthing.running.signals import INTERRUPTED
from farthing.running.training import check_steps
from farthing.running.worker import HERE, Place, run_trials
from farthing.view.progress import watching
from farthing.view.result import Result

__all__ = ["minimize"]


@takes_settings(SearchOptions)
def minimize(
    objective: Objective,
    space: AnySpace,
    budget: AnyBudget = None,
    *,
    progress: bool = False,
    failures_in_a_row: float = Settings.failures_in_a_row,
    **settings: Unpack[SearchOptions],
) -> Result:
    """Find the parameters with the lowest objective value within a budget.

    With a budget in seconds, minimize() measures the time of each evaluation and charges its own
    overhead to the same budget (`result.ledger.overhead`). For other resources, the objective
    returns its cost, `Outcome(value, cost=...)`, or you pass a known cost, `cost=f`.

    An exception is a failed trial. It is charged, and the models learn from it. The run ends after
    `failures_in_a_row` consecutive failures. minimize() does not interrupt an evaluation, so the
    last one may exceed the budget.

    Args:
        objective: params -> value, or an Outcome. With `steps=...`, it also takes its training,
            (params, trial), and calls `trial.report(step, value)`; see `farthing.running.Training`.
        progress: whether to show a progress bar for the budget.

    The other arguments are those of the Optimizer.
    """
    checked = Settings.of(space, budget, **settings, failures_in_a_row=failures_in_a_row)
    if checked.budget is None and checked.stop is None:
        raise InvalidInput(
            "minimize() without a budget or a stopping rule would never end. "
            'Pass budget="10m" or stop=MaxTrials(50).'
        )
    engine = InProcess(objective)
    check_steps(objective, checked.steps)
    optimizer = Optimizer.of(checked)
    with watching(optimizer, quiet=not progress) as on_change, _checkpoints(checked) as place:
        try:
            reason = run_trials(optimizer, checked, engine, on_change, place=place)
        except KeyboardInterrupt:  # during a suggestion
            reason = INTERRUPTED
    history = optimizer.history
    if history.done and all(missing_cost(checked, trial.cost) for trial in history.done):
        # The user forgot the cost, which ends the run after its first trial. An error is clearer.
        raise InvalidInput(reason.sentence)
    return Result.of(checked, optimizer.best, reason, optimizer.seen)


@contextmanager
def _checkpoints(settings: Settings) -> Iterator[Place]:
    """A place with a temporary folder for the checkpoints of trainings that can be resumed."""
    if settings.steps is None or not settings.steps.can_resume:
        yield HERE
        return
    with TemporaryDirectory(prefix="farthing-") as folder:
        yield Place(checkpoints=Path(folder))
