"""The code of docs/neighbours.md runs."""

import re
from pathlib import Path

import optuna
import pytest

REPO = Path(__file__).resolve().parents[2]
PAGE = REPO / "docs" / "neighbours.md"


def blocks(language: str) -> list[str]:
    page = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
    assert len(blocks("python")) == 8
    names = {"__name__": "__main__"}
    for block in blocks("python"):
        # The number of candidates in a second depends on the machine, so the test fixes the number.
        unhurried = block.replace('budget="1s"', 'budget="9m, 8 trials"')
        exec(compile(unhurried, PAGE.name, "exec"), names)
    assert names["study"].best_value < 1
    assert len(names["pruned"].trials) == 12
    assert len(names["search"].cv_results_["params"]) == 8
    assert names["search"].best_score_ > 0.9
    assert names["config"].search_alg is not None
    (mirrored,) = optuna.get_all_study_summaries("sqlite:///dashboard.db")
    assert mirrored.n_trials == 5
    assert len(list(tmp_path.glob("mlruns/*/*/params/x"))) == 3
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 3
    assert names["boosted"].best.step > 0


def test_what_needs_a_cluster_is_in_an_example_that_runs():
    programs = [
        path.read_text(encoding="utf-8") for path in (REPO / "examples").glob("*_cluster.py")
    ]
    lines = {line.strip() for program in programs for line in program.splitlines()}
    quoted = [line for block in blocks("py") for line in block.splitlines() if line]
    assert len(quoted) == 3
    assert set(quoted) <= lines
