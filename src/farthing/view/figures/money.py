"""How the budget was used: by trials in each state and by overhead; what is reserved and left."""

from __future__ import annotations

import math

from farthing.budget.units import format_amount
from farthing.core.settings import Settings
from farthing.core.shares import cost_of
from farthing.core.state import State
from farthing.history import TrialState
from farthing.view.primitives import Figure, Layer, Panel, Segments, axis, named

__all__ = ["WORDS", "money", "money_of"]

# The parts of an account in the order of drawing, with their labels. Each key is also a style.
WORDS = {
    "done": "useful",
    "paused": "paused trainings",
    "failed": "failed",
    "killed": "killed",
    "lost": "lost",
    "overhead": "overhead",
    "other": "waiting and start-up",
    "running": "reserved for running trials",
    "left": "left",
}
ENDED: tuple[TrialState, ...] = ("done", "paused", "failed", "killed", "lost")
OVERLAP = 1.02  # sum of costs / spending above which trials must have run at the same time


def money_of(state: State, resource: str) -> dict[str, float]:
    """Split one account into parts that add up to its spent, reserved and remaining amounts.

    The costs of trials add up to the spending, except for wall-clock time. If workers overlap, each
    trial counts with its share of the spending. If the spending exceeds the costs, the rest is
    `other`.
    """
    account, parts = state.ledger[resource], _costs(state, resource)
    paid, total = account.spent - account.overhead, math.fsum(parts.values())
    if total > paid:
        parts = {kind: amount * max(paid, 0.0) / total for kind, amount in parts.items()}
    parts["overhead"] = account.overhead
    parts["other"] = max(paid - total, 0.0)
    parts["running"] = account.reserved
    parts["left"] = account.left if math.isfinite(account.limit) else 0.0
    return parts


def _costs(state: State, resource: str) -> dict[str, float]:
    """The costs of the trials in each state."""
    return {
        kind: math.fsum(cost_of(t, resource) for t in state.history.having(kind)) for kind in ENDED
    }


def money(settings: Settings, state: State) -> Figure:
    """Draw each account as one bar."""
    ledger = state.ledger
    accounts = [r for r in ledger if math.isfinite(ledger[r].limit) or ledger[r].spent > 0]
    name, title = "money", "Where the budget went"
    if not accounts:
        return Figure(name, title, (), "", "Nothing has been spent, and the budget has no limit.")
    parts = {resource: money_of(state, resource) for resource in accounts}
    ends = dict.fromkeys(accounts, 0.0)
    layers: list[Layer] = []
    for kind, word in WORDS.items():
        lanes = [r for r in accounts if parts[r][kind] > _least(parts[r])]
        if not lanes:
            continue
        start = {r: ends[r] for r in lanes}
        for r in lanes:
            ends[r] += 100 * parts[r][kind] / math.fsum(parts[r].values())
        amounts = [format_amount(r, parts[r][kind]) for r in lanes]
        layers.append(
            Segments(
                tuple(start[r] for r in lanes),
                tuple(ends[r] for r in lanes),
                tuple(float(accounts.index(r)) for r in lanes),
                kind,
                f"{word}: {', '.join(amounts)}",
                thick=0.6,
                texts=tuple(f"{word}: {amount}" for amount in amounts),
            )
        )
    limits = [math.isfinite(state.ledger[resource].limit) for resource in accounts]
    whole = "% of the budget" if any(limits) else "% of the spending"
    if any(limits) and not all(limits):
        whole += ", or of the spending if there is no limit"
    x = axis(whole, (0.0, 100.0), zero=True, tight=True)
    panel = Panel(x, named("", accounts), tuple(layers))
    return Figure(name, title, (panel,), _caption(state, accounts, parts))


def _least(parts: dict[str, float]) -> float:
    """The smallest part of an account that is drawn; less may be a rounding error."""
    return 1e-9 * math.fsum(parts.values())


def _caption(state: State, accounts: list[str], parts: dict[str, dict[str, float]]) -> str:
    sentences, overlapping = [], ""
    for resource in accounts:
        spent = state.ledger[resource].spent
        if spent > 0:
            share = parts[resource]["done"] / spent
            amount = format_amount(resource, spent)
            sentences.append(f"{share:.0%} of {amount} paid for trials that returned a value")
            costs = math.fsum(_costs(state, resource).values())
            if costs > OVERLAP * spent:
                overlapping = (
                    " Trials ran at the same time, so each counts with its share of the spending. "
                    f"Their own costs add up to {format_amount(resource, costs)}."
                )
    return f"{'; '.join(sentences)}.{overlapping}" if sentences else "Nothing has been spent yet."
