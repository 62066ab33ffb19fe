"""The whole job in one call: verdict, ask, evaluate, tell, until it is time to stop."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from farthing.cost import CostLearner
from farthing.decision import Policy, StoppingRule
from farthing.errors import InvalidInput
from farthing.history import History, Outcome, Trial
from farthing.ledger import Budget, Ledger, format_amount
from farthing.optimizer import Learner, Optimizer
from farthing.space import Parameter, Space

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Result", "minimize"]


@dataclass(frozen=True)
class Result:
    """What a run found, what it paid, and why it ended.

    Attributes:
        best: the best trial, with `.params` and `.value`; None if none returned a value.
        stop_reason: one sentence.
        ledger: `.spent`, `.left`, and `.thinking`, our own share of what was spent.
        history: every trial.
    """

    best: Trial | None
    stop_reason: str
    ledger: Ledger
    history: History

    @property
    def spent(self) -> float:
        """What was paid in all, in the first resource of the budget."""
        return self.ledger.spent

    def dataframe(self) -> Any:
        """One row per trial; needs pandas."""
        try:
            import pandas as pd
        except ImportError:
            raise InvalidInput("dataframe() needs pandas: pip install pandas.") from None
        rows: list[dict[str, Any]] = []
        for trial in self.history:
            row: dict[str, Any] = {
                "number": trial.number,
                "state": trial.state,
                "value": trial.value,
            }
            row |= {f"param_{name}": value for name, value in trial.params.items()}
            row |= {f"cost_{resource}": amount for resource, amount in trial.cost.items()}
            row |= {"predicted_cost": trial.predicted_cost, "because": trial.because}
            rows.append(row | {"error": trial.error})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        resource = self.ledger.resources[0]
        lines = [f"stopped: {self.stop_reason}"]
        if self.best is not None:
            shown = ", ".join(f"{name}={_short(v)}" for name, v in self.best.params.items())
            lines.append(f"best:    {self.best.value:.6g} (trial {self.best.number}) at {shown}")
        else:
            lines.append("best:    no trial returned a value")
        spent = format_amount(resource, self.ledger.spent)
        thinking = self.ledger.thinking
        ours = f", {format_amount(resource, thinking)} of it thinking" if thinking else ""
        return "\n".join([*lines, f"spent:   {spent}{ours}; {len(self.history)} trials"])


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def minimize(
    objective: Callable[[dict[str, Any]], float | Outcome],
    space: Space | Mapping[str, Parameter],
    budget: str | float | Mapping[str, float] | Budget | None = None,
    *,
    policy: Policy | None = None,
    stop: StoppingRule | None = None,
    cost: CostLearner | Learner | Mapping[str, Learner] | None = None,
    worth: float | str | None = None,
    direction: Literal["minimize", "maximize"] = "minimize",
    noisy: bool = False,
    seed: int = 0,
    progress: bool = False,
    failures_in_a_row: float = 5,
) -> Result:
    """Find the parameters with the lowest objective that a budget can buy.

    With a budget in seconds the objective is timed here, and the time Farthing thinks is charged to
    the same budget (`result.ledger.thinking`). Other costs are returned by the objective,
    `Outcome(value, cost=...)`, or known beforehand, `cost=f`. An exception is a failed trial: it is
    charged, learnt from, and only `failures_in_a_row` of them end the run. An evaluation that has
    begun is let finish, so the last one may end after the budget does.

    Args:
        objective: params -> value, or an Outcome.
        progress: show a bar whose length is the budget.

    The other arguments are the Optimizer's.
    """
    optimizer = Optimizer(
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
    if budget is None and stop is None:
        raise InvalidInput(
            "minimize() without a budget or a stopping rule would never end. "
            'Give budget="10m", or stop=MaxTrials(50).'
        )
    if isinstance(failures_in_a_row, bool) or not failures_in_a_row >= 1:
        raise InvalidInput(
            f"failures_in_a_row={failures_in_a_row!r}: expected a number of at least 1, "
            "or math.inf to go on whatever happens."
        )
    with _Display(optimizer, progress) as display:
        reason = _run(optimizer, objective, display, failures_in_a_row)
    return Result(optimizer.best, reason, optimizer.ledger, optimizer.history)


def _run(
    optimizer: Optimizer,
    objective: Callable[[dict[str, Any]], float | Outcome],
    display: _Display,
    failures_in_a_row: float,
) -> str:
    failures: list[str] = []  # in a row
    try:
        while not (verdict := optimizer.verdict).stop:
            trial = optimizer.ask()
            display.show(trial)
            failure = _evaluate(optimizer, objective, trial)
            display.show(None)
            failures = [] if failure is None else [*failures, failure]
            if len(failures) >= failures_in_a_row:
                return f"{len(failures)} trials in a row failed; the first of them:\n{failures[0]}"
    except KeyboardInterrupt:
        return "interrupted from the keyboard"
    return verdict.because


def _evaluate(
    optimizer: Optimizer,
    objective: Callable[[dict[str, Any]], float | Outcome],
    trial: Trial,
) -> str | None:
    """Evaluate, charge and tell one trial; what went wrong, if something did."""
    error, begun = None, time.perf_counter()
    try:
        outcome = _outcome(objective(dict(trial.params)))
    except KeyboardInterrupt:
        paid = _price(optimizer.ledger, trial, None, time.perf_counter() - begun)
        with suppress(InvalidInput):  # it stays running where nobody knows what it has cost
            optimizer.tell(trial, killed=True, cost=paid)
        raise
    except Exception as caught:
        error, outcome = caught, Outcome(failed=f"{type(caught).__name__}: {caught}")
    paid = _price(optimizer.ledger, trial, outcome, time.perf_counter() - begun)
    try:
        optimizer.tell(trial, outcome.value, failed=outcome.failed, cost=paid)
    except InvalidInput as refused:
        if error is None:
            raise
        error.add_note(f"This trial cannot be booked as a failure. {refused}")
        raise error from None
    return "".join(traceback.format_exception(error)) if error is not None else outcome.failed


def _outcome(returned: float | Outcome | None) -> Outcome:
    """What an objective returned; a value that is not finite is a failure, not a result."""
    if not isinstance(returned, Outcome):
        returned = Outcome(None if returned is None else float(returned))
    if returned.failed is not None:
        return replace(returned, value=None)
    if returned.value is None or not math.isfinite(returned.value):
        return Outcome(cost=returned.cost, failed=f"it returned {returned.value}")
    return returned


def _price(
    ledger: Ledger, trial: Trial, outcome: Outcome | None, seconds: float
) -> dict[str, float] | None:
    """What was told, the time measured here, and the prediction for a trial that could not tell."""
    told = None if outcome is None else outcome.cost
    priced = [name for name in ledger.resources if name != "trials"]
    paid = dict(told) if isinstance(told, Mapping) else {} if told is None else {priced[0]: told}
    if "s" in priced:
        paid.setdefault("s", max(seconds, 1e-9))
    if outcome is None or outcome.failed is not None:
        paid = {**trial.predicted, **paid}
    return paid or None


class _Display:
    """A bar whose length is the budget."""

    def __init__(self, optimizer: Optimizer, shown: bool) -> None:
        self.optimizer = optimizer
        self.progress: Progress | None = None
        self.task: TaskID | None = None
        if shown:
            from rich.progress import BarColumn, Progress, TextColumn

            self.progress = Progress(
                BarColumn(bar_width=30), TextColumn("{task.description}"), transient=False
            )

    def __enter__(self) -> _Display:
        if self.progress is not None:
            self.progress.start()
            limit = self.optimizer.ledger.limit
            self.task = self.progress.add_task("", total=limit if math.isfinite(limit) else None)
        return self

    def show(self, running: Trial | None) -> None:
        if self.progress is None or self.task is None:
            return
        ledger, best = self.optimizer.ledger, self.optimizer.best
        resource = ledger.resources[0]
        text = f"{format_amount(resource, ledger.spent)}"
        if math.isfinite(ledger.limit):
            text += f" of {format_amount(resource, ledger.limit)}"
        if ledger.thinking:
            text += f" (thinking {format_amount(resource, ledger.thinking)})"
        if best is not None:
            text += f"  best {best.value:.5g}"
        if running is not None:
            text += f"  trial {running.number}"
            for priced, amount in running.predicted.items():
                text += f", about {format_amount(priced, amount)}"
        self.progress.update(self.task, completed=ledger.spent, description=text)

    def __exit__(self, *_: object) -> None:
        self.show(None)
        if self.progress is not None:
            self.progress.stop()
