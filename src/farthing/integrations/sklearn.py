"""Cross-validated search within a budget, with the interface of scikit-learn's searches.

    search = BudgetSearchCV(SVC(), {"C": loguniform(1e-3, 1e3)}, budget="10m")
    search.fit(X, y)
    search.best_params_, search.result_.stop_reason

`sklearn_search` gives the condition under which a candidate is killed before its last fold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from farthing.errors import InvalidInput, MissingExtra

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise MissingExtra("sklearn", "scikit-learn") from error

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state

from farthing.budget.rates import rate_of
from farthing.core.settings import Settings
from farthing.cost import KnownBeforehand
from farthing.integrations.sklearn_search import Out, Row, Search
from farthing.integrations.sklearn_space import Candidates
from farthing.optimizer import Optimizer
from farthing.running import Pricing
from farthing.space.space import Space
from farthing.view.result import Result

__all__ = ["BudgetSearchCV"]


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

        search = Search(
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
        settings, state = optimizer.facts
        self.result_ = Result.of(settings, optimizer.best, reason, state)
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

    def _formatted(self, rows: list[Row], n_splits: int) -> Mapping[str, Any]:
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

    def _warn_of_failures(self, rows: list[Row]) -> None:
        failed = [row for row in rows if row.state == "failed"]
        if failed:
            warnings.warn(
                f"{len(failed)} of {len(rows)} candidates failed; their scores are "
                f"{self.error_score}. The first error: {failed[0].error}",
                FitFailedWarning,
                stacklevel=2,
            )


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
