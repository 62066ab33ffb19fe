"""A rule stops a study with any number of workers, although some trials are always running."""

import pytest
from processes import FOREVER

from farthing import Float, Outcome, Space, Study
from farthing.stopping import NotWorthIt

SPACE = Space({"a": Float(2, 3), "b": Float(-1, 1)})
CAP = 45
WORTH = 0.02


def bowl(params):
    return Outcome((params["a"] - 2.3) ** 2 + params["b"] ** 2, cost=1.0)


def run(path, workers):
    budget = {"usd": 1000, "trials": CAP}
    settings = {"space": SPACE, "stop": NotWorthIt(worth=WORTH), "lease": FOREVER}
    study = Study.create(path / "study.db", name="a", budget=budget, **settings)
    try:
        return study.run(bowl, workers=workers)
    finally:
        study.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The result of one worker."""
    return run(tmp_path_factory.mktemp("alone"), 1)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_rule_stops_a_study_with_any_number_of_workers(workers, alone, tmp_path):
    result = alone if workers == 1 else run(tmp_path, workers)
    assert "at most the 0.02 it is worth" in result.stop_reason.sentence
    assert {trial.state for trial in result.history} == {"done"}
    assert 5 < len(result.history) <= 2 * len(alone.history) + workers < CAP
    assert result.best.value < 0.2  # of values between 0 and 1.49
