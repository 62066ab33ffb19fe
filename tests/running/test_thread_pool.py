"""Workers that are threads: they end together, for a signal or an error, and lose nothing."""

import signal
import threading
from dataclasses import dataclass, field
from functools import partial
from signal import SIGTERM

import pytest
from processes import PATIENCE, wait_until

from farthing import Float, InvalidInput, Study
from farthing.policies import Random
from farthing.running import Finished, Usage
from farthing.running.signals import INTERRUPTED, TERMINATED
from farthing.running.thread_pool import run_thread_pool
from farthing.running.worker import Place

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


def members():
    return [t.name for t in threading.enumerate() if t.name.startswith("farthing-")]


class Two:
    """One trial is interrupted and ends. The other goes on until the thread of the first is gone,
    and the run has looked at its crew twice since then; or until it may not.
    """

    slots = 2
    kills = True

    def __init__(self):
        self.together = threading.Barrier(2)
        self.seen = []

    def look(self):
        self.seen.append(len(members()))

    def run(self, job, allowance):
        self.together.wait(PATIENCE)
        if job.number == 0:
            signal.raise_signal(signal.SIGINT)
            return Finished("done", job.params["x"], {}, None, USED)
        why = None

        def over():
            nonlocal why
            why = allowance.may_go_on(USED)
            return why is not None or self.seen[-2:] == [1, 1]

        assert wait_until(over)
        if why is not None:
            return Finished("killed", None, {}, why, USED)
        return Finished("done", job.params["x"], {}, None, USED)


@pytest.fixture
def heard():
    """Ctrl-C, which is ignored by what runs in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_what_is_let_finish_is_waited_for_when_the_others_have_left(tmp_path):
    settings = {"space": {"x": Float(0, 1)}, "policy": Random(), "budget": "2 trials"}
    study, engine = Study.create(tmp_path / "a.db", name="a", **settings), Two()
    places = [Place("0"), Place("1")]
    assert (
        run_thread_pool(study, study.current_settings, engine, engine.look, places) == INTERRUPTED
    )
    assert [t.state for t in study.history] == ["done", "done"]
    study.close()


def test_an_interrupt_waits_until_what_was_running_is_told(study):
    """A third Ctrl-C, wherever this process is: nobody works on after it."""
    running = threading.Event()

    class Slow(Cluster):
        def run(self, job, allowance):
            finished = Cluster.run(self, job, allowance)
            if finished.state == "killed":
                threading.Event().wait(0.3)  # whoever does not wait for it sees it working
            return finished

    def look():
        if running.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_thread_pool(
            study, study.current_settings, Slow(running.set), look, [Place("0"), Place("1")]
        )
    assert members() == []
    assert sorted(t.state for t in study.history) == ["done", "done", "killed", "killed"]


@pytest.mark.parametrize("workers", [0, True, 1.5])
def test_a_crew_needs_somebody(study, workers):
    with pytest.raises(InvalidInput, match="at least 1"):
        study.run(lambda params: 0.0, engine=Cluster(None), workers=workers)
