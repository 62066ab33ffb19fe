"""The facts about costs and about one trial as plain values, which other modules render."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from farthing.acquisition.belief import Belief
from farthing.acquisition.paid_costs import evidence_of, paid
from farthing.acquisition.pareto import front, implied_alpha
from farthing.acquisition.scores import cheapness, log_ei_per_cost
from farthing.acquisition.search import sobol
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget
from farthing.core.part_reasons import reasons_of
from farthing.core.parts import counted_value
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import believed, cost_learners, one_thread
from farthing.cost.calibration import BANDS, Calibration, calibrate
from farthing.errors import InvalidInput
from farthing.history import History, Trial
from farthing.view.chosen import chosen_by
from farthing.view.learnt import learnt_by
from farthing.view.training_parts import going_on, parts_of

__all__ = ["costs", "explanation", "state_before", "trial_of"]

CANDIDATES = 2048  # points that a suggestion is compared with
ON_THE_FRONT = 1e-6  # tolerance in ln EI for a point on the Pareto front
Z_80 = (-1.2815515655446004, 0.0, 1.2815515655446004)  # 10 %, 50 % and 90 % quantiles of N(0, 1)


# ── costs ──────────────────────────────────────────────────────────────────────────────────────


def costs(settings: Settings, state: State) -> list[dict[str, Any]]:
    """Measure how well each cost is predicted by a model of the other trials (leave-one-out)."""
    rng = np.random.default_rng(settings.seed)
    found = []
    with one_thread():
        for resource, learner in cost_learners(settings, state).items():
            trials = list(paid(state.history, resource))
            evidence = evidence_of(settings.space, trials, resource)
            report = calibrate(learner, evidence, rng)
            if report is not None:
                found.append(_calibrated(resource, trials, report))
    return found


def _calibrated(resource: str, trials: list[Trial], report: Calibration) -> dict[str, Any]:
    low, middle, high = (np.exp(report.predicted.mean + z * report.predicted.std) for z in Z_80)
    return {
        "resource": resource,
        "model": report.about,
        "because": report.because,
        "costs": len(trials),
        "killed": int(report.at_least.sum()),
        "log_rmse": report.error,
        "coverage": {f"{band:.0%}": report.coverage(band) for band in BANDS},
        "drivers": {
            driver.name: {"share": driver.share, "factor": driver.factor}
            for driver in report.drivers
        },
        "trials": [
            {
                "number": trial.number,
                "state": trial.state,
                "predicted": float(middle[i]),
                "low": float(low[i]),
                "high": float(high[i]),
                "paid": float(trial.cost[resource]),
            }
            for i, trial in enumerate(trials)
        ],
    }


# ── a trial ────────────────────────────────────────────────────────────────────────────────────


def trial_of(history: History, number: int) -> Trial:
    """Return a trial by its number.

    Raises:
        InvalidInput: there is no trial with this number.
    """
    if not 0 <= number < len(history):
        available = f"0 to {len(history) - 1}" if len(history) else "none yet"
        raise InvalidInput(f"There is no trial {number}: the study has {available}.")
    return history[number]


def explanation(settings: Settings, state: State, number: int) -> dict[str, Any]:
    """Explain why a trial was suggested, what was expected of it, and its result.

    The models are fitted again to what was known before the trial.
    """
    history, sign = state.history, settings.sign
    trial = trial_of(history, number)
    first = reasons_of(trial)[0]  # of several parts of a training
    before = state_before(state, replace(trial, run=replace(trial.run, asked_at=first.at)))
    values = (counted_value(settings, t) for t in before.history)
    done = [sign * value for value in values if value is not None]
    with one_thread():
        belief = believed(settings, before, model=True)
        promise = {} if belief.objective is None else _promise(belief, trial)
    own, improved = counted_value(settings, trial), None
    if own is not None and done:
        improved = max(min(done) - sign * own, 0.0)
    return {
        "number": number,
        "params": dict(trial.params),
        "because": first.because,
        "chosen_by": chosen_by(settings, trial),
        "predicted": dict(trial.predicted),
        "best_before": sign * min(done) if done else None,
        "sources": learnt_by(trial),
        "running_then": [t.number for t in before.history.running],
        **promise,
        "state": trial.state,
        "value": trial.value,
        "counted_value": own,
        "cost": dict(trial.cost),
        "improved_by": improved,
        "constraints": _constraints(settings, belief, trial),
        "error": trial.error,
        "metrics": dict(trial.run.metrics),
        "reports": [dict(line) for line in trial.run.reports],
        "curve": [point._asdict() for point in trial.curve],
        "parts": parts_of(trial) if trial.curve else [],
        "going_on": going_on(settings, trial),
        "slot": trial.run.slot,
        "worker": trial.run.worker,
        "log": trial.run.log,
        "tail": trial.run.tail,
        "suggest_s": trial.run.suggest_s,
    }


def _constraints(settings: Settings, belief: Belief, trial: Trial) -> dict[str, dict[str, Any]]:
    """For each constraint: its condition, what was measured, and the probability to meet it."""
    predicted = {
        model.name: float(np.exp(model.log_probability(trial.x[None])[0]))
        for model in belief.feasibility
    }
    return {
        each.name: {
            "condition": str(each),
            "measured": trial.run.metrics.get(each.name),
            "met": bool(each.excess(trial) <= 0) if trial.state == "done" else None,
            "probability": predicted.get(each.name),
        }
        for each in settings.bounds
    }


def state_before(state: State, trial: Trial) -> State:
    """Reconstruct the state at the time when a trial was suggested."""
    history, ledger = _history_before(state.history, trial), _ledger_before(state, trial)
    return replace(state, history=history, ledger=ledger)


def _history_before(history: History, trial: Trial) -> History:
    """The history when a trial was suggested: trials reported later were still running."""
    trials = []
    for earlier in history.trials[: trial.number]:
        reported_at = earlier.run.told_at
        if reported_at is None or reported_at > trial.run.asked_at:
            known = [r.step for r in reasons_of(earlier) if r.at <= trial.run.asked_at]
            curve = tuple(p for p in earlier.curve if p.step <= max(known, default=0))
            earlier = replace(
                earlier, state="running", value=None, cost={}, error=None, curve=curve
            )
        trials.append(earlier)
    return History(tuple(trials))


def _ledger_before(state: State, trial: Trial) -> Ledger:
    """The ledger when a trial was suggested.

    The spending of today is scaled by the share of all reported costs that was reported by then.
    """
    now = state.ledger
    limits = {name: now[name].limit for name in now if math.isfinite(now[name].limit)}
    own = [t for t in state.history if not t.is_external]
    reported = [t for t in own if t.run.told_at is not None]
    earlier = [
        t for t in reported if t.run.told_at is not None and t.run.told_at <= trial.run.asked_at
    ]
    paid: dict[str, float] = {}
    for resource in now:
        total = sum(t.cost.get(resource, 0.0) for t in reported)
        if resource != "trials" and total > 0:
            share = sum(t.cost.get(resource, 0.0) for t in earlier) / total
            paid[resource] = now[resource].spent * share
    return Ledger.of(Budget(limits) if limits else None).pay(paid)


def _promise(belief: Belief, trial: Trial) -> dict[str, Any]:
    """Compare the expected improvement and cost of a trial with those of many other points."""
    space = belief.space
    X = space.rows if space.rows is not None else space.spread(sobol(CANDIDATES, space.d))
    X = np.concatenate([trial.x[None], np.asarray(X)])
    outlook = belief.outlook(X)
    log_ei, log_cost = log_ei_per_cost(0.0)(outlook).score, -cheapness(outlook).score
    fits = outlook.shortfall <= 0
    fits[0] = True
    log_ei, log_cost = log_ei[fits], log_cost[fits]
    rows = front(log_ei, log_cost)
    best_as_cheap = log_ei[log_cost <= log_cost[0]].max()
    alpha = implied_alpha(log_ei, log_cost, 0)
    return {
        "expected_improvement": float(np.exp(log_ei[0])) if belief.has_incumbent else None,
        "share_of_the_most": float(np.exp(log_ei[0] - log_ei.max())),
        "on_the_front": bool(log_ei[0] >= best_as_cheap - ON_THE_FRONT),
        "cheaper_on_the_front": int(np.sum(log_cost[rows] < log_cost[0])),
        "front": len(rows),
        "alpha": [alpha.low, alpha.high if math.isfinite(alpha.high) else None]
        if alpha.supported
        else None,
    }
