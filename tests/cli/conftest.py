"""Call the command line in this process, in an empty folder."""

from typing import NamedTuple

import pytest

from farthing.cli import main

# Random points and a budget of trials: a test fits no model, so it takes only the trials' time.
QUICK = ["--policy", "random", "--budget", "3 trials"]


class Completed(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def farthing(tmp_path, monkeypatch, capfd):
    """`farthing("run", ...)`, as a shell in an empty folder would call it."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["farthing", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main(list(arguments))
        return Completed(exit.value.code, *capfd.readouterr())

    return call


@pytest.fixture
def study(farthing):
    """A finished study of three trials, `default` in `farthing.db`."""
    result = farthing("run", *QUICK, "--param", "x=float:0:1", "--", *printing("{x}"))
    assert result.code == 0, result.err
    return farthing


def printing(value):
    """A command that prints its result; the value is one of its arguments."""
    return ["sh", "-c", 'echo "{\\"value\\": $0, \\"cost\\": 2}"', value]


@pytest.fixture
def quick():
    return QUICK


@pytest.fixture(name="printing")
def printing_fixture():
    return printing
