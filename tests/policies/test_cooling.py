import numpy as np
import pytest
from beliefs import chosen, letter, pool, random_pool, toy

from farthing import Budget, Ledger
from farthing.policies import EI, Cooling, EIPerCost


def spent(limit, start, more=0.0):
    """A ledger after an initial design that cost `start` and trials that cost `more`."""
    ledger = Ledger.of(Budget(limit)).charge(None, {"cost": start}, start=True)
    return ledger.charge(None, {"cost": more}) if more else ledger


def cooled_to(alpha, limit=1e6):
    start = limit / 8
    return spent(limit, start, (1 - alpha) * (limit - start))


@pytest.mark.parametrize(
    ("more", "alpha"), [(0.0, 1.0), (27.5, 0.6857142857), (87.5, 0.0), (97.5, 0.0)]
)
def test_the_exponent(more, alpha):  # [O-9]
    assert spent(100.0, 12.5, more).cooling == pytest.approx(alpha, abs=1e-10)


@pytest.mark.parametrize(
    ("alpha", "row"),
    [
        (1.0, "D"),
        (0.6857142857, "D"),
        (0.5758572608 + 1e-7, "D"),
        (0.5758572608 - 1e-7, "C"),
        (0.5, "C"),
        (0.08580968045 + 1e-7, "C"),
        (0.08580968045 - 1e-7, "A"),
        (0.001, "A"),
    ],
)
def test_choices_on_the_toy_pool(alpha, row):  # [O-9]
    belief = toy(ledger=cooled_to(alpha))
    assert letter(Cooling(), belief) == row
    proposal = Cooling().propose(belief, np.random.default_rng(0))
    assert proposal.notes["alpha"] == pytest.approx(alpha, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_it_begins_as_ei_per_cost_and_ends_as_ei(seed):
    hot, cold = (
        random_pool(np.random.default_rng(seed), ledger=cooled_to(alpha, limit=1e12))
        for alpha in (1.0, 1e-8)
    )
    assert chosen(Cooling(), hot) == chosen(EIPerCost(), hot)
    assert chosen(Cooling(), cold) == chosen(EI(), cold)


def test_what_is_reserved_cools_too():
    ledger = spent(1e6, 1e6 / 8)
    assert letter(Cooling(), toy(ledger=ledger)) == "D"
    assert letter(Cooling(), toy(ledger=ledger.reserve(3, {"cost": 0.5e6}))) == "C"


def test_when_all_is_spent_nothing_is_proposed():
    belief = toy(ledger=spent(100.0, 12.5, 87.5))
    assert Cooling().propose(belief, np.random.default_rng(0)).x is None


def test_the_last_of_the_budget_is_not_overspent():
    # Cold, it would take row 0; but what is left pays only for row 1.
    ledger = spent(1e6, 1.0, 1e6 - 6.0)
    belief = pool([1.0, 1.2], [0.5, 0.5], [10.0, 4.0], 1.5, ledger=ledger)
    assert chosen(Cooling(), belief) == 1
