"""A small mixed space, and a comparison of two trials."""

import numpy as np
import pytest

from farthing import (
    Categorical,
    Float,
    Int,
    Space,
)

SPACE = Space(
    {
        "a": Float(-3, 5),
        "b": Float(1e-4, 1, log=True),
        "k": Int(1, 6),
        "s": Categorical(["u", "v", ("w", 1)]),
        "m": Float(2, 3, when={"s": "u"}),
    }
)


def same(one, other):
    assert one.number == other.number
    assert dict(one.params) == dict(other.params)
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-9)
    assert one.because == other.because
    assert dict(one.predicted) == pytest.approx(dict(other.predicted), rel=1e-9)
