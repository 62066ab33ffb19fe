"""The simulator of policies on recorded learning curves."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.evidence import curves
from benchmarks.evidence.curves import METHODS, OURS, Account, duels, main, simulate, table_of
from benchmarks.problems.curve_tables import DEVELOPMENT, CurveTable, curve_names, load_curves
from benchmarks.problems.tables import NoData, data_folder
from farthing import Float, Space


@pytest.fixture(scope="module")
def table():
    """80 configurations of two parameters, whose curves fall over 9 steps; one diverges."""
    rng = np.random.default_rng(0)
    rows = [{"a": float(a), "b": float(b)} for a, b in rng.random((80, 2))]
    a, b = (np.array([row[key] for row in rows]) for key in "ab")
    steps = np.arange(1, 10)
    values = ((a - 0.3) ** 2)[:, None] + (1 + b)[:, None] * steps**-1.0
    values[7, 3:] = np.nan
    space = Space.from_rows(rows, {"a": Float(0, 1), "b": Float(0, 1)})
    return CurveTable("lcbench/toy", space, values, 1.0 + b)


def test_the_measure_is_the_share_of_better_configurations(table):
    ends = table.ends("best")
    assert ends[7] == table.curves[7, :3].min()
    assert table.ends("last")[7] == np.inf
    account = Account(table, 10.0, "best")
    assert account.pay(3, 1) == table.curves[3, 0]
    assert account.best == table.curves[3, 0]
    result = curves._result(account, 1, 1, 0.0)
    assert result["better"] == pytest.approx(100 * np.mean(ends < table.curves[3, 0]))
    late = Account(table, 10.0, "last")
    late.pay(3, 1)
    assert late.best == np.inf  # not the end of a training


def test_a_step_that_is_too_expensive_ends_the_budget(table):
    account = Account(table, 0.5, "best")
    assert account.pay(0, 1) is None
    assert account.left == 0


@pytest.mark.parametrize("name", METHODS)
def test_every_method_stays_within_its_budget(table, name):
    found = simulate(table, METHODS[name], 4.0, seed=1)
    assert 0.5 < found["spent"] <= 4.0 + 1e-9
    assert 0 <= found["better"] <= 100
    assert found["trials"] >= 3
    again = simulate(table, METHODS[name], 4.0, seed=1)
    assert {**again, "cpu_ms": 0} == {**found, "cpu_ms": 0}


def test_more_budget_finds_more(table):
    little, much = (simulate(table, METHODS[OURS], budget, 2)["better"] for budget in (1.0, 12.0))
    assert much <= little
    assert much <= 5.0


def test_without_resuming_a_training_goes_on_at_once_or_never(table, monkeypatch):
    seen = []
    inner = curves._part

    def watched(account, steps, history, proposal, notes, turn):
        if proposal.resume is not None:
            last = max(history, key=lambda t: t.run.turn or 0)
            seen.append(last.number == proposal.resume)
        return inner(account, steps, history, proposal, notes, turn)

    monkeypatch.setattr(curves, "_part", watched)
    simulate(table, METHODS["staged Gittins, no resume"], 6.0, 1)
    assert seen
    assert all(seen)


@pytest.mark.parametrize("name", curves.OPTUNA)
def test_optuna(table, name):
    pytest.importorskip("optuna")
    found = curves.simulate_optuna(table, name, 4.0, 1)
    assert 0.5 < found["spent"] <= 4.0 + 1e-9
    assert found["trials"] >= 3


def test_duels_count_ties_half():
    def record(task, method, seed, better):
        return (f"lcbench/{task}", method, 15.0, seed), {"better": better}

    runs = dict(
        [
            record("x", OURS, 0, 1.0),
            record("x", "ASHA", 0, 2.0),  # won
            record("x", OURS, 1, 1.0),
            record("x", "ASHA", 1, 1.0),  # a tie
            record("y", OURS, 0, 3.0),
            record("y", "ASHA", 0, 2.0),  # lost
            record("y", OURS, 1, 3.0),  # nobody to compare with
        ]
    )
    found = duels(runs, OURS, "ASHA", "LCBench, held back", 15.0)
    assert found["duels"] == 3
    assert found["won"] == pytest.approx((0.75 + 0.0) / 2)
    assert 0.0 <= found["low"] <= found["won"] <= found["high"] <= 0.75
    assert duels(runs, OURS, "ASHA", "TaskSet", 15.0) == {"duels": 0}
    text = "\n".join(table_of(runs, (15.0,)))
    assert "| ASHA | 2.00 / 1.67 (3) | 38% [0%, 75%] of 3 |" in text


def test_runs_are_kept_and_not_made_again(table, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(curves, "RESULTS", tmp_path / "curves.jsonl")
    monkeypatch.setattr(curves, "curve_names", lambda folder: ["lcbench/toy"])
    monkeypatch.setattr(curves, "load_curves", lambda name, folder: table)
    arguments = ["--seeds", "1", "--budgets", "2", "--methods", "ASHA;one epoch"]
    assert main(arguments) == 0
    lines = (tmp_path / "curves.jsonl").read_text().splitlines()
    assert len(lines) == 2
    record = json.loads(lines[0])
    assert (record["task"], record["method"], record["budget"]) == ("lcbench/toy", "ASHA", 2.0)
    assert record["source"]
    assert record["machine"]
    assert main(arguments) == 0
    assert (tmp_path / "curves.jsonl").read_text().splitlines() == lines
    assert "LCBench, held back" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--methods", "unknown"])


def test_the_recorded_tables():
    names = [name for name in curve_names(data_folder()) if not name.startswith("recorded/")]
    if not names:
        pytest.skip(f"{data_folder()} has no curves")
    assert len(names) == 31
    assert {f"lcbench/{name}" for name in DEVELOPMENT} <= set(names)
    one = load_curves("lcbench/jasmine", data_folder())
    assert one.curves.shape == (2000, 51)
    assert one.row_of(one.space.rows[11]) == 11
    assert replace(one, name="x").median_cost > 0


def test_missing_tables_say_what_to_do(tmp_path):
    with pytest.raises(NoData, match="FARTHING_DATA"):
        load_curves("lcbench/nothing", tmp_path)
