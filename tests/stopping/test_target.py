import numpy as np
import pytest
from beliefs import NOTHING, known, line

from farthing import Float, InvalidInput, Optimizer, Space
from farthing.stopping import Target


def verdict(target, values, sign=1.0):
    belief = known(line(2), y=sign * np.array(values, dtype=float), sign=sign)
    return Target(target)(belief, NOTHING, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("values", "sign", "best", "stop"),
    [
        ([5.0, 3.1], 1.0, 3.1, False),
        ([5.0, 3.0], 1.0, 3.0, True),
        ([2.9, 5.0], 1.0, 2.9, True),
        ([2.9, 1.0], -1.0, 2.9, False),
        ([2.9, 3.0], -1.0, 3.0, True),
        ([5.0, -9.0], -1.0, 5.0, True),
    ],
)
def test_reached_or_not_in_either_direction(values, sign, best, stop):
    found = verdict(3.0, values, sign)
    assert found.stop == stop
    assert (found.number, found.threshold) == (best, 3.0)
    word = "has reached" if stop else "has not reached"
    assert found.because == f"the best value {best:g} {word} the target 3"


def test_before_the_first_value():
    found = verdict(3.0, [])
    assert not found.stop
    assert np.isnan(found.number)
    assert found.threshold == 3.0
    assert "no value yet" in found.because


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_in_a_run(direction):
    flip = 1.0 if direction == "minimize" else -1.0
    space = Space({"x": Float(2, 3)})
    optimizer = Optimizer(space, stop=Target(flip * 2.5), direction=direction)
    optimizer.add({"x": 2.6}, flip * 2.6)
    assert not optimizer.verdict.stop
    optimizer.add({"x": 2.4}, flip * 2.4)
    assert optimizer.verdict.stop


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_invalid_target_is_refused(value):
    with pytest.raises(InvalidInput, match="expected a finite number"):
        Target(value)
