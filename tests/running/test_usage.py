"""The usage of evaluations, while they run and after their end."""

import os
import resource
import subprocess
import sys
import time

import pytest
from processes import FOREVER, Remains, is_reaped, wait_until

from farthing.running import CallableTask, CommandTask
from farthing.running.child import FRESH
from farthing.running.measuring import measure

BURN = "import time; e = time.process_time() + {s}\nwhile time.process_time() < e: pass\n"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.slow
def test_measuring_a_process_and_its_descendants():
    code = (
        "import os, sys, time\n" + BURN.format(s=0.25) + "if os.fork() == 0:\n"
        "  block = bytearray(80_000_000); print(os.getpid(), flush=True)\n"
        f"  time.sleep({FOREVER})\nos.wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            large = int(process.stdout.readline())
            measured = measure(process.pid)
        finally:
            os.killpg(process.pid, 9)
    assert measured.cpu_s >= 0.2  # the kernel counts in ticks
    assert measured.peak_mb.keys() == {large}
    assert 80 < measured.peak_mb[large] < 400


@pytest.mark.slow
def test_measuring_leaves_no_file_open():
    before = Remains()
    for _ in range(3):
        measure(os.getpid())
    assert before.nothing_new(), before.new


def test_a_process_that_does_not_exist_uses_nothing():
    assert measure(2**22 + 1) == (0.0, {})


def test_a_process_name_may_contain_any_character(tmp_path):
    program = tmp_path / ") R 1 (x y"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, str(FOREVER)]) as process:
        try:
            assert measure(os.getpid()).cpu_s > 0
        finally:
            process.kill()


@pytest.mark.slow
def test_cpu_seconds_of_descendants_count_during_and_after_the_run(evaluate, tmp_path):
    def objective(params):
        for _ in range(2):
            if os.fork() == 0:
                burn(0.3)
                os._exit(0)
        os.wait()
        os.wait()
        burn(0.3)
        return float(wait_until((tmp_path / "seen").exists))

    seen = []

    def may_go_on(usage):
        seen.append(usage)
        if usage.cpu_s > 0.85:  # the kernel counts in ticks
            (tmp_path / "seen").touch()

    finished = evaluate(CallableTask(objective), tick=0.05, may_go_on=may_go_on)
    assert finished.value == 1.0
    assert finished.usage.cpu_s >= 0.9
    for amounts in zip(*(usage[:2] for usage in [*seen, finished.usage]), strict=True):
        assert list(amounts) == sorted(amounts)


def test_usage_never_decreases(evaluate, pids, tmp_path):
    """Progress may be read between the end of the evaluation and the message about it."""
    go = tmp_path / "go"
    code = (
        "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid()))\n"
        'os.write(1, b\'{"step": 1, "value": 5}\\n{"step": 2}\\n\')  # read at once\n'
        "while not os.path.exists(sys.argv[2]): time.sleep(0.01)"
    )
    usages = []

    def on_report(message, usage):
        usages.append(usage)
        go.touch()
        assert wait_until(lambda: is_reaped(pids.all[0]))

    task = CommandTask([sys.executable, "-S", "-c", code, str(pids.path), str(go)])
    finished = evaluate(task, tick=FOREVER, on_report=on_report)
    assert finished.value == 5
    assert usages[0].wall_s < usages[1].wall_s <= finished.usage.wall_s
    assert usages[0].cpu_s <= usages[1].cpu_s <= finished.usage.cpu_s


@pytest.mark.slow
def test_cpu_seconds_of_orphans_and_killed_processes_count(evaluate, pids):
    def objective(params):
        if os.fork() == 0:  # its parent does not wait for it
            burn(0.3)
            pids.note()
            time.sleep(FOREVER)
            os._exit(0)
        return float(wait_until(lambda: pids.all))

    assert evaluate(CallableTask(objective)).usage.cpu_s >= 0.3


def test_peak_memory_of_a_callable(evaluate):
    small = evaluate(CallableTask(lambda params: 1.0)).usage.peak_mb
    large = evaluate(CallableTask(lambda params: float(len(bytearray(100_000_000)))))
    assert large.usage.peak_mb - small > 80


@pytest.mark.slow
def test_peak_memory_of_a_command_is_its_own(evaluate, tmp_path):
    ours = bytearray(200_000_000)
    for i in range(0, len(ours), 4096):
        ours[i] = 1
    started, seen = tmp_path / "started", tmp_path / "seen"
    code = 'touch "$1"; while [ ! -e "$2" ]; do sleep 0.05; done; echo "{\\"value\\": 1}"'
    has_started = []

    def may_go_on(usage):  # it is measured once more after its start
        if any(has_started):
            seen.touch()
        has_started.append(started.exists())

    task = CommandTask(["sh", "-c", code, "sh", str(started), str(seen)])
    finished = evaluate(task, tick=2 * FRESH, may_go_on=may_go_on)
    assert finished.value == 1
    assert 0 < finished.usage.peak_mb < 100
    # More than this process ever had. The peak of a short command with less memory is not known.
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 + 100
    code = f"x = bytearray({megabytes}_000_000); print('{{\"value\": 1}}')"
    finished = evaluate(CommandTask([sys.executable, "-S", "-c", code]))
    assert finished.usage.peak_mb > 0.9 * megabytes
    del ours


def test_time_after_the_end_of_the_trial_is_not_charged(evaluate, pids, tmp_path):
    called, ended_at = tmp_path / "called", []

    def objective(params):
        pids.note()
        return float(wait_until(called.exists))

    def may_go_on(usage):  # the trial ends during this call
        called.touch()
        assert wait_until(lambda: pids.all and is_reaped(pids.all[0]))
        ended_at.append(time.monotonic())
        time.sleep(0.2)

    started_at = time.monotonic()
    finished = evaluate(CallableTask(objective), may_go_on=may_go_on, tick=0.05)
    assert finished.value == 1.0
    assert finished.usage.wall_s <= ended_at[0] - started_at
