"""`farthing change`, and `farthing run` again with different settings."""

import json

import pytest

from farthing import Int, Space, Study
from farthing.policies import Random

RUN = ["run", "--policy", "random", "--param", "x=float:0:1"]


def numbers(farthing, *arguments):
    return [row["number"] for row in json.loads(farthing("trials", "--format", "json").out)]


@pytest.mark.slow
def test_more_budget_for_a_study_that_has_spent_it(study):
    result = study("change", "default", "--budget", "+2 trials")
    assert (result.code, result.err) == (0, "")
    assert result.out == "Changed: budget: 3 trials -> 5 trials\n"
    result = study("run")  # it keeps its parameters and its command
    assert result.code == 0
    assert "Resuming study 'default' in farthing.db: 3 trials" in result.out
    assert numbers(study) == [0, 1, 2, 3, 4]
    assert "Changed: budget: 5 trials -> 6 trials" in study("run", "--budget", "+1 trials").out
    assert len(numbers(study)) == 6
    status = study("status").out
    assert ", after 3 trials: budget 3 trials -> 5 trials" in status
    assert ", after 5 trials: budget 5 trials -> 6 trials" in status
    (change, _) = json.loads(study("status", "--format", "json").out)["changes"]
    assert change["said"] == {"budget": ["3 trials", "5 trials"]}


@pytest.mark.slow
def test_run_again_prints_what_changes_and_resumes(study, printing):
    again = [*RUN, "--budget", "5 trials", "--timeout", "1m", "--stop", "max_trials(4)"]
    result = study(*again, "--workers", "2", "--", *printing("{x}"))
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[:4] == [
        "Resuming study 'default' in farthing.db: 3 trials, 3 of 5 trials, 6 spent.",
        "Changed: budget: 3 trials -> 5 trials",
        "Changed: stop: none -> MaxTrials(count=4)",
        "Changed: timeout: none -> 1 m 00 s",
    ]
    assert len(numbers(study)) == 4
    assert "Changed" not in study(*again, "--", *printing("{x}")).out


@pytest.mark.slow
def test_the_same_command_does_not_undo_a_change(study, quick, printing):
    study("change", "--budget", "+1 trials")
    result = study("run", *quick, "--param", "x=float:0:1", "--", *printing("{x}"))
    assert (
        "Keeping budget = 4 trials (changed since the study was created); ignoring budget = 3"
        in result.out
    )
    assert len(numbers(study)) == 4


@pytest.mark.slow
def test_another_command_is_printed(study, quick):
    result = study("run", *quick, "--param", "x=float:0:1", "--", "true", "{x}")
    assert result.code == 0
    assert "Changed: command: sh -c" in result.out
    assert " -> true '{x}'\n" in result.out
    assert study("change", "default", "--", "echo", "{x}").out == (
        "Changed: command: true '{x}' -> echo '{x}'\n"
    )


@pytest.mark.slow
def test_a_parameter_becomes_wider(study):
    result = study("change", "--param", "x=float:0:2", "--policy", "sobol", "--budget", "9 trials")
    assert result.code == 0, result.err
    assert "Changed: x: 0 to 1 -> 0 to 2" in result.out
    assert study("run").code == 0
    rows = json.loads(study("trials", "--format", "json").out)
    assert any(row["params"]["x"] > 1 for row in rows)


def test_none_removes_a_setting(study):
    study("change", "--timeout", "5m", "--stop", "target(0)", "--max-overrun", "3")
    result = study("change", "--timeout", "none", "--stop", "none", "--max-overrun", "none")
    assert result.out.splitlines() == [
        "Changed: stop: Target(value=0) -> none",
        "Changed: max-overrun: 3 -> none",
        "Changed: timeout: 5 m 00 s -> none",
    ]


def test_a_budget_below_what_was_spent_is_printed(study):
    result = study("change", "--budget", "2 trials")
    assert result.code == 0
    assert "3 trials are already spent or reserved. No new trial will start" in result.out
    assert "stopped: the budget of 2 trials is spent" in study("run").out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "nothing to change"),
        (["--budget", "+3m"], "--budget '+3m': there is no limit of s to change"),
        (["--budget", "soon"], "'soon' is not a budget"),
        (["--param", "x=float:0.5:1"], "Parameter 'x' is 0 to 1"),
        (["--param", "y=float:0:1"], "Parameter 'y' is new"),
        (["--policy", "rndom"], "Did you mean random?"),
        (["--timeout", "$3"], "--timeout '$3': expected seconds"),
        (["other"], "There is no study 'other'"),
        (
            ["default", "--name", "other"],
            "The argument names study 'default', but --name is 'other'",
        ),
        (["--rate", "$3/h"], "--rate '$3/h' has no effect"),
    ],
)
def test_what_cannot_be_changed_is_an_error_of_one_line(study, arguments, part):
    result = study("change", *arguments)
    assert (result.code, result.out) == (2, "")
    assert part in result.err
    assert len(result.err.splitlines()) == 1
    assert '{"' not in result.err  # no stored text
    assert Study.open("farthing.db", "default").changes == []


def test_a_study_without_a_command_asks_for_one(study, tmp_path):
    from farthing import Float

    Study.create(tmp_path / "farthing.db", name="py", space={"x": Float(0, 1)}, budget="3 trials")
    result = study("run", "--name", "py")
    assert result.code == 2
    assert "has no command" in result.err


@pytest.mark.slow
def test_a_study_gets_another_command_and_keeps_its_parameters(study, tmp_path, printing):
    from farthing import Float

    Study.create(tmp_path / "farthing.db", name="py", space={"x": Float(0, 1)}, budget="3 trials")
    result = study("run", "--name", "py", "--", *printing("{x}"))
    assert result.code == 0, result.err
    result = study("run", "--name", "py", "--budget", "+1 trials", "--", *printing("0{x}"))
    assert result.code == 0, result.err
    assert "Changed: command: " in result.out
    assert "Changed: budget: 3 trials -> 4 trials" in result.out
    assert len(Study.open("farthing.db", "py").history) == 4


def test_a_study_of_a_table_keeps_its_rows(farthing):
    """`--param` describes one parameter, and the rows of the table stay."""
    space = Space.from_rows([{"a": 2}, {"a": 1, "b": 5}], {"a": Int(1, 4), "b": Int(5, 6)})
    made = Study.create("farthing.db", name="t", space=space, budget="2 trials", policy=Random())
    made.tell(made.ask(), 1.0)
    made.close()
    result = farthing("change", "t", "--param", "a=int:0:9")
    assert (result.code, result.err) == (0, "")
    opened = Study.open("farthing.db", "t")
    assert opened.space.parameters["a"] == Int(0, 9)
    assert opened.space.allowed == space.allowed
    opened.close()


@pytest.mark.parametrize("amounts", [("+1 trials", "4 trials"), ("-1 trials", "2 trials")])
def test_a_budget_with_a_sign_changes_that_of_the_study_also_with_parameters(
    study, printing, amounts
):
    """It once replaced the budget."""
    again = ["run", "--policy", "random", "--param", "x=float:0:1", "--", *printing("{x}")]
    result = study(*again[:1], "--budget", amounts[0], *again[1:])
    assert f"Changed: budget: 3 trials -> {amounts[1]}\n" in result.out
    result = study("run", "--budget", "+2 trials", *again[1:])  # again, and not to the first budget
    assert f"Changed: budget: {amounts[1]} -> " in result.out
    result = study(*again[:1], "--budget", "3 trials, +$1", *again[1:])
    assert (result.code, "expected a sign before every amount" in result.err) == (2, True)


def test_a_file_may_name_the_parameters_of_a_study_whose_budget_grows(study, printing, tmp_path):
    (tmp_path / "farthing.toml").write_text('[run]\nbudget = "3 trials"\n[params]\nx="float:0:1"\n')
    result = study("run", "--policy", "random", "--budget", "+1 trials", "--", *printing("{x}"))
    assert "Changed: budget: 3 trials -> 4 trials\n" in result.out
    result = study("run", "--policy", "random", "--", *printing("{x}"))
    assert "Keeping budget = 4 trials" in result.out


def test_a_budget_with_a_sign_needs_an_existing_study(farthing, printing, tmp_path):
    result = farthing("run", "--budget", "+1s", "--param", "x=float:0:1", "--", *printing("{x}"))
    assert result.code == 2
    assert "--budget +1s: a sign changes the budget of an existing study" in result.err
    assert "no study 'default'" in result.err
    assert not (tmp_path / "farthing.db").exists()


@pytest.fixture
def default(farthing, printing):
    """A study whose user named no policy."""
    farthing("run", "--budget", "2 cost", "--param", "x=float:0:1", "--", *printing("{x}"))
    return farthing


def test_an_exchange_rate_brings_the_default_policy_for_it(default):
    """Its user never chose Cooling, which does not use an exchange rate."""
    result = default("change", "--worth", "0.1")
    assert (result.code, result.err) == (0, "")
    assert "policy: Cooling(first=0.5) -> Gittins()" in result.out
    assert "worth: none -> 0.1" in result.out


def test_a_policy_stays_and_its_advice_is_a_command(study, printing):
    result = study("change", "--worth", "0.1")
    assert result.code == 2
    assert "Add --policy gittins or --stop not_worth_it, or leave worth out." in result.err
    again = "run", "--param", "x=float:0:1", "--budget", "4 trials", "--", *printing("{x}")
    assert "policy" not in study(*again).out
    assert Study.open("farthing.db", "default").policy == Random()


def test_the_way_back_to_the_default_policy(default, printing):
    assert "Changed: policy: Cooling(first=0.5) -> EI()" in default("change", "--policy", "ei").out
    assert "policy: EI() -> Cooling(first=0.5)" in default("change", "--policy", "default").out
    again = ["run", "--budget", "2 cost", "--param", "x=float:0:1"]
    for policy, (before, after) in {
        "ei": ("Cooling(first=0.5)", "EI()"),
        "default": ("EI()", "Cooling(first=0.5)"),
    }.items():
        result = default(*again, "--policy", policy, "--", *printing("{x}"))
        assert f"policy: {before} -> {after}" in result.out
