"""Trials on a real Dask cluster of four worker processes."""

import logging
import os
import threading
import time
from dataclasses import replace
from functools import partial

import distributed
import pytest
from integrations.clusters import (
    JOB,
    TERMS,
    check_an_error_of_the_allowance,
    check_failures_and_timeouts,
    check_lost_machines_and_progress,
    go_on,
    kill,
    losses,
    parents_of,
    regression,
    sleeping_first,
    square,
)
from parts import Greedy, RoundRobin
from processes import FOREVER, PATIENCE, is_alive, wait_until

from farthing import InvalidInput, Steps, Study
from farthing.integrations.dask import BEGIN, Dask, _evaluate, _Watch
from farthing.running import Allowance, CallableTask, CommandTask, Part

pytestmark = pytest.mark.xdist_group("dask")  # one test process, one cluster


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=4,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(4)
        yield client


def engine(client, objective, **settings):
    settings = {"timeout": None, "grace": 1.0, "lease": PATIENCE, **settings}
    return Dask(client).evaluating(CallableTask(objective), **settings)


@pytest.mark.slow
def test_a_study_runs_on_all_workers(client, study, notes):
    def objective(params):
        notes.begin()
        wait_until(lambda: len(notes.pids) >= 4)  # waits until four run at the same time
        return (params["x"] - 0.3) ** 2

    assert Dask(client).slots == 4
    result = study(budget="12 trials").run(objective, engine=Dask(client))
    assert [trial.state for trial in result.history] == ["done"] * 12
    assert result.best.value == min(square(trial.params) for trial in result.history)
    assert os.getpid() not in notes.pids
    assert all(trial.run.run_s > 0 for trial in result.history)
    assert all(trial.run.peak_mb > 1 for trial in result.history)
    assert "12 trials" in result.stop_reason.sentence


def test_missing_resources_are_warned_of(client, tmp_path):
    asked = Dask(client, resources={"GPU": 2})
    assert asked.slots == 1
    for budget in (
        "1s",
        "5s",
        "25s",
    ):  # a slow machine spends a short budget before the first trial
        study = Study.create(tmp_path / "a.db", name=budget, budget=budget, **TERMS)
        with pytest.warns(UserWarning, match=r"of a trial \(GPU 2\)\. Trials wait until one joins"):
            result = study.run(square, engine=asked)
        study.close()
        if len(result.history):
            break
    assert [trial.state for trial in result.history] == ["killed"]


@pytest.mark.slow
def test_a_trial_that_exceeds_the_budget_is_killed_on_its_worker(client, study, notes):
    start = time.monotonic()
    ours = study(budget="4 worker_s")
    result = ours.run(sleeping_first(notes, sleepers=99), engine=Dask(client), workers=2)
    assert {trial.state for trial in result.history} == {"killed"}
    assert not any(map(is_alive, notes.pids))
    spent = result.ledger.spent
    assert spent == pytest.approx(sum(trial.cost["worker_s"] for trial in result.history))
    assert 3 < spent < 2 * (time.monotonic() - start)
    assert "budget" in result.history[0].error


@pytest.mark.slow
def test_a_lost_worker_is_a_lost_trial(client, study, notes):
    workers = set(client.run(os.getpid).values())

    def kill_its_worker():
        pid, *_ = notes.wait()
        victim = next(parent for parent in parents_of(pid) if parent in workers)
        kill(victim)

    killer = threading.Thread(target=kill_its_worker, daemon=True)
    killer.start()
    # One at a time: others could use up the budget before the loss is noticed.
    ours = study(budget="6 trials", retries=1)
    result = ours.run(sleeping_first(notes), engine=Dask(client), workers=1)
    killer.join()
    states = [trial.state for trial in result.history]
    assert states.count("lost") == 1
    assert set(states) == {"lost", "done"}
    first = result.history[states.index("lost")]
    assert "worker" in first.error
    again = next(trial for trial in result.history if trial.run.attempt == 2)
    assert again.params == first.params
    assert again.state == "done"
    assert len(notes.pids) == len(states)  # Dask did not start it again
    assert wait_until(lambda: not any(map(is_alive, notes.pids)))


def test_a_worker_without_answers_ends_its_trial(client, notes):
    answers = distributed.Queue("alone-answers", client=client)
    answers.put(BEGIN)
    task = CallableTask(sleeping_first(notes))
    future = client.submit(_evaluate, task, JOB, "alone", 0.05, None, 1.0, 0.5, pure=False)
    finished = future.result(timeout=PATIENCE)
    assert finished.state == "killed"
    assert "gave no sign of life for 0.5 s" in finished.error
    assert not any(map(is_alive, notes.pids))


def test_both_sides_wait_for_one_lease(client, monkeypatch):
    submitted, waits = [], []
    monkeypatch.setattr(
        client, "submit", lambda *given, **_: submitted.append(given) or Submitted()
    )
    watch = _Watch(engine(client, square, grace=2.0, lease=7.0), JOB, Allowance(0.1, go_on))
    watch.start()
    assert submitted[0][-3:] == (None, 2.0, 7.0)  # the worker's timeout, grace period and lease
    monkeypatch.setattr(watch.over, "wait", lambda seconds: waits.append(seconds))
    watch.started = watch.last = time.monotonic()
    assert watch.end("the run ended").error == "the run ended"
    assert waits == [9.0]  # the trial may use its grace period, and then gives no sign of life
    watch.close()


class Submitted:
    """A future whose trial never ends."""

    def add_done_callback(self, call):
        pass

    def cancel(self, force):
        assert force


def test_a_client_that_closes_ends_the_run(cluster, study, notes):
    client = distributed.Client(cluster)
    closer = threading.Thread(target=lambda: (notes.wait(), client.close()), daemon=True)
    closer.start()
    ours = study(budget="6 trials")
    with pytest.raises(InvalidInput, match="client is closed"):
        ours.run(sleeping_first(notes), engine=Dask(client), workers=1)
    closer.join()
    assert [trial.state for trial in ours.history] == ["lost", "lost"]  # the second never started
    (alone,) = notes.pids
    kill(alone)  # it would end itself after a lease, as above
    with pytest.raises(InvalidInput, match="client is closed"):
        ours.run(square, engine=Dask(client))


@pytest.mark.slow
def test_failures_lost_machines_and_progress(client):
    check_failures_and_timeouts(partial(engine, client))
    heard = check_lost_machines_and_progress(partial(engine, client))
    assert heard[-1][1].reported == {"": 3.0}


def test_a_command_runs_on_a_worker(client, study):
    command = CommandTask(["sh", "-c", 'echo "{\\"value\\": {x}}"'])
    result = study(budget="2 trials").run(command, engine=Dask(client), workers=1)
    assert [trial.value for trial in result.history] == [t.params["x"] for t in result.history]


@pytest.mark.slow
def test_a_trial_that_waits_for_a_worker_uses_nothing(client, notes):
    """It is cancelled if it may not continue."""
    used = []

    def may_go_on(usage):
        used.append(usage.wall_s)
        return "it must end" if len(used) == 3 else None

    nowhere = Dask(client, resources={"GPU": 1})
    with pytest.warns(UserWarning, match="GPU 1"):
        there = nowhere.evaluating(CallableTask(square), timeout=None, grace=1.0, lease=PATIENCE)
    finished = there.run(JOB, Allowance(0.05, may_go_on))
    assert finished.state == "killed"
    assert finished.error == "it must end"
    assert used == [0.0] * 3
    assert finished.usage.wall_s == 0


@pytest.mark.slow
def test_an_error_of_the_allowance_is_raised_and_ends_the_trial(client, notes):
    check_an_error_of_the_allowance(partial(engine, client), notes)


@pytest.mark.slow
def test_a_trial_that_must_end_has_the_grace_period_to_answer(client):
    watch = _Watch(engine(client, square, grace=1e6, lease=1e6), JOB, Allowance(0.1, go_on))
    assert not watch._is_silent()  # it has not started
    watch.started = watch.last = time.monotonic() - 1.5e6
    assert watch._is_silent()
    assert "no sign of life for 1e+06 s" in watch._without_answer().error
    watch.ending = "it must end"
    assert not watch._is_silent()
    watch.last -= 1e6
    assert watch._is_silent()
    ended = watch._without_answer()
    assert (ended.state, ended.error) == ("killed", "it must end")


@pytest.mark.slow
def test_invalid_arguments_are_refused(client):
    with pytest.raises(InvalidInput, match="expected a client"):
        Dask("tcp://nowhere:1")
    with pytest.raises(InvalidInput, match="above 0"):
        Dask(client, resources={"GPU": 0})
    lock = threading.Lock()
    with pytest.raises(InvalidInput, match="cannot be sent"):
        engine(client, lambda params: lock.locked()).run(JOB, Allowance(0.1, go_on))


@pytest.mark.slow
def test_trainings_are_paused_and_resumed_on_any_worker(client, study, notes):
    steps = Steps(8, rungs=(2, 4))
    ours = study(budget="3 trials", steps=steps, policy=RoundRobin(width=3))
    result = ours.run(regression(notes), engine=Dask(client), workers=2)
    assert [trial.state for trial in result.history] == ["done"] * 3
    for trial in result.history:
        assert [point.step for point in trial.curve] == list(range(1, 9))
        expected = losses(trial.params["x"] / 20, 8)
        assert [point.value for point in trial.curve] == pytest.approx(expected)
        assert trial.value == pytest.approx(min(expected))
    # The first one at a rung makes room for the third; the others may be alone when they are there.
    assert any(trial.run.since > 0 for trial in result.history)  # it went on from a checkpoint
    assert len(notes.pids) > 3
    assert not any(map(is_alive, notes.pids))


@pytest.mark.slow
def test_a_training_that_goes_on_stays_in_its_process(client, study, notes):
    steps = Steps(8, rungs=(2, 4), resume="never")
    ours = study(budget="900 worker_s, 2 trials", steps=steps, policy=Greedy())
    result = ours.run(regression(notes), engine=Dask(client), workers=1)
    assert [trial.state for trial in result.history] == ["done"] * 2
    assert len(notes.pids) == 2
    for trial in result.history:
        assert len(trial.curve) == 8
        assert trial.cost["worker_s"] >= trial.curve[-1].cost["worker_s"] > 0
    assert result.ledger["worker_s"].spent == pytest.approx(
        sum(trial.cost["worker_s"] for trial in result.history)
    )


@pytest.mark.slow
def test_a_training_whose_worker_dies_goes_on_from_its_checkpoint(client, study, notes):
    workers = set(client.run(os.getpid).values())

    def kill_its_worker():
        pid = notes.wait(3)[2]
        kill(next(parent for parent in parents_of(pid) if parent in workers))

    def sleep_in_the_third(number):  # it is a part that was resumed
        if number == 2:
            time.sleep(FOREVER)

    killer = threading.Thread(target=kill_its_worker, daemon=True)
    killer.start()
    ours = study(budget="2 trials", steps=Steps(8, rungs=(2, 4)), policy=RoundRobin(width=2))
    train = regression(notes, sleep_in_the_third)
    result = ours.run(train, engine=Dask(client), workers=1)
    killer.join()
    assert [trial.state for trial in result.history] == ["done"] * 2
    for trial in result.history:
        expected = losses(trial.params["x"] / 20, 8)
        assert [point.value for point in trial.curve] == pytest.approx(expected)
    assert wait_until(lambda: not any(map(is_alive, notes.pids)))


@pytest.mark.slow
def test_a_training_that_waits_for_a_decision_can_be_killed(client, notes):
    """The tuner never decides: instead, the training must end."""
    job = replace(JOB, part=Part(0, 2, 8))
    asked = threading.Event()

    def on_report(message, usage):
        if message["step"] == 2:
            asked.set()

    allowance = Allowance(0.05, lambda usage: "it must end" if asked.is_set() else None, on_report)
    finished = engine(client, regression(notes)).run(job, allowance)
    assert finished.state == "killed"
    assert finished.error.startswith("it must end")
    assert len(finished.reports) == 2
    assert not any(map(is_alive, notes.pids))


@pytest.mark.slow
def test_a_folder_of_checkpoints_that_is_not_shared_is_refused(client, notes, tmp_path):
    job = replace(JOB, part=Part(0, 2, 8, checkpoint=tmp_path / "elsewhere"))
    with pytest.raises(InvalidInput, match="a folder that all machines"):
        engine(client, regression(notes)).run(job, Allowance(0.1, go_on))
    assert not notes.pids
