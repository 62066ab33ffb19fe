"""Policies on recorded trainings, in virtual time.

A policy proposes a part of a training, and each step of it pays the cost of the table. Several
workers run their parts at the same time: a step takes as long as it costs, and a decision takes no
time. A trial that runs is in the history with its reports so far, so policies fantasise it, and its
predicted cost is reserved, as in a study. The budget counts the sum of the costs of all workers,
so runs with one and with several workers are comparable. A step that exceeds the budget has no
value and ends the run.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.problems.curve_surrogates import CurveSurrogate
from benchmarks.problems.curve_tables import CurveTable
from farthing import Budget, History, Ledger, Space, Steps, Trial
from farthing.acquisition.belief import Z_AFFORDABLE, Belief, believe
from farthing.acquisition.initial_design import propose
from farthing.acquisition.protocols import Policy, Proposal
from farthing.acquisition.trainings import is_staged
from farthing.cost import LogGP
from farthing.history import CurvePoint, Run
from farthing.policies import (
    ASHA,
    EIPerRemainingCost,
    Gittins,
    Hyperband,
    OneEpoch,
    StagedGittins,
)

Json = dict[str, Any]
Curves = CurveTable | CurveSurrogate
OURS = "staged Gittins"
THIRDS = (1, 3, 9, 27)  # the rungs of successive halving with eta = 3
SHARES = 60  # of the budget, after each of which the measure is kept


@dataclass(frozen=True)
class Method:
    """A policy and the steps that it is told about."""

    policy: Callable[[], Policy]
    thirds: bool = False  # whether the rungs are THIRDS
    whole: bool = False  # whether trainings are evaluations as a whole
    resume: bool = True
    value: str = "best"
    workers: int = 1
    smooth: bool = False  # whether a surrogate takes the place of the table

    def steps(self, last: int) -> Steps:
        """The steps of a training of that length."""
        rungs = (*(r for r in THIRDS if r < last), last) if self.thirds else None
        return Steps(
            last,
            value=self.value,  # type: ignore[arg-type]
            resume="checkpoint" if self.resume else "never",
            rungs=(last,) if self.whole else rungs,
        )


METHODS: dict[str, Method] = {
    OURS: Method(StagedGittins),
    "staged Gittins, no resume": Method(StagedGittins, resume=False),
    "staged Gittins, last value": Method(StagedGittins, value="last"),
    "staged Gittins, 4 workers": Method(StagedGittins, workers=4),
    "staged Gittins, continuous": Method(StagedGittins, smooth=True),
    "EI per remaining cost": Method(EIPerRemainingCost),
    "ASHA": Method(ASHA, thirds=True),
    "ASHA, last value": Method(ASHA, thirds=True, value="last"),
    "ASHA, continuous": Method(ASHA, thirds=True, smooth=True),
    "ASHA, 4 workers": Method(ASHA, thirds=True, workers=4),
    "Hyperband": Method(Hyperband, thirds=True),
    "Hyperband, 4 workers": Method(Hyperband, thirds=True, workers=4),
    "one epoch": Method(OneEpoch),
    "whole trainings (Gittins)": Method(Gittins, whole=True),
    "whole trainings, continuous": Method(Gittins, whole=True, smooth=True),
}
OPTUNA = (
    "Optuna TPE + Hyperband",
    "Optuna TPE + median",
    "Optuna TPE + Hyperband, continuous",
    "Optuna TPE + median, continuous",
)


def is_smooth(method: str) -> bool:
    """Whether a method trains at any point of a space, on a surrogate of the table."""
    return method.endswith(", continuous")


@dataclass
class Account:
    """What a run has paid and seen."""

    table: Curves
    budget: float
    value: str
    spent: float = 0.0
    best: float = np.inf
    gains: list[tuple[float, float]] = field(default_factory=list)  # (spent, best) when it changed

    @property
    def left(self) -> float:
        return self.budget - self.spent

    def pay(self, row: int, step: int) -> float | None:
        """Train a row for one step: its value, NaN if it diverged, None if it is unaffordable."""
        rate = float(self.table.rate[row])
        if rate > self.left * (1 + 1e-9):
            self.spent = self.budget
            return None
        self.spent += rate
        value = float(self.table.curves[row, step - 1])
        if (self.value == "best" or step == self.table.last) and value < self.best:
            self.best = value
            self.gains.append((self.spent, value))
        return value


@dataclass
class Simulation:
    """The state of a run: what is known at the present time, and what is running."""

    account: Account
    seed: int
    steps: Steps
    policy: Policy
    ledger: Ledger
    space: Space
    history: History = field(default_factory=History)
    now: float = 0.0
    turn: int = 0
    seconds: float = 0.0  # of CPU, for decisions
    # (when the next step ends, the turn in which the part began, trial, row, points so far)
    running: list[tuple[float, int, Trial, int, list[CurvePoint]]] = field(default_factory=list)

    def ask(self) -> bool:
        """Let a free worker start a part of a training; False if nothing was proposed."""
        for _, _, trial, _, points in self.running:
            self.history = self.history.replacing(replace(trial, curve=tuple(points)))
        started = time.process_time()
        belief = believe(
            self.space,
            self.history,
            self.ledger,
            learners={"cost": LogGP()},
            seed=self.seed,
            steps=self.steps,
            curves="steps" in self.policy.needs and "model" in self.policy.needs,
            model="model" in self.policy.needs and not is_staged(self.steps),
        )
        proposal = propose(self.policy, belief, np.random.default_rng([self.seed, self.turn]))
        self.seconds += time.process_time() - started
        self.turn += 1
        for waiting in [t for t in self.history.having("paused") if t.run.waits]:
            moved_on = replace(waiting, run=replace(waiting.run, waits=False))
            self.history = self.history.replacing(moved_on)
        if proposal.x is not None:
            self._start(belief, proposal)
        return proposal.x is not None

    def _start(self, belief: Belief, proposal: Proposal) -> None:
        if proposal.resume is None:
            assert proposal.x is not None
            self.history = self.history.adding(Trial(len(self.history), {}, proposal.x))
        number = len(self.history) - 1 if proposal.resume is None else proposal.resume
        trial = replace(
            self.history[number],
            state="running",
            notes={**belief.notes(), **proposal.notes},
            run=Run(turn=self.turn - 1),
            until=proposal.until or self.steps.last,
        )
        self.history = self.history.replacing(trial)
        amounts = {
            resource: min(float(np.exp(m[0] + Z_AFFORDABLE * s[0])), self.ledger.left)
            for resource, (m, s) in proposal.predicted.items()
        }
        self.ledger = self.ledger.reserve(number, amounts, resumed=proposal.resume is not None)
        row = self.account.table.row_of(trial.x)
        self._next_step(self.turn, trial, row, list(trial.curve))

    def _next_step(self, turn: int, trial: Trial, row: int, points: list[CurvePoint]) -> None:
        end = self.now + float(self.account.table.rate[row])
        heapq.heappush(self.running, (end, turn, trial, row, points))

    def advance(self) -> bool:
        """Move on to the end of the next step; whether a worker is free then."""
        self.now, turn, trial, row, points = heapq.heappop(self.running)
        step, before = len(points) + 1, trial.cost.get("cost", 0.0)
        paid = points[-1].cost["cost"] if points else 0.0
        spent = self.account.spent
        value = self.account.pay(row, step)
        paid += self.account.spent - spent
        ended = value is None or np.isnan(value)
        if value is not None and not ended:
            points.append(CurvePoint(step, value, {"cost": paid}))
            if step < (trial.until or self.steps.last):
                self._next_step(turn, trial, row, points)
                return False
        state = "done" if step == self.steps.last else "paused"
        if ended:
            state = "killed" if value is None else "failed"
        curve = tuple(points)
        done = replace(
            trial,
            state=state,  # type: ignore[arg-type]
            cost={"cost": paid},
            curve=curve,
            value=self.steps.value_of(curve, 1.0) if state == "done" else None,
            run=replace(trial.run, waits=state == "paused"),
            until=None,
        )
        self.history = self.history.replacing(done)
        self.ledger = self.ledger.charge(trial.number, {"cost": paid - before})
        return True


def simulate(table: Curves, method: Method, budget: float, seed: int) -> Json:
    """One run of a policy of Farthing."""
    account = Account(table, budget * table.median_cost, method.value)
    ledger = Ledger.of(Budget(account.budget))
    steps = method.steps(table.last)
    run = Simulation(account, seed, steps, method.policy(), ledger, table.space)
    free = True
    while account.left > 1e-9 * account.budget:
        while free and len(run.running) < method.workers:
            free = run.ask()
        if not run.running:
            break
        free = run.advance()
    found = result_of(account, len(run.history), run.turn, run.seconds)
    return {**found, "elapsed": round(run.now / table.median_cost, 4)}


def result_of(account: Account, trials: int, parts: int, seconds: float) -> Json:
    ends, unit = account.table.ends(account.value), account.table.median_cost
    seen = np.full(SHARES, np.inf)
    for spent, best in account.gains:
        seen[max(int(np.ceil(SHARES * spent / account.budget - 1e-9)) - 1, 0) :] = best
    return {
        "better": round(100.0 * float(np.mean(ends < account.best)), 4),
        "best": account.best,
        "anytime": [round(100.0 * float(np.mean(ends < best)), 4) for best in seen],
        "trials": trials,
        "parts": parts,
        "spent": round(account.spent / unit, 4),
        "cpu_ms": round(1e3 * seconds / max(parts, 1), 2),
    }


def simulate_optuna(table: Curves, name: str, budget: float, seed: int) -> Json:
    """One run of Optuna's TPE with a pruner; in a table, a point becomes the nearest free row."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    from farthing.integrations.optuna_space import distributions_of

    account = Account(table, budget * table.median_cost, "best")
    pruner = (
        optuna.pruners.HyperbandPruner(1, table.last, 3)
        if "Hyperband" in name
        else optuna.pruners.MedianPruner()
    )
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed), pruner=pruner)
    rows = table.space.rows
    free = np.ones(1 if rows is None else len(rows), dtype=np.bool_)
    space = type(table.space)(dict(table.space.parameters))
    distributions = distributions_of(space)
    seconds, trials = 0.0, 0
    while account.left > 1e-9 * account.budget and free.any():
        started = time.process_time()
        trial = study.ask(distributions)
        seconds += time.process_time() - started
        trials += 1
        x = space.encode(trial.params)
        if rows is None:
            row = table.row_of(x)
        else:
            row = int(np.argmin(np.where(free, ((rows - x) ** 2).sum(axis=1), np.inf)))
            free[row] = False
        value, state = None, optuna.trial.TrialState.COMPLETE
        for step in range(1, table.last + 1):
            value = account.pay(row, step)
            if value is None or np.isnan(value):
                state = optuna.trial.TrialState.FAIL
                break
            trial.report(value, step)
            if trial.should_prune():
                state = optuna.trial.TrialState.PRUNED
                break
        study.tell(trial, value if state == optuna.trial.TrialState.COMPLETE else None, state)
    return result_of(account, trials, trials, seconds)
