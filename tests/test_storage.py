"""The database: what goes in comes out, old versions are migrated, and errors are sentences."""

import math
import multiprocessing
import os
import sqlite3
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from methods import Circumstances, examples_in
from sqlalchemy import text

from farthing import Budget, Categorical, Float, Int, Ledger, Ordinal, Space, policies, stopping
from farthing.cost import Known, LogGP
from farthing.errors import InvalidInput, StorageError
from farthing.history import Trial
from farthing.policies import EI, CArBO, Random, StartWith
from farthing.stopping import MaxTrials, Target, any_of
from farthing.storage import Database, Mirror, book, create_book, database, find_book, schema
from farthing.storage.book import ledger_from_text, ledger_text
from farthing.storage.describing import (
    MISSING,
    describe,
    describe_space,
    restore,
    restore_space,
)
from farthing.storage.text import from_text, to_text

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


@given(PLAIN)
def test_text_comes_back_as_it_went_in(value):
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
    """A user's own."""

    boldness: float = 1.0
    needs: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[frozenset[str]] = frozenset()
    models: ClassVar[bool] = False

    def propose(self, belief, rng):
        return Random().propose(belief, rng)


def a_price(params):
    return 1.0 + params["a"]


PARTS = [
    *(make(Circumstances()) for make in examples_in(policies, stopping).values()),
    StartWith([{"a": 0.25, "layers": (50, 20)}], then=CArBO(share=0.3)),
    any_of(MaxTrials(12), Target(0.1)),
    stopping.NotWorthIt(worth=0.02, patience=3),
    MyPolicy(boldness=1 / 3),
    {"s": LogGP(), "usd": Known(a_price)},
    a_price,
    None,
]


@pytest.mark.parametrize("part", PARTS, ids=range(len(PARTS)))
def test_a_part_comes_back_from_its_description(part):
    assert restore(from_text(to_text(describe(part)))) == part


def test_what_cannot_be_kept_is_missing_and_what_makes_no_sense_is_refused():
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


def test_a_space_comes_back_from_its_description():
    rows = [{"a": 0.1, "s": "u"}, {"a": 0.2, "s": None}, {"a": 1 / 3, "s": "v"}]
    for space in (Space(PARAMETERS), Space.from_rows(rows)):
        back = restore_space(from_text(to_text(describe_space(space))))
        assert back == space
        X = space.sample(20, np.random.default_rng(0))
        assert [back.decode(x) for x in X] == [space.decode(x) for x in X]


# ── the ledger and the clock ───────────────────────────────────────────────────────────────────


def test_a_ledger_comes_back_exactly():
    ledger = Ledger.of(Budget({"s": 10, "usd": 1 / 3, "trials": 9}))
    ledger = ledger.reserve(0, {"usd": 0.1}).reserve(3, {"s": 0.2, "usd": 0.1})
    ledger = ledger.charge(0, {"usd": 0.07}, start=True).think(0.125).extend(3, {"usd": 0.01})
    assert ledger_from_text(ledger_text(ledger)) == ledger
    assert ledger_from_text(ledger_text(Ledger.of(None))) == Ledger.of(None)


def test_what_belongs_to_no_trial_is_paid_without_one():
    ledger = Ledger.of(Budget({"s": 10, "usd": 5, "trials": 9})).reserve(2, {"usd": 1.0})
    paid = ledger.pay({"s": 2.0, "usd": 0.5}, thought=0.75, start=True)
    assert (paid["s"].spent, paid["s"].thinking, paid["s"].start) == (2.0, 0.75, 2.0)
    assert (paid["usd"].spent, paid["usd"].reserved, paid["usd"].thinking) == (0.5, 1.0, 0.0)
    assert paid["trials"].spent == 0
    assert paid.holds == ledger.holds == {2: {"usd": 1.0, "trials": 1.0}}
    assert Ledger.of(Budget("$5")).pay({}, thought=3.0).thinking == 0.0
    with pytest.raises(InvalidInput, match="not in the budget"):
        ledger.pay({"kWh": 1.0})


def a_book(**changes):
    empty = book.Book(
        *(1, "{}", 0, 0, 0, Ledger.of(Budget("100s")), None, None, None, 0.0, 0),
        *(None, None, 0, None, 1000.0),
    )
    return replace(empty, **changes)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 9)), min_size=1, max_size=12), st.data())
def test_the_clock_charges_the_time_that_somebody_was_there(shifts, data):
    """Against brute force: the length of the union of all intervals of presence."""
    cuts = []  # (when an event happens, since when its worker has been there)
    for arrives, stays in shifts:
        ticks = data.draw(st.lists(st.floats(0, 1), max_size=4))
        moments = sorted(arrives + stays * share for share in [0.0, *ticks, 1.0])
        cuts += [(now, before) for before, now in pairwise(moments)]
    kept = a_book()
    for now, since in sorted(cuts):
        kept = replace(kept, now=1000.0 + now).elapsed(now - since)
    covered, reached = 0.0, -math.inf
    for arrives, stays in sorted(shifts):
        covered += max(arrives + stays - max(arrives, reached), 0.0)
        reached = max(reached, arrives + stays)
    account = kept.ledger["s"]
    # What one did while another's event came first, and then died, is forgiven: never more.
    assert account.spent <= covered + 1e-6
    if len(shifts) == 1:
        assert account.spent == pytest.approx(covered, abs=1e-6)


def test_time_together_is_charged_once_and_downtime_never():
    kept = a_book(now=1000.0).elapsed(0.0)
    for now in (1001.0, 1001.5, 1002.0):  # four workers tick, all there since the beginning
        for _ in range(4):
            kept = replace(kept, now=now).elapsed(now - 1000.0)
    assert kept.ledger.spent == pytest.approx(2.0)
    kept = replace(kept, now=5000.0).elapsed(0.25, thought=0.25)  # back after a long night
    assert kept.ledger.spent == pytest.approx(2.25)
    assert kept.ledger.thinking == pytest.approx(0.25)
    kept = replace(kept, now=4000.0).elapsed(7.0)  # the database's clock was set back
    assert kept.ledger.spent == pytest.approx(2.25)
    assert kept.clock_at == 5000.0
    free = replace(kept, ledger=Ledger.of(Budget("$5"))).elapsed(7.0, thought=1.0)
    assert free.ledger.spent == 0


# ── schema ─────────────────────────────────────────────────────────────────────────────────────


def versions(where):
    with where.reading() as connection:
        return schema.read_version(connection)


def test_a_new_database_has_this_version_and_opens_again(url):
    first = Database(url)
    assert versions(first) == len(schema.MIGRATIONS)
    assert create_book(first, "a", "{}", Ledger.of(None))
    assert not create_book(Database(url), "a", "{}", Ledger.of(None))
    assert Database(url).is_sqlite == url.startswith("sqlite")
    first.close()


def test_an_older_database_is_migrated_and_keeps_what_it_has(url):
    """A hand-made version 1 without one of the columns, and the migration that adds it."""
    where = Database(url)
    create_book(where, "kept", "{}", Ledger.of(Budget("$3")))
    with where.writing() as connection:
        connection.execute(text("ALTER TABLE farthing_trials DROP COLUMN peak_mb"))
    calls = []

    def adds_a_column(connection):
        calls.append("adds_a_column")
        connection.execute(text("ALTER TABLE farthing_trials ADD COLUMN peak_mb FLOAT"))

    migrations = (*schema.MIGRATIONS, adds_a_column)
    for _ in range(2):  # the second time there is nothing to do
        with where.writing(lock=True) as connection:
            schema.prepare(connection, migrations)
    assert calls == ["adds_a_column"]
    assert versions(where) == len(migrations)
    kept = find_book(where, "kept")
    assert kept.ledger.limit == 3
    mirror = Mirror(where, kept)
    with mirror.changing() as change:
        change.insert([Trial(0, {"a": 1}, np.array([0.5]))], peak_mb=12.5)
    with where.reading() as connection:
        assert connection.execute(text("SELECT peak_mb FROM farthing_trials")).scalar() == 12.5
    where.close()


def test_a_newer_database_is_refused_in_a_sentence(url):
    where = Database(url)
    with where.writing() as connection:
        connection.execute(text("UPDATE farthing_schema SET version = 99"))
    where.close()
    with pytest.raises(StorageError, match=r"schema version 99.*upgrade this one"):
        Database(url)


def make_a(url):
    return create_book(Database(url), "a", "{}", Ledger.of(None))


def test_many_processes_make_one_database(url):
    with ProcessPoolExecutor(6, multiprocessing.get_context("fork")) as pool:
        made = list(pool.map(make_a, [url] * 6))
    assert sorted(made) == [False] * 5 + [True]


# ── errors ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://localhost/x", "SQLite file or on a PostgreSQL server"),
        ("nonsense://x", "SQLite file or on a PostgreSQL server|not the address"),
        ("sqlite://", "kept in a file"),
        ("sqlite:///:memory:", "kept in a file"),
        ("://", "not the address"),
    ],
)
def test_a_wrong_address_is_a_sentence(url, sentence):
    with pytest.raises(StorageError, match=sentence):
        Database(url)


def test_a_path_is_an_sqlite_file(tmp_path):
    Database(tmp_path / "a b.db").close()
    assert (tmp_path / "a b.db").exists()


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"nowhere does not exist\. Name another file"):
        Database(tmp_path / "nowhere" / "study.db")


def test_a_file_that_is_no_database_is_named(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 200)
    with pytest.raises(StorageError, match=r"notes\.txt is not one that can be read"):
        Database(path)


def test_a_read_only_database_is_a_sentence(tmp_path):
    path = tmp_path / "study.db"
    where = Database(path)
    create_book(where, "a", "{}", Ledger.of(None))
    where.close()
    # Root may write any file, so SQLite itself is told not to.
    with pytest.raises(StorageError, match=r"cannot be written to.*right to write"):
        create_book(Database(f"sqlite:///file:{path}?mode=ro&uri=true"), "b", "{}", Ledger.of(None))


def test_a_locked_database_is_a_sentence(tmp_path, monkeypatch):
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


def test_a_server_that_is_not_there_is_a_sentence_without_the_password(monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 2)
    pytest.importorskip("psycopg")
    with pytest.raises(StorageError, match=r"cannot be reached.*Is the server running") as caught:
        Database("postgresql://me:secret@127.0.0.1:1/tune")
    assert "secret" not in str(caught.value)


def test_a_missing_driver_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StorageError, match=r"pip install 'farthing\[postgres\]'"):
        Database("postgresql://me@localhost/tune")


# ── the mirror ─────────────────────────────────────────────────────────────────────────────────


def a_trial(number, **fields):
    return Trial(number, {"a": number / 7, "t": (1, "x")}, np.array([number / 7, 0.5]), **fields)


def same(one, other):
    assert np.array_equal(one.x, other.x)
    assert [getattr(one, name) for name in one.__dataclass_fields__ if name != "x"] == [
        getattr(other, name) for name in other.__dataclass_fields__ if name != "x"
    ]


def test_two_mirrors_show_the_same_and_read_only_what_changed(url, monkeypatch):
    where = Database(url)
    create_book(where, "a", "{}", Ledger.of(None))
    one, other = (Mirror(where, find_book(where, "a")) for _ in range(2))
    notes = {"memories": {"objective": {"hyper": [0.1, 1 / 3, -1e-300], "n": 3}}, "bad": math.inf}
    with one.changing() as change:
        change.insert([a_trial(k, notes=notes, because="why 'not' ü") for k in range(50)])
        change.book = replace(change.book, trials=50)
    other.look()
    for mine, theirs in zip(one.history, other.history, strict=True):
        same(mine, theirs)
    read = []
    monkeypatch.setattr(
        "farthing.storage.mirror.changed_trials",
        lambda *given: read.append(found := original(*given)) or found,
    )
    with one.changing() as change:
        change.update(7, state="done", value=0.1 + 0.2, cost={"s": 1 / 3}, lease=None)
    other.look()
    assert [[kept.trial.number for kept in found] for found in read] == [[7]]
    same(one.history[7], other.history[7])
    assert other.history[7].value == 0.1 + 0.2
    one.look()
    other.look()
    assert len(read) == 1  # nothing changed, and one's own writes need not be read
    where.close()


original = __import__("farthing.storage.mirror", fromlist=["x"]).changed_trials


def test_a_transaction_that_fails_changes_nothing(url):
    where = Database(url)
    create_book(where, "a", "{}", Ledger.of(None))
    mirror = Mirror(where, find_book(where, "a"))

    def change_and_fail():
        with mirror.changing() as change:
            change.insert([a_trial(0)])
            change.book = replace(change.book, trials=1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change_and_fail()
    mirror.look()
    assert (len(mirror.history), mirror.book.trials, mirror.book.revision) == (0, 0, 0)
    with mirror.changing():
        pass
    assert mirror.book.revision == 0  # where nothing changes, nothing is written
    where.close()


def test_a_forked_process_has_connections_of_its_own(url):
    where = Database(url)
    create_book(where, "a", "{}", Ledger.of(None))
    child = os.fork()
    if child == 0:
        try:
            create_book(where, "b", "{}", Ledger.of(None))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert find_book(where, "b").trials == 0
    with pytest.raises(InvalidInput, match=r"There is no study 'c' in .* It has 'a', 'b'"):
        find_book(where, "c")
    where.close()


def test_an_idle_connection_is_made_anew(url, monkeypatch):
    where = Database(url)
    create_book(where, "a", "{}", Ledger.of(None))
    monkeypatch.setattr(database, "IDLE", -1.0)
    assert find_book(where, "a").trials == 0
    where.close()


def test_policies_that_are_the_same_have_the_same_text():
    assert to_text(describe(EI())) == to_text(describe(EI()))
    assert to_text(describe(CArBO())) != to_text(describe(CArBO(share=0.3)))
