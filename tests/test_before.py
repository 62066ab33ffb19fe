"""Studies that the first release left behind: everything in them is there, and they go on.

The files are in tests/data/before; make.py there made them, and `expected.json` is what the release
itself said of them and did next. Only what is promised to users is used here.
"""

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from before import NAMES, OBJECTIVES, SETTINGS, SHELL

from farthing import Budget, InvalidInput, Outcome, Space, Stopped, Study
from farthing.cli import main

FILES = Path(__file__).parent / "data" / "before"
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
SHOWN = ("number", "state", "params", "value", "cost", "predicted", "because", "error")
ACCOUNT = ("limit", "spent", "reserved", "left", "thinking")

# How far in the cube a proposal may be off. Those of "shell" are thought on a budget of seconds, of
# which thinking itself takes some, so they depend on the clock.
# Of a predicted cost: what killed trials cost is learnt from by another likelihood since.
PREDICTED = 2e-2
NEAR = {"mixed": 1e-3, "shell": 0.02, "noisy": 1e-3, "table": 1e-9, "drawn": 1e-12}


@pytest.fixture
def before(url, tmp_path, monkeypatch):
    """The address of a database of the first release."""
    monkeypatch.chdir(tmp_path)
    if url.startswith("sqlite"):
        shutil.copy(FILES / "studies.db", url.removeprefix("sqlite:///"))
        return url
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute((FILES / "postgres.sql").read_text(encoding="utf-8"))
    return url


@pytest.fixture
def farthing(before, capfd):
    """`farthing("best", "--name", ...)` in that database: what it printed."""

    def call(verb, *arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main([verb, "--storage", before, *arguments])
        out, err = capfd.readouterr()
        assert exit.value.code == 0, err
        return out

    return call


def plain(value):
    """As JSON has it: a tuple is a list, a key a string."""
    return json.loads(json.dumps(value))


def numbers(account):
    """An account as the command line describes it; None is unlimited."""
    limits = {key: math.inf if account[key] is None else account[key] for key in ACCOUNT}
    return pytest.approx(limits, rel=1e-12)


def params_of(described):
    return {name: tuple(v) if isinstance(v, list) else v for name, v in described.items()}


def exponents(because):
    """Of the cost: that of cooling falls with what was spent after the initial design."""
    return re.findall(r"cost\^([\d.]*\d)", because)


def is_next(study, trial, expected):
    """Whether that is what the first release proposed."""
    assert trial.number == expected["number"]
    x = study.space.encode(params_of(expected["params"]))
    np.testing.assert_allclose(trial.x, x, rtol=0, atol=NEAR[study.name])
    assert dict(trial.predicted) == pytest.approx(expected["predicted"], rel=PREDICTED)
    assert exponents(trial.because) == exponents(expected["because"])


def tell(study, trial):
    """What the objective says; what that cost."""
    outcome = OBJECTIVES[study.name](trial.params)
    if not isinstance(outcome, Outcome):
        study.tell(trial, outcome)  # the cost is known
        return SETTINGS[study.name]["cost"](trial.params)
    study.tell(trial, outcome.value, cost=outcome.cost)
    return outcome.cost


# ── looking ────────────────────────────────────────────────────────────────────────────────────


def test_all_studies_are_found(before):
    assert Study.names(before) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_there(before, name):
    study, expected = Study.open(before, name, trust=True), EXPECTED[name]
    seen = [{key: plain(getattr(trial, key)) for key in SHOWN} for trial in study.history]
    assert seen == [{key: row[key] for key in SHOWN} for row in expected["trials"]]
    stored = [{key: record[key] for key in expected["trials"][0]} for record in study.records()]
    assert plain(stored) == expected["trials"]
    for trial in study.history:
        assert np.array_equal(trial.x, study.space.encode(trial.params))
    ledger, accounts = study.ledger, expected["status"]["budget"]
    assert list(ledger) == list(accounts)
    for resource, account in accounts.items():
        assert {key: getattr(ledger[resource], key) for key in ACCOUNT} == numbers(account)
    assert plain(ledger.holds) == expected["holds"]
    first = next(iter(accounts.values()))
    assert {key: getattr(ledger, key) for key in ACCOUNT} == numbers(first)
    study.close()


@pytest.mark.parametrize("name", NAMES)
def test_what_follows_is_the_same(before, name):
    study, expected = Study.open(before, name, trust=True), EXPECTED[name]
    assert study.best.number == expected["best"]
    assert study.verdict.stop == expected["verdict"]
    result = study.result()
    assert result.stop_reason == expected["reason"]
    assert result.best.number == expected["best"]
    assert len(result.history) == len(expected["trials"])
    frame = study.dataframe()
    assert list(frame["state"]) == [row["state"] for row in expected["trials"]]
    values = [np.nan if row["value"] is None else row["value"] for row in expected["trials"]]
    np.testing.assert_array_equal(frame["value"].astype(float), values)
    study.close()


@pytest.mark.parametrize("name", SETTINGS)
def test_a_study_is_the_settings_it_was_made_with(before, name):
    study = Study.create(before, name=name, **SETTINGS[name])
    assert len(study.history) == len(EXPECTED[name]["trials"])
    assert study.space == SETTINGS[name]["space"]
    study.close()
    fewer = Space(dict(list(SETTINGS[name]["space"].parameters.items())[:-1]))
    turned = {"minimize": "maximize"}.get(SETTINGS[name].get("direction", "minimize"), "minimize")
    for difference in ({"space": fewer}, {"direction": turned}):
        with pytest.raises(InvalidInput, match="There is already a study"):
            Study.create(before, name=name, **{**SETTINGS[name], **difference})


@pytest.mark.parametrize("name", SETTINGS)
def test_it_can_be_changed(before, name):
    """Other settings are taken, kept, and not taken back by whoever gives the old ones again."""
    budget = Budget(SETTINGS[name]["budget"]).limits
    doubled = {resource: 2 * limit for resource, limit in budget.items()}
    wanted = {**SETTINGS[name], "budget": doubled, "seed": 99}
    study = Study.create(before, name=name, **wanted)
    assert list(study.changed) == ["budget", "seed"]
    assert {r: study.ledger[r].limit for r in budget} == doubled
    study.change(lease=9)
    same = Study.create(before, name=name, **wanted)
    assert (same.changed, list(same.kept)) == ({}, ["lease"])
    again = Study.open(before, name, trust=True)
    assert (again.in_force.lease, again.seed) == (9, 99)
    said = [list(change["said"]) for change in again.changes]
    assert said == [["budget", "seed"], ["lease"]]
    assert len(again.history) == len(EXPECTED[name]["trials"])
    study.close()
    again.close()


@pytest.mark.parametrize("name", NAMES)
def test_commands_show_it(farthing, name):
    where, expected = ("--name", name, "--format", "json"), EXPECTED[name]

    def then(row):
        """What there was to know of a trial at the first release; by now there is more."""
        return {key: row[key] for key in expected["trials"][0]}

    assert [then(row) for row in json.loads(farthing("export", *where))] == expected["trials"]
    assert [then(row) for row in json.loads(farthing("trials", *where))] == expected["trials"]
    best = json.loads(farthing("best", *where))
    assert then(best) == expected["trials"][expected["best"]]
    status = json.loads(farthing("status", *where))
    budget = status.pop("budget")
    elapsed, thinking = status.pop("elapsed_s"), status.pop("thinking_s")
    seconds = expected["status"]["budget"].get("s", {"spent": 0.0, "thinking": 0.0})
    assert (elapsed, thinking) == (seconds["spent"], seconds["thinking"])
    assert status == {key: v for key, v in expected["status"].items() if key != "budget"}
    for resource, account in expected["status"]["budget"].items():
        assert budget[resource] == (account if None in account.values() else numbers(account))


# ── going on ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SETTINGS)
def test_it_proposes_what_the_first_release_would_have(before, name):
    study = Study.open(before, name, trust=True)
    for expected in EXPECTED[name]["next"]:
        is_next(study, study.ask(), expected)
    study.close()


@pytest.mark.parametrize("name", SETTINGS)
def test_it_goes_on(before, name, farthing):
    study = Study.open(before, name, trust=True)
    resource = next(resource for resource in study.ledger if resource != "trials")
    spent, known = study.ledger[resource].spent, len(study.history)
    asked = [study.ask() for _ in EXPECTED[name]["next"]]
    assert [trial.number for trial in asked] == list(range(known, known + len(asked)))
    paid = sum(tell(study, trial) for trial in study.history.running)
    account = study.ledger[resource]
    assert account.spent == pytest.approx(spent + paid)
    assert account.left == pytest.approx(account.limit - spent - paid)
    assert account.reserved == 0
    assert not study.ledger.holds
    done = len(study.history.done)

    def stop_after_two(study):
        if len(study.history.done) == done + 2:
            farthing("stop", "--name", name)

    result = study.run(OBJECTIVES[name], progress=stop_after_two)
    assert len(result.history.done) == done + 2
    assert result.stop_reason == "a stop was requested"
    assert result.ledger[resource].spent > spent + paid
    for trial, row in zip(study.history, EXPECTED[name]["trials"], strict=False):
        if row["state"] != "running":
            assert plain({key: getattr(trial, key) for key in SHOWN}) == {
                key: row[key] for key in SHOWN
            }
    study.add(dict(result.best.params), result.best.value, cost=1.0)
    assert len(study.history) == len(result.history) + 1
    study.close()


def test_a_trial_whose_worker_is_gone_is_tried_again(before):
    study, rows = Study.open(before, "mixed", trust=True), EXPECTED["mixed"]["trials"]
    again = [study.ask() for _ in range(2)]
    assert [dict(trial.params) for trial in again] == [
        params_of(rows[k]["params"]) for k in (12, 13)
    ]
    assert [record["attempt"] for record in study.records()[-2:]] == [2, 2]
    states = [trial.state for trial in study.history]
    assert states[10:14] == ["running", "running", "lost", "lost"]  # 11 has a lease for ages
    study.close()


def test_the_same_command_goes_on_after_the_stop_that_was_requested(before, farthing):
    study, expected = Study.open(before, "shell"), EXPECTED["shell"]
    with pytest.raises(Stopped, match="a stop was requested"):
        study.ask()
    spent, known = study.ledger.spent, len(expected["trials"])
    out = farthing(*SHELL)
    assert f"Going on with study 'shell' in {before}: {known} trials" in out
    assert "stopped: 8 of at most 8 trials made" in out
    assert len(study.history) == 8
    is_next(study, study.history[known], expected["next"][0])
    assert spent < study.ledger.spent < study.ledger.limit
    assert study.ledger.thinking > expected["status"]["budget"]["s"]["thinking"]
    study.close()


def test_another_budget_is_said_and_taken(before, farthing):
    out = farthing(*("7m" if argument == "5m" else argument for argument in SHELL))
    assert "Changed: budget: 5m -> 7m" in out
    assert Study.open(before, "shell").ledger.limit == 420


def test_another_metric_is_another_study(before, capfd):
    other = ["accuracy" if argument == "loss" else argument for argument in SHELL]
    with pytest.raises(SystemExit) as exit:
        main([*other[:1], "--storage", before, *other[1:]])
    assert exit.value.code == 2
    assert "There is already a study 'shell'" in capfd.readouterr().err
