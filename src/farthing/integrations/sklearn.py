"""Cross-validated search within a budget, with the interface of scikit-learn's searches.

    search = BudgetSearchCV(SVC(), {"C": loguniform(1e-3, 1e3)}, budget="10m")
    search.fit(X, y)
    search.best_params_, search.result_.stop_reason

Folds are steps of a training (`sklearn_folds`), and candidates race fold by fold
(`sklearn_racing`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

from farthing.errors import InvalidInput, MissingExtra

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise MissingExtra("sklearn", "scikit-learn") from error

import joblib
import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _warn_or_raise_about_fit_failures
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_method_params, indexable

from farthing.budget.rates import rate_of
from farthing.budget.units import Budget
from farthing.core.settings import Settings
from farthing.cost import KnownBeforehand
from farthing.history import StopReason
from farthing.integrations.sklearn_fits import Fits, Out
from farthing.integrations.sklearn_folds import Candidate, FoldSearch, steps_of
from farthing.integrations.sklearn_racing import Racing
from farthing.integrations.sklearn_sources import sources_of
from farthing.integrations.sklearn_space import Candidates
from farthing.integrations.sklearn_start import cost_of_fits, with_cheap_integers
from farthing.optimizer import Optimizer
from farthing.running import Pricing
from farthing.space.space import Space
from farthing.steps import Steps
from farthing.view.result import Result

__all__ = ["BudgetSearchCV"]

# Of the time of fits: more than the default, because a suggestion without a model of costs may be a
# fit that lasts longer than the rest of the budget, and most fits cannot be killed.
OVERHEAD = 0.5


class BudgetSearchCV(BaseSearchCV):  # type: ignore[misc,unused-ignore]
    """Search hyperparameters by cross-validation until a budget is spent.

    A budget in seconds is the wall-clock time of the search, overhead included. It does not include
    the final refit and the start of processes. If fits run in processes (`n_jobs` > 1 with joblib's
    own backend), the search kills those that exceed the time; other fits end before it stops. Only
    candidates with all folds count, unless the budget does not pay for any.

    Args:
        estimator: the estimator or pipeline to fit.
        space: {name: values}: a list, a distribution of scipy or any other object with `rvs`, or a
            parameter of Farthing, which may declare its effect on the cost:
            Int(10, 1000, log=True, cost="increases"). Or a list of such dicts.
        budget: "10m", "30 trials", "20 worker_m" (the time of all fits together), or "$5" with a
            rate.
        param_distributions: another name of `space`, as in RandomizedSearchCV.
        n_iter: the largest number of candidates, besides the budget.
        policy, stop, cost, worth, start: as in `farthing.Optimizer`.
        learn_from: earlier studies, as in `farthing.Optimizer`, and fitted searches of scikit-learn
            or their `cv_results_`.
        rate: the price of a second of fitting, "$3.06/h".
        random_state: the seed of the candidates, which also depend on measured times.

    The other arguments and attributes are those of RandomizedSearchCV. Of several scores, the
    search maximises `refit`, or the first one if that is no name. In addition, `cv_results_` has
    "cost", "predicted_cost", "n_folds" (the number of evaluated folds; the scores of the others are
    NaN) and "state". `result_` has the ledger, the history and the reason why the search stopped.
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012
        **BaseSearchCV._parameter_constraints,
        "space": [dict, list, Space, None],
        "param_distributions": [dict, list, Space, None],
        "n_iter": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    n_splits_: int

    def __init__(
        self,
        estimator: Any,
        space: Any = None,
        budget: Any = "10m",
        *,
        param_distributions: Any = None,
        n_iter: int | None = None,
        policy: Any = None,
        stop: Any = None,
        cost: Any = None,
        worth: Any = None,
        start: Any = None,
        learn_from: Any = None,
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
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.policy = policy
        self.stop = stop
        self.cost = cost
        self.worth = worth
        self.start = start
        self.learn_from = learn_from
        self.rate = rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, **params: Any) -> BudgetSearchCV:
        """Search, and fit the best candidate again on all data.

        Args:
            params: parameters of the estimator's `fit`, of the scorer and of the splitter, as in
                RandomizedSearchCV.
        """
        self._validate_params()
        scorers, metric = self._get_scorers()
        X, y = indexable(X, y)
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        cv = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        splits = list(cv.split(X, y, **routed.splitter.split))
        if not splits:
            raise InvalidInput(f"cv={self.cv!r} has no folds: expected at least one.")
        self.n_splits_ = len(splits)
        options = {
            "scorer": scorers,
            "fit_params": routed.estimator.fit,
            "score_params": routed.scorer.score,
            "return_train_score": self.return_train_score,
            "error_score": self.error_score,
            "verbose": self.verbose,
        }
        search = self._search((X, y), splits, options)
        outs = [out for each in search.candidates.values() for out in each.outs]
        self.multimetric_ = isinstance(_successful(outs)["test_scores"], Mapping)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(_successful(outs)["test_scores"])
            metric = self.refit
        self.cv_results_ = self._table(list(search.candidates.values()))
        self.scorer_ = scorers._scorers if hasattr(scorers, "_scorers") else scorers
        self._select(metric)
        if self.refit:
            self._refit(X, y, routed.estimator.fit)
        return self

    def _search(self, data: tuple[Any, Any], splits: list[Any], options: Any) -> FoldSearch:
        """Search until the budget is spent; sets `result_`."""
        space = Candidates.of(self._given_space())
        backend = _killable(self.n_jobs)
        with nullcontext() if backend is None else joblib.parallel_config(backend=backend):
            fits = Fits(
                clone(self.estimator),
                data,
                splits,
                options,
                self.n_jobs,
                self.pre_dispatch,
                backend,
            )
            fits.start()
            settings = _settings(self, space, steps_of(len(splits), fits.at_once))
            if settings.budget is not None and "trials" in settings.budget.limits:
                fits.candidates = int(settings.budget.limits["trials"])
            self._announce(settings, fits)
            search = FoldSearch(
                fits=fits,
                score=self._score,
                optimizer=Optimizer.of(settings),
                space=space,
                pricing=Pricing({} if self.rate is None else rate_of(self.rate), cpu=True),
                resources=settings.resources,
            )
            reason = search.until_stopped()
        settings, state = search.optimizer.facts
        self.result_ = Result.of(settings, search.optimizer.best, reason, state)
        self._report_failures(search, reason)
        return search

    def _given_space(self) -> Any:
        """The space, under one of its two names."""
        if (self.space is None) == (self.param_distributions is None):
            raise InvalidInput(
                "BudgetSearchCV needs the values to search: give either space={...}, or "
                "param_distributions={...}, the name in RandomizedSearchCV."
            )
        return self.param_distributions if self.space is None else self.space

    def _announce(self, settings: Settings, fits: Fits) -> None:
        if self.verbose <= 0:
            return
        folds, count = len(fits.splits), fits.candidates
        if count:
            total = f"{count} candidates, totalling at most {folds * count} fits"
        else:
            total = "the candidates that the budget pays for"
        if settings.learn_from:
            print(f"Learns from {'; '.join(map(str, settings.learn_from))}.")
        print(f"Fitting {folds} folds for each of {total}")

    def _report_failures(self, search: FoldSearch, reason: StopReason) -> None:
        """Warn of failed candidates, as scikit-learn does; raise if there is no result at all."""
        candidates = list(search.candidates.values())
        failed = [each for each in candidates if each.state == "failed"]
        outs = [out for each in candidates for out in each.outs]
        if not outs:
            raise InvalidInput(
                f"No fit ended: {reason}. Give a larger budget, or values that are fitted faster."
            )
        if all(out["fit_error"] for out in outs):
            _warn_or_raise_about_fit_failures(outs, self.error_score)
        if failed:
            warnings.warn(
                f"{len(failed)} of {len(candidates)} candidates failed; their scores are "
                f"{self.error_score}. The first error: {failed[0].error}",
                FitFailedWarning,
                stacklevel=4,
            )

    def _table(self, candidates: list[Candidate]) -> Any:
        """`cv_results_`."""
        n = self.n_splits_
        full = _successful([out for each in candidates for out in each.outs])
        outs = [out for each in candidates for out in self._filled(each, full)]
        more = {
            "cost": [next(iter(each.cost.values()), np.nan) for each in candidates],
            "predicted_cost": [each.trial.predicted_cost or np.nan for each in candidates],
            "n_folds": [len(each.outs) for each in candidates],
            "state": [each.state for each in candidates],
        }
        with warnings.catch_warnings():  # scores that are not finite were already warned of
            warnings.simplefilter("ignore", UserWarning)
            table = self._format_results([each.params for each in candidates], n, outs, more)
        if all(each.state in ("paused", "killed") for each in candidates):
            self._rank_partial(table)
        return table

    def _filled(self, candidate: Candidate, full: Out) -> list[Out]:
        """A result for every fold; folds that were not evaluated have no score."""
        known = [] if candidate.state == "failed" else candidate.outs
        missing = self.error_score if candidate.state == "failed" else np.nan
        times = {
            name: float(np.mean([out[name] for out in candidate.outs] or [np.nan]))
            for name in ("fit_time", "score_time")
        }
        blank = {**full, **times}
        for name in ("test_scores", "train_scores"):
            if name in full:
                several = isinstance(full[name], Mapping)
                blank[name] = dict.fromkeys(full[name], missing) if several else missing
        return [*known, *[blank] * (self.n_splits_ - len(known))]

    def _rank_partial(self, table: dict[str, Any]) -> None:
        """Rank the candidates with the most folds by the mean of these folds."""
        most = int(table["n_folds"].max())
        warnings.warn(
            f"No candidate has all {self.n_splits_} folds: {self.result_.stop_reason}. "
            f"best_params_ has the best mean score of {most} folds. Give a larger budget.",
            UserWarning,
            stacklevel=4,
        )
        for name in [name for name in table if name.startswith("rank_test_")]:
            key = name.removeprefix("rank_")
            scores = np.stack([table[f"split{i}_{key}"] for i in range(most)], axis=1)
            mean = np.where(table["n_folds"] == most, scores.mean(axis=1), np.nan)
            table[f"mean_{key}"] = mean
            table[f"std_{key}"] = np.where(np.isnan(mean), np.nan, scores.std(axis=1))
            worst = np.nanmin(mean) - 1
            table[name] = rankdata(-np.nan_to_num(mean, nan=worst), method="min").astype(np.int32)

    def _select(self, metric: Any) -> None:
        if not self.refit and self.multimetric_:
            return
        self.best_index_ = self._select_best_index(self.refit, metric, self.cv_results_)
        if not callable(self.refit):
            self.best_score_ = self.cv_results_[f"mean_test_{metric}"][self.best_index_]
        self.best_params_ = self.cv_results_["params"][self.best_index_]

    def _refit(self, X: Any, y: Any, params: Mapping[str, Any]) -> None:
        # The parameters are cloned, too: they may be estimators.
        best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        start = time.perf_counter()
        self.best_estimator_ = best.fit(X, **params) if y is None else best.fit(X, y, **params)
        self.refit_time_ = time.perf_counter() - start
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        """Abstract in scikit-learn. `fit` does not call it."""
        raise NotImplementedError

    def _score(self, out: Out) -> float:
        """The score of one fit that the search maximises: `refit`, or else the first one."""
        scores = out["test_scores"]
        if not isinstance(scores, Mapping):
            return float(scores)
        name = self.refit if isinstance(self.refit, str) else next(iter(scores))
        return float(scores.get(name, np.nan))


def _successful(outs: list[Out]) -> Out:
    """The first result without an error, or else the first one."""
    return next((out for out in outs if not out["fit_error"]), outs[0])


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


def _budget(search: BudgetSearchCV) -> Any:
    """The budget with at most `n_iter` candidates."""
    if search.n_iter is None:
        return search.budget
    limits = {} if search.budget is None else dict(Budget(search.budget).limits)
    return {**limits, "trials": min(search.n_iter, limits.get("trials", search.n_iter))}


def _policy(search: BudgetSearchCV, steps: Steps | None) -> Any:
    """The policy of the user; by default, candidates race fold by fold."""
    return Racing() if search.policy is None and steps is not None else search.policy


def _settings(search: BudgetSearchCV, candidates: Candidates, steps: Steps | None) -> Settings:
    cost = search.cost
    if callable(cost) and not isinstance(cost, type) and not hasattr(cost, "fit"):
        cost = partial(_price_of, cost, candidates)
    seed = int(check_random_state(search.random_state).randint(2**31 - 1))
    settings = Settings.of(
        with_cheap_integers(candidates.space),
        _budget(search),
        policy=_policy(search, steps),
        stop=search.stop,
        cost=cost,
        worth=search.worth,
        start=candidates.chosen(search.start),
        steps=steps,
        rate=search.rate,
        overhead=OVERHEAD,
        direction="maximize",
        seed=seed,
    )
    if search.learn_from is not None:
        metric = search.refit if isinstance(search.refit, str) else "score"
        sources = sources_of(search.learn_from, candidates, settings, metric)
        settings = replace(settings, learn_from=sources)
    learner = cost_of_fits(candidates.space) if cost is None else None
    if learner is not None and settings.required_costs:
        settings = replace(settings, cost=dict.fromkeys(settings.required_costs, learner))
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
