"""A script reports progress by printing it."""

import json
import sys

import pytest

from farthing.running import CommandTask, report_progress


def test_a_script_prints_it(capsys):
    report_progress(3, 0.5, cost={"usd": 1})
    assert json.loads(capsys.readouterr().out) == {"step": 3, "value": 0.5, "cost": {"usd": 1.0}}


def test_nothing_but_a_step(capsys):
    report_progress(3)
    assert capsys.readouterr().out == '{"step": 3}\n'


@pytest.mark.parametrize("cost", ["much", {"usd": "much"}])
def test_an_invalid_cost(cost):
    with pytest.raises(ValueError, match="much"):
        report_progress(1, cost=cost)


@pytest.mark.slow
def test_a_command_reports(evaluate):
    code = (
        "from farthing.running import report_progress; report_progress(1, 2.0);"
        "print('{\"value\": 1}')"
    )
    finished = evaluate(CommandTask([sys.executable, "-c", code]))
    assert finished.reports == ({"step": 1, "value": 2.0},)
    assert finished.value == 1
