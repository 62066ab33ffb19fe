"""An evaluation in one line, and no process left behind by any test."""

import signal
import time

import pytest
from processes import Pids, fork_off, wait_until

from farthing.running import CallableTask, supervise


@pytest.fixture
def pids(tmp_path):
    noted = Pids(tmp_path / "pids")
    yield noted
    noted.kill()


@pytest.fixture
def evaluate():
    def run(task, params=None, **settings):
        defaults = {"number": 7, "seed": 3, "timeout": 60.0, "allow": lambda usage: True}
        return supervise(task, params or {}, **{**defaults, **settings})

    return run


@pytest.fixture
def sleeps(pids):
    """Makes an objective that sleeps, and so do its children."""

    def sleeping(*, ignoring=(), descendants=0, seconds=60.0, before=None):
        def sleep():
            for number in ignoring:
                signal.signal(number, signal.SIG_IGN)
            pids.note()
            time.sleep(seconds)

        def objective(params):
            children = [pid for _ in range(descendants) if (pid := fork_off(sleep))]
            wait_until(lambda: set(children) <= set(pids.all))
            if before is not None:
                before()
            sleep()
            return 1.0

        return CallableTask(objective)

    return sleeping
