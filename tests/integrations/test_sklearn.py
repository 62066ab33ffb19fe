"""BudgetSearchCV: a search of scikit-learn with a budget."""

import math
import pickle
import re
import warnings
from contextlib import redirect_stdout, suppress
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn
from integrations.fits import Sleeps, clock_of_fits
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor, reusable_executor
from scipy.stats import loguniform, norm, poisson, randint, rv_discrete, uniform
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, KFold, RandomizedSearchCV, ShuffleSplit
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from farthing import Float, Int, InvalidInput
from farthing.integrations.sklearn import BudgetSearchCV
from farthing.integrations.sklearn_fits import Fits
from farthing.integrations.sklearn_folds import FoldSearch
from farthing.integrations.sklearn_racing import Racing, is_hopeless
from farthing.integrations.sklearn_space import Candidates
from farthing.policies import Random
from farthing.stopping import MaxTrials

X, Y = load_iris(return_X_y=True)
SVM = {"C": loguniform(1e-3, 1e3), "gamma": loguniform(1e-5, 10)}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [LogisticRegression(), Ridge()], ids=["classes", "numbers"])
def test_it_is_an_estimator(estimator):
    name = "C" if isinstance(estimator, LogisticRegression) else "alpha"
    search = BudgetSearchCV(estimator, {name: [0.1, 1.0]}, "2 trials", cv=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the data of scikit-learn's checks are unusual on purpose
        results = check_estimator(search, on_skip=None, on_fail=None)
    wrong = [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")]
    # GridSearchCV(Ridge(), ...) does not pass this one either: Ridge takes several columns of y,
    # so there is nothing to be warned of, and scikit-learn's searches do not pass that tag on.
    assert wrong == ([] if name == "C" else ["check_supervised_y_2d"])
    assert sum(r["status"] == "passed" for r in results) > 40


@pytest.mark.slow
def test_it_finds_a_good_model_and_fills_cv_results():
    search = BudgetSearchCV(SVC(), SVM, "20 trials", random_state=0).fit(X, Y)
    assert isinstance(search, BaseSearchCV)
    assert search.best_score_ > 0.96
    assert search.score(X, Y) > 0.9
    assert search.best_estimator_.get_params()["C"] == search.best_params_["C"]
    results = search.cv_results_
    done = results["state"] == "done"
    scores = np.stack([results[f"split{i}_test_score"] for i in range(5)])
    np.testing.assert_allclose(results["mean_test_score"][done], scores.mean(axis=0)[done])
    assert search.best_score_ == np.nanmax(results["mean_test_score"])
    assert results["rank_test_score"][search.best_index_] == 1
    assert len(results["params"]) == 20
    assert (results["cost"] > 0).all()
    assert "20 trials" in search.result_.stop_reason.sentence
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert clone(search).get_params()["budget"] == "20 trials"


@pytest.mark.slow
def test_the_same_random_state_gives_the_same_candidates():
    def params(state):
        search = BudgetSearchCV(SVC(), SVM, "8 trials", random_state=state)
        return search.fit(X, Y).cv_results_["params"]

    assert params(3) == params(3) != params(4)


# ── budgets ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def clock(monkeypatch):
    return clock_of_fits(monkeypatch)


def test_a_budget_of_seconds_is_kept(clock):
    space = {"seconds": Float(0.001, 0.2, log=True)}
    search = BudgetSearchCV(Sleeps(), space, "1s", cv=3, random_state=0, refit=False)
    start = clock.now
    search.fit(X, Y)
    ledger = search.result_.ledger
    assert ledger.spent == pytest.approx(clock.now - start)
    results = search.cv_results_
    slept = np.array([p["seconds"] for p in results["params"]]) * results["n_folds"]
    assert results["cost"] == pytest.approx(slept)
    assert ledger.overhead == pytest.approx(ledger.spent - slept.sum())
    asked = search.result_.history.turns  # at least one suggestion for each part of a candidate
    assert ledger.overhead == pytest.approx(0.01 * asked, abs=0.011)
    assert 0.5 < ledger.spent <= 1.0 + 0.2  # a started fit is finished


@pytest.mark.slow
def test_seconds_of_work_and_dollars(clock):
    space = {"seconds": uniform(0.01, 0.02)}
    work = BudgetSearchCV(Sleeps(), space, "0.5 worker_s", cv=2, random_state=0).fit(X, Y)
    paid = [trial for trial in work.result_.history if not trial.is_external]
    assert work.result_.ledger.spent == pytest.approx(sum(t.cost["worker_s"] for t in paid))
    slept = [p["seconds"] for p in work.cv_results_["params"]] * work.cv_results_["n_folds"]
    assert [t.cost["worker_s"] for t in paid] == pytest.approx(list(slept))
    assert 0.4 < work.result_.ledger.spent <= 0.5 + 0.03
    dollars = BudgetSearchCV(
        Sleeps(), space, "$0.5", rate="$3600/h per worker", cv=2, random_state=0
    )
    spent = dollars.fit(X, Y).result_.ledger.spent
    assert 0.4 < spent <= 0.5 + 0.03 + 0.01  # a started fit, and a suggestion
    with pytest.raises(InvalidInput, match="give a rate"):
        BudgetSearchCV(Sleeps(), space, "$0.5", cv=2).fit(X, Y)
    with pytest.raises(InvalidInput, match="would never end"):
        BudgetSearchCV(Sleeps(), space, None, cv=2).fit(X, Y)
    known = BudgetSearchCV(
        Sleeps(), space, {"kWh": 1.0}, cost=lambda params: 10 * params["seconds"], cv=2
    )
    assert known.fit(X, Y).result_.ledger.spent <= 1.0


@pytest.mark.slow
def test_a_fit_that_does_not_end_is_killed_with_its_process():
    search = BudgetSearchCV(
        Sleeps(forever_from=0.02), {"seconds": Float(0.001, 0.1, log=True)}, cv=2, n_jobs=2
    )
    first, second = {"seconds": 0.01}, {"seconds": 0.1}
    search.set_params(budget="1 trials", start=first).fit(X, Y)  # this starts the processes
    search.set_params(start=[first, second])  # without a kill it would sleep for ever
    states = _states_at_some_budget(search, lambda states: states == ["done", "killed"])
    assert states == ["done", "killed"]
    assert search.best_params_["seconds"] < 0.02
    killed = search.result_.history[1]
    assert killed.state == "killed"
    assert killed.cost["s"] > 0


def _states_at_some_budget(search, is_enough):
    """The states of the candidates with the first budget that is enough on a busy machine."""
    for budget in ("6s", "30s", "120s"):
        with warnings.catch_warnings(), suppress(InvalidInput):
            warnings.simplefilter("ignore", UserWarning)  # no candidate is complete
            search.set_params(budget=budget, refit=False).fit(X, Y)
            if is_enough(list(search.cv_results_["state"])):
                break
    return list(search.cv_results_["state"])


def test_a_rule_stops_the_search():
    search = BudgetSearchCV(SVC(), SVM, stop=MaxTrials(4), random_state=0).fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert "4" in search.result_.stop_reason.sentence


# ── between folds ──────────────────────────────────────────────────────────────────────────────


def _folds(results, n):
    return np.stack([results[f"split{i}_test_score"] for i in range(n)], axis=1)


@pytest.mark.slow
def test_hopeless_candidates_are_paused_between_folds():
    data = make_classification(400, n_informative=6, flip_y=0.1, random_state=0)
    search = BudgetSearchCV(SVC(), SVM, "25 trials", cv=8, random_state=0).fit(*data)
    results, n = search.cv_results_, 8
    scores, states, folds = _folds(results, n), results["state"], results["n_folds"]
    assert set(states) == {"done", "paused"}
    assert (folds[states == "done"] == n).all()
    done = scores[states == "done"]
    best = done[done.mean(axis=1).argmax()]
    spread = np.mean([np.var(row - best, ddof=1) for row in done if (row != best).any()])
    for i in np.flatnonzero(states == "paused"):
        k = folds[i]
        assert k in (1, 2, 4)
        assert np.isfinite(scores[i, :k]).all()
        assert np.isnan(scores[i, k:]).all()
        # All trials have begun, so that nothing but a hopeless candidate is left paused.
        gap = np.mean(scores[i, :k] - best[:k])
        assert gap < -Racing().z * math.sqrt(spread * (1 / k - 1 / n))
    assert search.best_score_ == done.mean(axis=1).max()


def test_a_paused_candidate_keeps_its_folds():
    fitted = []

    class Notes(DummyClassifier):
        def fit(self, X, y):
            fitted.append((self.random_state, X.tobytes()))
            return super().fit(X, y)

    space = {"random_state": list(range(5))}
    search = BudgetSearchCV(Notes(strategy="stratified"), space, "5 trials", cv=6, refit=False)
    search.fit(X, Y)
    assert len(fitted) == len(set(fitted)) == search.cv_results_["n_folds"].sum()
    for trial, params in zip(search.result_.history, search.cv_results_["params"], strict=True):
        i = search.cv_results_["params"].index(params)
        scores = _folds(search.cv_results_, 6)[i, : trial.step]
        curve = [point.value for point in trial.curve]
        np.testing.assert_allclose(curve, np.cumsum(scores) / np.arange(1, len(scores) + 1))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_a_candidate_is_hopeless_three_standard_errors_behind_the_best(k):
    folds = np.array([0.0, 5.0, 2.0, 9.0, 1.0, 2.0])  # the difficulty that all share
    wobble = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0]) * math.sqrt(5 / 6)  # variance 1
    complete = [folds, folds + 1 + wobble, folds + 2 - wobble]  # losses, to minimise
    threshold = 3 * math.sqrt(1 / k - 1 / 6)
    assert is_hopeless(folds[:k] + 1.01 * threshold, complete, z=3)
    assert not is_hopeless(folds[:k] + 0.99 * threshold, complete, z=3)
    assert not is_hopeless(folds[:k] + 9 * threshold, complete[:2], z=3)  # too few to compare


def test_a_candidate_beyond_the_budget_is_killed_between_folds(clock):
    space = {"seconds": [0.01, 0.5]}
    search = BudgetSearchCV(
        Sleeps(), space, "1.2s", cv=5, random_state=0, start=[{"seconds": 0.01}, {"seconds": 0.5}]
    ).fit(X, Y)
    results = search.cv_results_
    assert list(results["state"]) == ["done", "killed"]
    assert results["n_folds"][1] == 1  # five of them would take 2.5 s
    assert search.best_params_ == {"seconds": 0.01}


@pytest.mark.parametrize(("left", "share"), [(16.0, 0.5), (0.0, math.inf), (-1.0, math.inf)])
def test_a_budget_that_is_spent_exactly_pays_for_no_other_fold(left, share):
    search = SimpleNamespace(n_splits=5, _paid=lambda c: {"s": 2.0}, _left=lambda r, running: left)
    one_fold = SimpleNamespace(state="paused", outs=[{}])
    assert FoldSearch._rest(search, one_fold) == share


def test_all_candidates_see_the_same_folds():
    cv = ShuffleSplit(n_splits=4, test_size=0.5)  # a new split at each call
    space = {"random_state": list(range(6))}
    model = DummyClassifier(strategy="most_frequent")
    results = BudgetSearchCV(model, space, "6 trials", cv=cv).fit(X, Y).cv_results_
    for i in range(4):  # the score depends only on the fold
        assert len(set(results[f"split{i}_test_score"][results["state"] == "done"])) == 1


# ── spaces ──────────────────────────────────────────────────────────────────────────────────────


def test_pipelines_and_lists_of_objects():
    pipe = Pipeline([("scale", StandardScaler()), ("model", SVC())])
    space = {
        "scale": [StandardScaler(), MinMaxScaler(), "passthrough"],
        "model": [SVC(), DecisionTreeClassifier(random_state=0)],
    }
    search = BudgetSearchCV(pipe, space, "6 trials", random_state=0).fit(X, Y)
    assert search.best_score_ > 0.9
    assert len({(id(p["scale"]), id(p["model"])) for p in search.cv_results_["params"]}) == 6
    unhashable = BudgetSearchCV(
        SVC(),
        {"class_weight": [{0: 1, 1: 1, 2: 2}, {0: 2, 1: 1, 2: 1}, None]},
        "3 trials",
    ).fit(X, Y)
    assert len(unhashable.cv_results_["params"]) == 3


def test_distributions_are_ranges():
    given = {
        "a": loguniform(1e-3, 1e3),
        "b": uniform(2, 3),
        "c": randint(1, 9),
        "d": norm(5, 2),
        "e": np.logspace(-3, 3, 7),
        "f": [None, 1, 2],
        "g": Int(1, 4),
    }
    found = Candidates.of(given)
    parameters = found.space.parameters
    assert parameters["a"] == Float(1e-3, 1e3, log=True)
    assert parameters["b"] == Float(2, 5)
    assert parameters["c"] == Int(1, 8)
    assert parameters["e"].log
    drawn = [
        found.params(found.space.decode(x))
        for x in found.space.sample(400, np.random.default_rng(0))
    ]
    assert np.mean([p["d"] for p in drawn]) == pytest.approx(5, abs=0.4)
    assert np.std([p["d"] for p in drawn]) == pytest.approx(2, abs=0.3)
    assert {p["f"] for p in drawn} == {None, 1, 2}


class Draws:
    """An object that can only draw values, as scikit-learn requires."""

    def __init__(self, draw):
        self.rvs = lambda random_state: draw(random_state)


def test_everything_with_rvs_is_a_distribution():
    given = {
        "weights": rv_discrete(values=([1, 5, 50], [0.5, 0.3, 0.2])),
        "many": poisson(1e4),
        "few": poisson(2),
        "numbers": Draws(lambda rng: rng.normal()),
        "whole": Draws(lambda rng: int(rng.randint(3))),
        "words": Draws(lambda rng: ("a", "b")[rng.randint(2)]),
        "unfrozen": uniform,
    }
    found = Candidates.of(given)
    drawn = [
        found.params(found.space.decode(x))
        for x in found.space.sample(200, np.random.default_rng(0))
    ]
    assert {p["weights"] for p in drawn} == {1, 5, 50}
    assert {p["whole"] for p in drawn} == {0, 1, 2}
    assert {p["words"] for p in drawn} == {"a", "b"}
    assert all(type(p[name]) is int for p in drawn for name in ("weights", "many", "few", "whole"))
    assert abs(np.median([p["many"] for p in drawn]) - 1e4) < 200
    assert abs(np.median([p["numbers"] for p in drawn])) < 0.3
    assert all(0 <= p["unfrozen"] <= 1 for p in drawn)


def test_a_list_of_spaces():
    spaces = [
        {"kernel": ["rbf"], "C": loguniform(0.1, 10), "gamma": loguniform(1e-3, 1)},
        {"kernel": ["linear"], "C": loguniform(0.1, 10)},
        {"kernel": [SVC().kernel, "poly"], "C": [1.0, 2.0], "degree": randint(2, 4)},
    ]
    search = BudgetSearchCV(
        SVC(), spaces, "12 trials", cv=2, random_state=0, start={"kernel": "linear", "C": 0.5}
    ).fit(X, Y)
    params = search.cv_results_["params"]
    assert params[0] == {"kernel": "linear", "C": 0.5}
    assert {tuple(sorted(p)) for p in params} == {
        ("C", "gamma", "kernel"),
        ("C", "kernel"),
        ("C", "degree", "kernel"),
    }
    assert all(p["C"] in (1.0, 2.0) for p in params if "degree" in p)
    assert search.cv_results_["param_gamma"].mask.sum() == sum("gamma" not in p for p in params)


def test_the_names_of_a_randomized_search():
    plain = {"n_iter": 3, "cv": 3, "random_state": 0, "verbose": 3}
    search = BudgetSearchCV(SVC(), param_distributions=SVM, **plain)
    with redirect_stdout(StringIO()) as ours:
        search.fit(X, Y)
    with redirect_stdout(StringIO()) as theirs:
        RandomizedSearchCV(SVC(), SVM, **plain).fit(X, Y)
    assert len(search.cv_results_["params"]) == 3
    assert clone(search).get_params()["n_iter"] == 3

    line = re.compile(r"\[CV \d/3\] END \.*C=.*, gamma=.*;, score=.* total time=.*s")
    for printed in (ours, theirs):
        first, *others = printed.getvalue().splitlines()
        assert re.fullmatch(
            r"Fitting 3 folds for each of 3 candidates, totalling( at most)? 9 fits", first
        )
        assert others
        assert all(map(line.fullmatch, others))
    for wrong in ({}, {"space": SVM, "param_distributions": SVM}):
        with pytest.raises(InvalidInput, match="param_distributions"):
            BudgetSearchCV(SVC(), **wrong).fit(X, Y)


@pytest.mark.parametrize("space", [{}, {"C": 1.0}, {"C": "rbf"}, {"C": []}, {"C": {}}])
def test_an_invalid_space_is_refused(space):
    with pytest.raises(InvalidInput, match="expected"):
        BudgetSearchCV(SVC(), space, "2 trials").fit(X, Y)


# ── other features of scikit-learn ──────────────────────────────────────────────────────────────


def test_candidates_that_fail():
    space = {"C": [-1.0, 1.0, 10.0, 100.0]}
    search = BudgetSearchCV(SVC(), space, "4 trials", error_score=-1.0, start={"C": 1.0})
    with pytest.warns(FitFailedWarning, match=r"1 of 4 candidates failed(.|\n)*'C' parameter"):
        search.fit(X, Y)
    results = search.cv_results_
    failed = results["state"] == "failed"
    assert list(results["mean_test_score"][failed]) == [-1.0]
    assert results["params"][int(np.flatnonzero(failed)[0])] == {"C": -1.0}
    done = results["state"] == "done"
    assert (results["rank_test_score"][failed] > results["rank_test_score"][done]).all()
    with pytest.raises(ValueError, match="'C' parameter"):
        BudgetSearchCV(SVC(), space, "4 trials", error_score="raise", start={"C": -1.0}).fit(X, Y)
    with pytest.raises(ValueError, match="All the"):
        BudgetSearchCV(SVC(), {"C": [-1.0, -2.0]}, "4 trials").fit(X, Y)


@pytest.mark.slow
def test_several_scores():
    scoring = {"good": "accuracy", "loss": "neg_log_loss"}
    search = BudgetSearchCV(
        LogisticRegression(max_iter=500),
        {"C": loguniform(1e-2, 1e2)},
        "5 trials",
        scoring=scoring,
        refit="loss",
        return_train_score=True,
    ).fit(X, Y)
    done = search.cv_results_["state"] == "done"
    assert search.best_index_ == np.argmax(np.where(done, search.cv_results_["mean_test_loss"], -9))
    assert np.isfinite(search.cv_results_["mean_train_good"][done]).all()
    worst = search.set_params(refit=lambda results: int(np.argmin(results["mean_test_loss"])))
    assert worst.fit(X, Y).best_params_ == worst.cv_results_["params"][worst.best_index_]
    assert not hasattr(clone(search).set_params(refit=False).fit(X, Y), "best_params_")
    with pytest.raises(ValueError, match="refit must be set"):
        search.set_params(refit=True).fit(X, Y)


def test_refit_false_and_a_callable():
    search = BudgetSearchCV(SVC(), SVM, "4 trials", refit=False, random_state=0).fit(X, Y)
    assert not hasattr(search, "best_estimator_")
    assert search.best_params_["C"] > 0
    first = BudgetSearchCV(SVC(), SVM, "4 trials", refit=lambda results: 0, random_state=0)
    assert first.fit(X, Y).best_params_ == first.cv_results_["params"][0]


def test_metadata_reach_the_splitter_and_the_estimator():
    groups, weights = np.arange(len(X)) % 5, np.linspace(0.1, 1, len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        model = LogisticRegression(max_iter=500).set_fit_request(sample_weight=True)
        scoring = get_scorer("accuracy").set_score_request(sample_weight=True)
        search = BudgetSearchCV(
            model, {"C": [0.1, 1.0]}, "2 trials", cv=GroupKFold(5), scoring=scoring
        )
        search.fit(X, Y, groups=groups, sample_weight=weights)
    assert search.n_splits_ == 5
    plain = LogisticRegression(max_iter=500, **search.best_params_).fit(X, Y)
    assert not np.allclose(plain.coef_, search.best_estimator_.coef_)


def test_several_jobs_evaluate_several_candidates_at_once():
    search = BudgetSearchCV(SVC(), SVM, "6 trials", cv=KFold(2, shuffle=True, random_state=0))
    search.set_params(n_jobs=4, random_state=0).fit(X, Y)
    assert len(search.cv_results_["params"]) == 6
    assert set(search.cv_results_["state"]) <= {"done", "paused"}


@pytest.mark.slow
def test_processes_start_before_the_clock_of_the_first_candidate():
    there = []

    class Counts(Random):
        def propose(self, belief, rng):
            there.append(len(reusable_executor._executor._processes))
            return super().propose(belief, rng)

    get_reusable_executor().shutdown(kill_workers=True)  # those of other tests
    search = BudgetSearchCV(SVC(), {"C": [0.1, 1.0]}, "2 trials", policy=Counts(), cv=2, n_jobs=2)
    search.fit(X, Y)
    assert there[0] == 2


@pytest.mark.slow
def test_processes_import_what_a_fit_needs_before_the_clock_starts():
    get_reusable_executor().shutdown(kill_workers=True)
    module = "farthing.integrations.sklearn_fits"
    Fits(SVC(), (X, Y), [], {}, n_jobs=2, pre_dispatch="all", backend=True).start()
    known = Parallel(2)(delayed(eval)(f"{module!r} in __import__('sys').modules") for _ in "ab")
    assert known == [True, True]


# ── earlier searches ───────────────────────────────────────────────────────────────────────────


class Parabola(Sleeps):
    """An estimator with a known score: the best `at` is 0.3, and one `kind` is better."""

    seconds, forever_from = 0.0, math.inf

    def __init__(self, at=0.5, kind="flat", shape=None):
        self.at = at
        self.kind = kind
        self.shape = shape

    def score(self, X, y):
        return -((self.at - 0.3) ** 2) - 0.1 * (self.kind == "flat") + 0.01 * (self.shape == [2])


PARABOLA = {"at": uniform(0, 1), "kind": ["flat", "round"], "shape": [[1], [2]]}


def earlier_search(**how):
    return RandomizedSearchCV(Parabola(), PARABOLA, n_iter=20, random_state=1, **how).fit(X, Y)


def learning(sources, space=PARABOLA, **how):
    search = BudgetSearchCV(Parabola(), space, "4 trials", random_state=0, learn_from=sources)
    return search.set_params(**how).fit(X, Y)


@pytest.mark.parametrize("cv", [3, ShuffleSplit(1, random_state=0)], ids=["folds", "one fold"])
def test_a_search_starts_with_what_was_best_before(cv):
    earlier = earlier_search()
    search = learning(earlier, cv=cv)
    assert search.result_.history[0].params == pytest.approx(
        {"at": earlier.best_params_["at"], "kind": "round", "shape": 1}
    )
    assert search.result_.history[0].notes["portfolio"] == {"table": 1.0}
    assert search.result_.history[-1].notes["trust"] == {"table": 1.0}
    assert search.best_score_ > earlier.best_score_ - 1e-4
    np.testing.assert_array_equal(  # the table of a search is the same source
        search.cv_results_["params"], learning(earlier.cv_results_, cv=cv).cv_results_["params"]
    )


def test_earlier_candidates_are_matched_by_the_arguments_of_the_estimator():
    """A list may have another order now, and its values need not be plain."""
    space = {**PARABOLA, "at": uniform(0, 0.9), "shape": [[3], [2], [1]]}
    earlier = earlier_search()
    best = earlier.best_params_
    (source,) = learning({"may": earlier}, space).result_.learnt
    assert source.name == "may"
    inside = sum(params["at"] <= 0.9 for params in earlier.cv_results_["params"])
    assert source.about == f"{inside} of 20 trials, {20 - inside} with at outside its range"
    first = learning({"may": earlier}, space).cv_results_["params"][0]
    assert first == {**best, "at": pytest.approx(best["at"])}
    several = learning(earlier, [space, {"at": uniform(0, 1), "kind": ["square"]}])
    assert several.cv_results_["params"][0] == first


def test_a_search_within_a_budget_is_a_source_too(capsys):
    earlier = learning(None)
    states = list(earlier.cv_results_["state"])
    learning([earlier], verbose=1)
    count = states.count("done")
    assert f"Learns from 'table' ({count}" in capsys.readouterr().out


def test_searches_that_teach_nothing_are_refused():
    with pytest.raises(InvalidInput, match="not fitted"):
        learning(RandomizedSearchCV(Parabola(), PARABOLA))
    scores = {"accuracy": "accuracy", "recall": "recall_macro"}
    several = earlier_search(scoring=scores, refit="recall")
    with pytest.raises(InvalidInput, match=r"no score 'score'.*mean_test_accuracy"):
        learning(several)
    with pytest.raises(InvalidInput, match="no parameter of this space"):
        learning([{"depth": 1, "value": 0.1}])
