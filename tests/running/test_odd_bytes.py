"""Unusual bytes, deep nesting and extreme numbers may fail a trial, but never a run."""

import math
import os
import subprocess
import sys

import pytest

from farthing import Float, Int, Optimizer, Outcome, Study
from farthing.errors import InvalidInput
from farthing.policies import Random
from farthing.running import CommandTask

SPACE = {"x": Float(0, 1)}
DEEP = "' + '[' * 600 + ']' * 600 + '"


def prints(line):
    return CommandTask([sys.executable, "-c", f"print('{line}')"])


def fails(params):
    raise ValueError("half a \ud800 and \0")


ODD = [
    (lambda params: Outcome(None, failed="half a \ud800 and \0"), "failed"),
    (fails, "failed"),
    (prints(r'{"failed": "half a \\ud800 and \\u0000"}'), "failed"),
    (prints(r'{"step": 1, "note \\ud800": "\\ud800 \\u0000", "value": 1}'), "done"),
    (prints(f'{{"step": 1, "value": 1, "n": {DEEP}}}'), "done"),
    (prints(f'{{"value": 1, "n": {DEEP}}}'), "done"),
    (prints(f'{{"value": 1, "cost": {DEEP}}}'), "failed"),
    (prints(f'{{"failed": {DEEP}}}'), "failed"),
    (prints('{"value": 1, "cost": 1.7e308}'), "failed"),
    (
        CommandTask(["sh", "-c", "printf 'bad \\377 \\000 \\355\\240\\200' >&2; exit 3"]),
        "failed",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "state"), ODD, ids=range(len(ODD)))
def test_unusual_output_does_not_end_the_run(url, task, state):
    study = Study.create(url, name="s", space=SPACE, policy=Random(), budget="2 trials")
    result = study.run(task)
    assert [trial.state for trial in Study.open(url, "s").history] == [state, state]
    assert "2 trials" in str(result)
    for record in study.records():
        str(record).encode()  # the record can be printed


def test_unusual_bytes_in_tell_and_request_stop(url):
    study = Study.create(url, name="s", space=SPACE, policy=Random())
    study.tell(study.ask(), failed="half a \ud800 and \0")
    study.request_stop("because of \ud800\0")
    again = Study.open(url, "s")
    assert again.history[0].error == "half a \\ud800 and \\x00"
    assert again.verdict.because == "because of \\ud800\\x00"


def test_no_sum_of_costs_is_infinite():
    optimizer = Optimizer(space=SPACE, policy=Random())
    with pytest.raises(InvalidInput, match="at most 1e"):
        optimizer.tell(optimizer.ask(), 1.0, cost=1.7e308)
    for _ in range(3):
        optimizer.tell(optimizer.ask(), 1.0, cost=1e300)
    account = optimizer.ledger["cost"]
    assert math.isfinite(account.spent)
    assert not math.isnan(account.left)


@pytest.mark.parametrize("given", [3.7, "3.7", "3.0000001"])
def test_a_fraction_is_refused_for_an_integer(given, tmp_path):
    optimizer = Optimizer(space={"k": Int(0, 9)})
    file = tmp_path / "trials.csv"
    file.write_text(f"k,value\n{given},1\n", encoding="utf-8-sig")
    for source in ([{"k": given, "value": 1.0}], file):
        with pytest.raises(InvalidInput, match="not a value of Int"):
            optimizer.import_trials(source)


def farthing(folder, command, **streams):
    code = "from farthing.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *command], cwd=folder, stderr=subprocess.PIPE, **streams
    )


RUN = [
    *("run", "--budget", "2 trials", "--policy", "random", "--param", "x=float:0:1", "--"),
    *("echo", '{"value": 1}'),
]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
def test_a_full_stdout_does_not_end_a_run(tmp_path):
    with open("/dev/full", "w") as full:
        ended = farthing(tmp_path, RUN, stdout=full)
    assert b"Traceback" not in ended.stderr
    assert b"could not be written" in ended.stderr
    assert ended.returncode == 2
    assert len(Study.open(tmp_path / "farthing.db", "default").history) == 2


@pytest.mark.slow
def test_a_closed_stdout_does_not_end_a_run(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    ended = farthing(tmp_path, RUN, stdout=writing)
    os.close(writing)
    assert ended.returncode == 0
    assert b"Traceback" not in ended.stderr
    assert b"Broken pipe" not in ended.stderr
    assert len(Study.open(tmp_path / "farthing.db", "default").history) == 2
