"""What a training has reported survives the death of its worker."""

import os
import signal
import sys
import time

import pytest
from parts import Greedy, RoundRobin
from processes import FOREVER, wait_until

from farthing import Float, Steps, Study
from farthing.core.events import Recovered, Returned
from farthing.history import CurvePoint
from farthing.running import CommandTask
from farthing.running.journal import append, journals_in, read_journal, with_usage
from farthing.running.worker import Place, _recover

SPACE = {"lr": Float(0.1, 0.9)}
PROGRAM = """
import json, time
for step in range(1, 4):
    print(json.dumps({"step": step, "value": 1.0 / step}), flush=True)
open("reported", "w").close()
time.sleep(1800)
"""


def train(params, trial):
    for step in range(1, 4):
        trial.report(step, 1.0 / step, cost={"usd": float(step)})
    open("reported", "w").close()
    time.sleep(FOREVER)


def create(folder, **settings):
    given = {"policy": Greedy(), "budget": "$100", "steps": Steps(8, first=8), **settings}
    return Study.create(folder / "study.db", name="study", space=SPACE, grace=0.1, **given)


def points(*steps):
    return tuple(CurvePoint(step, 1.0 / step, {"usd": float(step)}) for step in steps)


@pytest.mark.parametrize("task", [train, CommandTask([sys.executable, "-S", "-c", PROGRAM])])
def test_values_survive_a_worker_that_never_stored_them(task, tmp_path, monkeypatch):
    """The worker is killed before its first tick."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("farthing.running.worker.TICK", (FOREVER, FOREVER))
    worker = os.fork()
    if worker == 0:
        try:
            create(tmp_path, lease=FOREVER).run(task)
        finally:
            os._exit(1)
    assert wait_until((tmp_path / "reported").exists)
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    study = Study.open(tmp_path / "study.db", "study", policy=Greedy())
    assert study.trials[0].curve == ()
    study.commit(Returned(0, "as if its lease had expired"))
    settings, _ = study.facts

    def is_recovered():
        _recover(study, settings, Place(logs=study.logs))
        return len(study.trials[0].curve) == 3

    assert wait_until(is_recovered)  # the supervisor may still be saving
    assert study.trials[0].state == "lost"
    assert [point[:2] for point in study.trials[0].curve] == [(1, 1.0), (2, 0.5), (3, 1 / 3)]
    assert journals_in(study.logs) == []


def paused(tmp_path):
    """A study with a training that is paused at step 2 and has cost two dollars."""
    study = create(tmp_path, policy=RoundRobin(1), steps=Steps(8))
    for until in (1, 2):
        trial = study.ask()
        assert trial.until == until
        study.tell(trial, 1.0 / until, cost=1.0)
    return study


def test_recovered_points_are_added_once_and_charged_once(tmp_path):
    study = paused(tmp_path)
    trial = study.trials[0]
    event = Recovered(0, trial.run.asked_at, points(3, 4))
    for _ in range(2):
        study.commit(event)
        found = study.trials[0]
        assert [point.step for point in found.curve] == [1, 2, 3, 4]
        assert found.cost == {"usd": 5.0}  # one dollar before this part, and four in it
        assert study.ledger["usd"].spent == 5.0
        assert found.value == 0.25
    again = Study.open(tmp_path / "study.db", "study", look=True)
    assert again.trials[0].curve == study.trials[0].curve


def test_points_are_inserted_before_those_of_a_later_part(tmp_path):
    """A checkpoint may be newer than what the worker had stored."""
    study = paused(tmp_path)
    lost = study.trials[0].run.asked_at
    trial = study.ask()
    study.tell(trial, 0.1, cost=1.0, step=4)
    reader = Study.open(tmp_path / "study.db", "study", look=True)
    assert [point.step for point in reader.trials[0].curve] == [1, 2, 4]
    spent = study.ledger["usd"].spent
    study.commit(Recovered(0, lost, points(2, 3)))
    for each in (study, reader, Study.open(tmp_path / "study.db", "study", look=True)):
        curve = each.trials[0].curve
        assert [point.step for point in curve] == [1, 2, 3, 4]
        assert curve[1].value == 0.5
        assert curve[2].cost == curve[1].cost
    assert study.ledger["usd"].spent == spent  # that part was charged when it was lost


def test_a_lost_training_that_had_reported_its_last_step_is_done(tmp_path):
    study = paused(tmp_path)
    study.commit(Recovered(0, study.trials[0].run.asked_at, points(3, 4, 5, 6, 7, 8)))
    assert (study.trials[0].state, study.trials[0].value) == ("done", 0.125)


def test_a_journal_is_read_with_its_usage(tmp_path):
    journal = tmp_path / "reports" / "3-12.5.jsonl"
    append(journal, [{"step": 1}])  # without the folder there is no journal
    assert journals_in(tmp_path) == []
    journal.parent.mkdir()
    append(journal, [with_usage({"step": 1, "value": 2.0, "cost": 3.0}, 0.5, 0.25)])
    with journal.open("a") as file:  # by the supervisor
        file.write('{"step": 2, "value": 1.0}\nnot a message\n{"step": 3, "val')
    assert journals_in(tmp_path) == [(3, 12.5, journal)]
    (first, used), (second, later) = read_journal(journal).messages
    assert (first["value"], second["value"]) == (2.0, 1.0)
    assert used == later
    assert (used.wall_s, used.cpu_s, used.reported) == (0.5, 0.25, {"": 3.0})
    journal.unlink()
    assert read_journal(journal).messages == []
