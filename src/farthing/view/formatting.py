"""Text for values, costs, budgets and trials."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from farthing.budget.ledger import Ledger
from farthing.budget.units import format_amount
from farthing.core.state import State
from farthing.history import Trial
from farthing.models.constraints import Constraint, infeasible_because

__all__ = [
    "account_line",
    "accounts",
    "amounts",
    "best_line",
    "counted",
    "counted_trials",
    "first_line",
    "shown",
    "shown_params",
    "spent",
    "state_of",
    "time_line",
    "time_of",
    "trial_line",
    "why_no_best",
    "without_controls",
]

# What a terminal would execute, or show in another order; not the ends of lines, and tabs.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def shown(value: Any) -> str:
    """Format a value; a string that is not printable is shown as its `repr`."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if text.isprintable() else repr(text)


def without_controls(text: str) -> str:
    """A text of other programs for a terminal: its control sequences are shown as escapes."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown_params(params: Mapping[str, Any]) -> str:
    """Format parameters in one line: `lr=0.01, depth=4`."""
    return ", ".join(
        f"{shown(name)}={f'{value:.4g}' if isinstance(value, float) else shown(value)}"
        for name, value in params.items()
    )


def amounts(cost: Mapping[str, float]) -> str:
    """Format a cost in one line: `$3.50, 1 m 30 s`."""
    return ", ".join(format_amount(resource, amount) for resource, amount in cost.items())


def first_line(error: str) -> str:
    """Summarise an error in one line.

    This is the first line, or the last line of a traceback. If a program ended with an exit code,
    the result has both lines. If the first line ends in a colon, the next line is added.
    """
    lines = without_controls(error.strip()).splitlines() or [""]
    prefix = ""
    if lines[0].endswith(":") and not lines[0].startswith("Traceback") and len(lines) > 1:
        prefix = f"{lines.pop(0)} "
    if lines[0].startswith("Traceback"):
        return prefix + lines[-1]
    has_exit_code = lines[0].startswith("it ended with exit code") and len(lines) > 1
    return prefix + (f"{lines[0]}: {lines[-1].strip()}" if has_exit_code else lines[0])


def trial_line(trial: Trial) -> str:
    """Summarise a finished trial: its value or state, its cost and its parameters."""
    result = f"{trial.value:.6g}" if trial.value is not None else trial.state
    line = f"trial {trial.number}: {result}"
    if trial.state == "paused":
        line += f" ({state_of(trial.state, trial.step)})"
    elif trial.value is None and trial.curve:
        line += f" ({trial.curve[-1].value:.6g} at step {trial.step})"
    if trial.cost:
        line += f" {'after' if trial.value is None else 'for'} {amounts(trial.cost)}"
        line += f", about {amounts(trial.predicted)} expected" if trial.predicted else ""
    line += f"  {shown_params(trial.params)}"
    return f"{line}  ({first_line(trial.error)})" if trial.error else line


def state_of(state: str, step: int | None) -> str:
    """The state of a trial, of a paused one with its step: `paused at step 8`."""
    return f"{state} at step {step}" if state == "paused" and step else state


def why_no_best(constraints: Sequence[Constraint], trials: Iterable[Trial]) -> str:
    """Why there is no best trial: no trial returned a value, or none meets the constraints."""
    done = [trial for trial in trials if trial.state == "done"]
    return infeasible_because(constraints, done) if done else "no trial returned a value"


def best_line(best: Trial) -> str:
    """Summarise the best trial."""
    return f"{best.value:.6g} (trial {best.number}) at {shown_params(best.params)}"


def counted(trials: Iterable[Trial]) -> str:
    """Count the trials in each state: `3 done, 1 failed`."""
    states = Counter(trial.state for trial in trials)
    return ", ".join(f"{count} {state}" for state, count in states.items())


def counted_trials(count: int) -> str:
    """Format a number of trials: `1 trial`, `2 trials`."""
    return format_amount("trials", float(count))


def spent(ledger: Ledger) -> str:
    """Format the spending of each account in one line: `$3.00 of $10.00, 1 of 5 trials`."""
    return ", ".join(_spent_of_limit(ledger, resource) for resource in accounts(ledger))


def accounts(ledger: Ledger) -> list[str]:
    """The resources that have a limit or some spending."""
    return [r for r in ledger if math.isfinite(ledger[r].limit) or ledger[r].spent]


def time_line(elapsed_s: float, overhead_s: float) -> str:
    """Format the time spent on a study, and how much of it was overhead."""
    return f"{format_amount('s', elapsed_s)}, {format_amount('s', overhead_s)} of it overhead"


def time_of(state: State) -> tuple[float, float]:
    """Elapsed seconds and overhead seconds of a study, from the account `s` if there is one."""
    if "s" in state.ledger:
        return state.ledger["s"].spent, state.ledger["s"].overhead
    return state.elapsed_s, state.overhead_s


def account_line(ledger: Ledger, resource: str) -> str:
    """Format one account: spent, reserved, overhead."""
    account = ledger[resource]
    line = f"{_spent_of_limit(ledger, resource)} spent"
    if account.reserved:
        line += f", {format_amount(resource, account.reserved)} reserved"
    if account.overhead:
        line += f", {format_amount(resource, account.overhead)} of it overhead"
    return line


def _spent_of_limit(ledger: Ledger, resource: str) -> str:
    account = ledger[resource]
    text = format_amount(resource, account.spent)
    limited = math.isfinite(account.limit)
    if limited and resource == "trials":  # "3 of 9 trials"
        text = text.partition(" ")[0]
    if limited and resource == "worker_s":  # "3 s of 9 s of worker time"
        text = format_amount("s", account.spent)
    return f"{text} of {format_amount(resource, account.limit)}" if limited else text
