"""Every example runs without a warning, is short, and prints what it promises.

If an example has a budget of time, the number of trials and the best value depend on the machine.
The tests replace such a budget by a number of trials and more time than they need.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAGES = EXAMPLES.parent / "docs"
ALL = sorted(path for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh"))
LONGEST = {"ask_tell.py": 40}  # lines; 50 for the others
TIMED = {  # the budget of an example, and the budget that it has here
    "shell_script.sh": ("--budget 4s", '--budget "9m, 6 trials"'),
    "svm.py": ('budget="6s"', 'budget="9m, 25 trials"'),
    "xgboost_dollars.py": ('budget="$0.006"', 'budget="$9, 10 trials"'),
    "steps_rounds.py": ('budget="8s"', 'budget="9m, 8 trials"'),
    "several_workers.py": ('budget="4 worker_s"', 'budget="900 worker_s, 16 trials"'),
    "optuna_one_line.py": ('budget="6s"', 'budget="9m, 8 trials"'),
    "budget_search_cv.py": ('budget="5s"', 'budget="9m, 10 trials"'),
    "dask_cluster.py": ('budget="4 worker_s"', 'budget="900 worker_s, 16 trials"'),
    "ray_cluster.py": ('budget="4 worker_s"', 'budget="900 worker_s, 16 trials"'),
    "submitit_cluster.py": ('budget="2 worker_s"', 'budget="900 worker_s, 4 trials"'),
}


@pytest.fixture
def run(tmp_path):
    """`run(name, *arguments)` returns what the example prints."""

    def running(name: str, *arguments: str) -> str:
        path = EXAMPLES / name
        if name in TIMED:
            text, (old, new) = path.read_text(encoding="utf-8"), TIMED[name]
            assert text.count(old) == 1
            path = tmp_path / name
            path.write_text(text.replace(old, new), encoding="utf-8")
        python = [sys.executable, "-W", "error"]
        beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            [*(["sh"] if name.endswith(".sh") else python), path, *arguments],
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            env={**os.environ, "PATH": beside},  # so that the shell finds `farthing`
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    return running


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


@pytest.mark.slow
def test_a_third_month_learns_from_two_earlier_ones(run, tmp_path):
    text = run("earlier_studies.py", tmp_path / "trust.svg")
    assert (tmp_path / "trust.svg").read_text("utf-8").startswith("<svg")
    spent, limit = re.search(r"spent: +\$([\d.]+) of \$([\d.]+)", text).groups()
    assert float(spent) <= float(limit) == 8
    assert best(text) < 0.4
    learnt = re.search(r"learnt: +from (.*)", text)[1]
    assert re.match(r"'May' \(\d+ trials; booster is new here.*\); 'June' \(", learnt)


@pytest.mark.slow
def test_quadratic_is_within_its_budget_near_the_minimum(run):
    text = run("quadratic.py")
    assert 40 < float(re.search(r"spent: +\$([\d.]+)", text)[1]) <= 60
    assert best(text) < 0.5  # over eight seeds at most 0.008; random search has a median of 4.8


@pytest.mark.slow
def test_shell_script_is_tuned_by_itself(run):
    text = run("shell_script.sh")
    values = [int(value) for value in re.findall(r"^trial \d+: (\d+) for", text, re.MULTILINE)]
    assert len(values) == 6
    assert best(text) == min(values)
    assert re.search(r"^because: +the middle of the space", text, re.MULTILINE)  # `explain 0`


@pytest.mark.slow
def test_the_training_script_prints_its_value_last(run):
    text = run("train.py", "--lr", "0.3", "--depth", "1")
    assert 0.1 < json.loads(text.splitlines()[-1])["value"] < 0.5  # log loss; guessing has 2.3


@pytest.mark.slow
def test_svm_is_tuned_in_seconds(run):
    text = run("svm.py")
    assert re.search(r"of 9 m 00 s, 25 of 25 trials, .* of it overhead", text)
    assert best(text) < 0.1  # most of the space is near 0.9
    cheapest, most_expensive = map(
        float, re.search(r"prices: +([\d.]+) to ([\d.]+) s", text).groups()
    )
    assert 0 < cheapest < most_expensive


@pytest.mark.slow
def test_xgboost_is_paid_by_the_hour(run):
    text = run("xgboost_dollars.py")
    if "skipped" in text:
        pytest.skip(text.strip())
    dollars, seconds = re.search(
        r"spent: +\$([\d.]+) of \$9.00, .* done\); (.*), .* of it", text
    ).groups()
    most_expensive = float(re.search(r"most expensive: \$([\d.]+) at", text)[1])
    assert 0 < most_expensive < float(dollars)
    if re.fullmatch(r"[\d.]+ s", seconds):  # less than a minute; a second costs $0.001
        assert float(dollars) == pytest.approx(0.001 * float(seconds[:-2]), rel=0.1)
    assert best(text) < 0.3  # log loss; guessing has 0.69


@pytest.mark.slow
def test_several_workers_share_a_budget(run):
    text = run("several_workers.py")
    assert "of worker time" in re.search(r"spent: (.*)", text)[1]
    made = [int(n) for n in re.search(r"workers: 2, with (\d+) and (\d+) trials", text).groups()]
    assert min(made) > 0
    assert sum(made) == 16
    assert best(text) < 0.2  # half of the space is above


@pytest.mark.slow
def test_own_policy_suggests_the_trials(run):
    mine = run("own_policy.py").partition("LikelyPerCost(")[2]
    assert "because: most likely to improve, for its price" in mine
    assert best(mine) < -0.6  # the well at 0.41 is -0.69 deep, the other -0.25


@pytest.mark.slow
def test_stopping_replay_prints_what_each_rule_would_have_saved(run):
    parts = run("stopping_replay.py").split("\n\n")
    saved = {part.partition("(")[0]: re.search(r"\((\d+)%\)", part) for part in parts[1:5]}
    assert set(saved) == {"NotWorthIt", "RegretGap", "NoImprovement", "Target"}
    assert all(int(found[1]) > 0 for found in saved.values())


@pytest.mark.slow
def test_ask_tell_stops_before_the_budget_is_spent(run):
    text = run("ask_tell.py")
    spent = [float(amount) for amount in re.findall(r"^ ?\d+  \$ *([\d.]+)", text, re.MULTILINE)]
    assert spent == sorted(spent)
    assert spent[-1] < 60 < 100
    assert "stopped: one more dollar is expected to improve" in text
    assert float(re.search(r"best: +([\d.]+)", text)[1]) < 0.26  # the optimum is 0.216


@pytest.mark.slow
def test_known_cost_spends_its_own_unit(run):
    text = run("known_cost.py")
    spent = [float(hours) for hours in re.findall(r"spent: +([\d.]+) reactor_hours", text)]
    assert len(spent) == 2
    assert all(95 < hours <= 100 for hours in spent)
    best = [float(value) for value in re.findall(r"best: +([\d.e-]+)", text)]
    assert max(best) < 0.15  # over eight seeds at most 0.06; random search has a median of 0.25


@pytest.mark.slow
def test_table_finds_the_best_row_it_can_pay_for(run):
    text = run("table.py")
    assert "28 candidates, $583 to test them all" in text
    assert float(re.search(r"spent: +\$([\d.]+)", text)[1]) <= 150
    assert float(re.search(r"best: +([\d.]+)", text)[1]) > 140  # third best of 28, or better


@pytest.mark.slow
def test_sensors_are_moved_no_further_than_the_budget(run):
    text = run("sensors.py")
    assert 2500 < float(re.search(r"spent: +([\d,]+) km", text)[1].replace(",", "")) <= 3000
    assert best(text) < 4.5


@pytest.mark.slow
def test_optuna_changes_one_line(run):
    text = run("optuna_one_line.py")
    assert float(re.search(r"best: +([\d.]+)", text)[1]) > 0.9
    assert float(re.search(r"spent: +([\d.]+) s", text)[1]) > 0
    least, most = re.search(r"trials: +8, of ([\d.]+) to ([\d.]+) s", text).groups()
    assert 0 < float(least) < float(most)
    assert "stopped: the budget of 8 trials is spent" in text


@pytest.mark.slow
def test_budget_search_cv_saves_folds(run):
    text = run("budget_search_cv.py")
    made, all_of_them = map(int, re.search(r"folds: +(\d+) of (\d+)", text).groups())
    assert 5 <= made <= all_of_them == 50
    assert float(re.search(r"test: +([\d.]+)", text)[1]) > 0.9


@pytest.mark.slow
def test_boosting_rounds_are_not_all_paid_for(run):
    text = run("steps_rounds.py")
    assert "8 of 8 trials" in text
    assert re.search(r"saved: .* by pausing \d+ trainings", text)
    assert 10 <= int(re.search(r"trees: (\d+) of 160", text)[1]) <= 160
    assert best(text) < 1.0  # log loss; guessing has 1.6


@pytest.mark.slow
def test_few_configurations_see_all_rows(run):
    text = run("steps_sizes.py")
    # What is left completes no training.
    assert 150 - 21 < int(re.search(r"spent: +(\d+) units of 150 units", text)[1]) <= 150
    whole, tried = map(int, re.search(r"sizes: (\d+) of (\d+) conf", text).groups())
    assert 1 <= whole < tried / 2
    assert best(text) < 0.1  # the error; most of the space is above 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            f"{kind}_cluster.py", id=f"{kind}_cluster.py", marks=pytest.mark.xdist_group(kind)
        )
        for kind in ("dask", "ray")
    ],
)
def test_a_cluster_keeps_the_budget_of_all_its_workers(run, name):
    text = run(name)
    spent = re.search(r"spent: +(.*) of 15 m 00 s of worker time, (.*)", text)
    assert "16 of 16 trials; 16 trials (16 done)" in spent[2]
    assert best(text) < 0.2  # half of the space is above


@pytest.mark.slow
def test_submitit_runs_trials_as_jobs(run):
    text = run("submitit_cluster.py")
    assert "4 of 4 trials; 4 trials (4 done)" in text
    assert best(text) > 0


@pytest.mark.slow
def test_hydra_sweeps_within_a_budget(run, tmp_path):
    text = run("hydra_sweep.py", "--multirun", f"hydra.sweep.dir={tmp_path}/sweep")
    assert "12 of 12 trials" in text
    assert best(text) < 0.1  # the noise alone is 0.01
    assert (tmp_path / "sweep" / "optimization_results.yaml").exists()
