"""Odd input with a fixed seed; `python -m benchmarks.reliability.fuzz` has more."""

import pytest

from benchmarks.reliability import fuzz
from farthing import Float, InvalidInput, Optimizer

CASES = {"sequence": 40, "sklearn": 20, "ray_tune": 30, "optuna": 40}
CASES |= {"optimizer": 60, "damaged": 60, "imported": 40}


@pytest.mark.slow
@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_odd_input_gets_an_error_message_or_a_defined_answer(target):
    wrong = fuzz.fuzz(target, CASES.get(target, 1_000), seed=0)
    assert not wrong, "\n".join(f"{each.why}: {each.case[:200]!r}" for each in wrong)


@pytest.mark.parametrize(
    ("target", "case", "message"),
    [
        ("worth", "0.01 = $1e-320", "expected a positive, finite number"),
        ("parameter", f"depth=int:1:{'9' * 400}", "wider than a float can hold"),
        ("config", f"[params]\nm = {'[' * 2000}", "cannot be read"),
        ("config", '[params]\ns = {type = ["a"]}', "expected one of float"),
        ("table", "[" * 100_000, "cannot be read"),
    ],
)
def test_inputs_that_once_failed_raise_an_error(target, case, message):
    with pytest.raises(fuzz.FarthingError, match=message):
        fuzz.TARGETS[target].play(case)


def test_a_row_with_more_cells_than_columns_is_explained(tmp_path):
    file = tmp_path / "runs.csv"
    file.write_text("lr,depth\n0.01,3,4,5\n")
    optimizer = Optimizer({"lr": Float(0, 1)}, "3 trials")
    with pytest.raises(InvalidInput, match=r"columns are lr, depth, \(no name\)"):
        optimizer.import_trials(file)


@pytest.mark.slow
def test_an_integer_beyond_all_floats_is_a_failed_trial_of_ray_tune():
    pytest.importorskip("ray")
    from farthing.integrations.ray_tune import BudgetSearch

    search = BudgetSearch("$5", {"x": Float(0, 1)}, metric="loss", mode="min", paid="paid")
    assert search.suggest("a")
    search.on_trial_complete("a", {"loss": 10**400, "paid": 1.0})
    assert search.optimizer.history[0].state == "failed"


def test_a_planted_error_is_found(monkeypatch):
    def breaks(text):
        raise KeyError(text)

    monkeypatch.setitem(fuzz.TARGETS, "budget", fuzz.Target(("2h",), breaks))
    wrong = fuzz.fuzz("budget", 3, seed=0)
    assert len(wrong) == 3
    assert all("KeyError" in each.why for each in wrong)
