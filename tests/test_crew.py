"""Workers that are threads: they end together, for a signal or an error, and lose nothing."""

import signal
import threading
from dataclasses import dataclass, field
from functools import partial
from signal import SIGTERM

import pytest
from processes import PATIENCE

from farthing import Float, InvalidInput, Study
from farthing.leaving import TERMINATED
from farthing.policies import Random
from farthing.running import Finished, Usage

USED = Usage(0.01, 0.0, 0.0, {})


@dataclass(frozen=True)
class Cluster:
    """Evaluates nothing: does something at the third trial, after which all others end."""

    third: object
    together: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    slots = 2
    kills = True

    def evaluating(self, task, *, timeout, grace, lease):
        return self

    def run(self, job, allowance):
        self.together.wait(PATIENCE)  # two are always running
        if job.number < 2:
            return Finished("done", job.params["x"], {}, None, USED)
        if job.number == 2:
            self.third()
        while (why := allowance.may_go_on(USED)) is None:
            pass
        return Finished("killed", None, {}, why, USED)


@pytest.fixture
def study(tmp_path):
    settings = {"space": {"x": Float(0, 1)}, "policy": Random(), "budget": "9 trials"}
    study = Study.create(tmp_path / "a.db", name="a", **settings)
    yield study
    study.close()


def test_a_signal_ends_all_and_loses_nothing(study):
    result = study.run(lambda params: 0.0, engine=Cluster(partial(signal.raise_signal, SIGTERM)))
    assert result.stop_reason == TERMINATED
    assert sorted(t.state for t in result.history) == ["done", "done", "killed", "killed"]


def test_what_one_meets_ends_the_others_and_is_raised(study):
    def third():
        raise InvalidInput("the cluster is gone")

    with pytest.raises(InvalidInput, match="the cluster is gone"):
        study.run(lambda params: 0.0, engine=Cluster(third))
    states = [t.state for t in study.history]
    assert sorted(states) == ["done", "done", "killed", "lost"]
    assert not study.is_worked_on()


@pytest.mark.parametrize("workers", [0, True, 1.5])
def test_a_crew_needs_somebody(study, workers):
    with pytest.raises(InvalidInput, match="at least 1"):
        study.run(lambda params: 0.0, engine=Cluster(None), workers=workers)
