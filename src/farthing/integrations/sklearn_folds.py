"""Folds as steps: a cross-validated candidate is a training whose step k is its k-th fold.

The value at step k is the mean score of the first k folds. The optimizer decides after a few folds
which candidate goes on; the others are paused, and keep the folds that they have. Only candidates
with all folds count.

A candidate is given up if what is left does not pay for its other folds. The cheapest one goes on
without being asked for if no candidate is complete yet, and what is left does not pay for the first
folds of another one as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farthing.budget.ledger import Ledger
from farthing.core.events import Asked, TimePassed
from farthing.errors import Stopped
from farthing.history import CurvePoint, StopReason, Trial
from farthing.integrations.sklearn_fits import Fit, Fits, Out
from farthing.integrations.sklearn_space import Candidates
from farthing.integrations.sklearn_start import CAP, ends, expected_ratio
from farthing.optimizer import Optimizer
from farthing.running import Pricing, Usage
from farthing.steps import Steps

__all__ = ["Candidate", "FoldSearch", "steps_of"]

Array = NDArray[np.float64]

MAX_FAILURES = 5  # failures without any success that end the search


def steps_of(n_splits: int, at_once: int) -> Steps | None:
    """The folds as steps; None for one fold.

    Folds of a candidate that run at the same time are one step: a decision between them would save
    no time.

    Args:
        at_once: the number of fits at the same time.
    """
    first = min(at_once, n_splits)
    return None if n_splits == 1 else Steps(n_splits, first=first, value="last")


@dataclass
class Candidate:
    """One candidate, and the results of its folds so far."""

    params: dict[str, Any]
    trial: Trial  # its last part
    outs: list[Out] = field(default_factory=list)
    wall_s: float = 0.0  # of its last part, as its share of the fits at the same time
    work_s: float = 0.0  # of its last part, all fits together
    state: str = "running"
    error: str | None = None
    cost: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_failed(self) -> bool:
        """Whether a fit or a score has failed."""
        return self.state == "failed"


@dataclass
class FoldSearch:
    """Suggest candidates and evaluate them fold by fold, until the search stops."""

    fits: Fits
    score: Callable[[Out], float]
    optimizer: Optimizer
    space: Candidates
    pricing: Pricing
    resources: Sequence[str]
    candidates: dict[int, Candidate] = field(default_factory=dict)  # by the number of the trial

    @property
    def n_splits(self) -> int:
        """The number of folds."""
        return len(self.fits.splits)

    def until_stopped(self) -> StopReason:
        """Run until the search stops; return the reason."""
        reason: StopReason
        with self.optimizer.on_the_clock():
            while True:
                try:
                    trials = self._ask()
                except Stopped as stopped:
                    reason = stopped.reason
                    break
                self._run(trials)
                tried = list(self.candidates.values())
                if len(tried) >= MAX_FAILURES and all(each.is_failed for each in tried):
                    sentence = f"the first {len(tried)} candidates failed: {tried[0].error}"
                    reason = StopReason("too_many_failures", sentence)
                    break
            self._complete_one()
        return reason

    # ── asking ─────────────────────────────────────────────────────────────────────────────────

    def _ask(self) -> list[Trial]:
        """The next parts: more than one candidate if all folds of one run at the same time."""
        if (end := self._untried_end()) is not None:
            verdict = self.optimizer.verdict
            if not verdict.stop or verdict.kind == "unaffordable":
                return [self._begin(end)]
        try:
            return self.optimizer.ask(max(1, self.fits.at_once // self.n_splits))
        except Stopped as stopped:
            # One cost is no reason to stop: another candidate may be much cheaper.
            if stopped.reason.kind != "unaffordable" or len(self.candidates) > 1:
                raise
            return self.optimizer.ask(1, anyway=True)

    def _untried_end(self) -> Array | None:
        """The end of the space to try next; None if candidates are cheap, or it is known where."""
        settings, state = self.optimizer.facts
        tried = [each for each in self.candidates.values() if not each.is_failed]
        if settings.known_costs or not tried or len(self.candidates) < len(settings.start):
            return None
        folds = [self._fold_cost(each, state.ledger) for each in tried]
        cheapest = tried[int(np.argmin(folds))]
        if state.ledger.used_up or min(folds) * self.n_splits <= CAP:
            return None
        for end in ends(self.space.space, cheapest.trial.x):
            if not any((each.trial.x == end).all() for each in tried):
                return np.asarray(end)
            if cheapest.outs and (cheapest.trial.x == end).all():
                break
        return None

    def _fold_cost(self, candidate: Candidate, ledger: Ledger) -> float:
        """The cost of a fold, as the largest share of the budget; inf: the first one was killed."""
        if not candidate.outs:
            return math.inf
        shares = [cost / ledger[r].limit for r, cost in self._paid(candidate).items()]
        return max(shares, default=0.0) / len(candidate.outs)

    def _begin(self, x: Array) -> Trial:
        """Start a candidate at an end of the space, whatever a model of a few costs says."""
        settings, state = self.optimizer.facts
        ledger = state.ledger
        limit = {r: CAP * ledger[r].limit for r in ledger.limited_resources if r != "trials"}
        trial = Trial(
            number=len(state.history),
            params=settings.space.decode(x),
            x=x,
            because="an end of the space: it may be cheaper than all candidates so far",
            notes={"phase": "start", "limit": limit, "limit_by": dict.fromkeys(limit, "start")},
            origin="design",
            until=None if settings.steps is None else settings.steps.decision_steps[0],
        )
        reservation = {r: min(most, ledger[r].left) for r, most in limit.items()}
        self.optimizer.commit(Asked(trial, reservation))
        return self.optimizer.history[trial.number]

    @property
    def _is_done(self) -> list[bool]:
        return [each.state == "done" for each in self.candidates.values()]

    # ── fitting ────────────────────────────────────────────────────────────────────────────────

    def _run(self, trials: Sequence[Trial]) -> None:
        """Evaluate the next folds of some candidates."""
        running = dict[Trial, int]()  # until which fold
        for trial in trials:
            running[trial] = trial.until or self.n_splits
            known = self.candidates.get(trial.number)
            if known is None:
                params = self.space.params(trial.params)
                self.candidates[trial.number] = Candidate(params, trial)
            else:
                known.trial, known.state, known.wall_s, known.work_s = trial, "running", 0.0, 0.0
        while running:
            self._fit(running)
            untils = {trial: self._judge(trial, until) for trial, until in running.items()}
            running = {trial: until for trial, until in untils.items() if until is not None}

    def _fit(self, running: Mapping[Trial, int]) -> None:
        """Fit the next fold, or all next folds if fits run at the same time."""
        fits, owners = [], []
        for trial, until in running.items():
            candidate = self.candidates[trial.number]
            done = len(candidate.outs)
            last = until if self.fits.at_once > 1 else done + 1
            for fold in range(done, last):
                fits.append(Fit(trial.number, candidate.params, fold))
                owners.append(trial)
        if self.fits.killed:
            self.fits.start()
            self.optimizer.commit(TimePassed())  # the budget does not pay for the start
        start = time.perf_counter()
        outs = self.fits.run(fits, self._seconds(running))
        wall_s = time.perf_counter() - start
        took = [wall_s if out is None else out["fit_time"] + out["score_time"] for out in outs]
        total = math.fsum(took)
        for trial, out, seconds in zip(owners, outs, took, strict=True):
            candidate = self.candidates[trial.number]
            share = seconds / total if total > 0 else 1 / len(took)
            candidate.wall_s += wall_s * share
            candidate.work_s += seconds
            if out is None:
                candidate.state = "killed"
            elif candidate.state == "running":
                candidate.outs.append(out)

    def _seconds(self, running: Mapping[Trial, int]) -> float:
        """After how many seconds fits are killed, if they can be: at the end of the budget, or at
        the limit that the tuner sets while costs are unknown."""
        jobs = min(self.fits.at_once, len(running))
        prices = self.pricing.cost(Usage(1.0, float(jobs), 0.0), {}, self.resources)
        candidates = [self.candidates[trial.number] for trial in running]
        left = min(
            (self._left(r, candidates) / p for r, p in prices.items() if p), default=math.inf
        )
        limits = []
        for trial in running:
            own = self.pricing.cost(Usage(1.0, 1.0, 0.0), {}, self.resources)
            most = (trial.limit[r] / p for r, p in own.items() if r in trial.limit and p > 0)
            limits.append(min(most, default=math.inf))
        return min(left, max(limits, default=math.inf))

    def _left(self, resource: str, running: Sequence[Candidate]) -> float:
        """What is left for running candidates, whose parts are not charged yet."""
        ledger = self.optimizer.ledger
        reserved = (ledger.reserved_for(c.trial.number).get(resource, 0.0) for c in running)
        used = (self._price(candidate).get(resource, 0.0) for candidate in running)
        return ledger[resource].left + math.fsum(reserved) - math.fsum(used)

    # ── judging ────────────────────────────────────────────────────────────────────────────────

    def _judge(self, trial: Trial, until: int) -> int | None:
        """End or pause a candidate, or return until which fold it goes on."""
        candidate = self.candidates[trial.number]
        scored = [out for out in candidate.outs if not out["fit_error"]]
        scores = [self.score(out) for out in scored]
        error = next((out["fit_error"] for out in candidate.outs if out["fit_error"]), None)
        if error is None and not np.isfinite(scores).all():
            error = f"its scores are {scores}"
        done = len(candidate.outs)
        if error is not None:
            self._end(trial, "failed", error)
        elif candidate.state == "killed":
            self._end(trial, "killed", "it was still fitted at the end of the budget, or its limit")
        elif done == self.n_splits:
            self._end(trial, "done", value=float(np.mean(scores)))
        else:
            rest = self._rest(candidate)
            if rest > 1.0:
                self._end(trial, "killed", "what is left does not pay for its other folds")
            elif self._is_last_chance(candidate, rest):
                return self.n_splits
            elif done < until:
                return until
            else:
                self._end(trial, "paused", value=float(np.mean(scores)))
        return None

    def _rest(self, candidate: Candidate) -> float:
        """The cost of its other folds, as a share of what is left."""
        running = [candidate] if candidate.state == "running" else []
        done, shares = len(candidate.outs), [0.0]
        for resource, paid in self._paid(candidate).items():
            left = self._left(resource, running)
            rest = paid / done * (self.n_splits - done)
            shares.append(rest / left if left > 0 else math.inf)
        return max(shares)

    def _is_last_chance(self, candidate: Candidate, rest: float) -> bool:
        """Whether it is the only one that can be completed, because a new one is as expensive.

        Args:
            rest: the cost of its other folds, as a share of what is left.
        """
        others = [each for each in self.candidates.values() if each.state == "paused"]
        if any(self._is_done) or any(self._rest(each) < rest for each in others):
            return False
        x, end = candidate.trial.x, self._untried_end()
        ratio = 1.0 if end is None else min(expected_ratio(self.space.space, x, end), 1.0)
        first = ratio * min(self.fits.at_once, self.n_splits)
        return rest * (1.0 + first / (self.n_splits - len(candidate.outs))) > 1.0

    def _paid(self, candidate: Candidate) -> dict[str, float]:
        """The cost of all parts of a candidate."""
        price = self._price(candidate)
        return {r: amount + candidate.trial.cost.get(r, 0.0) for r, amount in price.items()}

    def _price(self, candidate: Candidate) -> dict[str, float]:
        """The cost of the last part of a candidate."""
        usage = Usage(candidate.wall_s, candidate.work_s, 0.0)
        paid = self.pricing.cost(usage, {}, self.resources)
        ledger = self.optimizer.ledger
        if not paid and "cost" in ledger and math.isinf(ledger["cost"].limit):
            return {"cost": candidate.wall_s}  # seconds, if no cost is limited
        return paid

    def _end(
        self, trial: Trial, state: str, error: str | None = None, value: float | None = None
    ) -> None:
        """Report the part of a candidate."""
        candidate = self.candidates[trial.number]
        paid, done = self._price(candidate), len(candidate.outs)
        told = done if state == "killed" else done - 1  # `tell` reports the last fold itself
        if trial.until is not None and told > trial.step and state != "failed":
            curve = [self._point(candidate, k, paid) for k in range(trial.step + 1, told + 1)]
            self.optimizer.renew(trial, lease=math.inf, cost=paid, ahead={}, curve=curve)
        self.optimizer.tell(
            trial,
            value,
            cost=paid or None,
            failed=error if state == "failed" else None,
            killed=state == "killed",
            step=None if value is None or trial.until is None else done,
        )
        candidate.state, candidate.error = state, error
        candidate.cost = self.optimizer.history[trial.number].cost

    def _point(self, candidate: Candidate, k: int, paid: Mapping[str, float]) -> CurvePoint:
        """The mean score of the first k folds, and the share of the part's cost until then."""
        mean = float(np.mean([self.score(out) for out in candidate.outs[:k]]))
        since = candidate.trial.step
        share = (k - since) / (len(candidate.outs) - since)
        return CurvePoint(k, mean, {resource: share * a for resource, a in paid.items()})

    def _complete_one(self) -> None:
        """Complete the best paused candidate that what is left pays for, if none is complete."""
        paused = [each for each in self.candidates.values() if each.state == "paused"]
        paused = [each for each in paused if self._rest(each) <= 1.0]
        if any(self._is_done) or not paused:
            return
        best = max(paused, key=lambda c: (len(c.outs), np.mean([self.score(o) for o in c.outs])))
        best.state, trial = "running", best.trial
        until: int | None = self.n_splits
        while until is not None:
            self._fit({trial: until})
            until = self._judge(trial, until)
