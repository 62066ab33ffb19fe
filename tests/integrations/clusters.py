"""Objectives for trials on a cluster, and a folder in which tests observe them."""

import itertools
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from processes import FOREVER, PATIENCE, is_alive, wait_until

from farthing import Float
from farthing.policies import Random

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


def kill(pid):
    os.kill(pid, signal.SIGKILL)
