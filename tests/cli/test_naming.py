"""How a command finds its study: by NAME, by --name, or because the database has only one."""

import io

import pytest

from farthing import Float, Study
from farthing.cli.entry import app

# The arguments before and after NAME, for each command that names one existing study.
COMMANDS = {
    "status": ([], []),
    "best": ([], []),
    "trials": ([], []),
    "explain": (["0"], []),
    "logs": (["0"], []),
    "plot": (["curve"], []),
    "report": ([], []),
    "replay": ([], ["--stop", "max_trials(1)"]),
    "costs": ([], []),
    "export": ([], []),
    "import": (["more.csv"], []),
    "drop": (["0"], []),
    "rerun": (["0"], []),
    "change": ([], ["--budget", "90 trials"]),
    "stop": ([], []),
    "delete": ([], []),
}
# Their exit code says that there is nothing to show, or that nothing was deleted.
QUIET = ("logs", "costs", "delete")
WATCHING = ("top",)  # it ends when the study has stopped: tests/cli/test_seeing.py
BY_ADDRESS = ("run", "worker", "rename", "studies", "dashboard", "policies", "rules", "demo")


def make(name, values=(3.0, 1.0)):
    study = Study.create("farthing.db", name=name, space={"x": Float(0, 1)}, budget="50 trials")
    for value in values:
        study.tell(study.ask(), value, cost=value)
    study.close()


@pytest.fixture
def one(farthing, tmp_path, monkeypatch):
    """A database with the only study `svm`; confirmations are answered with no."""
    make("svm")
    (tmp_path / "more.csv").write_text("x,value,cost\n0.5,2,1\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    return farthing


def test_every_command_is_tested_here():
    assert {*COMMANDS, *WATCHING, *BY_ADDRESS} == set(app.commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_only_study_needs_no_name(one, command):
    before, after = COMMANDS[command]
    result = one(command, *before, *after)
    assert (result.code, "Error" in result.err) == (1 if command in QUIET else 0, False), result


@pytest.mark.parametrize("command", [*COMMANDS, *WATCHING])
def test_with_several_studies_the_error_lists_them(one, command):
    make("forest")
    before, after = COMMANDS.get(command, ([], []))
    result = one(command, *before, *after)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "Error: The database farthing.db has 2 studies: 'svm', 'forest'. Give the name of one of "
        "them.\n"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_is_an_argument_or_a_hidden_option(one, command):
    make("forest")
    before, after = COMMANDS[command]
    names = [["svm"]] if command == "delete" else [["svm"], ["--name", "forest"]]
    for name in names:  # `delete` never had the option
        result = one(command, *before, *name, *after)
        assert (result.code, "Error" in result.err) == (1 if command in QUIET else 0, False), name
    assert "--name" not in one(command, "--help").out
    result = one(command, *before, "none", *after)
    assert (result.code, "There is no study 'none' in " in result.err) == (2, True)


def test_the_file_names_a_study(one, tmp_path):
    make("forest", (7.0,))
    (tmp_path / "farthing.toml").write_text("[run]\nname = 'forest'\n")
    assert "value:    7" in one("best").out
    assert "value:    1" in one("best", "svm").out


def test_many_studies_are_not_all_listed(farthing):
    for k in range(23):
        make(f"s{k}", ())
    result = farthing("best")
    assert "has 23 studies: 's3', 's4'," in result.err
    assert "'s22' and 3 older ones." in result.err


def test_a_database_without_studies(study):
    assert study("delete", "default", "--yes").code == 0
    assert study("best").err == (
        "Error: The database farthing.db has no study. Create one with `farthing run`.\n"
    )


def test_running_again_resumes_the_only_study(one, printing):
    assert one("change", "--", *printing("{x}")).code == 0
    again = ("run", "--budget", "3 trials")
    result = one(*again)
    assert result.code == 0, result.err
    assert "Resuming study 'svm' in farthing.db: 2 trials" in result.out
    make("forest")
    result = one(*again)
    assert (result.code, result.out) == (2, "")
    assert "2 studies: 'svm', 'forest'. Give one of them: --name NAME." in result.err


def test_a_command_without_parameters_does_not_take_over_the_only_study(one, printing):
    result = one("run", "--budget", "3 trials", "--", *printing("{x}"))
    assert (result.code, result.out) == (2, "")
    assert "The command has {x}, but there is no --param x=..." in result.err
    assert Study.open("farthing.db", "svm").settings["command"] is None


def test_a_worker_and_a_change_take_the_command_after_the_dashes(one, printing):
    assert one("change", "--", *printing("{x}")).code == 0
    assert Study.open("farthing.db", "svm").settings["command"] == (*printing("{x}"),)
    assert one("change", "--budget", "3 trials").code == 0
    result = one("worker", "farthing.db", "--", *printing("7{x}"))
    assert result.code == 0, result.err
    assert Study.open("farthing.db", "svm").history[2].value > 69


def test_the_confirmation_can_only_be_skipped_with_a_name(one):
    result = one("delete", "--yes")
    assert (result.code, result.err) == (
        2,
        "Error: --yes needs the name of the study: farthing delete NAME --yes.\n",
    )
    assert Study.names("farthing.db") == ["svm"]


def test_a_figure_of_parameters_and_a_study(one):
    make("forest")
    for arguments in (["pareto", "1"], ["slice", "x"], ["timeline"]):
        assert one("plot", *arguments, "svm").code == 0
        assert "2 studies" in one("plot", *arguments).err
    make("x")  # the study of a parameter's name
    assert "Unknown parameter 'y'" in one("plot", "slice", "y", "x").err
    assert one("plot", "slice", "x", "x").code == 0


def test_several_trials_of_a_study(one):
    make("forest")
    assert one("drop", "0", "1", "svm").code == 0
    assert [t.state for t in Study.open("farthing.db", "svm").history] == ["lost", "lost"]
    assert one("drop", "svm").err == "Error: 'svm': expected the number of a trial, such as 12.\n"
    assert "'a'" in one("drop", "0", "a", "svm").err
