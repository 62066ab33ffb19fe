"""The guard: whoever dies, nothing survives."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

import pytest
from processes import FOREVER, PATIENCE, Lifeline, children_of, exit_code, fork_off, wait_until

from farthing.running import CallableTask, CommandTask
from farthing.running import child as children
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


def test_the_death_of_the_supervisor_is_told_and_not_looked_for(
    evaluate, sleeps, pids, monkeypatch
):
    """By the kernel, which closes its end: a guard that hardly ever looks ends it as soon."""
    monkeypatch.setattr(guards, "LOOK", 10 * PATIENCE)
    supervisor = fork_off(lambda: evaluate(sleeps(descendants=2), timeout=None, grace=PATIENCE))
    assert wait_until(lambda: len(pids.all) == 3)
    os.kill(supervisor, signal.SIGKILL)
    assert exit_code(supervisor) == -signal.SIGKILL
    assert wait_until(lambda: pids.alive == [])


def test_a_guard_has_the_deadline_of_the_budget(evaluate, sleeps, pids):
    """Also where the supervisor does not ask in time, because it is stopped."""
    begun = time.monotonic()
    finished = evaluate(sleeps(), until=lambda: begun + 0.3, tick=PATIENCE, timeout=None)
    assert finished.state == "killed"
    assert "the budget of wall time is spent" in finished.error
    assert time.monotonic() >= begun + 0.3
    assert wait_until(lambda: pids.alive == [])


def test_a_guard_is_told_of_another_deadline(evaluate, pids):
    allowed = [time.monotonic() + PATIENCE]

    def may_go_on(usage):
        if pids.all:
            allowed.append(0.0)

    def objective(params):
        pids.note()
        time.sleep(FOREVER)

    finished = evaluate(
        CallableTask(objective), until=lambda: allowed[-1], may_go_on=may_go_on, tick=0.05
    )
    assert (finished.state, len(allowed) > 1) == ("killed", True)
    assert "the budget of wall time is spent" in finished.error


def test_a_deadline_may_move_on(monkeypatch):
    link, far = socket.socketpair()
    reading, writing = os.pipe()
    monkeypatch.setattr(guards, "_wake_when_a_child_ends", lambda: reading)
    orders = guards.Orders(os.getppid(), 1, 2, timeout=None, until=5.0, grace=1.0, folder="")
    watch = guards._Watch(os.getpid(), far, 0.0, orders, adopts=False)
    assert [watch._reason(now) for now in (4.0, 5.0)] == [None, "spent"]
    for piece in (b"until 1", b"0.5\nuntil", b" 20.5\n"):  # as it may come out of a socket
        link.send(piece)
        watch._hear()
    assert [watch._reason(now) for now in (20.0, 20.5)] == [None, "spent"]
    link.send(b"until 99\nend 0.25\n")
    watch._hear()
    assert (watch.until, watch.asked, watch._reason(0.0)) == (99.0, 0.25, "asked")
    for end in (link, far):
        end.close()
    for descriptor in (reading, writing):
        os.close(descriptor)


@pytest.mark.parametrize("leaves", [False, True], ids=["group", "session"])
def test_a_guard_that_is_stopped_is_not_waited_for(evaluate, sleeps, pids, monkeypatch, leaves):
    monkeypatch.setattr(children, "PATIENCE", 0.5)
    before = children_of(os.getpid())

    def stop_the_guard(usage):
        if len(pids.all) < 3:
            return None
        for guard in children_of(os.getpid()) - before:
            os.kill(guard, signal.SIGSTOP)
        return "enough"

    task = sleeps(
        ignoring=[signal.SIGTERM],
        descendants=2,
        **({"first": os.setsid} if leaves else {}),
    )
    finished = evaluate(task, may_go_on=stop_the_guard, tick=0.05, grace=0.1, timeout=None)
    assert finished.state == "killed"
    assert finished.error.startswith("enough")
    assert wait_until(lambda: pids.alive == [])
    assert wait_until(lambda: children_of(os.getpid()) <= before)


@pytest.mark.parametrize("delay", [0.002 * i for i in range(10)])
def test_the_supervisor_dies_at_any_moment(evaluate, sleeps, pids, delay):
    lifeline = Lifeline()
    supervisor = fork_off(lambda: evaluate(sleeps(), grace=0.3))
    time.sleep(delay)
    os.kill(supervisor, signal.SIGKILL)
    assert exit_code(supervisor) == -signal.SIGKILL
    assert lifeline.is_cut()
    assert wait_until(lambda: pids.alive == [])


def test_the_death_of_the_guard_is_the_end_of_its_evaluation(evaluate, sleeps, pids):
    def may_go_on(usage):
        if len(pids.all) == 3:
            for guard in children_of(os.getpid()) - before:
                os.kill(guard, signal.SIGKILL)

    before = children_of(os.getpid())
    task = sleeps(ignoring=[signal.SIGTERM], descendants=2)
    finished = evaluate(task, may_go_on=may_go_on, tick=0.05)
    assert finished.state == "lost"
    assert "guard" in finished.error
    assert wait_until(lambda: pids.alive == [])
    assert wait_until(lambda: children_of(os.getpid()) <= before)


def test_a_guard_ignores_what_the_terminal_sends(evaluate, pids, tmp_path):
    sent = tmp_path / "sent"

    def objective(params):
        pids.note()
        return float(wait_until(sent.exists))

    def may_go_on(usage):
        for guard in children_of(os.getpid()) - before if pids.all else ():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(guard, number)
            sent.touch()

    before = children_of(os.getpid())
    finished = evaluate(CallableTask(objective), may_go_on=may_go_on, tick=0.05)
    assert (finished.state, finished.value) == ("done", 1.0)


def test_a_guard_holds_no_descriptors_of_ours(evaluate, sleeps, pids):
    def held_by(guard):
        held = []
        for descriptor in os.listdir(f"/proc/{guard}/fd"):
            with suppress(FileNotFoundError):  # it has just been closed
                held.append(os.readlink(f"/proc/{guard}/fd/{descriptor}"))
        return [link for link in held if link != os.devnull]

    def may_go_on(usage):
        if not pids.all:
            return None
        (guard,) = children_of(os.getpid()) - before
        # The link, and the two ends of its alarm; it may still be closing what it inherited.
        seen.append(wait_until(lambda: len(held_by(guard)) == 3))
        seen.append(__file__ in held_by(guard))
        return "seen"

    seen, before = [], children_of(os.getpid())
    with open(os.devnull), open(__file__):
        evaluate(sleeps(), may_go_on=may_go_on, tick=0.1)
    assert seen == [True, False]


def test_children_that_somebody_else_waits_for(evaluate):
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel waits for them
    try:
        assert evaluate(CallableTask(lambda params: 1.0)).value == 1.0
        assert evaluate(CommandTask(["sh", "-c", 'echo "{\\"value\\": 2}"'])).value == 2
    finally:
        signal.signal(signal.SIGCHLD, old)


def test_standard_descriptors_may_be_closed():
    code = (
        "import os\n"
        "from farthing.running import Allowance, CallableTask, CommandTask, Job, ProcessGroup\n"
        "for fd in (0, 1, 2): os.close(fd)\n"
        "told = Job({}, 0, 0), Allowance(0.5, lambda usage: None)\n"
        "one = ProcessGroup(CallableTask(lambda params: 1.0)).run(*told)\n"
        "echo = CommandTask(['sh', '-c', 'echo \"{\\\\\"value\\\\\": 2}\"'])\n"
        "two = ProcessGroup(echo).run(*told)\n"
        "os._exit(0 if (one.value, two.value) == (1.0, 2.0) else 1)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_guard_gives_up_in_the_end(evaluate, sleeps, pids, monkeypatch):
    # A process that even SIGKILL does not end cannot be made here: one that is not sent it.
    monkeypatch.setattr(guards, "GIVE_UP", 0.2)
    monkeypatch.setattr(guards, "_signal", lambda leader, number: None)
    has_begun = lambda usage: "it has begun" if pids.all else None  # noqa: E731
    finished = evaluate(sleeps(), may_go_on=has_begun, tick=0.05, grace=0.1)
    assert finished.state == "killed"
    assert wait_until(lambda: pids.alive == [])  # it dies with the guard
