"""`farthing studies`, `rename`, `delete`, `drop`, `rerun`: what people do on the second day."""

import json

import pytest

from farthing import InvalidInput, StorageError, Study


def trials(farthing, *arguments):
    return json.loads(farthing("trials", "--format", "json", *arguments).out)


def test_the_studies_of_a_database(study, printing):
    more = ["--name", "b", "--maximize", "--param", "x=float:0:1", "--", *printing("{x}")]
    assert study("run", "--policy", "random", "--budget", "2 trials", *more).code == 0
    said = study("studies")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].split() == ["name", "made", "trials", "best", "spent", "state"]
    assert [line.split()[0] for line in lines[1:]] == ["default", "b"]
    assert "the budget of 3 trials is spent" in lines[1]
    found = json.loads(study("studies", "--format", "json").out)
    assert [each["trials"] for each in found] == [{"done": 3}, {"done": 2}]
    values = [row["value"] for row in trials(study, "--name", "b")]
    assert found[1]["best"] == max(values)
    assert found[0]["best"] == min(row["value"] for row in trials(study))
    assert found[1]["spent"] == {"trials": 2.0, "cost": 4.0}


def test_where_there_are_none(farthing, tmp_path):
    said = farthing("studies")
    assert (said.code, said.out) == (2, "")
    assert "There is no database 'farthing.db' here" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_study_gets_another_name(study):
    assert study("rename", "default", "svm").out == "Study 'default' is called 'svm' now.\n"
    assert len(trials(study, "--name", "svm")) == 3
    assert "no study 'default'" in study("trials").err
    said = study("rename", "svm", "svm")
    assert (said.code, "There is a study 'svm'" in said.err) == (2, True)
    assert study("rename", "none", "svm").code == 2
    assert study("rename", "svm", " ").code == 2


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("y\n", 0)])
def test_deleting_asks_first(study, answer, code, monkeypatch):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    said = study("delete", "default")
    assert said.code == code
    assert "Study 'default': 3 trials; 3 of 3 trials spent" in said.out
    assert "Delete it for good?" in said.out
    assert Study.names("farthing.db") == ([] if answer == "y\n" else ["default"])


def test_deleting_without_a_question(study, tmp_path):
    said = study("delete", "default", "--yes")
    logs = tmp_path / "farthing.db-logs" / "default"
    assert said.out == (
        f"Study 'default' is deleted.\nWhat its trials printed is still in {logs}.\n"
    )
    assert Study.names("farthing.db") == []
    assert study("delete", "default", "--yes").code == 2
    assert study("studies") == (0, "", "There are none.\n")


def test_everything_of_a_deleted_study_is_gone(url):
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
    with pytest.raises(StorageError, match="somebody has deleted it"):
        one.ask()
    assert len(two.history) == len(two.changes) == 1
    assert len(make("one").history) == 1
    one = Study.open(url, "one")
    one.rename("three")
    assert Study.names(url) == ["two", "three"]
    with pytest.raises(InvalidInput, match="There is a study 'two'"):
        one.rename("two")


def test_what_cost_nothing_is_dropped_without_a_word_of_it(farthing, quick):
    free = ["sh", "-c", 'echo "{\\"value\\": $0, \\"cost\\": 0}"', "{x}"]
    assert farthing("run", *quick, "--param", "x=float:0:1", "--", *free).code == 0
    assert farthing("drop", "1").out == "Nothing is learnt any more from trial 1.\n"


def test_a_trial_is_dropped(study):
    best = json.loads(study("best", "--format", "json").out)["number"]
    said = study("drop", str(best))
    assert said.out == (
        f"Nothing is learnt any more from trial {best}. It has cost 2, which stays spent.\n"
    )
    assert json.loads(study("best", "--format", "json").out)["number"] != best
    row = trials(study)[best]
    assert (row["state"], row["value"], row["cost"]) == ("lost", None, {"cost": 2.0})
    assert f"trial {best} done with" in study("status").out
    said = study("drop", str(best))
    assert (said.code, said.err) == (2, f"Error: Trial {best} was dropped already.\n")
    assert study("drop", "99").err == "Error: There is no trial 99: the study has 0 to 2.\n"


def test_a_trial_is_run_again(study):
    said = study("rerun", "1", "0")
    assert said.out == "To be run again: trial 1, 0; 2 trials in the queue.\n"
    assert "waiting:" in study("status").out
    study("run", "--budget", "+2 trials")
    rows = trials(study)
    assert [row["params"] for row in rows[3:]] == [rows[1]["params"], rows[0]["params"]]
    assert rows[3]["because"] == "trial 1 again, because it was asked for"
    assert "waiting" not in study("status").out
    assert study("rerun", "99").code == 2
