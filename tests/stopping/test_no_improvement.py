import numpy as np
import pytest
from beliefs import NOTHING, done, known, line
from hypothesis import given
from hypothesis import strategies as st

from farthing import History, InvalidInput, Trial
from farthing.stopping import NoImprovement


def verdict_after(values, window=5, running=0, **settings):
    history = History(tuple(done(i, [0.0], v) for i, v in enumerate(values)))
    for _ in range(running):
        history = history.adding(Trial(len(history), {}, np.array([0.0])))
    belief = known(line(2), history=history, **settings)
    return NoImprovement(window)(belief, NOTHING, np.random.default_rng(0))


def first_stop(values, window=5):
    stops = [verdict_after(values[: n + 1], window).stop for n in range(len(values))]
    return stops.index(True) if any(stops) else None


def test_it_counts_values_without_improvement():  # [no-improvement]
    # Values whose best so far are 5, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3.
    assert first_stop([5, 4, 9, 4, 6, 7, 3, 8, 3, 5, 9, 4]) == 11
    assert first_stop([5, 4, 9, 4, 6, 7, 3, 8, 3, 5, 9, 4], window=4) == 5


def test_five_in_a_row_by_default():
    stops = []
    for count in range(1, 9):
        history = History(tuple(done(i, [0.0], 1.0 + i) for i in range(count)))
        verdict = NoImprovement()(
            known(line(2), history=history), NOTHING, np.random.default_rng(0)
        )
        stops.append(verdict.stop)
    assert stops == [False] * 5 + [True] * 3  # the first of eight values is the best


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(1, 6))
def test_the_best_is_that_of_window_values_ago(values, window):
    best = np.minimum.accumulate(values)
    slow = len(values) > window and best[-1] == best[-1 - window]
    assert verdict_after(values, window).stop == slow


def test_the_reason():
    verdict = verdict_after([3.0, 2.0, 2.5, 2.2])
    assert (verdict.stop, verdict.number, verdict.threshold) == (False, 2, 5)
    assert (
        verdict.because == "the last 2 values brought no improvement; the run stops at 5 (window=5)"
    )
    verdict = verdict_after([3.0, 2.0, 2.5, 2.2], window=2, running=3)
    assert verdict.stop
    assert (
        "improvement (ignoring 3 running trials); the run stops at 2 (window=2)" in verdict.because
    )
    verdict = verdict_after([])
    assert (verdict.stop, verdict.number) == (False, 0)


def test_failures_do_not_count():
    states = ["done", "failed", "failed", "killed", "done"]
    history = History(
        tuple(
            done(i, [0.0], 1.0 + i, state=state)  # only the values of done trials count
            for i, state in enumerate(states)
        )
    )
    verdict = NoImprovement(1)(known(line(2), history=history), NOTHING, np.random.default_rng(0))
    assert verdict.number == 1


@pytest.mark.parametrize("window", [0, -1, 2.5, "5", True])
def test_an_invalid_window_is_refused(window):
    with pytest.raises(InvalidInput, match="whole number of at least 1"):
        NoImprovement(window)
