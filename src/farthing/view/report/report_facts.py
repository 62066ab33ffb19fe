"""What a report says besides its figures, as plain values: the best, the ledger, why it stopped."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from farthing.budget.ledger import Ledger
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial, one_thread, suggest
from farthing.errors import FarthingError
from farthing.history import Trial
from farthing.running import CommandTask
from farthing.view.figures import next_buy
from farthing.view.figures.prospect import Buy
from farthing.view.formatting import account_line, best_line, counted, first_line

__all__ = ["ReportFacts", "copies", "in_words", "report_facts", "standing"]

MOST_COPIED = 20_000  # characters of a configuration


@dataclass(frozen=True)
class ReportFacts:
    """A study at one moment.

    Attributes:
        standing: whether it runs, or why it stopped.
        buy: what one more trial would buy; None: there is no model yet, or it cannot be said.
    """

    name: str
    direction: str
    standing: str
    trials: str
    best: Trial | None
    ledger: Ledger
    buy: Buy | None


def report_facts(name: str, settings: Settings, state: State) -> ReportFacts:
    """Everything a report says; it takes a thought or two."""
    try:
        buy = next_buy(settings, state)
    except FarthingError:
        buy = None
    return ReportFacts(
        name,
        settings.direction,
        standing(settings, state),
        counted(state.history) or "none",
        best_trial(settings, state.history),
        state.ledger,
        buy,
    )


def standing(settings: Settings, state: State, *, suggestion: bool = True) -> str:
    """Whether a study runs, or why it stopped; with a `suggestion`, also whether it should."""
    running = state.history.running
    if running:
        numbers = ", ".join(str(trial.number) for trial in running[:8])
        more = f" and {len(running) - 8} more" if len(running) > 8 else ""
        said = f"running: trial {numbers}{more}"
        return f"{said}; {state.halted}" if state.halted else said
    if reason := state.stop_reason or state.halted:
        return f"stopped: {first_line(reason.sentence)}"
    if not suggestion:
        return "nothing is running"
    try:
        with one_thread():
            verdict = suggest(settings, state).verdict
    except FarthingError as error:
        return f"nothing is running; {error}"
    return f"{'time to stop' if verdict.stop else 'it may go on'}: {verdict.because}"


def copies(settings: Settings, trial: Trial) -> dict[str, str]:
    """A configuration to copy: as a command line, in Python, as JSON."""
    params = dict(trial.params)
    found = {
        "command line": _command(settings, params),
        "Python": repr(params),
        "JSON": json.dumps(params, indent=2, ensure_ascii=False, default=str),
    }
    hint = f"too long to show here: farthing explain {trial.number} --format json"
    return {kind: text if len(text) <= MOST_COPIED else hint for kind, text in found.items()}


def _command(settings: Settings, params: dict[str, Any]) -> str:
    if settings.command is not None:
        return shlex.join(CommandTask(settings.command).filled(params))
    return shlex.join(f"--{name}={value}" for name, value in params.items())


def in_words(account: ReportFacts) -> str:
    """The report as text."""
    ledger = account.ledger
    lines = {
        "study": account.name,
        "state": account.standing,
        "trials": account.trials,
        "best": best_line(account.best),
        "budget": "; ".join(account_line(ledger, resource) for resource in ledger),
        "go on?": "no model can say yet" if account.buy is None else str(account.buy),
    }
    return "\n".join(f"{name + ':':<8} {text}" for name, text in lines.items())
