"""BudgetSearchCV with odd inputs: a result, or an error that says what to do; nothing else."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import randint
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import KFold

from farthing import Float, InvalidInput, Space
from farthing.integrations.sklearn import BudgetSearchCV

X, Y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2


class Odd(ClassifierMixin, BaseEstimator):
    """Fails or has no score, depending on its parameters."""

    def __init__(self, a=0.0, how="well"):
        self.a = a
        self.how = how

    def fit(self, X, y):
        if self.how == "fails" or (self.how == "sometimes" and self.a > 0.5):
            raise RuntimeError("it fails")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def score(self, X, y):
        return {"nan": np.nan, "inf": np.inf}.get(self.how, self.a)


SPACES = (
    {"a": [0.5]},
    {"a": [1, 1, 1]},
    {"a": randint(3, 4)},
    {"a": [np.nan, 0.1]},
    {"a": [0.1, "x", None]},
    {"a": Float(0, 1)},
    Space({"a": Float(0, 1)}),
    [{"a": [0.1]}, {"a": Float(0, 1), "how": ["well", "sometimes"]}],
    {},
    [],
    [{}],
    {"a": []},
    {"unknown": [1, 2]},
    {1: [1, 2]},
)
BUDGETS = ("1 trials", "3 trials", "1e-9s", "1e-6 worker_s", {"s": 0.05, "trials": 4})
# All fits failed; an unknown name; and what the estimator itself raises in the final fit.
THEIRS = ("All the", "Invalid parameter", "it fails", "scoring must return a number")
HOW = ("well", "fails", "nan", "inf", "sometimes")


def _error(search):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            search.fit(X, Y)
        except Exception as error:
            return error
    return None


@pytest.mark.parametrize("number", range(len(SPACES)))  # the repr of a space may have an address
def test_odd_inputs_give_a_result_or_a_sentence(number):
    space, rng = SPACES[number], np.random.default_rng(number)
    cases = list(itertools.product(BUDGETS, HOW, (2, KFold(3)), (np.nan, 0.0)))
    for k in rng.choice(len(cases), 8, replace=False):
        budget, how, cv, error_score = cases[k]
        search = BudgetSearchCV(
            Odd(how=how), space, budget, cv=cv, error_score=error_score, random_state=0
        )
        if (error := _error(search)) is not None:
            ours = isinstance(error, InvalidInput)
            theirs = any(text in str(error) for text in THEIRS)
            assert ours or theirs, (budget, how, cv, error_score, error)
            continue
        results = search.cv_results_
        assert search.best_params_ in results["params"]
        assert (results["n_folds"] <= search.n_splits_).all()
        assert set(results["state"]) <= {"done", "paused", "failed", "killed"}
