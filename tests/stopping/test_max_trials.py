import numpy as np
import pytest
from beliefs import NOTHING, done, known, line

from farthing import Float, History, InvalidInput, Optimizer, Space, Stopped
from farthing.stopping import MaxTrials


@pytest.mark.parametrize(("made", "stop"), [(0, False), (2, False), (3, True), (4, True)])
def test_it_counts_trials_of_every_state(made, stop):
    states = ["done", "failed", "running", "killed"]
    history = History(tuple(done(i, [0.0], 1.0, state=states[i]) for i in range(made)))
    verdict = MaxTrials(3)(known(line(2), history=history), NOTHING, np.random.default_rng(0))
    assert verdict.stop == stop
    assert (verdict.number, verdict.threshold) == (made, 3)
    assert verdict.because == f"{made} of at most 3 trials made"


def test_in_a_run():
    optimizer = Optimizer(Space({"x": Float(2, 3)}), stop=MaxTrials(4))
    assert len(optimizer.ask(9)) == 4
    with pytest.raises(Stopped, match="4 of at most 4 trials made"):
        optimizer.ask()


@pytest.mark.parametrize("count", [0, -1, 2.5, "3", True])
def test_an_invalid_count_is_refused(count):
    with pytest.raises(InvalidInput, match="whole number of at least 1"):
        MaxTrials(count)
