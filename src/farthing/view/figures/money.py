"""Where the money went: useful, failed, killed, lost, thinking; held for what runs; left."""

from __future__ import annotations

import math

from farthing.budget.units import format_amount
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.view.figures.spending import cost_of
from farthing.view.primitives import Figure, Layer, Panel, Segments, axis, named

__all__ = ["WORDS", "money", "money_of"]

# The parts in their order, what they are called, and their style.
WORDS = {
    "done": "useful",
    "failed": "failed",
    "killed": "killed",
    "lost": "lost",
    "overhead": "overhead",
    "other": "waiting and starting",
    "running": "held for what runs",
    "left": "left",
}


def money_of(state: State, resource: str) -> dict[str, float]:
    """The parts of one account, which sum to what was spent, held and left of it.

    Costs of trials are what was spent exactly, but for wall clock time: what workers shared is
    parted among their trials in proportion, and what is above their sum is called `other`.
    """
    account = state.ledger[resource]
    parts = {
        kind: math.fsum(cost_of(t, resource) for t in state.history.having(kind))
        for kind in ("done", "failed", "killed", "lost")
    }
    paid, total = account.spent - account.overhead, math.fsum(parts.values())
    if total > paid:
        parts = {kind: amount * max(paid, 0.0) / total for kind, amount in parts.items()}
    parts["overhead"] = account.overhead
    parts["other"] = max(paid - total, 0.0)
    parts["running"] = account.reserved
    parts["left"] = max(account.left, 0.0) if math.isfinite(account.limit) else 0.0
    return parts


def money(settings: Settings, state: State) -> Figure:
    """Every account as one bar."""
    ledger = state.ledger
    accounts = [r for r in ledger if math.isfinite(ledger[r].limit) or ledger[r].spent > 0]
    name, title = "money", "Where the money went"
    if not accounts:
        return Figure(name, title, (), "", "Nothing was spent, and nothing is limited.")
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
    x = axis("% of the budget, or of what was spent", (0.0, 100.0), zero=True, tight=True)
    panel = Panel(x, named("", accounts), tuple(layers))
    return Figure(name, title, (panel,), _caption(state, accounts, parts))


def _least(parts: dict[str, float]) -> float:
    """Of an account: less cannot be seen, and may be rounding."""
    return 1e-9 * math.fsum(parts.values())


def _caption(state: State, accounts: list[str], parts: dict[str, dict[str, float]]) -> str:
    said = []
    for resource in accounts:
        spent = state.ledger[resource].spent
        if spent > 0:
            share = parts[resource]["done"] / spent
            said.append(f"{share:.0%} of {format_amount(resource, spent)} bought values")
    return f"{'; '.join(said)}." if said else "Nothing was spent yet."
