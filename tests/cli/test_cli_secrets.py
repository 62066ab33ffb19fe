"""What the command line says of an address with a password, and where it finds one."""

import shlex

import pytest

from farthing.cli.run import same_command

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
def test_go_on_with_names_the_variable(given, shown, monkeypatch):
    monkeypatch.setattr("sys.argv", ["farthing", *given, "--", "train", "--db", ADDRESS, "{x}"])
    said = same_command()
    assert said.startswith(f"farthing {shown}")
    assert "s3cret" not in said
    assert shlex.split(said)[-1] == "{x}"


@pytest.mark.parametrize(
    "command", [["status"], ["best"], ["stop"], ["worker", "-", "svm"], ["export"]]
)
def test_the_variable_is_read_wherever_storage_is(command, farthing, monkeypatch):
    monkeypatch.setenv("FARTHING_STORAGE", ADDRESS)
    said = farthing(*command)
    assert said.code == 2
    assert "postgresql+psycopg://me:***@127.0.0.1:1/tune" in said.err
    assert "s3cret" not in said.err


def test_a_study_is_made_and_found_where_the_variable_says(farthing, quick, printing, monkeypatch):
    monkeypatch.setenv("FARTHING_STORAGE", "elsewhere.db")
    run = ("run", *quick, "--param", "x=float:0:1", "--", *printing("{x}"))
    assert farthing(*run).code == 0
    assert "3" in farthing("status", "--storage", "elsewhere.db").out
    again = farthing(*run)
    assert "in elsewhere.db" in again.out
    assert "trials" in farthing("status").out
