"""Errors: one line on stderr, a defined exit code, and no data is lost."""

import json
import os
import sqlite3
from contextlib import closing

import pytest
from processes import FOREVER

X = ["--param", "x=float:0:1"]


def is_one_line(result, *parts):
    """Whether a usage error has nothing on stdout, and one line on stderr with these parts."""
    assert result.code == 2
    assert result.out == ""
    assert len(result.err.splitlines()) == 1
    assert result.err.startswith("Error: ")
    return all(part in result.err for part in parts)


def trials_of(farthing):
    return json.loads(farthing("trials", "--format", "json").out)


# ── invalid options ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--budget", "5m", "--", "true"], ["no parameters to tune", "--param"]),
        (["--budget", "5m", *X], ["no command", "farthing run ... --"]),
        ([*X, "--", "true", "{x}"], ["would never end", "--budget"]),
        (["--budget", "5 parsecs", *X, "--", "true"], ["unknown unit 'parsecs'"]),
        (["--budget", "5m", "--param", "x", "--", "true"], ["expected a name and a range"]),
        (["--budget", "5m", "--param", "x=float:1:0", "--", "true"], ["low"]),
        (
            ["--budget", "5m", "--param", "x=int:9:1", "--", "true"],
            ["Parameter x=int:9:1: ", "low"],
        ),
        (["--budget", "5m", *X, "--policy", "coling", "--", "true"], ["Did you mean cooling?"]),
        (["--budget", "5m", *X, "--stop", "targe(1)", "--", "true"], ["Did you mean target?"]),
        (
            ["--budget", "5m", *X, "--policy", "ei", "--worth", "1", "--", "true"],
            ["has no effect"],
        ),
        (["--budget", "5m", *X, "--stop", "not_worth_it", "--", "true"], ["--worth"]),
        (["--budget", "5m", *X, "--rate", "$3/h", "--", "true"], ["has no effect", "usd"]),
        (["--budget", "$5", *X, "--rate", "3", "--", "true"], ["price per time"]),
        (["--budget", "5m", *X, "--cost", "cpu", "--", "true"], ["has no effect", "worker_m"]),
        (["--budget", "5m", *X, "--cost", "reported", "--", "true"], ["always used"]),
        (
            ["--budget", "5m", *X, "--cost", "linear", "--cost", "log_gp", "--", "true"],
            ["one cost model"],
        ),
        (["--budget", "5m", *X, "--timeout", "soon", "--", "true"], ["soon"]),
        (
            ["--budget", "5m", *X, "--timeout", "$5", "--", "true"],
            ["--timeout '$5'", "a time"],
        ),
        (["--budget", "5m", *X, "--lease", "0", "--", "true"], ["--lease 0.0", "above 0"]),
        (
            ["--budget", "5m", *X, "--policy", "os:system", "--", "true"],
            ["--policy os:system: expected a policy"],
        ),
        (["--budget", "5m", *X, "--policy", "math:pi", "--", "true"], ["expected a policy"]),
        (
            ["--budget", "5m", *X, "--stop", "math:sqrt", "--", "true"],
            ["--stop math:sqrt: expected a stopping rule"],
        ),
        (
            ["--budget", "5m", *X, "--cost", "math:sqrt", "--", "true", "{x}"],
            ["The cost function failed at", "TypeError"],
        ),
        (["--budget", "5m", *X, "--cost", "math:pi", "--", "true"], ["--cost math:pi: expected a"]),
        (
            ["--budget", "5m", *X, "--param", "x=float:0:2", "--", "true"],
            ["--param x is given twice: float:0:1 and float:0:2"],
        ),
        (["--budget", "soon", *X, "--", "true"], ["'soon' is not a budget", '"2h"']),
        (["--budget", "5m", *X, "--worth", "1 = x", "--", "true"], ["'x' is not a budget"]),
        (["--budget", "$5", *X, "--rate", "x/h", "--", "true"], ["--rate 'x/h': expected a price"]),
        (["--budget", "5m", *X, "--", "true", "{y}"], ["The command has {y}", "no --param y="]),
        (["--budget", "5m", *X, "--", "no-such-program", "{x}"], ["no program 'no-such-program'"]),
        (["--budget", "5m", *X, "--", "./no-such-file", "{x}"], ["There is no program"]),
        (["--budget", "5m", *X, "--", "/etc/passwd", "{x}"], ["not an executable program"]),
        (
            ["--budget", "5m", *X, "--config", "none.toml", "--", "true"],
            ["none.toml cannot be read"],
        ),
    ],
)
def test_a_run_that_cannot_start(farthing, tmp_path, arguments, parts):
    assert is_one_line(farthing("run", *arguments), *parts)
    assert list(tmp_path.iterdir()) == []  # not even a database was created


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["run", "--workers", "0"], "--workers"),
        (["run", "--seed", "x"], "--seed"),
        (["run", "--no-such-option"], "--no-such-option"),
        (["no-such-command"], "no-such-command"),
        (["trials", "--format", "xml"], "xml"),
        (["explain", "one"], "one"),
    ],
)
def test_errors_of_click_are_usage_errors(farthing, arguments, part):
    result = farthing(*arguments)
    assert (result.code, result.out) == (2, "")
    assert part in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[run\n", "cannot be read"),
        ("[runs]\n", "expected the tables [run], [params] and [env], not runs"),
        ("run = 3\n", "expected the tables"),
        ("[run]\nbuget = '5m'\n", "unknown setting 'buget'. Did you mean 'budget'? The settings"),
        (
            "[run]\nbudget = '5m'\ncommand = ['true']\n[params]\nx = {type='int', low=9, high=1}\n",
            "Parameter x: Int(low=9, high=1): low must",
        ),
        (
            "[run]\nbudget='5m'\ncommand='true'\n[params]\nx='float:0:1'\n",
            "expected a list of strings",
        ),
        ("[run]\ncommand=[1]\nbudget='5m'\n[params]\nx='float:0:1'\n", "a list of strings"),
        ("[run]\nworkers='4'\n", "workers = '4': expected an integer"),
        ("[run]\nfailures-in-a-row=true\n", "failures_in_a_row = True: expected an integer"),
    ],
)
def test_a_config_file_with_errors(farthing, tmp_path, text, part):
    (tmp_path / "farthing.toml").write_text(text)
    assert is_one_line(farthing("run"), part)


def test_a_conditional_parameter_needs_a_question_mark(farthing, tmp_path):
    (tmp_path / "farthing.toml").write_text(
        "[params]\nk = 'choice:a,b'\nm = {type='float', low=0, high=1, when={k='a'}}\n"
    )
    run = ["run", "--budget", "1 trials", "--policy", "random", "--", "sh", "-c"]
    echo = "echo '{\"value\": 1}'"
    assert is_one_line(farthing(*run, echo, "{m}"), "--m={m?}")
    assert farthing(*run, echo, "--m={m?}").code == 0


# ── commands that fail ───────────────────────────────────────────────────────────────────────────


def run_bad(farthing, code, *options):
    """Three trials of a shell script."""
    return farthing(
        *("run", "--policy", "random", "--budget", "3 trials", "--failures-in-a-row", "3", *X),
        *(*options, "--", "sh", "-c", code, "{x}"),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("echo hello", "without a result"),
        ("true", "without a result"),
        ("echo '{\"value\": NaN}'", "expected a finite number"),
        ('echo \'{"value": "good"}\'', "expected a finite number"),
        ("echo '{\"loss\": 1}'", "without a result"),
        ("echo bad news >&2; exit 3", "exit code 3"),
        ("kill -SEGV $$", "signal 11"),
    ],
)
def test_a_command_without_a_result(farthing, code, part):
    result = run_bad(farthing, code)
    assert result.code == 1
    assert "No trial succeeded." in result.err
    assert part in result.out
    assert {row["state"] for row in trials_of(farthing)} == {"failed"}
    assert all(part in row["error"] for row in trials_of(farthing))


def test_the_output_before_a_failure_is_shown(farthing):
    result = run_bad(farthing, "echo bad news >&2; exit 3")
    assert "stopped: 3 trials in a row failed; the first error was:" in result.out
    assert "bad news" in result.out
    for command in ("status", "studies"):  # in one line
        assert "3 trials in a row failed; the first error was: it ended" in farthing(command).out


@pytest.mark.parametrize("failures", ["3", "9"])
def test_no_control_sequence_of_a_program_reaches_the_terminal(farthing, failures):
    """If the budget ends before nine failures in a row, stderr has the first error."""
    escapes = "printf '\\033]0;title\\007' >&2; exit 3"
    results = [run_bad(farthing, escapes, "--failures-in-a-row", failures)]
    results += [
        farthing(*words) for words in (["status"], ["studies"], ["trials"], ["explain", "0"])
    ]
    printed = "".join(result.out + result.err for result in results)
    assert r"\x1b]0;title\x07" in results[0].out + results[0].err
    assert not {"\x1b", "\x07"} & set(printed)


def test_a_budget_of_money_and_a_program_that_reports_no_cost(farthing):
    value = ["sh", "-c", "echo '{\"value\": 1}'"]
    result = farthing("run", "--budget", "$3", "--param", "x=float:0:1", "--", *value)
    assert result.code == 2
    assert "trial 0 did not report its cost in usd" in result.out


def test_a_command_that_prints_a_megabyte(farthing):
    result = run_bad(
        farthing, "head -c 1000000 /dev/zero | tr '\\0' 'x'; echo; echo '{\"value\": 1}'"
    )
    assert result.code == 0
    assert len(result.out) < 10_000
    assert [row["value"] for row in trials_of(farthing)] == [1.0] * 3


def test_a_command_that_ignores_sigterm(farthing):
    result = farthing(
        *("run", "--policy", "random", "--budget", "1 trials", "--timeout", "0.2s"),
        *("--grace", "0.1s", *X, "--"),
        *("sh", "-c", f"trap '' TERM; sleep {FOREVER} & sleep {FOREVER}", "{x}"),
    )
    assert result.code == 1
    (row,) = trials_of(farthing)
    assert (row["state"], row["censored"]) == ("killed", 1)
    assert 0.2 <= row["run_s"] < FOREVER
    assert "timeout of 0.2 s" in result.out


def test_a_parameter_in_no_argument_is_in_the_environment(farthing):
    result = farthing(
        *("run", "--policy", "random", "--budget", "1 trials", *X, "--"),
        *("sh", "-c", 'echo "{\\"value\\": 1, \\"seen\\": $FARTHING_PARAMS}" | tee seen'),
    )
    assert result.code == 0
    assert result.err == (
        "{x} does not appear in the command. The command can read it from FARTHING_PARAMS.\n"
    )
    (row,) = trials_of(farthing)
    with open("seen") as file:
        assert json.load(file)["seen"] == row["params"]


# ── the database ─────────────────────────────────────────────────────────────────────────────────


def run_on(farthing, storage, name="new"):
    return farthing(
        *("run", "--policy", "random", "--budget", "1 trials", "--storage", storage),
        *("--name", name, *X, "--"),
        *("sh", "-c", "echo '{\"value\": 1}'", "{x}"),
    )


@pytest.mark.parametrize("command", ["status", "best", "trials", "export", "stop"])
def test_reading_creates_no_database(farthing, tmp_path, command):
    assert is_one_line(farthing(command), "no database 'farthing.db' here", "farthing run")
    assert list(tmp_path.iterdir()) == []


def test_a_study_that_does_not_exist(study):
    result = study("best", "--name", "other")
    assert is_one_line(result, "no study 'other'", "'default'")
    assert "Study." not in result.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_database_that_is_read_only(study):
    os.chmod("farthing.db", 0o444)
    os.chmod(".", 0o555)
    try:
        assert is_one_line(run_on(study, "farthing.db"), "cannot be written to")
    finally:
        os.chmod(".", 0o755)


def test_a_database_opened_read_only(study):
    # Root ignores file permissions, so SQLite itself opens the file read-only.
    result = run_on(study, "sqlite:///file:farthing.db?mode=ro&uri=true")
    assert is_one_line(result, "cannot be written to")


def test_a_database_that_is_locked(study, monkeypatch):
    monkeypatch.setattr("farthing.storage.database.PATIENCE", 0.1)
    with closing(sqlite3.connect("farthing.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert is_one_line(run_on(study, "farthing.db"), "was locked by another program")
        other.execute("ROLLBACK")


def test_a_database_that_is_unreachable(farthing):
    pytest.importorskip("psycopg")
    result = run_on(farthing, "postgresql://nobody:secret@127.0.0.1:1/none")
    assert is_one_line(result, "cannot be reached")
    assert "secret" not in result.err


def test_a_database_of_a_newer_schema(study):
    with closing(sqlite3.connect("farthing.db")) as database:
        database.execute("UPDATE farthing_schema SET version = 99")
        database.commit()
    assert is_one_line(study("status"), "schema version 99", "Upgrade")


def test_a_file_that_is_not_a_database(farthing, tmp_path):
    (tmp_path / "farthing.db").write_text("to be or not to be, " * 100)
    assert is_one_line(farthing("status"), "it is not a database")


def test_a_folder_that_does_not_exist(farthing):
    assert is_one_line(run_on(farthing, "no/such/folder/x.db"), "does not exist")


def test_a_url_of_another_database(farthing):
    assert is_one_line(run_on(farthing, "mysql://x/y"), "SQLite file or on a PostgreSQL")
