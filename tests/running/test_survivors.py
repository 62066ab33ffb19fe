"""If a supervisor is killed, its worker or the next one ends the processes of its evaluation."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from processes import FOREVER, children_of, fork_off, is_alive, kills_supervisor, wait_until

from farthing.running import CallableTask, CommandTask, Job, ProcessGroup, survivors
from farthing.running.engine import Allowance
from farthing.running.survivors import MARK, adopting_orphans, sweep

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl")

# A program whose descendant leaves the session and the process group, and ignores SIGTERM.
PROGRAM = """
setsid sh -c 'trap "" TERM; echo $$ >> pids; exec sleep 1800' &
nohup sleep 1800 & echo $! >> pids
echo $$ >> pids
sleep 1800
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, pids):
    """The current folder, in which processes note their ids."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def function(pids):
    def descendant():
        os.setsid()
        pids.note()
        time.sleep(FOREVER)

    def objective(params):
        for _ in range(2):
            fork_off(descendant)
        pids.note()
        time.sleep(FOREVER)

    return CallableTask(objective)


def task_of(kind, pids):
    return function(pids) if kind == "function" else CommandTask(["bash", "-c", PROGRAM])


@pytest.mark.parametrize("kind", ["function", "program"])
def test_the_worker_ends_what_a_killed_supervisor_leaves(kind, evaluate, pids, folder):
    before = children_of(os.getpid())
    may_go_on = kills_supervisor(lambda: len(pids.all) == 3)
    finished = evaluate(task_of(kind, pids), may_go_on=may_go_on, tick=0.05)
    assert finished.state == "lost"
    assert pids.alive == []  # already: the engine waits for their end
    assert children_of(os.getpid()) <= before


def test_a_process_that_is_not_adopted_yet_is_waited_for():
    """Otherwise it becomes a zombie of the worker when its parent has ended."""
    reading, writing = os.pipe()

    def parent():
        os.write(writing, f"{fork_off(lambda: time.sleep(FOREVER))}".encode())
        time.sleep(FOREVER)

    child = fork_off(parent)
    grandchild = int(os.read(reading, 20))
    with adopting_orphans():
        assert survivors._reap({grandchild}, {})
        for pid in (child, grandchild):
            os.kill(pid, signal.SIGKILL)
        ended = {}
        assert wait_until(lambda: not survivors._reap({child, grandchild}, ended))
    assert ended.keys() == {child, grandchild}


def test_what_ends_between_two_looks_is_reaped(tmp_path, monkeypatch):
    """A leader ends after the list of own children was made: its child is adopted only then."""
    reading, writing = os.pipe()

    def leader():
        os.setsid()
        os.write(writing, f"{fork_off(lambda: time.sleep(FOREVER))}".encode())
        time.sleep(FOREVER)

    before = children_of(os.getpid())
    with adopting_orphans():
        child = fork_off(leader)
        grandchild = int(os.read(reading, 20))
        os.killpg(child, signal.SIGKILL)
        assert wait_until(lambda: {child, grandchild} <= children_of(os.getpid()))
        look, looks = survivors._own_children, iter([{child: child}])
        monkeypatch.setattr(survivors, "_own_children", lambda: next(looks, None) or look())
        status = survivors.end_survivors(tmp_path, child)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert children_of(os.getpid()) <= before


def test_a_mark_is_locked_from_the_beginning(tmp_path, monkeypatch):
    """A sweep that finds it unlocked kills the supervisor that is about to lock it."""
    lock, seen = survivors.fcntl.flock, []

    def flock(descriptor, operation):
        seen.append(Path(survivors.mark_of(tmp_path)).exists())
        lock(descriptor, operation)

    monkeypatch.setattr(survivors.fcntl, "flock", flock)
    mark = survivors.lock_mark(str(tmp_path))
    assert seen == [False]
    monkeypatch.undo()
    assert survivors._is_supervised(survivors.mark_of(tmp_path))
    os.close(mark)
    assert not survivors._is_supervised(survivors.mark_of(tmp_path))


def test_a_trial_that_has_ended_survives_its_supervisor(folder, pids):
    """The supervisor is killed while it waits for a leftover process."""

    def objective(params):
        fork_off(lambda: (pids.note(), time.sleep(FOREVER)))
        return 3.0

    may_go_on = kills_supervisor((folder / "0-1.0.ended").exists)
    job = Job({}, 0, 0, journal=folder / "0-1.0.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("farthing.running.supervisor.LINGER", FOREVER)
        finished = ProcessGroup(CallableTask(objective)).run(job, Allowance(0.05, may_go_on))
    assert (finished.state, finished.value) == ("done", 3.0)
    assert pids.alive == []


@pytest.mark.parametrize("kind", ["function", "program"])
def test_the_next_worker_ends_what_a_killed_worker_and_supervisor_leave(kind, pids, folder):
    def work():
        ProcessGroup(task_of(kind, pids)).run(Job({}, 0, 0), Allowance(0.05, lambda usage: None))

    worker = fork_off(work)
    assert wait_until(lambda: len(pids.all) == 3)
    sweep()
    assert len(pids.alive) == 3  # their supervisor lives
    supervisors = children_of(worker)
    for pid in (worker, *supervisors):  # stopped first, so that none sees another die
        os.kill(pid, signal.SIGSTOP)
    for pid in (worker, *supervisors):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(worker, 0)
    assert wait_until(lambda: not any(map(is_alive, supervisors)))
    sweep()  # the kernel has killed only the evaluation itself
    assert wait_until(lambda: pids.alive == [])


def test_a_worker_spares_the_evaluation_that_it_is_part_of(monkeypatch, tmp_path):
    """A trial may run a study of its own. Nobody has locked these marks."""
    own, other = tmp_path / "own", tmp_path / "other"
    own.touch()
    other.touch()
    found, killed = {1: str(own), 2: str(other), 3: str(tmp_path / "gone")}, []
    monkeypatch.setenv(MARK, str(own))
    monkeypatch.setattr(survivors, "_marked", lambda: found)
    monkeypatch.setattr(survivors, "_kill", lambda pids: killed.append(pids))
    sweep()
    assert killed == [{2}]


def test_orphans_are_adopted_only_during_an_evaluation():
    def is_adopted():
        reading, writing = os.pipe()

        def parent():
            orphan = fork_off(lambda: time.sleep(FOREVER))
            os.write(writing, str(orphan).encode())

        os.waitpid(fork_off(parent), 0)
        orphan = int(os.read(reading, 100))
        os.close(reading)
        os.close(writing)
        adopted = orphan in children_of(os.getpid())
        os.kill(orphan, signal.SIGKILL)
        if adopted:
            os.waitpid(orphan, 0)
        return adopted

    with adopting_orphans():
        with adopting_orphans():
            assert is_adopted()
        assert is_adopted()
    assert not is_adopted()
