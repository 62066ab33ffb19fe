"""`replay`: where a stopping rule would have stopped a finished run, and what it saves and loses.

The trials are replayed one by one, in the order of their numbers, as if each had ended before the
next one started. The belief after each trial, and what a rule stores with it, are those of a run
with that rule. On the log of such a run the rule therefore stops where it did.

An Optimizer or a Study knows what it has spent. There each trial counts with its share of the
spending (`core.shares`), so that two workers in one hour spend one hour, and overhead is included.
A log has only costs: they are added up.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from farthing.acquisition.protocols import Proposal, StoppingRule, judge
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget, format_amount, worth_of
from farthing.core.options import AnyBudget, AnySpace, Direction, Learner
from farthing.core.settings import Settings
from farthing.core.shares import cost_of, share_of_spending
from farthing.core.state import State
from farthing.core.suggest import believed, one_thread
from farthing.data.tabular import COLUMNS, is_empty, learnt_from, read_rows, row
from farthing.errors import InvalidInput
from farthing.history import History
from farthing.models.constraints import is_feasible
from farthing.optimizer import Optimizer
from farthing.policies import EI, EIPerCost
from farthing.space.space import Float, Int, Ordinal, Parameter, Space
from farthing.space.table import infer

__all__ = ["Replay", "Step", "replay"]

Row = Mapping[str, Any]

MAX_LEVELS = 12  # a column with more different numbers is a range, else these are its only values
NO_LIMIT = 1e30  # of any resource
LOG_COLUMNS = {*COLUMNS, "predicted_cost"}  # columns of an exported log that are no parameters


class Step(NamedTuple):
    """The verdict of a stopping rule after a number of trials.

    Attributes:
        trials: the number of trials so far.
        best: the best value so far, in the user's direction; None before the first value.
        spent: the spending until then.
        number, threshold: what the rule compared.
        stop: whether the rule would have stopped here.
        because: why it would have stopped, or not.
    """

    trials: int
    best: float | None
    spent: float
    number: float
    threshold: float
    stop: bool
    because: str


@dataclass(frozen=True)
class Replay:
    """Where a stopping rule would have stopped a run, and what the rest of the run achieved.

    Attributes:
        rule: the rule, as code.
        trials: the number of trials when it would have stopped; None: it would not have.
        because: why it would have stopped, or not.
        trials_in_all: the number of trials of the run.
        best, best_in_all: the best value when it would have stopped, and at the end.
        spent, spent_in_all: the spending when it would have stopped, and at the end.
        resource: the resource in which the spending is counted.
        lost: how much worse the best value would have been.
        worth: exchange rate: how much objective one unit of cost is worth; None if not given.
        steps: the verdict after each trial, until the rule stops.
    """

    rule: str
    trials: int | None
    because: str
    trials_in_all: int
    best: float | None
    best_in_all: float | None
    spent: float
    spent_in_all: float
    resource: str
    lost: float
    worth: float | None
    steps: tuple[Step, ...]

    @property
    def saved(self) -> float:
        """The spending that the rule would have saved."""
        return self.spent_in_all - self.spent

    @property
    def gain(self) -> float | None:
        """Net gain of stopping in objective units: worth * saved - lost."""
        return None if self.worth is None else self.worth * self.saved - self.lost

    def facts(self) -> dict[str, Any]:
        """All attributes except the steps, as plain values."""
        plain = {**asdict(self), "saved": self.saved, "gain": self.gain}
        del plain["steps"]
        return plain

    def rows(self) -> list[dict[str, Any]]:
        """The steps, as plain values."""
        return [step._asdict() for step in self.steps]

    def words(self) -> dict[str, str]:
        """The result as texts, one for each line."""

        def amount(number: float) -> str:
            return format_amount(self.resource, number)

        where = f"after {self.trials} of {self.trials_in_all} trials"
        if self.trials is None:
            where = f"nowhere in {self.trials_in_all} trials"
        lines = {"stops": f"{where}: {self.because}"}
        if self.best is not None:
            lines["best"] = f"{self.best:.6g}, at the end {self.best_in_all:.6g}"
            lines["lost"] = f"{self.lost:.3g}"
        lines["spent"] = f"{amount(self.spent)} of {amount(self.spent_in_all)}"
        share = self.saved / self.spent_in_all if self.spent_in_all else 0.0
        lines["saved"] = f"{amount(self.saved)} ({share:.0%})"
        if self.gain is not None:
            lines["gain"] = f"{self.gain:.3g}, at {self.worth:.3g} per unit of cost"
        return lines

    def __str__(self) -> str:
        return "\n".join(f"{name + ':':<7} {text}" for name, text in self.words().items())


def replay(
    source: Any,
    rule: StoppingRule,
    *,
    space: AnySpace | None = None,
    budget: AnyBudget = None,
    worth: float | str | None = None,
    direction: Direction = "minimize",
    noisy: bool = False,
    cost: Learner | None = None,
    seed: int = 0,
    constraints: Mapping[str, str] | None = None,
) -> Replay:
    """Apply a stopping rule to the log of any finished run.

        print(replay("log.csv", NotWorthIt(worth=0.001)))

    Args:
        source: an Optimizer or a Study, or a log: the path of a CSV or JSON file, a data frame, a
            list of dicts, a Result or a History. A log has a column for each parameter, `value`,
            and `cost` or `cost_<resource>`. A row without a value is a failed trial. An Optimizer
            or a Study has its own settings, and only `worth` may be given besides.
        rule: a rule from `farthing.stopping`.
        space: the space that was searched; by default the ranges of the parameters in the log.
        budget: the budget, if there was one. Its first resource is the unit of a plain `cost`.
        worth: exchange rate: how much objective one unit of cost is worth, or "0.01 = $20".
        direction: "minimize" or "maximize".
        noisy: whether the same parameters may return different values.
        cost: a function of the parameters, or a learner from `farthing.cost`.
        seed: random seed of the rule's searches.
        constraints: as in `Settings`; the log has a column for each measured quantity.
    """
    if inspect.isclass(rule) or not hasattr(rule, "needs"):
        raise InvalidInput(
            f"rule={rule!r}: expected an instance of a stopping rule, such as NoImprovement()."
        )
    if isinstance(source, Optimizer):
        return _replay_optimizer(source, rule, worth)
    rows = [row(trial) for trial in source] if isinstance(source, History) else read_rows(source)
    if not rows:
        raise InvalidInput("The log has no rows: expected one row for each trial.")
    settings = Settings.of(
        _inferred_space(rows, constraints or {}) if space is None else space,
        _unlimited(rows) if budget is None else budget,
        policy=EIPerCost() if "cost" in rule.needs else EI(),
        stop=rule,
        cost=cost,
        worth=worth if "worth" in rule.needs | rule.reads else None,
        direction=direction,
        noisy=noisy,
        seed=seed,
        constraints=constraints,
    )
    trials, prices = learnt_from([_with_failure(each) for each in rows], settings)
    log = History(
        tuple(replace(t, number=i, because="", origin="suggested") for i, t in enumerate(trials))
    )
    rate = None if worth is None else worth_of(worth, settings.cost_resources[0])
    return _replayed(settings, State(Ledger.of(settings.budget), log, prices), rate)


def _replay_optimizer(
    optimizer: Optimizer, rule: StoppingRule, worth: float | str | None
) -> Replay:
    """Replay the history of an Optimizer with its own settings."""
    settings, state = optimizer._settings, optimizer._store.look()
    worth = settings.worth if worth is None else worth
    reads = "worth" in rule.needs | rule.reads | settings.policy.reads
    settings = replace(settings, stop=rule, worth=worth if reads else None)
    rate = None if worth in (None, "budget") else worth_of(worth, settings.cost_resources[0])
    return _replayed(settings, state, rate)


def _replayed(settings: Settings, state: State, worth: float | None) -> Replay:
    """Apply the stopping rule of the settings to the finished trials of a state.

    Args:
        worth: the exchange rate by which the saved cost is valued.
    """
    rule, resource = settings.stop, settings.cost_resources[0]
    assert rule is not None
    log = state.history.having("done", "failed", "killed")
    if "cost" in rule.needs and not any(trial.cost for trial in log):
        raise InvalidInput(
            f"{type(rule).__name__} needs costs, but the log has none. Add a column `cost`, or "
            "pass cost=... as a function of the parameters."
        )
    scales = {name: share_of_spending(state, name, log) for name in settings.cost_resources}
    shares = [
        {r: scales[r] * cost_of(trial, r) for r in trial.cost if r in scales} for trial in log
    ]
    paid = [share.get(resource, 0.0) for share in shares]
    now = replace(state, ledger=_full_ledger(settings, shares), history=History())
    steps: list[Step] = []
    for made in range(len(log) + 1):
        with one_thread():
            belief = believed(settings, now)
            next_x = log[made].x if made < len(log) else None
            rng = np.random.default_rng([settings.seed, made, 1])
            verdict = judge(rule, belief, Proposal(next_x, "in the log"), rng)
        lowest = float(belief.feasible_y.min(initial=math.inf))
        best = settings.sign * lowest if math.isfinite(lowest) else None
        spent = math.fsum(paid[:made])
        numbers = verdict.number, verdict.threshold
        steps.append(Step(made, best, spent, *numbers, verdict.stop, verdict.because))
        if verdict.stop or next_x is None:
            break
        phase = {key: log[made].notes[key] for key in ("phase",) if key in log[made].notes}
        notes = {**phase, **belief.notes(), **verdict.notes}
        ended = replace(log[made], number=made, notes=notes)
        ledger = now.ledger if ended.is_external else now.ledger.charge(None, shares[made])
        now = replace(now, ledger=ledger, history=now.history.adding(ended))
    last = steps[-1]
    values = [
        settings.sign * trial.value
        for trial in log
        if trial.value is not None and is_feasible(settings.bounds, trial)
    ]
    final = settings.sign * min(values) if values else None
    # A rule that stops before the first value loses everything.
    lost = math.inf if final is not None and last.best is None else 0.0
    if final is not None and last.best is not None:
        lost = settings.sign * (last.best - final)
    return Replay(
        rule=repr(rule),
        trials=last.trials if last.stop else None,
        because=last.because,
        trials_in_all=len(log),
        best=last.best,
        best_in_all=final,
        spent=last.spent,
        spent_in_all=math.fsum(paid),
        resource=resource,
        lost=lost,
        worth=worth,
        steps=tuple(steps),
    )


def _full_ledger(settings: Settings, shares: Sequence[Mapping[str, float]]) -> Ledger:
    """The budget before the first trial, large enough for all of them."""
    if settings.budget is None:
        return Ledger.of(None)
    limits = dict(settings.budget.limits)
    for resource in limits:
        total = math.fsum(share.get(resource, 0.0) for share in shares)
        needed = float(len(shares) + 1) if resource == "trials" else total * (1 + 1e-6)
        limits[resource] = max(limits[resource], needed)
    return Ledger.of(Budget(limits))


# ── logs of other tuners ─────────────────────────────────────────────────────────────────────────


def _unlimited(rows: Sequence[Row]) -> dict[str, float] | None:
    """A budget without effect in the resource that the cost column names, if it names one."""
    names = dict.fromkeys(name for each in rows for name in _flat_names(each))
    named = [name.removeprefix("cost_") for name in names if name.startswith("cost_")]
    return {named[0]: NO_LIMIT} if named and "cost" not in names else None


def _with_failure(each: Row) -> Row:
    """A row without a state and a value is a failed trial, whose cost still counts."""
    outcome = [each.get("state"), each.get("value")]
    return {**each, "state": "failed"} if all(map(is_empty, outcome)) else each


def _flat_names(each: Row) -> list[str]:
    """The columns of a row. A nested object has a column for each of its entries."""
    nested = {"params": "param", "cost": "cost"}
    return [
        column
        for name, cell in each.items()
        for column in (
            [f"{nested.get(name, name)}_{key}" for key in cell]
            if isinstance(cell, Mapping)
            else [str(name)]
        )
    ]


def _inferred_space(rows: Sequence[Row], measured: Container[str] = ()) -> Space:
    """The space that contains the rows: ranges of numbers, and options of other values.

    Args:
        measured: quantities with a constraint, which are no parameters.
    """
    columns: dict[str, list[Any]] = {}
    for each in rows:
        for name, cell in _parameters(each):
            if name not in measured:
                columns.setdefault(name, []).append(cell)
    found = {name: _range(name, _numbers(cells)) for name, cells in columns.items()}
    varied = {name: parameter for name, parameter in found.items() if parameter is not None}
    if not varied:
        raise InvalidInput(
            "The log has no parameter that varies. Its columns are "
            f"{', '.join(dict.fromkeys(n for each in rows for n in _flat_names(each)))}. "
            "Expected a column for each parameter, `value` and `cost`. Add them, or pass space=..."
        )
    return Space(varied)


def _parameters(each: Row) -> list[tuple[str, Any]]:
    """Names and values of the parameters: by prefix, or all columns with no other meaning."""
    if isinstance(each.get("params"), Mapping):
        return list(each["params"].items())
    prefixed = [(n[6:], cell) for n, cell in each.items() if str(n).startswith("param_")]
    return prefixed or [
        (str(n), cell)
        for n, cell in each.items()
        if n not in LOG_COLUMNS and not str(n).startswith(("cost_", "predicted_", "metric_"))
    ]


def _numbers(cells: list[Any]) -> list[Any]:
    """A column as numbers if all its cells are numbers. A CSV file contains only texts."""
    try:
        numbers = [float(cell) for cell in cells if not isinstance(cell, bool)]
    except (TypeError, ValueError):
        return cells
    if len(numbers) < len(cells):
        return cells
    return [int(n) if n.is_integer() else n for n in numbers]


def _range(name: str, cells: list[Any]) -> Parameter | None:
    """The parameter of a column; None if the column does not vary."""
    values = set(cells)
    if len(values) < 2:
        return None
    parameter = infer(name, cells)
    if not isinstance(parameter, Ordinal) or len(values) <= MAX_LEVELS:
        return parameter
    low, high = min(values), max(values)
    whole = all(isinstance(value, int) for value in values)
    return (Int if whole else Float)(low, high, log=parameter.log)
