"""The goal of benchmarks/evidence/cost_to_target.py on a small problem, and its table."""

import math

import pytest

from benchmarks.evidence import cost_to_target
from benchmarks.evidence.cost_to_target import Run, mean_cost, run, target_of, wins
from benchmarks.problems.synthetic import BRANIN, CMDP, HARTMANN_6
from farthing.policies import CArBO, Cooling, Random

SEEDS = range(3)


def a_run(*steps: tuple[float, float], policy="Random", seed=0, problem="Branin") -> Run:
    return Run(problem, policy, seed, steps)


@pytest.mark.slow
def test_cost_aware_policies_beat_random_search():
    rivals = [run(BRANIN, "Random", Random(), seed) for seed in SEEDS]
    target = target_of(rivals)
    assert sum(math.isfinite(rival.paid(target)) for rival in rivals) == 2  # a median is one
    for policy in (Cooling(), CArBO()):
        runs = [run(BRANIN, "ours", policy, seed, target=target) for seed in SEEDS]
        assert all(r.best <= target for r in runs)
        assert wins(runs, rivals, target) >= 2


def test_random_search_spends_the_budget_and_no_more():
    budget = 100 * mean_cost(CMDP)
    spent = run(CMDP, "Random", Random(), 0).steps[-1][0]
    assert budget - 12.0 < spent <= budget + 1.0  # a cost is at most 10, and it is learnt


@pytest.mark.parametrize(
    ("problem", "exact"),
    [
        (BRANIN, (math.exp(2) - 1) / 2),
        (HARTMANN_6, (2 * (math.exp(0.5) - 1)) ** 6),
        # E|x| on a square of half-side 1 is (sqrt 2 + asinh 1) / 3.
        (CMDP, 10 - 5 * (math.sqrt(2) + math.asinh(1)) / 3),
    ],
)
def test_mean_cost_is_the_integral(problem, exact):
    assert mean_cost(problem) == pytest.approx(exact, rel=1e-3)


def test_paid_is_all_that_was_spent_up_to_the_target():
    steps = ((2.0, 5.0), (3.0, 4.0), (7.0, 1.0))
    assert [a_run(*steps).paid(target) for target in (9.0, 4.0, 3.9, 0.5)] == [2, 3, 7, math.inf]


def test_a_tie_is_no_win_and_never_reached_costs_more_than_anything():
    ours = [
        a_run((4.0, 0.0), seed=0),
        a_run((4.0, 0.0), seed=1),
        a_run((4.0, 9.0), seed=2),
        a_run((4.0, 0.0), seed=3),
        a_run((4.0, 9.0), seed=4),
    ]
    theirs = [
        a_run((9.0, 9.0), seed=4),
        a_run((9.0, 9.0), seed=3),  # only this policy reaches it: a win
        a_run((9.0, 9.0), seed=2),  # none reaches it
        a_run((4.0, 0.0), seed=1),  # for the same price
        a_run((5.0, 0.0), seed=0),  # for less: a win
    ]
    assert wins(ours, theirs, 1.0) == 2


def test_the_page_shows_every_figure_and_what_is_kept():
    seeds = 4
    runs = []
    for problem in cost_to_target.PROBLEMS:
        for seed in range(seeds):
            reached = 0.0 if seed < 2 else 2.0
            runs.append(a_run((50.0, reached), problem=problem, seed=seed))
            for policy in cost_to_target.POLICIES:
                beaten = policy == "Gittins" and problem != "CMDP" and seed < 2
                steps = (60.0 if beaten else 20.0, 0.0)
                runs.append(a_run(steps, problem=problem, policy=policy, seed=seed))
    results = cost_to_target.made_with() | cost_to_target.summary(runs, seeds)
    unit = mean_cost(BRANIN)
    branin = results["problems"]["Branin"]["policies"]
    assert results["problems"]["Branin"]["target"] == 1.0
    assert branin["Gittins"]["wins"] == 2
    assert branin["CArBO"]["median"] == pytest.approx(20.0 / unit)
    assert branin["Random"]["paid"][2:] == [None, None]
    assert branin["Random"]["reached"] == 2
    kept = cost_to_target.kept(results)
    assert kept == {policy: policy != "Gittins" for policy in cost_to_target.POLICIES}
    page = cost_to_target.page(results)
    assert page.count(" of 4 |") == 3 * (1 + len(cost_to_target.POLICIES))
    assert "by: EIPerCost, Cooling, CArBO, ContextualEI." in page.replace("\n", " ")
