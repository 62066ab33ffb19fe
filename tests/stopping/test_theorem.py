"""Theorem 1 of the stopping paper, on functions drawn from the prior.

If PBGI or LogEIPC chooses and this rule stops, the expected cost after the first point is at most
the expected improvement.
"""

from dataclasses import replace

import numpy as np
import pytest
from beliefs import done, known
from oracles import matern52

from farthing import History, Space
from farthing.acquisition.protocols import Proposal
from farthing.cost import Known
from farthing.models.gp import Hyper, build
from farthing.policies import EIPerCost, Gittins
from farthing.stopping import NotWorthIt, not_worth_it
from farthing.stopping.not_worth_it import remaining_improvement

ROWS = np.linspace(0, 1, 30)
SPACE = Space.from_rows([{"x": x} for x in ROWS.tolist()])
LENGTH, MEAN, WORTH = 0.12, 2.0, 0.05
HYPER = Hyper(np.array([LENGTH]), 1.0, 1e-6, MEAN)
DRAWS = 500


def cost_of(params):
    """It rises by a factor of six; worth 0.05 to 0.3 of a standard deviation."""
    return 1.0 + 5.0 * params["x"]


COST = {"cost": Known(cost_of).bind(SPACE)}


def drawn(seed):
    """Draws of the prior on the rows."""
    K = matern52(ROWS[:, None], ROWS[:, None], LENGTH) + 1e-9 * np.eye(len(ROWS))
    z = np.random.default_rng(seed).standard_normal((DRAWS, len(ROWS)))
    return MEAN + z @ np.linalg.cholesky(K).T


def played(f, policy, rule, most=30):
    """The cost after the first point, in objective units, with the true process as model."""
    tried, spent = [15], 0.0
    while len(tried) < most:
        X, y = SPACE.rows[tried], f[tried]
        history = History(tuple(done(i, x, v) for i, (x, v) in enumerate(zip(X, y, strict=True))))
        gp = build(X, y, HYPER)
        belief = known(
            SPACE, objective=gp, cost=COST, history=history, best=np.array([y.min()]), worth=WORTH
        )
        rng = np.random.default_rng(len(tried))
        proposal = policy.propose(belief, rng)
        if rule(belief, proposal, rng).stop:
            break
        tried.append(int(np.flatnonzero((SPACE.rows == proposal.x).all(axis=1))[0]))
        spent += WORTH * cost_of({"x": ROWS[tried[-1]]})
    return spent


@pytest.fixture(autouse=True)
def _without_the_bound(monkeypatch):
    """The printed bound takes time and is not tested here."""
    monkeypatch.setattr(not_worth_it, "_bound", lambda *_: "")


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Gittins(worth=WORTH), EIPerCost()], ids=["PBGI", "LogEIPC"])
def test_the_cost_is_at_most_the_improvement(policy):
    f = drawn(seed=0)
    count = DRAWS // 2  # each policy on its half: 500 draws in all
    f = f[:count] if isinstance(policy, Gittins) else f[count:]
    paid = np.array([played(each, policy, NotWorthIt(worth=WORTH)) for each in f])
    excess = paid - (MEAN - f.min(axis=1))
    # One-sided: the mean is not significantly above 0, at the level of 1 %.
    assert excess.mean() <= 2.33 * excess.std() / np.sqrt(len(f))
    assert (
        paid.mean() > 0.15 * (MEAN - f.min(axis=1)).mean()
    )  # the bound is not trivial: see the next test


class MostExpensive:
    """Choose the most expensive point."""

    def propose(self, belief, rng):
        tried = {x.tobytes() for x in belief.tried}
        left = [x for x in belief.space.rows if x.tobytes() not in tried]
        return Proposal(left[-1], "the most expensive")


@pytest.mark.slow
def test_another_policy_breaks_the_bound():
    f = drawn(seed=0)[:60]
    paid = np.array([played(each, MostExpensive(), NotWorthIt(worth=WORTH)) for each in f])
    excess = paid - (MEAN - f.min(axis=1))
    assert excess.mean() > 2.33 * excess.std() / np.sqrt(len(f))


def test_the_printed_number_is_the_expected_remaining_improvement():
    """best - E[min f | data] by draws of the whole table."""
    f = drawn(seed=3)[0]
    tried = [15, 4, 22]
    gp = build(SPACE.rows[tried], f[tried], HYPER)
    belief = known(SPACE, objective=gp, best=np.array([f[tried].min()]))
    draws = gp.sample(SPACE.rows, 20_000, np.random.default_rng(0))
    slow = f[tried].min() - np.minimum(draws.min(axis=1), f[tried].min()).mean()
    found = [remaining_improvement(belief, np.random.default_rng(i)) for i in range(20)]
    assert np.mean(found) == pytest.approx(slow, rel=0.05)
    nothing = replace(belief, best=np.array([-50.0]))
    assert remaining_improvement(nothing, np.random.default_rng(0)) == 0.0
