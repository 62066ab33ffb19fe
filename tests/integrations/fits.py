"""Estimators whose fits take as long as a test wants, and a clock that shows it."""

import math
import time
from types import SimpleNamespace

import numpy as np
from clocks import Clock
from processes import FOREVER
from sklearn.base import BaseEstimator, ClassifierMixin


class Sleeps(ClassifierMixin, BaseEstimator):
    """An estimator whose fit sleeps, longer for better parameters."""

    sleep = staticmethod(time.sleep)

    def __init__(self, seconds=0.0, forever_from=math.inf):
        self.seconds = seconds
        self.forever_from = forever_from

    def fit(self, X, y):
        self.sleep(FOREVER if self.seconds >= self.forever_from else self.seconds)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def score(self, X, y):
        return self.seconds


class Trees(Sleeps):
    """An estimator whose fit takes 2 ms per tree; more leaves make it faster."""

    def __init__(self, n=1, leaves=1.0):
        self.n = n
        self.leaves = leaves

    @property
    def seconds(self):
        return 0.002 * self.n / self.leaves

    @property
    def forever_from(self):
        return math.inf

    def score(self, X, y):
        return 1 - 1 / self.n + 0.001 * self.leaves


def clock_of_fits(monkeypatch):
    """A clock that advances while a fit of `Sleeps` sleeps, and by 10 ms for each suggestion."""
    clock = Clock(monkeypatch, suggestion=0.01)
    monkeypatch.setattr("farthing.integrations.sklearn_folds.time", clock)
    theirs = SimpleNamespace(time=clock.monotonic, perf_counter=clock.monotonic)
    monkeypatch.setattr("sklearn.model_selection._validation.time", theirs)
    monkeypatch.setattr(Sleeps, "sleep", staticmethod(clock.sleep))
    return clock
