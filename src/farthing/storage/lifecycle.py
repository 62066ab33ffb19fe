"""A trial in the database, from ask to tell: each function is what one transaction does to it.

`on_clock` says whether the process that acts is charged for wall clock time as it passes (see
`book`). Then nothing is held of the resource `s`, because trials pass time together, and what a
trial says it took of it teaches the cost model and is not charged again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from farthing.history import Trial
from farthing.ledger import Ledger, format_amount
from farthing.storage.mirror import Change
from farthing.storage.rows import Kept, expired

__all__ = ["begin", "begin_again", "finish", "give_up", "renew", "to_hold"]


def to_hold(ledger: Ledger, amounts: Mapping[str, float], *, on_clock: bool) -> dict[str, float]:
    """The part of `amounts` that a trial holds of what is limited."""
    return {
        resource: amount
        for resource, amount in amounts.items()
        if resource in ledger
        and math.isfinite(ledger[resource].limit)
        and not (on_clock and resource == "s")
    }


def begin(
    change: Change,
    trial: Trial,
    hold: Mapping[str, float],
    *,
    seed: int,
    worker: str | None,
    lease: float | None,
    **columns: Any,
) -> None:
    """A trial that was asked: its row, its reservation and its lease."""
    until = None if lease is None else change.before.now + lease
    change.insert([trial], worker=worker, lease=until, seed=seed, **columns)
    ledger = change.book.ledger.reserve(trial.number, hold)
    change.book = replace(change.book, ledger=ledger, trials=change.book.trials + 1)


def begin_again(change: Change, lost: Kept, *, on_clock: bool, **terms: Any) -> Trial:
    """A trial that was lost, under a new number; `terms` as those of `begin`."""
    ledger, before = change.book.ledger, lost.trial
    change.update(before.number, retry=0)
    left = {r: min(a, max(ledger[r].left, 0.0)) for r, a in before.predicted.items() if r in ledger}
    trial = Trial(
        number=change.book.trials,
        params=before.params,
        x=before.x,
        predicted=before.predicted,
        because=f"trial {before.number} again, which was lost",
        notes={"phase": "start"} if before.is_start else {},
    )
    hold = to_hold(ledger, left, on_clock=on_clock)
    begin(change, trial, hold, attempt=lost.attempt + 1, **terms)
    return trial


def renew(
    change: Change,
    kept: Kept,
    *,
    lease: float,
    cost: Mapping[str, float],
    ahead: Mapping[str, float],
    progress: Sequence[Mapping[str, Any]],
    on_clock: bool,
) -> str | None:
    """Keep a running trial, and hold for it what it will have used when this happens next.

    Returns:
        Why it must end now: a stop was requested, or so much is not left; None if it may go on.
    """
    number, ledger = kept.trial.number, change.book.ledger
    reason = change.book.halted if change.book.halted_now else None
    for resource, account in ((r, ledger[r]) for r in ahead if r in ledger):
        if on_clock and resource == "s":
            need = ahead[resource] - cost[resource]
        else:
            need = ahead[resource] - ledger.held(number).get(resource, 0.0)
            if need > 0 and math.isfinite(account.limit):
                draw = min(need, max(account.left, 0.0))
                ledger = ledger.extend(number, {resource: draw})
        if need > 0 and account.left < need:
            reason = f"the budget of {format_amount(resource, account.limit)} is spent"
    change.book = replace(change.book, ledger=ledger)
    columns = {"progress": list(progress)} if progress else {}
    change.update(number, lease=change.before.now + lease, cost=dict(cost), **columns)
    return reason


def finish(
    change: Change,
    kept: Kept,
    paid: Mapping[str, float],
    *,
    state: str,
    value: float | None,
    error: str | None,
    retries: int,
    on_clock: bool,
    **columns: Any,
) -> None:
    """What became of a trial; its hold is released and its bill is charged."""
    _charge(change, kept.trial, paid, on_clock=on_clock)
    if state == "done":
        change.book = replace(change.book, failures=0, first_error=None)
    elif state in ("failed", "lost"):
        failures = change.book.failures
        first = change.book.first_error if failures else error
        change.book = replace(change.book, failures=failures + 1, first_error=first)
    run_s = columns.pop("run_s", paid.get("s", 0.0))
    change.update(
        kept.trial.number,
        state=state,
        value=value,
        cost=dict(paid),
        censored=int(state == "killed"),
        error=error,
        lease=None,
        retry=int(state == "lost" and kept.attempt <= retries),
        told_at=change.before.now,
        run_s=run_s,
        queue_s=max(change.before.now - kept.asked_at - run_s, 0.0),
        **columns,
    )


def give_up(change: Change, is_sqlite: bool, *, retries: int) -> None:
    """Trials whose worker disappeared are lost, and charged to its last sign of life."""
    for number in expired(change.connection, is_sqlite, change.before.id):
        kept = change.unfinished[number]
        _charge(change, kept.trial, kept.trial.cost, on_clock=True)
        change.update(
            number,
            state="lost",
            error=f"its worker ({kept.worker}) disappeared",
            lease=None,
            retry=int(kept.attempt <= retries),
            told_at=change.before.now,
        )


def _charge(change: Change, trial: Trial, paid: Mapping[str, float], *, on_clock: bool) -> None:
    amounts = {r: a for r, a in paid.items() if not (on_clock and r == "s")}
    ledger = change.book.ledger
    if trial.state == "lost":  # charged when it was given up; the rest is due now
        rest = {r: a - trial.cost.get(r, 0.0) for r, a in amounts.items()}
        ledger = ledger.pay({r: a for r, a in rest.items() if a > 0}, start=trial.is_start)
    else:
        ledger = ledger.charge(trial.number, amounts, start=trial.is_start)
    change.book = replace(change.book, ledger=ledger)
