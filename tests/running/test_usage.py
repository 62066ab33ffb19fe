"""What evaluations use, while they run and in the end."""

import os
import resource
import subprocess
import sys
import time

import pytest

from farthing.running import CallableTask, CommandTask
from farthing.running.usage import measure

BURN = "import time; e = time.process_time() + {s}\nwhile time.process_time() < e: pass\n"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_measuring_a_family():
    code = (
        "import os, sys, time\n" + BURN.format(s=0.2) + "if os.fork() == 0:\n"
        "  block = bytearray(80_000_000); print('ready', flush=True); time.sleep(60)\nos.wait()"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            process.stdout.readline()
            measured = measure(process.pid)
        finally:
            os.killpg(process.pid, 9)
    assert measured.cpu_s >= 0.2
    assert 80 < measured.peak_mb < 400


def test_nobody_uses_nothing():
    assert measure(2**22 + 1) == (0.0, 0.0)


def test_a_process_with_a_strange_name(tmp_path):
    program = tmp_path / ") R 1 (x y"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        try:
            assert measure(os.getpid()).cpu_s > 0
        finally:
            process.kill()


def test_cpu_seconds_of_descendants_count_while_it_runs_and_in_the_end(evaluate):
    def objective(params):
        for _ in range(2):
            if os.fork() == 0:
                burn(0.3)
                os._exit(0)
        os.wait()
        os.wait()
        burn(0.3)
        time.sleep(1.0)  # to be seen
        return 1.0

    seen = []
    finished = evaluate(
        CallableTask(objective), tick=0.05, allow=lambda usage: seen.append(usage) or True
    )
    assert finished.usage.cpu_s >= 0.9
    assert 0.85 < seen[-1].cpu_s <= finished.usage.cpu_s + 0.05  # the kernel counts in ticks
    assert [u.cpu_s for u in seen] == sorted(u.cpu_s for u in seen)
    assert finished.usage.wall_s >= seen[-1].wall_s


def test_cpu_seconds_of_orphans_and_of_the_killed_count(evaluate, pids):
    def objective(params):
        if os.fork() == 0:  # whose parent does not wait for it
            burn(0.3)
            pids.note()
            time.sleep(60)
            os._exit(0)
        while not pids.all:
            time.sleep(0.01)
        return 1.0

    assert evaluate(CallableTask(objective)).usage.cpu_s >= 0.3


def test_peak_memory_of_a_callable(evaluate):
    small = evaluate(CallableTask(lambda params: 1.0)).usage.peak_mb
    large = evaluate(CallableTask(lambda params: float(len(bytearray(100_000_000)))))
    assert large.usage.peak_mb - small > 80


def test_peak_memory_of_a_command_is_its_own(evaluate):
    ours = bytearray(200_000_000)
    for i in range(0, len(ours), 4096):
        ours[i] = 1
    finished = evaluate(CommandTask(["sh", "-c", "sleep 1; echo '{\"value\": 1}'"]), tick=0.1)
    assert 0 < finished.usage.peak_mb < 100
    # More than this process ever had: below that, a short command cannot be told from its parent.
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 + 100
    code = f"x = bytearray({megabytes}_000_000); print('{{\"value\": 1}}')"
    finished = evaluate(CommandTask([sys.executable, "-S", "-c", code]))
    assert finished.usage.peak_mb > 0.9 * megabytes
    del ours


def test_time_that_somebody_else_takes_is_not_charged(evaluate):
    def allow(usage):
        time.sleep(2.0)
        return True

    begun = time.monotonic()
    finished = evaluate(CallableTask(lambda params: time.sleep(0.2) or 1.0), allow=allow, tick=0.1)
    assert finished.usage.wall_s < time.monotonic() - begun - 1.0
