"""Calling the command line in this process, in a folder of its own."""

from typing import NamedTuple

import pytest

from farthing.cli import main

# Random points and a budget of trials: no model is fitted, so a test takes its trials' time.
QUICK = ["--policy", "random", "--budget", "3 trials"]


class Said(NamedTuple):
    """How a command ended and what it printed."""

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
        return Said(exit.value.code, *capfd.readouterr())

    return call


@pytest.fixture
def study(farthing):
    """A finished study of three trials, `default` in `farthing.db`."""
    said = farthing("run", *QUICK, "--param", "x=float:0:1", "--", *printing("{x}"))
    assert said.code == 0, said.err
    return farthing


def printing(value):
    """A command that prints its result; it gets the value as an argument of its own."""
    return ["sh", "-c", 'echo "{\\"value\\": $0, \\"cost\\": 2}"', value]


@pytest.fixture
def quick():
    return QUICK


@pytest.fixture(name="printing")
def printing_fixture():
    return printing
