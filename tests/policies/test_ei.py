import numpy as np
import pytest
from beliefs import chosen, letter, one_column, pool, random_pool, toy, two_points

from farthing.models.normal import log_ei
from farthing.policies import EI


def test_choice_on_the_toy_pool():  # [pool-ei-argmax]
    assert letter(EI(), toy()) == "A"


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_largest_expected_improvement(seed):
    belief = random_pool(np.random.default_rng(seed))
    scores = log_ei(*one_column(belief.objective, belief.space.rows), 2.6)
    assert chosen(EI(), belief) == np.argmax(scores)
    proposal = EI().propose(belief, np.random.default_rng(0))
    assert proposal.score == pytest.approx(scores.max(), abs=1e-9)


def test_the_best_of_a_line():  # [line-contextual-ei]
    proposal = EI().propose(two_points(), np.random.default_rng(0))
    assert proposal.x == pytest.approx([1.0])
    assert proposal.score == pytest.approx(np.log(0.2729314449), abs=1e-9)
    assert "improve -0.1 (trial 1) by 0.273" in proposal.because


@pytest.mark.parametrize(
    ("limit", "row"),
    [(1000, "A"), (100, "A"), (99, "B"), (35, "C"), (9, "D"), (2, "D")],
)
def test_it_ignores_costs_but_not_the_budget(limit, row):
    assert letter(EI(), toy(limit=limit)) == row


def test_nothing_is_proposed_when_nothing_is_affordable():
    proposal = EI().propose(toy(limit=1.5), np.random.default_rng(0))
    assert proposal.x is None
    assert "nothing affordable" in proposal.because


@pytest.mark.parametrize(("left", "row"), [(1.001, 0), (0.999, 1)])
def test_affordable_means_a_probability_of_80_percent(left, row):
    # ln c ~ N(0, 0.5): P(c <= left) = 0.8 at left = exp(0.5 * 0.8416).
    limit = left * np.exp(0.5 * 0.8416212335729143)
    two = pool([1.0, 2.0], [0.5, 0.5], [1.0, 0.01], 1.5, cost_std=[0.5, 0.0], limit=limit)
    assert chosen(EI(), two) == row


def test_of_equal_points_the_cheapest():
    belief = pool([2.0, 1.0, 1.0, 1.0], [0.3] * 4, [1.0, 9.0, 4.0, 6.0], 1.5)
    assert chosen(EI(), belief) == 2
