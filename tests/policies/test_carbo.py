from itertools import pairwise

import numpy as np
import pytest
from beliefs import done, toy

from farthing import Budget, Categorical, Float, History, InvalidInput, Ledger, Optimizer, Space
from farthing.policies import CArBO, Cooling, CostEffectiveDesign


def spent(share, limit=1e6):
    ledger = Ledger.of(Budget(limit))
    return ledger.charge(None, {"cost": share * limit}) if share else ledger


def proposed(policy, belief):
    proposal = policy.propose(belief, np.random.default_rng(4))
    return proposal.x.tolist(), proposal.because, dict(proposal.notes)


# One row was tried, so that the design has a point to be far from.
TRIED = History((done(0, [0.25], 0.22),))


def test_the_design_runs_until_an_eighth_is_spent():
    for share in (0.0, 0.06, 0.1249):
        belief = toy(ledger=spent(share), history=TRIED)
        assert proposed(CArBO(), belief) == proposed(CostEffectiveDesign(), belief)
    for share in (0.125, 0.5, 0.99):
        belief = toy(ledger=spent(share), history=TRIED)
        assert proposed(CArBO(), belief) == proposed(Cooling(), belief)


def test_what_is_reserved_counts_as_spent():
    ledger = spent(0.1).reserve(7, {"cost": 0.03e6})
    belief = toy(ledger=ledger, history=TRIED)
    assert proposed(CArBO(), belief) == proposed(Cooling(), belief)


def test_the_scarcest_resource_decides():
    ledger = Ledger.of(Budget({"cost": 1e6, "trials": 16})).charge(None, {"cost": 1.0})
    assert proposed(CArBO(), toy(ledger=ledger, history=TRIED))[1].startswith("cheap and far")
    ledger = ledger.charge(None, {"cost": 1.0})  # two of sixteen trials
    assert (
        "the exponent falls from 1 to 0" in proposed(CArBO(), toy(ledger=ledger, history=TRIED))[1]
    )


def test_the_share_and_the_design_can_be_chosen():
    belief = toy(ledger=spent(0.3), history=TRIED)
    assert proposed(CArBO(share=0.5), belief) == proposed(CostEffectiveDesign(), belief)
    greedy = CostEffectiveDesign(greedy=True)
    assert proposed(CArBO(share=0.5, greedy=True), belief) == proposed(greedy, belief)
    assert proposed(CArBO(share=0), toy(ledger=spent(0), history=TRIED)) == proposed(
        Cooling(), toy(ledger=spent(0), history=TRIED)
    )


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan])
def test_an_invalid_share_is_refused(share):
    with pytest.raises(InvalidInput, match="must be at least 0 and less than 1"):
        CArBO(share=share)


@pytest.mark.slow
def test_the_phases_of_a_run():
    space = Space({"x": Float(2, 5), "kind": Categorical(["a", "b"])})
    optimizer = Optimizer(space, budget=144.0, policy=CArBO(), seed=1)
    phases, before = [], []
    while not optimizer.verdict.stop:
        before.append(optimizer.ledger.spent)
        trial = optimizer.ask()
        phases.append("cooling" if "alpha" in trial.notes else trial.notes["phase"])
        optimizer.tell(trial, (trial.params["x"] - 3.3) ** 2, cost=trial.params["x"])
    assert phases[:5] == ["start"] * 5
    designed = phases.count("start")
    assert phases == ["start"] * designed + ["cooling"] * (len(phases) - designed)
    assert before[designed - 1] < 18.0 <= before[designed]  # an eighth, including the first five
    alphas = [trial.notes["alpha"] for trial in optimizer.history if "alpha" in trial.notes]
    assert alphas[0] == 1.0
    assert all(later < earlier for earlier, later in pairwise(alphas))
    assert optimizer.ledger.spent <= 144.0
