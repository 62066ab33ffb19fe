"""Failures of the machine: the trial is lost, the models ignore it, and it may run again."""

import math
import os
from dataclasses import replace

import pytest
from processes import FOREVER

from farthing import Ordinal, Outcome, Space, Study, minimize
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import believed
from farthing.errors import Infrastructure
from farthing.history import History
from farthing.policies import EI

ROWS = 7
SPACE = Space({"row": Ordinal(list(range(ROWS)))})
SETTINGS = {"policy": EI(), "failures_in_a_row": math.inf}


class Fragile:
    """Fails at the first evaluation of every configuration, in whichever process."""

    def __init__(self, folder, error):
        self.folder, self.error = folder, error

    def __call__(self, params):
        try:
            os.close(os.open(self.folder / str(params["row"]), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return Outcome((params["row"] - 2) ** 2, cost=0.5)
        raise self.error


class OwnError(Infrastructure):
    """A subclass that a user defines."""


def run(folder, error, workers):
    """Run `minimize` if `workers` is None, else a study with this number of workers."""
    seen = folder / "seen"
    seen.mkdir()
    objective = Fragile(seen, error)
    if workers is None:
        return minimize(objective, SPACE, "30 trials", **SETTINGS)
    return run_study(folder, objective, workers)


def run_study(folder, objective, workers, **settings):
    settings = {"space": SPACE, "budget": "30 trials", "lease": FOREVER, **SETTINGS, **settings}
    study = Study.create(folder / "a.db", name="a", **settings)
    try:
        return study.run(objective, workers=workers)
    finally:
        study.close()


def success_learnt(result, trials):
    settings = Settings.of(SPACE, "30 trials", **SETTINGS)
    return believed(settings, State(result.ledger, History(tuple(trials))), model=True).success


@pytest.mark.slow
@pytest.mark.parametrize("workers", [None, 1, 2, 4], ids=["minimize", "1", "2", "4"])
@pytest.mark.parametrize(
    "error", [Infrastructure("no GPU"), OwnError("no GPU")], ids=["ours", "own"]
)
def test_a_trial_that_failed_because_of_the_machine_is_lost_and_runs_again(
    workers, error, tmp_path
):
    result = run(tmp_path, error, workers)
    lost, done = result.history.having("lost"), result.history.done
    assert len(lost) + len(done) == len(result.history)
    assert {trial.error for trial in lost} == {"no GPU"}
    # Every row was lost once, and suggested again until it had a value.
    assert sorted(trial.params["row"] for trial in lost) == list(range(ROWS))
    assert sorted(trial.params["row"] for trial in done) == list(range(ROWS))
    assert result.best.params == {"row": 2}
    assert success_learnt(result, result.history) is None
    as_failed = [replace(trial, state="failed") for trial in lost]
    assert success_learnt(result, [*as_failed, *done]) is not None


@pytest.mark.slow
@pytest.mark.parametrize("workers", [None, 1, 2], ids=["minimize", "1", "2"])
def test_a_trial_that_failed_because_of_its_parameters_does_not_run_again(workers, tmp_path):
    result = run(tmp_path, ValueError("no such row"), workers)
    assert {trial.state for trial in result.history} == {"failed"}
    assert sorted(trial.params["row"] for trial in result.history) == list(range(ROWS))
    assert result.found is None


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_lost_trial_is_retried_before_another_is_suggested(workers, tmp_path):
    folder = tmp_path / "seen"
    folder.mkdir()
    result = run_study(tmp_path, Fragile(folder, Infrastructure("no GPU")), workers, retries=1)
    lost, done = result.history.having("lost"), result.history.done
    assert len(lost) == len(done) == ROWS
    assert [trial.run.attempt for trial in lost] == [1] * ROWS
    assert [trial.run.attempt for trial in done] == [2] * ROWS
    again = {f"repeats trial {trial.number}, which was lost" for trial in lost}
    assert {trial.because for trial in done} == again
