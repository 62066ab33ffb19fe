"""Real training in wall-clock time: what counts, what is kept, and the tables."""

import json

import numpy as np
import pytest
from clocks import Clock
from processes import PATIENCE

from benchmarks.evidence import curves_realtime
from benchmarks.evidence.curves_realtime import (
    METHODS,
    OURS,
    TASKS,
    WHOLE,
    Job,
    Watch,
    best_at,
    draw,
    drive,
    duels,
    in_a_process,
    kept,
    main,
    run,
    table_of,
)
from benchmarks.problems.tables import data_folder
from benchmarks.problems.training_curves import CurveTask
from farthing import Float, Space

SPACE = Space({"a": Float(0.1, 1.0)})
LAST = 9


class Falling:
    """A free training whose loss falls from 1 towards (a - 0.4)^2; `saved` is its step."""

    def __init__(self, params, saved):
        self.a, self.made = params["a"], int(saved or b"0")

    def step(self):
        self.made += 1
        return (self.a - 0.4) ** 2 + 1.0 / self.made

    def saved(self):
        return str(self.made).encode()


@pytest.fixture
def falling(monkeypatch):
    """A training whose step takes a second of a clock that nothing else advances."""
    clock = Clock(monkeypatch)
    for module in ("farthing.running.training", "farthing.running.in_process"):
        monkeypatch.setattr(f"{module}.time", clock)
    monkeypatch.setattr(curves_realtime, "time", clock)

    class TakesASecond(Falling):
        def step(self):
            clock.sleep(1.0)
            return super().step()

    return TakesASecond


class Ticks:
    """A clock that moves on by a second when it is read."""

    def __init__(self):
        self.now = -1.0

    def perf_counter(self):
        self.now += 1.0
        return self.now


@pytest.fixture
def ticks(monkeypatch):
    monkeypatch.setattr(curves_realtime, "time", Ticks())


def record_of(method, seed, best, *, task="xgboost-pendigits", seconds=3.0, **more):
    values = {"best": best, "times": [1.0, 2.0], "values": [1.0, best], "trials": 4, "steps": 20}
    job = Job(task, method, seconds, seed)
    return job, {**job._asdict(), **values, "training": 2.0, "overhead": 0.25, **more}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_step_by_step(method, falling):
    watch = Watch(falling, LAST, 1000.0)
    drive(method, SPACE, watch, seed=1, most=16)
    assert watch.trials == 16
    assert 16 <= watch.steps <= 16 * LAST
    assert (watch.steps == 16 * LAST) is (method == WHOLE)  # all others end some trainings early
    assert watch.values == sorted(watch.values, reverse=True)
    assert watch.times == sorted(watch.times)
    assert watch.values[-1] < 0.5


def test_a_run_of_optuna_depends_on_its_seed_alone():
    """HyperbandPruner would draw its brackets from the name of the study, which is random."""
    steps = []
    for _ in range(4):
        watch = Watch(Falling, LAST, PATIENCE)
        drive("Optuna TPE + Hyperband", SPACE, watch, seed=1, most=16)
        steps.append(watch.steps)
    assert len(set(steps)) == 1


def test_a_paused_training_goes_on_where_it_was(falling):
    resumed = []

    class Noted(falling):
        def __init__(self, params, saved):
            super().__init__(params, saved)
            if saved:
                resumed.append(self.made)

    watch = Watch(Noted, LAST, 1000.0)
    drive(OURS, SPACE, watch, seed=1, most=12)
    assert resumed
    assert all(made in (1, 2, 4, 8) for made in resumed)


@pytest.mark.parametrize("method", METHODS)
def test_a_training_that_diverges_fails_alone(method):
    class Diverging(Falling):
        def step(self):
            value = super().step()
            return float("nan") if self.a > 0.8 and self.made == 2 else value

    watch = Watch(Diverging, LAST, PATIENCE)
    drive(method, SPACE, watch, seed=1, most=8)
    assert watch.trials == 8
    assert np.isfinite(watch.values).all()


def test_a_step_after_the_budget_does_not_count(ticks):
    watch = Watch(Falling, LAST, 4.5)  # the clock reads 0
    learner = Falling({"a": 0.4}, b"")
    assert watch.step(learner) == 1.0  # reads 1, 2 and 3
    assert (watch.times, watch.values, watch.training) == ([3.0], [1.0], 1.0)
    assert watch.step(learner) == 0.5  # 4, 5 and 6: it ends too late
    assert (watch.values, watch.steps) == ([1.0], 2)
    assert watch.step(learner) is None
    assert (learner.made, watch.steps) == (2, 2)  # nothing was trained


@pytest.mark.slow
def test_the_line_of_a_run():
    task = CurveTask("mlp", "made")
    record = run(Job("mlp-made", "Optuna TPE + median", 0.2, 3), task, lambda p, s: Flat())
    assert list(record)[:5] == ["task", "method", "seconds", "seed", "best"]
    assert (record["seed"], record["best"]) in [(3, 0.25), (3, None)]
    assert 0 <= record["overhead"] <= 1
    assert record["versions"]["optuna"]
    assert json.loads(json.dumps(record)) == record


class Flat:
    def step(self):
        return 0.25

    def saved(self):
        return b""


def test_duels_compare_the_same_seeds():
    runs = dict(
        [
            record_of(OURS, 0, 0.1),
            record_of(OURS, 1, 0.2),
            record_of(OURS, 2, 0.3),
            record_of(OURS, 3, None),
            record_of(WHOLE, 0, 0.2),
            record_of(WHOLE, 1, 0.2),
            record_of(WHOLE, 3, 0.9),
            record_of(WHOLE, 0, 0.9, seconds=9.0),
        ]
    )
    assert duels(runs, "xgboost-pendigits", WHOLE, 3.0) == (1.5, 3)
    assert duels(runs, "mlp-satimage", WHOLE, 3.0) == (0, 0)
    table = "\n".join(table_of(runs, 3.0))
    assert f"| {WHOLE} | 0.2 (3) | 1.5 of 3 | 4 | 20 | 100.0 | 25.0% |" in table
    assert f"| {OURS} | 0.25 (4) | - |" in table


def test_the_picture_shows_the_best_value_against_time(tmp_path):
    job, record = record_of(OURS, 0, 0.1)
    assert best_at(record, np.array([0.5, 1.0, 1.5, 9.0])).tolist() == [np.inf, 1.0, 1.0, 0.1]
    runs = {job: record, **dict([record_of(WHOLE, 0, 0.3, task="mlp-satimage")])}
    draw(runs, 3.0, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5_000


def test_missing_runs_are_made_once_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(curves_realtime, "RESULTS", tmp_path / "runs.jsonl")
    made = []

    def pretend(job, folder):
        made.append(job)
        return record_of(job.method, job.seed, 0.1, task=job.task, seconds=job.seconds)[1]

    monkeypatch.setattr(curves_realtime, "in_a_process", pretend)
    assert main(["--seconds", "3", "--seeds", "1"]) == 0
    assert len(made) == len(set(made)) == len(TASKS) * len(METHODS)
    assert main(["--seconds", "3", "--seeds", "2"]) == 0
    assert len(made) == 2 * len(TASKS) * len(METHODS)  # only the second seed was missing
    assert set(kept()) == set(made)
    capsys.readouterr()
    assert main(["--seconds", "3", "--kept"]) == 0
    assert len(made) == 2 * len(TASKS) * len(METHODS)
    assert f"| {OURS} | 0.1 (2) |" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_real_run_in_its_own_process(task):
    if not (data_folder() / "uci_openml").exists():
        pytest.skip(f"{data_folder()} has no uci_openml")
    record = in_a_process(Job(task, OURS, 1.0, 0), data_folder())
    assert (record["task"], record["seconds"]) == (task, 1.0)
    assert 0 <= record["overhead"] <= 1
    assert all(0 < value < 10 for value in record["values"])
