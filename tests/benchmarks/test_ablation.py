"""The arms of the ablation: each lacks its part, and nothing else."""

import math

import numpy as np
import pytest

from benchmarks import without
from benchmarks.evidence.artefacts.ablation import ARMS, ARTEFACTS, distances
from benchmarks.evidence.artefacts.comparison import DEFAULT
from benchmarks.methods import POLICIES, Ours, make
from benchmarks.problems.problem import Evaluation
from benchmarks.without import OneCost
from farthing import Float, Space
from farthing.cost.model import Evidence

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1)})


def run(name: str, budget: float = 400.0, most: int = 12) -> Ours:
    method = make(name, SPACE, budget=budget, seed=1)
    assert isinstance(method, Ours)
    for _ in range(most):
        if (params := method.ask()) is None:
            break
        value = (params["a"] - 0.7) ** 2 + params["b"]
        method.tell(params, Evaluation(value, 1.0 + 9.0 * params["a"]))
    return method


def points(method: Ours) -> np.ndarray:
    return np.array([trial.x for trial in method.optimizer.history])


def test_without_kills_only_the_limits_are_gone() -> None:
    usual, arm = run(DEFAULT), run("default-kills")
    assert np.array_equal(points(usual), points(arm))
    first = (
        make(DEFAULT, SPACE, budget=40.0, seed=1),
        make("default-kills", SPACE, budget=40.0, seed=1),
    )
    for each in first:
        each.ask()
    assert math.isfinite(first[0].limit)  # type: ignore[attr-defined]
    assert math.isinf(first[1].limit)  # type: ignore[attr-defined]


def test_without_the_start_the_first_four_points_are_uniform() -> None:
    usual, arm = run(DEFAULT), run("default-start")
    assert [t.because for t in arm.optimizer.history][:4] == ["a uniform point"] * 4
    assert np.array_equal(points(usual)[0], [0.5, 0.5])
    assert not np.array_equal(points(arm)[0], [0.5, 0.5])
    first = make("default-start", SPACE, budget=40.0, seed=1)
    first.ask()
    assert math.isfinite(first.limit)  # type: ignore[attr-defined]


def test_without_affordability_an_unaffordable_point_can_be_proposed() -> None:
    """With little left, the default stays where it can pay, and the arm does not care."""
    usual, arm = run(DEFAULT, 30.0, 40), run("default-affordable", 30.0, 40)
    assert not np.array_equal(points(usual), points(arm))


def test_one_cost_ignores_the_configuration() -> None:
    rng = np.random.default_rng(0)
    X, logs = rng.random((9, 2)), rng.normal(2.0, 0.5, 9)
    evidence = Evidence(SPACE, X, np.exp(logs), np.zeros(9, dtype=np.bool_))
    model = OneCost().fit(evidence)
    assert model is not None
    mean, std = model.log_at(rng.random((5, 2)))
    assert np.allclose(mean, logs.mean())
    assert np.allclose(std, logs.std(ddof=1))
    assert not model.slopes(X)[1].any()
    assert model.condition(X[0], 1.0).mean == pytest.approx(logs.sum() / 10)
    assert OneCost().fit(evidence._replace(X=X[:1], cost=np.ones(1))) is None


def test_the_table_and_the_verdict_name_what_is_worth_something() -> None:
    met = {"won": [0.7], "low": [0.6], "high": [0.8], "duels": 100, "problems": 10}
    other = {**met, "won": [0.5], "low": [0.4], "high": [0.6]}
    kept = {
        "duels": {"15": {"default-costs": met, "default-affordable": other}},
        "against": {
            "optuna-tpe": {"15": {DEFAULT: met, "default-costs": {**other, "won": [0.44]}}}
        },
        "distances": {"15": {"default-costs": {"with": [1, 0, 2], "without": [3, 2, 4]}}},
        "counts": {},
    }
    [artefact] = ARTEFACTS
    assert "70 % [60, 80]" in artefact.table(kept)
    assert "worth something: learnt costs at 15; harmful: nothing" in artefact.verdict(kept)
    assert "| without learnt costs | 44 % [40, 60] (100) |" in artefact.table(kept)
    assert "without start in the middle" not in artefact.table(kept)
    assert "Not yet run on all problems: start in the middle at 15" in artefact.verdict(kept)
    assert set(ARMS) >= {"default-costs", f"{DEFAULT}+median"}


def test_distances_are_in_units_of_random_search() -> None:
    finals = {  # by problem, method and seed; the best value known is 1 and 10
        "a/p": {DEFAULT: {"0": [1.0], "1": [3.0]}, "arm": {"0": [3.0], "1": [5.0], "2": [9.0]}},
        "b/q": {DEFAULT: {"0": [20.0], "1": [None]}, "arm": {"0": [10.0], "1": [11.0]}},
    }
    chance = {
        "a/p": {"random": {"0": [4.0], "1": [6.0]}},  # the median is 4 above the best
        "b/q": {"random": {"0": [15.0]}},
    }
    found = distances(finals, chance, "arm")
    assert found["with"][0] == pytest.approx((np.mean([0, 2]) / 4 + 10 / 5) / 2)
    assert found["without"][0] == pytest.approx((np.mean([2, 4]) / 4 + 0) / 2)
    middle, low, high = found["difference"]
    assert middle == pytest.approx((2 / 4 - 10 / 5) / 2)
    assert (low, high) == pytest.approx((-2.0, 0.5))  # families are drawn: both of b, both of a


def test_the_arms_are_arms_of_the_default() -> None:
    assert POLICIES[DEFAULT]() == without.DEFAULT
