"""The evidence: every artefact runs from end to end, and the page is built from what is kept."""

import json

import numpy as np
import pytest

from benchmarks import evidence, methods, replay
from benchmarks.artefacts import ARTEFACTS, comparison
from benchmarks.artefacts.artefact import Settings, picture, run
from benchmarks.problems import recorded
from benchmarks.problems.training import RECORDED
from farthing import Float, Optimizer

BY_NAME = {artefact.name: artefact for artefact in ARTEFACTS}


def test_every_artefact_of_the_issue_is_there():
    carbo = {f"carbo-figure-{k}" for k in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12)}
    tables = {"carbo-table-1", "carbo-table-2", "carbo-table-3"}
    pareto = {f"pareto-figure-{k}" for k in range(1, 10)}
    assert carbo | tables | pareto | {"peers", "default"} == set(BY_NAME)
    assert len(BY_NAME) == len(ARTEFACTS)


@pytest.mark.parametrize("name", ["carbo-figure-1", "carbo-figure-4", "carbo-table-2"])
def test_an_artefact_from_end_to_end(name, tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "FOLDER", tmp_path)
    artefact = BY_NAME[name]
    kept = json.loads(run(artefact, Settings(jobs=1, quick=True), tmp_path).read_text())
    assert kept["about"]["quick"]
    assert artefact.verdict(kept["numbers"]).endswith(".")
    assert artefact.table(kept["numbers"]).count("|") > 6
    assert picture(artefact, kept["numbers"], tmp_path).stat().st_size > 5_000


def test_the_page_is_built_from_what_is_kept(tmp_path):
    artefact = BY_NAME["carbo-figure-4"]
    run(artefact, Settings(), tmp_path)
    page = evidence.build(tmp_path / "page.md", tmp_path, tmp_path / "pictures")
    text = page.read_text()
    assert "## carbo-figure-4" in text
    assert (tmp_path / "pictures" / "carbo-figure-4.png").exists()
    assert "Not run yet: default" in text


# ── recordings ─────────────────────────────────────────────────────────────────────────────────


def test_recordings_are_small_and_say_where_they_come_from():
    files = list(recorded.FOLDER.glob("*.parquet"))
    assert {file.stem for file in files} <= set(RECORDED)
    assert sum(file.stat().st_size for file in files) < 10e6
    for family in recorded.FAMILIES:
        for name in recorded.names(family):
            recording = recorded.read(name.partition("/")[2])
            assert {"machine", "versions", "date", "cap_s"} <= set(recording.about)
            assert len(recording.X) + recording.left_out == 200
            assert np.isfinite(recording.log_cost).all()


def test_a_surrogate_goes_through_its_recording():
    name = recorded.names("carbo")[-1]
    recording, problem = recorded.read(name.partition("/")[2]), recorded.load(name)
    at = [problem.at(recording.space.decode(x)) for x in recording.X]
    value = np.log([evaluation.value for evaluation in at])
    assert np.corrcoef(value, recording.log_value)[0, 1] > 0.9
    cost = np.log([evaluation.cost for evaluation in at])
    assert np.corrcoef(cost, recording.log_cost)[0, 1] > 0.7


def test_what_is_called_the_default_is_the_default():
    made = Optimizer({"x": Float(0, 1)}, budget="$40").policy
    assert made == methods.POLICIES[comparison.DEFAULT]()


# ── ranks ──────────────────────────────────────────────────────────────────────────────────────


def made_up(values):
    """{problem: {method: {seed: three equal values}}}"""
    return {
        problem: {
            method: {str(s): [v, v, v] for s, v in enumerate(seeds)} for method, seeds in by.items()
        }
        for problem, by in values.items()
    }


FINALS = made_up(
    {
        "a/1": {"PBGI": [1, 1], "random": [3, 3], "EI": [2, 2]},
        "a/2": {"PBGI": [1, 1], "random": [3, 3], "EI": [2, 2]},
        "b/1": {"PBGI": [2, 2], "random": [1, 1], "EI": [3, 3]},
    }
)


def test_every_family_counts_the_same():
    ranks = comparison.ranks_by_table(FINALS, ["PBGI", "random", "EI"])
    mean = comparison.mean_ranks(comparison.families(ranks))
    np.testing.assert_allclose(mean, [[1.5, 2.0, 2.5]] * 3)


def test_only_seeds_that_all_have_run_are_ranked():
    uneven = made_up({"a/1": {"PBGI": [1, 1, 1], "EI": [2, 2]}})
    assert comparison.ranks_by_table(uneven, ["PBGI", "EI"])["a/1"].shape == (2, 3, 2)
    assert comparison.ranks_by_table(uneven, ["PBGI", "cooling"]) == {}


def test_the_choice_is_judged_on_the_family_left_out():
    ranks = comparison.families(comparison.ranks_by_table(FINALS, ["PBGI", "random", "EI"]))
    found = comparison.leave_one_out(ranks, ["PBGI", "random", "EI"])
    # Without a, random is best (on b) and comes last on a; without b, the default, second on b.
    assert found == [("a", "random", 3.0), ("b", "PBGI", 2.0)]


def test_losing_a_family_to_random_is_said():
    assert comparison.beats_random(FINALS, "PBGI") == {"a": 1.0, "b": 0.0}
    numbers = {"finals": FINALS, "methods": ["PBGI", "random", "EI"]}
    verdict = comparison._default_verdict(numbers)
    assert "loses to random search on 1 of 2 families (b)" in verdict
    assert "**PBGI**" in comparison._default_table(numbers)


def test_the_verdict_on_peers_follows_the_numbers():
    duel = made_up({"a/1": {"PBGI": [1, 1], "optuna-tpe": [2, 2], "random": [3, 3]}})
    numbers = {
        "finals": duel,
        "with_thinking": duel,
        "methods": ["PBGI", "random", "optuna-tpe"],
        "missing": ["ax"],
        "errors": {},
        "thinking": {"optuna-tpe": 0.004, "random": 0.001},
        "reach": {"a/1": {"peer": "optuna-tpe", "shares": [0.3, 0.5, None]}},
    }
    verdict = comparison._peers_verdict(numbers)
    assert "against 1 of 1 peers." in verdict
    assert "for 50 % of the budget in the median of the tables" in verdict
    table = comparison._peers_table(numbers)
    assert "Not run: ax." in table
    assert "100 %" in table
    numbers["finals"] = made_up({"a/1": {"PBGI": [3, 3], "optuna-tpe": [2, 2]}})
    assert "not against optuna-tpe" in comparison._peers_verdict(numbers)


def test_what_is_kept_makes_the_page(tmp_path, monkeypatch):
    """Every kept result still has its table and its verdict; pictures are drawn elsewhere."""
    monkeypatch.setattr(evidence, "picture", lambda artefact, *_: tmp_path / artefact.name)
    text = evidence.build(tmp_path / "page.md").read_text()
    for name in BY_NAME:
        assert f"## {name}\n" in text
    assert "A quick run" not in text
