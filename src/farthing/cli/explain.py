"""`farthing explain`: why a trial was chosen, what it was expected to buy, and what it did."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from farthing.acquisition import cheapness, log_ei_per_cost
from farthing.cli.options import as_data, open_study, where
from farthing.cli.output import amounts, print_one, shown, shown_params
from farthing.errors import InvalidInput
from farthing.front import front, implied_alpha
from farthing.history import History, Trial
from farthing.ledger import Budget, Ledger

if TYPE_CHECKING:
    from farthing.belief import Belief
    from farthing.plan import Plan
    from farthing.study import Study

__all__ = ["explain"]

CANDIDATES = 2048  # points the choice is compared with
ON_THE_FRONT = 1e-6  # in ln EI: as good as the best for its price


@click.command()
@click.argument("number", type=int)
@where
@as_data
def explain(number: int, storage: str | None, name: str | None, kind: str) -> None:
    """Why trial NUMBER was chosen, and what came of it.

    What is believed of the objective and of the costs is worked out again from the trials before
    it; the point is then compared with many others, what they promise against what they cost.
    """
    study = open_study(storage, name)
    try:
        facts = _facts(study, number)
        print_one(facts, kind, table=_words(facts))
    finally:
        study.close()


def _facts(study: Study, number: int) -> dict[str, Any]:
    """The explanation as plain values."""
    from farthing.plan import one_thread, what_is_believed

    records = study.records()
    if not 0 <= number < len(records):
        last = len(records) - 1
        there = f"0 to {last}" if last >= 0 else "none yet"
        raise InvalidInput(f"There is no trial {number}: the study has {there}.")
    plan, record = _plan(study), records[number]
    trial, before = study.history[number], _history_before(study, records, number)
    done = [plan.sign * t.value for t in before.done if t.value is not None]
    facts: dict[str, Any] = {
        "number": number,
        "params": dict(trial.params),
        "because": trial.because,
        "predicted": dict(trial.predicted),
        "best_before": plan.sign * min(done) if done else None,
        "running_then": [t.number for t in before.running],
    }
    with one_thread():
        belief = what_is_believed(
            _with_models(plan), before, _ledger_before(study, records, number)
        )
        if belief.objective is not None:
            facts |= _promise(belief, trial)
    improved = None
    if trial.value is not None:
        improved = max(min(done) - plan.sign * trial.value, 0.0) if done else None
    return facts | {
        "state": trial.state,
        "value": trial.value,
        "cost": dict(trial.cost),
        "improved_by": improved,
        "error": trial.error,
        "think_s": record["think_s"],
    }


def _plan(study: Study) -> Plan:
    from farthing.storage import restore_settings
    from farthing.storage.text import to_text

    return restore_settings(to_text(study.settings)).plan


def _with_models(plan: Plan) -> Plan:
    """The same, looking at models even where its policy does not."""
    from farthing.policies import EI

    return replace(plan, policy=EI())


def _history_before(study: Study, records: list[dict[str, Any]], number: int) -> History:
    """What was known when a trial was asked: those told later were still running."""
    asked = records[number]["asked_at"]
    known = []
    for trial, record in zip(study.history, records[:number], strict=False):
        if record["told_at"] is None or record["told_at"] > asked:
            trial = replace(trial, state="running", value=None, cost={}, error=None)
        known.append(trial)
    return History(tuple(known))


def _ledger_before(study: Study, records: list[dict[str, Any]], number: int) -> Ledger:
    """What was left then, as far as the trials tell: spent in proportion to what was paid."""
    asked, now, ledger = records[number]["asked_at"], study.ledger, _empty(study.ledger)
    told = [r for r in records if r["told_at"] is not None]
    paid: dict[str, float] = {}
    for resource in ledger:
        total = sum(r["cost"].get(resource, 0.0) for r in told)
        then = sum(r["cost"].get(resource, 0.0) for r in told if r["told_at"] <= asked)
        if resource != "trials" and total > 0:
            paid[resource] = now[resource].spent * then / total
    return ledger.pay(paid)


def _empty(ledger: Ledger) -> Ledger:
    limits = {name: ledger[name].limit for name in ledger if math.isfinite(ledger[name].limit)}
    return Ledger.of(Budget(limits) if limits else None)


def _promise(belief: Belief, trial: Trial) -> dict[str, Any]:
    """The place of a point among many others: improvement against cost."""
    from farthing.search import sobol

    space = belief.space
    X = space.rows if space.rows is not None else space.spread(sobol(CANDIDATES, space.d))
    X = np.concatenate([trial.x[None], np.asarray(X)])
    outlook = belief.outlook(X)
    log_ei, log_cost = log_ei_per_cost(0.0)(outlook).score, -cheapness(outlook).score
    fits = outlook.shortfall <= 0
    fits[0] = True
    log_ei, log_cost = log_ei[fits], log_cost[fits]
    rows = front(log_ei, log_cost)
    as_cheap = log_ei[log_cost <= log_cost[0]].max()
    alpha = implied_alpha(log_ei, log_cost, 0)
    return {
        "expected_improvement": float(np.exp(log_ei[0])),
        "share_of_the_most": float(np.exp(log_ei[0] - log_ei.max())),
        "on_the_front": bool(log_ei[0] >= as_cheap - ON_THE_FRONT),
        "cheaper_on_the_front": int(np.sum(log_cost[rows] < log_cost[0])),
        "front": len(rows),
        "alpha": [alpha.low, alpha.high if math.isfinite(alpha.high) else None]
        if alpha.supported
        else None,
    }


def _words(facts: dict[str, Any]) -> dict[str, str]:
    predicted = facts["predicted"]
    words = {
        "trial": f"{facts['number']} at {shown_params(facts['params'])}",
        "because": facts["because"],
        "expected": f"a cost of {amounts(predicted)}" if predicted else "no cost: none was known",
    }
    if "front" in facts:
        words["expected"] += (
            f", and to improve by {shown(facts['expected_improvement'])}: "
            f"{facts['share_of_the_most']:.0%} of the most any point promised"
        )
        place = "on" if facts["on_the_front"] else "below"
        words["front"] = (
            f"{place} the front of improvement against cost, which has {facts['front']} points; "
            f"{facts['cheaper_on_the_front']} of them cheaper. {_exponent(facts['alpha'])}"
        )
    else:
        words["front"] = "there was no model yet to compare it with"
    if facts["running_then"]:
        words["meanwhile"] = f"trial {', '.join(map(str, facts['running_then']))} was running"
    words["result"] = _result(facts)
    return words


def _exponent(alpha: list[float | None] | None) -> str:
    if alpha is None:
        return "No exponent a in EI / cost^a would have chosen it."
    low, high = alpha
    until = "on" if high is None else f"to {high:.2f}"
    return f"EI / cost^a chooses it for a from {low:.2f} {until}."


def _result(facts: dict[str, Any]) -> str:
    value, before = facts["value"], facts["best_before"]
    said = facts["state"] if value is None else f"{value:.6g}"
    if facts["cost"]:
        said += f" for {amounts(facts['cost'])}"
    if value is not None and before is not None:
        gained = facts["improved_by"]
        said += f"; the best was {before:.6g}, " + (
            f"{gained:.4g} better" if gained else "no improvement"
        )
    return said if facts["error"] is None else f"{said}: {facts['error'].strip().splitlines()[0]}"
