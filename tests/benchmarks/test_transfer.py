"""The evidence on earlier studies."""

import json

import numpy as np
import pytest

from benchmarks.evidence import (
    replay,
    transfer,
    transfer_measures,
    transfer_models,
    transfer_sources,
)
from benchmarks.evidence.transfer import main, negated, run, shuffled
from benchmarks.evidence.transfer_measures import costs_to_reach, duels, table_of
from benchmarks.evidence.transfer_sources import chosen, group_of, source_of, study, tasks
from benchmarks.problems.tables import data_folder
from farthing.earlier import Source

needs_tables = pytest.mark.skipif(
    not (data_folder() / "yahpo_rbv2_rpart").is_dir(), reason="needs the tables of ../shared/data"
)


def record(task, method, better, best, seed=0, budget=15.0):
    return (task, method, budget, seed), {"better": better, "best": best}


RUNS = dict(
    [
        record("lcbench/a", "no sources", 2.0, [[1.0, 0.9], [12.0, 0.5]]),
        record("lcbench/a", "3 sources", 1.0, [[2.0, 0.6], [4.0, 0.4]]),
        record("lcbench/b", "no sources", 3.0, [[10.0, 0.7]]),
        record("lcbench/b", "3 sources", 3.0, [[3.0, 0.7]]),
        record("deepar/c", "no sources", 1.0, [[8.0, 0.2]]),
        record("deepar/c", "3 sources", 4.0, [[1.0, 0.3]]),
    ]
)


def test_a_tie_is_half_a_duel():
    assert duels(RUNS, "3 sources", "no sources", 15.0, "lcbench/")[0] == 0.75
    won, low, high, count = duels(RUNS, "3 sources", "no sources", 15.0)
    assert (won, count) == (0.5, 3)
    assert low <= won <= high
    assert duels(RUNS, "3 sources", "no sources", 60.0) is None


def test_the_cost_to_reach_what_no_sources_reach():
    assert costs_to_reach(RUNS, "3 sources", "lcbench/") == (3.0, 11.0, 2)
    assert costs_to_reach(RUNS, "3 sources", "deepar/")[0] == np.inf
    assert costs_to_reach(RUNS, "TPE") is None


def test_the_tables_say_which_goal_is_reached():
    text = "\n".join(table_of(RUNS, ("no sources", "3 sources")))
    assert "| 75 % against no sources, lcbench | 75% [50%, 100%] of 2 | no |" in text
    assert "| lcbench | 2.5 %, 2 % | 75% [50%, 100%] of 2 |" in text
    assert "| all | 2 %, 3 % | 50% [0%, 100%] of 3 |" in text
    reached = "| the value without sources for at most 6 | 4 (no sources: 10) of 3 runs | yes |"
    assert reached in text


def test_models_that_know_an_equal_task_predict_better():
    rng, options = np.random.default_rng(0), np.array([0, 0, 3])

    def points(count):
        X = rng.random((count, 3))
        return np.column_stack([X[:, :2], (np.floor(3 * X[:, 2]) + 0.5) / 3])

    def value(X):
        return (X[:, 0] - 0.3) ** 2 + 0.5 * np.abs(X[:, 1] - 0.7) + 0.3 * (X[:, 2] > 0.4)

    x = points(40)
    equal, opposite = Source("equal", x, 5 + 9 * value(x)), Source("opposite", x, -value(x))
    X, at = points(5), points(60)

    def error(model, *sources):
        mean, std = transfer_models.MODELS[model](sources, options, X, value(X), at)
        assert (std > 0).all()
        return float(np.sqrt(np.mean((mean - value(at)) ** 2)))

    alone = error("alone", equal)
    assert error("joint", equal) < 0.5 * alone
    assert error("prior mean", equal) < 0.8 * alone
    assert error("joint", opposite) < 0.5 * alone  # its weight is negative


def test_the_picture_is_drawn(tmp_path):
    transfer_measures.draw(RUNS, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_misleading_sources_have_the_same_trials_in_another_order():
    source = Source("a", np.arange(12.0).reshape(6, 2), np.arange(6.0))
    assert negated(source).y.tolist() == (-source.y).tolist()
    moved = shuffled(source)
    assert sorted(moved.x[:, 0]) == sorted(source.x[:, 0])
    assert moved.x.tolist() != source.x.tolist()
    assert moved.y.tolist() == source.y.tolist()


@needs_tables
def test_sources_are_other_tasks_with_the_same_space():
    for task in ("yahpo_rbv2_xgboost/6_t10", "lcbench/higgs"):
        names = chosen(task, 10, 0)
        assert len(names) == 10
        assert task not in names
        assert {group_of(name) for name in names} == {group_of(task)}
        assert chosen(task, 3, 0) == names[:3]
    assert {name for group in tasks().values() for name in group} >= transfer.DEVELOPMENT


@needs_tables
def test_an_earlier_study_is_made_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    transfer_sources._kept.cache_clear()
    monkeypatch.setattr(transfer_sources, "TRIALS", 4)
    first = study("yahpo_rbv2_rpart/14", "default")
    transfer_sources._kept.cache_clear()
    assert study("yahpo_rbv2_rpart/14", "default") == first
    assert len(transfer_sources.cache_file().read_text().splitlines()) == 1
    made = source_of(first, "earlier")
    assert made.x.shape == (4, 4)
    assert (made.cost["cost"] > 0).all()
    transfer_sources._kept.cache_clear()


@needs_tables
@pytest.mark.slow
def test_a_run_is_kept_and_not_repeated(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    transfer_sources._kept.cache_clear()
    monkeypatch.setattr(transfer_sources, "TRIALS", 5)
    monkeypatch.setattr(transfer, "RESULTS", tmp_path / "transfer.jsonl")
    options = ["--seeds", "1", "--budgets", "4", "--family", "yahpo_rbv2_rpart", "--every", "5"]
    methods = "no sources;3 sources;portfolio only;3 of another family;9 negated, 1 good"
    options += ["--methods", methods]
    monkeypatch.setattr(transfer, "OTHER", {"yahpo_rbv2_rpart": "yahpo_rbv2_rpart"})
    assert main(options) == 0
    lines = (tmp_path / "transfer.jsonl").read_text().splitlines()
    assert len(lines) == 5
    records = [json.loads(line) for line in lines]
    assert all(0 <= each["better"] <= 100 and each["spent"] <= 4.0 + 1e-6 for each in records)
    assert len(records[1]["trust"]) == 3
    assert records[0]["source"] == replay.source()
    first = capsys.readouterr().out
    assert "5/5" in first
    assert main([*options, "--kept"]) == 0
    assert "5/5" not in capsys.readouterr().out
    again = run(records[1]["task"], "3 sources", 4.0, 0)
    assert again["best"] == records[1]["best"]
    transfer_sources._kept.cache_clear()


def test_an_unknown_method_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--methods", "4 sources"])
    assert "unknown method '4 sources'" in capsys.readouterr().err
