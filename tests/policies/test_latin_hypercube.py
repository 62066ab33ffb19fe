import numpy as np
import pytest
from beliefs import done, known, line

from farthing import Budget, Float, History, InvalidInput, Space
from farthing.cost import Known
from farthing.policies import LatinHypercube

SPACE = Space({"x": Float(2, 5), "y": Float(1e-3, 1e3, log=True), "z": Float(-1, 1)})


def run(count, size=None, *, seed=0, space=SPACE, **settings):
    history = History()
    for i in range(count):
        belief = known(space, history=history, seed=seed, **settings)
        x = LatinHypercube(size).propose(belief, np.random.default_rng([seed, i])).x
        history = history.adding(done(i, x, 1.0, space=space))
    return np.array([trial.x for trial in history])


@pytest.mark.parametrize(("size", "block"), [(None, 8), (5, 5), (16, 16)])
def test_every_block_fills_every_stratum_once(size, block):
    X = run(3 * block, size)
    for part in X.reshape(3, block, 3):
        for column in part.T:
            assert sorted((column * block).astype(int)) == list(range(block))
    assert not np.allclose(X[:block], X[block : 2 * block])


def test_the_seed_decides():
    assert np.abs(run(4, seed=1) - run(4, seed=2)).min() > 1e-6


def test_unaffordable_points_are_skipped():
    cost = {"cost": Known(lambda p: p["x"]).bind(SPACE)}
    X = run(30, cost=cost, budget=Budget(3.5))
    assert X[:, 0].max() <= 0.5
    assert len(np.unique(X, axis=0)) == 30


def test_each_row_of_a_table_is_proposed_once():
    X = run(40, space=line(40))
    assert len(np.unique(X)) == 40


def test_the_reason_names_the_point_and_the_hypercube():
    history = History(tuple(done(i, [i / 9, 0.5, 0.5], 1.0) for i in range(6)))
    proposal = LatinHypercube(4).propose(known(SPACE, history=history), np.random.default_rng(0))
    assert proposal.because == "point 3 of 4 of Latin hypercube 2"


def test_an_empty_hypercube_is_refused():
    with pytest.raises(InvalidInput, match="must be at least 1"):
        LatinHypercube(0)
