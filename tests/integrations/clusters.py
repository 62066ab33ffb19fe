"""Objectives for trials on a cluster, and a folder in which tests observe them."""

import itertools
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from processes import FOREVER, PATIENCE, is_alive, wait_until

from farthing import Float
from farthing.errors import Infrastructure
from farthing.policies import Random
from farthing.running import Allowance, Job, report_progress

SPACE = {"x": Float(0, 1)}
TERMS = {"space": SPACE, "policy": Random(), "grace": 1.0, "lease": PATIENCE}


def square(params):
    return (params["x"] - 0.3) ** 2


def parents_of(pid):
    """The process and all its ancestors."""
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Notes:
    """A folder in which trials note that they have started."""

    def __init__(self, folder):
        self.folder = str(folder)

    def begin(self):
        """The number of trials that started before; no two trials get the same."""
        mine = Path(self.folder, f".{os.getpid()}")
        mine.write_text(str(os.getpid()))
        for number in itertools.count():
            with suppress(FileExistsError):
                os.link(mine, Path(self.folder, str(number)))
                return number

    @property
    def pids(self):
        """The process ids of the started trials, in order."""
        numbers = sorted(int(name) for name in os.listdir(self.folder) if name.isdigit())
        return [int(Path(self.folder, str(number)).read_text()) for number in numbers]

    def wait(self, count=1):
        assert wait_until(lambda: len(self.pids) >= count)
        return self.pids


def sleeping_first(notes, sleepers=1):
    """An objective whose first evaluations never end; the others wait for their end."""

    def objective(params):
        if notes.begin() < sleepers:
            time.sleep(FOREVER)
        wait_until(lambda: sum(map(is_alive, notes.pids)) < 2)
        return (params["x"] - 0.3) ** 2

    return objective


def losses(lr, steps):
    """The losses of a linear regression after each epoch of stochastic gradient descent."""
    weights = np.zeros(3)
    found = []
    for step in range(1, steps + 1):
        weights, loss = epoch(weights, lr, step)
        found.append(loss)
    return found


def epoch(weights, lr, step):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(32, 3))
    targets = inputs @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.normal(size=32)
    for i in np.random.default_rng(step).permutation(32):
        weights = weights - lr * (inputs[i] @ weights - targets[i]) * inputs[i]
    return weights, float(np.mean((inputs @ weights - targets) ** 2))


def regression(notes, before=lambda number: None):
    """A training of `losses` with checkpoints, x being 20 times its learning rate.

    Args:
        before: called with the number of parts that started before, at the start of each.
    """

    def train(params, trial):
        before(notes.begin())
        step, weights = 0, np.zeros(3)
        file = None if trial.checkpoint is None else trial.checkpoint / "weights.npy"
        if file is not None and file.exists():
            step, *weights = np.load(file)
            weights = np.array(weights)
        while True:
            step = int(step) + 1
            weights, loss = epoch(weights, params["x"] / 20, step)
            if trial.report(step, loss) != "continue":
                if file is not None:
                    np.save(file, [step, *weights])
                return

    return train


def kill(pid):
    os.kill(pid, signal.SIGKILL)


# ── what every engine of a cluster does ────────────────────────────────────────────────────────

JOB = Job({"x": 0.5}, number=0, seed=0)


def go_on(usage):
    return None


def check_failures_and_timeouts(engine):
    """`engine` makes the engine of an objective, with settings."""

    def fails(params):
        raise ValueError("too large")

    failed = engine(fails).run(JOB, Allowance(0.1, go_on))
    assert failed.state == "failed"
    assert "ValueError: too large" in failed.error
    late = engine(lambda params: time.sleep(FOREVER), timeout=0.2)
    ended = late.run(JOB, Allowance(0.1, go_on))
    assert ended.state == "killed"
    assert "timeout" in ended.error


def check_lost_machines_and_progress(engine):
    """Returns the reports that were heard."""

    def machine(params):
        raise Infrastructure("no disk")

    def reports(params):
        for step in range(3):
            report_progress(step, 1.0 / (step + 1), cost=step + 1.0)
        return 0.25

    assert engine(machine).run(JOB, Allowance(0.1, go_on)).state == "lost"
    heard = []
    allowance = Allowance(0.1, go_on, lambda message, usage: heard.append((message, usage)))
    done = engine(reports).run(JOB, allowance)
    assert (done.state, done.value) == ("done", 0.25)
    assert [message["step"] for message, _ in heard] == [0, 1, 2]
    return heard


def check_an_error_of_the_allowance(engine, notes):
    def may_go_on(usage):
        if notes.pids:
            raise RuntimeError("the database is gone")

    with pytest.raises(RuntimeError, match="database"):
        engine(sleeping_first(notes)).run(JOB, Allowance(0.05, may_go_on))
    assert not any(map(is_alive, notes.pids))
