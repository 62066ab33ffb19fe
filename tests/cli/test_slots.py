"""The slot, the folder and the environment variables of trials."""

import json

import pytest

from farthing import Float, InvalidInput, Study
from farthing.policies import Random
from farthing.running import CommandTask
from farthing.stopping import MaxTrials

SCRIPT = 'echo "{\\"value\\": 1, \\"slot\\": \\"$FARTHING_SLOT\\", \\"gpu\\": \\"$GPU\\", '
SCRIPT += '\\"here\\": \\"$(pwd)\\"}"'
RUN = ["run", "--policy", "random", "--budget", "8 trials", "--param", "x=float:0:1"]


def rows(farthing, *where):
    result = farthing("trials", "--format", "json", *where)
    assert result.code == 0, result.err
    return json.loads(result.out)


@pytest.mark.slow
def test_each_worker_has_a_slot_and_its_variables(farthing):
    env = ["--slots", "a,b", "--slot-env", "GPU=gpu-{slot}"]
    result = farthing(*RUN, *env, "--", "sh", "-c", SCRIPT)
    assert result.code == 0, result.err
    trials = rows(farthing)
    assert len({row["worker"] for row in trials}) <= 2
    for row in trials:
        assert row["slot"] == row["metrics"]["slot"] in ("a", "b")
        assert row["metrics"]["gpu"] == f"gpu-{row['slot']}"
    by_worker = {(row["worker"], row["slot"]) for row in trials}
    assert len(by_worker) == len({row["worker"] for row in trials})


@pytest.mark.slow
def test_without_slots_they_are_numbered(farthing):
    assert farthing(*RUN, "--workers", "2", "--", "sh", "-c", SCRIPT).code == 0
    assert {row["slot"] for row in rows(farthing)} <= {"0", "1"}
    assert all(row["metrics"]["slot"] == row["slot"] for row in rows(farthing))


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--slots", "0,1", "--workers", "3"], "does not match the 2 slots of --slots"),
        (["--slots", "0,,1"], "expected numbers or names"),
        (["--env", "GPU"], "expected NAME=TEXT"),
        (["--env", "=1"], "expected NAME=TEXT"),
        (["--cwd", "nowhere"], "which is not on this machine"),
    ],
)
def test_invalid_worker_options(farthing, words, part):
    result = farthing(*RUN, *words, "--", "sh", "-c", SCRIPT)
    assert (result.code, result.out) == (2, "")
    assert part in result.err
    assert result.err.count("\n") == 1


@pytest.mark.slow
def test_a_file_names_folder_variables_and_slots(farthing, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "farthing.toml").write_text(
        "[run]\nbudget = '4 trials'\npolicy = 'random'\ncwd = 'sub'\nslots = [2, 3]\n"
        f"command = ['sh', '-c', {json.dumps(SCRIPT)}]\n"
        "[env]\nGPU = 'from the file {slot}'\n[params]\nx = 'float:0:1'\n"
    )
    assert farthing("run").code == 0
    for row in rows(farthing):
        assert row["slot"] in ("2", "3")
        assert row["metrics"]["here"] == str(tmp_path / "sub")
        assert row["metrics"]["gpu"] == f"from the file {row['slot']}"
    result = farthing("run", "--env", "GPU=from a word", "--env", "B=2", "--name", "b")
    assert result.code == 0
    assert {row["metrics"]["gpu"] for row in rows(farthing, "--name", "b")} == {"from a word"}


@pytest.mark.slow
def test_folder_and_variables_are_part_of_the_study(farthing, tmp_path, monkeypatch):
    """A worker that was started in another folder runs the command in the folder of the study."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "train.sh").write_text(SCRIPT)
    how = ["--cwd", "place", "--env", "GPU=mine", "--stop", "max_trials(2)"]
    run = ["run", "--policy", "random", "--budget", "8 trials", "--param", "x=float:0:1", *how]
    assert farthing(*run, "--", "sh", "train.sh").code == 0
    study = Study.open("farthing.db", "default")
    assert study.settings["cwd"] == str(place)
    assert study.settings["env"] == {"GPU": "mine"}
    study.close()
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    made = {"space": {"x": Float(0, 1)}, "policy": Random(), "command": ["sh", "train.sh"]}
    made |= {"cwd": str(place), "env": {"GPU": "mine"}, "stop": MaxTrials(4)}
    Study.create("../farthing.db", name="b", **made).close()
    where = ["../farthing.db", "b"]
    assert farthing("worker", *where, "--workers", "2").code == 0
    trials = rows(farthing, "--storage", *where[:1], "--name", "b")
    assert len(trials) == 4
    assert {row["metrics"]["here"] for row in trials} == {str(place)}
    assert {row["metrics"]["gpu"] for row in trials} == {"mine"}
    assert {row["slot"] for row in trials} <= {"0", "1"}
    result = farthing("worker", *where, "--cwd", ".")
    assert (result.code, result.out) == (2, "")
    assert f"There is no file 'train.sh' in '{other}'" in result.err


def test_a_missing_script_is_an_error_before_anything_is_created(farthing, tmp_path):
    result = farthing(*RUN, "--", "python", "train.py", "--x", "{x}")
    assert (result.code, result.out) == (2, "")
    assert f"There is no file 'train.py' in '{tmp_path}'" in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "is_missing"),
    [
        (["python", "no.py"], True),
        (["python3.11", "-u", "no.py", "{x}"], True),
        (["bash", "no.sh"], True),
        (["python", "-c", "print()", "no.py"], False),
        (["python", "-m", "json.tool", "no.py"], False),
        (
            ["python", "-W", "ignore", "no.py"],
            False,
        ),  # an option that takes a value hides the script
        (["echo", "no.py"], False),
        (["python", "--version", "no"], False),
    ],
)
def test_which_scripts_are_checked(tmp_path, argv, is_missing):
    from farthing.running import Job

    task = CommandTask(argv, cwd=tmp_path, env={"PATH": _path_with(tmp_path, argv[0])})
    job = Job({"x": 1}, 0, 0)
    if is_missing:
        with pytest.raises(InvalidInput, match="There is no file 'no"):
            task.check(job)
    else:
        task.check(job)
    for name in ("no.py", "no.sh"):
        (tmp_path / name).touch()
    task.check(job)


def _path_with(folder, program):
    (folder / program).write_text("")
    (folder / program).chmod(0o755)
    return str(folder)


@pytest.mark.slow
def test_functions_also_have_slots_variables_and_a_folder(tmp_path):
    import os

    from farthing import Outcome

    def objective(params):
        names = ("FARTHING_SLOT", "GPU")
        result = {name: os.environ[name] for name in names} | {"here": os.getcwd()}
        return Outcome(1.0, metrics=result)

    made = {"space": {"x": Float(0, 1)}, "policy": Random(), "stop": MaxTrials(4)}
    made |= {"env": {"GPU": "g{slot}"}, "cwd": str(tmp_path)}
    study = Study.create(tmp_path / "a.db", name="a", **made)
    study.run(objective, slots=[7, 8])
    for trial in study.history:
        assert trial.run.metrics["FARTHING_SLOT"] == trial.run.slot in ("7", "8")
        assert trial.run.metrics["GPU"] == f"g{trial.run.slot}"
        assert trial.run.metrics["here"] == str(tmp_path)
    assert "GPU" not in os.environ
    study.close()


@pytest.mark.parametrize("slots", ["01", [], [""], [1.5], [None]])
def test_invalid_slots(tmp_path, slots):
    study = Study.create(tmp_path / "a.db", name="a", space={"x": Float(0, 1)}, stop=MaxTrials(1))
    with pytest.raises(InvalidInput, match="expected a list of numbers or names"):
        study.run(lambda params: 1.0, slots=slots)
