"""The staged Gittins index as a policy."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from trainings import STEPS, belief_of, falling, some_trainings, training

from farthing import Float, InvalidInput, Optimizer, Space, Steps, Stopped
from farthing.acquisition.initial_design import propose
from farthing.acquisition.rungs import indices, new_chains, paused_chains, resume_cost
from farthing.history import STARTS_AGAIN
from farthing.policies import EIPerCost, EIPerRemainingCost, Gittins, StagedGittins
from farthing.policies.staged_gittins import MOST_HALVINGS


def rng():
    return np.random.default_rng(0)


def as_table(trials):
    """A space of the points of these trials and of a few others that are far from the best."""
    rows = [{"a": t.x[0], "b": t.x[1]} for t in trials]
    rows += [{"a": 0.9 + 0.01 * k, "b": 0.5 + 0.1 * k} for k in range(4)]
    return Space.from_rows(rows, {"a": Float(0, 1), "b": Float(0, 1)})


def promising(number=20, *, reached=4, level=-0.5, x=(0.3, 0.1)):
    """A paused training that is far better than all others."""
    return training(number, x, falling(level, reached))


def test_it_resumes_a_promising_training():
    trials = [*some_trainings(), promising(8)]
    found = StagedGittins().propose(belief_of(*trials, space=as_table(trials)), rng())
    assert found.resume == 8
    assert found.until == 8
    assert (found.x == trials[8].x).all()
    assert "trial 8 goes on from step 4 to 8" in found.because
    assert "expected final value" in found.because
    assert float(np.exp(found.predicted["cost"].mean[0])) == pytest.approx(4.0, rel=0.01)


def test_it_does_not_resume_a_bad_training():
    bad = [training(8 + i, [0.9, 0.1 * i], falling(3.0, 4)) for i in range(3)]
    found = StagedGittins().propose(belief_of(*some_trainings(), *bad), rng())
    assert found.resume not in (8, 9, 10)


def test_a_restart_that_costs_everything_is_not_chosen():
    trials = [*some_trainings(), promising(8)]
    space = as_table(trials)
    free = StagedGittins(worth=1e-3).propose(belief_of(*trials, space=space), rng())
    costly = belief_of(*trials, space=space, steps=replace(STEPS, resume=1e4), budget=1e6)
    assert free.resume == 8
    assert StagedGittins(worth=1e-3).propose(costly, rng()).resume != 8


def test_without_its_checkpoint_a_training_pays_for_all_steps_again():
    trials = [*some_trainings(), promising(8)]
    space = as_table(trials)
    deleted = [*trials[:8], replace(trials[8], notes={STARTS_AGAIN: True})]
    kept, again = (belief_of(*each, space=space) for each in (trials, deleted))
    prices = []
    for belief in (kept, again):
        (chains,) = [c for c in paused_chains(belief.in_one_unit()) if 8 in c.trials]
        prices.append(chains.cost[list(chains.trials).index(8)])
    assert prices[0] == pytest.approx([4.0, 8.0])  # from step 4 to 8, and to 16
    assert prices[1] == pytest.approx([8.0, 8.0])  # from step 0 to 8, and to 16
    found = StagedGittins().propose(again, rng())
    assert found.resume == 8
    assert float(np.exp(found.predicted["cost"].mean[0])) == pytest.approx(8.0, rel=0.01)
    restored = belief_of(*deleted, space=space, steps=replace(STEPS, resume=0.5))
    assert resume_cost(restored, trials[8], "cost") == 0.5
    assert resume_cost(restored, deleted[8], "cost") == 0.0  # nothing is there to restore


def test_it_serves_the_smallest_index():
    belief = belief_of(*some_trainings(16))
    found = StagedGittins(worth=1e-4).propose(belief, rng())
    one = belief.in_one_unit()
    rate = 1e-4 * belief.trainings.curves.scaling.rate(belief.trainings.value)
    groups = paused_chains(one)
    smallest = min(float(index.min()) for index in indices(one, groups, rate))
    best = float(belief.trainings.best[0])
    assert best - found.score <= smallest + 1e-9
    if found.resume is None:
        own = indices(one, [new_chains(one, found.x[None])], rate)[0]
        assert best - found.score == pytest.approx(float(own[0]), abs=1e-6)


def test_the_rate_decays_until_something_is_worth_its_cost():
    belief = belief_of(*some_trainings(16))
    found = StagedGittins().propose(belief, rng())
    halvings = found.notes["halvings"]
    assert 0 <= halvings <= MOST_HALVINGS
    assert found.score > 0 or halvings == MOST_HALVINGS
    assert found.rates is None
    fixed = StagedGittins(worth=0.5).propose(belief, rng())
    assert fixed.rates == (0.5, 0.5)
    assert "halvings" not in fixed.notes


def test_the_decay_continues_where_it_was():
    trials = some_trainings(16)
    trials[-1] = replace(trials[-1], notes={"halvings": 9})
    assert StagedGittins().propose(belief_of(*trials), rng()).notes["halvings"] >= 9


def test_the_setting_worth_is_used_unless_it_has_its_own():
    belief = belief_of(*some_trainings(16), worth=0.7)
    assert StagedGittins().propose(belief, rng()).rates == (0.7, 0.7)
    assert StagedGittins(worth=0.1).propose(belief, rng()).rates == (0.1, 0.1)
    assert StagedGittins().reads == {"worth"}
    assert StagedGittins(worth=0.1).reads == frozenset()
    with pytest.raises(InvalidInput, match="StagedGittins"):
        StagedGittins(worth=-1.0)


def test_nothing_affordable():
    trials = some_trainings()
    paid = sum(t.cost["cost"] for t in trials)
    found = StagedGittins().propose(belief_of(*trials, budget=paid + 0.01), rng())
    assert found.x is None
    assert EIPerRemainingCost().propose(belief_of(*trials, budget=paid + 0.01), rng()).x is None


@pytest.mark.parametrize(
    ("policy", "other"), [(StagedGittins(), Gittins()), (EIPerRemainingCost(), EIPerCost())]
)
def test_one_rung_is_the_policy_of_whole_evaluations_bit_for_bit(policy, other):
    trials = [
        training(i, t.x, falling((t.x[0] - 0.3) ** 2, 16)) for i, t in enumerate(some_trainings(12))
    ]
    belief = belief_of(*trials, steps=Steps(16, rungs=(16,)), model=True)
    ours, theirs = (propose(p, belief, rng()) for p in (policy, other))
    assert ours.x.tobytes() == theirs.x.tobytes()
    assert ours.score == theirs.score


def test_the_design_runs_to_the_first_rung():
    steps = Steps(16, first=2)
    found = propose(StagedGittins(), belief_of(steps=steps), rng())
    assert found.until == 2
    assert found.resume is None
    given = propose(StagedGittins(), belief_of(steps=steps), rng(), [{"a": 0.25, "b": 0.5}])
    assert given.until == 2
    assert given.x == pytest.approx([0.25, 0.5])


def test_the_price_of_the_first_rung_counts():
    """Of two equally good regions, the cheap one is looked at first."""
    rng_ = np.random.default_rng(2)
    trials = [
        training(i, x, falling(abs(x[0] - 0.5), 16 if i < 3 else 2), rate=np.exp(6 * x[1]))
        for i, x in enumerate(rng_.random((14, 2)))
    ]
    found = StagedGittins().propose(belief_of(*trials, budget=1e5), rng())
    assert found.resume is not None or found.x[1] < 0.5


def test_ei_per_remaining_cost_resumes_what_is_promising():
    trials = [*some_trainings(), promising(8)]
    found = EIPerRemainingCost().propose(belief_of(*trials), rng())
    assert found.resume == 8
    assert "per cost left" in found.because


def test_without_checkpoints_a_training_goes_on_while_it_is_worth_its_cost():
    steps = replace(STEPS, resume="never")
    trials = [*some_trainings(), training(8, [0.32, 0.1], falling(0.01, 4), waits=True)]
    belief = belief_of(*trials, steps=steps)
    found = StagedGittins(worth=1e-4).propose(belief, rng())
    assert found.resume == 8  # although a new training would have a smaller index
    assert found.score > 0
    free = belief_of(*trials)
    assert StagedGittins(worth=1e-4).propose(free, rng()).score > found.score
    expensive = StagedGittins(worth=10.0).propose(belief, rng())
    assert expensive.score <= 0


def test_it_says_why_the_last_training_is_paused():
    trials = [*some_trainings(), promising(8), training(9, [0.95, 0.9], falling(2.0, 2))]
    belief = belief_of(*trials, space=as_table(trials))
    found = StagedGittins().propose(belief, rng())
    assert found.resume == 8
    assert "trial 9 is paused at step 2" in found.because
    assert "its remaining 14 steps, about 14, promise less" in found.because
    alone = StagedGittins().propose(belief_of(*trials[:9], space=as_table(trials)), rng())
    assert "is paused" not in alone.because


def test_if_only_whole_trainings_count_one_is_completed_in_time():
    steps = replace(STEPS, value="last")
    trials = [training(i, [0.1 * i, 0.5], falling(0.1 * i, 4)) for i in range(8)]
    paid = sum(t.cost["cost"] for t in trials)
    for left, expected in ((500.0, False), (20.0, True)):
        belief = belief_of(*trials, steps=steps, budget=paid + left)
        found = StagedGittins().propose(belief, rng())
        assert ("only whole trainings count" in found.because) == expected
        if expected:
            assert found.resume == 0  # the best one; the rest of it costs 12
    done = [*trials, training(8, [0.9, 0.9], falling(3.0, 16))]
    belief = belief_of(*done, steps=steps, budget=paid + 16.0 + 20.0)
    assert "only whole" not in StagedGittins().propose(belief, rng()).because


def test_if_only_whole_trainings_count_one_that_cannot_be_completed_is_not_looked_at():
    trials = [training(i, [0.1 * i, 0.5], falling(0.1 * i, 4)) for i in range(8)]
    paid = sum(t.cost["cost"] for t in trials)
    for value, is_proposed in (("best", True), ("last", False)):  # the rest of each costs 12
        belief = belief_of(*trials, steps=replace(STEPS, value=value), budget=paid + 9.0)
        found = StagedGittins().propose(belief, rng())
        assert (found.x is not None) == is_proposed
    assert found.because == "no training can be completed with what is left"


@pytest.mark.parametrize("value", ["best", "last"])
def test_with_a_budget_of_trials_the_best_paused_training_goes_on(value):
    optimizer = Optimizer({"x": Float(0, 1)}, "6 trials", steps=Steps(16, value=value), seed=1)
    with suppress(Stopped):
        for _ in range(50):
            trial = optimizer.ask()
            loss = (trial.params["x"] - 0.3) ** 2 + 0.1 / trial.until
            optimizer.tell(trial, loss, step=trial.until)
    assert len(optimizer.history) == 6
    assert optimizer.best.state == "done"
    closest = min(optimizer.history, key=lambda t: abs(t.params["x"] - 0.3))
    assert optimizer.best.number == closest.number
    assert any(t.state == "paused" for t in optimizer.history)  # not all are worth their cost
    with pytest.raises(Stopped, match="6 trials is spent"):
        optimizer.ask()
