"""`farthing change`, and `farthing run` again with other settings: the second day."""

import json

import pytest

from farthing import Study

RUN = ["run", "--policy", "random", "--param", "x=float:0:1"]


def numbers(farthing, *arguments):
    return [row["number"] for row in json.loads(farthing("trials", "--format", "json").out)]


def test_more_budget_for_a_study_that_has_spent_it(study):
    said = study("change", "default", "--budget", "+2 trials")
    assert (said.code, said.err) == (0, "")
    assert said.out == "Changed: budget: 3 trials -> 5 trials\n"
    said = study("run")  # it has its parameters and its command
    assert said.code == 0
    assert "Going on with study 'default' in farthing.db: 3 trials" in said.out
    assert numbers(study) == [0, 1, 2, 3, 4]
    assert "Changed: budget: 5 trials -> 6 trials" in study("run", "--budget", "+1 trials").out
    assert len(numbers(study)) == 6
    status = study("status").out
    assert ", after 3 trials: budget 3 trials -> 5 trials" in status
    assert ", after 5 trials: budget 5 trials -> 6 trials" in status
    (change, _) = json.loads(study("status", "--format", "json").out)["changes"]
    assert change["said"] == {"budget": ["3 trials", "5 trials"]}


def test_run_again_says_what_changes_and_goes_on(study, printing):
    again = [*RUN, "--budget", "5 trials", "--timeout", "1m", "--stop", "max_trials(4)"]
    said = study(*again, "--workers", "2", "--", *printing("{x}"))
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[:4] == [
        "Going on with study 'default' in farthing.db: 3 trials, 3 of 5 trials, 6 spent.",
        "Changed: budget: 3 trials -> 5 trials",
        "Changed: stop: none -> MaxTrials(count=4)",
        "Changed: timeout: none -> 1 m 00 s",
    ]
    assert len(numbers(study)) == 4
    assert "Changed" not in study(*again, "--", *printing("{x}")).out


def test_the_same_command_does_not_take_a_change_back(study, quick, printing):
    study("change", "--budget", "+1 trials")
    said = study("run", *quick, "--param", "x=float:0:1", "--", *printing("{x}"))
    assert "Kept: budget 4 trials, to which it was changed; 3 trials is what it was" in said.out
    assert len(numbers(study)) == 4


def test_another_command_is_said(study, quick):
    said = study("run", *quick, "--param", "x=float:0:1", "--", "true", "{x}")
    assert said.code == 0
    assert "Changed: command: sh -c" in said.out
    assert " -> true '{x}'\n" in said.out
    assert study("change", "default", "--", "echo", "{x}").out == (
        "Changed: command: true '{x}' -> echo '{x}'\n"
    )


def test_a_parameter_becomes_wider(study):
    said = study("change", "--param", "x=float:0:2", "--policy", "sobol", "--budget", "9 trials")
    assert said.code == 0, said.err
    assert "Changed: x: 0 to 1 -> 0 to 2" in said.out
    assert study("run").code == 0
    rows = json.loads(study("trials", "--format", "json").out)
    assert any(row["params"]["x"] > 1 for row in rows)


def test_none_takes_a_setting_back(study):
    study("change", "--timeout", "5m", "--stop", "target(0)", "--max-overrun", "3")
    said = study("change", "--timeout", "none", "--stop", "none", "--max-overrun", "none")
    assert said.out.splitlines() == [
        "Changed: stop: Target(value=0) -> none",
        "Changed: max-overrun: 3 -> none",
        "Changed: timeout: 5 m 00 s -> none",
    ]


def test_less_than_was_spent_is_said(study):
    said = study("change", "--budget", "2 trials")
    assert said.code == 0
    assert "3 trials are spent or held already: nothing will start any more" in said.out
    assert "stopped: the budget of 2 trials is spent" in study("run").out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "nothing to change"),
        (["--budget", "+3m"], "--budget '+3m': there is no budget of s to add to"),
        (["--budget", "soon"], "'soon' is no amount that can be spent"),
        (["--param", "x=float:0.5:1"], "Parameter 'x' of the study is 0 to 1"),
        (["--param", "y=float:0:1"], "no parameter 'y'"),
        (["--policy", "rndom"], "Did you mean random?"),
        (["--timeout", "$3"], "--timeout '$3': expected seconds"),
        (["other"], "There is no study 'other'"),
        (["default", "--name", "other"], "Two studies are named"),
        (["--rate", "$3/h"], "--rate '$3/h' would be read by nothing"),
    ],
)
def test_what_cannot_be_changed_is_one_sentence(study, arguments, part):
    said = study("change", *arguments)
    assert (said.code, said.out) == (2, "")
    assert part in said.err
    assert len(said.err.splitlines()) == 1
    assert '{"' not in said.err  # no stored text
    assert Study.open("farthing.db", "default").changes == []


def test_a_study_without_a_command_asks_for_one(study, tmp_path):
    from farthing import Float

    Study.create(tmp_path / "farthing.db", name="py", space={"x": Float(0, 1)}, budget="3 trials")
    said = study("run", "--name", "py")
    assert said.code == 2
    assert "was made without a command" in said.err


def test_a_study_gets_another_command_and_keeps_its_parameters(study, tmp_path, printing):
    from farthing import Float

    Study.create(tmp_path / "farthing.db", name="py", space={"x": Float(0, 1)}, budget="3 trials")
    said = study("run", "--name", "py", "--", *printing("{x}"))
    assert said.code == 0, said.err
    said = study("run", "--name", "py", "--budget", "+1 trials", "--", *printing("0{x}"))
    assert said.code == 0, said.err
    assert "Changed: command: " in said.out
    assert "Changed: budget: 3 trials -> 4 trials" in said.out
    assert len(Study.open("farthing.db", "py").history) == 4
