"""Showing a study, explaining its trials, exporting and importing them."""

import csv
import io
import json
import re

import pytest

from farthing import Study


def data(result):
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_trials_are_a_list_of_objects(study):
    trials = data(study("trials", "--format", "json"))
    assert [trial["number"] for trial in trials] == [0, 1, 2]
    for trial in trials:
        assert trial.keys() >= {"number", "state", "params", "value", "cost", "because"}
        assert trial["value"] == trial["params"]["x"]
        assert trial["cost"] == {"cost": 2.0}
    assert data(study("trials", "--state", "failed", "--format", "json")) == []


def test_trials_as_a_table_and_as_csv(study):
    table = study("trials").out.splitlines()
    assert table[0].split() == ["trial", "state", "value", "cost", "params"]
    assert len(table) == 4
    rows = list(csv.DictReader(io.StringIO(study("trials", "--format", "csv").out)))
    trials = data(study("trials", "--format", "json"))
    assert [float(row["param_x"]) for row in rows] == [t["params"]["x"] for t in trials]
    assert [float(row["cost_cost"]) for row in rows] == [2.0, 2.0, 2.0]


def test_best_is_the_best(study):
    best = data(study("best", "--format", "json"))
    trials = data(study("trials", "--format", "json"))
    assert best == min(trials, key=lambda trial: trial["value"])
    assert f"value:    {best['value']:.6g}" in study("best").out


def test_best_of_nothing(farthing):
    Study.create("farthing.db", name="default", space={"x": _float()}).close()
    result = farthing("best")
    assert (result.code, result.out) == (1, "")
    assert "No trial has returned a value yet." in result.err


def _float():
    from farthing import Float

    return Float(0, 1)


def test_status_shows_budget_trials_and_what_is_running(study):
    facts = data(study("status", "--format", "json"))
    assert facts["trials"] == {"done": 3}
    assert facts["budget"]["trials"] == {
        **{"limit": 3.0, "spent": 3.0, "reserved": 0.0, "left": 0.0, "overhead": 0.0}
    }
    assert facts["state"] == "the budget of 3 trials is spent"
    assert "3 of 3 trials spent" in study("status").out
    other = Study.create("farthing.db", name="b", space={"x": _float()}, budget="9m")
    trial = other.ask()
    other.close()
    facts = data(study("status", "--name", "b", "--format", "json"))
    assert facts["state"] == "running"
    assert [each["params"] for each in facts["running"]] == [trial.params]
    assert "trial 0:" in study("status", "--name", "b").out
    assert study("status", "--name", "b", "--format", "csv").code == 0


@pytest.mark.slow
def test_export_and_import(study, tmp_path):
    study("export", "-o", "a.csv")
    study("export", "--format", "json", "-o", "a.json")
    exported = study("export").out
    assert (tmp_path / "a.csv").read_text() == exported
    for file in ("a.csv", "a.json"):
        fresh = Study.create("b.db", name=file, space={"x": _float()}, budget="$9")
        fresh.close()
        result = study("import", file, "--storage", "b.db", "--name", file)
        assert result.out == "Imported: 3 values.\nColumns without effect: cost_cost.\n"
        taken = data(study("trials", "--storage", "b.db", "--name", file, "--format", "json"))
        assert [t["value"] for t in taken] == [
            t["value"] for t in data(study("trials", "--format", "json"))
        ]


def test_import_values_or_costs_alone(study, tmp_path):
    rows = [
        {"x": 0.1, "value": 1.0, "cost": 5.0, "state": "done"},
        {"x": 0.2, "value": None, "cost": 7.0, "state": "killed"},  # a lower bound, and no value
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    counted = {
        "--no-values": ("Imported: 2 costs without a value.\n", []),
        "--no-costs": (
            "Imported: 1 value.\nIgnored: 1 row.\n"
            "  row 2: the trial was killed, and it has neither a value nor a cost.\n",
            [{"x": 0.1}],
        ),
    }
    for switch, (expected, params) in counted.items():
        Study.create("b.db", name=switch, space={"x": _float()}, budget="$9").close()
        where = ["--storage", "b.db", "--name", switch]
        result = study("import", "rows.json", switch, *where).out
        assert result == expected
        taken = data(study("trials", *where, "--format", "json"))
        assert [trial["params"] for trial in taken] == params
        assert all(trial["cost"] == {} for trial in taken)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[1, 2]", "a JSON list of objects"),
        ("{", "cannot be read"),
        ("a,b\n1,2\n", "no column 'value'"),
    ],
)
def test_import_of_something_else(study, tmp_path, text, part):
    (tmp_path / "bad").write_text(text)
    result = study("import", "bad")
    assert (result.code, result.out) == (2, "")
    assert part in result.err
    assert study("import", "none").code == 2
    assert len(data(study("trials", "--format", "json"))) == 3


def test_policies_and_rules_are_listed(farthing):
    names = {row["name"] for row in data(farthing("policies", "--format", "json"))}
    assert {"carbo", "cooling", "contextual", "gittins", "random"} <= names
    assert "slack=0.3" in farthing("policies").out
    assert "not_worth_it" in farthing("rules").out


# ── explain ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def priced(farthing):
    """A study whose costs rise with x; the first five points are the initial design."""
    study = Study.create("farthing.db", name="default", space={"x": _float()}, budget="$60")
    for _ in range(9):
        trial = study.ask()
        study.tell(trial, (trial.params["x"] - 0.6) ** 2, cost=1 + 5 * trial.params["x"])
    study.close()
    return farthing


def test_explain_a_point_of_the_initial_design(priced):
    facts = data(priced("explain", "0", "--format", "json"))
    assert facts["because"].startswith("the middle of the space (point 1 of")
    assert facts["best_before"] is None
    assert "front" not in facts
    assert "It belongs to the initial design" in priced("explain", "0").out


def test_explain_shows_expectation_and_result(priced):
    trials = data(priced("trials", "--format", "json"))
    facts = data(priced("explain", "8", "--format", "json"))
    assert facts["best_before"] == min(trial["value"] for trial in trials[:8])
    assert facts["predicted"] == trials[8]["predicted"]
    assert facts["value"] == trials[8]["value"]
    assert facts["improved_by"] == max(facts["best_before"] - trials[8]["value"], 0)
    assert 0 < facts["share_of_the_most"] <= 1
    assert facts["expected_improvement"] > 0
    assert facts["running_then"] == []
    # The models fitted again agree with the sentence that was stored at the time.
    stated = float(re.search(r"expected to improve .* by ([\d.e-]+)", facts["because"])[1])
    assert facts["expected_improvement"] == pytest.approx(stated, rel=0.02)
    words = priced("explain", "8").out
    assert "trade-off:  No compared point promised more" in words
    assert re.search(r"It (has|does not have) the highest improvement / cost\^a for a", words)


def test_explain_lists_the_trials_that_were_running(farthing):
    study = Study.create("farthing.db", name="default", space={"x": _float()}, budget="$60")
    first, second = study.ask(), study.ask()
    study.tell(first, 1.0, cost=1.0)
    study.tell(second, 2.0, cost=1.0)
    study.close()
    facts = data(farthing("explain", "1", "--format", "json"))
    assert facts["running_then"] == [0]
    assert facts["best_before"] is None


@pytest.mark.slow
@pytest.mark.parametrize("number", ["3", "99"])
def test_explain_a_trial_that_does_not_exist(study, number):
    result = study("explain", number)
    assert (result.code, result.out) == (2, "")
    assert f"There is no trial {number}: the study has 0 to 2." in result.err


# ── costs ──────────────────────────────────────────────────────────────────────────────────────


def test_costs_are_shown_with_their_predictions(farthing):
    space = {"x": _float()}
    study = Study.create("farthing.db", name="default", space=space, budget=100.0)
    for k in range(8):
        study.add({"x": k / 8}, 1.0, cost=1.0 + k)
    study.close()
    result = farthing("costs")
    assert result.code == 0
    summary, _, table = result.out.partition("\n\n")
    assert summary.startswith("cost in:  cost\nmodel:    ")
    assert re.search(r"drivers:  x (9\d|100)% \(x \d", summary)
    assert re.search(r"error: .* in ln cost, a factor of \d\.\d\d", summary)
    assert "of the costs in the 80% band" in summary
    assert len(table.strip().splitlines()) == 9
    (facts,) = data(farthing("costs", "--format", "json"))
    assert facts["costs"] == len(facts["trials"]) == 8
    rows = list(csv.DictReader(io.StringIO(farthing("costs", "--format", "csv").out)))
    assert [float(row["paid"]) for row in rows] == [1.0 + k for k in range(8)]


def test_costs_say_why_a_model_was_chosen(farthing):
    study = Study.create(
        "farthing.db", name="default", space={"x": _float()}, budget=99, cost="auto_cost"
    )
    for k in range(8):
        study.add({"x": k / 8}, 1.0, cost=1.0 + k)
    [report] = study.costs()
    study.close()
    assert f"because:  {report['because']}\n" in farthing("costs").out


def test_costs_that_hardly_vary_have_no_drivers(farthing):
    study = Study.create("farthing.db", name="default", space={"x": _float()}, budget=100.0)
    for k in range(8):
        study.add({"x": k / 8}, 1.0, cost=1.0 + 0.002 * k)
    study.close()
    assert "drivers:  none: the predicted costs differ by less than 10%\n" in farthing("costs").out


def test_costs_of_nothing(farthing):
    Study.create("farthing.db", name="default", space={"x": _float()}).close()
    result = farthing("costs")
    assert (result.code, result.out) == (1, "")
    assert "There is no cost model yet" in result.err


# ── width ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def long_lines(farthing):
    """A study of twelve parameters, with a trial that failed with a long message."""
    space = {f"a_long_name_{i}": _float() for i in range(12)}
    study = Study.create("farthing.db", name="default", space=space, budget="$60")
    study.tell(study.ask(), 0.123456789, cost=0.014)
    study.tell(
        study.ask(), failed="it ended with exit code 1\nNo such 漢字 " + 30 * "file ", cost=1.0
    )
    study.close()
    return farthing


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_trial_is_one_line_that_fits_the_terminal(long_lines, width, monkeypatch):
    from rich.cells import cell_len

    monkeypatch.setattr("farthing.cli.output._width", lambda: width)
    lines = long_lines("trials").out.splitlines()
    assert len(lines) == 3
    assert all(cell_len(line) <= width for line in lines)
    assert all(cell_len(line) > 0.8 * width for line in lines[1:])  # and uses the width
    assert lines[0].split()[:3] == ["trial", "state", "value"]
    assert ("cost" in lines[0]) == (width > 40)
    assert "expected" not in lines[0]  # no trial had an estimate
    assert lines[1].startswith("0      done    0.123457  ")
    assert ("$0.014" in lines[1]) == (width > 40)
    assert lines[1].endswith("…")
    assert "it en" in lines[2]
    assert "because" not in lines[0]
    for command in (["status"], ["best"], ["explain", "0"]):
        wrapped = long_lines(*command).out.splitlines()
        assert all(cell_len(line) <= width or "/" in line for line in wrapped)


def test_an_error_has_a_column_of_its_own(long_lines, monkeypatch):
    monkeypatch.setattr("farthing.cli.output._width", lambda: 100)
    head, good, bad = long_lines("trials").out.splitlines()
    at, params = head.index("error"), head.index("params")
    assert at < params
    assert good[at:params].strip() == ""
    assert bad[at:].startswith("it ended with exit")
    assert good[params:].startswith("a_long_name_0=")
    assert "a_long_name_0=" in bad


@pytest.fixture
def varied(farthing):
    """Six trials of different values and costs; the second failed."""
    space = {"x": _float()}
    study = Study.create("farthing.db", name="default", space=space, budget="$60, 9 trials")
    for value, cost in ((5.0, 1.0), (None, 6.0), (1.0, 2.0), (3.0, 5.0), (2.0, 4.0), (4.0, 3.0)):
        if value is None:
            study.tell(study.ask(), failed="no", cost=cost)
        else:
            study.tell(study.ask(), value, cost=cost)
    study.close()
    return farthing


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        (["--sort", "number"], [0, 1, 2, 3, 4, 5]),
        (["--sort", "value"], [2, 4, 3, 5, 0, 1]),
        (["--sort", "cost"], [1, 3, 4, 5, 2, 0]),
        (["--best", "3"], [2, 4, 3]),
        (["--best", "3", "--sort", "cost"], [3, 4, 2]),
        (["--best", "3", "--sort", "number"], [2, 3, 4]),
        (["--best", "99"], [2, 4, 3, 5, 0]),
        (["--best", "3", "--state", "failed"], []),
        (["--sort", "cost", "--state", "done"], [3, 4, 5, 2, 0]),
    ],
)
def test_trials_are_sorted_and_selected(varied, arguments, numbers):
    rows = data(varied("trials", "--format", "json", *arguments))
    assert [row["number"] for row in rows] == numbers
    table = varied("trials", *arguments).out.splitlines()[1:]
    assert [int(line.split()[0]) for line in table] == numbers


def test_when_maximising_the_best_value_is_the_highest(farthing):
    space = {"x": _float()}
    study = Study.create("farthing.db", name="a", space=space, direction="maximize", budget="$9")
    for value in (1.0, 3.0, 2.0):
        study.tell(study.ask(), value, cost=1.0)
    study.close()
    rows = data(farthing("trials", "--best", "2", "--format", "json"))
    assert [row["value"] for row in rows] == [3.0, 2.0]
    assert farthing("trials", "--best", "0").code == 2


def test_without_a_terminal_nothing_is_cut(long_lines):
    lines = long_lines("trials").out.splitlines()
    assert all(f"a_long_name_{i}=" in line for i in range(12) for line in lines[1:])
    assert "No such 漢字" in lines[2]
    assert not any(line.endswith("…") for line in lines)
