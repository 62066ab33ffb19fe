"""Checkpoints within a limit: real files, deleted by the worker that finishes a part."""

import os
import signal

import pytest
from parts import FirstRung, RoundRobin
from processes import FOREVER

from farthing import Float, Steps, Study, minimize
from farthing.core.events import CheckpointsDeleted
from farthing.core.part_reasons import reasons_of
from farthing.running import checkpoints
from farthing.running.checkpoints import checkpoint_folder, delete_checkpoints

SPACE = {"lr": Float(0.1, 0.9)}
SIZE = 1000  # bytes of a checkpoint


def train(params, trial):
    """The value is lr^step. The checkpoint has its step in its name, and SIZE bytes."""
    saved = sorted(trial.checkpoint.iterdir(), key=lambda file: int(file.name))
    step = int(saved[-1].name) if saved else 0
    assert step == trial.step
    while True:
        step += 1
        if trial.report(step, params["lr"] ** step) != "continue":
            for file in saved:
                file.unlink()
            (trial.checkpoint / str(step)).write_bytes(b"x" * SIZE)
            return


def create(folder, policy, limit, budget="6 trials"):
    return Study.create(
        folder / "study.db",
        name="study",
        space=SPACE,
        budget=budget,
        policy=policy,
        steps=Steps(8, checkpoints=limit),
        lease=FOREVER,
    )


def sizes(study):
    folder = study.logs / "checkpoints"
    return {
        each.name: sum(file.stat().st_size for file in each.rglob("*") if file.is_file())
        for each in folder.iterdir()
    }


def test_the_best_fit_into_the_limit(tmp_path):
    study = create(tmp_path, FirstRung(), 3 * SIZE)
    study.run(train)
    by_value = sorted(study.history, key=lambda trial: trial.value)
    assert sizes(study) == {str(trial.number): SIZE for trial in by_value[:3]}
    assert [trial.starts_again for trial in by_value] == [False] * 3 + [True] * 3
    study.close()


def test_without_a_limit_all_are_kept(tmp_path):
    study = create(tmp_path, FirstRung(), None)
    study.run(train)
    assert len(sizes(study)) == 6
    study.close()


def test_a_training_without_its_checkpoint_starts_again_in_a_new_folder(tmp_path):
    """Only the checkpoint of the best one fits: the others train their steps once more."""
    study = create(tmp_path, RoundRobin(3), 1, budget="3 trials")
    result = study.run(train)
    assert {trial.state for trial in result.history} == {"done"}
    for trial in result.history:
        assert [point.step for point in trial.curve] == list(range(1, 9))
        assert [p.value for p in trial.curve] == pytest.approx(
            [trial.params["lr"] ** s for s in range(1, 9)]
        )
        resumed = [each.step for each in reasons_of(trial) if each.kind == "resumed"]
        if trial.number == result.best.number:
            assert 0 not in resumed[1:]
        else:
            assert set(resumed[1:]) == {0}
            assert trial.checkpoint_folder > 1
    study.close()


def test_a_training_is_resumed_only_where_its_checkpoint_is(tmp_path, capfd):
    def again(params, trial):
        file = trial.checkpoint / "state"
        step = int(file.read_text()) if file.exists() else 0
        assert step == trial.step
        while True:
            step += 1
            if trial.report(step, params["lr"] ** step) != "continue":
                file.write_text(str(step))
                return

    study = create(tmp_path, FirstRung(), None, budget="2 trials")
    study.run(again)
    folder = study.logs / "checkpoints"
    assert capfd.readouterr().err == ""
    (folder / "1").rename(tmp_path / "moved")
    study.change(policy=RoundRobin(2))
    result = study.run(again)
    assert [trial.state for trial in result.history] == ["done", "paused"]
    (line,) = capfd.readouterr().err.splitlines()  # it says so once
    assert line.startswith("The checkpoints of paused trainings (trial 1, ...) are not in ")
    assert str(folder) in line
    (tmp_path / "moved").rename(folder / "1")
    result = study.run(again)
    assert [trial.state for trial in result.history] == ["done", "done"]
    assert capfd.readouterr().err == ""
    study.close()


def test_minimize_has_the_same_limit():
    seen = []

    def watched(params, trial):
        folders = sorted(each.name for each in trial.checkpoint.parent.iterdir())
        seen.append(len(folders))
        train(params, trial)

    steps = Steps(8, checkpoints=f"{2 * SIZE} B")
    result = minimize(watched, SPACE, "6 trials", policy=FirstRung(), steps=steps)
    assert max(seen) == 3  # two that are kept, and that of the running training
    assert sum(not trial.starts_again for trial in result.history) == 2


def test_a_running_trial_keeps_its_checkpoint(tmp_path):
    study = create(tmp_path, FirstRung(), 0)
    trial = study.ask()
    folder = checkpoint_folder(study.logs / "checkpoints", trial)
    folder.mkdir(parents=True)
    (folder / "1").write_bytes(b"x" * SIZE)
    study.commit(CheckpointsDeleted((trial.number,)))
    assert not study.history[0].starts_again
    delete_checkpoints(study, study.current_settings, folder.parent)
    assert (folder / "1").exists()
    study.close()


def test_the_next_worker_completes_what_a_killed_one_began(tmp_path, monkeypatch):
    """A worker is killed after the study has given up the checkpoints, before the folders go."""
    study = create(tmp_path, FirstRung(), None)
    study.run(train)
    study.change(steps=Steps(8, checkpoints=SIZE))
    folder = study.logs / "checkpoints"
    stranger = folder / "notes"
    stranger.mkdir()
    child = os.fork()
    if child == 0:
        kill = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        monkeypatch.setattr(checkpoints.shutil, "rmtree", kill)
        delete_checkpoints(study, study.current_settings, folder)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    other = Study.open(tmp_path / "study.db", "study", policy=FirstRung())
    assert sum(trial.starts_again for trial in other.history) == 5
    assert len(sizes(other)) == 7
    for _ in range(2):  # twice is harmless
        delete_checkpoints(other, other.current_settings, folder)
        assert sorted(sizes(other)) == sorted([str(other.best.number), "notes"])
    other.close()
    study.close()


def test_a_suggestion_that_counted_on_a_deleted_checkpoint_is_made_again(tmp_path):
    study = create(tmp_path, RoundRobin(2), None)
    for _ in range(2):
        study.tell(study.ask(), 1.0)
    _ = study.verdict  # the suggestion to resume trial 0 is in the cache
    study.commit(CheckpointsDeleted((0,)))
    trial = study.ask()
    assert (trial.number, trial.run.since, trial.step, trial.until) == (0, 0, 1, 2)
    assert not trial.starts_again
    assert trial.checkpoint_folder == 1
    study.close()
