"""Commands: the arguments of the program, and the result from its output."""

import json
import os
import re
import stat
import sys

import numpy as np
import pytest

from farthing.errors import InvalidInput
from farthing.running import CommandTask
from farthing.running.output import MAX_TAIL

PYTHON = (sys.executable, "-S", "-E")


def script(code, *arguments, **settings):
    return CommandTask([*PYTHON, "-c", code, *arguments], **settings)


# ── the template ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("{lr}", "0.1"),
        ("--lr={lr}", "--lr=0.1"),
        ("{lr}{name}", "0.1a b"),
        ("{{lr}}", "{lr}"),
        ("{{lr?}}", "{lr?}"),
        ("{}", "{}"),
        ("{print $1}", "{print $1}"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("${lr}", "$0.1"),
        ("{learning-rate.x}", "2"),
    ],
)
def test_placeholders_are_replaced(part, expected):
    params = {"lr": 0.1, "name": "a b", "learning-rate.x": 2}
    assert CommandTask(["p", part]).filled(params) == ["p", expected]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-5, "1e-05"),
        (0.1 + 0.2, "0.30000000000000004"),
        (np.float64(0.25), "0.25"),
        (np.int64(3), "3"),
        (np.str_("x"), "x"),
        (True, "true"),
        (np.bool_(False), "false"),
        (None, "None"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_values_as_text(value, text):
    assert CommandTask(["p", "{x}"]).filled({"x": value}) == ["p", text]


def test_a_placeholder_in_a_value_is_not_replaced():
    assert CommandTask(["p", "{a}"]).filled({"a": "{b}", "b": "no"}) == ["p", "{b}"]


def test_an_optional_argument_is_omitted_as_a_whole():
    task = CommandTask(["p", "--momentum={momentum?}", "end"])
    assert task.filled({}) == ["p", "end"]
    assert task.filled({"momentum": 0.9}) == ["p", "--momentum=0.9", "end"]


def test_an_unknown_placeholder_names_the_known_ones():
    with pytest.raises(InvalidInput, match=r"\{rate\}.*lr, depth"):
        CommandTask(["p", "{rate}"]).filled({"lr": 1, "depth": 2})


def test_placeholders():
    task = CommandTask(["{p}", "--a={a}{b?}", "{{c}}", "{d e}"])
    assert task.placeholders == {"p", "a", "b"}


@pytest.mark.parametrize("argv", [[], "python train.py", [""], ["p", 3]])
def test_invalid_commands(argv):
    with pytest.raises(InvalidInput):
        CommandTask(argv)


def test_a_null_character_is_refused(evaluate):
    with pytest.raises(InvalidInput, match="null character"):
        evaluate(script("", "{x}"), {"x": "a\0b"})


NASTY = [
    "two words",
    "quote\"s and 'ticks'",
    "new\nline",
    "-leading",
    "--dashes",
    "$HOME `id` $(id) ; | & > *",
    "{brace} {}",
    "back\\slash",
    "",
    "ü☃",
    "%s",
]


def test_each_value_arrives_unchanged_in_one_argument(evaluate):
    code = 'import json, sys; print(json.dumps({"value": 1, "failed": json.dumps(sys.argv[1:])}))'
    params = {f"p{i}": text for i, text in enumerate(NASTY)}
    finished = evaluate(script(code, *(f"{{{name}}}" for name in params)), params)
    assert json.loads(finished.error) == NASTY


def test_environment_variables(evaluate):
    code = (
        "import json, os; e = os.environ; p = json.loads(e['FARTHING_PARAMS']);"
        "seen = [p, e['FARTHING_TRIAL'], e['FARTHING_SEED'], e['MINE'], e['HOME'] != '']\n"
        "open(e['FARTHING_RESULT'], 'w').write(json.dumps({'failed': json.dumps(seen)}))"
    )
    params = {"lr": np.float64(0.1), "n": np.int64(2), "s": 'a"b\n'}
    finished = evaluate(script(code, env={"MINE": "yes"}), params, number=12, seed=99)
    expected = [{"lr": 0.1, "n": 2, "s": 'a"b\n'}, "12", "99", "yes", True]
    assert json.loads(finished.error) == expected


def test_the_working_directory(evaluate, tmp_path):
    code = "import json, os; print(json.dumps({'failed': os.getcwd()}))"
    assert evaluate(script(code, cwd=tmp_path)).error == str(tmp_path.resolve())
    assert evaluate(script(code)).error == os.getcwd()


def test_stdin_is_empty(evaluate):
    code = "import sys; print('{\"value\": %d}' % len(sys.stdin.read()))"
    assert evaluate(script(code)).value == 0


# ── results ──────────────────────────────────────────────────────────────────────────────────


def test_a_result_on_stdout(evaluate):
    finished = evaluate(script("print('hi'); print('{\"value\": 2.5, \"cost\": 3}'); print('bye')"))
    assert (finished.state, finished.value, finished.cost) == ("done", 2.5, {"": 3.0})
    assert finished.error is None


def test_another_metric(evaluate):
    code = 'print(\'{"loss": 1, "value": 2}\')'
    assert evaluate(script(code, metric="loss")).value == 1


def test_a_result_file_is_removed_afterwards(evaluate, tmp_path):
    code = (
        "import os, sys; name = os.environ['FARTHING_RESULT'];"
        "open(name, 'w').write('{\"value\": 4}'); open(sys.argv[1], 'w').write(name)"
    )
    assert evaluate(script(code, str(tmp_path / "name"))).value == 4
    name = (tmp_path / "name").read_text()
    assert not os.path.exists(os.path.dirname(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "in_the_error"),
    [
        ("", "without a result"),
        ("print('value = 3')", "value = 3"),
        ("print('{\"value\": NaN}')", "NaN"),
        ("print('{\"value\": Infinity}')", "Infinity"),
        ("raise RuntimeError('boom')", "boom"),
        ("print('{\"value\": 3}'); import sys; sys.exit(3)", "exit code 3"),
        ("import os; os.abort()", "Abort"),
        ("import os; os.kill(os.getpid(), 9)", "out of memory"),
    ],
)
def test_failures_of_a_command(evaluate, code, in_the_error):
    finished = evaluate(script(code))
    assert (finished.state, finished.value) == ("failed", None)
    assert in_the_error in finished.error


def test_the_last_lines_of_stderr_are_in_the_error(evaluate):
    code = "import sys; [print('line', i, file=sys.stderr) for i in range(200)]; sys.exit(1)"
    lines = evaluate(script(code)).error.splitlines()
    assert lines[1:] == [f"line {i}" for i in range(200 - MAX_TAIL, 200)]


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("what", ["'x' * 79 + chr(10)", "'x' * 80"])
def test_large_output_is_read(evaluate, stream, what):
    # 16 MB: more than a pipe or a line may contain, with and without line ends.
    code = (
        f"import sys; chunk = ({what}) * 4096\nfor _ in range(50): sys.{stream}.write(chunk)\n"
        "print(); print('{\"value\": 1}')"
    )
    finished = evaluate(script(code))
    assert finished.state == "done", finished.error[:500]


def test_progress_is_passed_on_while_it_runs(evaluate, tmp_path):
    # The command waits for a file that the first progress report creates.
    code = (
        'import os, sys, time; print(\'{"step": 1, "value": 4, "cost": 2}\', flush=True)\n'
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        'print(\'{"step": 2, "cost": {"usd": 7}}\'); print(\'{"value": 3}\')'
    )
    seen = []

    def on_report(message, usage):
        seen.append((dict(message), dict(usage.reported)))
        (tmp_path / "go").touch()

    finished = evaluate(script(code, str(tmp_path / "go")), on_report=on_report)
    assert finished.value == 3
    first, second = {"step": 1, "value": 4, "cost": 2}, {"step": 2, "cost": {"usd": 7}}
    assert [message for message, _ in seen] == [first, second]
    assert seen[0][1] == {"": 2.0}
    assert list(finished.reports) == [first, second]
    assert finished.usage.reported == {"": 2.0, "usd": 7.0}
    assert finished.cost == {}


# ── commands that cannot start ───────────────────────────────────────────────────────────────


def test_a_program_that_does_not_exist(evaluate, tmp_path):
    with pytest.raises(InvalidInput, match="no program 'no-such-program-here'"):
        evaluate(CommandTask(["no-such-program-here"]))
    with pytest.raises(InvalidInput, match=re.escape(str(tmp_path / "no.sh"))):
        evaluate(CommandTask(["./no.sh"], cwd=tmp_path))


@pytest.mark.parametrize("make", ["touch", "mkdir"])
def test_a_file_that_is_not_a_program(evaluate, tmp_path, make):
    getattr(tmp_path / "thing", make)()
    with pytest.raises(InvalidInput, match="not an executable"):
        evaluate(CommandTask(["./thing"], cwd=tmp_path))


def test_a_script_without_a_first_line(evaluate, tmp_path):
    file = tmp_path / "script"
    file.write_text("echo '{\"value\": 1}'\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(InvalidInput, match="#!/bin/sh"):
        evaluate(CommandTask([str(file)]))
    file.write_text("#!/bin/sh\necho '{\"value\": 1}'\n")
    assert evaluate(CommandTask(["./script"], cwd=tmp_path)).value == 1


def test_the_path_variable_of_the_command_is_used(evaluate, tmp_path):
    file = tmp_path / "only-here"
    file.write_text("#!/bin/sh\necho '{\"value\": 1}'\n")
    file.chmod(0o755)
    task = CommandTask(["only-here"], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert evaluate(task).value == 1


def test_a_working_directory_that_does_not_exist(evaluate, tmp_path):
    finished = evaluate(script("", cwd=tmp_path / "missing"))
    assert finished.state == "lost"
    assert "missing" in finished.error


def test_a_full_disk(evaluate):
    finished = evaluate(script("open('/dev/full', 'w').write('x' * 100_000)"))
    assert finished.state == "lost"


def test_a_file_that_grows_past_its_limit_is_a_plain_failure(evaluate, tmp_path):
    # The user set the limit on the file size, so the machine is not the cause.
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "open(sys.argv[1], 'w').write('x' * 5000)"
    )
    finished = evaluate(script(code, str(tmp_path / "large")))
    assert finished.state == "failed"
