"""Which checkpoints are deleted first: the least chance to be resumed per byte."""

from itertools import combinations

import numpy as np
import pytest

from farthing import Float, Space, Steps
from farthing.core.checkpoint_order import checkpoints_to_delete
from farthing.core.settings import Settings
from farthing.history import STARTS_AGAIN, CurvePoint, History, Trial

SPACE = Space({"a": Float(2, 3)})


def settings(direction="minimize", **given):
    return Settings.of(SPACE, "$9", direction=direction, steps=Steps(8, **given))


def trial(number, *values, state="paused", notes=None):
    """A training with these values at steps 1, 2, ..."""
    curve = tuple(CurvePoint(step, value, {}) for step, value in enumerate(values, 1))
    value = min(values) if values and state in ("paused", "done") else None
    x = np.array([0.1 * number])
    return Trial(number, {"a": 2.5}, x, state, value, curve=curve, notes=notes or {})


def deleted(trials, sizes, most, **given):
    return checkpoints_to_delete(settings(**given), History(tuple(trials)), sizes, most)


def test_nothing_is_deleted_within_the_limit():
    trials = [trial(0, 3.0), trial(1, 2.0)]
    assert deleted(trials, {0: 10, 1: 10}, 20) == []
    assert deleted(trials, {}, 0) == []


def test_those_that_have_ended_come_first_then_the_worst():
    trials = [
        *(trial(0, 1.0), trial(1, 5.0), trial(2, 4.0), trial(3, 3.0, 2.0, state="done")),
        *(trial(4, state="failed"), trial(5, 6.0, notes={STARTS_AGAIN: True}), trial(6, 2.0)),
    ]
    sizes = dict.fromkeys(range(7), 10)
    assert deleted(trials, sizes, 0) == [3, 4, 5, 1, 2, 6]  # 0 is the best
    assert deleted(trials, sizes, 45) == [3, 4, 5]
    assert deleted(trials, sizes, 39) == [3, 4, 5, 1]


def test_a_large_checkpoint_must_be_more_promising():
    trials = [trial(0, 1.0), trial(1, 2.0), trial(2, 3.0)]
    assert deleted(trials, {0: 1, 1: 10, 2: 10}, 15) == [2]
    assert deleted(trials, {0: 1, 1: 100, 2: 10}, 15) == [1]  # 1/2 per 100 against 1/3 per 10


def test_a_training_is_compared_with_others_at_its_own_step():
    """Trial 1 is worse than all others today, but at its step it was better than trial 2."""
    trials = [trial(0, 9.0, 9.0, 1.0), trial(1, 4.0), trial(2, 5.0, 3.0), trial(3, 6.0, 2.5)]
    assert deleted(trials, dict.fromkeys(range(4), 10), 30) == [2]


def test_running_trials_and_the_best_are_never_touched():
    trials = [trial(0, 1.0, state="done"), trial(1, 9.0, state="running"), trial(2, 2.0)]
    assert deleted(trials, dict.fromkeys(range(3), 10), 0) == [2]


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_best_depends_on_the_direction(direction):
    trials = [trial(0, 1.0), trial(1, 2.0), trial(2, 3.0)]
    first = 2 if direction == "minimize" else 0
    assert deleted(trials, dict.fromkeys(range(3), 10), 25, direction=direction) == [first]


def test_folders_of_unknown_trials_and_empty_ones_stay():
    assert deleted([trial(0, 1.0), trial(1, 2.0)], {0: 10, 1: 0, 7: 10}, 5) == []


def test_the_chance_that_is_given_up_is_the_least_of_all_choices_of_one_size():
    """The oracle tries all sets of checkpoints: with equal sizes, greedy is exact."""
    rng = np.random.default_rng(0)
    values = rng.permutation(8) + 1.0
    trials = [trial(i, value) for i, value in enumerate(values)]
    chance = {i: 1 / (1 + np.sum(values < value)) for i, value in enumerate(values)}
    best = int(np.argmin(values))
    for count in range(1, 7):
        found = deleted(trials, dict.fromkeys(range(8), 10), 10 * (8 - count))
        least = min(
            combinations(set(chance) - {best}, count), key=lambda s: sum(map(chance.get, s))
        )
        assert set(found) == set(least)
