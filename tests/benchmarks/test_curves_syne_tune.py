"""Syne Tune's schedulers on recorded learning curves: how they are driven and what they pay."""

from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.evidence import curves, curves_syne_tune
from benchmarks.evidence.curves_simulator import Account
from benchmarks.problems.curve_tables import CurveTable
from farthing import Float, Space


@pytest.fixture
def table():
    """Five configurations with three steps; the second one diverges at its second step."""
    rows = [{"a": a} for a in (0.0, 0.2, 0.4, 0.6, 0.8)]
    values = np.array([[3.0, 2, 1]] * 5) + np.arange(5)[:, None]
    values[1, 1:] = np.nan
    return CurveTable("toy", Space.from_rows(rows, {"a": Float(0, 1)}), values, np.full(5, 2.0))


class Scheduler:
    """Starts at the given points and pauses each training after its first step; then resumes 0."""

    def __init__(self, points):
        self.points, self.told = list(points), []

    def suggest(self, trial_id):
        if self.points:
            config = {"x0": self.points.pop(0), "last_step": 1}
            return SimpleNamespace(spawn_new_trial_id=True, config=config)
        if ("remove", 0) in self.told and ("result", 0, 3) not in self.told:
            config = {"x0": 0.0, "last_step": 3}
            return SimpleNamespace(spawn_new_trial_id=False, checkpoint_trial_id=0, config=config)
        return None

    def on_trial_add(self, trial):
        self.told.append(("add", trial.trial_id))

    def on_trial_result(self, trial, result):
        self.told.append(("result", trial.trial_id, result["step"]))
        if trial.config["last_step"] == 1 and trial.trial_id == 0:
            return "PAUSE"
        return "STOP" if trial.trial_id == 2 else "CONTINUE"

    def on_trial_remove(self, trial):
        self.told.append(("remove", trial.trial_id))

    def on_trial_error(self, trial):
        self.told.append(("error", trial.trial_id))

    def on_trial_complete(self, trial, result):
        self.told.append(("complete", trial.trial_id))


@pytest.fixture
def trials(monkeypatch):
    monkeypatch.setattr(
        curves_syne_tune,
        "_trial",
        lambda number, config: SimpleNamespace(trial_id=number, config=config),
    )


def test_trainings_pause_resume_fail_stop_and_end(table, trials):
    account = Account(table, 100.0, "best")
    scheduler = Scheduler([0.0, 0.2, 0.41])
    assert curves_syne_tune.drive(scheduler, account)[:2] == (3, 4)
    assert scheduler.told == [
        *(("add", 0), ("result", 0, 1), ("remove", 0)),
        *(("add", 1), ("result", 1, 1), ("error", 1)),  # diverges at step 2
        *(("add", 2), ("result", 2, 1), ("remove", 2)),
        *(("result", 0, 2), ("result", 0, 3), ("complete", 0)),  # resumed, not started again
    ]
    assert account.spent == 2.0 * (1 + 2 + 1 + 2)
    assert account.best == 1.0


def test_a_point_becomes_the_nearest_free_row(table, trials):
    account = Account(table, 100.0, "best")
    curves_syne_tune.drive(Scheduler([0.41, 0.41, 0.41]), account)
    assert account.best == table.curves[2:4].min()  # rows 2, 3 and 1


def test_the_budget_ends_a_training(table, trials):
    account = Account(table, 7.0, "best")
    scheduler = Scheduler([0.4, 0.6, 0.8])
    assert curves_syne_tune.drive(scheduler, account)[0] == 2
    assert account.spent == 7.0
    assert [each for each in scheduler.told if each[0] == "result"] == [
        ("result", 0, 1),
        ("result", 1, 1),
        ("result", 1, 2),
    ]


@pytest.mark.skipif(find_spec("syne_tune") is None, reason="needs .venv-synetune")
@pytest.mark.parametrize("name", curves.SYNE_TUNE)
def test_the_library(table, name):
    account = Account(table, 4 * table.median_cost, "best")
    trials, parts, _ = curves_syne_tune.drive(
        curves_syne_tune.scheduler_of(name, table, 1), account
    )
    assert 1 <= trials <= 5
    assert parts >= trials
    assert 0 < account.spent <= account.budget


@pytest.mark.skipif(find_spec("syne_tune") is not None, reason="the library is installed")
def test_without_the_library_the_command_says_what_to_do(capsys):
    with pytest.raises(SystemExit):
        curves.main(["--methods", "Syne Tune BOHB"])
    assert "curves_syne_tune.py" in capsys.readouterr().err
