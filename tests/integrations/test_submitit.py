"""Trials as jobs of submitit's LocalExecutor."""

import os
import sys
import threading
import time
from dataclasses import replace
from functools import partial

import pytest
from integrations.clusters import (
    JOB,
    check_an_error_of_the_allowance,
    check_failures_and_timeouts,
    kill,
    losses,
    parents_of,
    regression,
    sleeping_first,
    square,
)
from parts import Greedy, RoundRobin
from processes import PATIENCE, is_alive, wait_until

from farthing import InvalidInput, Steps
from farthing.running import Allowance, CallableTask, Part

submitit = pytest.importorskip("submitit")

from farthing.integrations import submitit as ours  # noqa: E402
from farthing.integrations.submitit import Submitit, _evaluate, _Folder  # noqa: E402


@pytest.fixture
def executor(tmp_path, monkeypatch):
    """Jobs find the modules of the tests, and an empty place for a result is believed soon."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setattr(ours, "LATE", 0.5)
    made = submitit.LocalExecutor(tmp_path / "jobs")
    made.update_parameters(timeout_min=60)
    return made


def engine(executor, objective, **settings):
    settings = {"timeout": None, "grace": 1.0, "lease": PATIENCE, **settings}
    return Submitit(executor).evaluating(CallableTask(objective), **settings)


def folders(executor):
    return list(executor.folder.glob("farthing-*"))


@pytest.mark.slow
def test_a_study_runs_as_jobs_at_the_same_time(executor, study, notes):
    def objective(params):
        notes.begin()
        wait_until(lambda: len(notes.pids) >= 2)  # waits until two run at the same time
        return (params["x"] - 0.3) ** 2

    result = study(budget="3 trials").run(objective, engine=Submitit(executor, jobs=2))
    assert [trial.state for trial in result.history] == ["done"] * 3
    assert result.best.value == min(square(trial.params) for trial in result.history)
    assert os.getpid() not in notes.pids
    assert all(trial.run.run_s > 0 for trial in result.history)
    assert all(trial.run.peak_mb > 1 for trial in result.history)
    assert "3 trials" in result.stop_reason.sentence
    assert not folders(executor)


@pytest.mark.slow
def test_a_trial_that_exceeds_the_budget_is_killed_in_its_job(executor, study, notes):
    start = time.monotonic()
    settings = {"budget": "2 worker_s"}
    result = study(**settings).run(sleeping_first(notes, 99), engine=Submitit(executor))
    assert {trial.state for trial in result.history} == {"killed"}
    assert not any(map(is_alive, notes.pids))
    assert 1.5 < result.ledger.spent < time.monotonic() - start
    assert "budget" in result.history[0].error


@pytest.mark.slow
def test_a_lost_job_is_a_lost_trial(executor, study, notes):
    def kill_its_job():
        pid, *_ = notes.wait()
        jobs = [p for p in parents_of(pid) if "submitit.core._submit" in command_of(p)]
        kill(jobs[-1])  # not the trial, which was forked from it

    killer = threading.Thread(target=kill_its_job, daemon=True)
    killer.start()
    made = study(budget="3 trials", retries=1)
    result = made.run(sleeping_first(notes), engine=Submitit(executor))
    killer.join()
    states = [trial.state for trial in result.history]
    assert sorted(states) == ["done", "done", "lost"]
    first = result.history[states.index("lost")]
    assert first.error.startswith("its job ended without a result (job ")
    again = next(trial for trial in result.history if trial.run.attempt == 2)
    assert (again.params, again.state) == (first.params, "done")
    assert wait_until(lambda: not any(map(is_alive, notes.pids)))


def command_of(pid):
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
        return file.read()


@pytest.mark.slow
def test_failures_and_timeouts(executor):
    check_failures_and_timeouts(partial(engine, executor))


@pytest.mark.slow
def test_trainings_are_paused_and_resumed_by_other_jobs(executor, study, notes):
    steps = Steps(4, rungs=(2,))
    made = study(budget="2 trials", steps=steps, policy=RoundRobin(width=2))
    result = made.run(regression(notes), engine=Submitit(executor))
    assert [trial.state for trial in result.history] == ["done"] * 2
    for trial in result.history:
        expected = losses(trial.params["x"] / 20, 4)
        assert [point.value for point in trial.curve] == pytest.approx(expected)
        assert trial.run.since == 2  # its last part began at a checkpoint
    assert len(notes.pids) == 4


@pytest.mark.slow
def test_a_training_that_goes_on_stays_in_its_job(executor, study, notes):
    steps = Steps(8, rungs=(2, 4), resume="never")
    made = study(budget="900 worker_s, 1 trials", steps=steps, policy=Greedy())
    result = made.run(regression(notes), engine=Submitit(executor))
    (trial,) = result.history
    assert (trial.state, len(trial.curve), len(notes.pids)) == ("done", 8, 1)
    assert trial.cost["worker_s"] >= trial.curve[-1].cost["worker_s"] > 0


@pytest.mark.slow
def test_an_error_of_the_allowance_is_raised_and_ends_the_trial(executor, notes):
    check_an_error_of_the_allowance(partial(engine, executor), notes)


def test_a_trial_that_waits_in_the_queue_uses_nothing_and_is_cancelled(executor, monkeypatch):
    class Waiting:
        """A job that Slurm has not started."""

        def __init__(self, folder):
            self.paths = submitit.core.utils.JobPaths(folder, "7")
            self.cancelled = False

        def done(self):
            return False

        def cancel(self, check):
            self.cancelled = True

    job, used = Waiting(executor.folder), []
    monkeypatch.setattr(executor, "submit", lambda *args: job)

    def may_go_on(usage):
        used.append(usage.wall_s)
        return "it must end" if len(used) == 3 else None

    finished = engine(executor, square).run(JOB, Allowance(0.01, may_go_on))
    assert (finished.state, finished.error) == ("killed", "it must end")
    assert used == [0.0] * 3
    assert finished.usage.wall_s == 0
    assert job.cancelled


def test_a_job_that_is_started_again_evaluates_nothing(tmp_path, notes):
    folder = _Folder(tmp_path / "a")
    folder.path.mkdir()
    assert folder.begin()
    task = CallableTask(sleeping_first(notes))
    assert _evaluate(task, JOB, folder.path, 0.05, None, 1.0, PATIENCE) is None
    assert _evaluate(task, JOB, tmp_path / "gone", 0.05, None, 1.0, PATIENCE) is None
    assert not notes.pids


def test_a_job_without_a_sign_of_life_ends_its_trial(tmp_path, notes):
    task = CallableTask(sleeping_first(notes))
    finished = _evaluate(task, JOB, tmp_path, 0.05, None, 1.0, 0.3)
    assert finished.state == "killed"
    assert "gave no sign of life for 0.3 s" in finished.error
    assert not any(map(is_alive, notes.pids))


def test_invalid_arguments_are_refused(executor, tmp_path):
    with pytest.raises(InvalidInput, match="expected an executor"):
        Submitit("jobs")
    with pytest.raises(InvalidInput, match="at least 1"):
        Submitit(executor, jobs=0)
    lock = threading.Lock()
    with pytest.raises(InvalidInput, match="cannot be submitted"):
        engine(executor, lambda params: lock.locked()).run(JOB, Allowance(0.1, lambda usage: None))
    elsewhere = replace(JOB, part=Part(0, 2, 8, checkpoint=tmp_path / "elsewhere"))
    there = tmp_path / "there"
    there.mkdir()
    why = _evaluate(CallableTask(square), elsewhere, there, 0.1, None, 1.0, PATIENCE)
    assert "a folder that all machines" in why
