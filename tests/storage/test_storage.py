"""The database: values are preserved, old versions are migrated, and errors are clear."""

import math
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from methods import Circumstances, examples_in
from processes import FOREVER, PATIENCE, fork_off, holds_a_lock_on, wait_until
from sqlalchemy import event, text

from farthing import (
    Bool,
    Budget,
    Categorical,
    Float,
    Int,
    Ledger,
    Ordinal,
    Space,
    Study,
    at_least,
    at_most,
    between,
    policies,
    stopping,
)
from farthing.core.settings import Settings
from farthing.core.state import Change, QueueEntry, State
from farthing.cost import Known, LogGP
from farthing.errors import InvalidInput, StorageError
from farthing.history import History, PricePoint, Run, StopReason, Trial
from farthing.policies import EI, CArBO, Random, StartWith
from farthing.stopping import MaxTrials, Target, any_of
from farthing.storage import (
    Database,
    DatabaseStore,
    close_sqlite_files,
    create_study,
    database,
    described,
    differing,
    find_study,
    restored,
    schema,
)
from farthing.storage.json_text import from_text, to_text
from farthing.storage.rows import ledger_of, ledger_text
from farthing.storage.settings_text import MISSING, describe, restore

# ── text ───────────────────────────────────────────────────────────────────────────────────────

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text().filter(lambda key: key != "__tuple__"), inner)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(PLAIN)
def test_text_preserves_values(value):
    back = from_text(to_text(value))
    assert back == value
    assert repr(back) == repr(value)  # a tuple is not a list, 1.0 is not 1


def test_text_of_numpy_is_that_of_the_numbers():
    given = {"a": np.float64(0.1), "b": np.int64(3), "x": np.array([0.1, 1 / 3])}
    assert from_text(to_text(given)) == {"a": 0.1, "b": 3, "x": [0.1, 1 / 3]}
    assert math.isnan(from_text(to_text(math.nan)))
    with pytest.raises(InvalidInput, match="Use a name for it"):
        to_text({"option": object()})


# ── settings ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class MyPolicy:
    """A policy of a user."""

    boldness: float = 1.0
    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()

    def propose(self, belief, rng):
        return Random().propose(belief, rng)


def a_price(params):
    return 1.0 + params["a"]


PARTS = [
    *(make(Circumstances()) for make in examples_in(policies, stopping).values()),
    StartWith([{"a": 0.25, "layers": (50, 20)}], then=CArBO(share=0.3)),
    any_of(MaxTrials(12), Target(0.1)),
    stopping.after(20, stopping.in_a_row(3, stopping.RegretGap(0.1))),
    stopping.NotWorthIt(worth=0.02, patience=3),
    MyPolicy(boldness=1 / 3),
    {"s": LogGP(), "usd": Known(a_price)},
    a_price,
    None,
]


@pytest.mark.parametrize("part", PARTS, ids=range(len(PARTS)))
def test_a_description_restores_a_part(part):
    assert restore(from_text(to_text(describe(part)))) == part


def test_a_function_without_a_name_is_missing_and_other_objects_are_refused():
    described = describe({"s": Known(lambda params: 1.0)})
    assert restore(from_text(to_text(described)))["s"] is MISSING
    with pytest.raises(InvalidInput, match="frozen dataclass"):
        describe(object.__new__(type("Odd", (), {"__call__": lambda self: 1})))
    for name in ("no.such.module:Policy", "farthing.policies.ei:Gone", "nonsense"):
        with pytest.raises(InvalidInput, match="cannot be imported here"):
            restore({"__is__": name})
    with pytest.raises(InvalidInput, match="not a dataclass"):
        restore({"__is__": "pathlib:Path"})


PARAMETERS = {
    "a": Float(1e-4, 1, log=True),
    "k": Int(-3, 12),
    "o": Ordinal(["small", "large"]),
    "layers": Categorical([(50,), (50, 20), None, True, "x"]),
    "m": Float(2, 3, when={"layers": [(50,), None]}),
}


def test_text_restores_settings():
    rows = [{"a": 0.1, "s": "u"}, {"a": 0.2, "s": None}, {"a": 1 / 3, "s": "v"}]
    for space in (Space(PARAMETERS), Space.from_rows(rows)):
        settings = Settings.of(
            space,
            "2h, $40",
            stop=any_of(MaxTrials(3), stopping.NotWorthIt()),
            worth="0.01 = 1h",
            cost={"usd": a_price},
            direction="maximize",
            timeout="10m",
            failures_in_a_row=math.inf,
            command=["python", "train.py"],
        )
        back = restored(to_text(described(settings)), trust=True)
        assert to_text(described(back)) == to_text(described(settings))
        assert back.space == space
        X = space.sample(20, np.random.default_rng(0))
        assert [back.space.decode(x) for x in X] == [space.decode(x) for x in X]
        assert (back.timeout, back.exchange_rate) == (600.0, settings.exchange_rate)
        text = to_text(described(settings))
        assert differing(text, to_text(described(back))) == []
        assert differing(text, to_text(described(replace(back, retries=1)))) == ["retries"]
        turned = replace(back, budget=Budget("$40, 2h"), worth="0.01 = $40")
        assert differing(text, to_text(described(turned))) == ["worth", "budget"]


def test_the_command_settings_of_older_versions_are_read():
    now = described(Settings.of(PARAMETERS, "$9", command=["a", "{k}"], measure="wall"))
    execution = {name: now.pop(name) for name in ("command", "metric", "rate", "grace", "lease")}
    now.pop("measure")
    execution |= {"cpu": True, "rate": "$1/h", "failures_in_a_row": 0}
    now.pop("failures_in_a_row")
    older = to_text({**now, "execution": execution})
    back = restored(older)
    assert (back.command, back.measure, back.rate) == (("a", "{k}"), "cpu", "$1/h")
    assert back.failures_in_a_row == math.inf
    assert differing(older, to_text(described(back))) == []  # resuming shows no change


# ── the ledger ─────────────────────────────────────────────────────────────────────────────────


def test_a_ledger_is_restored_exactly():
    ledger = Ledger.of(Budget({"s": 10, "usd": 1 / 3, "trials": 9}))
    ledger = ledger.reserve(0, {"usd": 0.1}).reserve(3, {"s": 0.2, "usd": 0.1})
    ledger = ledger.charge(0, {"usd": 0.07}).charge_overhead(0.125).extend(3, {"usd": 0.01})
    assert ledger_of(ledger_text(ledger)) == ledger
    assert ledger_of(ledger_text(Ledger.of(None))) == Ledger.of(None)


def test_costs_that_belong_to_no_trial_are_charged():
    ledger = Ledger.of(Budget({"s": 10, "usd": 5, "trials": 9})).reserve(2, {"usd": 1.0})
    paid = ledger.pay({"s": 2.0, "usd": 0.5}, overhead={"s": 0.75})
    assert (paid["s"].spent, paid["s"].overhead) == (2.0, 0.75)
    assert (paid["usd"].spent, paid["usd"].reserved, paid["usd"].overhead) == (0.5, 1.0, 0.0)
    assert paid["trials"].spent == 0
    assert paid.reservations == ledger.reservations == {2: {"usd": 1.0, "trials": 1.0}}
    with pytest.raises(InvalidInput, match="not in the budget"):
        ledger.pay({"kWh": 1.0})


# ── schema ─────────────────────────────────────────────────────────────────────────────────────


def versions(where):
    with where.reading() as connection:
        return schema.read_version(connection)


def test_a_new_database_has_this_version_and_opens_again(url):
    first = Database(url)
    assert versions(first) == len(schema.MIGRATIONS)
    made = create_study(first, "a", "{}", Ledger.of(None))
    assert made.settings == "{}"
    assert create_study(Database(url), "a", "[]", Ledger.of(None)) == made
    assert Database(url).is_sqlite == url.startswith("sqlite")
    first.close()


def test_an_older_database_is_migrated_and_keeps_its_rows(url, monkeypatch):
    """A hand-made version 1 without one of the columns, and the migration that adds it."""
    where = Database(url)
    create_study(where, "kept", "{}", Ledger.of(Budget("$3")))
    with where.writing() as connection:
        connection.execute(text("ALTER TABLE farthing_trials DROP COLUMN peak_mb"))
    calls = []

    def adds_a_column(connection):
        calls.append("adds_a_column")
        connection.execute(text("ALTER TABLE farthing_trials ADD COLUMN peak_mb FLOAT"))

    migrations = (*schema.MIGRATIONS, adds_a_column)
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    for _ in range(2):  # the second time there is nothing to do
        where.close()
        where = Database(url)
    assert calls == ["adds_a_column"]
    assert versions(where) == len(migrations)
    memory = DatabaseStore(where, find_study(where, "kept").id)
    assert memory.look().ledger.limit == 3
    memory.commit(adding(Trial(0, {"a": 1}, np.array([0.5]), run=Run(peak_mb=12.5))))
    with where.reading() as connection:
        assert connection.execute(text("SELECT peak_mb FROM farthing_trials")).scalar() == 12.5
    where.close()


def test_a_database_of_version_2_is_migrated(url):
    """A database from before studies could be changed."""
    where = Database(url)
    create_study(where, "kept", "{}", Ledger.of(Budget("$3")))
    with where.writing() as connection:
        connection.execute(text("DROP TABLE farthing_changes"))
        connection.execute(text("DROP TABLE farthing_curves"))
        for column in (
            *("given", "changes", "queue", "elapsed_s", "thinking_s"),
            *("halted_kind", "stop_kind"),
        ):
            connection.execute(text(f"ALTER TABLE farthing_studies DROP COLUMN {column}"))
        parts = ("until", "since", "earlier", "turn", "points")
        for column in ("metrics", "slot", "log", "tail", "origin", *parts):
            connection.execute(text(f"ALTER TABLE farthing_trials DROP COLUMN {column}"))
        connection.execute(text("UPDATE farthing_schema SET version = 2"))
    where.close()
    where = Database(url)
    assert versions(where) == len(schema.MIGRATIONS)
    found = find_study(where, "kept")
    assert (found.settings, found.changes, found.given) == ("{}", 0, None)
    memory = DatabaseStore(where, found.id)
    state = memory.look()
    assert (state.ledger.limit, state.queue, state.changes, state.elapsed_s) == (3, (), (), 0.0)
    change, wanted = (
        Change(1.5, 0, {"trial 0": ("done", "dropped")}),
        QueueEntry({"a": (1, 2)}, "why"),
    )
    memory.commit(lambda state, now: replace(state, changes=(change,), queue=(wanted,)))
    again = DatabaseStore(where, found.id).look()
    assert (again.changes, again.queue) == ((change,), (wanted,))
    where.close()


@pytest.mark.parametrize(
    ("table", "complete"),
    [
        ("farthing_prices", {"revision": "1", "x": "'[]'", "cost": "'{}'", "at_least": "0"}),
        ("farthing_changes", {"number": "0", "at": "1.5", "trials": "0", "said": "'{}'"}),
    ],
)
def test_incomplete_prices_and_changes_are_refused(url, table, complete):
    """Readers rely on complete rows."""
    where = Database(url)
    row = {"study": str(create_study(where, "a", "{}", Ledger.of(None)).id), **complete}

    def insert(row):
        with where.writing() as connection:
            values = f"({', '.join(row)}) VALUES ({', '.join(row.values())})"
            connection.execute(text(f"INSERT INTO {table} {values}"))

    for left_out in row:
        with pytest.raises(StorageError):
            insert({name: value for name, value in row.items() if name != left_out})
    insert(row)
    where.close()


def test_a_newer_database_is_refused(url):
    where = Database(url)
    with where.writing() as connection:
        connection.execute(text("UPDATE farthing_schema SET version = 99"))
    where.close()
    with pytest.raises(StorageError, match=r"schema version 99.*Upgrade Farthing"):
        Database(url)


def make_a(url):
    return create_study(Database(url), "a", str(os.getpid()), Ledger.of(None))


@pytest.mark.slow
def test_several_processes_create_one_database(url, monkeypatch):
    monkeypatch.setattr("farthing.storage.database.PATIENCE", PATIENCE)
    with ProcessPoolExecutor(6, multiprocessing.get_context("fork")) as pool:
        made = list(pool.map(make_a, [url] * 6))
    assert len(set(made)) == 1


# ── errors ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://localhost/x", "SQLite file or on a PostgreSQL server"),
        ("nonsense://x", "SQLite file or on a PostgreSQL server|not the address"),
        ("sqlite://", "stored in a file"),
        ("sqlite:///:memory:", "stored in a file"),
        ("://", "not the address"),
    ],
)
def test_a_wrong_address_is_a_clear_error(url, sentence):
    with pytest.raises(StorageError, match=sentence):
        Database(url)


def test_a_path_is_an_sqlite_file(tmp_path):
    Database(tmp_path / "a b.db").close()
    assert (tmp_path / "a b.db").exists()


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"nowhere does not exist\. Create the folder"):
        Database(tmp_path / "nowhere" / "study.db")


def test_a_file_that_is_not_a_database_is_named(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 200)
    with pytest.raises(StorageError, match=r"notes\.txt is damaged, or it is not a database"):
        Database(path)


def test_a_read_only_database_is_a_clear_error(tmp_path):
    path = tmp_path / "study.db"
    where = Database(path)
    create_study(where, "a", "{}", Ledger.of(None))
    where.close()
    # Root may write any file, so SQLite opens it read-only.
    with pytest.raises(StorageError, match=r"cannot be written to.*permission to write"):
        create_study(
            Database(f"sqlite:///file:{path}?mode=ro&uri=true"), "b", "{}", Ledger.of(None)
        )


def test_a_locked_database_is_a_clear_error(tmp_path, monkeypatch):
    path = tmp_path / "study.db"
    Database(path).close()
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    holder = sqlite3.connect(path, isolation_level=None)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageError, match="locked by another program"):
            Database(path)
    finally:
        holder.close()


def test_the_error_of_a_missing_server_hides_the_password(monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 2)
    pytest.importorskip("psycopg")
    with pytest.raises(StorageError, match=r"cannot be reached.*Is the server running") as caught:
        Database("postgresql://me:secret@127.0.0.1:1/tune")
    assert "secret" not in str(caught.value)


def test_a_missing_driver_is_a_clear_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StorageError, match=r"pip install 'farthing\[postgres\]'"):
        Database("postgresql://me@localhost/tune")


# ── the store ──────────────────────────────────────────────────────────────────────────────────


def a_trial(number, **fields):
    return Trial(number, {"a": number / 7, "t": (1, "x")}, np.array([number / 7, 0.5]), **fields)


def adding(*trials):
    return lambda state, now: replace(state, history=state.history.adding(*trials))


def replacing(number, **fields):
    def change(state, now):
        trial = replace(state.history[number], **fields)
        return replace(state, history=state.history.replacing(trial))

    return change


def same(one, other):
    assert np.array_equal(one.x, other.x)
    assert [getattr(one, name) for name in one.__dataclass_fields__ if name != "x"] == [
        getattr(other, name) for name in other.__dataclass_fields__ if name != "x"
    ]


def statements(where):
    """Collect the statements that are sent to a database from now on."""
    sent = []
    event.listen(
        where._engine, "before_cursor_execute", lambda *call: sent.append((call[2], call[3]))
    )
    return sent


def test_two_processes_see_the_same_and_read_only_what_changed(url):
    where = Database(url)
    id = create_study(where, "a", "{}", Ledger.of(None)).id
    one, other = DatabaseStore(where, id), DatabaseStore(where, id)
    notes = {"memories": {"objective": {"hyper": [0.1, 1 / 3, -1e-300], "n": 3}}, "bad": math.inf}
    run = Run(seed=7, worker="w", lease=3.5, attempt=2, asked_at=1 / 3, reports=({"step": 1},))
    trials = [a_trial(k, notes=notes, because="why 'not' ü", run=run) for k in range(50)]
    one.commit(adding(*trials))
    for mine, theirs in zip(one.look().history, other.look().history, strict=True):
        same(mine, theirs)
    known = other.look().history
    sent = statements(where)
    one.commit(replacing(7, state="done", value=0.1 + 0.2, cost={"s": 1 / 3}, notes=dict(notes)))
    written = [text for text, _ in sent if text.startswith("UPDATE farthing_trials")]
    assert len(written) == 1
    assert not any(column in written[0] for column in ("params", "notes", "because", "progress"))
    seen = other.look().history
    assert [a is b for a, b in zip(seen, known, strict=True)] == [k != 7 for k in range(50)]
    same(one.look().history[7], seen[7])
    assert seen[7].value == 0.1 + 0.2
    del sent[:]
    one.look()
    other.look()
    read = [text for text, _ in sent if text.startswith("SELECT")]
    assert len(read) == 2  # nothing changed, and a process does not read its own writes
    where.close()


def test_every_field_of_a_state_is_stored(url):
    where = Database(url)
    id = create_study(where, "a", "{}", Ledger.of(Budget("$3"))).id
    stored = State(
        Ledger.of(Budget("$3")).reserve(0, {"usd": 1.0}),
        History((a_trial(0),)),
        (PricePoint(np.array([0.1, 0.2]), {"usd": 1 / 3}, True),),
        *(
            1.5,
            "me",
            2.5,
            0.25,
            3,
            "first",
            StopReason("requested", "halted"),
            True,
            StopReason("rule", "ended"),
        ),
    )
    assert None not in vars(stored).values()  # a new field must be given here too
    DatabaseStore(where, id).commit(lambda state, now: stored)
    back = DatabaseStore(where, id).look()
    for name in (n for n in vars(stored) if n not in ("history", "prices")):
        assert getattr(back, name) == getattr(stored, name), name
    same(back.history[0], stored.history[0])
    assert np.array_equal(back.prices[0].x, stored.prices[0].x)
    assert back.prices[0][1:] == stored.prices[0][1:]
    where.close()


def test_a_transaction_that_fails_changes_nothing(url):
    where = Database(url)
    memory = DatabaseStore(where, create_study(where, "a", "{}", Ledger.of(None)).id)
    before = memory.look()

    def change_and_fail(state, now):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.commit(change_and_fail)
    with pytest.raises(InvalidInput, match="cannot be stored"):  # in the middle of writing
        memory.commit(adding(a_trial(0), a_trial(1, notes={"odd": object()})))
    assert memory.look() == before
    sent = statements(where)
    memory.commit(lambda state, now: replace(state))
    assert not any(text.startswith(("UPDATE", "INSERT")) for text, _ in sent)
    where.close()


def test_a_forked_process_has_connections_of_its_own(url):
    where = Database(url)
    create_study(where, "a", "{}", Ledger.of(None))
    child = os.fork()
    if child == 0:
        try:
            create_study(where, "b", "{}", Ledger.of(None))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert find_study(where, "b").settings == "{}"
    with pytest.raises(InvalidInput, match=r"There is no study 'c' in .* It has 'a', 'b'"):
        find_study(where, "c")
    where.close()


def test_a_killed_process_loses_its_locks_though_a_forked_one_lives(url, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", FOREVER)  # the server waits for stopped processes
    first = Database(url)
    study = create_study(first, "a", "{}", Ledger.of(None)).id
    first.close()
    reading, writing = os.pipe()

    def stop(state, now):
        os.write(writing, f"{fork_off(lambda: time.sleep(FOREVER))}".encode())
        time.sleep(FOREVER)

    holder = fork_off(lambda: DatabaseStore(Database(url), study).commit(stop))
    child = int(os.read(reading, 100))
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)
    monkeypatch.setattr(database, "PATIENCE", 20.0)
    second = Database(url)

    def can_commit():
        with suppress(StorageError):
            return DatabaseStore(second, study).commit(
                lambda state, now: replace(state, failures=7)
            )

    try:
        assert wait_until(can_commit)
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(reading)
        os.close(writing)
        second.close()


@pytest.mark.slow
def test_opening_a_file_twice_keeps_its_locks(tmp_path):
    file, log = tmp_path / "study.db", tmp_path / "study.db-wal"
    first = Database(file)
    with first.writing() as connection:
        connection.execute(text("PRAGMA user_version = 7"))
    before = log.stat().st_ino
    Database(file)  # opening and closing the file itself would release the locks
    code = f"from farthing.storage import Database; Database({str(file)!r}).close()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert log.stat().st_ino == before  # it noticed the locks of this process


def test_a_file_closed_before_a_fork_is_locked_by_both(tmp_path):
    first, second = Database(tmp_path / "study.db"), Database(tmp_path / "study.db")
    create_study(first, "a", "{}", Ledger.of(None))
    close_sqlite_files()
    child = os.fork()
    if child == 0:
        find_study(first, "a")
        os._exit(0 if holds_a_lock_on(tmp_path / "study.db") else 1)
    assert os.waitpid(child, 0)[1] == 0
    find_study(second, "a")
    assert holds_a_lock_on(tmp_path / "study.db")


def test_a_forked_process_keeps_compiled_statements(url, monkeypatch):
    where = Database(url)
    create_study(where, "a", "{}", Ledger.of(None))
    assert find_study(where, "a").settings == "{}"
    compiled = []
    dialect = type(where._engine.dialect)
    monkeypatch.setattr(dialect, "statement_compiler", lambda *given, **_: compiled.append(given))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if find_study(where, "a").settings == "{}" and not compiled else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    where.close()


def test_an_idle_connection_is_replaced(url, monkeypatch):
    where = Database(url)
    create_study(where, "a", "{}", Ledger.of(None))
    monkeypatch.setattr(database, "IDLE", -1.0)
    assert find_study(where, "a").settings == "{}"
    where.close()


def test_equal_policies_have_equal_texts():
    assert to_text(describe(EI())) == to_text(describe(EI()))
    assert to_text(describe(CArBO())) != to_text(describe(CArBO(share=0.3)))


RICH = Space(
    {
        "w": Int(16, 64, step=16),
        "s": Float(0.1, 0.9, step=0.1, when={"w": at_least(32)}),
        "f": Bool(when={"s": between(0.2, 0.8)}),
        "k": Categorical(["rbf", "poly", "linear"]),
        "g": Float(0, 1, when={"k": ["rbf", "poly"], "w": at_most(48)}),
        "a": Int(1, 9),
        "b": Categorical([("t", 1), None]),
    },
    allowed=[{"a": 1, "b": ("t", 1)}, {"a": 2, "b": None}, {"b": ("t", 1)}],
)


def test_steps_conditions_and_combinations_are_stored(tmp_path):
    made = Study.create(tmp_path / "s.db", name="s", space=RICH, budget="9 trials", policy=Random())
    for number in range(5):
        made.tell(made.ask(), float(number))
    opened = Study.open(tmp_path / "s.db", "s")
    assert opened.space == RICH
    assert repr(opened.space) == repr(RICH)
    assert [trial.params for trial in opened.history] == [trial.params for trial in made.history]
    for trial in opened.history:
        assert RICH.decode(trial.x) == dict(trial.params)


def test_a_space_without_news_is_stored_as_before():
    settings = Settings.of({"x": Float(0, 1), "k": Int(1, 3)}, "9 trials")
    stored = described(settings)["space"]
    assert stored.keys() == {"parameters", "rows"}
    assert stored["parameters"]["x"].keys() == {"__is__", "low", "high", "log", "when"}


@pytest.mark.parametrize("name", ["a\udcff", "a\0b", " ", 3])
def test_a_name_that_no_database_can_store_is_refused(tmp_path, name):
    """A byte of the command line that cannot be decoded is a lone surrogate."""
    file, space = tmp_path / "study.db", {"x": Float(0, 1)}
    Study.create(file, name="good", space=space).close()
    with pytest.raises(InvalidInput, match="name="):
        Study.create(file, name=name, space=space)
    with pytest.raises(InvalidInput, match="name="):
        Study.open(file, name)
    assert Study.names(file) == ["good"]
