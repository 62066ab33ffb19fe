"""Optuna's own tests of a sampler, on ours: without a budget, and with one of time and of money.

`MultiObjectiveSamplerTestCase` cannot pass: Farthing optimises one objective, and
`SingleOnlySamplerTestCase` says that several are refused. The objectives of these tests report no
cost, so that a budget in dollars needs a rate.
"""

import warnings
from functools import partial

import optuna
import pytest
from optuna.distributions import CategoricalDistribution

from farthing import Stopped
from farthing.integrations.optuna import CostAwareSampler

pytest.importorskip("optuna.testing.pytest_samplers", reason="Optuna has it since 4.8")
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
    parametrize_suggest_method,
)


@pytest.fixture(autouse=True)
def _their_warnings():
    """Ignore the warnings of Optuna about its experimental features."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


class Conformance(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """The tests that every sampler of one objective must pass."""


class TestWithoutBudget(Conformance):
    @pytest.fixture
    def sampler(self):
        return CostAwareSampler


class WithBudget(Conformance):
    """By design, a budget is not spent on a configuration that was tried: two tests ask for it."""

    def test_sample_relative_categorical(self, sampler):
        """It asks for 12 of 9 configurations."""
        with pytest.raises(Stopped, match=r"every configuration of the space was tried \(9"):
            RelativeSamplerTestCase.test_sample_relative_categorical(self, sampler)

    @parametrize_suggest_method("x")
    def test_single_parameter_objective(self, sampler, suggest_method_x):
        """It asks for 10 trials; of a categorical parameter, there are 3."""
        shown = optuna.trial.FixedTrial({"x": 2})
        suggest_method_x(shown)
        if not isinstance(shown.distributions["x"], CategoricalDistribution):
            BasicSamplerTestCase.test_single_parameter_objective(self, sampler, suggest_method_x)
            return
        study = optuna.create_study(sampler=sampler())
        study.optimize(suggest_method_x, n_trials=10)
        assert sorted(trial.params["x"] for trial in study.trials) == [0, 1, 2]
        assert study.user_attrs["farthing:stopped"].startswith("every configuration")


@pytest.mark.slow
class TestWithTime(WithBudget):
    @pytest.fixture
    def sampler(self):
        return partial(CostAwareSampler, budget="1h")


@pytest.mark.slow
class TestWithMoney(WithBudget):
    @pytest.fixture
    def sampler(self):
        return partial(CostAwareSampler, budget="$100", rate="$1/h")
