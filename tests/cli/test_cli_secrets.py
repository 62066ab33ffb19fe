"""Database addresses with a password: what the command line prints, and where it reads them."""

import shlex

import pytest

from farthing.cli.output import same_command

ADDRESS = "postgresql://me:s3cret@127.0.0.1:1/tune"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["run", "--storage", ADDRESS, "--budget", "1 m"], 'run --storage "$FARTHING_STORAGE"'),
        (["run", f"--storage={ADDRESS}", "--budget", "1 m"], 'run --storage="$FARTHING_STORAGE"'),
        (["worker", ADDRESS, "svm"], 'worker "$FARTHING_STORAGE" svm'),
        (["run", "--param", "key=int:1:5"], "run --param key=int:1:5"),
    ],
)
def test_the_command_to_resume_names_the_variable(given, shown, monkeypatch):
    monkeypatch.setattr("sys.argv", ["farthing", *given, "--", "train", "--db", ADDRESS, "{x}"])
    result = same_command()
    assert result.startswith(f"farthing {shown}")
    assert "s3cret" not in result
    assert shlex.split(result)[-1] == "{x}"


@pytest.mark.parametrize(
    "command", [["status"], ["best"], ["stop"], ["worker", "-", "svm"], ["export"]]
)
def test_every_command_with_storage_reads_the_variable(command, farthing, monkeypatch):
    monkeypatch.setenv("FARTHING_STORAGE", ADDRESS)
    result = farthing(*command)
    assert result.code == 2
    assert "postgresql+psycopg://me:***@127.0.0.1:1/tune" in result.err
    assert "s3cret" not in result.err


def test_a_study_is_created_and_found_in_the_database_of_the_variable(
    farthing, quick, printing, monkeypatch
):
    monkeypatch.setenv("FARTHING_STORAGE", "other.db")
    run = ("run", *quick, "--param", "x=float:0:1", "--", *printing("{x}"))
    assert farthing(*run).code == 0
    assert "3" in farthing("status", "--storage", "other.db").out
    again = farthing(*run)
    assert "in other.db" in again.out
    assert "trials" in farthing("status").out
