"""Fixtures that run evaluations and kill the processes that a test leaves."""

import signal
import time

import pytest
from processes import FOREVER, PATIENCE, Pids, fork_off, wait_until

from farthing.running import Allowance, CallableTask, Job, ProcessGroup


@pytest.fixture
def pids(tmp_path):
    noted = Pids(tmp_path / "pids")
    yield noted
    noted.kill()


@pytest.fixture
def evaluate():
    """Evaluates a task in a process group."""

    def run(task, params=None, *, number=7, seed=3, timeout=PATIENCE, grace=5.0, **allowance):
        allowed = {"tick": 0.5, "may_go_on": lambda usage: None, **allowance}
        engine = ProcessGroup(task, timeout, grace)
        return engine.run(Job(params or {}, number, seed), Allowance(**allowed))

    return run


@pytest.fixture
def sleeps(pids):
    """Makes an objective that sleeps, with descendants that sleep."""

    def sleeping(*, ignoring=(), descendants=0, before=None, first=None):
        def sleep(first=None):
            if first is not None:
                first()
            for number in ignoring:
                signal.signal(number, signal.SIG_IGN)
            pids.note()
            time.sleep(FOREVER)

        def objective(params):
            children = [pid for _ in range(descendants) if (pid := fork_off(lambda: sleep(first)))]
            wait_until(lambda: set(children) <= set(pids.all))
            if before is not None:
                before()
            sleep()

        return CallableTask(objective)

    return sleeping
