"""The guard: whoever dies, nothing survives."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from processes import children_of, exit_code, fork_off, wait_until

from farthing.running import CallableTask, CommandTask
from farthing.running import guard as guards


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_death_of_the_supervisor_is_the_end(
    evaluate, sleeps, pids, number, workers, tmp_path, monkeypatch
):
    folders = tmp_path / "tmp"
    folders.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    task = sleeps(ignoring=[signal.SIGTERM], descendants=2)

    def supervise():
        threads = [
            threading.Thread(target=evaluate, args=(task,), kwargs={"grace": 0.3})
            for _ in range(workers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    supervisor = fork_off(supervise)
    try:
        assert wait_until(lambda: len(pids.all) == 3 * workers)
        assert len(children_of(supervisor)) == len(list(folders.iterdir())) == workers
    finally:
        os.kill(supervisor, number)
        assert exit_code(supervisor) == -number
    assert wait_until(lambda: pids.alive == [])
    assert wait_until(lambda: list(folders.iterdir()) == [])


@pytest.mark.parametrize("delay", [0.002 * i for i in range(10)])
def test_the_supervisor_dies_at_any_moment(evaluate, sleeps, pids, delay):
    supervisor = fork_off(lambda: evaluate(sleeps(), grace=0.3))
    time.sleep(delay)
    os.kill(supervisor, signal.SIGKILL)
    assert exit_code(supervisor) == -signal.SIGKILL
    time.sleep(0.2)  # whatever was just being started has started now
    assert wait_until(lambda: pids.alive == [])


def test_the_death_of_the_guard_is_the_end_of_its_evaluation(evaluate, sleeps, pids):
    def allow(usage):
        if len(pids.all) == 3:
            for guard in children_of(os.getpid()) - before:
                os.kill(guard, signal.SIGKILL)
        return True

    before = children_of(os.getpid())
    task = sleeps(ignoring=[signal.SIGTERM], descendants=2)
    finished = evaluate(task, allow=allow, tick=0.05)
    assert finished.state == "infrastructure"
    assert "guard" in finished.error
    assert wait_until(lambda: pids.alive == [])
    assert children_of(os.getpid()) == before


def test_a_guard_ignores_what_the_terminal_sends(evaluate, sleeps, pids):
    def allow(usage):
        for guard in children_of(os.getpid()) - before if pids.all else ():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(guard, number)
        return True

    before = children_of(os.getpid())
    finished = evaluate(sleeps(seconds=0.5), allow=allow, tick=0.05)
    assert finished.state == "done"


def test_a_guard_holds_no_descriptors_of_ours(evaluate, sleeps, pids):
    held = []

    def allow(usage):
        for guard in children_of(os.getpid()) - before if pids.all else ():
            links = [
                os.readlink(f"/proc/{guard}/fd/{fd}") for fd in os.listdir(f"/proc/{guard}/fd")
            ]
            held.append([link for link in links if link != os.devnull])
        return not held

    before = children_of(os.getpid())
    with open(os.devnull), open(__file__):
        evaluate(sleeps(), allow=allow, tick=0.1)
    assert len(held[0]) == 3  # the link, and the two ends of its alarm
    assert __file__ not in held[0]


def test_children_that_somebody_else_waits_for(evaluate):
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel waits for them
    try:
        assert evaluate(CallableTask(lambda params: 1.0)).value == 1.0
        assert evaluate(CommandTask(["sh", "-c", 'echo "{\\"value\\": 2}"'])).value == 2
    finally:
        signal.signal(signal.SIGCHLD, old)


def test_standard_descriptors_may_be_closed():
    code = (
        "import os; from farthing.running import CallableTask, CommandTask, supervise\n"
        "for fd in (0, 1, 2): os.close(fd)\n"
        "go = dict(number=0, seed=0, allow=lambda u: True)\n"
        "one = supervise(CallableTask(lambda p: 1.0), {}, **go)\n"
        "two = supervise(CommandTask(['sh', '-c', 'echo \"{\\\\\"value\\\\\": 2}\"']), {}, **go)\n"
        "os._exit(0 if (one.value, two.value) == (1.0, 2.0) else 1)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_guard_gives_up_in_the_end(evaluate, sleeps, pids, monkeypatch):
    # A process that even SIGKILL does not end cannot be made here: one that is not sent it.
    monkeypatch.setattr(guards, "GIVE_UP", 0.2)
    monkeypatch.setattr(guards, "_signal", lambda leader, number: None)
    finished = evaluate(sleeps(), timeout=0.2, grace=0.1)
    assert finished.state == "killed"
    assert wait_until(lambda: pids.alive == [])  # it dies with the guard
