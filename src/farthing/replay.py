"""A stopping rule on the log of a run that is over: where it would have stopped, and what that
would have saved and lost.

The trials are taken one by one, in the order of their numbers, as if each had ended before the next
was asked. What is believed after each of them, and what a rule must remember, is as it would have
been in a run with that rule: on the log of such a run the rule stops where it did.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from farthing.acquisition.protocols import Proposal, StoppingRule, judge
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget, format_amount, worth_of
from farthing.core.settings import AnyBudget, AnySpace, Direction, Learner, Settings
from farthing.core.state import State
from farthing.core.suggest import believed, one_thread
from farthing.data.tabular import COLUMNS, is_empty, learnt_from, read_rows, row
from farthing.errors import InvalidInput
from farthing.history import History, Trial
from farthing.optimizer import Optimizer
from farthing.policies import EI, EIPerCost
from farthing.space.space import Float, Int, Ordinal, Parameter, Space
from farthing.space.table import infer

__all__ = ["Replay", "Step", "replay"]

Row = Mapping[str, Any]

MANY = 12  # different numbers in a column: what is between them could have been tried as well
ENDLESS = 1e30  # of any resource
OURS = {*COLUMNS, "predicted_cost"}  # columns of an exported log that are no parameters


class Step(NamedTuple):
    """What a rule said after so many trials.

    Attributes:
        trials: made so far.
        best: of their values, in the user's direction; None before the first.
        spent: on them.
        number, threshold: the rule's.
        stop: whether it would have stopped here.
        because: its reason.
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
    """Where a rule would have stopped a run, and what came of going on.

    Attributes:
        rule: as it was written.
        trials: made when it would have stopped; None: it would not have.
        because: why, or why not.
        trials_in_all: that were made.
        best, best_in_all: the best value when it would have stopped, and at the end.
        spent, spent_in_all: likewise, in units of `resource`.
        resource: that was paid.
        lost: how much worse the best value would have been.
        worth: objective units that one unit of the resource is worth, where it is known.
        steps: what the rule said after each trial, until it stopped.
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
        """What would not have been spent."""
        return self.spent_in_all - self.spent

    @property
    def gain(self) -> float | None:
        """What stopping would have gained, in objective units: worth saved - lost."""
        return None if self.worth is None else self.worth * self.saved - self.lost

    def facts(self) -> dict[str, Any]:
        """Everything but the steps, as plain values."""
        plain = {**asdict(self), "saved": self.saved, "gain": self.gain}
        del plain["steps"]
        return plain

    def rows(self) -> list[dict[str, Any]]:
        """The steps, as plain values."""
        return [step._asdict() for step in self.steps]

    def words(self) -> dict[str, str]:
        """The same for people, a line each."""

        def amount(number: float) -> str:
            return format_amount(self.resource, number)

        where = f"after {self.trials} of {self.trials_in_all} trials"
        if self.trials is None:
            where = f"nowhere in {self.trials_in_all} trials"
        lines = {"stops": f"{where}: {self.because}"}
        if self.best is not None:
            lines["best"] = f"{self.best:.6g}; at the end {self.best_in_all:.6g}"
            lines["lost"] = f"{self.lost:.3g}"
        lines["spent"] = f"{amount(self.spent)} of {amount(self.spent_in_all)}"
        share = self.saved / self.spent_in_all if self.spent_in_all else 0.0
        lines["saved"] = f"{amount(self.saved)} ({share:.0%})"
        if self.gain is not None:
            lines["gain"] = f"{self.gain:.3g}, at {self.worth:.3g} a unit of cost"
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
) -> Replay:
    """A rule on the log of any run that is over.

        print(replay("log.csv", NotWorthIt(worth=0.001)))

    Args:
        source: an Optimizer or a Study, of which only `worth` may be given anew; or the path of a
            CSV or JSON file, a data frame, a list of dicts, a Result or a History: a column for
            each parameter, `value`, and `cost` or `cost_<resource>`. A row without a value is a
            trial that failed.
        rule: from `farthing.stopping`.
        space: what could have been tried; by default what is between the parameters in the log.
        budget: what could be spent, where it was limited; it says what a plain `cost` is in.
        worth: objective units that one unit of cost is worth, or "0.01 = $20".
        direction: "minimize" or "maximize".
        noisy: whether the same parameters may return different values.
        cost: a function of the parameters, or a learner from `farthing.cost`.
        seed: for the rule's searches.
    """
    if inspect.isclass(rule) or not hasattr(rule, "needs"):
        raise InvalidInput(f"rule={rule!r}: give one that is made, such as Stalled().")
    if isinstance(source, Optimizer):
        return _own(source, rule, worth)
    rows = [row(trial) for trial in source] if isinstance(source, History) else read_rows(source)
    if not rows:
        raise InvalidInput("The log has no rows: there is nothing to replay.")
    settings = Settings.of(
        _space_between(rows) if space is None else space,
        _endless(rows) if budget is None else budget,
        policy=EIPerCost() if "cost" in rule.needs else EI(),
        stop=rule,
        cost=cost,
        worth=worth if "worth" in rule.needs | rule.reads else None,
        direction=direction,
        noisy=noisy,
        seed=seed,
    )
    trials, prices = learnt_from([_ended(each) for each in rows], settings)
    log = History(
        tuple(replace(t, number=i, because="", origin="suggested") for i, t in enumerate(trials))
    )
    rate = None if worth is None else worth_of(worth, settings.cost_resources[0])
    return _replayed(settings, State(Ledger.of(settings.budget), log, prices), rate)


def _own(run: Optimizer, rule: StoppingRule, worth: float | str | None) -> Replay:
    """On the log of a run of ours, with what it was made with."""
    settings, state = run._settings, run._memory.look()
    worth = settings.worth if worth is None else worth
    reads = "worth" in rule.needs | rule.reads | settings.policy.reads
    settings = replace(settings, stop=rule, worth=worth if reads else None)
    rate = None if worth in (None, "budget") else worth_of(worth, settings.cost_resources[0])
    return _replayed(settings, state, rate)


def _replayed(settings: Settings, state: State, worth: float | None) -> Replay:
    """The rule of the settings on the trials of a state that have ended.

    Args:
        worth: to price what is saved.
    """
    rule, resource = settings.stop, settings.cost_resources[0]
    assert rule is not None
    log = state.history.having("done", "failed", "killed")
    if "cost" in rule.needs and not any(trial.cost for trial in log):
        raise InvalidInput(
            f"{type(rule).__name__} compares with costs, and the log has none. Add a column "
            "`cost`, or give cost=... as a function of the parameters."
        )
    paid = [0.0 if trial.is_external else trial.cost.get(resource, 0.0) for trial in log]
    now = replace(state, ledger=_whole_ledger(settings, log), history=History())
    steps: list[Step] = []
    for made in range(len(log) + 1):
        with one_thread():
            belief = believed(settings, now)
            coming = log[made].x if made < len(log) else None
            rng = np.random.default_rng([settings.seed, made, 1])
            verdict = judge(rule, belief, Proposal(coming, "in the log"), rng)
        best = None if not len(belief.y) else settings.sign * float(belief.y.min())
        spent = math.fsum(paid[:made])
        said = verdict.number, verdict.threshold, verdict.stop, verdict.because
        steps.append(Step(made, best, spent, *said))
        if verdict.stop or coming is None:
            break
        phase = {key: log[made].notes[key] for key in ("phase",) if key in log[made].notes}
        notes = {**phase, **belief.notes(), **verdict.notes}
        ended = replace(log[made], number=made, notes=notes)
        ledger = now.ledger if ended.is_external else now.ledger.charge(None, ended.cost)
        now = replace(now, ledger=ledger, history=now.history.adding(ended))
    last = steps[-1]
    values = [settings.sign * trial.value for trial in log if trial.value is not None]
    final = settings.sign * min(values) if values else None
    # Before the first value there is nothing to lose it against.
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


def _whole_ledger(settings: Settings, log: Sequence[Trial]) -> Ledger:
    """The budget before the first trial; what overlapped in time had room for all of it."""
    if settings.budget is None:
        return Ledger.of(None)
    limits = dict(settings.budget.limits)
    for resource in limits:
        total = math.fsum(t.cost.get(resource, 0.0) for t in log if not t.is_external)
        needed = float(len(log) + 1) if resource == "trials" else total * (1 + 1e-6)
        limits[resource] = max(limits[resource], needed)
    return Ledger.of(Budget(limits))


# ── a log from elsewhere ───────────────────────────────────────────────────────────────────────


def _endless(rows: Sequence[Row]) -> dict[str, float] | None:
    """More than anybody has of the resource that the costs are in, where it has a name."""
    names = dict.fromkeys(name for each in rows for name in _flat_names(each))
    named = [name.removeprefix("cost_") for name in names if name.startswith("cost_")]
    return {named[0]: ENDLESS} if named and "cost" not in names else None


def _ended(each: Row) -> Row:
    """A trial of a log that has no value has failed: it was paid all the same."""
    told = [each.get("state"), each.get("value")]
    return {**each, "state": "failed"} if all(map(is_empty, told)) else each


def _flat_names(each: Row) -> list[str]:
    """The columns of a row; an object is a column for each of its entries."""
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


def _space_between(rows: Sequence[Row]) -> Space:
    """What is between the parameters of the rows: ranges of numbers, options of the rest."""
    columns: dict[str, list[Any]] = {}
    for each in rows:
        for name, cell in _parameters(each):
            columns.setdefault(name, []).append(cell)
    found = {name: _range(name, _numbers(cells)) for name, cells in columns.items()}
    varied = {name: parameter for name, parameter in found.items() if parameter is not None}
    if not varied:
        raise InvalidInput(
            "No column of the log varies that could be a parameter: it has "
            f"{', '.join(dict.fromkeys(n for each in rows for n in _flat_names(each)))}. "
            "Give a column for each parameter, `value` and `cost`, or space=..."
        )
    return Space(varied)


def _parameters(each: Row) -> list[tuple[str, Any]]:
    """Names and cells that may be parameters: those that say so, or those that are nothing else."""
    if isinstance(each.get("params"), Mapping):
        return list(each["params"].items())
    said = [(n[6:], cell) for n, cell in each.items() if str(n).startswith("param_")]
    return said or [
        (str(n), cell)
        for n, cell in each.items()
        if n not in OURS and not str(n).startswith(("cost_", "predicted_"))
    ]


def _numbers(cells: list[Any]) -> list[Any]:
    """A column as numbers, if all of it is; a CSV file has only texts."""
    try:
        numbers = [float(cell) for cell in cells if not isinstance(cell, bool)]
    except (TypeError, ValueError):
        return cells
    if len(numbers) < len(cells):
        return cells
    return [int(n) if n.is_integer() else n for n in numbers]


def _range(name: str, cells: list[Any]) -> Parameter | None:
    """What could have been tried; None for a column that never varies."""
    values = set(cells)
    if len(values) < 2:
        return None
    parameter = infer(name, cells)
    if not isinstance(parameter, Ordinal) or len(values) <= MANY:
        return parameter
    low, high = min(values), max(values)
    whole = all(isinstance(value, int) for value in values)
    return (Int if whole else Float)(low, high, log=parameter.log)
