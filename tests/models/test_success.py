"""The probability that a trial returns a value."""

from types import SimpleNamespace

import numpy as np

from farthing.models.success import fit_success, log_success


def test_one_success_among_many_failures_is_learnt():
    """A success is no outlier: its target is not clipped to those of the failures."""
    X = np.linspace(0.0, 1.0, 12)[:, None]
    trials = [SimpleNamespace(x=x, number=number) for number, x in enumerate(X)]
    returned, missing = [trials[3]], [*trials[:3], *trials[4:]]
    options = np.zeros(1, dtype=np.int64)
    process, _ = fit_success(returned, missing, None, options=options, seldom=False)
    probability = np.exp(log_success(process.at(X)))
    assert probability[3] > 0.9
    assert np.delete(probability, 3).max() < 0.1
