"""Studies of earlier versions: they open complete, and they continue.

The files are in tests/snapshots, with a folder for each version. Its make.py wrote them, and
`expected.json` contains what that version showed and suggested next. The settings of the studies
are in one module per version. This test uses the public interface only.
"""

import json
import math
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import before as first
import before_0_2_0 as second
import numpy as np
import pytest
from frozen import machine

from farthing import Budget, InvalidInput, Outcome, Space, Stopped, Study
from farthing.cli import main

FILES = Path(__file__).parents[1] / "snapshots"
SHOWN = ("number", "state", "params", "value", "cost", "predicted", "because", "error")
# {name in expected.json: current name}.
ACCOUNT = {name: name for name in ("limit", "spent", "reserved", "left")} | {"thinking": "overhead"}
TIMES = {"elapsed_s": "elapsed_s", "thinking_s": "overhead_s"}
COLUMNS = {"think_s": "suggest_s", "progress": "reports"}  # of a trial, where they differ

# Relative error of predicted costs: since 0.1.0, killed trials have another likelihood.
PREDICTED = 2e-2
# Tolerance of a proposal in the unit cube. "shell" has a budget in seconds, which suggestions also
# use, so its proposals depend on the clock.
SHELL_NEAR = 0.02


@dataclass(frozen=True)
class Version:
    """An earlier version with its studies.

    Attributes:
        made: the module with their settings.
        near: tolerance of the next proposals in the unit cube; {}: bit for bit.
    """

    name: str
    made: ModuleType
    near: dict[str, float]

    @property
    def files(self) -> Path:
        return FILES / self.name

    @property
    def expected(self) -> dict:
        return EXPECTED[self.name]


VERSIONS = (
    Version("0.1.0", first, {"mixed": 1e-3, "noisy": 1e-3, "table": 1e-9, "drawn": 1e-12}),
    Version("0.2.0", second, {}),
)
EXPECTED = {v.name: json.loads((v.files / "expected.json").read_text("utf-8")) for v in VERSIONS}
OTHER_MACHINE = 1e-3  # tolerance in the unit cube on another processor


def studies(wanted):
    """A test for each of the studies in `wanted(version)`."""
    cases = [(version, name) for version in VERSIONS for name in wanted(version)]
    ids = [f"{version.name}-{name}" for version, name in cases]
    return pytest.mark.parametrize(("version", "name"), cases, ids=ids)


all_studies = studies(lambda version: version.made.NAMES)
from_python = studies(lambda version: version.made.SETTINGS)
continuing = studies(lambda version: [n for n in version.made.SETTINGS if n != "ended"])
all_versions = pytest.mark.parametrize("version", VERSIONS, ids=[v.name for v in VERSIONS])


@pytest.fixture
def before(version, url, tmp_path, monkeypatch):
    """The address of a database of an earlier version."""
    monkeypatch.chdir(tmp_path)
    if url.startswith("sqlite"):
        shutil.copy(version.files / "studies.db", url.removeprefix("sqlite:///"))
        return url
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute((version.files / "postgres.sql").read_text(encoding="utf-8"))
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
    """A value after JSON: tuples become lists, keys become strings."""
    return json.loads(json.dumps(value))


def numbers(account):
    """An account of `expected.json` with current names; None is unlimited."""
    limits = {ACCOUNT[key]: math.inf if n is None else n for key, n in account.items()}
    return pytest.approx(limits, rel=1e-12)


def then(row, expected):
    """The fields of a trial that the version had."""
    return plain({key: row[COLUMNS.get(key, key)] for key in expected["trials"][0]})


def params_of(described):
    return {name: tuple(v) if isinstance(v, list) else v for name, v in described.items()}


def exponents(because):
    """The exponents of the cost in an explanation; cooling lowers it with the spent budget."""
    return re.findall(r"cost\^([\d.]*\d)", because)


def is_next(version, study, trial, expected):
    """Check that a trial is what the version suggested."""
    assert trial.number == expected["number"]
    assert exponents(trial.because) == exponents(expected["because"])
    same_machine = version.expected.get("machine") == machine()
    if same_machine and study.name != "shell":
        made = {key: plain(getattr(trial, key)) for key in ("params", "predicted", "limit")}
        assert made == {key: expected[key] for key in made}
        return
    near = SHELL_NEAR if study.name == "shell" else version.near.get(study.name, OTHER_MACHINE)
    x = study.space.encode(params_of(expected["params"]))
    np.testing.assert_allclose(trial.x, x, rtol=0, atol=near)
    assert dict(trial.predicted) == pytest.approx(expected["predicted"], rel=PREDICTED)


def tell(version, study, trial):
    """Evaluate and report a trial, and return its cost."""
    outcome = version.made.OBJECTIVES[study.name](trial.params)
    if not isinstance(outcome, Outcome):
        study.tell(trial, outcome)  # the cost is known
        return version.made.PRICE(trial.params)
    study.tell(trial, outcome.value, cost=outcome.cost)
    return outcome.cost


# ── looking ────────────────────────────────────────────────────────────────────────────────────


@all_versions
def test_all_studies_are_found(version, before):
    assert Study.names(before) == version.made.NAMES


@pytest.mark.slow
@all_studies
def test_the_study_is_complete(version, before, name):
    study, expected = Study.open(before, name, trust=True), version.expected[name]
    seen = [{key: plain(getattr(trial, key)) for key in SHOWN} for trial in study.history]
    assert seen == [{key: row[key] for key in SHOWN} for row in expected["trials"]]
    assert [then(record, expected) for record in study.records()] == expected["trials"]
    for trial in study.history:
        assert np.array_equal(trial.x, study.space.encode(trial.params))
    ledger, accounts = study.ledger, expected["status"]["budget"]
    assert list(ledger) == list(accounts)
    for resource, account in accounts.items():
        assert {key: getattr(ledger[resource], key) for key in ACCOUNT.values()} == numbers(account)
    assert plain(ledger.reservations) == expected["holds"]
    first = next(iter(accounts.values()))
    assert {key: getattr(ledger, key) for key in ACCOUNT.values()} == numbers(first)
    assert plain(study.waiting) == expected.get("waiting", [])
    said = [change["said"] for change in study.changes]
    assert plain(said) == expected.get("changes", [])
    study.close()


@pytest.mark.slow
@all_studies
def test_best_verdict_and_result_are_the_same(version, before, name):
    study, expected = Study.open(before, name, trust=True), version.expected[name]
    assert study.best.number == expected["best"]
    assert study.verdict.stop == expected["verdict"]
    result = study.result()
    if name == "shell":  # its sentence is stored; the others are current
        assert str(result.stop_reason) == expected["reason"]
    assert result.best.number == expected["best"]
    assert len(result.history) == len(expected["trials"])
    frame = study.dataframe()
    assert list(frame["state"]) == [row["state"] for row in expected["trials"]]
    values = [np.nan if row["value"] is None else row["value"] for row in expected["trials"]]
    np.testing.assert_array_equal(frame["value"].astype(float), values)
    study.close()


@pytest.mark.slow
@from_python
def test_creating_the_study_again_changes_nothing(version, before, name):
    made = version.made.SETTINGS[name]
    study = Study.create(before, name=name, **made)
    assert len(study.history) == len(version.expected[name]["trials"])
    assert study.changed == {}
    assert study.overridden.keys() == (
        {"budget", "policy", "lease", "x", "n"} if _later(name) else set()
    )
    assert study.space == {**made, **_later(name)}["space"]
    study.close()
    fewer = Space(dict(list(made["space"].parameters.items())[:-1]))
    turned = {"minimize": "maximize"}.get(made.get("direction", "minimize"), "minimize")
    for difference in ({"space": fewer}, {"direction": turned}):
        with pytest.raises(InvalidInput, match="There is already a study"):
            Study.create(before, name=name, **{**made, **difference})


def _later(name):
    """The settings to which the study was changed."""
    return second.CHANGED if name == "changed" else {}


@pytest.mark.slow
@from_python
def test_it_can_be_changed(version, before, name):
    """New settings are applied and stay, even if a later call gives the old ones."""
    made = version.made.SETTINGS[name]
    budget = Budget(made["budget"]).limits
    doubled = {resource: 2 * limit for resource, limit in budget.items()}
    wanted = {**made, "budget": doubled, "seed": 99}
    study = Study.create(before, name=name, **wanted)
    assert list(study.changed) == ["budget", "seed"]
    assert {r: study.ledger[r].limit for r in budget} == doubled
    study.change(lease=9)
    same = Study.create(before, name=name, **wanted)
    before_that = {"policy", "x", "n"} if _later(name) else set()
    assert (same.changed, same.overridden.keys()) == ({}, {"lease"} | before_that)
    again = Study.open(before, name, trust=True)
    assert (again.current_settings.lease, again.seed) == (9, 99)
    said = [list(change["said"]) for change in again.changes]
    assert said[-2:] == [["budget", "seed"], ["lease"]]
    assert len(again.history) == len(version.expected[name]["trials"])
    study.close()
    again.close()


@pytest.mark.slow
@all_studies
def test_commands_show_it(version, farthing, name):
    where, expected = ("--name", name, "--format", "json"), version.expected[name]
    for verb in ("export", "trials"):
        rows = json.loads(farthing(verb, *where))
        assert [then(row, expected) for row in rows] == expected["trials"]
    best = json.loads(farthing("best", *where))
    assert then(best, expected) == expected["trials"][expected["best"]]
    status, known = json.loads(farthing("status", *where)), dict(expected["status"])
    accounts = known.pop("budget")
    seconds = accounts.get("s", {"spent": 0.0, "thinking": 0.0})
    times = {"elapsed_s": seconds["spent"], "thinking_s": seconds["thinking"]}
    for key, today in TIMES.items():
        assert status[today] == known.pop(key, times[key])
    if name != "shell":  # only its sentence is stored; the others are current
        known.pop("state")
    assert {key: status[key] for key in known} == known
    assert list(status["budget"]) == list(accounts)
    for resource, account in accounts.items():
        limits = {k: math.inf if n is None else n for k, n in status["budget"][resource].items()}
        assert limits == numbers(account)


# ── continuing ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@continuing
def test_it_suggests_what_that_version_would_have(version, before, name):
    study = Study.open(before, name, trust=True)
    assert version.expected[name]["next"]
    for expected in version.expected[name]["next"]:
        is_next(version, study, study.ask(), expected)
    study.close()


@pytest.mark.slow
@continuing
def test_it_continues(version, before, name, farthing):
    study, known = Study.open(before, name, trust=True), version.expected[name]
    resource = next(resource for resource in study.ledger if resource != "trials")
    spent, count = study.ledger[resource].spent, len(study.history)
    asked = [study.ask() for _ in known["next"]]
    assert [trial.number for trial in asked] == list(range(count, count + len(asked)))
    paid = sum(tell(version, study, trial) for trial in study.history.running)
    account = study.ledger[resource]
    assert account.spent == pytest.approx(spent + paid)
    assert account.left == pytest.approx(account.limit - spent - paid)
    assert account.reserved == 0
    assert not study.ledger.reservations
    done = len(study.history.done)

    def stop_after_two(study):
        if len(study.history.done) == done + 2:
            farthing("stop", "--name", name)

    result = study.run(version.made.OBJECTIVES[name], on_change=stop_after_two)
    assert len(result.history.done) == done + 2
    assert str(result.stop_reason) == "a stop was requested"
    assert result.ledger[resource].spent > spent + paid
    for trial, row in zip(study.history, known["trials"], strict=False):
        if row["state"] != "running":
            assert plain({key: getattr(trial, key) for key in SHOWN}) == {
                key: row[key] for key in SHOWN
            }
    study.add(dict(result.best.params), result.best.value, cost=1.0)
    assert len(study.history) == len(result.history) + 1
    study.close()


@pytest.mark.parametrize("version", VERSIONS[:1])
def test_trials_whose_workers_disappeared_are_retried(version, before):
    study, rows = Study.open(before, "mixed", trust=True), version.expected["mixed"]["trials"]
    again = [study.ask() for _ in range(2)]
    assert [dict(trial.params) for trial in again] == [
        params_of(rows[k]["params"]) for k in (12, 13)
    ]
    assert [record["attempt"] for record in study.records()[-2:]] == [2, 2]
    states = [trial.state for trial in study.history]
    assert states[10:14] == ["running", "running", "lost", "lost"]  # 11 has a very long lease
    study.close()


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_lost_repeated_and_enqueued_trials_come_first(version, before):
    study, rows = Study.open(before, "mixed", trust=True), version.expected["mixed"]["trials"]
    lost, repeated, *enqueued = (study.ask() for _ in range(4))
    assert dict(lost.params) == params_of(rows[17]["params"])
    assert study.records()[lost.number]["attempt"] == 2
    assert dict(repeated.params) == params_of(rows[4]["params"])
    assert enqueued[0].params["x"] == 0.25
    assert (enqueued[1].params["s"], enqueued[1].params["n"]) == ("u", 3)
    states = [trial.state for trial in study.history]
    assert states[15:18] == ["running", "running", "lost"]  # 16 has a very long lease
    study.close()


@pytest.mark.slow
@all_versions
def test_the_same_command_resumes_after_a_requested_stop(version, before, farthing):
    study, expected = Study.open(before, "shell"), version.expected["shell"]
    with pytest.raises(Stopped, match="a stop was requested"):
        study.ask()
    spent, known = study.ledger.spent, len(expected["trials"])
    out = farthing(*version.made.SHELL)
    assert f"Resuming study 'shell' in {before}: {known} trials" in out
    assert "stopped: 8 of at most 8 trials made" in out
    assert len(study.history) == 8
    is_next(version, study, study.history[known], expected["next"][0])
    assert spent < study.ledger.spent < study.ledger.limit
    assert study.ledger.overhead > expected["status"]["budget"]["s"]["thinking"]
    study.close()


@pytest.mark.slow
@all_versions
def test_a_changed_budget_is_printed_and_applied(version, before, farthing):
    out = farthing(*("7m" if argument == "5m" else argument for argument in version.made.SHELL))
    assert "Changed: budget: 5m -> 7m" in out
    assert Study.open(before, "shell").ledger.limit == 420


@all_versions
def test_a_changed_metric_is_refused(version, before, capfd):
    other = ["accuracy" if argument == "loss" else argument for argument in version.made.SHELL]
    with pytest.raises(SystemExit) as exit:
        main([*other[:1], "--storage", before, *other[1:]])
    assert exit.value.code == 2
    assert "There is already a study 'shell'" in capfd.readouterr().err
