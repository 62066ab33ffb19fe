"""The contents of a report besides its figures, as plain values and as text."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from farthing.acquisition.protocols import NOTHING_FEASIBLE
from farthing.budget.ledger import Ledger
from farthing.core.command import filled
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial, one_thread, suggest
from farthing.errors import FarthingError
from farthing.history import Trial
from farthing.view.figures import next_trial
from farthing.view.figures.prospect import NextTrial
from farthing.view.formatting import (
    account_line,
    amounts,
    best_line,
    counted,
    first_line,
    spent,
    why_no_best,
)
from farthing.view.learnt import Learnt, learnt_from, learnt_line
from farthing.view.primitives import visible
from farthing.view.saved import NOTHING_SAVED, Saved, saved_by_pausing

__all__ = [
    "NO_FORECAST",
    "ReportFacts",
    "copies",
    "lead",
    "report_facts",
    "report_text",
    "status_sentence",
]

MAX_COPIED = 20_000  # characters of a configuration
NO_FORECAST = "there is no model yet to predict its result"


@dataclass(frozen=True)
class ReportFacts:
    """The facts about a study at one moment.

    Attributes:
        status: a sentence: whether the study is running, or why it stopped.
        trials: the number of trials in each state.
        next_trial: the expected result of one more trial; None: no model can predict it.
        why_no_best: why there is no best trial; "" if there is one.
        is_infeasible: whether trials returned values, but none meets the constraints.
        saved: what pausing trainings has saved.
        learnt: the earlier studies from which it learns.
    """

    name: str
    direction: str
    status: str
    trials: str
    best: Trial | None
    ledger: Ledger
    next_trial: NextTrial | None
    why_no_best: str = ""
    is_infeasible: bool = False
    saved: Saved = NOTHING_SAVED
    learnt: tuple[Learnt, ...] = ()

    @property
    def forecast(self) -> str:
        """What one more trial is expected to bring, or why nothing can be expected."""
        if self.next_trial is not None:
            return str(self.next_trial)
        return NOTHING_FEASIBLE.because if self.is_infeasible else NO_FORECAST


def report_facts(name: str, settings: Settings, state: State) -> ReportFacts:
    """Collect the facts for a report; this fits the models."""
    try:
        forecast = next_trial(settings, state)
    except FarthingError:
        forecast = None
    best = best_trial(settings, state.history)
    return ReportFacts(
        name,
        settings.direction,
        status_sentence(settings, state),
        counted(state.history) or "none",
        best,
        state.ledger,
        forecast,
        "" if best is not None else why_no_best(settings.bounds, state.history),
        best is None and bool(state.history.done),
        saved_by_pausing(settings, state),
        learnt_from(settings, state),
    )


def status_sentence(settings: Settings, state: State, *, suggestion: bool = True) -> str:
    """Say whether a study is running, or why it stopped.

    Args:
        suggestion: if the study is idle, also compute whether the stopping rule would stop it.
    """
    running = state.history.running
    if running:
        numbers = ", ".join(str(trial.number) for trial in running[:8])
        more = f" and {len(running) - 8} more" if len(running) > 8 else ""
        status = f"running: trial{'s' if len(running) > 1 else ''} {numbers}{more}"
        return f"{status}; {state.stop_requested}" if state.stop_requested else status
    if reason := state.stop_reason or state.stop_requested:
        return f"stopped: {first_line(reason.sentence)}"
    if not suggestion:
        return "no trial is running"
    try:
        with one_thread():
            verdict = suggest(settings, state).verdict
    except FarthingError as error:
        return f"no trial is running; {error}"
    return f"{'should stop' if verdict.stop else 'can continue'}: {verdict.because}"


def lead(facts: ReportFacts, settings: Settings) -> str:
    """The first paragraph: what was tuned, what was spent, what was found, whether to continue."""
    names = settings.space.names
    what = f"{len(names)} parameter{'s' * (len(names) > 1)} ({visible(', '.join(names), 120)})"
    better = "lowest" if settings.direction == "minimize" else "highest"
    text = f"This study tuned {what} for the {better} {visible(settings.metric, 40)}. "
    text += f"It spent {spent(facts.ledger) or 'nothing'} (trials: {facts.trials}). "
    if facts.best is None:
        text += f"It found nothing yet: {facts.why_no_best}. "
    else:
        paid = f", for {amounts(facts.best.cost)}" if facts.best.cost else ""
        text += f"The best value is {facts.best.value:.6g}, of trial {facts.best.number}{paid}. "
    forecast = facts.forecast
    return visible(f"{text}{forecast[:1].upper()}{forecast[1:]}.", 2000)


def copies(settings: Settings, trial: Trial) -> dict[str, str]:
    """A configuration to copy: as a command line, as Python and as JSON."""
    params = dict(trial.params)
    found = {
        "command line": _command(settings, params),
        "Python": repr(params),
        "JSON": json.dumps(params, indent=2, ensure_ascii=False, default=str),
    }
    hint = f"too long to show here; run: farthing explain {trial.number} --format json"
    return {kind: text if len(text) <= MAX_COPIED else hint for kind, text in found.items()}


def _command(settings: Settings, params: dict[str, Any]) -> str:
    if settings.command is not None:
        return shlex.join(filled(settings.command, params))
    return shlex.join(f"--{name}={value}" for name, value in params.items())


def report_text(facts: ReportFacts) -> str:
    """The report as text."""
    ledger = facts.ledger
    lines = {
        "study": facts.name,
        "state": facts.status,
        "trials": facts.trials,
        "best": facts.why_no_best if facts.best is None else best_line(facts.best),
        "budget": "; ".join(account_line(ledger, resource) for resource in ledger),
        **({"saved": str(facts.saved)} if facts.saved.trials else {}),
        **({"learnt": f"from {learnt_line(facts.learnt)}"} if facts.learnt else {}),
        "next": facts.forecast,
    }
    return "\n".join(f"{name + ':':<8} {text}" for name, text in lines.items())
