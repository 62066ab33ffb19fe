"""The simulation of many workers agrees with queueing theory, and its page with the results."""

import json
import math
import multiprocessing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.speed.scale import PARTS, RESULTS, Timed
from benchmarks.speed.scale_model import Costs, Setting, simulate
from benchmarks.speed.scale_page import PAGE, calibrating, checked_table, costs_of, measured_table

LONG = 1500.0  # seconds to simulate
EXPONENTIAL = tuple(-np.log(1 - (np.arange(2000) + 0.5) / 2000))  # of mean 1


def overhead(seconds: float, **more: object) -> Costs:
    return Costs(overhead=((0.0, seconds),), **more)


def near(workers: int, run: float, **more: object) -> Setting:
    return Setting(workers, run, far=False, **more)


def repaired(workers: int, run: float, service: float) -> float:
    """Jobs per second of a finite source of n with exponential times: with p_k proportional to
    n! / (n - k)! (s/r)^k, the server is busy with probability 1 - p_0 and serves 1/s per second.
    """
    ratio = service / run
    weights = [math.perm(workers, k) * ratio**k for k in range(workers + 1)]
    return (1 - weights[0] / sum(weights)) / service


def test_one_worker_does_one_thing_after_another():
    costs = overhead(0.5, looking=0.1, committing=0.05, locking=0.02, serving=0.03, telling=0.04)
    costs = replace(costs, starting=0.2)
    cycle = 0.1 + 0.5 + 0.2 + 1.0 + 0.04 + 2 * (0.05 + 0.02 + 0.03)
    found = simulate(costs, near(1, 1.0, cores=1.0), lasting=LONG)
    assert found.rate == pytest.approx(1 / cycle, rel=2 / (LONG / cycle))
    # A database on another machine adds a round trip for each statement of two commits.
    away = simulate(costs, near(1, 1.0), lasting=LONG)
    assert away.rate == pytest.approx(1 / (cycle + 2 * 6 * 0.0005), rel=2 / (LONG / cycle))


def test_the_time_of_a_suggestion_limits_the_rate():
    found = simulate(overhead(0.25), near(50, 1.0, cores=100.0), lasting=LONG)
    assert found.rate == pytest.approx(4.0, rel=1e-3)
    assert (found.limit, found.lock) == ("suggestion", pytest.approx(1.0, rel=1e-3))
    assert found.asking == pytest.approx(1 - 4.0 / 50, rel=1e-2)  # Little's law


@pytest.mark.slow
def test_without_overhead_no_worker_waits():
    found = simulate(overhead(9.0), near(30, 2.0, cores=100.0, suggests=False), lasting=LONG)
    assert found.rate == pytest.approx(15.0, rel=2e-3)
    assert found.limit == "none"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4, 8, 20])
def test_a_finite_source_of_exponential_times(workers):
    costs = overhead(0.2, spread=EXPONENTIAL)
    setting = near(workers, 1.0, runs=EXPONENTIAL, cores=1000.0)
    rates = [simulate(costs, setting, seed, LONG).rate for seed in range(3)]
    assert np.mean(rates) == pytest.approx(repaired(workers, 1.0, 0.2), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 6, 15])
def test_shared_cores_are_the_same_queue_whatever_the_times(workers):
    # Throughput of processor sharing depends on the mean only (Baskett et al. 1975).
    costs = overhead(0.0, starting=0.2)
    found = simulate(costs, near(workers, 1.0, runs=EXPONENTIAL, cores=1.0), lasting=LONG)
    assert found.rate == pytest.approx(repaired(workers, 1.0, 0.2), rel=0.02)
    slower = simulate(costs, near(1, 1.0, cores=1.0, others=3.0), lasting=LONG)
    assert slower.rate == pytest.approx(1 / (1.0 + 4 * 0.2), rel=1e-3)


def test_the_same_seed_gives_the_same_answer():
    costs, setting = overhead(0.1, spread=EXPONENTIAL), Setting(20, 1.0, runs=EXPONENTIAL)
    first, again, other = (simulate(costs, setting, seed) for seed in (1, 1, 2))
    assert first == again
    assert first.asks != other.asks


@pytest.mark.slow
def test_more_workers_make_more_trials_up_to_the_limit_and_no_fewer_beyond_it():
    costs = overhead(0.1, starting=0.02)
    rates = [
        simulate(costs, near(w, 1.0, cores=99.0), lasting=300.0).rate for w in (1, 2, 4, 8, 16, 64)
    ]
    assert rates[:4] == sorted(rates[:4])
    assert rates[3] < rates[4] == pytest.approx(rates[5], rel=0.01)
    assert rates[5] == pytest.approx(10.0, rel=0.01)


def test_suggestions_take_longer_with_more_running_trials():
    costs = Costs(overhead=((0.0, 1.0), (10.0, 2.0), (20.0, 8.0)))
    assert [costs.suggestion(r) for r in (0, 5, 10, 40)] == pytest.approx([1.0, 1.5, 2.0, 32.0])


@pytest.mark.slow
def test_a_batch_locks_once_and_a_separate_process_removes_the_wait_for_suggestions():
    costs = overhead(0.2, batch=((1, 1.0), (4, 2.0)))
    assert simulate(costs, near(40, 1.0, cores=99.0)).rate == pytest.approx(5.0, rel=0.01)
    found = simulate(costs, near(40, 1.0, cores=99.0, batch=4))
    assert found.rate == pytest.approx(4 / 0.4, rel=0.02)
    ahead = simulate(costs, near(4, 1.0, cores=99.0, ahead=64), lasting=LONG)
    alone = simulate(costs, near(4, 1.0, cores=99.0), lasting=LONG)
    assert ahead.rate == pytest.approx(4.0, rel=1e-2)
    assert alone.rate < 3.5
    most = simulate(costs, near(40, 1.0, cores=99.0, ahead=64), lasting=LONG)
    assert most.rate == pytest.approx(5.0, rel=0.02)


def test_the_load_of_renewals_grows_with_the_square_of_the_workers():
    costs = overhead(0.0, renewing=1e-4, locking=1e-4, row=1e-5)
    found = [simulate(costs, near(w, 60.0)).row for w in (50, 100, 200)]
    assert found[1] / found[0] < found[2] / found[1] < 4
    assert simulate(replace(costs, renewing=0.0), near(200, 60.0)).row < found[2] / 10


def test_waking_every_waiting_worker_loads_the_database():
    costs = overhead(0.01, waking_served=0.01, waking_statements=8.0)
    herd, queue = (simulate(costs, Setting(200, 1.0, herd=h)) for h in (True, False))
    assert herd.database > 0.9 > queue.database
    assert herd.rate < queue.rate / 2
    assert herd.statements > 10 * queue.statements


def test_calls_in_forked_processes_are_timed_and_failed_calls_are_not():
    owner = SimpleNamespace(suggest=lambda x: 1 / x)
    original = owner.suggest
    with Timed(owner, "suggest") as timed:
        fork = multiprocessing.get_context("fork")
        processes = [fork.Process(target=owner.suggest, args=(2,)) for _ in range(3)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        with pytest.raises(ZeroDivisionError):
            owner.suggest(0)
    assert owner.suggest is original
    assert timed.rows.shape == (3, 3)
    assert (timed.rows[:, 1] >= timed.rows[:, 0]).all()


@pytest.mark.slow
def test_the_page_shows_the_kept_results():
    rows = json.loads(RESULTS.read_text())
    page = PAGE.read_text()
    assert measured_table(rows) in page, "run python -m benchmarks.speed.scale"
    costs = costs_of(rows)
    assert checked_table(rows, costs)[0] in page, "run python -m benchmarks.speed.scale"
    parts = calibrating(rows)["parts"]
    assert costs.locking == pytest.approx(parts["locked"]["cpu_ms"] / 1e3)
    assert np.mean(costs.spread) == pytest.approx(1.0)


def test_every_part_that_is_timed_exists():
    assert {name: hasattr(*part) for name, part in PARTS.items()} == dict.fromkeys(PARTS, True)
