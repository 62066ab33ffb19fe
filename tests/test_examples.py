"""Every example runs without a warning, is short, and says what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PAGES = EXAMPLES.parent / "docs"
ALL = sorted(path for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh"))
LONGEST = {"ask_tell.py": 40}  # lines; 50 for the others


def run(name: str, *arguments: str) -> str:
    """What the example prints."""
    python = [sys.executable, "-W", "error"]
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [*(["sh"] if name.endswith(".sh") else python), EXAMPLES / name, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PATH": beside},  # where `farthing` is
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def best(text: str) -> float:
    return float(re.search(r"best: +(-?[\d.e-]+)", text)[1])


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_examples_are_short_tested_and_on_a_page(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST.get(path.name, 50)
    assert f'"{path.name}"' in Path(__file__).read_text(encoding="utf-8")
    pages = [
        page.name
        for page in PAGES.glob("*.md")
        if f"](../examples/{path.name})" in page.read_text("utf-8")
    ]
    assert set(pages) - {"examples.md"}, "the page of its subject does not link to it"
    assert "examples.md" in pages


def test_quadratic_is_within_its_budget_near_the_minimum():
    text = run("quadratic.py")
    assert 40 < float(re.search(r"spent: +\$([\d.]+)", text)[1]) <= 60
    assert best(text) < 0.5  # over eight seeds at most 0.008; random search has a median of 4.8


def test_shell_script_is_tuned_by_itself():
    text = run("shell_script.sh")
    values = [int(value) for value in re.findall(r"^trial \d+: (\d+) for", text, re.MULTILINE)]
    assert len(values) > 1
    assert best(text) == min(values)
    assert "because:   the middle of the space" in text  # what `farthing explain 0` says


def test_svm_is_tuned_in_seconds():
    text = run("svm.py")
    assert best(text) < 0.1  # most of the space is near 0.9
    cheapest, dearest = map(float, re.search(r"prices: +([\d.]+) to ([\d.]+) s", text).groups())
    assert 0 < cheapest < dearest


def test_xgboost_is_paid_by_the_hour():
    text = run("xgboost_dollars.py")
    if "skipped" in text:
        pytest.skip(text.strip())
    assert 0.003 < float(re.search(r"spent: +\$([\d.]+) of \$0.006", text)[1]) < 0.01
    assert best(text) < 0.3  # log loss; 0.69 is a coin


def test_several_workers_share_a_budget():
    text = run("several_workers.py")
    assert "of worker time" in re.search(r"spent: (.*)", text)[1]
    made = [int(n) for n in re.search(r"workers: 2, with (\d+) and (\d+) trials", text).groups()]
    assert min(made) > 0


def test_own_policy_is_asked():
    mine = run("own_policy.py").partition("LikelyPerCost(")[2]
    assert "because: most likely to improve, for its price" in mine
    assert best(mine) < -0.6  # the well at 0.41 is -0.69 deep, the other -0.25


def test_stopping_replay_says_what_each_rule_would_have_saved():
    parts = run("stopping_replay.py").split("\n\n")
    saved = {part.partition("(")[0]: re.search(r"\((\d+)%\)", part) for part in parts[1:5]}
    assert set(saved) == {"NotWorthIt", "RegretGap", "Stalled", "Target"}
    assert all(int(found[1]) > 0 for found in saved.values())


def test_ask_tell_stops_before_the_money_does():
    text = run("ask_tell.py")
    spent = [float(amount) for amount in re.findall(r"^ ?\d+  \$ *([\d.]+)", text, re.MULTILINE)]
    assert spent == sorted(spent)
    assert spent[-1] < 60 < 100
    assert "stopped: one more dollar is expected to improve" in text
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
    text = run("sensors.py")
    assert 2500 < float(re.search(r"spent: +([\d,]+) km", text)[1].replace(",", "")) <= 3000
    assert best(text) < 4.5


def test_optuna_changes_one_line():
    text = run("optuna_one_line.py")
    assert float(re.search(r"best: +([\d.]+)", text)[1]) > 0.9
    assert float(re.search(r"spent: +([\d.]+) s", text)[1]) > 1
    assert re.search(r"stopped: .*(spent|left)", text)


def test_budget_search_cv_saves_folds():
    text = run("budget_search_cv.py")
    made, all_of_them = map(int, re.search(r"folds: +(\d+) of (\d+)", text).groups())
    assert 5 <= made <= all_of_them
    assert float(re.search(r"test: +([\d.]+)", text)[1]) > 0.9


@pytest.mark.parametrize("name", ["dask_cluster.py", "ray_cluster.py"])
def test_a_cluster_keeps_the_budget_of_all_its_workers(name):
    text = run(name)
    assert "of worker time" in re.search(r"spent: (.*)", text)[1]
    assert float(re.search(r"best: +([\d.]+)", text)[1]) < 0.2
