"""Looking at a study from another person executes no code that it names."""

import gc
import json
import sqlite3
import subprocess
import sys
from contextlib import suppress

import pytest

from farthing import Float, Study
from farthing.errors import FarthingError, InvalidInput, StorageError
from farthing.policies import Random
from farthing.storage.schema import trials
from farthing.storage.settings_text import external_in

LOOKS = [
    ["status"],
    ["best"],
    ["trials"],
    ["export"],
    ["explain", "0"],
    ["report"],
    ["costs"],
    ["plot", "curve"],
    ["plot", "money"],
    ["replay", "--stop", "max_trials(2)"],
    ["studies"],
    ["rerun", "0"],
    ["drop", "1"],
    ["stop"],
]
POLICY = """
from dataclasses import dataclass
from typing import ClassVar
open("imported", "a").close()

@dataclass(frozen=True)
class Mine:
    needs: ClassVar = frozenset()
    reads: ClassVar = frozenset()

    def propose(self, belief, rng):
        from farthing.policies import Random
        return Random().propose(belief, rng)
"""


@pytest.fixture
def farthing(tmp_path, monkeypatch, capfd):
    """The command line, in a folder with a policy of a user."""
    from farthing.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    monkeypatch.delitem(sys.modules, "own_policy", raising=False)

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["farthing", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main(list(arguments))
        said = capfd.readouterr()
        assert "Traceback" not in said.err
        return exit.value.code, said.out, said.err

    yield call
    sys.modules.pop("own_policy", None)


def a_study(path, trials=3, **settings):
    study = Study.create(path, name="default", space={"x": Float(0, 1)}, **settings)
    for _ in range(trials):
        trial = study.ask()
        study.tell(trial, trial.params["x"], cost=1.0)
    study.close()


def rewrite(path, **parts):
    """Change the settings of a study as another program would."""
    database = sqlite3.connect(path)
    (text,) = database.execute("SELECT settings FROM farthing_studies").fetchone()
    database.execute(
        "UPDATE farthing_studies SET settings = ?", [json.dumps(json.loads(text) | parts)]
    )
    database.commit()
    database.close()


HOSTILE = [
    {"cost": {"__is__": "farthing.cost.known:Known", "f": {"__function__": "subprocess:call"}}},
    {"cost": {"__function__": "os:system"}},
    {"cost": {"__function__": "farthing.running.supervisor:os.system"}},
    {"cost": {"__function__": "farthing.cost.known:inspect.getsource"}},
    {"policy": {"__is__": "own_policy:Mine"}},
    {"stop": {"__is__": "own_policy:Mine"}},
    {
        "policy": {
            "__is__": "farthing.policies.start_with:StartWith",
            "then": {"__is__": "own_policy:Mine"},
        }
    },
    {"policy": {"__is__": "farthing.integrations.optuna:CostAwareSampler"}},
    {"policy": {"__is__": "farthing.running.command:CommandTask", "argv": ["true"]}},
]


@pytest.mark.slow
@pytest.mark.parametrize("parts", HOSTILE, ids=range(len(HOSTILE)))
def test_looking_imports_and_calls_nothing_that_a_database_names(
    parts, farthing, tmp_path, monkeypatch
):
    import os
    import subprocess

    def called(*_, **__):
        (tmp_path / "called").touch()
        return 1.0

    for module, name in ((subprocess, "call"), (os, "system")):
        monkeypatch.setattr(module, name, called)
    (tmp_path / "own_policy.py").write_text(POLICY)
    a_study("farthing.db", budget=100.0)
    rewrite("farthing.db", **parts)
    loaded = set(sys.modules)
    for look in LOOKS:
        code, _, err = farthing(*look)
        assert code == 0 or (look, code) == (["costs"], 1), (look, err)
    assert Study.open("farthing.db", "default", look=True).own_code
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "imported").exists()
    assert {"own_policy", "farthing.integrations.optuna"} & (set(sys.modules) - loaded) == set()
    code, _, err = farthing("worker", "farthing.db", "default", "--", "true")
    assert (code, "--trust once" in err) == (2, True)
    assert not (tmp_path / "imported").exists()
    with pytest.raises(InvalidInput, match="Pass it again"):
        Study.open("farthing.db", "default")


def test_external_code_is_shown_as_text_and_ask_is_refused(tmp_path):
    path = tmp_path / "s.db"
    a_study(path)
    rewrite(path, policy={"__is__": "own_policy:Mine", "boldness": 2})
    study = Study.open(path, "default", look=True)
    assert study.settings["policy"] == {"__is__": "own_policy:Mine", "boldness": 2}
    assert study.own_code == {"policy": ["own_policy:Mine"]}
    assert len(study.history) == 3
    with pytest.raises(InvalidInput, match=r"custom code.*own_policy:Mine"):
        study.ask()
    study.change(seed=3)  # and what it is made with stays as it is
    assert Study.open(path, "default", look=True).own_code == study.own_code
    study.change(policy=Random())
    assert Study.open(path, "default").ask().number == 3


def test_trust_is_remembered_for_these_names_in_this_database(farthing, tmp_path):
    (tmp_path / "own_policy.py").write_text(POLICY)
    a_study("farthing.db", budget="4 trials", command=["echo", '{"value": 1}'])
    rewrite("farthing.db", policy={"__is__": "own_policy:Mine"})
    run = ("run", "--name", "default", "--quiet")
    assert farthing(*run)[0] == 2
    code, _, err = farthing(*run, "--trust")
    assert code == 0, err
    assert (tmp_path / "imported").exists()
    assert (tmp_path / "config" / "farthing" / "trusted.json").stat().st_mode & 0o77 == 0
    assert farthing(*run)[0] == 0  # remembered
    rewrite("farthing.db", policy={"__is__": "own_policy:Other"})
    code, _, err = farthing(*run)
    assert (code, "own_policy:Other" in err) == (2, True)
    rewrite("farthing.db", policy={"__is__": "own_policy:Mine"})
    (tmp_path / "farthing.db").rename(tmp_path / "moved.db")
    code, _, err = farthing(*run, "--storage", "moved.db")
    assert (code, "--trust" in err) == (2, True)


def test_the_current_folder_is_not_on_the_import_path(farthing, tmp_path):
    farthing("policies")
    assert str(tmp_path) not in sys.path


def test_a_running_worker_does_not_import_code_from_changed_settings(tmp_path):
    path = tmp_path / "s.db"
    a_study(path, trials=1)
    worker = Study.open(path, "default")
    Study.open(path, "default").change(policy=Random())
    database = sqlite3.connect(path)
    (text,) = database.execute("SELECT settings FROM farthing_changes").fetchone()
    evil = json.loads(text) | {"policy": {"__is__": "own_policy:Mine"}}
    database.execute("UPDATE farthing_changes SET settings = ?", [json.dumps(evil)])
    database.commit()
    with pytest.raises(InvalidInput, match="custom code"):
        worker.ask()
    assert "own_policy" not in sys.modules


def test_every_external_name_in_a_description_is_found():
    mine = {"__is__": "own:Mine"}
    assert external_in({"s": [1, (mine,)], "usd": {"__function__": None}}) == ["own:Mine", None]
    assert external_in({"__is__": "EI"}) == []
    assert external_in({"__function__": "cheapness"}) == []
    for name in ("farthing.policies.ei:np", "farthing.policiesx:EI", "np", "cheapness", 7, ["EI"]):
        assert external_in({"__is__": name}) == [name]
    for name in ("farthing.cost.known:replace", "os:system", "EI", None):
        assert external_in({"__function__": name}) == [name]


# ── databases that Farthing did not write ──────────────────────────────────────────────────────

COLUMNS = ", ".join("i" if column.name == "number" else column.name for column in trials.columns)
DEEP = "[" * 100_000 + "]" * 100_000
STATEMENTS = [
    "UPDATE farthing_studies SET settings = 'nonsense'",
    "UPDATE farthing_studies SET settings = '[]'",
    "UPDATE farthing_studies SET settings = '{}'",
    "UPDATE farthing_studies SET settings = x'ff00'",
    f"UPDATE farthing_studies SET settings = '{DEEP}'",
    "UPDATE farthing_studies SET settings = replace(settings, '\"low\":0', '\"low\":NaN')",
    "UPDATE farthing_studies SET settings = replace(settings, '\"Float\"', '\"os:system\"')",
    'UPDATE farthing_studies SET ledger = \'{"accounts": {"cost": [NaN, 0, 0]}, "holds": {}}\'',
    "UPDATE farthing_studies SET ledger = 7",
    "UPDATE farthing_studies SET ledger = x'ff'",
    "UPDATE farthing_studies SET revision = 'x'",
    "UPDATE farthing_studies SET trials = 2",
    "UPDATE farthing_studies SET trials = 100000000",
    "UPDATE farthing_studies SET trials = -1",
    "UPDATE farthing_studies SET settings = zeroblob(200000000)",
    f"UPDATE farthing_trials SET notes = '{DEEP}'",
    "UPDATE farthing_trials SET x = '{\"__tuple__\": 5}'",
    "UPDATE farthing_trials SET params = 'null'",
    "UPDATE farthing_studies SET queue = 'nonsense'",
    "UPDATE farthing_studies SET queue = '[[1]]'",
    "UPDATE farthing_studies SET queue = '[[{}, 1, 2]]'",
    "UPDATE farthing_studies SET elapsed_s = 'text'",
    "UPDATE farthing_studies SET thinking_s = 'text'",
    "UPDATE farthing_studies SET thought_s = 'text'",
    "UPDATE farthing_studies SET failures = 'text'",
    "UPDATE farthing_studies SET clock_at = 'text'",
    "UPDATE farthing_studies SET created_at = 'text'",
    "UPDATE farthing_studies SET id = 7",
    "UPDATE farthing_trials SET metrics = '[1]'",
    "UPDATE farthing_trials SET tail = x'ff00'",
    "UPDATE farthing_trials SET log = 7",
    "UPDATE farthing_trials SET cost = '[1]'",
    "UPDATE farthing_trials SET state = 'asleep'",
    "UPDATE farthing_trials SET value = 'text'",
    "UPDATE farthing_trials SET because = CAST(x'ff' AS TEXT)",
    "UPDATE farthing_trials SET number = number + 5",
    "UPDATE farthing_trials SET number = -number",
    "INSERT INTO farthing_schema VALUES (3)",
    "UPDATE farthing_schema SET version = 'x'",
    "DELETE FROM farthing_schema",
    "DROP TABLE farthing_trials",
    "CREATE VIEW farthing_more AS SELECT 1",
    "CREATE TRIGGER t AFTER UPDATE ON farthing_studies BEGIN DELETE FROM farthing_trials; END",
    "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) "
    f"INSERT INTO farthing_trials SELECT {COLUMNS} FROM farthing_trials, n WHERE number = 0",
]


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s[:60])
def test_a_database_that_farthing_did_not_write_is_a_clear_error(statement, farthing):
    a_study("farthing.db", budget=100.0)
    database = sqlite3.connect("farthing.db")
    database.execute(statement)
    database.commit()
    database.close()
    codes = set()
    for look in LOOKS:
        code, _, err = farthing(*look)
        codes.add(code)
        assert code in (0, 1, 2)
        assert code != 2 or len(err) < 1_500
    assert 2 in codes or statement.startswith("UPDATE farthing_trials SET")
    with suppress(FarthingError):
        Study.open("farthing.db", "default").ask()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "text", "word"),
    [
        ("state", "asleep", "asleep"),
        ("params", "[1]", "params"),
        ("notes", "7", "notes"),
        ("metrics", "[1]", "metrics"),
        ("cost", '{"usd": "much"}', "cost"),
        ("predicted", '{"usd": []}', "predicted"),
        ("value", "large", "value"),
        ("lease", "long", "lease"),
        ("asked_at", "noon", "asked_at"),
        ("told_at", "noon", "told_at"),
        ("run_s", "long", "run_s"),
        ("x", "[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]", "point"),
        ("x", "[]", "point"),
    ],
)
def test_one_invalid_trial_among_many_is_refused_and_named(column, text, word, tmp_path):
    path = tmp_path / "s.db"
    a_study(path)
    database = sqlite3.connect(path)
    database.execute(f"UPDATE farthing_trials SET {column} = ? WHERE number = 1", [text])
    database.commit()
    database.close()
    with pytest.raises(StorageError, match=f"a trial .*{word}"):
        _ = Study.open(path, "default").history
    assert gc.isenabled()


@pytest.mark.slow
def test_a_look_does_not_load_what_only_suggestions_need(tmp_path):
    path = tmp_path / "s.db"
    a_study(path)
    code = (
        "import sys\nfrom farthing.cli.entry import main\n"
        f"try:\n main(['status', '--storage', {str(path)!r}])\n"
        "finally:\n print('scipy.stats' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "3 done" in said.stdout
    assert said.stdout.endswith("False\n")
