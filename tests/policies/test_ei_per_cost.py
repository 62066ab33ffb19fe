import numpy as np
import pytest
from beliefs import chosen, letter, one_column, pool, random_pool, toy, two_points

from farthing import InvalidInput
from farthing.acquisition.pareto import front
from farthing.models.normal import log_ei
from farthing.policies import EI, EIPerCost


@pytest.mark.parametrize(
    ("alpha", "row", "score"),
    [
        (0.0, "A", 0.06977965574),
        (0.1, "C", 0.04549033573),
        (0.2, "C", 0.03613425808),
        (0.5, "C", 0.01811002885),
        (1.0, "D", 0.01133397354),
    ],
)
def test_choices_on_the_toy_pool(alpha, row, score):  # [pool-ei-argmax] [pool-ei-alpha]
    assert letter(EIPerCost(alpha), toy()) == row
    proposal = EIPerCost(alpha).propose(toy(), np.random.default_rng(0))
    assert proposal.score == pytest.approx(np.log(score), abs=1e-9)


@pytest.mark.parametrize(
    ("alpha", "row"),
    [
        (0.08580968045 - 1e-9, "A"),
        (0.08580968045 + 1e-9, "C"),
        (0.5758572608 - 1e-9, "C"),
        (0.5758572608 + 1e-9, "D"),
        (7.0, "D"),
    ],
)
def test_where_the_choice_on_the_toy_pool_switches(alpha, row):  # [cooling-exponent]
    assert letter(EIPerCost(alpha), toy()) == row


def test_one_point_of_the_front_is_out_of_reach():  # [pool-ei-alpha]
    assert {letter(EIPerCost(a), toy()) for a in np.linspace(0, 2, 201)} == set("ACD")


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.1, 0.2, 0.5, 1.0])
def test_bang_bang_on_the_line(alpha):  # [line-contextual-ei]
    belief = two_points(lambda x: 1 + 9 * x)
    proposal = EIPerCost(alpha).propose(belief, np.random.default_rng(0))
    assert proposal.x == pytest.approx([1.0 if alpha < 0.3 else 0.0], abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_the_choice_is_on_the_front(seed):
    belief = random_pool(np.random.default_rng(seed))
    rows = belief.space.rows
    ei = log_ei(*one_column(belief.objective, rows), 2.6)
    on_front = set(front(ei, belief.cost["cost"].log_at(rows).mean).tolist())
    assert len(on_front) < len(rows)
    for alpha in (0.1, 0.5, 1.0, 3.0):
        assert chosen(EIPerCost(alpha), belief) in on_front


@pytest.mark.parametrize("seed", range(5))
def test_a_constant_cost_and_alpha_zero_are_ei(seed):
    rng = np.random.default_rng(seed)
    belief = random_pool(rng)
    objective = belief.objective
    constant = pool(objective.mean, objective.std, np.full(12, 7.3), 2.6)
    assert chosen(EIPerCost(1.0), constant) == chosen(EI(), constant) == chosen(EI(), belief)
    assert chosen(EIPerCost(0.0), belief) == chosen(EI(), belief)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_a_constant_cost_on_the_line_is_ei_to_the_point(alpha):
    proposals = [
        policy.propose(two_points(lambda x: 7.3), np.random.default_rng(3)).x
        for policy in (EI(), EIPerCost(alpha))
    ]
    np.testing.assert_array_equal(*proposals)


@pytest.mark.parametrize("seed", range(5))
def test_the_unit_of_cost_does_not_matter(seed):
    belief = random_pool(np.random.default_rng(seed), limit=20.0)
    objective, cost = belief.objective, np.exp(belief.cost["cost"].mean)
    other = pool(objective.mean, objective.std, 1000 * cost, 2.6, limit=20_000.0)
    for alpha in (0.2, 1.0):
        assert chosen(EIPerCost(alpha), belief) == chosen(EIPerCost(alpha), other)


def test_an_uncertain_cost_counts_with_its_mean():
    # Medians 1 and 2; means 1 e^(1.5^2 / 2) = 3.08 and 2.
    two = pool([1.0, 1.0], [0.5, 0.5], [1.0, 2.0], 1.2, cost_std=[1.5, 0.0])
    assert chosen(EIPerCost(), two) == 1
    two = pool([1.0, 1.0], [0.5, 0.5], [1.0, 2.0], 1.2, cost_std=[1.0, 0.0])
    assert chosen(EIPerCost(), two) == 0  # 1.65 and 2


@pytest.mark.parametrize("alpha", [-0.1, np.nan, np.inf])
def test_an_invalid_exponent_is_refused(alpha):
    with pytest.raises(InvalidInput, match="alpha must be a finite number of at least 0"):
        EIPerCost(alpha)
