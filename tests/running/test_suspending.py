"""Trainings that are paused by stopping their processes."""

import os
import signal
import sys
import time

import pytest
from parts import FirstRung, RoundRobin
from processes import FOREVER, is_alive, wait_until

from farthing import Float, InvalidInput, Steps, Study, minimize
from farthing.core.checkpoint_order import least_promising
from farthing.running import CommandTask, suspending

SPACE = {"lr": Float(0.1, 0.9)}
# It knows nothing of checkpoints: it prints a step, and waits for the next one to be allowed.
PROGRAM = """
import json, os, time
with open("started", "a") as file:
    file.write(f"{os.environ['FARTHING_TRIAL']} {os.getpid()}\\n")
lr, until = json.loads(os.environ["FARTHING_PARAMS"])["lr"], 1
for step in range(1, 9):
    print(json.dumps({"step": step, "value": lr**step, "cost": {"usd": float(step)}}), flush=True)
    while until <= step < 8:
        time.sleep(0.001)
        until = int(open(os.environ["FARTHING_CONTINUE"]).read())
"""


def train(params, trial):
    with open("started", "a") as file:
        file.write(f"{trial.number} {os.getpid()}\n")
    for step in range(1, 9):
        if trial.report(step, params["lr"] ** step, cost={"usd": float(step)}) != "continue":
            return


def create(folder, policy, budget="3 trials, $1000", **settings):
    given = {"steps": Steps(8, resume="suspend"), "grace": 0.5, "lease": FOREVER, **settings}
    return Study.create(
        folder / "study.db", name="study", space=SPACE, policy=policy, budget=budget, **given
    )


def started():
    with open("started") as file:
        return [tuple(map(int, line.split())) for line in file]


@pytest.mark.parametrize("task", [train, CommandTask([sys.executable, "-S", "-c", PROGRAM])])
def test_a_suspended_training_goes_on_in_its_process(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = create(tmp_path, RoundRobin(3))
    began = time.monotonic()
    study.run(task)
    elapsed = time.monotonic() - began
    assert [number for number, _ in started()] == [0, 1, 2]  # none has started again
    for trial in study.trials:
        assert trial.state == "done"
        assert [point.step for point in trial.curve] == list(range(1, 9))
        assert trial.run.since == 4  # the last of four parts
        assert trial.cost["usd"] == 8.0  # though the process goes on counting
        assert trial.curve[-1].cost["usd"] == 8.0
    assert study.ledger["usd"].spent == 24.0
    # One of them runs at a time, and the others cost nothing meanwhile.
    assert sum(trial.run.run_s for trial in study.trials) <= elapsed
    assert not any(is_alive(pid) for _, pid in started())


def test_several_workers_have_their_own_trainings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = create(tmp_path, policy=None, budget="6 trials, $1000")
    study.run(train, workers=2)
    assert len(started()) == len({number for number, _ in started()})
    assert all(trial.state in ("done", "paused") for trial in study.trials)
    assert any(trial.state == "done" for trial in study.trials)
    assert not any(is_alive(pid) for _, pid in started())


def test_no_suspended_process_survives_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = create(tmp_path, FirstRung())
    study.run(train)
    assert [trial.state for trial in study.trials] == ["paused"] * 3
    assert not any(is_alive(pid) for _, pid in started())


def test_no_suspended_process_survives_its_worker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ready = tmp_path / "ready"

    def train_or_hang(params, trial):
        if trial.number == 2:  # the others are suspended
            ready.touch()
            time.sleep(FOREVER)
        train(params, trial)

    worker = os.fork()
    if worker == 0:
        try:
            create(tmp_path, FirstRung()).run(train_or_hang)
        finally:
            os._exit(1)
    assert wait_until(ready.exists)
    pids = [pid for _, pid in started()]
    assert len(pids) == 2
    assert all(map(is_alive, pids))
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    assert wait_until(lambda: not any(map(is_alive, pids)))


def test_beyond_the_limit_the_least_promising_one_is_ended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = create(tmp_path, RoundRobin(3), steps=Steps(8, resume="suspend", suspended=1))
    study.run(train)
    assert len(started()) > 3  # those that were ended have started again
    assert [trial.state for trial in study.trials] == ["done"] * 3
    assert not any(is_alive(pid) for _, pid in started())


def test_the_least_promising_training_has_the_worst_value(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = create(tmp_path, FirstRung())
    study.run(train)
    settings, state = study.facts
    worst = max(study.trials, key=lambda trial: trial.curve[-1].value)
    assert least_promising(settings, state.history, range(3)) == worst.number


@pytest.mark.parametrize(("available", "is_low"), [(99, True), (101, False)])
def test_little_memory_is_noticed(tmp_path, monkeypatch, available, is_low):
    (tmp_path / "meminfo").write_text(f"MemTotal: 1000 kB\nMemAvailable: {available} kB\n")
    monkeypatch.setattr(suspending, "MEMORY", str(tmp_path / "meminfo"))
    assert suspending.is_memory_low() is is_low


def test_without_information_memory_is_not_low(monkeypatch):
    monkeypatch.setattr(suspending, "MEMORY", "/nowhere")
    assert not suspending.is_memory_low()


def test_a_training_in_this_process_cannot_be_suspended():
    with pytest.raises(InvalidInput, match="processes of their own"):
        minimize(train, SPACE, "3 trials", steps=Steps(8, resume="suspend"))


def test_settings_that_have_no_effect_are_refused():
    with pytest.raises(InvalidInput, match='has no effect without resume="suspend"'):
        Steps(8, suspended=3)
    with pytest.raises(InvalidInput, match='has no effect with resume="suspend"'):
        Steps(8, resume="suspend", checkpoints="1GB")
    with pytest.raises(InvalidInput, match="expected a whole number of trainings"):
        Steps(8, resume="suspend", suspended=0)
