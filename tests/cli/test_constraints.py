"""`--constraint` from end to end."""

import json

QUICK = ["--policy", "random", "--param", "x=float:0:1"]


def printing(result):
    """A command that prints a JSON result with the value and a latency of ten times x."""
    return [
        "python3",
        "-c",
        f"import json, sys; x = float(sys.argv[1]); print(json.dumps({result}))",
    ]


FLAT = printing('{"value": 1 - x, "latency_ms": 10 * x}')
NESTED = printing('{"value": 1 - x, "constraints": {"latency_ms": 10 * x}}')


def run(farthing, command, *options, trials=6):
    budget = ["--budget", f"{trials} trials"]
    return farthing("run", *QUICK, *budget, *options, "--", *command, "{x}")


def test_the_best_trial_meets_the_bound(farthing):
    for name, command in (("flat", FLAT), ("nested", NESTED)):
        bound = ["--constraint", "latency_ms <= 5", "--name", name]
        result = run(farthing, command, *bound)
        assert result.code == 0, result.err
        rows = json.loads(farthing("trials", "--name", name, "--format", "json").out)
        kept = [row for row in rows if row["metrics"]["latency_ms"] <= 5]
        assert 0 < len(kept) < 6
        assert all(row["metrics"] == {"latency_ms": 10 * row["params"]["x"]} for row in rows)
        best = json.loads(farthing("best", "--name", name, "--format", "json").out)
        assert best["value"] == min(row["value"] for row in kept)
        table = farthing("trials", "--name", name).out
        assert "latency_ms" in table.splitlines()[0]
        explained = farthing("explain", str(best["number"]), "--name", name)
        assert "constraints" in explained.out
        assert "latency_ms = " in explained.out
    assert "Resuming" in run(farthing, FLAT, "--constraint", "latency_ms<=5", "--name", "flat").out


def test_without_a_feasible_trial(farthing):
    result = run(farthing, FLAT, "--constraint", "latency_ms <= -2", trials=3)
    assert result.code == 1
    assert "no trial meets the constraints; trial" in result.out
    assert "above the bound -2" in result.out
    best = farthing("best")
    assert best.code == 1
    assert "No trial meets the constraints; trial" in best.err
    assert "no trial meets the constraints" in farthing("status").out
    report = farthing("report", "--output", "a.html")
    assert report.code == 0, report.err
    changed = farthing("change", "--constraint", "latency_ms <= 20")
    assert "latency_ms <= -2 -> latency_ms <= 20" in changed.out.replace(" to ", " -> ")
    assert farthing("best").code == 0
    assert farthing("change", "--constraint", "none").code == 0


def test_a_missing_quantity_fails_the_trial(farthing):
    result = run(
        farthing, printing('{"value": x, "latency": 3}'), "--constraint", "latency_ms <= 5"
    )
    assert result.code == 1
    assert "The constraint 'latency_ms' was not measured; did you mean 'latency'?" in result.out
    nan = run(farthing, printing('{"value": x, "latency_ms": float("nan")}'), "--constraint",
              "latency_ms <= 5", "--name", "nan")  # fmt: skip
    assert "'latency_ms' is None: expected a finite number" in nan.out
    unknown = run(farthing, NESTED, "--name", "unknown")
    assert "the study has no constraints" in unknown.out


def test_a_replay_of_a_file(farthing, tmp_path):
    rows = [{"x": x, "value": 1 - x, "latency_ms": 10 * x} for x in (0.1, 0.9, 0.4, 0.7, 0.2)]
    (tmp_path / "log.json").write_text(json.dumps(rows))
    replay = ["replay", "--file", "log.json", "--stop", "max_trials(2)", "--format", "json"]
    found = json.loads(farthing(*replay, "--constraint", "latency_ms <= 5").out)
    assert (found["best"], found["best_in_all"]) == (0.9, 0.6)
    run(farthing, FLAT, "--constraint", "latency_ms <= 5", trials=2)
    refused = farthing("replay", "--stop", "max_trials(2)", "--constraint", "latency_ms <= 5")
    assert "no effect without --file" in refused.err


def test_wrong_bounds(farthing):
    for wrong, match in (
        ("latency_ms", "--constraint 'latency_ms': expected NAME <= NUMBER"),
        ("latency_ms < 5", "expected '<= NUMBER' or '>= NUMBER'"),
        ("value <= 5", "'value' is not a measured quantity"),
    ):
        result = run(farthing, FLAT, "--constraint", wrong)
        assert result.code == 2
        assert match in result.err
    twice = run(farthing, FLAT, "--constraint", "a <= 5", "--constraint", "a >= 2")
    assert "--constraint a is given twice" in twice.err


def test_the_file(farthing, tmp_path):
    for written in ('["latency_ms <= 5"]', '"latency_ms <= 5"', '{latency_ms = "<= 5"}'):
        (tmp_path / "farthing.toml").write_text(
            f'[run]\nbudget = "2 trials"\npolicy = "random"\nconstraints = {written}\n'
            f'command = {json.dumps([*FLAT, "{x}"])}\n[params]\nx = "float:0:1"\n'
        )
        result = farthing("run")
        assert result.code in (0, 1), result.err
        assert "constraint" not in result.err
    (tmp_path / "farthing.toml").write_text("[run]\nconstraints = 3\n")
    assert "constraints = 3: expected a string, a list" in farthing("run").err
