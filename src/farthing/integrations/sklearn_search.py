"""Evaluate candidates fold by fold within a budget, and stop hopeless ones early.

Folds are evaluated one after the other (`n_jobs` of them at the same time). After each fold, a
candidate is killed if its other folds exceed the rest of the budget, or if it is hopeless. With n
folds, of which k are done, and the differences d_j to the best candidate on the same folds, it is
hopeless if

    mean(d_1 .. d_k) + Z s sqrt(1/k - 1/n) < 0

where s^2 is the variance of d over folds, pooled over the complete candidates. The mean of
n such differences, given that of the first k, has the variance s^2 (1/k - 1/n).
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from farthing.errors import InvalidInput, Stopped
from farthing.history import StopReason, Trial
from farthing.integrations.sklearn_space import Candidates
from farthing.optimizer import Optimizer
from farthing.running import Pricing, Usage

__all__ = ["Out", "Row", "Search", "Z"]

Out = dict[str, Any]  # the result of one fit in scikit-learn

Z = 3.0  # standard errors below the best that make a candidate hopeless
MIN_COMPLETE = 3  # complete candidates before another one is compared with them
LATE = "the budget was spent while it was fitted"
MAX_FAILURES = 5  # failures without any success that end the search


@dataclass
class Row:
    """One candidate, and the results of its folds so far."""

    params: dict[str, Any]
    predicted: float
    outs: list[Out] = field(default_factory=list)
    cost: Mapping[str, float] = field(default_factory=dict)
    wall_s: float = 0.0
    lost_s: float = 0.0  # seconds of fits without a result
    state: str = "running"
    error: str | None = None

    @property
    def work_s(self) -> float:
        """Seconds of all its fits together."""
        return self.lost_s + math.fsum(out["fit_time"] + out["score_time"] for out in self.outs)

    def filled(self, full: Out, n_splits: int, error_score: Any) -> list[Out]:
        """A result for every fold; folds that were not evaluated have no score."""
        missing = error_score if self.state == "failed" else np.nan
        times = {
            name: float(np.mean([out[name] for out in self.outs])) if self.outs else np.nan
            for name in ("fit_time", "score_time")
        }
        blank = {**full, **times}
        for name in ("test_scores", "train_scores"):
            if name in full:
                several = isinstance(full[name], Mapping)
                blank[name] = dict.fromkeys(full[name], missing) if several else missing
        outs = [] if self.state == "failed" else self.outs
        return [*outs, *[blank] * (n_splits - len(outs))]


@dataclass
class Search:
    """Suggest candidates and evaluate them fold by fold, until the search stops."""

    fit: Callable[[Sequence[Any], Sequence[int]], list[Out]]
    score: Callable[[Out], float]
    n_splits: int
    at_once: int  # number of fits at the same time
    optimizer: Optimizer
    candidates: Candidates
    pricing: Pricing
    resources: Sequence[str]
    backend: Any
    late: bool = False  # whether fits were killed because the time was over
    rows: list[Row] = field(default_factory=list)

    def until_stopped(self) -> StopReason:
        """Run until the search stops; return the reason. At least one fit has succeeded."""
        failures: list[ValueError] = []
        reason: StopReason
        with self.optimizer.on_the_clock():
            while True:
                try:
                    trials = self.optimizer.ask(max(1, self.at_once // self.n_splits))
                except Stopped as stopped:
                    reason = stopped.reason
                    break
                failures += self._evaluate(trials)
                if len(self.rows) >= MAX_FAILURES and not self._done:
                    sentence = f"the first {len(self.rows)} candidates failed: {self.rows[0].error}"
                    reason = StopReason("too_many_failures", sentence)
                    break
        if not any(row.outs for row in self.rows):
            raise (
                failures[0] if failures else InvalidInput(f"No candidate was evaluated: {reason}.")
            )
        return reason

    @property
    def _done(self) -> list[Row]:
        return [row for row in self.rows if row.state == "done"]

    def _evaluate(self, trials: Sequence[Trial]) -> list[ValueError]:
        """Evaluate some candidates together; return the errors of those that could not be "
        "fitted."""
        running = {
            trial: Row(self.candidates.params(trial.params), trial.predicted_cost or np.nan)
            for trial in trials
        }
        self.rows += running.values()
        failures = []
        step = min(self.at_once, self.n_splits)
        for first in range(0, self.n_splits, step):
            which = range(first, min(first + step, self.n_splits))
            try:
                self._fit(running, which)
            except Exception as error:
                state = "killed" if self.late else "failed"
                if isinstance(error, ValueError) and str(error).lstrip().startswith("All the"):
                    failures.append(error)  # scikit-learn raises this if all fits fail
                elif not self.late:
                    raise
                for trial, row in running.items():
                    self._conclude(trial, row, state, LATE if self.late else str(error).strip())
            for trial, row in tuple(running.items()):
                if row.state == "running":
                    self._judge(trial, row, complete=which[-1] == self.n_splits - 1)
                if row.state != "running":
                    del running[trial]
            if not running:
                break
        return failures

    def _fit(self, running: Mapping[Trial, Row], which: Sequence[int]) -> None:
        start = time.perf_counter()
        try:
            with self._time_limit():
                outs = self.fit([row.params for row in running.values()], which)
        except Exception:
            for row in running.values():  # the time of each candidate is unknown
                row.wall_s += (time.perf_counter() - start) / len(running)
                row.lost_s += row.wall_s * min(self.at_once, len(which) * len(running))
            raise
        wall_s = time.perf_counter() - start
        shares = []
        for i, row in enumerate(running.values()):
            new = outs[i * len(which) : (i + 1) * len(which)]
            row.outs += new
            shares.append(math.fsum(out["fit_time"] + out["score_time"] for out in new))
        for row, share in zip(running.values(), shares, strict=True):
            total = math.fsum(shares)
            row.wall_s += wall_s * (share / total if total > 0 else 1 / len(shares))

    def _judge(self, trial: Trial, row: Row, complete: bool) -> None:
        """Decide whether a candidate is done, failed, killed or continues."""
        fit_error = next((out["fit_error"] for out in row.outs if out["fit_error"]), None)
        scores = [self.score(out) for out in row.outs]
        if fit_error is not None or not np.isfinite(scores).all():
            self._conclude(trial, row, "failed", fit_error or f"its scores are {scores}")
        elif complete:
            self._conclude(trial, row, "done", value=float(np.mean(scores)))
        elif self._done:
            ratio = self.n_splits / len(scores)
            paid = self._price(row)
            ahead = {resource: amount * ratio for resource, amount in paid.items()}
            why = self.optimizer.renew(trial, lease=math.inf, cost=paid, ahead=ahead)
            if why is not None:
                self._conclude(trial, row, "killed", f"its other folds are too expensive: {why}")
            elif (score := self._score_if_hopeless(scores)) is not None:
                self._conclude(trial, row, "killed", "its first folds are hopeless")
                # Its expected score keeps the search away from its neighbours.
                self.optimizer.add(trial.params, score, cost=ahead)

    def _score_if_hopeless(self, scores: Sequence[float]) -> float | None:
        """The expected score of a hopeless candidate; None if it is not hopeless."""
        complete = np.array([[self.score(out) for out in row.outs] for row in self._done])
        if len(complete) < MIN_COMPLETE or self.n_splits < 2:
            return None
        best = complete[np.argmax(complete.mean(axis=1))]
        others = complete[(complete != best).any(axis=1)]
        k, n = len(scores), self.n_splits
        if not len(others):
            return None
        s = math.sqrt(float(np.mean(np.var(others - best, axis=1, ddof=1))))
        gap = float(np.mean(np.asarray(scores) - best[:k]))
        if gap + Z * s * math.sqrt(1 / k - 1 / n) >= 0:
            return None
        return float(best.mean()) + gap

    def _price(self, row: Row) -> dict[str, float]:
        paid = self.pricing.cost(Usage(row.wall_s, row.work_s, 0.0), {}, self.resources)
        ledger = self.optimizer.ledger
        if not paid and "cost" in ledger and math.isinf(ledger["cost"].limit):
            return {"cost": row.wall_s}  # seconds, if no cost is limited
        return paid

    def _conclude(
        self,
        trial: Trial,
        row: Row,
        state: str,
        error: str | None = None,
        value: float | None = None,
    ) -> None:
        row.state, row.error, row.cost = state, error, self._price(row)
        self.optimizer.tell(
            trial,
            value,
            cost=row.cost or None,
            failed=(error or "it failed") if state == "failed" else None,
            killed=state == "killed",
        )
        row.cost = self.optimizer.history[trial.number].cost

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Kill the fits when the time is over, if they run in processes that can be killed."""
        ledger = self.optimizer.ledger
        if self.backend is None or not self._done or "s" not in ledger:
            yield
            return

        def kill() -> None:
            self.late = True
            for pid in tuple(getattr(self.backend._workers, "_processes", ())):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        timer = threading.Timer(ledger["s"].left, kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
