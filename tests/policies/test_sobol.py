import numpy as np
import pytest
from beliefs import done, known, line
from scipy.stats import qmc

from farthing import Budget, Float, History, Space
from farthing.cost import Known
from farthing.policies import Sobol

SPACE = Space({"x": Float(2, 5), "y": Float(1e-3, 1e3, log=True), "z": Float(-1, 1)})


def run(count, *, seed=0, space=SPACE, **settings):
    history = History()
    for i in range(count):
        belief = known(space, history=history, seed=seed, **settings)
        x = Sobol().propose(belief, np.random.default_rng([seed, i])).x
        history = history.adding(done(i, x, 1.0, space=space))
    return np.array([trial.x for trial in history])


@pytest.mark.parametrize("seed", [0, 5])
def test_row_k_for_trial_k(seed):
    sequence = qmc.Sobol(3, scramble=True, rng=np.random.default_rng([seed])).random(128)
    np.testing.assert_allclose(run(128, seed=seed), sequence, atol=1e-12)


def test_the_seed_decides():
    assert np.abs(run(4, seed=1) - run(4, seed=2)).min() > 1e-6


def test_every_cell_has_one_of_the_first_rows():
    X = run(64)
    for column in range(3):
        assert len(set((X[:, column] * 64).astype(int))) == 64
    cells = {tuple((x * 4).astype(int)) for x in X}
    assert len(cells) > 48  # of 64, where random points would fill 41


def test_unaffordable_points_are_skipped():
    cost = {"cost": Known(lambda p: p["x"]).bind(SPACE)}
    X = run(30, cost=cost, budget=Budget(3.5))
    assert X[:, 0].max() <= 0.5
    everything = run(64)
    assert {x.tobytes() for x in X} <= {x.tobytes() for x in run(128)}
    first = everything[everything[:, 0] <= 0.5][0]
    np.testing.assert_array_equal(X[0], first)


def test_each_row_of_a_table_is_proposed_once():
    X = run(40, space=line(40))
    assert len(np.unique(X)) == 40
