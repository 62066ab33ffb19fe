"""`farthing studies`, `rename`, `delete`, `drop` and `rerun`."""

import json

import pytest

from farthing import InvalidInput, StorageError, Study


def trials(farthing, *arguments):
    return json.loads(farthing("trials", "--format", "json", *arguments).out)


@pytest.mark.slow
def test_the_studies_of_a_database(study, printing):
    more = ["--name", "b", "--maximize", "--param", "x=float:0:1", "--", *printing("{x}")]
    assert study("run", "--policy", "random", "--budget", "2 trials", *more).code == 0
    result = study("studies")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].split() == ["name", "created", "trials", "best", "spent", "state"]
    assert [line.split()[0] for line in lines[1:]] == ["default", "b"]
    assert "the budget of 3 trials is spent" in lines[1]
    found = json.loads(study("studies", "--format", "json").out)
    assert [each["trials"] for each in found] == [{"done": 3}, {"done": 2}]
    values = [row["value"] for row in trials(study, "--name", "b")]
    assert found[1]["best"] == max(values)
    assert found[0]["best"] == min(row["value"] for row in trials(study, "default"))
    assert found[1]["spent"] == {"trials": 2.0, "cost": 4.0}


def test_a_missing_database_is_an_error(farthing, tmp_path):
    result = farthing("studies")
    assert (result.code, result.out) == (2, "")
    assert "There is no database 'farthing.db' here" in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_study_is_renamed(study):
    assert study("rename", "default", "svm").out == "Renamed study 'default' to 'svm'.\n"
    assert len(trials(study, "svm")) == 3
    assert "no study 'default'" in study("trials", "default").err
    result = study("rename", "svm", "svm")
    assert (result.code, "There is already a study 'svm'" in result.err) == (2, True)
    assert study("rename", "none", "svm").code == 2
    assert study("rename", "svm", " ").code == 2


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("y\n", 0)])
def test_deleting_asks_for_confirmation(study, answer, code, monkeypatch):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    result = study("delete", "default")
    assert result.code == code
    assert "Study 'default': 3 trials; 3 of 3 trials spent" in result.out
    assert "Delete it permanently?" in result.out
    assert Study.names("farthing.db") == ([] if answer == "y\n" else ["default"])


def test_deleting_without_confirmation(study, tmp_path):
    result = study("delete", "default", "--yes")
    logs = tmp_path / "farthing.db-logs" / "default"
    assert result.out == (
        f"Deleted study 'default'.\nThe output of its trials is still in {logs}.\n"
    )
    assert Study.names("farthing.db") == []
    assert study("delete", "default", "--yes").code == 2
    assert study("studies") == (0, "", "Nothing to show.\n")


def test_deleting_removes_everything_of_a_study(url):
    from farthing import Float

    def make(name):
        made = Study.create(url, name=name, space={"x": Float(0, 1)}, budget="9 trials")
        made.tell(made.ask(), 1.0)
        made.import_trials([{"x": 0.5, "cost": 2.0}], values=False)
        made.change(budget="+1 trials")
        return made

    one, two = make("one"), make("two")
    one.delete()
    assert Study.names(url) == ["two"]
    with pytest.raises(StorageError, match="It was deleted"):
        one.ask()
    assert len(two.history) == len(two.changes) == 1
    assert len(make("one").history) == 1
    one = Study.open(url, "one")
    one.rename("three")
    assert Study.names(url) == ["two", "three"]
    with pytest.raises(InvalidInput, match="There is already a study 'two'"):
        one.rename("two")


def test_dropping_a_free_trial_prints_no_cost(farthing, quick):
    free = ["sh", "-c", 'echo "{\\"value\\": $0, \\"cost\\": 0}"', "{x}"]
    assert farthing("run", *quick, "--param", "x=float:0:1", "--", *free).code == 0
    assert farthing("drop", "1").out == ("Dropped trial 1. The models no longer learn from it.\n")


@pytest.mark.parametrize("command", ["drop", "rerun"])
def test_the_trials_to_edit_must_be_named(farthing, command):
    result = farthing(command)
    assert (result.code, result.out) == (2, "")
    assert "Missing argument 'NUMBER... [NAME]'" in result.err


@pytest.mark.slow
def test_a_trial_is_dropped(study):
    best = json.loads(study("best", "--format", "json").out)["number"]
    result = study("drop", str(best))
    assert result.out == (
        f"Dropped trial {best}. The models no longer learn from it. Its cost of 2 stays spent.\n"
    )
    assert json.loads(study("best", "--format", "json").out)["number"] != best
    row = trials(study)[best]
    assert (row["state"], row["value"], row["cost"]) == ("lost", None, {"cost": 2.0})
    assert f"trial {best} done with" in study("status").out
    result = study("drop", str(best))
    assert (result.code, result.err) == (2, f"Error: Trial {best} is already dropped.\n")
    assert study("drop", "99").err == "Error: There is no trial 99: the study has trials 0 to 2.\n"


@pytest.mark.slow
def test_a_trial_is_run_again(study):
    result = study("rerun", "1", "0")
    assert result.out == "Queued again: trial 1, 0. The queue has 2 trials.\n"
    assert "waiting:" in study("status").out
    study("run", "--budget", "+2 trials")
    rows = trials(study)
    assert [row["params"] for row in rows[3:]] == [rows[1]["params"], rows[0]["params"]]
    assert rows[3]["because"] == "repeats trial 1, as requested"
    assert "waiting" not in study("status").out
    assert study("rerun", "99").code == 2
