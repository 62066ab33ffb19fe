"""Whether the rest of a training is worth its cost, if it cannot be resumed."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from trainings import STEPS, belief_of, falling, some_trainings, training

from farthing.acquisition.rungs import paused_chains
from farthing.acquisition.worth_continuing import worth_continuing

NEVER = replace(STEPS, resume="never", value="last")


def decided(values, worth=None, sign=1.0, seed=0):
    """The decision about a training with these values after eight others."""
    others = [
        replace(trial, curve=tuple(p._replace(value=sign * p.value) for p in trial.curve))
        for trial in some_trainings()
    ]
    others = [replace(t, value=t.curve[-1].value if t.state == "done" else None) for t in others]
    own = training(8, [0.5, 0.5], sign * np.asarray(values), waits=True)
    belief = belief_of(*others, own, steps=NEVER, sign=sign)
    return belief, worth_continuing(belief, 8, worth)


@pytest.mark.parametrize("values", [falling(0.0, 8), falling(0.1, 8), falling(0.5, 8)])
def test_before_the_last_rung_it_is_expected_improvement_against_cost(values):
    """[worth-continuing]: E max(best - z, 0) over the final value z, against the price."""
    belief, _ = decided(values)
    trainings = belief.trainings
    chain = next(c for c in paused_chains(belief.in_one_unit()) if 8 in c.trials)
    (k,) = np.flatnonzero(chain.trials == 8)
    m, s = float(chain.mean[k]), float(chain.std[k])
    best = float(trainings.best.mean())
    gain, _ = quad(lambda z: (best - z) * norm.pdf(z, m, s), m - 12 * s, min(best, m + 12 * s))
    gain = gain if best > m - 12 * s else 0.0
    price = float(chain.cost[k, 0]) * trainings.curves.scaling.rate(trainings.value)
    break_even = max(gain, 0.0) / price
    if break_even > 1e-12:
        assert worth_continuing(belief, 8, 0.99 * break_even).go_on
    assert not worth_continuing(belief, 8, 1.01 * break_even + 1e-9).go_on


def test_a_promising_training_goes_on_and_a_hopeless_one_ends():
    _, good = decided(falling(-0.1, 4))
    _, bad = decided(falling(0.8, 4))
    assert good.go_on
    assert not bad.go_on
    assert good.best == bad.best
    assert good.index < good.best <= bad.index


def test_the_direction_does_not_matter():
    for level in (-0.1, 0.8):
        _, low = decided(falling(level, 4))
        _, high = decided(falling(level, 4), sign=-1.0)
        assert low.go_on == high.go_on
        assert high.best == -low.best


def test_a_higher_worth_never_lets_a_training_go_on():
    goes = [decided(falling(0.0, 4), worth)[1].go_on for worth in 10.0 ** np.arange(-8, 3)]
    assert goes == sorted(goes, reverse=True)
    assert goes[0]
    assert not goes[-1]


def test_before_anything_is_known_there_is_no_decision():
    own = training(0, [0.5, 0.5], falling(0.0, 4), waits=True)
    assert worth_continuing(belief_of(own, steps=NEVER), 0) is None
