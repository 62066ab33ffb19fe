"""The output, metrics and progress of trials: kept, exported and shown."""

import csv
import io
import json
import os
import sqlite3
import sys

import pytest

from farthing import Study
from farthing.cli import entry
from farthing.errors import FarthingError

SCRIPT = """
echo "slot $FARTHING_SLOT"
echo "on stderr" >&2
echo '{"step": 1, "value": 9, "learning": 0.5}'
if [ "$FARTHING_TRIAL" = 1 ]; then echo "last message" >&2; exit 3; fi
echo '{"value": 2, "accuracy": 0.75}'
"""


@pytest.fixture
def printed(farthing, quick):
    """Three trials that print, of which the second fails."""
    result = farthing("run", *quick, "--param", "x=float:0:1", "--", "sh", "-c", SCRIPT)
    assert result.code == 0, result.err
    return farthing


def data(result):
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_logs_prints_what_a_trial_printed_and_where_that_is(printed, tmp_path):
    result = printed("logs", "0")
    assert result.code == 0
    lines = result.out.splitlines()
    lines.remove("on stderr")  # its position may vary
    assert lines == [
        "slot 0",
        '{"step": 1, "value": 9, "learning": 0.5}',
        '{"value": 2, "accuracy": 0.75}',
    ]
    path = tmp_path / "farthing.db-logs" / "default" / "0.log"
    assert result.err == f"{path}:\n"
    assert path.read_text() == result.out
    assert str(path.parent) in printed("status").out
    assert str(path) in printed("explain", "0").out


def test_a_trial_that_does_not_exist(printed):
    result = printed("logs", "3")
    assert (result.code, result.out) == (2, "")
    assert "There is no trial 3: the study has 0 to 2." in result.err


def test_a_missing_file_leaves_the_last_lines(printed, tmp_path):
    os.remove(tmp_path / "farthing.db-logs" / "default" / "1.log")
    result = printed("logs", "1")
    assert result.code == 0
    assert "last message" in result.out.splitlines()
    assert "1.log, which is missing.\nIts last lines:\n" in result.err


def test_a_folder_that_was_moved_with_its_database(printed, tmp_path, monkeypatch):
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("farthing.db", "farthing.db-logs"):
        (tmp_path / name).rename(moved / name)
    result = printed("logs", "0", "--storage", str(moved / "farthing.db"))
    assert result.code == 0
    assert "slot 0" in result.out


def store_log_path(path, folder=None):
    """Change the log path of trial 0 in the database, and perhaps the folder of logs."""
    base = sqlite3.connect("farthing.db")
    with base:
        base.execute("UPDATE farthing_trials SET log = ? WHERE number = 0", [str(path)])
        if folder is not None:
            (text,) = base.execute("SELECT settings FROM farthing_studies").fetchone()
            settings = json.dumps({**json.loads(text), "logs": str(folder)})
            base.execute("UPDATE farthing_studies SET settings = ?", [settings])
    base.close()


HOSTILE = {
    "any file": lambda folder: folder / "private" / "key",
    "any file of that name": lambda folder: folder / "private" / "0.log",
    "up again": lambda folder: folder / "farthing.db-logs" / ".." / "0.log",
    "a link": lambda folder: folder / "farthing.db-logs" / "default" / "0.log",
    "another trial's": lambda folder: folder / "farthing.db-logs" / "default" / "1.log",
    "no path": lambda folder: f"{folder}/farthing.db-logs/a\0b/0.log",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", HOSTILE)
def test_a_database_cannot_name_a_file_to_read(printed, tmp_path, how):
    """Neither by a path, nor by a link that was sent with the database."""
    (tmp_path / "private").mkdir()
    for secret in ("private/key", "private/0.log", "0.log", "farthing.db-logs/default/1.log"):
        (tmp_path / secret).write_text("the secret")
    own = tmp_path / "farthing.db-logs" / "default" / "0.log"
    own.unlink()
    if how == "a link":
        own.symlink_to(tmp_path / "private" / "key")
    named = HOSTILE[how](tmp_path)
    store_log_path(named)
    result = printed("logs", "0")
    assert "the secret" not in result.out + result.err
    assert "slot 0" in result.out  # the database itself stores the last lines
    if how != "no path":
        assert f"{named} is not read: expected a regular file that you own, 0.log in" in result.err
    study = Study.open("farthing.db", "default", look=True)
    assert study.log_of(0) is None
    study.close()


def test_a_folder_that_a_database_names_holds_no_file_of_another_name(printed, tmp_path):
    (tmp_path / "private" / "default").mkdir(parents=True)
    secret = tmp_path / "private" / "default" / "key"
    secret.write_text("the secret")
    store_log_path(secret, folder=tmp_path / "private")
    result = printed("logs", "0")
    assert "the secret" not in result.out
    assert f"{secret} is not read" in result.err


def test_a_file_of_another_user_is_not_read(printed, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    result = printed("logs", "0")
    assert "0.log is not read: expected a regular file that you own" in result.err
    assert "Its last lines:" in result.err


def test_a_study_that_was_renamed_has_its_files(printed):
    assert printed("rename", "default", "another").code == 0
    result = printed("logs", "0", "--name", "another")
    assert "another/0.log:" in result.err
    assert "slot 0" in result.out
    assert "farthing.db-logs/another/0.log" in printed("explain", "0", "--name", "another").out


@pytest.mark.slow
def test_a_study_of_the_old_name_does_not_write_over_the_files_of_a_renamed_one(printed, printing):
    assert printed("rename", "default", "another").code == 0
    run = ["run", "--policy", "random", "--budget", "1 trials", "--param", "x=float:0:1"]
    assert printed(*run, "--", *printing("{x}")).code == 0
    assert "slot 0" in printed("logs", "0", "--name", "another").out
    assert "slot 0" not in printed("logs", "0").out


def test_files_that_cannot_be_moved_stay(printed, tmp_path):
    taken = tmp_path / "farthing.db-logs" / "another"
    taken.mkdir()
    (taken / "9.log").write_text("of another")
    assert printed("rename", "default", "another").code == 0
    result = printed("logs", "0", "--name", "another")
    assert "default/0.log:" in result.err
    assert "slot 0" in result.out


def test_the_output_of_an_external_trial_is_not_kept(farthing):
    study = Study.create("farthing.db", name="default", space={"x": _float()})
    study.tell(study.ask(), 1.0)
    study.close()
    result = farthing("logs", "0")
    assert (result.code, result.out) == (1, "")
    assert result.err == "The output of trial 0 was not kept.\n"


def _float():
    from farthing import Float

    return Float(0, 1)


def test_logs_go_to_the_folder_of_the_option(farthing, quick, tmp_path):
    where = ["--logs", "kept/here", "--name", "../a b"]
    result = farthing("run", *quick, *where, "--param", "x=float:0:1", "--", "sh", "-c", SCRIPT)
    assert result.code == 0, result.err
    (folder,) = (tmp_path / "kept" / "here").iterdir()
    assert folder.name == "..%2Fa b"
    assert sorted(path.name for path in folder.glob("*.*")) == ["0.log", "1.log", "2.log"]
    assert "slot 0" in farthing("logs", "2", "--name", "../a b").out


def test_explain_of_a_failed_trial_shows_its_last_lines(printed):
    words = printed("explain", "1").out
    assert "failed" in words
    assert "exit code 3" in words
    assert "last message" in [line.strip() for line in words.splitlines()[-5:]]
    assert "last lines:" in words
    assert "last lines:" not in printed("explain", "0").out


def test_metrics_and_progress_are_stored_exported_and_shown(printed):
    first, second, _ = data(printed("export", "--format", "json"))
    assert first["metrics"] == {"accuracy": 0.75}
    assert second["metrics"] == {}
    line = {"step": 1, "value": 9, "learning": 0.5, "cost": {}}
    assert first["reports"] == second["reports"] == [line]
    assert first["slot"] == "0"
    rows = list(csv.DictReader(io.StringIO(printed("export").out)))
    assert [row["metric_accuracy"] for row in rows] == ["0.75", "", "0.75"]
    assert json.loads(rows[1]["reports"]) == [line]
    assert "metrics:  accuracy=0.75" in printed("best").out
    words = printed("explain", "0").out
    assert "accuracy=0.75" in words
    assert "1 report, the last: step=1, value=9, learning=0.5" in words


def test_csv_has_the_same_columns_whatever_the_trials_have(farthing, quick):
    """Also for conditional parameters, and trials that failed before they had a cost."""
    Study.create("farthing.db", name="empty", space={"x": _float()}, budget="$9, 3 kWh").close()
    header = farthing("export", "--name", "empty").out.splitlines()
    assert len(header) == 1
    study = Study.open("farthing.db", "empty")
    study.tell(study.ask(), failed="no cost", cost={"kWh": 1.0, "usd": 1.0})
    study.tell(study.ask(), 1.0, cost={"usd": 1.0, "kWh": 2.0})
    study.close()
    assert farthing("export", "--name", "empty").out.splitlines()[0] == header[0]
    assert farthing("trials", "--name", "empty", "--format", "csv").out.splitlines()[0] == header[0]
    only = farthing("trials", "--name", "empty", "--format", "csv", "--state", "killed").out
    assert only.splitlines() == header
    for column in ("param_x", "cost_usd", "cost_kWh", "predicted_usd", "reports", "log", "slot"):
        assert column in header[0].split(",")


def test_an_unknown_state(printed):
    result = printed("trials", "--state", "bogus")
    assert (result.code, result.out) == (2, "")
    assert (
        "'bogus' is not one of 'running', 'paused', 'done', 'failed', 'killed', 'lost'"
        in result.err
    )
    assert printed("trials", "--state", "killed").err == "Nothing to show.\n"


def test_an_error_has_no_control_sequence(monkeypatch, capsys):
    def fail(*_, **__):
        raise FarthingError("a\x1b]0;title\x07b")

    monkeypatch.setattr(entry.app, "main", fail)
    with pytest.raises(SystemExit):
        entry.main(["status"])
    assert capsys.readouterr().err == "Error: a\\x1b]0;title\\x07b\n"


def test_a_terminal_gets_no_control_sequence_of_a_trial(monkeypatch):
    from farthing.cli import logs

    raw = b"a\x1b]0;title\x07\tb\r\n\xc2\x9b31m \xc3\xbc \x7f"
    assert logs._shown(raw) == raw  # a pipe gets every byte
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert logs._shown(raw) == b"a^[]0;title^G\tb\r\n^[31m \xc3\xbc ^?"
