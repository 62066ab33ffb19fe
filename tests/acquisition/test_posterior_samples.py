from dataclasses import replace

import numpy as np
import pytest
from beliefs import one_column, two_points
from oracles import differences

from farthing import Categorical, Float, Int, Space
from farthing.acquisition.posterior_samples import draw, minima
from farthing.models.gp import Hyper, build

GRID = np.linspace(0, 1, 6)[:, None]
LINE = Space({"x": Float(0, 1)})


def mixed():
    space = Space({"x": Float(2, 3), "kind": Categorical(["a", "b", "c"]), "n": Int(0, 5)})
    X = space.sample(9, np.random.default_rng(4))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + X[:, 2] ** 2
    gp = build(X, y, Hyper(np.array([0.3, 0.9, 0.6]), 1.5, 1e-4, 0.7), options=space.options)
    return space, gp


def test_paths_have_the_posterior_mean_and_covariance():
    gp = two_points().objective
    f = np.hstack([draw(gp, ["x"], 50, np.random.default_rng(i)).at(GRID) for i in range(40)]).T
    mean, std = one_column(gp, GRID)
    count = len(f)
    assert np.all(np.abs(f.mean(axis=0) - mean) < 5 * std / np.sqrt(count))
    covariance = gp.covariance(GRID)
    error = np.sqrt((np.outer(std**2, std**2) + covariance**2) / count)
    assert np.all(np.abs(np.cov(f.T) - covariance) < 5 * error)


def test_the_noise_of_the_data_is_in_the_paths():
    gp = build([[0.5]], [1.0], Hyper(np.array([0.3]), 1.0, 0.5, 0.0))
    f = draw(gp, ["x"], 4000, np.random.default_rng(0)).at(np.array([[0.5]]))
    assert f.mean() == pytest.approx(1.0 / 1.5, abs=0.05)
    assert f.std() == pytest.approx(np.sqrt(1.0 - 1.0 / 1.5), rel=0.06)


def test_far_from_the_data_paths_have_the_prior_mean():
    gp = build([[0.0]], [5.0], Hyper(np.array([0.05]), 0.01, 1e-6, 3.0))
    f = draw(gp, ["x"], 400, np.random.default_rng(0)).at(np.array([[1.0]]))
    assert f.mean() == pytest.approx(3.0, abs=0.03)


def test_along_is_the_path_of_each_row_and_its_slope():
    space, gp = mixed()
    paths = draw(gp, space.names, 4, np.random.default_rng(1))
    X = space.sample(6, np.random.default_rng(2)) * [0.9, 1, 0.9] + [0.05, 0, 0.05]
    which = np.array([0, 3, 3, 1, 2, 0])
    value, slope = paths.along(X, which)
    np.testing.assert_allclose(value, paths.at(X)[np.arange(6), which], rtol=1e-12)
    slow = differences(lambda Z: paths.along(Z, which)[0], X)
    np.testing.assert_allclose(slope[:, [0, 2]], slow[:, [0, 2]], rtol=1e-5, atol=1e-5)
    assert np.all(slope[:, 1] == 0)


def test_minima_are_no_higher_than_on_a_fine_grid():
    gp = two_points().objective
    paths = draw(gp, ["x"], 24, np.random.default_rng(3))
    found = minima(paths, LINE, np.array([[0.8]]), np.random.default_rng(0))
    fine = paths.at(np.linspace(0, 1, 4001)[:, None]).min(axis=0)
    np.testing.assert_allclose(found, fine, atol=1e-5)


@pytest.mark.slow
def test_minima_of_a_mixed_space_are_close_to_those_of_many_points():
    space, gp = mixed()
    paths = draw(gp, space.names, 16, np.random.default_rng(3))
    found = minima(paths, space, gp.X[:2], np.random.default_rng(0))
    many = paths.at(space.spread(np.random.default_rng(9).random((6000, 3)))).min(axis=0)
    assert np.all(found <= many + 0.02)
    assert np.mean(many - found) > -1e-3


def test_minima_of_a_table_are_those_of_its_rows():
    gp = two_points().objective
    space = Space.from_rows([{"x": x} for x in GRID[:, 0].tolist()])
    paths = draw(gp, ["x"], 8, np.random.default_rng(3))
    found = minima(paths, space, np.empty((0, 1)), np.random.default_rng(0))
    np.testing.assert_allclose(found, paths.at(space.rows).min(axis=0), rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_minima_of_a_table_in_any_unit(unit):
    """The standard deviations of the rows differ much."""
    X = np.linspace(0, 0.5, 4)[:, None]
    gp = build(X, [0.0, 0.4, 0.1, 0.5], Hyper(np.array([0.2]), 1.0, 1e-6, 0.3))
    gp = replace(gp, shift=3.0 * unit, scale=unit)
    space = Space.from_rows([{"x": x} for x in np.linspace(0, 1, 40).tolist()])
    paths = draw(gp, ["x"], 50, np.random.default_rng(3))
    found = minima(paths, space, np.empty((0, 1)), np.random.default_rng(0))
    np.testing.assert_allclose(found, paths.at(space.rows).min(axis=0), rtol=1e-9)


def test_permuting_parameters_permutes_the_paths():
    space, gp = mixed()
    order = [2, 0, 1]
    other = build(
        gp.X[:, order],
        gp.targets,
        gp.hyper._replace(lengthscales=gp.lengthscales[order]),
        options=gp.options[order],
    )
    X = space.sample(5, np.random.default_rng(2))
    names = [space.names[j] for j in order]
    here = draw(gp, space.names, 3, np.random.default_rng(1)).at(X)
    there = draw(other, names, 3, np.random.default_rng(1)).at(X[:, order])
    np.testing.assert_allclose(there, here, rtol=1e-9)
