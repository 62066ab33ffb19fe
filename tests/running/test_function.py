"""Python functions: the state of the process in which they run, and their results."""

import atexit
import errno
import gc
import os
import random
import signal
import sys
import threading

import numpy as np
import pytest
from processes import wait_until

from farthing import Outcome
from farthing.errors import Infrastructure, InvalidInput
from farthing.running import CallableTask, report_progress
from farthing.running.answer import MAX_TEXT


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raises(error):
    def objective(params):
        raise error

    return objective


def seen_by_child(evaluate, look, **settings):
    """What `look` returns in the process of the evaluation."""
    import json

    finished = evaluate(CallableTask(lambda params: Outcome(failed=json.dumps(look()))), **settings)
    assert finished.state == "failed", finished
    return json.loads(finished.error)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_closure_is_evaluated(evaluate, start):
    factor = 3.0
    task = CallableTask(lambda params: Outcome(factor * params["x"], cost={"usd": 1}), start=start)
    finished = evaluate(task, {"x": 2})
    assert (finished.state, finished.value) == ("done", 6.0), finished.error
    assert finished.cost == {"usd": 1.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (2, 2.0),
        (np.float32(0.5), 0.5),
        (np.array(1.5), 1.5),
        (Outcome(np.float64(4), cost=np.float64(2)), 4.0),
    ],
)
def test_numbers_of_all_kinds(evaluate, returned, value):
    finished = evaluate(CallableTask(lambda params: returned))
    assert (finished.state, finished.value) == ("done", value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("returned", "in_the_error"),
    [
        (None, "None"),
        ("0.5", "'0.5'"),
        (True, "True"),
        (np.zeros(3), "array"),
        ((1, 2), "(1, 2)"),
        (object(), "object"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (Outcome(), "None"),
        (Outcome(1, cost="much"), "cost"),
        (Outcome(1, cost=-1), "cost"),
        (Outcome(1, failed="too large"), "too large"),
        ("x" * 10_000, "..."),
    ],
)
def test_an_invalid_value_is_a_failure(evaluate, returned, in_the_error):
    finished = evaluate(CallableTask(lambda params: returned))
    assert (finished.state, finished.value) == ("failed", None)
    assert in_the_error in finished.error
    assert len(finished.error) < 1000


def test_the_traceback_of_an_exception_shows_only_user_code(evaluate):
    def objective(params):
        return 1 / params["zero"]

    error = evaluate(CallableTask(objective), {"zero": 0}).error
    assert "ZeroDivisionError: division by zero" in error
    assert 'return 1 / params["zero"]' in error
    assert "farthing/running" not in error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "state", "text"),
    [
        (SystemExit(3), "failed", "exit(3)"),
        (KeyboardInterrupt(), "failed", "KeyboardInterrupt"),
        (MemoryError(), "failed", "out of memory"),
        (UnprintableError(), "failed", "UnprintableError"),
        (ValueError("x" * 100_000), "failed", "xxx"),
        (Infrastructure("no GPU"), "lost", "no GPU"),
        (OSError(errno.ENOSPC, "No space left"), "lost", "No space left"),
        (FileNotFoundError(errno.ENOENT, "gone"), "failed", "gone"),
    ],
)
def test_exceptions(evaluate, error, state, text):
    finished = evaluate(CallableTask(raises(error)))
    assert finished.state == state
    assert text in finished.error
    assert len(finished.error) < MAX_TEXT + 1000


def test_an_objective_that_exits_its_process(evaluate):
    finished = evaluate(CallableTask(lambda params: os._exit(0)))
    assert (finished.state, finished.value) == ("failed", None)
    assert "without a result" in finished.error


def test_an_objective_without_memory_fails_but_not_the_worker(evaluate):
    def objective(params):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        return float(len(bytearray(1 << 31)))

    finished = evaluate(CallableTask(objective))
    assert finished.state == "failed"
    assert "out of memory" in finished.error


def test_printed_output_is_neither_shown_nor_a_result(evaluate, capfd):
    def objective(params):
        print('{"value": 7}')
        os.write(1, b"raw\n")
        print("trouble", file=sys.stderr)
        os.abort()

    finished = evaluate(CallableTask(objective))
    assert finished.state == "failed"
    assert {"raw", "trouble", '{"value": 7}'} <= set(finished.error.splitlines())
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_unflushed_output_of_the_parent_is_not_written_twice(tmp_path):
    code = (
        "import sys; from farthing.running import Allowance, CallableTask, Job, ProcessGroup\n"
        "sys.stdout.write('once ')\n"
        "def f(params): print('never'); sys.stdout.flush(); return 1\n"
        "engine = ProcessGroup(CallableTask(f))\n"
        "done = engine.run(Job({}, 0, 0), Allowance(0.5, lambda usage: None))\n"
        "assert done.value == 1, done"
    )
    import subprocess

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "once "


def test_progress_reports(evaluate):
    def objective(params):
        for step in range(3):
            report_progress(step, np.float32(step / 2), cost={"usd": np.float64(step)})
        report_progress(np.int64(3))
        return 1.0

    seen = []
    finished = evaluate(CallableTask(objective), on_report=lambda m, u: seen.append(m["step"]))
    assert seen == [0, 1, 2, 3]
    assert finished.reports[1] == {"step": 1, "value": 0.5, "cost": {"usd": 1.0}}
    assert finished.reports[3] == {"step": 3}
    assert finished.usage.reported == {"usd": 2.0}


# ── the state of the child ───────────────────────────────────────────────────────────────────


def test_its_process_is_the_leader_of_its_own_session(evaluate):
    pid, session, group, parent = seen_by_child(
        evaluate, lambda: (os.getpid(), os.getsid(0), os.getpgid(0), os.getppid())
    )
    assert pid == session == group
    assert os.getpid() not in (pid, parent)


def test_environment_variables(evaluate):
    names = ("FARTHING_TRIAL", "FARTHING_SEED", "FARTHING_PARAMS", "FARTHING_RESULT")
    look = seen_by_child(
        evaluate, lambda: [os.environ.get(name) for name in names], number=12, seed=99
    )
    assert look == ["12", "99", "{}", None]
    assert "FARTHING_TRIAL" not in os.environ


def test_signal_handlers_are_those_of_a_new_process(evaluate):
    def look():
        handlers = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)]
        return [
            all(handler == signal.SIG_DFL for handler in handlers),
            signal.getsignal(signal.SIGINT) is signal.default_int_handler,
            len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        ]

    old = [
        (number, signal.signal(number, lambda *_: None))
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGINT)
    ]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        assert seen_by_child(evaluate, look) == [True, True, 0]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in old:
            signal.signal(number, handler)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask


def test_the_exit_handlers_of_the_parent_are_not_run(evaluate, tmp_path):
    def create_file():
        (tmp_path / "created").touch()

    atexit.register(create_file)
    try:
        assert evaluate(CallableTask(lambda params: 1.0)).value == 1.0
        evaluate(CallableTask(raises(SystemExit(0))))
    finally:
        atexit.unregister(create_file)
    assert not (tmp_path / "created").exists()


def test_garbage_of_the_parent_is_not_finalised_in_the_child(evaluate, tmp_path):
    class Connection:
        def __del__(self):
            (tmp_path / f"closed-{os.getpid()}").touch()

    connection = Connection()
    connection.itself = connection
    del connection  # a reference cycle, which only the garbage collector finds
    gc.disable()
    try:
        finished = evaluate(CallableTask(lambda params: float(gc.collect() >= 0)))
    finally:
        gc.enable()
    assert finished.value == 1.0
    assert list(tmp_path.iterdir()) == []


def test_global_randomness_follows_the_seed(evaluate):
    def look():
        return [random.random(), float(np.random.random())]  # noqa: NPY002

    before = random.getstate()
    first, again, other = (seen_by_child(evaluate, look, seed=s) for s in (5, 5, 2**40 + 5))
    assert first == again
    legacy = np.random.RandomState
    assert first == [random.Random(5).random(), legacy(5).random_sample()]
    assert other == [random.Random(2**40 + 5).random(), legacy(5).random_sample()]
    assert random.getstate() == before


def test_an_evaluation_keeps_no_pipe_of_another_open(evaluate, sleeps, pids, tmp_path):
    # A second evaluation starts while the first runs; the first ends without waiting for it.
    go, ended, results = tmp_path / "go", threading.Event(), {}

    def first(params):
        pids.note()
        return float(wait_until(go.exists))

    def not_yet(usage):
        return "the first has ended" if ended.is_set() else None

    def run(name, task):
        results[name] = evaluate(task, may_go_on=not_yet, tick=0.05)

    threads = []
    try:
        for i, task in enumerate([CallableTask(first), sleeps()]):
            threads.append(threading.Thread(target=run, args=(i, task)))
            threads[-1].start()
            assert wait_until(lambda i=i: len(pids.all) == i + 1)
        go.touch()
        threads[0].join()
        assert results[0].value == 1.0
        assert len(results) == 1
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert results[1].state == "killed"


def test_matrices_can_be_multiplied_after_a_fork(evaluate):
    # The parent's BLAS threads do not exist in the child.
    matrix = np.ones((600, 600))
    assert (matrix @ matrix)[0, 0] == 600.0
    finished = evaluate(CallableTask(lambda params: float((matrix @ matrix)[1, 1])))
    assert finished.value == 600.0
    assert (matrix @ matrix)[2, 2] == 600.0


def test_an_objective_may_use_processes_and_threads_itself(evaluate):
    def objective(params):
        import multiprocessing

        with multiprocessing.get_context("fork").Pool(2) as pool:
            total = sum(pool.map(abs, [-1, -2, -3]))
        thread = threading.Thread(target=report_progress, args=(1,))
        thread.start()
        thread.join()
        return float(total)

    finished = evaluate(CallableTask(objective))
    assert finished.value == 6.0, finished.error
    assert finished.reports == ({"step": 1},)


def test_an_evaluation_inside_an_evaluation(evaluate):
    def outer(params):
        return evaluate(CallableTask(lambda inner: params["x"] + 1.0)).value

    assert evaluate(CallableTask(outer), {"x": 1}).value == 2.0


# ── spawn ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_spawned_objectives_report_fail_and_are_seeded(evaluate):
    def objective(params):
        report_progress(1, random.random())
        raise ValueError("boom")

    finished = [evaluate(CallableTask(objective, start="spawn"), seed=4) for _ in range(2)]
    assert "ValueError: boom" in finished[0].error
    assert finished[0].reports == finished[1].reports != ()


def test_an_objective_that_cannot_be_pickled_is_refused_at_once(evaluate):
    lock = threading.Lock()
    with pytest.raises(InvalidInput, match="cannot be sent to another process"):
        evaluate(CallableTask(lambda params: lock, start="spawn"))


def test_invalid_objectives():
    with pytest.raises(InvalidInput, match="not an objective"):
        CallableTask(3)
    with pytest.raises(InvalidInput, match="start="):
        CallableTask(abs, start="thread")
