"""Values, costs and trials as a person reads them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from farthing.budget.ledger import Ledger
from farthing.budget.units import format_amount
from farthing.history import Trial

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
    "time_line",
    "trial_line",
]


def shown(value: Any) -> str:
    """A value."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if text.isprintable() else repr(text)


def shown_params(params: Mapping[str, Any]) -> str:
    """Parameters in one line."""
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={shown(value)}"
        for name, value in params.items()
    )


def amounts(cost: Mapping[str, float]) -> str:
    """A cost in one line."""
    return ", ".join(format_amount(resource, amount) for resource, amount in cost.items())


def first_line(error: str) -> str:
    """What was wrong: the first line, or the last of a traceback; of a program, both. A line that
    ends in a colon has what it announces after it.
    """
    lines = error.strip().splitlines() or [""]
    said = ""
    if lines[0].endswith(":") and not lines[0].startswith("Traceback") and len(lines) > 1:
        said = f"{lines.pop(0)} "
    if lines[0].startswith("Traceback"):
        return said + lines[-1]
    ended = lines[0].startswith("it ended with exit code") and len(lines) > 1
    return said + (f"{lines[0]}: {lines[-1].strip()}" if ended else lines[0])


def trial_line(trial: Trial) -> str:
    """A trial that has ended: what came of it, what it cost, and where it was."""
    result = f"{trial.value:.6g}" if trial.value is not None else trial.state
    line = f"trial {trial.number}: {result}"
    if trial.cost:
        line += f" {'after' if trial.value is None else 'for'} {amounts(trial.cost)}"
        line += f", about {amounts(trial.predicted)} expected" if trial.predicted else ""
    line += f"  {shown_params(trial.params)}"
    return f"{line}  ({first_line(trial.error)})" if trial.error else line


def best_line(best: Trial | None) -> str:
    """What was found."""
    if best is None:
        return "no trial returned a value"
    return f"{best.value:.6g} (trial {best.number}) at {shown_params(best.params)}"


def counted(trials: Iterable[Trial]) -> str:
    """How many trials ended how: `3 done, 1 failed`."""
    states = Counter(trial.state for trial in trials)
    return ", ".join(f"{count} {state}" for state, count in states.items())


def counted_trials(count: int) -> str:
    """`1 trial`, `2 trials`."""
    return format_amount("trials", float(count))


def spent(ledger: Ledger) -> str:
    """What was paid of each budget, in one line."""
    return ", ".join(_paid(ledger, resource) for resource in accounts(ledger))


def accounts(ledger: Ledger) -> list[str]:
    """The resources that somebody limited, or of which something was spent."""
    return [r for r in ledger if math.isfinite(ledger[r].limit) or ledger[r].spent]


def time_line(elapsed_s: float, overhead_s: float) -> str:
    """How long it was worked on."""
    return f"{format_amount('s', elapsed_s)}, {format_amount('s', overhead_s)} of it thinking"


def account_line(ledger: Ledger, resource: str) -> str:
    """One budget: spent, reserved, thinking."""
    account = ledger[resource]
    line = f"{_paid(ledger, resource)} spent"
    if account.reserved:
        line += f", {format_amount(resource, account.reserved)} reserved"
    if account.overhead:
        line += f", {format_amount(resource, account.overhead)} of it thinking"
    return line


def _paid(ledger: Ledger, resource: str) -> str:
    account = ledger[resource]
    text = format_amount(resource, account.spent)
    limited = math.isfinite(account.limit)
    if limited and resource == "trials":  # 3 of 9 trials
        text = text.partition(" ")[0]
    if limited and resource == "worker_s":  # 3 s of 9 s of worker time
        text = format_amount("s", account.spent)
    return f"{text} of {format_amount(resource, account.limit)}" if limited else text
