"""Smooth surrogates of recorded learning curves."""

import numpy as np
import pytest

from benchmarks.evidence.curves_simulator import (
    METHODS,
    OPTUNA,
    is_smooth,
    simulate,
    simulate_optuna,
)
from benchmarks.problems.curve_surrogates import COMPARED, OWN, CurveSurrogate, fit
from benchmarks.problems.curve_tables import CurveTable
from farthing import Float, Space

STEPS = np.arange(1, 10)


def curve(a, b):
    return np.exp((a - 0.3) ** 2 * 4 + b / STEPS)


@pytest.fixture(scope="module")
def fitted():
    """A table of 80 configurations; one diverges."""
    rows = [{"a": float(a), "b": float(b)} for a, b in np.random.default_rng(0).random((80, 2))]
    values = np.array([curve(**row) for row in rows])
    values[7, 3:] = np.nan
    space = Space.from_rows(rows, {"a": Float(0, 1), "b": Float(0, 1)})
    return fit(CurveTable("lcbench/toy", space, values, np.array([1 + row["b"] for row in rows])))


@pytest.fixture
def trainings(fitted):
    return CurveSurrogate("lcbench/toy", Space({"a": Float(0, 1), "b": Float(0, 1)}), fitted)


def test_a_new_point_has_the_curve_of_the_function(trainings):
    for a, b in np.random.default_rng(1).uniform(0.1, 0.9, (20, 2)):
        row = trainings.row_of(np.array([a, b]))
        np.testing.assert_allclose(np.log(trainings.curves[row]), np.log(curve(a, b)), atol=0.1)
        assert trainings.rate[row] == pytest.approx(1 + b, rel=0.05)


def test_the_same_point_is_the_same_training(trainings, fitted):
    x = np.array([0.2, 0.7])
    row = trainings.row_of(x)
    assert trainings.row_of(x.copy()) == row == 0
    other = CurveSurrogate("lcbench/toy", trainings.space, fitted)
    assert other.row_of(x) == 0
    np.testing.assert_array_equal(other.curves, trainings.curves)
    assert len(trainings.ends("best")) == COMPARED  # without what was trained
    smooth, _ = fitted.at(x[None], np.zeros((1, len(fitted.spread))))
    assert 0 < np.abs(np.log(trainings.curves[row] / smooth[0])).max() < 100 * OWN


@pytest.mark.parametrize("name", [n for n in (*METHODS, *OPTUNA) if is_smooth(n)])
def test_methods_stay_within_their_budget(trainings, name):
    run = simulate_optuna if name in OPTUNA else simulate
    found = run(trainings, name if name in OPTUNA else METHODS[name], 4.0, 1)
    assert 0.5 < found["spent"] <= 4.0 + 1e-9
    assert 0 <= found["better"] <= 100
    assert found["trials"] >= 3
