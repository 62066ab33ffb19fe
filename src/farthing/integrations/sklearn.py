"""Cross-validated search with a budget, as scikit-learn's own searches are used.

    search = BudgetSearchCV(SVC(), {"C": loguniform(1e-3, 1e3)}, budget="10m")
    search.fit(X, y)
    search.best_params_, search.result_.stop_reason

Folds are evaluated one after the other (`n_jobs` of them at the same time), and a candidate is
given up between them when it is beyond what is left of the budget, or hopeless: with n folds, of
which k are done, and the differences d_j to the best candidate on the same folds,

    mean(d_1 .. d_k) + Z s sqrt(1/k - 1/n) < 0

where s^2 is the variance of d over folds, pooled over the candidates that are complete. The mean of
n such differences, given that of the first k, has the variance s^2 (1/k - 1/n).
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from farthing.errors import InvalidInput, MissingExtra, Stopped

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise MissingExtra("sklearn", "scikit-learn") from error

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state

from farthing.budget.rates import rate_of
from farthing.core.settings import Settings
from farthing.cost import KnownBeforehand
from farthing.history import StopReason, Trial
from farthing.integrations.sklearn_space import Candidates
from farthing.optimizer import Optimizer
from farthing.running import Pricing, Usage
from farthing.space.space import Space
from farthing.view.result import Result

__all__ = ["BudgetSearchCV"]

Array = NDArray[np.float64]
Out = dict[str, Any]  # what scikit-learn says of one fit

Z = 3.0  # standard errors below the best: hopeless
COMPLETE = 3  # candidates that must be, before another is compared with them
LATE = "the budget was spent while it was fitted"
FAILURES = 5  # in a row, and nothing else: then it is not the candidates' fault


class BudgetSearchCV(BaseSearchCV):  # type: ignore[misc,unused-ignore]
    """Search hyperparameters by cross-validation until a budget is spent.

    With a budget in seconds the clock runs during the search, our own thinking included; the last
    refit, and the start of processes, come on top. Where fits run in processes (`n_jobs` > 1 with
    joblib's own backend), those that run when it has passed are killed. One candidate is always
    evaluated completely.

    Args:
        estimator: what is fitted, a pipeline too.
        space: {name: values}: a list, a scipy distribution, or a parameter of Farthing's, which may
            say what makes a fit dearer: Int(10, 1000, log=True, cost="increases").
        budget: "10m", "30 trials", "20 worker_m" (the time of all fits together), or "$5" with a
            rate.
        policy, stop, cost, worth, start: as in `farthing.Optimizer`.
        rate: what a second of fitting costs, "$3.06/h".
        random_state: the same gives the same candidates, as far as time allows.

    The other arguments, and what there is after `fit`, are those of RandomizedSearchCV. In
    `cv_results_` there are also "cost", "predicted_cost", "n_folds" (how many were evaluated; the
    scores of the others are NaN) and "state". `result_` has the ledger, the history and why the
    search stopped.
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012
        **BaseSearchCV._parameter_constraints,
        "space": [dict, Space],
        "random_state": ["random_state"],
    }

    n_splits_: int

    def __init__(
        self,
        estimator: Any,
        space: Any,
        budget: Any = "10m",
        *,
        policy: Any = None,
        stop: Any = None,
        cost: Any = None,
        worth: Any = None,
        start: Any = None,
        rate: str | None = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
    ) -> None:
        BaseSearchCV.__init__(
            self,
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.space = space
        self.budget = budget
        self.policy = policy
        self.stop = stop
        self.cost = cost
        self.worth = worth
        self.start = start
        self.rate = rate
        self.random_state = random_state

    def __getstate__(self) -> dict[str, Any]:
        """Without what it needs while it is fitted: scikit-learn sends it along to every fit."""
        state = BaseSearchCV.__getstate__(self)
        return {name: each for name, each in state.items() if name not in ("_outs", "_backend")}

    def fit(self, X: Any, y: Any = None, **params: Any) -> BudgetSearchCV:
        """Search, and fit the best candidate again on all of the data."""
        backend = _killable(self.n_jobs)
        with nullcontext() if backend is None else joblib.parallel_config(backend=backend):
            self._outs: Out = {}
            self._backend = backend
            if backend is not None:  # what it takes to start processes is no candidate's price
                count, begin = joblib.effective_n_jobs(self.n_jobs), joblib.delayed(clone)
                joblib.Parallel(count)(begin(self.estimator) for _ in range(count))
            try:
                return BaseSearchCV.fit(self, X, y, **params)  # type: ignore[no-any-return]
            finally:
                del self._outs, self._backend

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        """What scikit-learn calls; `evaluate_candidates` fits some candidates on some folds."""
        candidates = Candidates.of(self.space)
        settings = _settings(self, candidates)
        folds, n_splits = _Folds(self._checked_cv_orig), self.n_splits_

        def fit(params: Sequence[Any], which: Sequence[int]) -> list[Out]:
            self.n_splits_ = len(which)  # it is asked for by what evaluates
            try:
                evaluate_candidates(params, cv=folds.only(which))
            finally:
                self.n_splits_ = n_splits
            return list(self._outs["out"][-len(params) * len(which) :])

        search = _Search(
            fit=fit,
            score=self._score,
            n_splits=n_splits,
            at_once=joblib.effective_n_jobs(self.n_jobs),
            optimizer=Optimizer.of(settings),
            candidates=candidates,
            pricing=Pricing({} if self.rate is None else rate_of(self.rate), cpu=True),
            resources=settings.resources,
            backend=self._backend,
        )
        reason = search.until_stopped()
        optimizer = search.optimizer
        self.result_ = Result(optimizer.best, reason, optimizer.ledger, optimizer.history)
        self._warn_of_failures(search.rows)
        table = self._outs  # which scikit-learn holds as its results
        formatted = self._formatted(search.rows, n_splits)
        table.clear()
        table.update(formatted)

    def _format_results(
        self, candidate_params: Any, n_splits: int, out: list[Out], more_results: Any = None
    ) -> Any:
        """Nothing but what the fits said: the table is made once, at the end."""
        self._outs["out"] = out
        return self._outs

    def _formatted(self, rows: list[_Row], n_splits: int) -> Mapping[str, Any]:
        full = max(rows, key=lambda row: len(row.outs)).outs[0]
        outs = [out for row in rows for out in row.filled(full, n_splits, self.error_score)]
        more = {
            "cost": [next(iter(row.cost.values()), np.nan) for row in rows],
            "predicted_cost": [row.predicted for row in rows],
            "n_folds": [len(row.outs) for row in rows],
            "state": [row.state for row in rows],
        }
        with warnings.catch_warnings():  # that some scores are not finite: they were warned of
            warnings.simplefilter("ignore", UserWarning)
            formatted: Mapping[str, Any] = BaseSearchCV._format_results(
                self, [row.params for row in rows], n_splits, outs, more
            )
        return formatted

    def _score(self, out: Out) -> float:
        """The number that is searched for, of one fit."""
        scores = out["test_scores"]
        if not isinstance(scores, Mapping):
            return float(scores)
        if isinstance(self.refit, str) and self.refit in scores:
            return float(scores[self.refit])
        if len(scores) == 1:
            return float(next(iter(scores.values())))
        raise InvalidInput(
            f"There are several scores, {', '.join(scores)}: say which one is searched for, "
            f"such as refit={next(iter(scores))!r}."
        )

    def _warn_of_failures(self, rows: list[_Row]) -> None:
        failed = [row for row in rows if row.state == "failed"]
        if failed:
            warnings.warn(
                f"{len(failed)} of {len(rows)} candidates failed; their scores are "
                f"{self.error_score}. The first: {failed[0].error}",
                FitFailedWarning,
                stacklevel=2,
            )


@dataclass
class _Row:
    """One candidate, as far as it was evaluated."""

    params: dict[str, Any]
    predicted: float
    outs: list[Out] = field(default_factory=list)
    cost: Mapping[str, float] = field(default_factory=dict)
    wall_s: float = 0.0
    lost_s: float = 0.0  # of fits that came to nothing
    state: str = "running"
    error: str | None = None

    @property
    def work_s(self) -> float:
        """Seconds of all its fits together."""
        return self.lost_s + math.fsum(out["fit_time"] + out["score_time"] for out in self.outs)

    def filled(self, full: Out, n_splits: int, error_score: Any) -> list[Out]:
        """As many fits as there are folds: those that were not made have no score."""
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
class _Search:
    """Ask, evaluate fold by fold, tell, until it is time to stop."""

    fit: Callable[[Sequence[Any], Sequence[int]], list[Out]]
    score: Callable[[Out], float]
    n_splits: int
    at_once: int  # fits
    optimizer: Optimizer
    candidates: Candidates
    pricing: Pricing
    resources: Sequence[str]
    backend: Any
    late: bool = False  # whether fits were killed
    rows: list[_Row] = field(default_factory=list)

    def until_stopped(self) -> StopReason:
        """Why it ended; at least one candidate was fitted once."""
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
                if len(self.rows) >= FAILURES and not self._done:
                    said = f"the first {len(self.rows)} candidates failed: {self.rows[0].error}"
                    reason = StopReason("too_many_failures", said)
                    break
        if not any(row.outs for row in self.rows):
            raise failures[0] if failures else InvalidInput(f"Nothing was evaluated: {reason}.")
        return reason

    @property
    def _done(self) -> list[_Row]:
        return [row for row in self.rows if row.state == "done"]

    def _evaluate(self, trials: Sequence[Trial]) -> list[ValueError]:
        """Evaluate some candidates together; why some could not be fitted at all."""
        running = {
            trial: _Row(self.candidates.params(trial.params), trial.predicted_cost or np.nan)
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
                    failures.append(error)  # where all fits fail scikit-learn takes it seriously
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

    def _fit(self, running: Mapping[Trial, _Row], which: Sequence[int]) -> None:
        begun = time.perf_counter()
        try:
            with self._watched():
                outs = self.fit([row.params for row in running.values()], which)
        except Exception:
            for row in running.values():  # nobody says which of them took how long
                row.wall_s += (time.perf_counter() - begun) / len(running)
                row.lost_s += row.wall_s * min(self.at_once, len(which) * len(running))
            raise
        wall_s = time.perf_counter() - begun
        shares = []
        for i, row in enumerate(running.values()):
            new = outs[i * len(which) : (i + 1) * len(which)]
            row.outs += new
            shares.append(math.fsum(out["fit_time"] + out["score_time"] for out in new))
        for row, share in zip(running.values(), shares, strict=True):
            total = math.fsum(shares)
            row.wall_s += wall_s * (share / total if total > 0 else 1 / len(shares))

    def _judge(self, trial: Trial, row: _Row, complete: bool) -> None:
        """What is to become of a candidate after some of its folds."""
        broken = next((out["fit_error"] for out in row.outs if out["fit_error"]), None)
        scores = [self.score(out) for out in row.outs]
        if broken is not None or not np.isfinite(scores).all():
            self._conclude(trial, row, "failed", broken or f"its scores are {scores}")
        elif complete:
            self._conclude(trial, row, "done", value=float(np.mean(scores)))
        elif self._done:
            ratio = self.n_splits / len(scores)
            paid = self._price(row)
            ahead = {resource: amount * ratio for resource, amount in paid.items()}
            why = self.optimizer.renew(trial, lease=math.inf, cost=paid, ahead=ahead)
            if why is not None:
                self._conclude(trial, row, "killed", f"its other folds are too dear: {why}")
            elif (shown := self._shown_hopeless(scores)) is not None:
                self._conclude(trial, row, "killed", "its first folds are hopeless")
                # What it would have been, so that its neighbours are not tried, too.
                self.optimizer.add(trial.params, shown, cost=ahead)

    def _shown_hopeless(self, scores: Sequence[float]) -> float | None:
        """The score a hopeless candidate would have had; None: there is hope."""
        complete = np.array([[self.score(out) for out in row.outs] for row in self._done])
        if len(complete) < COMPLETE or self.n_splits < 2:
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

    def _price(self, row: _Row) -> dict[str, float]:
        paid = self.pricing.cost(Usage(row.wall_s, row.work_s, 0.0), {}, self.resources)
        ledger = self.optimizer.ledger
        if not paid and "cost" in ledger and math.isinf(ledger["cost"].limit):
            return {"cost": row.wall_s}  # seconds, where nothing that is paid has a limit
        return paid

    def _conclude(
        self,
        trial: Trial,
        row: _Row,
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
    def _watched(self) -> Iterator[None]:
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

        timer = threading.Timer(max(ledger["s"].left, 0.0), kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class _Folds:
    """The folds of a splitter, drawn once, so that all candidates see the same."""

    def __init__(self, splitter: Any) -> None:
        self._splitter = splitter
        self._all: list[Any] | None = None
        self._which: Sequence[int] = ()

    def only(self, which: Sequence[int]) -> _Folds:
        """Some of them."""
        self._which = which
        return self

    def split(self, X: Any, y: Any = None, **params: Any) -> list[Any]:
        """Their indices."""
        if self._all is None:
            self._all = list(self._splitter.split(X, y, **params))
        return [self._all[i] for i in self._which]


def _killable(n_jobs: int | None) -> Any:
    """A backend whose processes we may kill; None where the user has chosen another."""
    loky = joblib.parallel.BACKENDS["loky"]
    active, _ = joblib.parallel.get_active_backend()
    if type(active) is not loky or joblib.effective_n_jobs(n_jobs) < 2:
        return None
    return loky(nesting_level=active.nesting_level)


def _price_of(cost: Callable[..., Any], candidates: Candidates, params: Any) -> Any:
    """What is known beforehand, of what an estimator is given."""
    return cost(candidates.params(params))


def _settings(search: BudgetSearchCV, candidates: Candidates) -> Settings:
    cost = search.cost
    if callable(cost) and not isinstance(cost, type) and not hasattr(cost, "fit"):
        cost = partial(_price_of, cost, candidates)
    seed = int(check_random_state(search.random_state).randint(2**31 - 1))
    settings = Settings.of(
        candidates.space,
        search.budget,
        policy=search.policy,
        stop=search.stop,
        cost=cost,
        worth=search.worth,
        start=search.start,
        rate=search.rate,
        direction="maximize",
        seed=seed,
    )
    if settings.budget is None and settings.stop is None:
        raise InvalidInput(
            "BudgetSearchCV without a budget or a stopping rule would never end. Give "
            'budget="10m", or stop=MaxTrials(50).'
        )
    priced = {"s", "worker_s", *({} if search.rate is None else rate_of(search.rate))}
    for resource in () if settings.budget is None else settings.budget.limits:
        known_beforehand = isinstance(settings.learners.get(resource), KnownBeforehand)
        if resource not in (*priced, "trials") and not known_beforehand:
            raise InvalidInput(
                f"What a fit costs in {resource!r} is not known: give a rate, such as "
                'rate="$3.06/h", or cost=..., a function of the parameters.'
            )
    return settings
