"""Databases that go away, go back, or do not answer, and clocks that jump."""

import math
import os
import shutil
import sqlite3
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from processes import PATIENCE, wait_until
from sqlalchemy import event, text

from farthing import Budget, Float, Ledger, Space, Study
from farthing.core.events import Moment, SuggestLock, TimePassed
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.transition import apply
from farthing.errors import StorageError, Unreachable
from farthing.policies import Random
from farthing.running import Finished, Usage
from farthing.running.worker import until_stopped
from farthing.stopping import MaxTrials
from farthing.storage import database as databases
from farthing.storage import database_store as memories
from farthing.storage.rows import ledger_text

SPACE = {"x": Float(0, 1)}
LEASE = 3 * PATIENCE  # seconds: it does not end by itself, however busy the machine is


@pytest.fixture(autouse=True)
def state_home(tmp_path, monkeypatch):
    """Where results are kept that could not be told."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def make(url, **settings):
    settings = {"policy": Random(), "budget": "9 trials"} | settings
    return Study.create(url, name="s", space=SPACE, **settings)


def evaluate(study, times=1):
    for _ in range(times):
        trial = study.ask()
        study.tell(trial, trial.params["x"])


def execute(study, *statements):
    """What somebody else does to the database."""
    with study._database._engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
        connection.commit()


# ── a database that is not what it was ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("act", [lambda s: s.ask(), lambda s: s.history, lambda s: s.tell(2, 1.0)])
def test_a_revision_that_goes_back_is_an_error(url, act):
    study = make(url)
    evaluate(study, 2)
    old, ledger = study._stored._revision, ledger_text(study.ledger).replace(":", "\\:")
    study.ask()
    execute(
        study,
        "DELETE FROM farthing_trials WHERE number = 2",
        f"UPDATE farthing_studies SET revision = {old}, trials = 2, ledger = '{ledger}'",
    )
    with pytest.raises(StorageError, match=r"gone back in time.*run again"):
        act(study)
    assert Study.open(url, "s").ask().number == 2  # who runs again goes on from what is there


def test_one_that_went_back_and_on_again_is_an_error(url):
    study = make(url)
    evaluate(study, 2)
    study.ask()
    execute(
        study,
        "DELETE FROM farthing_trials WHERE number = 2",
        "UPDATE farthing_studies SET trials = 2",
    )
    with pytest.raises(StorageError, match="gone back in time"):
        study.ask()


def test_a_trial_that_is_not_there_is_not_told_in_vain(url):
    study = make(url)
    evaluate(study)
    trial = study.ask()
    execute(study, "DELETE FROM farthing_trials WHERE number = 1")
    with pytest.raises(StorageError, match="0 rows where this process has read one"):
        study.tell(trial, 1.0)


def test_a_study_that_is_gone_is_a_sentence(url):
    study = make(url)
    execute(study, "DELETE FROM farthing_studies")
    with pytest.raises(StorageError, match="not in its database any more"):
        study.ask()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_deleted_or_replaced_is_noticed(tmp_path, replaced):
    study = make(tmp_path / "s.db")
    evaluate(study)
    if replaced:
        shutil.copy(tmp_path / "s.db", tmp_path / "older.db")
        os.replace(tmp_path / "older.db", tmp_path / "s.db")
    else:
        (tmp_path / "s.db").unlink()
    for act in (study.ask, lambda: study.history, lambda: study.tell(0, 1.0)):
        with pytest.raises(StorageError, match="deleted or replaced"):
            act()


def test_a_run_whose_file_is_deleted_does_not_end_well(tmp_path):
    study = make(tmp_path / "s.db", lease=1.0)

    def deletes(params):
        (tmp_path / "s.db").unlink()
        return 1.0

    with pytest.raises(StorageError, match="deleted or replaced"):
        study.run(deletes)


# ── a server that crashes, and those who hold it ───────────────────────────────────────────────


def test_asks_are_as_durable_as_tells(url):
    study, said = make(url), []
    event.listen(
        study._database._engine,
        "before_cursor_execute",
        lambda *told: said.append(str(told[2]) + str(told[3])),
    )
    evaluate(study)
    assert any("INSERT INTO farthing_trials" in statement for statement in said)
    assert not any("synchronous_commit" in statement for statement in said)


def test_nobody_waits_for_ever_for_a_lock(url, monkeypatch):
    other, ordinary, said = make(url), databases.PATIENCE, ""
    for patience in (0.3, 3.0, 15.0):  # so slow is the machine: a server has no more with ourselves
        monkeypatch.setattr(databases, "PATIENCE", patience)
        with suppress(Unreachable):
            study = Study.open(url, "s")
            with other._database.writing() as connection:
                connection.execute(text("UPDATE farthing_studies SET thought_s = thought_s"))
                with pytest.raises(Unreachable) as waited:
                    study.ask()
                said = str(waited.value)
        if "was locked by another program" in said:
            break
    assert "was locked by another program" in said
    monkeypatch.setattr(databases, "PATIENCE", ordinary)
    assert Study.open(url, "s").ask().number == 0


def test_who_stops_inside_a_transaction_lets_go(url, monkeypatch):
    study = make(url)
    if study._database.is_sqlite:
        pytest.skip("a file has no server that could end the transaction of another")
    for patience in (1.0, 5.0, 15.0):  # so slow is the machine: it was stopped before it held it
        monkeypatch.setattr(databases, "PATIENCE", patience)
        with suppress(Unreachable):
            stopped = Study.open(url, "s")
            break
    with (
        pytest.raises(StorageError, match="cannot be reached"),
        stopped._database.writing() as connection,
    ):
        _hold_and_ask(connection, study)


def _hold_and_ask(connection, study):
    connection.execute(text("UPDATE farthing_studies SET thought_s = thought_s"))
    assert study.ask().number == 0  # the server has ended the other's
    connection.execute(text("SELECT 1"))


class Holder:
    """Holds the lock of a file, from when it is told until it is let go."""

    def __init__(self, path):
        self.path, self.held, self.free = path, threading.Event(), threading.Event()
        self.seconds = 0.0

    def hold(self):
        self.thread = threading.Thread(target=self._hold)
        self.thread.start()
        assert self.held.wait(PATIENCE)

    def _hold(self):
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=PATIENCE)
        connection.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        self.held.set()
        self.free.wait(2 * PATIENCE)
        self.seconds = time.monotonic() - begun
        connection.close()

    def let_go(self):
        self.free.set()
        self.thread.join()


def untold(tmp_path):
    return [p for p in (tmp_path / "state").rglob("*.json") if p.is_file()]


def when_evaluating(tmp_path, act):
    """In this process, while the objective waits: then it returns a value."""

    def objective(params):
        (tmp_path / "evaluating").touch()
        wait_until((tmp_path / "on").exists)
        return 0.25

    def watch():
        wait_until((tmp_path / "evaluating").exists)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return objective, thread


def test_a_result_waits_on_the_disk_until_the_database_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "PATIENCE", 0.1)
    study, holder = make(tmp_path / "s.db", budget="1 trials"), Holder(tmp_path / "s.db")

    def outage():
        holder.hold()
        (tmp_path / "on").touch()
        wait_until(lambda: untold(tmp_path))
        (file,) = untold(tmp_path)
        modes = {p.stat().st_mode & 0o77 for p in (file, file.parent)}
        (tmp_path / "modes").write_text(repr(modes))
        holder.let_go()

    objective, thread = when_evaluating(tmp_path, outage)
    study.run(objective)
    thread.join()
    assert [(t.state, t.value) for t in study.history] == [("done", 0.25)]
    assert untold(tmp_path) == []
    assert (tmp_path / "modes").read_text() == "{0}"


def test_a_trial_that_ended_while_nobody_could_renew_it_is_told(tmp_path, monkeypatch):
    """Found by `python -m benchmarks.reliability.faults --only lock`: what it had returned was thrown away."""
    monkeypatch.setattr(databases, "PATIENCE", 0.1)
    study, holder = make(tmp_path / "s.db", lease=0.3, stop=MaxTrials(1)), Holder(tmp_path / "s.db")

    class EndsInAnOutage:
        kills = True

        def run(self, job, allowance):
            holder.hold()
            time.sleep(0.31)  # longer than the lease
            answer = allowance.may_go_on(Usage(0.0, 0.0, 0.0, {}))
            holder.let_go()
            assert answer == "the database did not answer for 0.3 s"
            return Finished("done", 0.25, {}, None, Usage(0.5, 0.5, 1.0, {}))

    until_stopped(study, study._settings, EndsInAnOutage(), lambda: None)
    assert [(t.state, t.value) for t in study.history] == [("done", 0.25)]


@pytest.mark.parametrize("answers", [False, True], ids=["not at all", "late"])
def test_after_an_outage_the_living_have_time_to_renew(tmp_path, monkeypatch, answers):
    study, holder = make(tmp_path / "s.db", lease=LEASE), Holder(tmp_path / "s.db")
    memory, late = study._stored, [0.0]  # seconds
    study.ask(worker="another", lease=LEASE)
    execute(
        study,
        f"UPDATE farthing_trials SET lease = lease - {3 * LEASE}, revision = revision + 1",
        "UPDATE farthing_studies SET revision = revision + 1",
    )
    holder.hold()
    if answers:
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late[0], sleep=time.sleep)
        monkeypatch.setattr(memories, "time", clock)
        commit = memory._commit

        def slowly(change):
            late[0] = LEASE / 2
            holder.let_go()
            return commit(change)

        monkeypatch.setattr(memory, "_commit", slowly)
        study.commit(TimePassed())
    else:
        monkeypatch.setattr(databases, "PATIENCE", 0.1)
        study._database.close()  # its connections are made anew, with that patience
        study._database._connect()
        with pytest.raises(Unreachable):
            study.commit(TimePassed())
        holder.let_go()
    study._checked = -math.inf
    assert study.is_worked_on()
    memory._doubted -= LEASE + 1  # a lease later nobody has renewed it
    memory._late = (memory._late[0] - LEASE - 1, memory._late[1])
    study._checked = -math.inf
    assert not study.is_worked_on()


@pytest.fixture
def never_told(tmp_path, monkeypatch):
    """A study whose database went away as its trial ended, and whose run gave up."""
    monkeypatch.setattr(databases, "PATIENCE", 0.1)
    monkeypatch.setattr("farthing.study.OUTAGE", 0.2)

    def run(lease):
        folder = tmp_path / str(lease)
        folder.mkdir()
        study = make(folder / "s.db", budget="1 trials", lease=lease)
        holder = Holder(folder / "s.db")

        def outage():
            holder.hold()
            (folder / "on").touch()

        objective, thread = when_evaluating(folder, outage)
        with pytest.raises(StorageError):
            study.run(objective)
        thread.join()
        holder.let_go()
        return study, folder / "s.db"

    # So slow is the machine: the lease was over before the value was there, and it was given up.
    return next(found for lease in (0.5, 4.0, 30.0) for found in [run(lease)] if untold(tmp_path))


def test_a_result_that_was_never_told_is_told_by_the_next_run(tmp_path, never_told):
    study, file = never_told
    assert study.history[0].state in ("running", "lost")
    Study.open(file, "s").run(lambda params: 9.0)
    assert [(t.state, t.value) for t in study.history] == [("done", 0.25)]
    assert untold(tmp_path) == []


def test_what_was_kept_for_a_trial_that_is_told_is_thrown_away(tmp_path):
    from farthing.core.events import Told
    from farthing.storage.outbox import keep

    study = make(tmp_path / "s.db", budget="2 trials")
    trial = study.ask()
    keep(study._untold, Told(trial, "done", 0.5, None, certain=False))
    study.tell(trial, 0.75)
    keep(study._untold, Told(study.ask(), "done", 0.125, None, certain=False))
    (study._untold / "broken.json").write_text("{")
    study.run(lambda params: 9.0)
    assert [t.value for t in study.history] == [0.75, 0.125]
    assert [p.name for p in untold(tmp_path)] == ["broken.json"]


# ── clocks ─────────────────────────────────────────────────────────────────────────────────────


def test_a_clock_set_back_is_no_present():
    """A worker is there second after second; the memory's clock is set back by 40 s in between."""
    settings = Settings.of(Space(SPACE), "8s", policy=Random())
    state = State(Ledger.of(Budget("8s")))
    state = apply(settings, state, TimePassed(), Moment(1000.0, 0.0))
    there = 0
    while not state.ledger.used_up:
        there += 1
        now = 1000.0 + there - (40.0 if there > 3 else 0.0)
        state = apply(settings, state, TimePassed(), Moment(now, 1.0))
        assert there < 20
    assert there == 8


def test_a_clock_set_ahead_charges_nothing_that_nobody_was_there_for():
    settings = Settings.of(Space(SPACE), "8s", policy=Random())
    state = apply(settings, State(Ledger.of(Budget("8s"))), TimePassed(), Moment(1000.0, 0.0))
    state = apply(settings, state, TimePassed(), Moment(90_000.0, 1.0))
    state = apply(
        settings, state, TimePassed(), Moment(90_000.5, 5.0)
    )  # another's, at the same time
    assert state.ledger["s"].spent == 1.5


def test_waiting_for_the_database_is_charged(tmp_path):
    study, holder = make(tmp_path / "s.db", budget="1h"), Holder(tmp_path / "s.db")
    with study.on_the_clock():
        study.commit(TimePassed())
        before = study.ledger["s"].spent
        holder.hold()
        threading.Timer(0.5, holder.free.set).start()
        study.commit(TimePassed())
    holder.let_go()
    assert study.ledger["s"].spent - before >= holder.seconds * 0.99


def test_a_worker_that_is_alive_does_not_give_itself_up(url):
    """Its lease has passed on a clock that jumped, or while the machine slept."""
    study = make(url, budget="1h", lease=LEASE)
    with study.on_the_clock():
        trial = study.ask(worker="me", lease=LEASE)
        execute(study, f"UPDATE farthing_trials SET lease = lease - {3 * LEASE}")
        said = {"lease": LEASE, "cost": {"s": 1.0}, "ahead": {"s": 1.1}}
        fresh = Study.open(url, "s")
        with fresh.on_the_clock():
            assert fresh.renew(trial, **said) is None
    assert study.history[0].state == "running"


def test_after_a_jump_of_the_clock_the_living_have_time_to_renew(url, monkeypatch):
    study, back = make(url, lease=LEASE), [0.0]
    study.ask(worker="another", lease=LEASE)

    def here():
        study._stored._seen_at = -math.inf  # look again
        study._checked = -math.inf
        return time.monotonic() - back[0]

    monkeypatch.setattr(memories, "time", SimpleNamespace(monotonic=here))
    assert study.is_worked_on()
    execute(
        study,
        f"UPDATE farthing_trials SET lease = lease - {3 * LEASE}, revision = revision + 1",
        "UPDATE farthing_studies SET revision = revision + 1",
    )
    back[0] = 3 * LEASE  # as seen from here, the database's clock has jumped ahead
    assert study.is_worked_on()
    study._stored._doubted -= LEASE + 1  # a lease later nobody has renewed it
    assert not study.is_worked_on()
    assert study.history[0].state == "lost"


def test_whoever_died_before_the_clock_was_set_back_is_given_up(url):
    """Found by `python -m benchmarks.reliability.faults --only jump`: he was waited for until the next day."""
    study = make(url, budget="1h", lease=LEASE)
    with study.on_the_clock():
        study.ask(worker="dead", lease=LEASE)
    lease = study.history[0].run.lease
    execute(  # to those who come now it is a day earlier
        study,
        "UPDATE farthing_trials SET lease = lease + 86400, revision = revision + 1",
        "UPDATE farthing_studies SET clock_at = clock_at + 86400, revision = revision + 1",
    )
    fresh = Study.open(url, "s")
    with fresh.on_the_clock():
        assert fresh.is_worked_on()
    left = fresh.history[0].run.lease - fresh._stored.now
    assert 0 < left <= LEASE
    assert fresh.history[0].run.lease == pytest.approx(lease, abs=PATIENCE)


def test_a_thinker_who_died_before_the_clock_was_set_back_is_not_waited_for():
    settings = Settings.of(Space(SPACE), "8s", policy=Random())
    state = State(Ledger.of(Budget("8s")))
    state = apply(settings, state, TimePassed(), Moment(90_000.0, 0.0))
    state = apply(settings, state, SuggestLock("dead", 10.0), Moment(90_000.0, None))
    state = apply(settings, state, TimePassed(), Moment(1_000.0, 1.0))
    assert state.is_suggesting("me", 1_009.0)
    assert not state.is_suggesting("me", 1_011.0)


def test_a_crew_is_as_patient_as_the_run_that_it_belongs_to(tmp_path, monkeypatch):
    """Each of its threads has a handle of its own, which is made by a copy."""
    study, seen = make(tmp_path / "s.db", budget="2 trials"), []

    class Cluster:
        slots, kills = 2, True

        def evaluating(self, task, *, timeout, grace, lease):
            return self

        def run(self, job, allowance):
            return Finished("done", 0.5, {}, None, Usage(0.01, 0.0, 0.0, {}))

    began = memories.DatabaseStore.commit

    def commit(memory, change):
        seen.append(memory.patience)
        return began(memory, change)

    monkeypatch.setattr(memories.DatabaseStore, "commit", commit)
    study.run(lambda params: 0.0, engine=Cluster())
    assert len(study.history) == 2
    assert set(seen) <= {0.0, 60.0}  # a result is told at once or kept on the disk
    assert seen.count(60.0) >= 5  # the run, and in each thread an ask and the last time
