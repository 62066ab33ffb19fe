"""The recorded decisions are reproduced bit for bit.

On another processor or with another BLAS, the last bits of a sum may differ. A run that has chosen
another point once then continues differently, so each run is compared until it first differs.
"""

import frozen
import numpy as np
import pytest

RECORDED = np.load(frozen.FILE)
SAME_MACHINE = str(RECORDED[frozen.MACHINE]) == frozen.machine()
RUNS = frozen.runs()
NEAR = 1e-6  # in the unit cube


def test_all_runs_are_recorded():
    recorded = set(RECORDED.files) - {frozen.MACHINE}
    assert recorded == set(RUNS)
    assert sum(len(RECORDED[name]) for name in recorded) > 5000


def is_quick(name):
    """One run of every policy and of every cost model."""
    of_policy = name.endswith("/ table / 0")
    return of_policy or (
        name.startswith("cost ") and name.endswith("/ mixed") and "Known" not in name
    )


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if is_quick(n) else pytest.mark.slow) for n in RUNS]
)
def test_decisions(name):
    expected, made = RECORDED[name], RUNS[name]()
    if SAME_MACHINE:
        assert made.tobytes() == expected.tobytes()
    else:
        start = min(4, len(expected))  # without a model yet
        np.testing.assert_allclose(made[:start], expected[:start], rtol=NEAR, atol=NEAR)
