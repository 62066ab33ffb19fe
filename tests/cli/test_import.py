"""Known starts: `farthing import`, also before the first run, and `farthing run --try`."""

import json

import pytest

from farthing import Study

OLD = """x,value,cost,state,error,colour
0.1,1.5,2,,,red
0.2,1.25,3,done,,red
0.3,,4,failed,it diverged,red
0.4,,5,killed,,red
0.5,,6,,,red
0.6,,,,,red
7,1.0,1,,,red
0.8,,1,running,,red
"""
SAID = """Taken in: 2 values, 1 failure, 1 killed trial, 1 price.
Ignored: 3 rows.
  row 6: it has neither a value nor a cost in usd.
  row 7: Parameter 'x': 7.0 is not a value of Float(low=0.0, high=1.0).
  row 8: it is running, and what it cost is only a part.
Columns that nothing reads: colour.
"""
MADE = ["--budget", "$9", "--policy", "random", "--param", "x=float:0:1"]


@pytest.fixture
def old(farthing, tmp_path):
    (tmp_path / "old.csv").write_text(OLD)
    return farthing


def trials(farthing, *where):
    return json.loads(farthing("trials", "--format", "json", *where).out)


def test_import_before_the_first_run(old, printing):
    said = old("import", "old.csv", *MADE)
    assert (said.code, said.err) == (0, "")
    assert [line.split(": ")[0] for line in said.out.splitlines()] == [
        line.split(": ")[0] for line in SAID.splitlines()
    ]
    assert said.out.splitlines()[0] == SAID.splitlines()[0]
    assert [row["state"] for row in trials(old)] == ["done", "done", "failed", "killed"]
    run = old("run", *MADE, "--", *printing("{x}"))
    assert run.code == 0, run.err
    assert "Changed" not in run.out
    assert (
        "Going on with study 'default' in farthing.db: 4 trials, $0.00 of $9.00 spent." in run.out
    )
    rows = trials(old)
    assert len(rows) > 6
    assert rows[4]["predicted"]["usd"] > 0  # costs were learnt from the file


def test_import_before_the_first_run_from_a_file(old, tmp_path, printing):
    (tmp_path / "farthing.toml").write_text(
        f"[run]\nbudget = '$9'\npolicy = 'random'\ncommand = {json.dumps(printing('{x}'))}\n"
        "[params]\nx = 'float:0:1'\n"
    )
    assert old("import", "old.csv").code == 0
    assert "4 trials" in old("run").out


def test_the_same_file_is_taken_in_only_once(old):
    old("import", "old.csv", *MADE)
    said = old("import", "old.csv")
    assert said.code == 0
    assert said.out.startswith("Taken in: nothing new.\nHere already: 5 rows.\n")
    assert len(trials(old)) == 4
    study = Study.open("farthing.db", "default")
    assert len(study._look().prices) == 1
    study.close()
    assert old("export", "-o", "ours.csv").code == 0
    said = old("import", "ours.csv")
    assert "Taken in: nothing new." in said.out
    assert len(trials(old)) == 4


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x,score\n0.1,2\n", "bad.csv: There is no column 'value'; the columns are x, score."),
        ("x,value\n7,2\n", "bad.csv: No row of 1 teaches anything. The first: row 1: "),
        ("x,value\n", "There is no column 'value'|No row of 0"),
        ("y,value\n1,2\n", "no parameter is there; the columns are y, value, the parameters x"),
    ],
)
def test_a_file_that_teaches_nothing_is_refused(old, tmp_path, text, part):
    (tmp_path / "bad.csv").write_text(text)
    assert old("import", "old.csv", *MADE).code == 0
    said = old("import", "bad.csv")
    assert (said.code, said.out) == (2, "")
    assert any(each in said.err for each in part.split("|"))
    assert len(said.err.splitlines()) == 1
    assert len(trials(old)) == 4


def test_only_costs_of_a_file_without_values(old, tmp_path):
    (tmp_path / "costs.csv").write_text("x,cost\n0.1,2\n0.2,3\n")
    said = old("import", "costs.csv", *MADE, "--no-values")
    assert said.out == "Taken in: 2 prices.\n"


def test_a_study_that_is_not_there_is_not_guessed(old, tmp_path):
    said = old("import", "old.csv")
    assert (said.code, said.out) == (2, "")
    assert "There is no study 'default' in farthing.db yet. Say what it is made of" in said.err
    assert not (tmp_path / "farthing.db").exists()
    assert "Without a budget" in old("import", "old.csv", "--param", "x=float:0:1").err
    old("import", "old.csv", *MADE)
    said = old("import", "old.csv", "--budget", "$10")
    assert (said.code, said.out) == (2, "")
    assert "--budget would be read by nothing" in said.err


def test_the_metric_names_the_value(farthing, tmp_path):
    (tmp_path / "old.csv").write_text("x,acc\n0.25,0.5\n0.5,0.75\n")
    made = ["--budget", "9 trials", "--param", "x=float:0:1", "--metric", "acc", "--maximize"]
    assert farthing("import", "old.csv", *made).out == "Taken in: 2 values.\n"
    assert [row["value"] for row in trials(farthing)] == [0.5, 0.75]


# ── --try ──────────────────────────────────────────────────────────────────────────────────────


def test_what_is_tried_comes_first_and_once(farthing, printing):
    run = ["run", "--policy", "random", "--param", "x=float:0:1", "--param", "k=int:1:9"]
    tries = ["--try", "x=0.25,k=3", "--try", "k=7"]
    said = farthing(*run, *tries, "--budget", "3 trials", "--", *printing("{x}"))
    assert said.code == 0, said.err
    rows = trials(farthing)
    assert rows[0]["params"] == {"x": 0.25, "k": 3}
    assert rows[1]["params"]["k"] == 7
    assert rows[1]["because"].startswith("it was asked for: k=7; the rest is ")
    farthing(*run, *tries, "--budget", "4 trials", "--", *printing("{x}"))
    assert "asked for" not in trials(farthing)[3]["because"]
    farthing("run", "--budget", "+1 trials", "--try", "k=2")
    assert trials(farthing)[4]["params"]["k"] == 2


@pytest.mark.parametrize(
    ("tried", "part"),
    [
        ("y=1", "--try y=1: expected values of x"),
        ("x", "--try x: expected values of x"),
        ("x=2", "x"),
        ("x=much", "'much': expected a number"),
    ],
)
def test_what_cannot_be_tried_is_one_sentence(farthing, printing, tried, part):
    run = ["run", "--policy", "random", "--param", "x=float:0:1", "--budget", "3 trials"]
    said = farthing(*run, "--try", tried, "--", *printing("{x}"))
    assert (said.code, said.out) == (2, "")
    assert part in said.err
    assert len(said.err.splitlines()) == 1
