"""The optional members of a cost model, and their defaults."""

from dataclasses import dataclass

import numpy as np

from farthing.cost import DependsOnPrevious, KnownBeforehand, Linear, LogGP, Trend
from farthing.cost.model import Evidence, about_of, because_of, least_of
from farthing.models.gp import Normal
from farthing.space.space import Float, Space

SPACE = Space({"a": Float(1, 10), "b": Float(-1, 1)})
X = SPACE.sample(12, np.random.default_rng(0))
EVIDENCE = Evidence(SPACE, X, 1.0 + X.sum(axis=1), np.zeros(12, dtype=bool))


@dataclass(frozen=True)
class Minimal:
    """A model with the required methods alone."""

    memory: None = None

    def log_at(self, X):
        return Normal(np.full(len(X), 2.0), np.ones(len(X)))

    def slopes(self, X):
        return self.log_at(X), np.zeros(X.shape), np.zeros(X.shape)

    def condition(self, x, cost):
        return self


def test_a_minimal_model_gets_the_defaults():
    model = Minimal()
    np.testing.assert_array_equal(least_of(model, X), np.full(12, 2.0))
    assert about_of(model, "some model") == "some model"
    assert because_of(model) == ""
    assert not isinstance(model, Trend | DependsOnPrevious | KnownBeforehand)


def test_optional_members_are_used():
    model = LogGP().fit(EVIDENCE)
    np.testing.assert_array_equal(least_of(model, X), model.least(X))
    assert np.all(least_of(model, X) < model.log_at(X).mean)
    assert about_of(model, "some model") == "a Gaussian process on ln c"
    constant_b = EVIDENCE._replace(X=np.column_stack([X[:, 0], np.full(12, 0.5)]))
    assert because_of(Linear(["a", "b"]).fit(constant_b)) == "b not used: constant or redundant"


def test_only_models_with_coefficients_are_trends():
    assert isinstance(Linear().fit(EVIDENCE), Trend)
    assert not isinstance(LogGP().fit(EVIDENCE), Trend)
