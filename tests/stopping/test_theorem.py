"""Theorem 1 of the stopping paper: with PBGI or LogEIPC choices and this stop, what is paid after
the first point is at most what there was to gain, on functions drawn from the prior."""

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
from farthing.stopping.not_worth_it import still_to_be_had

ROWS = np.linspace(0, 1, 30)
SPACE = Space.from_rows([{"x": x} for x in ROWS.tolist()])
LENGTH, MEAN, WORTH = 0.12, 2.0, 0.05
HYPER = Hyper(np.array([LENGTH]), 1.0, 1e-6, MEAN)
DRAWS = 500


def cost_of(params):
    """Dearer to the right, by a factor of six; worth 0.05 to 0.3 of a standard deviation."""
    return 1.0 + 5.0 * params["x"]


COST = {"cost": Known(cost_of).bind(SPACE)}


def drawn(seed):
    """The prior on the rows, many times."""
    K = matern52(ROWS[:, None], ROWS[:, None], LENGTH) + 1e-9 * np.eye(len(ROWS))
    z = np.random.default_rng(seed).standard_normal((DRAWS, len(ROWS)))
    return MEAN + z @ np.linalg.cholesky(K).T


def played(f, policy, rule, most=30):
    """What is paid after the first point, in objective units, by the true process."""
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
def _without_the_words(monkeypatch):
    """The bound is printed for people; here the thing itself is tested."""
    monkeypatch.setattr(not_worth_it, "_bound", lambda *_: "")


@pytest.mark.parametrize("policy", [Gittins(worth=WORTH), EIPerCost()], ids=["PBGI", "LogEIPC"])
def test_what_is_paid_is_at_most_what_was_to_be_had(policy):
    f = drawn(seed=0)
    count = DRAWS // 2  # each policy on its half: 500 draws in all
    f = f[:count] if isinstance(policy, Gittins) else f[count:]
    paid = np.array([played(each, policy, NotWorthIt(worth=WORTH)) for each in f])
    excess = paid - (MEAN - f.min(axis=1))
    # One-sided: the mean is not above 0 by more than chance would make it in one case of a hundred.
    assert excess.mean() <= 2.33 * excess.std() / np.sqrt(len(f))
    assert paid.mean() > 0.15 * (MEAN - f.min(axis=1)).mean()  # no idle bound: see the next test


class Dearest:
    """Chooses what costs most, whatever it is expected to bring."""

    def propose(self, belief, rng):
        tried = {x.tobytes() for x in belief.tried}
        left = [x for x in belief.space.rows if x.tobytes() not in tried]
        return Proposal(left[-1], "the dearest")


def test_another_policy_breaks_the_bound():
    f = drawn(seed=0)[:60]
    paid = np.array([played(each, Dearest(), NotWorthIt(worth=WORTH)) for each in f])
    excess = paid - (MEAN - f.min(axis=1))
    assert excess.mean() > 2.33 * excess.std() / np.sqrt(len(f))


def test_the_number_that_is_printed_is_what_is_still_to_be_had():
    """best - E[min f | data] by draws of the whole table."""
    f = drawn(seed=3)[0]
    tried = [15, 4, 22]
    gp = build(SPACE.rows[tried], f[tried], HYPER)
    belief = known(SPACE, objective=gp, best=np.array([f[tried].min()]))
    draws = gp.sample(SPACE.rows, 20_000, np.random.default_rng(0))
    slow = f[tried].min() - np.minimum(draws.min(axis=1), f[tried].min()).mean()
    found = [still_to_be_had(belief, np.random.default_rng(i)) for i in range(20)]
    assert np.mean(found) == pytest.approx(slow, rel=0.05)
    nothing = replace(belief, best=np.array([-50.0]))
    assert still_to_be_had(nothing, np.random.default_rng(0)) == 0.0
