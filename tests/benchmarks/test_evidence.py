"""Every artefact runs from end to end; its numbers, tables and verdicts."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import methods
from benchmarks.evidence import replay
from benchmarks.evidence.artefacts import ARTEFACTS, carbo, carbo_batches, comparison, duels
from benchmarks.evidence.artefacts.artefact import Settings, pictures, run
from benchmarks.evidence.artefacts.comparison import DEFAULT
from benchmarks.problems import recorded, tables
from benchmarks.problems.training import RECORDED
from farthing import Float, Optimizer

BY_NAME = {artefact.name: artefact for artefact in ARTEFACTS}


def test_every_planned_artefact_exists():
    figures = {f"carbo-figure-{k}" for k in range(1, 13)}
    figures |= {"carbo-table-1", "carbo-table-2", "carbo-table-3"}
    pareto = {f"pareto-figure-{k}" for k in range(1, 10)}
    pareto |= {f"pareto-figure-{k}-linear" for k in (3, 4, 5, 6)}
    rollout = {f"rollout-{part}" for part in ("figure-3", "figure-4", "figure-5", "sensitivity")}
    own = {"default", "peers", "rows-known", "start", "max-overrun", "realtime"}
    own |= {"ablation", "carbo-surrogates", "centre", "stopping-figure-1", "realtime-default"}
    own |= {"unused-tables"}
    assert figures | pareto | rollout | own == set(BY_NAME)
    assert len(BY_NAME) == len(ARTEFACTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("carbo-figure-1", "carbo-figure-4", "carbo-figure-6", "carbo-table-2"),
        *("rollout-figure-3", "start"),
    ],
)
def test_an_artefact_from_end_to_end(name, tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "FOLDER", tmp_path)
    artefact = BY_NAME[name]
    kept = json.loads(run(artefact, Settings(jobs=1, quick=True), tmp_path).read_text())
    assert kept["about"]["quick"]
    assert artefact.verdict(kept["numbers"]).endswith(".")
    assert artefact.table(kept["numbers"]).count("|") > 6
    (drawn,) = pictures(artefact, kept["numbers"], tmp_path)
    assert drawn.stat().st_size > 5_000


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


# ── ranks and duels ────────────────────────────────────────────────────────────────────────────


def made_up(values, budget="60"):
    """{budget: {problem: {method: {seed: three equal values}}}}"""
    return {
        budget: {
            problem: {
                method: {str(s): [v, v, v] for s, v in enumerate(seeds)}
                for method, seeds in by.items()
            }
            for problem, by in values.items()
        }
    }


FINALS = made_up(
    {
        "a/1": {DEFAULT: [1, 1], "random": [3, 3], "EI": [2, 2]},
        "a/2": {DEFAULT: [1, 1], "random": [3, 3], "EI": [2, 2]},
        "b/1": {DEFAULT: [2, 2], "random": [1, 1], "EI": [3, 3]},
    }
)
METHODS = [DEFAULT, "random", "EI"]


def test_every_family_counts_the_same():
    mean = duels.mean(duels.ranked(FINALS, METHODS))
    np.testing.assert_allclose(mean, [[1.5, 2.0, 2.5]] * 3)


def test_only_seeds_that_all_have_run_are_ranked():
    uneven = made_up({"a/1": {"PBGI": [1, 1, 1], "EI": [2, 2]}})
    cells = duels.ranked(uneven, ["PBGI", "EI"])
    assert cells["a"]["a/1"]["60"].shape == (2, 3, 2)
    assert (duels.count(cells), duels.count_problems(cells)) == (2, 1)
    assert duels.ranked(uneven, ["PBGI", "cooling"]) == {}


def test_the_choice_is_judged_on_the_family_left_out():
    found = duels.leave_one_out(duels.ranked(FINALS, METHODS), METHODS)
    # Without a, random is best (on b) and comes last on a; without b, the default, second on b.
    assert [(p["family"], p["chosen"], p["rank"]) for p in found] == [
        ("a", "random", 3.0),
        ("b", DEFAULT, 2.0),
    ]
    assert [(p["best"], p["best_rank"]) for p in found] == [(DEFAULT, 1.0), ("random", 1.0)]


@pytest.mark.slow
def test_a_few_duels_decide_nothing_and_many_do():
    few = made_up({f"{f}/1": {"PBGI": [1], "EI": [2]} for f in "abc"})
    met = duels.duel(few, "PBGI", "EI")
    assert (met.won[-1], met.duels, met.verdict()) == (1.0, 3, "undecided")
    many = made_up({f"{f}/1": {"PBGI": [1] * 5, "EI": [2] * 5} for f in "abc"})
    assert duels.duel(many, "PBGI", "EI").verdict() == "ahead"
    assert duels.duel(many, "EI", "PBGI").verdict() == "behind"
    assert duels.duel(many, "EI", "cooling") is None


def test_seeds_of_one_table_do_not_stand_for_other_tables():
    """Two families that disagree leave it open, however many seeds each has."""
    split = made_up({"a/1": {"PBGI": [1] * 99, "EI": [2] * 99}, "b/1": {"PBGI": [2], "EI": [1]}})
    met = duels.duel(split, "PBGI", "EI")
    assert (met.won[-1], met.verdict()) == (0.5, "undecided")
    assert (met.low[-1], met.high[-1]) == (0.0, 1.0)


def test_errors_within_a_test_row_tie_on_recordings_only():
    close = {"PBGI": [0.1] * 9, "EI": [0.1001] * 9}
    assert duels.duel(made_up({"carbo/knn-a1a": close}), "PBGI", "EI").won == [0.5] * 3
    assert duels.duel(made_up({"lcbench/higgs": close}), "PBGI", "EI").won == [1.0] * 3


@pytest.mark.slow
def test_the_verdict_reports_a_family_lost_to_random_search():
    many = {
        "60": {
            problem: {m: {str(s): [v["0"][0]] * 3 for s in range(9)} for m, v in by.items()}
            for problem, by in FINALS["60"].items()
        }
    }
    counts = {m: {"planned": 60, "runs": 27, "crashed": 0, "cut": 0} for m in METHODS}
    kept = {
        **comparison.choice(many, METHODS),
        "cost_models": [],
        "counts": counts,
        "sources": ["x"],
    }
    verdict = comparison._default_verdict(kept)
    assert "ahead on 1 of 2 families, undecided on 0, behind on 1" in verdict
    assert "Not yet run: budgets of 15, 240." in verdict
    many["60"]["c/1"] = {m: {"0": [1.0] * 3} for m in METHODS}
    assert comparison.choice(many, METHODS)["few"] == {"c": 1}  # one group is no family yet
    assert list(comparison.choice(many, METHODS)["families"]) == ["a", "b"]
    table = comparison._default_table(kept)
    assert "27 groups on 3 problems at 60" in table
    assert "81 of 180 planned runs" in table
    assert "| 27 of 60 |" in table


def peer_runs(values, *, error=None):
    """A default and a peer with these values on three tables, five seeds, 60 evaluations each."""
    runs = {}
    for problem in ("lcbench/higgs", "ongrid/svm", "nats_tss/cifar100"):
        for seed in range(5):
            for method, value in values.items():
                job = replay.Job(problem, method, seed)
                trace = tuple(np.linspace(1.0, value, 60))
                why = error if method != comparison.DEFAULT and seed == 0 else None
                runs[job] = replay.Run(job, 60.0, (1.0,) * 60, trace, (0.01,) * 60, "budget", why)
    return runs


def test_the_cost_of_the_best_peers_value_is_relative_to_that_peers_cost():
    def part(ours, itself, another):
        return {"ours": ours, "itself": itself, "another": another}

    kept = {"15": {"a": part(None, 0.5, None), "b": part(0.4, 0.8, None)}}
    kept["60"] = {"a": part(0.2, 0.5, 0.4), "b": part(0.4, 0.8, None), "c": part(0.9, 0.3, 0.3)}
    text = comparison._reach_text({"reach": kept})
    assert "with 15, never (1 of 2 never; another seed of that peer: never, 2 never): NOT" in text
    assert (
        "with 60, 50 % (0 of 3 never; another seed of that peer: 100 %, 1 never): reached" in text
    )


def test_the_verdict_on_peers_follows_the_numbers():
    runs = peer_runs({comparison.DEFAULT: 0.0, "optuna-tpe": 0.5})
    counts = comparison.counted(runs, runs)
    kept = {**comparison.against(runs), "counts": counts, "sources": ["x"]}
    verdict = comparison._peers_verdict(kept)
    assert "ahead of 1 peers (optuna-tpe)" in verdict
    # The peer reaches its final 0.5 with its last evaluation, the default after 31 evaluations.
    assert "With 60 it saves 48 % [48, 48]" in verdict
    assert "another seed of itself: 0 % [0, 0]" in verdict
    lost = comparison.against(peer_runs({comparison.DEFAULT: 0.5, "optuna-tpe": 0.0}))
    assert "behind 1 (optuna-tpe)" in comparison._peers_verdict({**lost, "counts": counts})


def test_of_tied_peers_the_faster_one_is_the_best_and_a_single_seed_takes_part():
    runs = peer_runs({comparison.DEFAULT: 0.5, "flaml-cfo": 0.0, "optuna-tpe": 0.0})
    for job in [job for job in runs if job.method == "optuna-tpe"]:
        early = (1.0, 0.0) + (0.5,) * 58  # the final value of the other peer, but at once
        runs[job] = replace(runs[job], values=early)
        if job.seed > 0:
            del runs[job]
    reach = comparison.against(runs)["reach"]["60"]["lcbench/higgs"]
    assert reach["peer"] == "optuna-tpe"  # the other one comes first by name
    assert len(reach["saved"]) == 1
    assert reach["control"] == []
    assert reach["another"] is None
    table = comparison._reach_table(comparison.against(runs))
    assert "| lcbench/higgs | 60 | optuna-tpe | 1 | -97 | - | never | 3 % | never |" in table


def test_comparisons_that_survive_the_correction_are_named():
    sure, likely = (
        comparison.Duel([won] * 3, [won - 0.1] * 3, [won + 0.1] * 3, 99, 9) for won in (0.8, 0.61)
    )
    kept = {"duels": {"a": {"15": sure._asdict(), "60": likely._asdict()}}, "reach": {}}
    assert likely.verdict() == "ahead"
    assert 0.01 < likely.p_value() < 0.05
    assert comparison.surviving(kept) == {("a", "15"): True, ("a", "60"): True}  # 0.03 < 0.05 / 1
    kept["duels"]["b"] = {"15": likely._asdict()}
    assert comparison.surviving(kept) == {
        ("a", "15"): True,
        ("a", "60"): False,
        ("b", "15"): False,
    }
    said = "Of 3 comparisons, 1 survive Holm's correction: a at 15."
    assert said in comparison._peers_verdict({**kept, "problems": {}})


def test_the_verdict_names_the_problems_behind_random_search():
    finals = made_up(
        {
            "lcbench/higgs": {comparison.DEFAULT: [1] * 9 + [3], "random": [2] * 10},
            "ongrid/svm": {comparison.DEFAULT: [2] * 10, "random": [1] * 10},
            "nats_tss/cifar100": {comparison.DEFAULT: [1, 3] * 5, "random": [2] * 10},
            "carbo/knn-a1a": {comparison.DEFAULT: [0.1] * 10, "random": [0.1001] * 10},
        }
    )
    found = comparison.by_problem(finals)
    assert list(found["60"].values()) == [[9, 1], [0, 10], [5, 5], [0, 0]]
    verdict = comparison._peers_verdict({"duels": {}, "reach": {}, "problems": found})
    expected = "ahead of random search on 1 of 4 with 60, behind on 1 (ongrid/svm (0 to 10))."
    assert expected in verdict


def test_a_crashed_run_is_counted_and_not_won():
    runs = peer_runs({comparison.DEFAULT: 0.0, "optuna-tpe": 0.5}, error="RuntimeError: no")
    kept = comparison.against(runs)
    assert kept["duels"]["optuna-tpe"]["60"]["duels"] == 12  # of 15
    assert kept["errors"] == {"optuna-tpe": {"count": 3, "first": "RuntimeError: no"}}
    counts = comparison.counted(runs, runs)
    assert counts["optuna-tpe"]["crashed"] == 3
    table = comparison._peers_table({**kept, "counts": counts, "sources": []})
    assert "optuna-tpe 15 of 15 (3 crashed)" in table


def test_an_unfinished_plan_is_balanced():
    settings = Settings(seeds=2, budgets=(15.0, 60.0))
    jobs = comparison.jobs_of(["lcbench/higgs", "carbo/knn-a1a"], ["EI", "random"], settings)
    assert len(set(jobs)) == 16
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    assert {job.budget for job in jobs[:4]} == {15.0}
    assert {job.problem for job in jobs if job.clock} == {"carbo/knn-a1a"}


def test_default_and_peers_have_every_family():
    default, against = (
        {name.partition("/")[0] for name in comparison.problems(most, Settings())}
        for most in (3, 2)
    )
    assert default == against == {*tables.CHOSEN, "moved", "carbo", "xgboost"}
    assert {*comparison.SLOW_PROBLEMS} <= {*comparison.problems(2, Settings())}


# ── CArBO ──────────────────────────────────────────────────────────────────────────────────────


def carbo_runs(finals, *, seeds=5, early=20):
    """Runs of 60 evaluations that reach their final value after `early` (CArBO: half of that)."""
    runs = {}
    for problem in ("carbo/knn-a1a", "carbo/rf-a1a"):
        for seed in range(seeds):
            for method, final in finals.items():
                at = early // 2 if method == "CArBO" else early
                values = (0.5,) * (at - 1) + (final,) * (60 - at + 1)
                job = replay.Job(problem, method, seed)
                runs[job] = replay.Run(job, 60.0, (1.0,) * 60, values, (0.0,) * 60, "budget")
    return runs


def test_a_saving_stands_beside_its_controls():
    runs = carbo_runs({"EI": 0.2, "EIpu": 0.3, "random": 0.4, "CArBO": 0.2})
    parts = carbo.compared(runs, ["carbo/knn-a1a", "carbo/rf-a1a"])
    assert {part["rival"] for part in parts.values()} == {"EI"}
    nets = carbo.net_savings(parts)
    # After 10 of 60, where EI is after 20: by the budget EI saves two thirds over itself.
    assert nets["savings"][0] == pytest.approx(100 * 50 / 60, rel=1e-5)
    assert nets["savings_itself"][0] == pytest.approx(100 * 40 / 60, rel=1e-5)
    assert nets["savings_control"][0] == pytest.approx(100 * 40 / 60, rel=1e-5)
    assert nets["time_saved"] == [50.0] * 3
    assert nets["time_control"] == [0.0] * 3
    kept = {"problems": parts, "r2": {p: [0.5, 0.5] for p in parts}}
    assert "CArBO is faster" in carbo.saving_verdict(kept)
    assert "**50.0 % [50.0, 50.0]**" in carbo.saving_table(kept)


def test_tables_say_which_batches_were_run():
    finals = {"EI": 0.2, "EIpu": 0.3, "random": 0.4, "CArBO": 0.2}
    parts = carbo.compared(carbo_runs(finals), ["carbo/knn-a1a", "carbo/rf-a1a"])
    kept = {"problems": parts, "r2": {p: [0.5, 0.5] for p in parts}}
    for name in ("carbo-table-1", "carbo-table-2"):
        artefact = BY_NAME[name]
        for text in (artefact.verdict(kept), artefact.table(kept)):
            assert text.endswith("Batches of 3 and 7 and 11: not yet run.")
        more = kept | {"batches": {"3": parts, "7": {}, "11": parts}}
        for text in (artefact.verdict(more), artefact.table(more)):
            assert text.endswith("Batches of 7: not yet run.")
    assert "| EI3 | EIpu3 |" in BY_NAME["carbo-table-1"].table(more)
    assert "batch 11: on 2 of 2, alone on 0" in BY_NAME["carbo-table-1"].verdict(more)
    assert "batch 3: 50.0 % [50.0, 50.0], faster" in BY_NAME["carbo-table-2"].verdict(more)


def test_the_loss_of_batches_is_against_the_same_seeds():
    sizes = {
        size: {"finals": finals, "curve": [], "limit": 1.0, "evaluations": 9.0, "busy": 0.5}
        for size, finals in {
            "1": [0.1, 0.2, 0.3],
            "2": [0.1, 0.2, 0.3],
            "4": [0.12, 0.22, 0.32],
            "8": [0.0, 0.3, None],
        }.items()
    }
    kept = {"problem": "carbo/mlp-a1a", "sizes": sizes, "seeds": 3, "compute": 480.0}
    found = carbo_batches.losses(kept)
    assert found["2"] == [0.0, 0.0, 0.0]
    assert found["4"] == pytest.approx([0.02] * 3)
    assert found["8"][0] == pytest.approx(0.0)
    artefact = BY_NAME["carbo-figure-6"]
    assert "worse in batches of 4. " in artefact.verdict(kept)
    assert "| 4 | 1 | 9 | 50 % | 0.2200 | +0.0200 [+0.0200, +0.0200] |" in artefact.table(kept)
    empty = kept | {"sizes": {}, "seeds": 0}
    assert artefact.verdict(empty) == "Not yet run: CArBO in batches of 1 to 16."
    assert "not yet run" in artefact.table(empty)


def test_errors_less_than_a_test_row_apart_are_equal():
    runs = carbo_runs({"EI": 0.2, "EIpu": 0.2001, "random": 0.4, "CArBO": 0.20015})
    parts = carbo.compared(runs, ["carbo/knn-a1a"])
    assert carbo.win_counts(parts) == (
        {"EI": 1, "EIpu": 1, "random": 0, "CArBO": 1},
        {"EI": 0, "EIpu": 0, "random": 0, "CArBO": 0},
    )
    assert "on 1 of 1 problems with ties of a test row, alone on 0" in carbo.error_verdict(
        {"problems": parts}
    )


def test_what_the_parts_bring_is_undecided_where_the_seeds_disagree():
    finals = {"EI": [0.3, 0.3], "cover+EI": [0.2, 0.1], "CArBO": [0.05, 0.0], "EIpu": [0.3, 0.3]}
    verdict = carbo._parts_verdict({"finals": finals, "seeds": 2})
    assert verdict.endswith("undecided.")  # -0.05 and +0.1
    finals["cover+EI"] = [0.1, 0.1]
    assert "the design brings more" in carbo._parts_verdict({"finals": finals, "seeds": 2})


@pytest.mark.slow
def test_kinds_of_recordings_are_the_same_problems():
    gp, trees, rows = (recorded.load(f"{f}/rf-a1a") for f in ("carbo", "carbo-trees", "carbo-rows"))
    assert gp.space == trees.space == rows.space
    assert gp.typical_cost == trees.typical_cost == rows.typical_cost < 2 * gp.mean_cost
    row = rows.table.decode(rows.table.rows[7])
    recording = recorded.read("rf-a1a")
    recorded_there = np.exp(recording.log_value)
    assert np.isclose(recorded_there, rows.at(row).value).any()
    x = np.array([rows.space.encode(row)])
    there = int(np.argmin(np.abs(recording.X - x).sum(axis=1)))
    assert rows.at(row).cost == pytest.approx(np.exp(recording.log_cost[there]))
    for surrogate in (gp, trees):
        assert surrogate.at(row).value == pytest.approx(rows.at(row).value, rel=0.3)
