"""ASHA, Hyperband's halving and the one-epoch rule on hand-made histories."""

from dataclasses import replace

import numpy as np
import pytest
from trainings import belief_of, training

from farthing import InvalidInput, Steps
from farthing.policies import ASHA, Hyperband, OneEpoch
from farthing.policies.asha import halving_rungs

STEPS = Steps(16, rungs=(1, 4, 16))


def rng():
    return np.random.default_rng(0)


def waiting(values, steps=1):
    """Trainings paused after `steps`, with these values."""
    return [training(i, [0.1 + 0.01 * i, 0.5], [v] * steps) for i, v in enumerate(values)]


def test_rungs_are_thinned_by_eta():
    assert halving_rungs((1, 2, 4, 8, 16, 32, 51), 3) == (1, 4, 16, 51)
    assert halving_rungs((1, 3, 9, 27, 51), 3) == (1, 3, 9, 27, 51)
    assert halving_rungs((16,), 3) == (16,)


@pytest.mark.parametrize(("count", "promoted"), [(2, None), (3, 1), (5, 1), (6, 1)])
def test_asha_promotes_the_best_third(count, promoted):
    values = [5.0, 1.0, 3.0, 4.0, 6.0, 2.0][:count]
    found = ASHA().propose(belief_of(*waiting(values), steps=STEPS, curves=False), rng())
    assert found.resume == promoted
    assert found.until == (1 if promoted is None else 4)


def test_asha_promotes_each_training_once_and_the_highest_rung_first():
    trials = waiting([5.0, 1.0, 3.0, 4.0, 6.0, 2.0])
    trials[1] = training(1, trials[1].x, [1.0] * 4)
    belief = belief_of(*trials, steps=STEPS, curves=False)
    assert ASHA().propose(belief, rng()).resume == 5  # the second of six
    for i, value in ((2, 0.5), (5, 0.4)):
        trials[i] = training(i, trials[i].x, [value] * 4)
    belief = belief_of(*trials, steps=STEPS, curves=False)
    found = ASHA().propose(belief, rng())  # three at step 4: the best of them goes on to the end
    assert (found.resume, found.until) == (5, 16)


def test_asha_maximises_and_ignores_what_is_unaffordable():
    trials = waiting([5.0, 1.0, 3.0])
    found = ASHA().propose(belief_of(*trials, steps=STEPS, curves=False, sign=-1.0), rng())
    assert found.resume == 0
    poor = belief_of(*trials, steps=STEPS, curves=False, budget=4.0)
    assert ASHA().propose(poor, rng()).resume is None


def test_a_running_or_failed_training_counts_at_its_rungs_but_is_not_promoted():
    trials = waiting([5.0, 1.0, 3.0])
    trials[1] = replace(trials[1], state="running", until=4)
    assert ASHA().propose(belief_of(*trials, steps=STEPS, curves=False), rng()).resume is None
    trials[1] = replace(trials[1], state="failed", until=None)
    assert ASHA().propose(belief_of(*trials, steps=STEPS, curves=False), rng()).resume is None


def test_hyperband_fills_a_bracket_and_halves_it():
    history, found = [], []
    for turn in range(40):
        belief = belief_of(*history, steps=STEPS, curves=False, budget=1e5)
        proposal = Hyperband().propose(belief, np.random.default_rng(turn))
        found.append((proposal.notes["bracket"], proposal.resume is None, proposal.until))
        number = len(history) if proposal.resume is None else proposal.resume
        value = 1.0 + float(proposal.x[0])
        trial = training(number, proposal.x, [value] * proposal.until)
        trial = replace(trial, notes=proposal.notes)
        if proposal.resume is None:
            history.append(trial)
        else:
            assert history[number].state == "paused"
            history[number] = trial
    # s_max = 2: nine trainings at step 1, three of them at 4, one at 16; then five at step 4, ...
    assert found[:13] == [(0, True, 1)] * 9 + [(0, False, 4)] * 3 + [(0, False, 16)]
    assert found[13:19] == [(1, True, 4)] * 5 + [(1, False, 16)]
    assert found[19:22] == [(2, True, 16)] * 3
    assert found[22][0] == 3
    best = sorted(range(9), key=lambda i: history[i].x[0])[:3]
    assert {t.number for t in history[:9] if t.step >= 4} == set(best)


def test_one_epoch_looks_first_and_then_finishes_the_best():
    trials = waiting([5.0, 1.0, 3.0])
    looks = belief_of(*trials, steps=STEPS, curves=False, budget=100.0)
    assert OneEpoch().propose(looks, rng()).resume is None
    # Half of the budget is spent.
    spent = replace(looks, ledger=looks.ledger.charge(None, {"cost": 60.0}))
    found = OneEpoch().propose(spent, rng())
    assert (found.resume, found.until) == (1, 16)


@pytest.mark.parametrize(
    "wrong", [lambda: ASHA(eta=1.0), lambda: Hyperband(eta=0.5), lambda: OneEpoch(share=1.5)]
)
def test_wrong_settings(wrong):
    with pytest.raises(InvalidInput, match="expected"):
        wrong()
