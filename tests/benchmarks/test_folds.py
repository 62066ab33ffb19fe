"""The comparison of two ways to race folds."""

import numpy as np
import pytest

from benchmarks.evidence import folds


def test_folds_have_the_same_difficulty_for_all_candidates():
    simulation = folds.Simulation.of("Bumps-2", seed=0)
    rows = [simulation.space.decode(x) for x in np.random.default_rng(0).random((200, 2))]
    scores = np.array([[simulation.fold(row, j)[0] for j in range(2)] for row in rows])
    gap = scores[:, 0] - scores[:, 1]
    assert gap.std() == pytest.approx(np.sqrt(2) * folds.NOISE, rel=0.2)
    assert simulation.fold(rows[0], 0) == simulation.fold(rows[0], 0)
    assert simulation.regret(None) == np.inf


@pytest.mark.parametrize("method", folds.METHODS)
def test_a_run_keeps_its_budget(method):
    run = folds.run("Bumps-2", method, seed=0, budget=4)
    assert 0.5 < run["spent"] < 1.2
    assert run["begun"] >= run["complete"] >= 1
    assert 0 <= run["regret"] < 10


def test_the_table_counts_wins():
    def run(method, seed, regret):
        fixed = {"problem": "Branin", "budget": 8, "complete": 5, "begun": 9}
        return {**fixed, "method": method, "seed": seed, "regret": regret}

    made = [run("before", 0, 0.5), run("now", 0, 0.1), run("before", 1, 0.2), run("now", 1, 0.2)]
    runs = {(r["problem"], r["method"], r["seed"], r["budget"]): r for r in made}
    rows = folds.table(runs, seeds=2)
    assert "| 8 | Branin | 0.350 | 0.150 | 5 / 5 | 9 / 9 | 1 / 0 / 1 |" in rows
    assert "| 8 | all | | | | | 1 / 0 / 1 |" in rows
