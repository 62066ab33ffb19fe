"""Studies for the tests of figures."""

import pytest
from runs import KINDS, SPACE, seen, value

from farthing import Optimizer
from farthing.policies import EI


@pytest.fixture(scope="session", params=list(KINDS))
def run(request):
    """A study with done, failed, killed and running trials."""
    optimizer = KINDS[request.param]()
    optimizer.ask(anyway=True)
    return seen(optimizer)


@pytest.fixture(scope="session")
def minimised():
    return seen(KINDS["minimised"]())


@pytest.fixture
def empty():
    return seen(Optimizer(SPACE, "$10"))


@pytest.fixture
def failures():
    """No trial returned a value."""
    optimizer = Optimizer(SPACE, "$100")
    for _ in range(4):
        optimizer.tell(optimizer.ask(), failed="no", cost=1.0)
    return seen(optimizer)


@pytest.fixture
def free():
    """No budget and no costs."""
    optimizer = Optimizer(SPACE, policy=EI())
    for _ in range(8):
        trial = optimizer.ask()
        optimizer.tell(trial, value(trial.params))
    return seen(optimizer)
