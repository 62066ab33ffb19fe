import numpy as np
import pytest
from beliefs import done, known, one_column, two_points
from oracles import differences

from farthing import Budget, Categorical, Float, History, Space
from farthing.cost import Known
from farthing.models.gp import Hyper, build
from farthing.policies import Thompson
from farthing.policies.thompson import surface

GRID = np.array([[0.0], [0.25], [0.5], [0.75], [1.0]])


def on_the_grid():
    """The GP of [two-point-gp] on a table of five points."""
    belief = two_points()
    space = Space.from_rows([{"x": x} for x in GRID[:, 0].tolist()])
    return known(space, objective=belief.objective, best=np.array([-0.1]))


def paths(belief, X, count):
    return -np.array([surface(belief, np.random.default_rng(i)).at(X).score for i in range(count)])


@pytest.mark.slow
def test_samples_have_the_posterior_mean_and_covariance():
    belief = on_the_grid()
    count = 1000
    f = paths(belief, GRID, count)
    mean, std = one_column(belief.objective, GRID)
    assert np.all(np.abs(f.mean(0) - mean) < 4.5 * std / np.sqrt(count))
    covariance = belief.objective.covariance(GRID)
    error = np.sqrt((np.outer(std**2, std**2) + covariance**2) / count)
    assert np.all(np.abs(np.cov(f.T) - covariance) < 4.5 * error)


def test_samples_go_through_the_data():
    f = paths(on_the_grid(), np.array([[0.2], [0.8]]), 20)
    np.testing.assert_allclose(f, np.tile([0.5, -0.1], (20, 1)), atol=0.01)  # the noise is 1e-3


def test_each_row_is_chosen_as_often_as_it_is_the_minimum():
    belief = on_the_grid()
    count = 300
    rows = [Thompson().propose(belief, np.random.default_rng(i)).x[0] for i in range(count)]
    chosen = np.array([rows.count(x) for x in GRID[:, 0]]) / count
    sample = belief.objective.sample(GRID, 40_000, np.random.default_rng(0))
    expected = np.bincount(sample.argmin(axis=1), minlength=5) / 40_000
    error = np.sqrt(expected * (1 - expected) / count) + 1e-3
    assert np.all(np.abs(chosen - expected) < 4 * error)


def mixed(limit=None):
    space = Space({"x": Float(2, 3), "kind": Categorical(["a", "b", "c"]), "z": Float(0, 1)})
    rng = np.random.default_rng(4)
    X = space.sample(7, rng)
    y = 50 + 9 * np.sin(5 * X[:, 0]) + X[:, 1]
    gp = build(X, y, Hyper(np.array([0.4, 0.9, 0.6]), 60.0, 1e-4, 50.0), options=space.options)
    history = History(tuple(done(i, x, v) for i, (x, v) in enumerate(zip(X, y, strict=True))))
    return known(
        space,
        objective=gp,
        cost={"cost": Known(lambda p: p["x"]).bind(space)},
        budget=None if limit is None else Budget(limit),
        history=history,
        best=np.array([y.min()]),
    )


def test_slopes_are_the_differences():
    belief = mixed(limit=2.6)
    path = surface(belief, np.random.default_rng(1))
    X = belief.space.sample(6, np.random.default_rng(2)) * [0.9, 1, 0.9] + [0.05, 0, 0.05]
    rated, slope, d_shortfall = path.slopes(X)
    np.testing.assert_allclose(rated.score, path.at(X).score, rtol=1e-12)
    np.testing.assert_allclose(rated.shortfall, path.at(X).shortfall, rtol=1e-12)
    numeric = [0, 2]
    slow = differences(lambda x: path.at(x).score, X)
    np.testing.assert_allclose(slope[:, numeric], slow[:, numeric], rtol=1e-5, atol=1e-5)
    assert np.all(slope[:, 1] == 0)
    slow = differences(lambda x: path.at(x).shortfall, X)
    np.testing.assert_allclose(d_shortfall[:, numeric], slow[:, numeric], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_minimum_of_its_path(seed):
    belief = mixed()
    proposal = Thompson().propose(belief, np.random.default_rng(seed))
    path = surface(belief, np.random.default_rng(seed))
    fine = belief.space.spread(np.random.default_rng(9).random((2000, 3)))
    assert path.at(proposal.x[None]).score >= path.at(fine).score.max() - 1e-6


def test_draws_differ_and_repeat_with_their_rng():
    belief = mixed()
    x = [Thompson().propose(belief, np.random.default_rng(i)).x for i in (0, 1, 0)]
    assert np.abs(x[0] - x[1]).max() > 1e-3
    np.testing.assert_array_equal(x[0], x[2])


def test_only_what_is_affordable():
    for seed in range(3):
        belief = mixed(limit=2.3)
        x = Thompson().propose(belief, np.random.default_rng(seed)).x
        assert belief.space.decode(x)["x"] <= 2.3
