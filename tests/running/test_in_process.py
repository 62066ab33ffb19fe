"""Objectives called in this process have the same results as in another process."""

import errno
import os
import signal
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from processes import PATIENCE

from farthing import Outcome
from farthing.errors import Infrastructure, InvalidInput
from farthing.running import Allowance, CallableTask, InProcess, Interrupted, Job, report_progress


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raises(error):
    def objective(params):
        raise error.with_traceback(None)  # the test raises it twice

    return objective


def returns(value):
    return lambda params: value


def never(usage):
    raise AssertionError("this engine cannot kill, so it must not call may_go_on")


def call(objective, params=None, *, on_report=None):
    engine = InProcess(objective)
    assert not engine.kills
    return engine.run(Job(params or {}, number=7, seed=3), Allowance(0.01, never, on_report))


def test_arguments_and_result():
    params = {"x": 2}

    def objective(given):
        assert given == params
        given["x"] = "changed"
        return Outcome(6, cost={"usd": 1})

    finished = call(objective, params)
    assert (finished.state, finished.value, finished.error) == ("done", 6.0, None)
    assert finished.cost == {"usd": 1.0}
    assert params == {"x": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective",
    [
        *map(returns, [2, np.float32(0.5), np.array(1.5), Outcome(np.float64(4), cost=2)]),
        *map(returns, [None, "0.5", True, np.zeros(3), (1, 2), float("nan"), float("-inf")]),
        *map(returns, [Outcome(), Outcome(1, cost="much"), Outcome(1, cost=-1), "x" * 10_000]),
        *map(returns, [Outcome(1, cost={"usd": float("nan")}), Outcome(1, cost=3, failed="no")]),
        *map(
            raises, [ValueError("x"), MemoryError(), UnprintableError(), ValueError("x" * 100_000)]
        ),
        *map(raises, [Infrastructure("no GPU"), Infrastructure(), Infrastructure("x" * 2**21)]),
        *map(raises, [OSError(errno.ENOSPC, "No space left"), OSError(errno.ENOENT, "gone")]),
    ],
)
def test_both_engines_agree(evaluate, objective):
    here, there = call(objective), evaluate(CallableTask(objective))
    assert (here.state, here.value, here.cost) == (there.state, there.value, there.cost)
    assert here.error == there.error


@pytest.mark.parametrize("engine", ["here", "there"])
def test_a_failure_with_a_long_reason_does_not_use_the_value_of_its_progress(evaluate, engine):
    def objective(params):
        report_progress(1, 0.5)
        return Outcome(failed="x" * 2**21)

    finished = call(objective) if engine == "here" else evaluate(CallableTask(objective))
    assert (finished.state, finished.value) == ("failed", None)
    assert set(finished.error.splitlines()[0]) == {"x"}


@pytest.mark.parametrize(
    ("objective", "state", "text"),
    [
        (raises(ZeroDivisionError("by zero")), "failed", "ZeroDivisionError: by zero"),
        (raises(MemoryError()), "failed", "out of memory"),
        (raises(Infrastructure("no GPU")), "lost", "no GPU"),
        (raises(OSError(errno.EDQUOT, "quota")), "lost", "quota"),
        (returns(float("nan")), "failed", "NaN"),
        (returns(Outcome(failed="diverged")), "failed", "diverged"),
    ],
)
def test_failures(objective, state, text):
    finished = call(objective)
    assert (finished.state, finished.value) == (state, None)
    assert text in finished.error
    assert "farthing/running" not in finished.error


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit()])
def test_exceptions_that_end_the_process_are_raised(error):
    with pytest.raises(type(error)):
        call(raises(error))


@pytest.mark.slow
def test_usage():
    def burn(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    def objective(params):
        if os.fork() == 0:
            burn(0.2)
            os._exit(0)
        os.wait()
        burn(0.2)
        time.sleep(0.1)
        return 1.0

    started_at = time.perf_counter()
    usage = call(objective).usage
    assert usage.cpu_s >= 0.4
    assert 0.1 <= usage.wall_s <= time.perf_counter() - started_at
    # The time before the start of the trial does not count.
    assert call(lambda params: 1.0).usage.cpu_s < usage.cpu_s / 2
    assert usage.peak_mb > 10


def test_progress_is_passed_on_and_stored():
    def objective(params):
        for step in range(3):
            report_progress(step, np.float32(step / 2), cost={"usd": step})
        report_progress(3)
        return 1.0

    seen = []
    finished = call(objective, on_report=lambda message, usage: seen.append((message, usage)))
    assert [message["step"] for message, _ in seen] == [0, 1, 2, 3]
    assert [usage.reported["usd"] for _, usage in seen] == [0.0, 1.0, 2.0, 2.0]
    times = [usage.wall_s for _, usage in seen] + [finished.usage.wall_s]
    assert times == sorted(times)
    assert finished.reports == tuple(message for message, _ in seen)
    assert finished.usage.reported == {"usd": 2.0}
    assert finished.cost == {}


def test_reports_are_printed_only_outside_an_evaluation(capsys):
    call(lambda params: report_progress(1) or 1.0)
    assert capsys.readouterr().out == ""
    report_progress(2)
    assert capsys.readouterr().out == '{"step": 2}\n'


@pytest.mark.parametrize("caught", [False, True])
def test_an_error_of_on_report_is_not_an_error_of_the_objective(caught):
    def objective(params):
        with suppress(LookupError if caught else KeyError):
            report_progress(1)
        return 1.0

    def on_report(message, usage):
        raise LookupError("the database is gone")

    with pytest.raises(LookupError, match="the database is gone"):
        call(objective, on_report=on_report)


def test_each_thread_receives_its_own_reports():
    both = threading.Barrier(2)

    def objective(params):
        both.wait(PATIENCE)  # until the other evaluation has started, too
        report_progress(params["x"])
        both.wait(PATIENCE)
        return float(params["x"])

    received = {}

    def run(x):
        received[x] = call(objective, {"x": x}).reports

    threads = [threading.Thread(target=run, args=(x,)) for x in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert received == {0: ({"step": 0},), 1: ({"step": 1},)}


def test_one_engine_inside_the_other(evaluate):
    def inner(params):
        report_progress(2)
        return params["x"] + 1.0

    def outer(params):
        report_progress(1)
        finished = params["run"](params)
        report_progress(3)
        return finished.value + len(finished.reports)

    there = lambda params: evaluate(CallableTask(inner), params)  # noqa: E731
    here = lambda params: call(inner, params)  # noqa: E731
    for run, engine in [
        (here, call),
        (there, call),
        (here, lambda task, p: evaluate(CallableTask(task), p)),
    ]:
        finished = engine(outer, {"x": 1.0, "run": run})
        assert finished.value == 3.0, finished.error
        assert finished.reports == ({"step": 1}, {"step": 3})


def test_ctrl_c_returns_the_usage(ctrl_c):
    def objective(params):
        report_progress(1, cost=4)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted) as caught:
        call(objective)
    assert isinstance(caught.value, KeyboardInterrupt)
    finished = caught.value.finished
    assert (finished.state, finished.value) == ("killed", None)
    assert finished.error == "interrupted from the keyboard"
    assert finished.usage.wall_s > 0
    assert finished.usage.reported == {"": 4.0}
    assert finished.reports == ({"step": 1, "cost": 4.0},)


def test_global_random_state_is_not_changed():
    import random

    random.seed(11)
    expected = random.random()
    random.seed(11)
    assert call(lambda params: random.random()).value == expected


def test_printed_output_is_shown(capsys):
    call(lambda params: print("hello") or 1.0)
    assert capsys.readouterr().out == "hello\n"


def test_invalid_objectives():
    with pytest.raises(InvalidInput, match="not an objective"):
        InProcess(3)
