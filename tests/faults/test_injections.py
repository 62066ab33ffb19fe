"""Fault injection: after a fault, no result is lost and no process is left.

`python -m benchmarks.reliability.faults` injects a thousand faults. This file injects one of most
kinds, with a fixed seed.
"""

import os
import random
import re
import uuid
from argparse import Namespace
from dataclasses import replace
from urllib.parse import quote

import pytest

from benchmarks.reliability.faults.__main__ import missing
from benchmarks.reliability.faults.books import compare, imbalance
from benchmarks.reliability.faults.injecting import TOO_LATE, inject
from benchmarks.reliability.faults.kept import faults_of, keep, kept, summary, table
from benchmarks.reliability.faults.overrun import overrun
from benchmarks.reliability.faults.plan import KINDS, Injection, can_be_done, hundred
from benchmarks.reliability.faults.processes import processes_of
from benchmarks.reliability.faults.server import own_server
from farthing import Budget, Ledger
from farthing.core.state import State
from farthing.running.worker import TICK

SEED = 20
ATTEMPTS = 5  # to inject the fault before the command ends
SERVER = os.environ.get("FARTHING_TEST_POSTGRES")
REASON = "FARTHING_TEST_POSTGRES does not name a server: .ci/postgres starts one"
ONCE = [  # each on one database; KILLS below are on both
    ("stop", "worker", "SQLite"),
    ("stop", "guard", "PostgreSQL"),
    ("between", "ask", "PostgreSQL"),
    ("between", "renew", "SQLite"),
    ("between", "tell", "SQLite"),
    ("drop connections", "all", "PostgreSQL"),
    ("restart server", "at once", "PostgreSQL"),
    ("lock", "1 s of patience", "SQLite"),
    ("fill disk", "of the database", "SQLite"),
    ("jump", "ahead", "SQLite"),
    ("jump", "back, a worker dead", "PostgreSQL"),
    ("come back", "worker", "SQLite"),
    ("crowd", "tree", "SQLite"),
]
KILLS = [
    (kind, target, database)
    for kind, target, *_ in KINDS
    for database in ("SQLite", "PostgreSQL")
    if kind == "kill"
]


LATE = (re.escape(TOO_LATE), r"\d+ processes left, .*", r".* s were overspent, .*")


def is_late(fault):
    """Whether a fault concerns only time. A busy machine may cause it once."""
    return any(re.fullmatch(late, fault) for late in LATE)


@pytest.fixture(scope="module")
def crashing_server():
    with own_server(SERVER) as server:
        yield server


@pytest.mark.parametrize(
    ("kind", "target", "database"),
    [KILLS[0], *(pytest.param(*each, marks=pytest.mark.slow) for each in [*KILLS[1:], *ONCE])],
)
def test_nothing_is_lost(kind, target, database, tmp_path, request):
    if database == "PostgreSQL" and SERVER is None:
        pytest.skip(REASON)
    if not can_be_done(kind):
        pytest.skip("only root may mount a small file system")
    crashes = kind == "restart server"
    server = request.getfixturevalue("crashing_server") if crashes else None
    injection = Injection.of(kind, target, database, random.Random(f"{SEED} {target} {database}"))
    if kind == "crowd":
        injection = replace(injection, workers=8, budget="20 trials", lease=3.0)
    for _ in range(ATTEMPTS):
        # The name must be new: other tests may drop connections of this server, by their name.
        folder = tmp_path / uuid.uuid4().hex
        folder.mkdir()
        found = inject(new_database(database, folder, server), folder, injection, server)
        assert processes_of(folder) == {}
        assert [fault for fault in found.faults if not is_late(fault)] == []
        if not found.faults:
            break
        # The machine was busy: try again, and earlier if the command ended before the fault.
        if not found.struck:
            share = injection.share and injection.share / 2
            injection = replace(injection, share=share, delay=injection.delay / 2)
    assert found.faults == []
    assert found.struck > 0
    assert found.trials > 0
    assert found.commits > 1


def new_database(database, folder, server):
    if database == "SQLite":
        return f"sqlite:///{folder / 'study.db'}"
    import psycopg

    address, schema = SERVER if server is None else server.url, f"test_{uuid.uuid4().hex}"
    with psycopg.connect(address.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{address}?options={quote(f'-csearch_path={schema}')}"


def test_every_kind_has_its_share_of_a_hundred():
    assert len(hundred(0)) == 100
    assert {kind for kind, *_ in hundred(0)} == {kind for kind, *_ in KINDS}
    assert {kind for kind, *_ in (*KILLS, *ONCE)} == {kind for kind, *_ in KINDS}


def test_every_gap_between_two_statements_is_drawn():
    drawn = [Injection.draw(0, number) for number in range(1000)]
    for verb in ("ask", "renew", "tell"):
        ours = [one for one in drawn if (one.kind, one.target) == ("between", verb)]
        assert {one.more["gap"] for one in ours} == set(range(9))


def test_the_faults_of_a_target_keep_their_numbers(tmp_path):
    made = {"SQLite": str, "PostgreSQL": str}
    given = Namespace(results=tmp_path / "none", seed=36, part=(0, 1), count=100, target=["tree"])
    drawn = dict(missing(given, made))
    assert {one.target for one in drawn.values()} == {"tree"}
    assert len(drawn) == sum(s + p for _, target, s, p in KINDS if target == "tree")
    assert all(one == Injection.draw(36, number) for number, one in drawn.items())


def test_an_inconsistent_ledger_is_found():
    sound = State(Ledger.of(Budget("3 worker_s")))
    assert list(imbalance(sound)) == []
    assert len(list(imbalance(replace(sound, ledger=sound.ledger.pay({"worker_s": 1.0}))))) == 1
    assert len(list(imbalance(replace(sound, ledger=sound.ledger.reserve(0, {}))))) == 1


@pytest.mark.slow
def test_the_table_sums_the_kept_injections(tmp_path):
    """A fault that came too late does not count, and an injection with two faults counts once."""
    injection = Injection.of("kill", "runner", "SQLite", random.Random(0))
    folder = tmp_path / "run"
    folder.mkdir()
    found = inject(new_database("SQLite", folder, None), folder, replace(injection, share=None))
    late = replace(found, struck=0, faults=[TOO_LATE])
    wrong = replace(found, faults=["one", "another"], survivors=2)
    for number, one in enumerate((found, late, wrong)):
        keep(tmp_path / "kept.jsonl", 0, number, one)
    rows = kept(tmp_path / "kept.jsonl")
    assert [len(faults_of(row)) for row in rows] == [0, 0, 2]
    row, in_all = table(rows)
    assert row[:5] == ["SQLite", "kill", "runner", "2", "1"]
    assert row[7] == "2"
    assert row[-1] == "1"
    assert in_all[3:] == row[3:]


def test_the_summary_counts_faults_that_took_effect():
    row = {"struck": 1, "overspend": 0.0, "outage": 0.0, "load": 2.0, "commit": "a"}
    rows = [row, row | {"overspend": 0.5, "load": 8.0}, row | {"overspend": 7.0, "outage": 6.0}]
    text = summary([*rows, row | {"struck": 0, "overspend": 99.0, "load": 99.0}])
    assert text.startswith("2 of 3 overspent something; the median is 0.50 s and the maximum 7.00")
    assert "2 overspent more than one tick and the grace period. In 1 of these nothing" in text
    assert "their maximum is 0.50 s" in text
    assert text.endswith("Load 2 to 8, median 2. Commits: a 3.")


@pytest.mark.slow
@pytest.mark.parametrize("database", ["SQLite", "PostgreSQL"])
def test_a_budget_of_time_ends_trials_of_any_length(database, tmp_path, monkeypatch):
    """With eight workers on two cores, the delays also depend on the machine."""
    if database == "PostgreSQL" and SERVER is None:
        pytest.skip(REASON)
    monkeypatch.chdir(tmp_path)  # the logs of the trials are below the current folder
    grace, workers = 0.5, 8
    for attempt in range(ATTEMPTS):  # again if the machine was busy
        folder = tmp_path / str(attempt)
        folder.mkdir()
        url = new_database(database, folder, None)
        found = overrun(url, folder, seconds=3.0, grace=grace, workers=workers)
        assert found["faults"] == []
        assert "killed" in found["states"] or not found["states"]  # the first trial may be too long
        delays = workers * (TICK[0] + found["stall"])  # the workers report one after another
        on_time = found["overspend"] <= grace + found["thought"] + delays
        if on_time and found["left"] == 0:
            break
    assert on_time, found
    assert found["left"] == 0


def test_the_current_process_is_not_among_the_processes_to_kill(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert processes_of(tmp_path) == {}


ROW = {"state": "done", "value": 1.0, "params": {"seconds": 1.0}, "attempt": 1, "worker": "w"}
RUN = "start 0 7\nend 0 7\n"


@pytest.mark.parametrize(
    ("rows", "log", "kinds"),
    [
        ([{}], RUN, []),
        ([{}], "", ["duplicate"]),
        ([], RUN, ["lost"]),
        ([{}], RUN * 2, ["duplicate", "duplicate"]),
        ([{"state": "running"}], "start 0 7\n", ["lost"]),
        ([{"value": 2.0}], RUN, ["lost"]),
        ([{"state": "lost"}], RUN, ["lost"]),
        ([{"state": "lost"}], "start 0 7\n", []),
        ([{"state": "killed"}], RUN, []),
        ([{}, {}], RUN + RUN.replace("0", "1"), ["duplicate"]),
        ([{"state": "lost"}, {"attempt": 2}], "start 0 7\n" + RUN.replace("0", "1"), []),
    ],
)
def test_compare_finds_lost_and_duplicate_trials(rows, log, kinds):
    stored = [{**ROW, "number": number, **row} for number, row in enumerate(rows)]
    assert [kind for kind, _ in compare(stored, log)] == kinds


def test_a_trial_that_was_alive_when_its_worker_was_killed_may_be_lost():
    stored = [{**ROW, "number": 0, "state": "lost"}]
    assert [kind for kind, _ in compare(stored, RUN, alive={7})] == []
    assert [kind for kind, _ in compare(stored, RUN, alive={8})] == ["lost"]
