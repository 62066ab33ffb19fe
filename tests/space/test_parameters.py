"""The resolution of a parameter."""

import numpy as np

from farthing import Float, Space


def test_a_float_is_as_fine_as_rounding_allows():
    """Its ticks are 16 eps, twice the error of encoding and decoding."""
    space, tick = Space({"x": Float(0, 10)}), 16 * np.finfo(float).eps
    X = np.array([[0.3], [0.3 + tick], [0.3 + 2 * tick]])
    X = np.round(X / tick) * tick
    assert len(set(space.snap(X)[:, 0])) == 3
    assert len({space.decode(x)["x"] for x in X}) == 3
    assert (space.snap(X + tick / 4) == space.snap(X)).all()
