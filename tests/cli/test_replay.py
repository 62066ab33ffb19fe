"""`farthing replay`: another stopping rule on the same trials."""

import json


def data(result):
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_on_a_study(study):
    found = data(study("replay", "--stop", "max_trials(2)", "--worth", "0.5", "--format", "json"))
    trials = data(study("trials", "--format", "json"))
    values = [trial["value"] for trial in trials]
    assert (found["trials"], found["trials_in_all"]) == (2, 3)
    assert (found["spent"], found["saved"]) == (4.0, 2.0)
    assert found["lost"] == min(values[:2]) - min(values)
    assert found["gain"] == 0.5 * 2.0 - found["lost"]


def test_as_a_table(study):
    result = study("replay", "--stop", "max_trials(9)")
    assert result.code == 0
    assert "stops:  nowhere in 3 trials: 3 of at most 9 trials made" in result.out
    assert "saved:  0 (0%)" in result.out


def test_any_of_several_rules(study):
    arguments = ["--stop", "max_trials(9)", "--stop", "max_trials(1)", "--format", "json"]
    assert data(study("replay", *arguments))["trials"] == 1


def test_on_a_file(farthing, tmp_path):
    rows = ["lr,depth,value,cost_usd"]
    rows += [f"{0.001 * i},{i % 5},{(i - 6) ** 2},{i}" for i in range(1, 15)]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    arguments = ["--file", "log.csv", "--stop", "no_improvement(3)", "--worth", "1 = $2"]
    found = data(farthing("replay", *arguments, "--format", "json"))
    assert (found["trials"], found["best"], found["resource"]) == (9, 0.0, "usd")
    assert found["saved"] == sum(range(10, 15))
    assert found["gain"] == 0.5 * found["saved"]
    up = data(farthing("replay", *arguments, "--maximize", "--format", "json"))
    assert up["best"] == 25.0  # the first; the last is 64
    assert up["lost"] == 39.0


def test_bad_input(study):
    result = study("replay", "--stop", "no_improvment")
    assert result.code == 2
    assert "Did you mean no_improvement?" in result.err
    result = study("replay", "--stop", "not_worth_it")
    assert (result.code, "needs the exchange rate" in result.err) == (2, True)
    assert "--worth" in result.err
    result = study("replay", "--stop", "no_improvement", "--file", "nothing.csv")
    assert (result.code, "cannot be read" in result.err) == (2, True)
    assert study("replay").code == 2
