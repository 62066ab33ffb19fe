"""Cross-validated search within a budget, with the interface of scikit-learn's searches.

    search = BudgetSearchCV(SVC(), {"C": loguniform(1e-3, 1e3)}, budget="10m")
    search.fit(X, y)
    search.best_params_, search.result_.stop_reason

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
Out = dict[str, Any]  # the result of one fit in scikit-learn

Z = 3.0  # standard errors below the best that make a candidate hopeless
MIN_COMPLETE = 3  # complete candidates before another one is compared with them
LATE = "the budget was spent while it was fitted"
MAX_FAILURES = 5  # failures without any success that end the search


class BudgetSearchCV(BaseSearchCV):  # type: ignore[misc,unused-ignore]
    """Search hyperparameters by cross-validation until a budget is spent.

    A budget in seconds is the wall-clock time of the search, overhead included. It does not include
    the final refit and the start of processes. If fits run in processes (`n_jobs` > 1 with joblib's
    own backend), the search kills those that exceed the time. It always evaluates one candidate
    completely.

    Args:
        estimator: the estimator or pipeline to fit.
        space: {name: values}: a list, a scipy distribution, or a parameter of Farthing, which may
            declare its effect on the cost: Int(10, 1000, log=True, cost="increases").
        budget: "10m", "30 trials", "20 worker_m" (the time of all fits together), or "$5" with a
            rate.
        policy, stop, cost, worth, start: as in `farthing.Optimizer`.
        rate: the price of a second of fitting, "$3.06/h".
        random_state: the seed of the candidates, which also depend on measured times.

    The other arguments and attributes are those of RandomizedSearchCV. In addition, `cv_results_`
    has "cost", "predicted_cost", "n_folds" (the number of evaluated folds; the scores of the others
    are NaN) and "state". `result_` has the ledger, the history and the reason why the search
    stopped.
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
        """The state without attributes of a running fit, because scikit-learn sends it to every "
        "fit."""
        state = BaseSearchCV.__getstate__(self)
        return {name: each for name, each in state.items() if name not in ("_outs", "_backend")}

    def fit(self, X: Any, y: Any = None, **params: Any) -> BudgetSearchCV:
        """Search, and fit the best candidate again on all data."""
        backend = _killable(self.n_jobs)
        with nullcontext() if backend is None else joblib.parallel_config(backend=backend):
            self._outs: Out = {}
            self._backend = backend
            if backend is not None:  # the start of processes is not charged to a candidate
                count, start = joblib.effective_n_jobs(self.n_jobs), joblib.delayed(clone)
                joblib.Parallel(count)(start(self.estimator) for _ in range(count))
            try:
                return BaseSearchCV.fit(self, X, y, **params)  # type: ignore[no-any-return]
            finally:
                del self._outs, self._backend

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        """Called by scikit-learn; `evaluate_candidates` fits some candidates on some folds."""
        candidates = Candidates.of(self.space)
        settings = _settings(self, candidates)
        folds, n_splits = _Folds(self._checked_cv_orig), self.n_splits_

        def fit(params: Sequence[Any], which: Sequence[int]) -> list[Out]:
            self.n_splits_ = len(which)  # `evaluate_candidates` reads it
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
        table = self._outs  # the object that scikit-learn keeps as its results
        formatted = self._formatted(search.rows, n_splits)
        table.clear()
        table.update(formatted)

    def _format_results(
        self, candidate_params: Any, n_splits: int, out: list[Out], more_results: Any = None
    ) -> Any:
        """Keep the results of the fits; `_formatted` makes the table once, at the end."""
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
        with warnings.catch_warnings():  # scores that are not finite were already warned of
            warnings.simplefilter("ignore", UserWarning)
            formatted: Mapping[str, Any] = BaseSearchCV._format_results(
                self, [row.params for row in rows], n_splits, outs, more
            )
        return formatted

    def _score(self, out: Out) -> float:
        """The score of one fit that the search maximises."""
        scores = out["test_scores"]
        if not isinstance(scores, Mapping):
            return float(scores)
        if isinstance(self.refit, str) and self.refit in scores:
            return float(scores[self.refit])
        if len(scores) == 1:
            return float(next(iter(scores.values())))
        raise InvalidInput(
            f"There are several scores: {', '.join(scores)}. Select the one to maximise with "
            f"refit={next(iter(scores))!r}."
        )

    def _warn_of_failures(self, rows: list[_Row]) -> None:
        failed = [row for row in rows if row.state == "failed"]
        if failed:
            warnings.warn(
                f"{len(failed)} of {len(rows)} candidates failed; their scores are "
                f"{self.error_score}. The first error: {failed[0].error}",
                FitFailedWarning,
                stacklevel=2,
            )


@dataclass
class _Row:
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
class _Search:
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
    rows: list[_Row] = field(default_factory=list)

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
    def _done(self) -> list[_Row]:
        return [row for row in self.rows if row.state == "done"]

    def _evaluate(self, trials: Sequence[Trial]) -> list[ValueError]:
        """Evaluate some candidates together; return the errors of those that could not be "
        "fitted."""
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

    def _fit(self, running: Mapping[Trial, _Row], which: Sequence[int]) -> None:
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

    def _judge(self, trial: Trial, row: _Row, complete: bool) -> None:
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

    def _price(self, row: _Row) -> dict[str, float]:
        paid = self.pricing.cost(Usage(row.wall_s, row.work_s, 0.0), {}, self.resources)
        ledger = self.optimizer.ledger
        if not paid and "cost" in ledger and math.isinf(ledger["cost"].limit):
            return {"cost": row.wall_s}  # seconds, if no cost is limited
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

        timer = threading.Timer(max(ledger["s"].left, 0.0), kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class _Folds:
    """The folds of a splitter, drawn once, so that all candidates use the same folds."""

    def __init__(self, splitter: Any) -> None:
        self._splitter = splitter
        self._all: list[Any] | None = None
        self._which: Sequence[int] = ()

    def only(self, which: Sequence[int]) -> _Folds:
        """Select some folds."""
        self._which = which
        return self

    def split(self, X: Any, y: Any = None, **params: Any) -> list[Any]:
        """The indices of the selected folds."""
        if self._all is None:
            self._all = list(self._splitter.split(X, y, **params))
        return [self._all[i] for i in self._which]


def _killable(n_jobs: int | None) -> Any:
    """A backend whose processes we may kill; None if the user has chosen another."""
    loky = joblib.parallel.BACKENDS["loky"]
    active, _ = joblib.parallel.get_active_backend()
    if type(active) is not loky or joblib.effective_n_jobs(n_jobs) < 2:
        return None
    return loky(nesting_level=active.nesting_level)


def _price_of(cost: Callable[..., Any], candidates: Candidates, params: Any) -> Any:
    """The known cost of the parameters of an estimator."""
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
                f"The cost of a fit in {resource!r} is not known. To set it, give a rate, such as "
                'rate="$3.06/h", or cost=..., a function of the parameters.'
            )
    return settings
