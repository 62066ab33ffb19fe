import json

import numpy as np
import pytest

from benchmarks.evidence import measures, replay
from benchmarks.evidence.artefacts import pareto
from benchmarks.evidence.artefacts.artefact import Settings
from benchmarks.evidence.artefacts.pareto import (
    ALPHAS,
    CONTROL,
    MULTIPLES,
    SLACKS,
    goal,
    rank_table,
    side_by_side,
    summary,
    trade_off,
)
from benchmarks.evidence.artefacts.printed import NoRuns
from benchmarks.evidence.replay import Job, Run
from benchmarks.problems import recorded

PROBLEM = "xgboost/xgboost-a1a"


def run(method, costs, values, *, problem=PROBLEM, seed=0, most=None):
    job = Job(problem, method, seed, budget=pareto.NO_LIMIT, most=most or len(costs))
    return Run(job, 1e9, tuple(costs), tuple(values))


def together(*runs):
    return side_by_side({run.job: run for run in runs})


def every_alpha(costs, values, **others):
    """The same run of every alpha, except for those given."""
    return [run(method, *others.get(method, (costs, values))) for method in ALPHAS]


class TestSideBySide:
    def test_runs_of_a_problem_and_seed_are_together(self):
        pairs = together(
            *(run(method, [1.0], [0.5], seed=s) for s in (0, 1) for method in ("EI", "EIpu")),
            run("EI", [1.0], [0.5], problem="xgboost/other"),
        )
        assert [sorted(by) for by in pairs[PROBLEM]] == [["EI", "EIpu"]] * 2
        assert len(pairs["xgboost/other"]) == 1

    def test_a_seed_where_a_run_fell_short_is_left_out(self):
        short = run("EIpu", [1.0], [0.5], seed=1, most=2)
        whole = [run(method, [1.0, 1.0], [0.5, 0.4]) for method in ("EI", "EIpu")]
        pairs = together(*whole, run("EI", [1.0, 1.0], [0.5, 0.4], seed=1), short)
        assert [by["EI"].job.seed for by in pairs[PROBLEM]] == [0]


# [time-gains]: EI costs 100 and 80 for .20 and .10, the method 50 and 60.
ONE = {"EI": run("EI", [60, 40], [0.3, 0.2]), "m": run("m", [20, 30], [0.21, 0.4])}
OTHER = {"EI": run("EI", [30, 50], [0.1, 0.3]), "m": run("m", [20, 40], [0.3, 0.1])}
PAIRS = {"xgboost/a": [ONE], "xgboost/b": [OTHER]}


class TestTradeOff:
    def test_gain_and_loss_are_those_of_the_oracle(self):
        found = trade_off(PAIRS, "m")
        assert found["gain"]["mean"][0] == pytest.approx(37.5)
        assert found["loss"]["mean"][0] == pytest.approx(2.5)
        assert found["gain"]["mean"][1:] == [25.0, 50.0]  # both problems may be drawn alone

    def test_ei_against_itself_gains_and_loses_nothing(self):
        found = trade_off(PAIRS, "EI")
        assert found["gain"]["median"] == found["loss"]["median"] == [0.0, 0.0, 0.0]

    def test_reach_is_of_what_ei_itself_paid_for_it(self):
        assert trade_off(PAIRS, "m")["reach"] is None  # half of the runs never do
        # EI had its final 0.1 after 30, the method after 60; a share of EI's whole 80 says less.
        assert trade_off({"xgboost/b": [OTHER]}, "m")["reach"] == 200.0
        assert trade_off(PAIRS, "EI")["reach"] == 100.0

    def test_the_control_is_ei_s_next_seed(self):
        found = trade_off({"xgboost/a": [ONE, OTHER]}, CONTROL)
        assert found["pairs"] == 2
        # EI costs 100 and 80: the second seed gains 20 % on the first, which loses 25 % on it.
        assert found["gain"]["mean"][0] == pytest.approx((20 - 25) / 2)


class TestSummary:
    def test_mean_and_its_interval_are_those_of_the_measures(self):
        groups = np.random.default_rng(0).normal(size=(12, 5))
        mean, low, high = summary(groups)["mean"]
        assert mean == pytest.approx(groups.mean(), rel=1e-5)
        assert (low, high) == pytest.approx(measures.bootstrap(groups), abs=0.05)

    def test_median_is_that_of_all_problems_and_seeds(self):
        median, low, high = summary([[1.0, 2.0, 9.0], [3.0, 4.0, 5.0]])["median"]
        assert median == 3.5
        assert low <= median <= high

    def test_problems_may_have_different_numbers_of_seeds(self):
        found = summary([[1.0, 1.0, 1.0], [4.0]])
        assert found["mean"] == [1.75, 1.0, 4.0]


class TestRankTable:
    def test_minimal_budget_is_the_shortest_of_any_alpha(self):
        # EIpu needs 2 for its two evaluations, the others 20: at 1 x only EIpu has a value.
        runs = every_alpha([10.0, 10.0], [0.3, 0.1], EIpu=([1.0, 1.0], [0.4, 0.2]))
        found = rank_table(together(*runs), list(ALPHAS))
        assert found["ranks"]["EIpu"]["mean"][0] == 1.0
        assert found["ranks"]["EI"]["mean"][0] == 5.5  # eight others without a value share 2 to 9

    def test_what_has_ended_keeps_its_last_value(self):
        runs = every_alpha([10.0, 10.0], [0.3, 0.1], EIpu=([1.0, 1.0], [0.4, 0.2]))
        found = rank_table(together(*runs), list(ALPHAS))
        # 5 x 2 = 10 pays for one evaluation (0.3), 10 x 2 = 20 for both (0.1).
        assert found["ranks"]["EIpu"]["mean"] == [1.0, 1.0, 1.0, 9.0, 9.0]
        assert found["ended"] == pytest.approx([1 / 9, 1 / 9, 1 / 9, 1.0, 1.0], rel=1e-5)

    def test_the_minimal_budget_is_that_of_alphas_also_where_cei_is_ranked(self):
        # CEI has made both evaluations after 0.2, which is no alpha's: 1 x is EIpu's 2.
        runs = every_alpha([10.0, 10.0], [0.3, 0.1], EIpu=([1.0, 1.0], [0.4, 0.2]))
        cei = run("CEI_0.9", [0.1, 0.1], [0.5, 0.35])
        found = rank_table(together(*runs, cei), ["EI", "EIpu", "CEI_0.9"])
        assert [found["ranks"][m]["mean"][0] for m in ("EI", "EIpu", "CEI_0.9")] == [3.0, 1.0, 2.0]

    def test_equal_runs_share_the_middle_rank(self):
        found = rank_table(together(*every_alpha([1.0], [0.5])), list(ALPHAS))
        for part in found["ranks"].values():
            assert part["mean"] == part["low"] == part["high"] == [5.0] * len(MULTIPLES)


def kept_with(medians):
    """Numbers of a trade-off with these medians (gain, loss) by method."""
    return {
        "methods": {
            method: {
                what: {"mean": [x, x, x], "median": [x, x, x]}
                for what, x in zip(("gain", "loss"), pair, strict=True)
            }
            for method, pair in medians.items()
        }
    }


class TestGoal:
    def test_reached(self):
        said = goal(kept_with({"EI": (0, 0), "CEI_0.3": (49, 0.2), "CEI_0.5": (50, 1.0)}))
        assert "reached with slack 0.5 (+1.0 % for 50 % less)" in said

    def test_medians_whose_intervals_hold_what_is_not_enough_are_undecided(self):
        kept = kept_with({"CEI_0.5": (55, 0.0)})
        kept["methods"]["CEI_0.5"]["gain"]["median"] = [55, 35, 78]
        assert "undecided; the medians themselves reach it with slack 0.5" in goal(kept)

    def test_not_reached_says_which_slack_saves_most(self):
        said = goal(kept_with({"CEI_0.1": (20, -0.3), "CEI_0.3": (40, 0.9), "CEI_0.9": (80, 7.0)}))
        assert "not reached with any slack" in said
        assert "slack 0.3 saves most, 40 %" in said

    def test_not_reached_where_every_slack_loses_too_much(self):
        assert "no slack is within 1 %" in goal(kept_with({"CEI_0.9": (80, 7.0)}))

    def test_an_exponent_that_would_do_is_not_cei(self):
        said = goal(kept_with({"EI_0.1": (60, 0.0), "CEI_0.1": (20, 0.0)}))
        assert "not reached" in said


@pytest.fixture(scope="module")
def made_up():
    """Three problems, two seeds: the larger alpha or slack, the cheaper and the worse."""
    rng = np.random.default_rng(0)
    runs = []
    for problem in ("a1a", "a3a-s", "splice-h"):
        for seed in (0, 1):
            for method, level in (ALPHAS | SLACKS).items():
                costs = np.exp(rng.normal(-2.0 * level, 0.3, 30))
                values = 0.2 + 0.02 * level + 0.3 * rng.random(30) ** 3
                name = f"xgboost/xgboost-{problem}"
                runs.append(run(method, costs.tolist(), values.tolist(), problem=name, seed=seed))
    return together(*runs)


def through_json(numbers):
    return json.loads(json.dumps(numbers))


ABOUT = {
    "r2": {PROBLEM: [0.7, 0.9]},
    "pairs": 6,
    "planned": 60,
    "evaluations": 30,
    "cost_model": "linear",
}


class TestWordsAndTables:
    def test_trade_off(self, made_up):
        kept = through_json({**ABOUT, "methods": {m: trade_off(made_up, m) for m in ALPHAS}})
        table = pareto._trade_off_table(kept)
        assert table.count("\n| ") == len(ALPHAS) + 1  # and the line below the header
        assert "0.70" in table
        assert "6 of 60 pairs of problem and seed" in table
        assert "the linear cost model" in table
        assert "needs two seeds" in table  # no control among these methods
        assert pareto._figure_3_verdict(kept).startswith("alpha = 0.01 gains")

    @pytest.mark.parametrize("methods", [list(ALPHAS), ["EI", "EIpu", *SLACKS]])
    def test_allocation(self, made_up, methods):
        kept = through_json({**ABOUT, **rank_table(made_up, methods)})
        table = pareto._allocation_table(kept)
        assert "keep its value" in table
        assert table.count("**") >= 2 * len(MULTIPLES)
        said = pareto._figure_6_verdict(kept) if "CEI_0.9" in methods else ""
        said = said or pareto._figure_4_verdict(kept)
        assert f"of {len(MULTIPLES)}" in said

    def test_every_rank_has_the_mean_of_all_ranks(self, made_up):
        means = [part["mean"] for part in rank_table(made_up, list(ALPHAS))["ranks"].values()]
        assert np.mean(means, axis=0) == pytest.approx(5.0, rel=1e-5)

    def test_figure_6_names_the_slacks_that_always_win(self):
        flat = {"EI": [3.0] * 5, "EIpu": [2.0] * 5, "CEI_0.3": [1.0] * 5, "CEI_0.9": [4.0] * 5}
        said = pareto._figure_6_verdict({"ranks": {m: {"mean": r} for m, r in flat.items()}})
        assert "at every budget with slack 0.3 " in said
        assert "0.9: 0" in said

    @pytest.mark.parametrize(
        ("local", "words"),
        [
            ([30.0, 3.0], "mainly local, as"),
            ([0.5, 0.1], "mainly global, unlike"),
            ([2.0, 6.0], "depending on how it is averaged"),  # shares 1/6, 6/7; sums 8 of 19
        ],
    )
    def test_persistence_says_when_the_two_averages_disagree(self, local, words):
        lasts = {"survival": [0.5, 0.3], "jaccard": [0.4, 0.2], "global": [10.0, 1.0]}
        part = {**lasts, "local": local}
        said = pareto._persistence_verdict({"persistence": {PROBLEM: part}})
        assert "40 % of a front stays" in said
        assert words in said


def test_methods_are_those_of_the_replays():
    from benchmarks.methods import POLICIES

    assert set(ALPHAS) | set(SLACKS) <= set(POLICIES)


def test_artefacts_are_the_paper_s_figures():
    assert [artefact.name for artefact in pareto.ARTEFACTS] == [
        f"pareto-figure-{k}" for k in ("1", *"3456", *(f"{k}-linear" for k in "3456"), "7")
    ]


def test_runs_of_the_linear_model_go_by_the_method_s_name(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "FOLDER", tmp_path)
    names = recorded.names("xgboost")[:2]
    there = [(names[0], "EI"), (names[0], "EIpu"), (names[1], "EI")]
    runs = [
        Run(Job(p, f"{m}+linear", 0, pareto.NO_LIMIT, 100), 1e9, (1.0,), (0.5,), (0.0,))
        for p, m in there
    ]
    (tmp_path / "xgboost.jsonl").write_text("".join(replay.line_of(r) + "\n" for r in runs))
    found = pareto.replays(["EI", "EIpu"], Settings(seeds=1, more=False), "linear")
    assert {(job.problem, job.method) for job in found} == set(there[:2])  # one method is missing
    with pytest.raises(NoRuns):  # with the log-GP
        pareto._trade_offs(["EI", "EIpu"], Settings(seeds=1, more=False))
    empty = {"pairs": 0, "planned": 60, "methods": {}}
    by_name = {artefact.name: artefact for artefact in pareto.ARTEFACTS}
    assert by_name["pareto-figure-3"].verdict(empty).startswith("Not yet run")
