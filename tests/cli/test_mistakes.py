"""Mistakes in the command line of `farthing run`, reported before the first trial."""

import pytest

from farthing import Float, Int, Study

X = ["--param", "x=float:0:1"]
RUN = ["run", "--policy", "random", "--budget", "3 trials"]
UNPRICED = ["sh", "-c", 'echo "{\\"loss\\": $0}"', "{x}"]


def refused(result, *parts):
    """It ended with an error of one line that has these parts, and no trial has run."""
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    for part in parts:
        assert part in result.err
    return True


@pytest.mark.parametrize(
    ("params", "command", "parts"),
    [
        (X, ["true", "{lr}"], ["The command has {lr}, but there is no --param lr=...",
                               "The parameters are x.", "Add --param lr=float:LOW:HIGH."]),
        (X, ["true", "{xx}"], ["The command has {xx}", "Did you mean {x}?"]),
        ([], ["true", "{lr}"], ["The command has {lr}, but there is no --param lr=... Add "]),
        ([], ["true", "{x}", *X], ["Options of Farthing, such as --param, come before the"]),
        (X, ["true", "{x}", "{{y}}", "{z?}"], ["The command has {z}"]),
        ([], ["true"], ["There are no parameters to tune"]),
    ],
)  # fmt: skip
def test_a_placeholder_that_is_no_parameter(farthing, tmp_path, params, command, parts):
    assert refused(farthing(*RUN, *params, "--", *command), *parts)
    assert list(tmp_path.iterdir()) == []


def test_a_placeholder_that_is_no_parameter_of_an_existing_study(study):
    result = study("run", "--budget", "+1 trials", "--", "true", "{y}")
    assert refused(result, "The command has {y}", "The parameters are x.")
    assert Study.open("farthing.db", "default").changes == []


def test_a_parameter_that_the_command_lacks(farthing, tmp_path, printing):
    more = [*X, "--param", "depth=int:1:8"]
    result = farthing(*RUN, *more, "--", *printing("{x}"))
    assert refused(result, "--param depth has no effect", "--depth {depth}", "FARTHING_PARAMS")
    assert list(tmp_path.iterdir()) == []
    reads = ["sh", "-c", 'test "$FARTHING_PARAMS" && echo "{\\"value\\": $0}"', "{x}"]
    result = farthing(*RUN, *more, "--", *reads)
    assert result.code == 0, result.err
    assert "{depth} does not appear in the command." in result.err


def test_a_study_of_an_older_version_whose_command_lacks_a_parameter_goes_on(farthing, printing):
    space = {"x": Float(0, 1), "depth": Int(1, 8)}
    Study.create("farthing.db", name="default", space=space, budget="3 trials").close()
    result = farthing(*RUN, *X, "--param", "depth=int:1:8", "--", *printing("{x}"))
    assert result.code == 0, result.err


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["--budget", "10", "minutes"], "Write --budget 10m, or quote it: --budget '10 minutes'."),
        (["--budget", "1.5", "h"], "Write --budget 90m, or quote it: --budget '1.5 h'."),
        (["--budget", "50", "trials"], "Quote it: --budget '50 trials'."),
        (["--budget", "+10", "s"], "Write --budget 10s, or quote it: --budget '+10 s'."),
        (["--budget", "1h", "30m"], "Write --budget 90m, or quote it: --budget '1h 30m'."),
        (["--budget", "9m", "--timeout", "5", "sec"], "--timeout 5s, or quote it: --timeout '5 s"),
    ],
)
def test_an_amount_without_quotes(farthing, tmp_path, given, text):
    for arguments in ([*given, *X], [*X, *given]):
        assert refused(farthing("run", *arguments, "--", "true", "{x}"), "two arguments", text)
    for command in ("change", "import log.csv", "change svm"):
        assert refused(farthing(*command.split(), *given), "two arguments", text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("budget", ["0", ""])
def test_a_dollar_that_the_shell_has_replaced(farthing, tmp_path, budget):
    result = farthing("run", "--budget", budget, *X, "--", "true", "{x}")
    assert refused(result, f"--budget {budget!r}: expected an amount above 0", "--budget '$40'.")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("parameter", "problem"),
    [
        ("x=float:0:0.5", "Parameter 'x' is 0 to 1 and cannot become 0 to 0.5"),
        ("x=int:0:1", "Parameter 'x' is 0 to 1 and cannot become"),
        ("y=float:0:1", "lacks the parameter 'x'"),
    ],
)
def test_another_range_than_that_of_the_study(study, parameter, problem):
    result = study(*RUN, "--param", parameter, "--", "true", f"{{{parameter[0]}}}")
    assert refused(result, problem, "The study has x: 0 to 1.", "leave out --param")
    for advice in ("`farthing change`", "--name NEW"):
        assert advice in result.err
    assert len(Study.open("farthing.db", "default").history) == 3


def test_a_wider_range_is_applied_and_printed(study, printing):
    result = study(*RUN, "--param", "x=float:0:2", "--", *printing("{x}"))
    assert result.code == 0, result.err
    assert "Changed: x: 0 to 1 -> 0 to 2\n" in result.out


def test_another_error_of_a_resumed_study_does_not_list_its_parameters(study, printing):
    result = study(*RUN, *X, "--maximize", "--", *printing("{x}"))
    assert refused(result)
    assert "The study has" not in result.err


@pytest.mark.parametrize(
    ("budget", "line", "rate"),
    [
        ("$40", '{"loss": 0.31, "cost": {"usd": 0.12}}.', " --rate '$3.06/h'."),
        ("2kWh", '{"loss": 0.31, "cost": {"kWh": 0.12}}.', " --rate '0.4kWh/h'."),
        ("40", '{"loss": 0.31, "cost": 12.5}.', None),
    ],
)
def test_a_cost_that_only_the_program_knows(farthing, budget, line, rate):
    """A notice before the first trial; after it, the study stops and says what to do."""
    run = ("run", "--budget", budget, "--metric", "loss", *X)
    result = farthing(*run, "--", *UNPRICED)
    assert result.code == 2
    notice, _, advice = result.err.splitlines()[0], *result.err.splitlines()[-2:]
    assert "which Farthing cannot measure. Let the program print its cost" in notice
    for text in (notice, advice):
        assert line in text
        assert ("--rate" in text) == (rate is not None)
        assert rate is None or rate in text
    assert advice.endswith("Then run again.")
    assert len(Study.open("farthing.db", "default").history) == 1


def test_a_rate_or_a_reported_cost_needs_no_notice(farthing):
    run = ("run", "--budget", "$40", "--stop", "max_trials(2)", *X, "--policy", "random")
    priced = ["sh", "-c", 'echo "{\\"value\\": $0, \\"cost\\": {\\"usd\\": 1}}"', "{x}"]
    assert farthing(*run, "--name", "a", "--rate", "$3/h", "--", *priced).err == ""
    assert "cannot measure" in farthing(*run, "--name", "b", "--", *priced).err
    again = farthing(*run, "--budget", "$41", "--name", "b", "--", *priced)
    assert (again.code, again.err) == (0, "")
    time = farthing(*run, "--budget", "9m", "--name", "c", "--", *priced)
    assert (time.code, time.err) == (0, "")


def test_a_value_under_another_key_hints_at_the_option(farthing):
    program = ["sh", "-c", """echo '{"loss": 0.3}'"""]
    result = farthing("run", "--budget", "1 trials", "--param", "x=float:0:1", "--", *program)
    assert "If 'loss' is the value, give --metric loss." in result.err
