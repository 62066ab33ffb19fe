"""Optuna's own tests of a sampler, on ours.

`MultiObjectiveSamplerTestCase` cannot pass: Farthing optimises one objective, and
`SingleOnlySamplerTestCase` says that several are refused.
"""

import warnings

import optuna
import pytest
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)

from farthing.integrations.optuna import CostAwareSampler


@pytest.fixture(autouse=True)
def _their_warnings():
    """Ignore the warnings of Optuna about its experimental features."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


class TestOptunaConformance(
    BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase
):
    @pytest.fixture
    def sampler(self):
        return CostAwareSampler
