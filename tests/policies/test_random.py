import numpy as np
from beliefs import Given, done, known, line, toy
from scipy import stats

from farthing import Budget, Categorical, Float, History, Int, Space
from farthing.cost import Known
from farthing.policies import Random

SPACE = Space({"x": Float(2, 5), "k": Int(1, 3), "kind": Categorical(["a", "b", "c", "d"])})


def draws(belief, count, policy=None):
    policy = policy or Random()
    return np.array([policy.propose(belief, np.random.default_rng([7, i])).x for i in range(count)])


def test_it_is_uniform():
    X = draws(known(SPACE), 600)
    assert stats.kstest(X[:, 0], "uniform").pvalue > 1e-3
    for column, count in ((1, 3), (2, 4)):
        _, seen = np.unique(X[:, column], return_counts=True)
        assert len(seen) == count
        assert stats.chisquare(seen).pvalue > 1e-3


def test_uniform_among_the_affordable():
    cost = Known(lambda p: p["x"]).bind(SPACE)
    X = draws(known(SPACE, cost={"cost": cost}, budget=Budget(3.5)), 150)
    assert stats.kstest(2 * X[:, 0], "uniform").pvalue > 1e-3  # x up to 3.5 is half of the cube


def test_a_few_affordable_points_are_found():
    cost = Known(lambda p: 1 + 1e4 * (p["x"] - 2.7312) ** 2).bind(SPACE)
    X = draws(known(SPACE, cost={"cost": cost}, budget=Budget(1.0004)), 5)
    assert np.all(np.abs(2 + 3 * X[:, 0] - 2.7312) <= 2.1e-4)


def test_nothing_where_nothing_is_affordable():
    cost = Known(lambda p: 3.0 + p["x"]).bind(SPACE)
    belief = known(SPACE, cost={"cost": cost}, budget=Budget(4.9))
    assert Random().propose(belief, np.random.default_rng(0)).x is None


def test_a_table_is_drawn_without_replacement():
    space = line(200)  # more rows than are drawn at a time
    history = History()
    for i in range(200):
        x = Random().propose(known(space, history=history), np.random.default_rng(i)).x
        history = history.adding(done(i, x, 1.0))
    assert len({trial.x.tobytes() for trial in history}) == 200
    assert Random().propose(known(space, history=history), np.random.default_rng(0)).x is None


def test_rows_that_cannot_be_afforded_are_never_drawn():
    rows = {round(float(4 * x[0])) for x in draws(toy(limit=35.0), 60)}
    assert rows == {2, 3, 4}  # C, D and E of P


def test_affordable_means_a_probability_of_80_percent():
    space = line(2)
    cost = {"cost": Given(space.rows, np.zeros(2), np.array([0.5, 0.6]))}
    belief = known(space, cost=cost, budget=Budget(np.exp(0.55 * 0.8416)))
    assert set(draws(belief, 20)[:, 0]) == {0.0}
