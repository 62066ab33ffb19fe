import numpy as np
import pytest
from beliefs import NOTHING, done, known, line
from hypothesis import given
from hypothesis import strategies as st

from farthing import History, InvalidInput, Trial
from farthing.stopping import SmallImprovement

VALUES = [0.50, 0.42, 0.60, 0.41, 0.39, 0.45, 0.38, 0.385, 0.44, 0.379, 0.3795, 0.40]


def verdict_after(values, running=0, **arguments):
    history = History(tuple(done(i, [0.0], v) for i, v in enumerate(values)))
    for _ in range(running):
        history = history.adding(Trial(len(history), {}, np.array([0.0])))
    return SmallImprovement(**arguments)(
        known(line(2), history=history), NOTHING, np.random.default_rng(0)
    )


def test_the_improvement_against_the_spread():  # [small-improvement]
    verdict = verdict_after(VALUES)
    assert verdict.stop
    assert verdict.number == pytest.approx(0.001)
    assert verdict.threshold == pytest.approx(0.1 * 0.05875)
    assert verdict.number / (verdict.threshold / 0.1) == pytest.approx(0.0170212766, abs=1e-9)
    assert not verdict_after(VALUES, share=0.01).stop
    assert verdict_after(VALUES, share=0.0171).stop
    assert verdict.because == (
        "the last 5 values improved the best by 0.001, less than 0.1 of the interquartile range, "
        "0.00587"
    )


@given(
    st.lists(st.floats(-5, 5).map(lambda v: round(v, 3)), min_size=2, max_size=30),
    st.integers(2, 8),
    st.floats(0.01, 2.0),
)
def test_it_is_what_ax_does_if_the_quartiles_differ(values, window, share):
    verdict = verdict_after(values, window=window, share=share)
    q75, q25 = np.percentile(values, [75, 25])
    if len(values) < window or q75 == q25:
        assert not verdict.stop
        return
    best = np.minimum.accumulate(values)
    ratio = abs(best[-1] - best[-1 - (window - 1)]) / (q75 - q25)
    if abs(ratio - share) > 1e-9:
        assert verdict.stop == (ratio < share)


def test_it_continues_if_the_quartiles_are_equal():
    assert not verdict_after([1.0] * 20).stop
    assert not verdict_after([2.0, *[1.0] * 20]).stop


def test_too_few_values():
    verdict = verdict_after(VALUES[:4])
    assert not verdict.stop
    assert verdict.because == "4 of the 5 values that the rule needs"


def test_running_trials_are_ignored():
    verdict = verdict_after(VALUES, running=1)
    assert verdict.stop
    assert "by 0.001 (ignoring the running trial), less" in verdict.because


@pytest.mark.parametrize("window", [0, 1, 2.5, True])
def test_an_invalid_window_is_refused(window):
    with pytest.raises(InvalidInput, match="whole number of at least 2"):
        SmallImprovement(window=window)


@pytest.mark.parametrize("share", [0.0, -0.1, np.nan, np.inf, "0.1"])
def test_an_invalid_share_is_refused(share):
    with pytest.raises(InvalidInput, match="must be positive"):
        SmallImprovement(share=share)
