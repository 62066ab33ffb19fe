"""The whole job in one call, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from farthing.core.outcomes import unpriced
from farthing.core.settings import AnyBudget, AnySpace, SearchOptions, Settings, takes_settings
from farthing.errors import InvalidInput
from farthing.history import Outcome
from farthing.optimizer import Optimizer
from farthing.running import InProcess
from farthing.running.signals import INTERRUPTED
from farthing.running.worker import until_stopped
from farthing.view.progress import watching
from farthing.view.result import Result

__all__ = ["minimize"]


@takes_settings(SearchOptions)
def minimize(
    objective: Callable[[dict[str, Any]], float | Outcome],
    space: AnySpace,
    budget: AnyBudget = None,
    *,
    progress: bool = False,
    failures_in_a_row: float = Settings.failures_in_a_row,
    **settings: Unpack[SearchOptions],
) -> Result:
    """Find the parameters with the lowest objective that a budget can buy.

    With a budget in seconds the objective is timed here, and the time Farthing thinks is charged to
    the same budget (`result.ledger.overhead`). Other costs are returned by the objective,
    `Outcome(value, cost=...)`, or known beforehand, `cost=f`. An exception is a failed trial: it is
    charged, learnt from, and only `failures_in_a_row` of them end the run. An evaluation that has
    begun is let finish, so the last one may end after the budget does.

    Args:
        objective: params -> value, or an Outcome.
        progress: show a bar whose length is the budget.

    The other arguments are the Optimizer's.
    """
    made = Settings.of(space, budget, **settings, failures_in_a_row=failures_in_a_row)
    if made.budget is None and made.stop is None:
        raise InvalidInput(
            "minimize() without a budget or a stopping rule would never end. "
            'Give budget="10m", or stop=MaxTrials(50).'
        )
    engine = InProcess(objective)
    optimizer = Optimizer.of(made)
    with watching(optimizer, quiet=not progress) as on_change:
        try:
            reason = until_stopped(optimizer, made, engine, on_change)
        except KeyboardInterrupt:  # in our own thought
            reason = INTERRUPTED
    history = optimizer.history
    if history.done and all(unpriced(made, trial.cost) for trial in history.done):
        # A mistake: nothing is lost that cost anything but the first trial.
        raise InvalidInput(reason.sentence)
    return Result.of(made, optimizer.best, reason, optimizer.seen)
