"""`farthing import`, also before the first run, and `farthing run --try`."""

import json
import sys

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
SUMMARY = """Imported: 2 values, 1 failure, 1 killed trial, 1 cost without a value.
Ignored: 3 rows.
  row 6: it has neither a value nor a cost in usd.
  row 7: Parameter 'x': 7.0 is not a value of Float(low=0.0, high=1.0).
  row 8: the trial is running, so its cost is incomplete.
Columns without effect: colour.
"""
SETTINGS = ["--budget", "$9", "--policy", "random", "--param", "x=float:0:1"]


@pytest.fixture
def old(farthing, tmp_path):
    (tmp_path / "old.csv").write_text(OLD)
    return farthing


def trials(farthing, *where):
    return json.loads(farthing("trials", "--format", "json", *where).out)


@pytest.mark.slow
def test_import_before_the_first_run(old, printing):
    result = old("import", "old.csv", *SETTINGS)
    assert (result.code, result.err) == (0, "")
    assert [line.split(": ")[0] for line in result.out.splitlines()] == [
        line.split(": ")[0] for line in SUMMARY.splitlines()
    ]
    assert result.out.splitlines()[0] == SUMMARY.splitlines()[0]
    assert [row["state"] for row in trials(old)] == ["done", "done", "failed", "killed"]
    run = old("run", *SETTINGS, "--", *printing("{x}"))
    assert run.code == 0, run.err
    assert "Changed" not in run.out
    assert "Resuming study 'default' in farthing.db: 4 trials, $0.00 of $9.00 spent." in run.out
    rows = trials(old)
    assert len(rows) > 6
    assert rows[4]["predicted"]["usd"] > 0  # the cost model learnt from the file


@pytest.mark.slow
def test_import_before_the_first_run_from_a_file(old, tmp_path, printing):
    (tmp_path / "farthing.toml").write_text(
        f"[run]\nbudget = '$9'\npolicy = 'random'\ncommand = {json.dumps(printing('{x}'))}\n"
        "[params]\nx = 'float:0:1'\n"
    )
    assert old("import", "old.csv").code == 0
    assert "4 trials" in old("run").out


CONFIG = "[run]\nbudget = '$9'\npolicy = {policy!r}\n[params]\nx = 'float:0:1'\n"


def test_farthing_toml_calls_no_function(old, tmp_path):
    (tmp_path / "farthing.toml").write_text(CONFIG.format(policy="os:system('touch PWNED')"))
    for options in ([], ["--config", "farthing.toml"]):
        result = old("import", "old.csv", *options)
        assert result.code == 2
        assert "os:system('touch PWNED')" in result.err
        assert not (tmp_path / "PWNED").exists()
        assert not (tmp_path / "farthing.db").exists()


def test_import_runs_code_of_a_file_only_if_the_user_names_the_file(old, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "policy_of_import.py").write_text(
        "import pathlib\npathlib.Path('imported').touch()\n"
        "from farthing.policies import Cooling as Own\n"
    )
    (tmp_path / "farthing.toml").write_text(CONFIG.format(policy="policy_of_import:Own"))
    result = old("import", "old.csv")
    assert result.code == 2
    assert "name the file: --config farthing.toml" in " ".join(result.err.split())
    assert not (tmp_path / "imported").exists()
    assert old("import", "old.csv", "--policy", "random").code == 0
    assert old("import", "old.csv", "other", "--config", "farthing.toml").code == 0
    assert (tmp_path / "imported").exists()


def test_the_same_file_is_imported_only_once(old):
    old("import", "old.csv", *SETTINGS)
    result = old("import", "old.csv")
    assert result.code == 0
    assert result.out.startswith("Imported: nothing new.\nAlready imported: 5 rows.\n")
    assert len(trials(old)) == 4
    study = Study.open("farthing.db", "default")
    assert len(study._look().prices) == 1
    study.close()
    assert old("export", "-o", "ours.csv").code == 0
    result = old("import", "ours.csv")
    assert "Imported: nothing new." in result.out
    assert len(trials(old)) == 4


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x,score\n0.1,2\n", "bad.csv: There is no column 'value'; the columns are x, score."),
        ("x,value\n7,2\n", "bad.csv: No row can be imported. Row 1: "),
        ("x,value\n", "There is no column 'value'|No row can be imported"),
        (
            "y,value\n1,2\n",
            "it has no column for a parameter; the columns are y, value, the parameters are x",
        ),
    ],
)
def test_a_file_that_teaches_nothing_is_refused(old, tmp_path, text, part):
    (tmp_path / "bad.csv").write_text(text)
    assert old("import", "old.csv", *SETTINGS).code == 0
    result = old("import", "bad.csv")
    assert (result.code, result.out) == (2, "")
    assert any(each in result.err for each in part.split("|"))
    assert len(result.err.splitlines()) == 1
    assert len(trials(old)) == 4


def test_only_costs_of_a_file_without_values(old, tmp_path):
    (tmp_path / "costs.csv").write_text("x,cost\n0.1,2\n0.2,3\n")
    result = old("import", "costs.csv", *SETTINGS, "--no-values")
    assert result.out == "Imported: 2 costs without a value.\n"


def test_a_missing_study_is_not_created_without_parameters(old, tmp_path):
    result = old("import", "old.csv")
    assert (result.code, result.out) == (2, "")
    assert (
        "There is no study 'default' in farthing.db. To create it, give the --param" in result.err
    )
    assert not (tmp_path / "farthing.db").exists()
    assert "Without a budget" in old("import", "old.csv", "--param", "x=float:0:1").err
    old("import", "old.csv", *SETTINGS)
    result = old("import", "old.csv", "--budget", "$10")
    assert (result.code, result.out) == (2, "")
    assert "--budget has no effect" in result.err


def test_the_metric_names_the_value(farthing, tmp_path):
    (tmp_path / "old.csv").write_text("x,acc\n0.25,0.5\n0.5,0.75\n")
    made = ["--budget", "9 trials", "--param", "x=float:0:1", "--metric", "acc", "--maximize"]
    assert farthing("import", "old.csv", *made).out == "Imported: 2 values.\n"
    assert [row["value"] for row in trials(farthing)] == [0.5, 0.75]


# ── --try ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_points_of_try_come_first_and_once(farthing, printing):
    run = ["run", "--policy", "random", "--param", "x=float:0:1", "--param", "k=int:1:9"]
    tries = ["--try", "x=0.25,k=3", "--try", "k=7"]
    result = farthing(*run, *tries, "--budget", "3 trials", "--", *printing("{x}"), "{k}")
    assert result.code == 0, result.err
    rows = trials(farthing)
    assert rows[0]["params"] == {"x": 0.25, "k": 3}
    assert rows[1]["params"]["k"] == 7
    assert rows[1]["because"].startswith("enqueued by the user: k=7; the other parameters: ")
    farthing(*run, *tries, "--budget", "4 trials", "--", *printing("{x}"), "{k}")
    assert "asked for" not in trials(farthing)[3]["because"]
    farthing("run", "--budget", "+1 trials", "--try", "k=2")
    assert trials(farthing)[4]["params"]["k"] == 2


@pytest.mark.parametrize(
    ("tried", "part"),
    [
        ("y=1", "--try y=1: expected values of x"),
        ("x", "--try x: expected values of x"),
        ("x=2", "x"),
        ("x=much", "'much' is not a number"),
    ],
)
def test_an_invalid_point_of_try_is_an_error_of_one_line(farthing, printing, tried, part):
    run = ["run", "--policy", "random", "--param", "x=float:0:1", "--budget", "3 trials"]
    result = farthing(*run, "--try", tried, "--", *printing("{x}"))
    assert (result.code, result.out) == (2, "")
    assert part in result.err
    assert len(result.err.splitlines()) == 1
