"""Run an evaluation and end all its processes."""

import os
import resource
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from itertools import pairwise

import pytest
from processes import (
    FOREVER,
    PATIENCE,
    Lifeline,
    Remains,
    exit_code,
    fork_off,
    wait_until,
)

from farthing.errors import InvalidInput
from farthing.running import (
    Allowance,
    CallableTask,
    CommandTask,
    Interrupted,
    Job,
    ProcessGroup,
    report_progress,
)
from farthing.running import process_group as process_groups
from farthing.running import supervisor as supervisors

ENOUGH = "that is enough"


def until(happened):
    """A `may_go_on` that ends the trial as soon as `happened()` is true."""
    return lambda usage: ENOUGH if happened() else None


# ── limits ───────────────────────────────────────────────────────────────────────────────────


def test_a_timeout_kills(evaluate, sleeps, pids):
    finished = evaluate(sleeps(descendants=2), timeout=0.5)
    assert finished.state == "killed"
    assert "timeout of 0.5 s" in finished.error
    assert finished.usage.wall_s >= 0.5
    assert pids.alive == []


def test_a_trial_is_killed_if_it_may_not_go_on(evaluate, sleeps, pids):
    usages = []

    def may_go_on(usage):
        usages.append(usage)
        return ENOUGH if len(pids.all) == 3 else None

    finished = evaluate(sleeps(descendants=2), may_go_on=may_go_on, tick=0.05)
    assert (finished.state, finished.error) == ("killed", ENOUGH)
    assert pids.alive == []
    times = [usage.wall_s for usage in usages]
    assert all(later - earlier >= 0.05 for earlier, later in pairwise(times))
    assert finished.usage.wall_s >= times[-1]


def test_a_trial_may_save_its_work_at_sigterm(evaluate, tmp_path):
    ready, saved = tmp_path / "ready", tmp_path / "saved"

    def objective(params):
        def save(*_):
            saved.touch()
            os._exit(0)

        signal.signal(signal.SIGTERM, save)
        ready.touch()
        time.sleep(FOREVER)

    task = CallableTask(objective)
    finished = evaluate(task, may_go_on=until(ready.exists), tick=0.05, grace=FOREVER)
    assert finished.state == "killed"
    assert saved.exists()


# A shell that has just forked loses a signal that it traps. A child that creates the file itself
# has started.
TOUCH_AND_SLEEP = f'sh -c \'touch "$1"; exec sleep {FOREVER}\' sh "$1"'


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_period(evaluate, sleeps, pids):
    task = sleeps(ignoring=[signal.SIGTERM], descendants=2)
    all_started = until(lambda: len(pids.all) == 3)
    finished = evaluate(task, may_go_on=all_started, tick=0.05, grace=0.3)
    assert finished.state == "killed"
    assert pids.alive == []


def test_descendants_have_the_grace_period_even_if_the_leader_has_ended(evaluate, tmp_path):
    ready, saved = tmp_path / "ready", tmp_path / "saved"
    longer = 2 * supervisors.LINGER
    code = (
        f'(trap "sleep {longer}; touch $2; exit" TERM; {TOUCH_AND_SLEEP} & wait) & '
        f"exec sleep {FOREVER}"
    )
    task = CommandTask(["sh", "-c", code, "sh", str(ready), str(saved)])
    finished = evaluate(task, may_go_on=until(ready.exists), tick=0.05, grace=FOREVER)
    assert finished.state == "killed"
    assert saved.exists()


def test_a_result_after_sigterm_is_ignored(evaluate, tmp_path):
    ready = tmp_path / "ready"
    code = (
        f'trap \'echo "{{\\"value\\": 1, \\"cost\\": 5}}"; exit 0\' TERM; {TOUCH_AND_SLEEP} & wait'
    )
    task = CommandTask(["sh", "-c", code, "sh", str(ready)])
    finished = evaluate(task, may_go_on=until(ready.exists), tick=0.05, grace=FOREVER)
    assert (finished.state, finished.value) == ("killed", None)
    assert finished.cost == {"": 5.0}


def test_a_process_that_has_stopped_itself_receives_sigterm(evaluate, sleeps, tmp_path, pids):
    ready = tmp_path / "ready"

    def stop():
        ready.touch()
        os.kill(os.getpid(), signal.SIGSTOP)

    task = sleeps(before=stop)
    finished = evaluate(task, may_go_on=until(ready.exists), tick=0.05, grace=FOREVER)
    assert finished.state == "killed"


def test_output_is_read_while_it_is_being_killed(evaluate, tmp_path):
    ready = tmp_path / "ready"
    code = (
        "import signal, sys, time\n"
        "def at_exit(*_):\n  sys.stdout.write('x' * 2_000_000); print('done', file=sys.stderr);"
        " sys.exit()\n"
        "signal.signal(signal.SIGTERM, at_exit); open(sys.argv[1], 'w');"
        f" time.sleep({FOREVER})"
    )
    task = CommandTask([sys.executable, "-c", code, str(ready)])
    finished = evaluate(task, may_go_on=until(ready.exists), tick=0.05, grace=FOREVER)
    assert finished.error.splitlines()[0] == ENOUGH
    assert "done" in finished.error.splitlines()


# ── ends ─────────────────────────────────────────────────────────────────────────────────────


def test_run_returns_at_the_end_and_not_a_tick_later(evaluate):
    assert evaluate(CallableTask(lambda params: 1.0), tick=FOREVER).value == 1.0


def test_a_descendant_that_outlives_the_leader_is_killed(evaluate, pids):
    code = (
        "import os, signal, sys, time\n"
        "if os.fork() == 0:\n"
        "  signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"  open(sys.argv[1], 'a').write(f'{{os.getpid()}}\\n'); time.sleep({FOREVER})\n"
        "while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read(): time.sleep(0.01)\n"
        "print('{\"value\": 1}')"
    )
    finished = evaluate(CommandTask([sys.executable, "-c", code, str(pids.path)]), grace=FOREVER)
    assert finished.value == 1
    assert len(pids.all) == 1
    assert pids.alive == []


def test_a_descendant_may_write_the_result_just_after_the_leader_has_ended(evaluate, monkeypatch):
    monkeypatch.setattr(supervisors, "LINGER", PATIENCE)
    task = CommandTask(["sh", "-c", '(sleep 0.1; echo "{\\"value\\": 1}") & exit 0'])
    assert evaluate(task).value == 1


def leaves(pids, how):
    """An objective with a child that leaves the process group and sleeps."""

    def started():
        how()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pids.note()
        time.sleep(FOREVER)

    def objective(params):
        fork_off(started)
        wait_until(lambda: len(pids.all) == 1)
        time.sleep(params["seconds"])
        return 1.0

    return CallableTask(objective)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
@pytest.mark.parametrize("how", [os.setsid, os.setpgrp, lambda: os.fork() and os._exit(0)])
def test_a_process_that_leaves_the_group_does_not_outlive_the_trial(evaluate, pids, how):
    def leave():
        how()
        os.setpgrp() if os.getpgrp() != os.getpid() else None

    finished = evaluate(leaves(pids, leave), {"seconds": 0.0})
    assert finished.value == 1.0
    assert len(pids.all) == 1
    assert pids.alive == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
def test_a_process_that_leaves_the_group_does_not_outlive_the_kill(evaluate, pids):
    def all_started(usage):
        return ENOUGH if pids.all else None

    task = leaves(pids, os.setsid)
    finished = evaluate(task, {"seconds": FOREVER}, may_go_on=all_started, tick=0.05, grace=0.2)
    assert finished.state == "killed"
    assert pids.alive == []


@pytest.mark.skipif(shutil.which("timeout") is None, reason="no timeout(1) here")
def test_timeout_and_what_it_runs_do_not_outlive_the_trial(evaluate, pids):
    code = (
        f"import os, time; open({str(pids.path)!r}, 'a').write(f'{{os.getpid()}}\\n');"
        f" time.sleep({FOREVER})"
    )
    shell = f'timeout 1000 {sys.executable} -c "$0" & wait'
    task = CommandTask(["sh", "-c", shell, code])
    finished = evaluate(task, may_go_on=lambda _: ENOUGH if pids.all else None, tick=0.05, grace=1)
    assert finished.state == "killed"
    assert pids.alive == []


def test_a_trial_that_closes_its_output_early_is_still_watched(evaluate):
    code = "import os, sys, time; os.close(1); os.close(2); time.sleep(0.3); sys.exit(4)"
    finished = evaluate(CommandTask([sys.executable, "-S", "-c", code]))
    assert "exit code 4" in finished.error
    assert finished.usage.wall_s >= 0.3


@pytest.mark.slow
def test_fifty_in_a_row_leave_nothing_behind(evaluate):
    evaluate(CallableTask(lambda params: 1.0))
    before = Remains()
    for i in range(50):
        finished = evaluate(CallableTask(lambda params, i=i: float(i)))
        assert finished.value == i
    assert before.nothing_new(), before.new


@pytest.mark.slow
def test_several_threads_at_once(evaluate):
    values = {}

    def work(i):
        values[i] = [
            evaluate(CallableTask(lambda p: float(i + p["j"])), {"j": j}).value for j in range(5)
        ]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    before = Remains()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == {i: [float(i + j) for j in range(5)] for i in range(4)}
    assert before.nothing_new(), before.new


# ── errors and interrupts in the worker process ──────────────────────────────────────────────


@pytest.mark.slow
def test_when_may_go_on_raises_nothing_survives(evaluate, sleeps, pids):
    def may_go_on(usage):
        if len(pids.all) == 3:
            raise LookupError("the database is gone")

    before = Remains()
    task = sleeps(ignoring=[signal.SIGTERM], descendants=2)
    with pytest.raises(LookupError):
        evaluate(task, may_go_on=may_go_on, tick=0.05, grace=0.2)
    assert pids.alive == []
    assert before.nothing_new(), before.new


def test_an_os_error_of_may_go_on_is_not_taken_for_a_failed_start(evaluate, sleeps, pids):
    def may_go_on(usage):
        raise OSError("the network is down")

    with pytest.raises(OSError, match="the network is down"):
        evaluate(sleeps(), may_go_on=may_go_on, tick=0.05, grace=0.2)
    assert pids.alive == []


def test_when_on_report_raises_nothing_survives(evaluate, pids):
    def fail(message, usage):
        raise LookupError

    def objective(params):
        pids.note()
        report_progress(1)
        time.sleep(FOREVER)

    with pytest.raises(LookupError):
        evaluate(CallableTask(objective), on_report=fail, grace=0.2)
    assert pids.alive == []


@pytest.mark.slow
@pytest.mark.parametrize("receiver", ["any thread", "another thread"])
def test_ctrl_c_kills_and_returns_the_usage(evaluate, sleeps, pids, ctrl_c, receiver):
    """A signal does not interrupt a wait if another thread receives it or if it comes before."""

    def burn():
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        pids.note()

    def interrupt():
        wait_until(lambda: len(pids.all) == 4)
        if receiver == "another thread":
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        else:
            os.kill(os.getpid(), signal.SIGINT)

    task = sleeps(ignoring=[signal.SIGTERM], descendants=2, before=burn)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Interrupted) as caught:
        evaluate(task, grace=PATIENCE, tick=FOREVER)  # Ctrl-C waits for neither
    thread.join()
    assert isinstance(caught.value, KeyboardInterrupt)
    finished = caught.value.finished
    assert finished.state == "killed"
    assert finished.usage.cpu_s >= 0.2
    assert process_groups.INTERRUPT_GRACE <= finished.usage.wall_s < PATIENCE
    assert pids.alive == []


def test_ctrl_c_before_the_start(evaluate, monkeypatch):
    class Task:
        metric = "value"
        prints_messages = True

        def prepare(self, job, folder):
            self.folder = folder
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        evaluate(task := Task())
    assert caught.value.finished.state == "killed"
    assert not task.folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 3])
def test_ctrl_c_at_any_moment(evaluate, sleeps, pids, times):
    """Interrupt after increasing times; no process survives."""

    def run():
        with pytest.raises(KeyboardInterrupt):
            evaluate(sleeps(), grace=0.2)

    for i in range(20):
        lifeline = Lifeline()
        process = fork_off(run)
        time.sleep(0.003 * i)
        for _ in range(times):
            os.kill(process, signal.SIGINT)
        exit_code(process, insist=signal.SIGINT)
        assert lifeline.is_cut()
        assert wait_until(lambda: pids.alive == [])


# ── what cannot be started ───────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_no_process_available(evaluate, monkeypatch):
    def fork():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = Remains()
    monkeypatch.setattr(os, "fork", fork)
    finished = evaluate(CallableTask(lambda params: 1.0))
    assert finished.state == "lost"
    assert "unavailable" in finished.error
    assert before.nothing_new(), before.new


def test_no_process_available_for_the_supervisor(evaluate, monkeypatch):
    real, parent = os.fork, os.getpid()

    def fork():
        if os.getpid() == parent:
            return real()
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    finished = evaluate(CallableTask(lambda params: 1.0))
    assert finished.state == "lost"
    assert "unavailable" in finished.error


def test_no_memory_for_the_program(evaluate, monkeypatch):
    """The trial may start later."""

    def execve(*arguments):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "execve", execve)
    finished = evaluate(CommandTask(["true"]))
    assert finished.state == "lost"
    assert "it could not be started" in finished.error
    assert "Cannot allocate memory" in finished.error


def test_a_command_cannot_claim_that_no_trial_can_start(evaluate):
    """Only an evaluation that did not start can do so."""
    line = '{"infrastructure": "no disk", "farthing.invalid": true}'
    finished = evaluate(CommandTask(["echo", line]))
    assert finished.state == "lost"
    assert "no disk" in finished.error


def test_no_space_for_a_folder(evaluate, monkeypatch):
    def mkdtemp(prefix):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(process_groups.tempfile, "mkdtemp", mkdtemp)
    finished = evaluate(CallableTask(lambda params: 1.0))
    assert finished.state == "lost"
    assert "No space left" in finished.error


@pytest.mark.slow
def test_no_file_descriptor_available(evaluate):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = Remains()
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 10, hard))
    taken = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(4):  # not enough for the second pipe
            os.close(taken.pop())
        finished = evaluate(CallableTask(lambda params: 1.0))
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert finished.state == "lost"
    assert before.nothing_new(), before.new


@pytest.mark.parametrize(
    "wrong",
    [{"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"grace": -1}, {"tick": 0}],
)
def test_invalid_settings(evaluate, wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        evaluate(CallableTask(lambda params: 1.0), **wrong)


def test_an_engine_without_a_study():
    engine = ProcessGroup(CallableTask(lambda params: params["x"] + 1.0))
    assert engine.kills
    finished = engine.run(Job({"x": 1}, number=0, seed=0), Allowance(0.5, lambda usage: None))
    assert (finished.state, finished.value, finished.error) == ("done", 2.0, None)
