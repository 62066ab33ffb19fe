"""The key figures of a study as plain values: status, budget, best trial and running trials."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.errors import FarthingError
from farthing.history import Trial
from farthing.view.figures.prospect import next_trial
from farthing.view.figures.spending import main_resource
from farthing.view.formatting import accounts, time_of, why_no_best
from farthing.view.primitives import visible
from farthing.view.report.report_facts import NO_FORECAST, status_sentence
from farthing.view.saved import HOW_SAVED, saved_by_pausing

__all__ = ["forecast_values", "key_figures", "next_trial_values", "time_left"]

MAX_RUNNING = 50  # running trials that are listed


def key_figures(settings: Settings, state: State) -> dict[str, Any]:
    """What the first screen of a study shows besides its trials; this fits no model."""
    history, ledger = state.history, state.ledger
    best, saved = best_trial(settings, history), saved_by_pausing(settings, state)
    elapsed, overhead = time_of(state)
    return {
        "status": visible(status_sentence(settings, state, suggestion=False), 500),
        "phase": "running" if history.running else "stopped" if _has_stopped(state) else "idle",
        "metric": visible(settings.metric, 40),
        "direction": settings.direction,
        "resource": main_resource(settings, state),
        "accounts": [
            {
                "resource": resource,
                "limit": ledger[resource].limit if math.isfinite(ledger[resource].limit) else None,
                "spent": ledger[resource].spent,
                "overhead": ledger[resource].overhead,
                "reserved": ledger[resource].reserved,
            }
            for resource in accounts(ledger)
        ],
        "states": dict(Counter(trial.state for trial in history)),
        "best": None if best is None else best.number,
        "why_no_best": "" if best is not None else why_no_best(settings.bounds, history),
        "elapsed_s": elapsed,
        "overhead_s": overhead,
        "left_s": time_left(state),
        "saved": f"{saved}. {HOW_SAVED}" if saved.trials else "",
        "running": [_running(trial) for trial in history.running[:MAX_RUNNING]],
        "rule": "" if settings.stop is None else visible(repr(settings.stop), 200),
    }


def _has_stopped(state: State) -> bool:
    return bool(state.stop_reason or state.stop_requested)


def _running(trial: Trial) -> dict[str, Any]:
    step, last = _last_report(trial)
    return {
        "number": trial.number,
        "cost": dict(trial.cost),
        "expected": dict(trial.predicted),
        "step": step,
        "last": last,
        "worker": visible(trial.run.worker or "", 60),
        "params": [[visible(n, 60), _number_or_text(v)] for n, v in trial.params.items()],
    }


def _last_report(trial: Trial) -> tuple[int | None, float | None]:
    """The latest step that a running trial has reported, and its value there."""
    if trial.curve:
        reached = trial.curve[-1].value
        return trial.step, reached if math.isfinite(reached) else None
    line = trial.run.reports[-1] if trial.run.reports else {}
    step, last = line.get("step"), line.get("value")
    if isinstance(step, int) and isinstance(last, int | float) and math.isfinite(last):
        return step, float(last)
    return None, None


def _number_or_text(value: Any) -> float | str:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return value
    return visible(value, 80)


def time_left(state: State) -> float | None:
    """Seconds until the first account is used up, at the rate of spending so far.

        min over limited resources of  (limit - spent) x elapsed / spent

    None: no account has a limit and some spending, or no time was measured.
    """
    elapsed, ledger = time_of(state)[0], state.ledger
    found = [
        max(account.limit - account.spent, 0.0) * elapsed / account.spent
        for account in (ledger[resource] for resource in ledger)
        if math.isfinite(account.limit) and account.spent > 0
    ]
    return min(found) if found and elapsed > 0 else None


def forecast_values(settings: Settings, state: State) -> dict[str, Any]:
    """What one more trial would buy, and what the stopping rule says; this fits the models."""
    verdict = visible(status_sentence(settings, state), 500)
    return {**next_trial_values(settings, state), "verdict": verdict}


def next_trial_values(settings: Settings, state: State) -> dict[str, Any]:
    """What one more trial would buy: a sentence, and numbers if there are any."""
    try:
        found = next_trial(settings, state)
    except FarthingError as error:
        return {"sentence": visible(error, 300)}
    if found is None:
        return {"sentence": NO_FORECAST}
    worth_it = None
    if found.worth is not None and found.per_cost is not None:
        worth_it = found.per_cost > found.worth
    return {
        "sentence": str(found),
        "gain": found.gain,
        "cost": found.cost,
        "per_cost": found.per_cost,
        "worth": found.worth,
        "worth_it": worth_it,
        "afforded": found.afforded,
    }
