"""The order in which configurations of earlier studies are tried."""

from types import SimpleNamespace

import numpy as np

from farthing import Float, Space
from farthing.acquisition.portfolio import ranked
from farthing.models.gp import Normal


def belief_of(gain, cost, trust=0.9):
    """One source with configurations of these gains, in standard deviations, and costs."""
    X = (np.arange(len(gain))[:, None] + 0.5) / len(gain)

    def at(values, X):
        return np.asarray(values, dtype=float)[(X[:, 0] * len(gain)).astype(int)]

    return SimpleNamespace(
        space=Space({"x": Float(0, 1)}),
        prior=SimpleNamespace(weights=np.array([2.0]), parts=lambda X: -at(gain, X)[:, None]),
        trust={"a": trust},
        sources=[SimpleNamespace(x=X, y=np.zeros(len(X)))],
        history=SimpleNamespace(X=np.empty((0, 1))),
        cost={"usd": None},
        costs=lambda X: [Normal(np.log(at(cost, X)), np.zeros(len(X)))],
    )


def order(*given, **more):
    X, shares = ranked(belief_of(*given, **more), np.zeros(1))
    assert (shares == 1.0).all()
    return (X[:, 0] * len(given[0])).astype(int).tolist()


def test_it_is_the_gain_over_the_root_of_the_cost():
    assert order([1.0, 2.0, 0.05, 3.0], [1.0, 3.0, 0.001, 100.0]) == [1, 0, 3]


def test_nothing_is_gained_from_a_source_without_trust():
    assert order([1.0, 2.0], [1.0, 3.0], trust=0.0) == []
