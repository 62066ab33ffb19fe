"""The supervisor process: no process of a trial survives, whichever process dies."""

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
from processes import (
    FOREVER,
    PATIENCE,
    Lifeline,
    children_of,
    exit_code,
    fork_off,
    kills_supervisor,
    wait_until,
)

from farthing.running import CallableTask, CommandTask
from farthing.running import child as children
from farthing.running import supervisor as supervisors


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_trial_ends_with_its_worker(
    evaluate, sleeps, pids, number, workers, tmp_path, monkeypatch
):
    folders = tmp_path / "tmp"
    folders.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folders))
    task = sleeps(ignoring=[signal.SIGTERM], descendants=2)

    def work():
        threads = [
            threading.Thread(target=evaluate, args=(task,), kwargs={"grace": 0.3})
            for _ in range(workers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    worker = fork_off(work)
    try:
        assert wait_until(lambda: len(pids.all) == 3 * workers)
        assert len(children_of(worker)) == len(list(folders.iterdir())) == workers
    finally:
        os.kill(worker, number)
        assert exit_code(worker) == -number
    assert wait_until(lambda: pids.alive == [])
    assert wait_until(lambda: list(folders.iterdir()) == [])


def test_the_supervisor_notices_the_end_of_the_worker_without_polling(
    evaluate, sleeps, pids, monkeypatch
):
    """The kernel closes the worker's end of the link."""
    monkeypatch.setattr(supervisors, "CHECK_PARENT", 10 * PATIENCE)
    worker = fork_off(lambda: evaluate(sleeps(descendants=2), timeout=None, grace=PATIENCE))
    assert wait_until(lambda: len(pids.all) == 3)
    os.kill(worker, signal.SIGKILL)
    assert exit_code(worker) == -signal.SIGKILL
    assert wait_until(lambda: pids.alive == [])


def test_the_supervisor_enforces_the_deadline_of_the_budget(evaluate, sleeps, pids):
    """Even if the worker does not call `may_go_on` in time, for example because it is stopped."""
    started_at = time.monotonic()
    finished = evaluate(sleeps(), until=lambda: started_at + 0.3, tick=PATIENCE, timeout=None)
    assert finished.state == "killed"
    assert "the wall-clock budget is spent" in finished.error
    assert time.monotonic() >= started_at + 0.3
    assert wait_until(lambda: pids.alive == [])


def test_the_supervisor_receives_a_new_deadline(evaluate, pids):
    deadlines = [time.monotonic() + PATIENCE]

    def may_go_on(usage):
        if pids.all:
            deadlines.append(0.0)

    def objective(params):
        pids.note()
        time.sleep(FOREVER)

    finished = evaluate(
        CallableTask(objective), until=lambda: deadlines[-1], may_go_on=may_go_on, tick=0.05
    )
    assert (finished.state, len(deadlines) > 1) == ("killed", True)
    assert "the wall-clock budget is spent" in finished.error


def test_a_deadline_may_be_extended(monkeypatch):
    link, far = socket.socketpair()
    reading, writing = os.pipe()
    monkeypatch.setattr(supervisors, "_wake_when_a_child_ends", lambda: reading)
    config = supervisors.SupervisorConfig(
        os.getppid(), 1, 2, timeout=None, deadline=5.0, grace=1.0, folder=""
    )
    watch = supervisors._Watch(os.getpid(), far, 0.0, config, adopts=False)
    assert [watch._reason_to_end(now) for now in (4.0, 5.0)] == [None, "deadline"]
    for piece in (b"deadline 1", b"0.5\ndeadline", b" 20.5\n"):  # a socket may split lines
        link.send(piece)
        watch._receive()
    assert [watch._reason_to_end(now) for now in (20.0, 20.5)] == [None, "deadline"]
    link.send(b"deadline 99\nend 0.25\n")
    watch._receive()
    assert (watch.deadline, watch.requested_grace) == (99.0, 0.25)
    assert watch._reason_to_end(0.0) == "requested"
    for end in (link, far):
        end.close()
    for descriptor in (reading, writing):
        os.close(descriptor)


def test_signals_of_an_evaluation_do_not_wake_its_worker(evaluate):
    """An asyncio program has such a descriptor, and forks inherit it."""

    def signalled(params):
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.raise_signal(signal.SIGUSR1)
        return 1.0

    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(writing)
    try:
        assert evaluate(CallableTask(signalled)).value == 1.0
    finally:
        signal.set_wakeup_fd(before)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("leaves", [False, True], ids=["group", "session"])
def test_the_worker_does_not_wait_for_a_stopped_supervisor(
    evaluate, sleeps, pids, monkeypatch, leaves
):
    monkeypatch.setattr(children, "PATIENCE", 0.5)
    before = children_of(os.getpid())

    def stop_the_supervisor(usage):
        if len(pids.all) < 3:
            return None
        for supervisor in children_of(os.getpid()) - before:
            os.kill(supervisor, signal.SIGSTOP)
        return "enough"

    task = sleeps(
        ignoring=[signal.SIGTERM],
        descendants=2,
        **({"first": os.setsid} if leaves else {}),
    )
    finished = evaluate(task, may_go_on=stop_the_supervisor, tick=0.05, grace=0.1, timeout=None)
    assert finished.state == "killed"
    assert finished.error.startswith("enough")
    assert wait_until(lambda: pids.alive == [])
    assert wait_until(lambda: children_of(os.getpid()) <= before)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.002 * i for i in range(10)])
def test_the_worker_may_die_at_any_moment(evaluate, sleeps, pids, delay):
    lifeline = Lifeline()
    worker = fork_off(lambda: evaluate(sleeps(), grace=0.3))
    time.sleep(delay)
    os.kill(worker, signal.SIGKILL)
    assert exit_code(worker) == -signal.SIGKILL
    assert lifeline.is_cut()
    assert wait_until(lambda: pids.alive == [])


def test_a_trial_ends_with_its_supervisor(evaluate, sleeps, pids):
    before = children_of(os.getpid())
    may_go_on = kills_supervisor(lambda: len(pids.all) == 3)
    task = sleeps(ignoring=[signal.SIGTERM], descendants=2)
    finished = evaluate(task, may_go_on=may_go_on, tick=0.05)
    assert finished.state == "lost"
    assert "supervisor process was killed" in finished.error
    assert wait_until(lambda: pids.alive == [])
    assert wait_until(lambda: children_of(os.getpid()) <= before)


def test_the_supervisor_ignores_the_signals_of_a_terminal(evaluate, pids, tmp_path):
    sent = tmp_path / "sent"

    def objective(params):
        pids.note()
        return float(wait_until(sent.exists))

    def may_go_on(usage):
        for supervisor in children_of(os.getpid()) - before if pids.all else ():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(supervisor, number)
            sent.touch()

    before = children_of(os.getpid())
    finished = evaluate(CallableTask(objective), may_go_on=may_go_on, tick=0.05)
    assert (finished.state, finished.value) == ("done", 1.0)


def test_the_supervisor_closes_inherited_descriptors(evaluate, sleeps, pids):
    def files_of(supervisor):
        files = []
        for descriptor in os.listdir(f"/proc/{supervisor}/fd"):
            with suppress(FileNotFoundError):  # it has just been closed
                files.append(os.readlink(f"/proc/{supervisor}/fd/{descriptor}"))
        return [link for link in files if link != os.devnull]

    def may_go_on(usage):
        if not pids.all:
            return None
        (supervisor,) = children_of(os.getpid()) - before
        # The link, its mark and the two ends of its wake-up pipe; it may still be closing others.
        seen.append(wait_until(lambda: len(files_of(supervisor)) == 4))
        seen.append(__file__ in files_of(supervisor))
        return "seen"

    seen, before = [], children_of(os.getpid())
    with open(os.devnull), open(__file__):
        evaluate(sleeps(), may_go_on=may_go_on, tick=0.1)
    assert seen == [True, False]


def test_children_that_the_kernel_reaps(evaluate):
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    try:
        assert evaluate(CallableTask(lambda params: 1.0)).value == 1.0
        assert evaluate(CommandTask(["sh", "-c", 'echo "{\\"value\\": 2}"'])).value == 2
    finally:
        signal.signal(signal.SIGCHLD, old)


@pytest.mark.slow
def test_standard_descriptors_may_be_closed():
    code = (
        "import os\n"
        "from farthing.running import Allowance, CallableTask, CommandTask, Job, ProcessGroup\n"
        "for fd in (0, 1, 2): os.close(fd)\n"
        "args = Job({}, 0, 0), Allowance(0.5, lambda usage: None)\n"
        "one = ProcessGroup(CallableTask(lambda params: 1.0)).run(*args)\n"
        "echo = CommandTask(['sh', '-c', 'echo \"{\\\\\"value\\\\\": 2}\"'])\n"
        "two = ProcessGroup(echo).run(*args)\n"
        "os._exit(0 if (one.value, two.value) == (1.0, 2.0) else 1)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_supervisor_stops_waiting_for_a_process_that_cannot_be_killed(
    evaluate, sleeps, pids, monkeypatch
):
    # A test cannot create such a process, so this supervisor sends no signals.
    monkeypatch.setattr(supervisors, "KILL_TIMEOUT", 0.2)
    monkeypatch.setattr(supervisors, "_signal", lambda leader, number: None)
    has_started = lambda usage: "it has started" if pids.all else None  # noqa: E731
    finished = evaluate(sleeps(), may_go_on=has_started, tick=0.05, grace=0.1)
    assert finished.state == "killed"
    assert wait_until(lambda: pids.alive == [])  # the kernel kills it with the supervisor
