"""Every example runs without a warning, is short, and says what it promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LONGEST = {"ask_tell.py": 40}  # lines; 50 for the others


def run(name: str, *arguments: str) -> str:
    """What the example prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short_and_tested(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST.get(path.name, 50)
    assert f'"{path.name}"' in Path(__file__).read_text(encoding="utf-8")


def test_ask_tell_stops_before_the_money_does():
    text = run("ask_tell.py")
    spent = [float(amount) for amount in re.findall(r"^ ?\d+  \$ *([\d.]+)", text, re.MULTILINE)]
    assert spent == sorted(spent)
    assert spent[-1] < 60 < 100
    assert "stopped: one unit of cost is expected to improve" in text
    assert float(re.search(r"best: +([\d.]+)", text)[1]) < 0.26  # the optimum is 0.216


def test_known_cost_spends_its_unit_of_its_own():
    text = run("known_cost.py")
    spent = [float(hours) for hours in re.findall(r"spent: +([\d.]+) reactor_hours", text)]
    assert len(spent) == 2
    assert all(95 < hours <= 100 for hours in spent)
    best = [float(value) for value in re.findall(r"best: +([\d.e-]+)", text)]
    assert max(best) < 0.15  # over eight seeds at most 0.06; random search has a median of 0.25


def test_table_finds_the_best_row_it_can_pay_for():
    text = run("table.py")
    assert "28 candidates, $583 to test them all" in text
    assert float(re.search(r"spent: +\$([\d.]+)", text)[1]) <= 150
    assert float(re.search(r"best: +([\d.]+)", text)[1]) > 140  # third best of 28, or better


def test_sensors_are_moved_no_further_than_the_budget():
    pytest.importorskip("pandas")
    text = run("sensors.py")
    if "skipped" in text:
        pytest.skip(text.strip())
    assert 4000 < float(re.search(r"spent: +([\d,]+) km", text)[1].replace(",", "")) <= 5000
    assert float(re.search(r"best: +([\d.]+)", text)[1]) < 4.5
