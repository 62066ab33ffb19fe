"""Worker threads: a signal or an error ends all of them, and no result is lost."""

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
from farthing.running.pool import run_workers
from farthing.running.signals import INTERRUPTED, TERMINATED
from farthing.running.worker import Place

USED = Usage(0.01, 0.0, 0.0, {})


@dataclass(frozen=True)
class Cluster:
    """Evaluates nothing. The third trial calls `third`; later trials run until they are killed."""

    third: object
    together: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    slots = 2
    kills = True

    def evaluating(self, task, *, timeout, grace, lease):
        return self

    def run(self, job, allowance):
        self.together.wait(PATIENCE)  # two trials always run at the same time
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


def test_a_signal_ends_all_workers_and_loses_no_result(study):
    result = study.run(lambda params: 0.0, engine=Cluster(partial(signal.raise_signal, SIGTERM)))
    assert result.stop_reason == TERMINATED
    assert sorted(t.state for t in result.history) == ["done", "done", "killed", "killed"]


def test_the_error_of_one_worker_ends_the_others_and_is_raised(study):
    def third():
        raise InvalidInput("the cluster is gone")

    with pytest.raises(InvalidInput, match="the cluster is gone"):
        study.run(lambda params: 0.0, engine=Cluster(third))
    states = [t.state for t in study.history]
    assert sorted(states) == ["done", "done", "killed", "lost"]
    assert not study.is_worked_on()


def worker_threads():
    return [t.name for t in threading.enumerate() if t.name.startswith("farthing-")]


class Two:
    """The first trial raises SIGINT and ends. The second runs until the first thread has ended and
    the pool has checked its threads twice since then, or until it is killed.
    """

    slots = 2
    kills = True

    def __init__(self):
        self.together = threading.Barrier(2)
        self.seen = []

    def look(self):
        self.seen.append(len(worker_threads()))

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
def sigint():
    """Restore the handler, because background processes of a shell ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("sigint")
def test_the_pool_waits_for_a_trial_that_finishes_after_the_other_workers(tmp_path):
    settings = {"space": {"x": Float(0, 1)}, "policy": Random(), "budget": "2 trials"}
    study, engine = Study.create(tmp_path / "a.db", name="a", **settings), Two()
    places = [Place("0"), Place("1")]
    settings = study.current_settings
    reason = run_workers(study, settings, engine, engine.look, places, threads=True)
    assert reason == INTERRUPTED
    assert [t.state for t in study.history] == ["done", "done"]
    study.close()


def test_after_an_interrupt_the_pool_waits_until_running_trials_are_reported(study):
    """A third Ctrl-C may come at any point. No worker continues after it."""
    running = threading.Event()

    class Slow(Cluster):
        def run(self, job, allowance):
            finished = Cluster.run(self, job, allowance)
            if finished.state == "killed":
                threading.Event().wait(0.3)  # the test fails if the pool does not wait for this
            return finished

    def look():
        if running.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_workers(
            *(study, study.current_settings, Slow(running.set), look, [Place("0"), Place("1")]),
            threads=True,
        )
    assert worker_threads() == []
    assert sorted(t.state for t in study.history) == ["done", "done", "killed", "killed"]


@pytest.mark.parametrize("workers", [0, True, 1.5])
def test_the_number_of_workers_must_be_positive(study, workers):
    with pytest.raises(InvalidInput, match="at least 1"):
        study.run(lambda params: 0.0, engine=Cluster(None), workers=workers)
