import numpy as np
import pytest
from beliefs import chosen, done, line, one_column, pool, random_pool

from farthing import History, InvalidInput
from farthing.policies import ConfidenceBound
from farthing.policies.confidence_bound import beta


@pytest.mark.parametrize(
    ("d", "t", "expected"),
    [(7, 1, 1.898478218), (7, 21, 4.334096168), (2, 20, 3.793958849), (5, 200, 6.002543216)],
)
def test_beta(d, t, expected):  # [ucb-beta]
    assert beta(d, t, 0.1) == pytest.approx(expected, rel=1e-9)


def after(trials, mean, std, *, start=0):
    """Two rows, and a third that was tried repeatedly, `start` times in the initial design."""
    notes = [{"phase": "start"}] * start + [{}] * trials
    history = History(tuple(done(i, [1.0], 5.0, notes=note) for i, note in enumerate(notes)))
    return pool([*mean, 9.0], [*std, 1e-3], [1.0, 1.0, 1.0], 0.5, history=history)


def test_the_first_of_two_points():  # [ucb-beta]
    assert beta(1, 37, 0.1) == pytest.approx(4.0, abs=0.02)
    assert chosen(ConfidenceBound(), after(36, [0.2, 0.9], [0.05, 0.2])) == 0


def test_t_counts_the_trials_after_the_start():
    # The second bound is lower if sqrt(beta) > 0.7 / 0.36 = 1.944: from t = 28 on, not at t = 1.
    two = [0.2, 0.9], [0.05, 0.41]
    roots = {t: np.sqrt(beta(1, t, 0.1)) for t in (1, 27, 28)}
    assert roots[1] < roots[27] < 0.7 / 0.36 < roots[28]
    assert chosen(ConfidenceBound(), after(0, *two)) == 0
    assert chosen(ConfidenceBound(), after(26, *two)) == 0
    assert chosen(ConfidenceBound(), after(27, *two)) == 1
    assert chosen(ConfidenceBound(), after(26, *two, start=9)) == 0


def test_a_smaller_delta_explores_more():
    two = [0.2, 0.9], [0.05, 0.41]
    assert chosen(ConfidenceBound(delta=0.1), after(0, *two)) == 0
    assert chosen(ConfidenceBound(delta=1e-5), after(0, *two)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_lowest_bound_among_the_affordable(seed):
    belief = random_pool(np.random.default_rng(seed), limit=3.0)
    mean, std = one_column(belief.objective, belief.space.rows)
    bound = mean - np.sqrt(beta(1, 1, 0.1)) * std
    expensive = belief.cost["cost"].mean > np.log(3.0)
    assert expensive.any()
    assert chosen(ConfidenceBound(), belief) == np.argmin(np.where(expensive, np.inf, bound))


def test_it_ignores_costs():
    mean, std = [0.2, 0.3, 0.4], [0.1, 0.3, 0.2]
    rows = {
        chosen(ConfidenceBound(), pool(mean, std, c, 0.1, space=line(3)))
        for c in ([1, 2, 3], [9, 800, 1])
    }
    assert rows == {1}


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, np.nan])
def test_an_invalid_delta_is_refused(delta):
    with pytest.raises(InvalidInput, match="must be between 0 and 1"):
        ConfidenceBound(delta)
