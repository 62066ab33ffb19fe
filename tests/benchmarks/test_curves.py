"""The simulator of policies on recorded learning curves."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.evidence import curves, curves_measures
from benchmarks.evidence.curves import ALL, main
from benchmarks.evidence.curves_measures import duels, losses, savings, table_of
from benchmarks.evidence.curves_simulator import (
    METHODS,
    OPTUNA,
    OURS,
    SHARES,
    Account,
    Simulation,
    result_of,
    simulate,
    simulate_optuna,
)
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
    result = result_of(account, 1, 1, 0.0)
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
    inner = Simulation._start

    def watched(run, belief, proposal):
        if proposal.resume is not None:
            last = max(run.history, key=lambda t: t.run.turn or 0)
            seen.append(last.number == proposal.resume)
        inner(run, belief, proposal)

    monkeypatch.setattr(Simulation, "_start", watched)
    simulate(table, METHODS["staged Gittins, no resume"], 6.0, 1)
    assert seen
    assert all(seen)


@pytest.mark.parametrize("name", OPTUNA)
def test_optuna(table, name):
    pytest.importorskip("optuna")
    found = simulate_optuna(table, name, 4.0, 1)
    assert 0.5 < found["spent"] <= 4.0 + 1e-9
    assert found["trials"] >= 3


def of(task, method, seed, better, anytime=None):
    """A run with a budget of 15, as an item of a dictionary of runs."""
    record = {"better": better} | ({} if anytime is None else {"anytime": anytime})
    return (f"lcbench/{task}", method, 15.0, seed), record


HELD_BACK = "LCBench, held back"


def test_duels_count_ties_half():
    runs = dict(
        [
            of("x", OURS, 0, 1.0),
            of("x", "ASHA", 0, 2.0),  # won
            of("x", OURS, 1, 1.0),
            of("x", "ASHA", 1, 1.0),  # a tie
            of("y", OURS, 0, 3.0),
            of("y", "ASHA", 0, 2.0),  # lost
            of("y", OURS, 1, 3.0),  # nobody to compare with
        ]
    )
    found = duels(runs, OURS, "ASHA", HELD_BACK, 15.0)
    assert found["duels"] == 3
    assert found["won"] == pytest.approx((0.75 + 0.0) / 2)
    assert 0.0 <= found["low"] <= found["won"] <= found["high"] <= 0.75
    assert duels(runs, OURS, "ASHA", "TaskSet", 15.0) == {"duels": 0}
    text = "\n".join(table_of(runs, (15.0,), ALL))
    assert "LCBench, held back (2 tasks), budget 15" in text
    assert "| ASHA | 2.00 / 1.67 (3) | - | - | 38% [0%, 75%] of 3 | - | - |" in text
    assert "lost against ASHA: 1 of 2: y" in text


def test_duels_at_a_share_of_the_budget():
    runs = dict([of("x", OURS, 0, 0.0, [9.0, 5, 1, 0]), of("x", "ASHA", 0, 1.0, [8.0, 5, 2, 1])])
    won = [duels(runs, OURS, "ASHA", HELD_BACK, 15.0, at)["won"] for at in (0.25, 0.5, 0.75, 1.0)]
    assert won == [0.0, 0.5, 1.0, 1.0]


def test_savings_and_their_control():
    runs = dict(
        [
            of("x", "ASHA", 0, 2.0, [9.0, 4, 2, 2]),  # reaches its result after three quarters
            of("x", "ASHA", 1, 1.0, [9.0, 5, 2, 1]),
            of("x", OURS, 0, 0.0, [2.0, 1, 0, 0]),  # after one quarter
            of("x", OURS, 1, 3.0, [9.0, 9, 9, 3]),  # never
        ]
    )
    found = savings(runs, OURS, "ASHA", HELD_BACK, 15.0)
    assert found["runs"] == 2
    assert found["cost"] == np.inf  # the median of a third and never
    del runs["lcbench/x", OURS, 15.0, 1]
    assert savings(runs, OURS, "ASHA", HELD_BACK, 15.0)["cost"] == pytest.approx(1 / 3)
    control = savings(runs, "ASHA", "ASHA", HELD_BACK, 15.0, shift=1)
    assert control["runs"] == 2  # 2.0 is reached by seed 1 after 3 of 3, 1.0 by seed 0 never
    assert control["cost"] == np.inf
    assert "| 33% [33%, 33%] | never [never, never] |" in "\n".join(table_of(runs, (15.0,), ALL))
    del runs["lcbench/x", "ASHA", 15.0, 1]
    assert savings(runs, "ASHA", "ASHA", HELD_BACK, 15.0, shift=1) == {"runs": 0}


def test_a_setting_is_compared_with_ours_in_the_same_setting():
    assert curves_measures.ours_for("ASHA, 4 workers") == "staged Gittins, 4 workers"
    assert curves_measures.ours_for("ASHA, last value") == "staged Gittins, last value"
    assert curves_measures.ours_for("staged Gittins, no resume") == OURS
    assert {curves_measures.ours_for(name) for name in ALL} <= set(METHODS)
    runs = dict([of("x", OURS, 0, 1.0), of("x", "ASHA", 0, 2.0), of("x", "ASHA, 4 workers", 0, 0)])
    assert losses(runs, HELD_BACK, 15.0, ALL) == ["", "lost against ASHA: none"]


def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    anytime = [[9.0, 4, 2, 0], [3.0, 2, 1, 1]]
    both = dict(zip((OURS, "ASHA"), anytime, strict=True))
    runs = dict(of(task, m, 0, a[-1], a) for task in "xy" for m, a in both.items())
    curves_measures.draw(runs, ALL, tmp_path / "dots.png")
    assert (tmp_path / "dots.png").stat().st_size > 1000
    path = tmp_path / "lines.png"
    assert curves_measures.draw_anytime(runs, HELD_BACK, 15.0, ALL, path)
    assert path.stat().st_size > 1000
    assert not curves_measures.draw_anytime(runs, "TaskSet", 15.0, ALL, path)


@pytest.mark.parametrize("name", [OURS, "ASHA", "Hyperband"])
def test_four_workers_spend_the_same_sum_in_less_time(table, name):
    one, four = (simulate(table, METHODS[m], 6.0, 3) for m in (name, f"{name}, 4 workers"))
    assert one["elapsed"] == pytest.approx(one["spent"])
    for found in (one, four):
        most = (table.rate.max() * table.last) / table.median_cost  # a training that did not fit
        assert 6.0 - most <= found["spent"] <= 6.0 + 1e-9
    assert four["spent"] / 4 <= four["elapsed"] < 0.6 * four["spent"]


def test_trials_of_other_workers_are_running_in_the_history(table, monkeypatch):
    seen = []
    inner = Simulation._start

    def watched(run, belief, proposal):
        seen.append([(t.until, t.step) for t in belief.history.running])
        assert belief.ledger.reserved > 0 or len(seen) < 8  # the first costs are not predicted
        assert proposal.resume not in {t.number for t in belief.history.running}
        inner(run, belief, proposal)

    monkeypatch.setattr(Simulation, "_start", watched)
    simulate(table, METHODS["ASHA, 4 workers"], 6.0, 3)
    assert [len(each) for each in seen[:4]] == [0, 1, 2, 3]
    assert {len(each) for each in seen[4:]} == {3}
    assert all(until > step for each in seen for until, step in each)
    assert any(step > 0 for each in seen for _, step in each)  # reports before the end of a part


def test_runs_of_another_source_are_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(curves, "RESULTS", tmp_path / "curves.jsonl")
    rows = (
        (OURS, curves.replay.source(), 1.0),
        (OURS, "older", 2.0),
        ("ASHA", "older", 3.0),
        (OPTUNA[0], "older", 4.0),  # a library does not depend on our source
    )
    for method, source, better in rows:
        record = {"task": "lcbench/toy", "method": method, "budget": 15.0, "seed": 0}
        curves.keep({**record, "better": better, "anytime": [better], "source": source})
    old = {"task": "lcbench/toy", "method": OPTUNA[1], "budget": 15.0, "seed": 0, "better": 5.0}
    curves.keep({**old, "source": "older"})  # made before the measure at every time was kept
    runs, left_out = curves.kept()
    assert {key[1]: each["better"] for key, each in runs.items()} == {OURS: 1.0, OPTUNA[0]: 4.0}
    assert left_out == 3
    assert main(["--kept", "--budgets", "15"]) == 0
    assert "left out: 3 runs of another source" in capsys.readouterr().out


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


def test_jobs_are_made_seed_by_seed_with_small_budgets_first(table, tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "RESULTS", tmp_path / "curves.jsonl")
    monkeypatch.setattr(curves, "curve_names", lambda folder: ["lcbench/toy"])
    monkeypatch.setattr(curves, "load_curves", lambda name, folder: table)
    main(["--seeds", "2", "--budgets", "2,1", "--methods", "ASHA"])
    lines = map(json.loads, (tmp_path / "curves.jsonl").read_text().splitlines())
    assert [(each["seed"], each["budget"]) for each in lines] == [(0, 1), (0, 2), (1, 1), (1, 2)]


@pytest.mark.slow
def test_several_processes(tmp_path, monkeypatch):
    try:
        folder = data_folder()
        curve_names(folder)
    except NoData as missing:
        pytest.skip(str(missing))
    monkeypatch.setattr(curves, "RESULTS", tmp_path / "curves.jsonl")
    jobs = [("lcbench/jasmine", "one epoch", 0.2, seed) for seed in range(3)]
    made = curves.make(jobs, folder, 2)
    assert set(made) == set(jobs) == set(curves.kept()[0])


def test_a_library_with_a_smaller_budget_is_the_beginning_of_a_run(table, monkeypatch):
    pytest.importorskip("optuna")
    monkeypatch.setattr(curves, "load_curves", lambda name, folder: table)
    name = OPTUNA[0]
    long, short = (curves.run("lcbench/toy", name, b, 0, None) for b in (6.0, 2.0))
    key = ("lcbench/toy", name, 6.0, 0)
    found = curves.with_shortened({key: long}, (2.0, 6.0))
    assert found[key] is long
    assert found[*key[:2], 2.0, 0]["better"] == short["better"]
    assert len(found) == 2
    own = {**long, "method": OURS}  # knows its budget
    assert curves.shortened(own, 2.0) is None


def test_the_measure_at_every_time(table):
    found = simulate(table, METHODS["ASHA"], 4.0, seed=1)
    anytime = found["anytime"]
    assert len(anytime) == SHARES
    assert anytime[-1] == found["better"]
    assert anytime == sorted(anytime, reverse=True)
    row = int(np.argmin(table.ends("best")))
    account = Account(table, 10 * table.rate[row], "best")
    for step in range(1, 10):
        account.pay(row, step)
    ends = result_of(account, 1, 1, 0.0)["anytime"]
    last = 9 * SHARES // 10  # the last step ends after nine tenths of the budget
    assert ends[last - 2] > ends[last - 1] == ends[-1] == 0.0


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
