"""One process's share in a study: it thinks, asks and tells, and keeps the book with all others.

A thought is a function of the stored settings, trials and ledger. Where thoughts are quick, every
process thinks by itself, and one that finds its number taken thinks again, in turn; where they are
not, they take turns from the beginning. A turn is a lease, and tells never wait for it.
"""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from farthing.decision import Verdict
from farthing.errors import InvalidInput, Stopped
from farthing.history import Trial
from farthing.ledger import Ledger, format_amount
from farthing.plan import (
    Plan,
    Price,
    Thought,
    asked_trial,
    bill,
    informed,
    one_thread,
    outcome_of,
    think,
)
from farthing.running import Finished
from farthing.storage import (
    Book,
    Change,
    Database,
    Kept,
    Mirror,
    Settings,
    begin,
    begin_again,
    expired,
    find_book,
    finish,
    give_up,
    renew,
    to_hold,
)

__all__ = ["Clerk"]

SLOW = 0.05  # seconds: from here on only one process thinks at a time
POLL = (0.002, 0.02)  # seconds between looks whether another has finished thinking
THINKER_LEASE = (10.0, 5.0)  # a thinker is dead after 10 s + 5 x the last thought
LEASES_ARE_CHECKED = 1.0  # seconds between looks for workers that disappeared


class Clerk:
    """What a user's program and a worker do with a study.

    Attributes:
        mirror: the study as it was when last looked at.
        settings: what it was made with.
    """

    def __init__(self, database: Database, name: str, settings: Settings) -> None:
        self.mirror = Mirror(database, find_book(database, name))
        self.settings = settings
        self._name = uuid.uuid4().hex  # shared with the processes that are forked from this one
        self._thought: tuple[tuple[int, ...], Thought, float] | None = None
        self._unpaid = 0.0  # seconds of thinking that no transaction has charged yet
        self._present: float | None = None  # when it was last charged for being here
        self._checked = -math.inf  # when leases were last checked

    @property
    def _me(self) -> str:
        """Who thinks."""
        return self._thinker(os.getpid())

    def _thinker(self, process: int | None) -> str:
        return f"{self._name}:{process}"

    @property
    def ledger(self) -> Ledger:
        """What was spent, what is held for running trials, what is left."""
        self.mirror.look()
        return self.mirror.book.ledger

    @property
    def failures(self) -> tuple[int, str | None]:
        """How many trials in a row went wrong, in whatever process, and how the first of them."""
        self.mirror.look()
        return self.mirror.book.failures, self.mirror.book.first_error

    def is_worked_on(self) -> bool:
        """Whether a worker somewhere is running a trial."""
        self.mirror.look()
        self.give_up_lost()
        return any(kept.leased for kept in self.mirror.unfinished.values())

    # ── thinking ───────────────────────────────────────────────────────────────────────────

    @property
    def _plan(self) -> Plan:
        """The plan, its cost models informed by what was paid elsewhere."""
        plan, prices = self.settings.plan, self.mirror.prices
        return informed(plan, prices) if prices else plan

    def key(self) -> tuple[int, ...]:
        """What a thought depends on: it changes with every ask, tell and import."""
        mirror = self.mirror
        running = sum(kept.trial.state == "running" for kept in mirror.unfinished.values())
        return len(mirror.history), running, len(mirror.prices)

    def _think(self) -> tuple[Thought, float]:
        """One thought, kept until something new is known, and the seconds it took."""
        key = self.key()
        if self._thought is None or self._thought[0] != key:
            begun = time.perf_counter()
            with one_thread():
                thought = think(self._plan, self.mirror.history, self.mirror.book.ledger)
            seconds = time.perf_counter() - begun
            self._unpaid += seconds
            self._thought = key, thought, seconds
        return self._thought[1:]

    @property
    def verdict(self) -> Verdict:
        """Whether to stop now, and why."""
        self.mirror.look()
        halted = self.mirror.book.halted
        return Verdict(True, halted) if halted is not None else self._think()[0].verdict

    # ── asking ─────────────────────────────────────────────────────────────────────────────

    def ask(
        self, *, anyway: bool = False, worker: str | None = None, lease: float | None = None
    ) -> Trial:
        """The next trial; what is running anywhere takes part as fantasies.

        Args:
            anyway: ask although a rule said stop; the ledger cannot be overruled.
            worker: who will evaluate it.
            lease: seconds after which it is lost unless `renew` was called; None: never.

        Raises:
            Stopped: the verdict is to stop.
        """
        crowded = False  # whether a thought was in vain because another was quicker
        try:
            while True:
                self.mirror.look()
                self.give_up_lost()
                book = self.mirror.book
                if book.halted is not None:
                    raise Stopped(book.halted)
                self._stop_if_time_is_short()
                if any(kept.retry for kept in self.mirror.unfinished.values()):
                    asked = self._ask_again(anyway, worker, lease)
                elif book.is_thinking(self._me) or not self._begin_to_think(book, crowded):
                    time.sleep(min(max(book.thought_s / 2, POLL[0]), POLL[1]))
                    continue
                else:
                    asked = self._ask(anyway, worker, lease)
                    crowded = True
                if asked is not None:
                    return replace(asked, params=dict(asked.params))
        finally:
            if self.mirror.book.thinker == self._me:
                self.forget(os.getpid())

    def _stop_if_time_is_short(self) -> None:
        """Begin no thought that would end after the budget, if it took as long as the last one."""
        here, book = self._present, self.mirror.book
        if here is None or "s" not in book.ledger:
            return
        if book.elapsed(time.monotonic() - here).ledger["s"].left > book.thought_s:
            return
        account = book.ledger["s"]
        if account.left > 0:  # beyond the limit, to wait for others is free
            with self._event(durable=False) as change:
                account = change.book.ledger["s"]
        because = f"the budget of {format_amount('s', account.limit)} is spent"
        if account.left > 0:
            left = format_amount("s", account.left)
            because += f", but for the {left} that another thought would take"
        raise Stopped(because)

    def _begin_to_think(self, book: Book, crowded: bool) -> bool:
        """Whether it is our turn; where thoughts are quick and thinkers few there are no turns."""
        if (book.thought_s < SLOW and not crowded) or book.thinker == self._me:
            return True
        with self.mirror.changing(durable=False) as change:
            if change.before.is_thinking(self._me):
                return False
            patience, times = THINKER_LEASE
            until = change.before.now + patience + times * change.before.thought_s
            change.book = replace(change.before, thinker=self._me, thinker_until=until)
        return True

    def forget(self, process: int | None) -> None:
        """Nobody waits any more for a thought of this process, or of one forked from it."""
        with self.mirror.changing(durable=False) as change:
            if change.before.thinker == self._thinker(process):
                change.book = replace(change.before, thinker=None, thinker_until=None)

    def _ask(self, anyway: bool, worker: str | None, lease: float | None) -> Trial | None:
        """The trial that a thought leads to; None if others changed too much meanwhile."""
        thought, seconds = self._think()
        if thought.proposal.x is None or (thought.verdict.stop and not anyway):
            raise Stopped(thought.verdict.because)
        trial, wanted = asked_trial(self._plan, thought)
        with self._event(thought=seconds, durable=False) as change:
            book, on_clock = change.book, self._present is not None
            if book.trials != trial.number or book.is_thinking(self._me) or book.halted is not None:
                return None
            hold = to_hold(book.ledger, wanted, on_clock=on_clock)
            if book.ledger.used_up or any(book.ledger[r].left < a for r, a in hold.items()):
                self._thought = None  # less is left than was thought
                return None
            seed = self.seed_of(trial.number)
            begin(change, trial, hold, seed=seed, worker=worker, lease=lease, think_s=seconds)
            change.book = replace(change.book, thought_s=seconds, thinker=None, thinker_until=None)
        return trial

    def _ask_again(self, anyway: bool, worker: str | None, lease: float | None) -> Trial | None:
        """The oldest trial that was lost and is to be tried again, unless a rule says stop."""
        if self.settings.plan.stop is not None and not anyway:
            verdict = self._think()[0].verdict
            if verdict.stop:
                raise Stopped(verdict.because)
        with self._event(durable=False) as change:
            waiting = [kept for kept in change.unfinished.values() if kept.retry]
            if not waiting or change.book.halted is not None:
                return None
            if change.book.ledger.used_up:
                raise Stopped("the budget is spent")
            return begin_again(
                change,
                min(waiting, key=lambda kept: kept.trial.number),
                on_clock=self._present is not None,
                seed=self.seed_of(change.book.trials),
                worker=worker,
                lease=lease,
            )

    def seed_of(self, number: int) -> int:
        """For the evaluation's own randomness: a function of the study's seed and the number."""
        return int(np.random.SeedSequence([self.settings.plan.seed, number]).generate_state(1)[0])

    # ── time ───────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def on_the_clock(self) -> Iterator[None]:
        """While inside, wall clock time is charged as it passes, and not as it is told."""
        self._present = time.monotonic()
        try:
            yield
        finally:
            self._present = None

    @contextmanager
    def _event(
        self, *, thought: float = 0.0, start: bool = False, durable: bool = True
    ) -> Iterator[Change]:
        """A transaction that charges the time passed since the last one."""
        here, unpaid = time.monotonic(), self._unpaid
        present = None if self._present is None else here - self._present
        with self.mirror.changing(durable=durable) as change:
            change.book = change.book.elapsed(
                present, thought=thought if present is not None else unpaid, start=start
            )
            yield change
        self._unpaid -= unpaid
        if self._present is not None:
            self._present = here

    def renew(
        self,
        trial: Trial,
        *,
        lease: float,
        cost: Mapping[str, float],
        ahead: Mapping[str, float],
        progress: Sequence[Mapping[str, Any]] = (),
    ) -> str | None:
        """Keep a running trial, and draw what it needs from what is left.

        Args:
            lease: seconds for which it is kept.
            cost: what it has used so far.
            ahead: what it will have used when this is called next.

        Returns:
            Why it must end now; None if it may go on.
        """
        self.give_up_lost()  # what they held may be what this one needs
        with self._event(start=trial.is_start, durable=False) as change:
            kept = change.unfinished.get(trial.number)
            if kept is None or kept.trial.state != "running":
                return "its worker had not been heard of for too long, so it was given up"
            return renew(
                change,
                kept,
                lease=lease,
                cost=cost,
                ahead=ahead,
                progress=progress,
                on_clock=self._present is not None,
            )

    def give_up_lost(self) -> None:
        """Trials whose worker disappeared are lost; looked for once in a while."""
        leased = any(kept.leased for kept in self.mirror.unfinished.values())
        if not leased or time.monotonic() - self._checked < LEASES_ARE_CHECKED:
            return
        self._checked = time.monotonic()
        is_sqlite = self.mirror.database.is_sqlite
        with self.mirror.database.glancing() as connection:
            if not expired(connection, is_sqlite, self.mirror.book.id):
                return
        with self.mirror.changing() as change:
            give_up(change, is_sqlite, retries=self.settings.retries)

    # ── telling ────────────────────────────────────────────────────────────────────────────

    def tell(
        self,
        trial: Trial | int,
        value: float | None = None,
        *,
        cost: Price = None,
        failed: str | None = None,
        killed: bool = False,
    ) -> None:
        """What became of a trial, from any process; arguments as those of `Optimizer.tell`."""
        number = trial.number if isinstance(trial, Trial) else trial
        state, told = outcome_of(number, value, failed, killed)
        with self._event() as change:
            kept = self._begun(change, trial)
            paid = bill(self.settings.plan, cost, kept.trial.x, required=True)
            self._finish(change, kept, paid, state=state, value=told, error=failed)

    def conclude(
        self,
        trial: Trial,
        finished: Finished,
        cost: Mapping[str, float],
        progress: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """What became of a trial that a worker ran; what it could not measure is not charged."""
        columns = {
            "run_s": finished.usage.wall_s,
            "cpu_s": finished.usage.cpu_s,
            "peak_mb": finished.usage.peak_mb,
            **({"progress": list(progress)} if progress else {}),
        }
        with self._event(start=trial.is_start) as change:
            kept = self._begun(change, trial)
            if kept.trial.state == "lost" and finished.state != "done":
                return  # it was given up; a value would still be welcome
            paid = bill(self.settings.plan, cost, kept.trial.x, required=False)
            state, value, error = finished.state, finished.value, finished.error
            missing = [r for r in self.settings.plan.needed if r not in paid]
            if state == "done" and missing:
                state, value = "failed", None
                error = (
                    f"It did not say what it cost in {missing[0]}, which the budget needs. "
                    'Let it report {"cost": {"' + missing[0] + '": ...}}, or give a rate.'
                )
            self._finish(
                change,
                kept,
                paid,
                state=state,
                value=value,
                error=error,
                **columns,
            )

    def _begun(self, change: Change, trial: Trial | int) -> Kept:
        """The trial that is told about; a lost one may still come back."""
        number = trial.number if isinstance(trial, Trial) else trial
        history = self.mirror.history
        known = isinstance(number, int | np.integer) and 0 <= number < len(history)
        begun = history[int(number)] if known else None
        if begun is None or (isinstance(trial, Trial) and not np.array_equal(trial.x, begun.x)):
            raise InvalidInput(
                f"Trial {number!r} was never asked here. Tell what ask() returned; "
                "use add(params, value) for an evaluation made elsewhere."
            )
        if begun.number not in change.unfinished:
            raise InvalidInput(
                f"Trial {number} was told already ({begun.state}). A trial is told once."
            )
        return change.unfinished[begun.number]

    def _finish(
        self, change: Change, kept: Kept, paid: Mapping[str, float], **columns: Any
    ) -> None:
        on_clock, retries = self._present is not None, self.settings.retries
        finish(change, kept, paid, on_clock=on_clock, retries=retries, **columns)

    # ── stopping ───────────────────────────────────────────────────────────────────────────

    def request_stop(self, because: str = "a stop was requested", *, now: bool = False) -> None:
        """Start nothing any more, in whatever process; what is running is let finish, or ends."""
        with self.mirror.changing() as change:
            first = change.book.halted or because  # two workers may see the same failures
            at_once = max(change.book.halted_now, int(now))
            change.book = replace(change.book, halted=first, halted_now=at_once)

    def resume(self) -> None:
        """Take back a requested stop, and a stop because of failures.

        Nor is anybody waited for who was thinking: he may have been killed with the last run, and
        if he was not, a thought is thought twice.
        """
        with self.mirror.changing() as change:
            change.book = replace(
                change.book,
                halted=None,
                halted_now=0,
                stop_reason=None,
                failures=0,
                first_error=None,
                thinker=None,
                thinker_until=None,
            )

    def end(self, because: str) -> None:
        """Note why a run ended."""
        with self.mirror.changing() as change:
            change.book = replace(change.book, stop_reason=because)
