"""Databases that disappear, go back in time or do not answer, and clocks that jump."""

import json
import math
import os
import shutil
import sqlite3
import threading
import time
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from processes import PATIENCE, wait_until
from sqlalchemy import event, text

from farthing import Budget, Float, Ledger, Space, Study
from farthing.core.events import Moment, SuggestLock, TimePassed, Told
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.transition import apply
from farthing.errors import StorageError, Unreachable
from farthing.policies import Random
from farthing.running import Finished, Usage
from farthing.running.worker import run_trials
from farthing.stopping import MaxTrials
from farthing.storage import database as databases
from farthing.storage import database_store
from farthing.storage.rows import ledger_text

SPACE = {"x": Float(0, 1)}
LEASE = 3 * PATIENCE  # seconds; it does not expire by itself, however busy the machine is


@pytest.fixture(autouse=True)
def state_home(tmp_path, monkeypatch):
    """The folder of the outbox."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def make(url, **settings):
    settings = {"policy": Random(), "budget": "9 trials"} | settings
    return Study.create(url, name="s", space=SPACE, **settings)


def evaluate(study, times=1):
    for _ in range(times):
        trial = study.ask()
        study.tell(trial, trial.params["x"])


def execute(study, *statements):
    """Change the database as another program would."""
    with study._database._engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
        connection.commit()


# ── a database that has been replaced ──────────────────────────────────────────────────────────


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
    assert Study.open(url, "s").ask().number == 2  # a new process continues from the older copy


def test_a_database_that_went_back_and_changed_again_is_an_error(url):
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


def test_reporting_a_trial_that_was_deleted_is_an_error(url):
    study = make(url)
    evaluate(study)
    trial = study.ask()
    execute(study, "DELETE FROM farthing_trials WHERE number = 1")
    with pytest.raises(StorageError, match="0 rows where this process has read one"):
        study.tell(trial, 1.0)


def test_a_study_that_was_deleted_is_a_clear_error(url):
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


def test_a_run_whose_file_is_deleted_ends_with_an_error(tmp_path):
    study = make(tmp_path / "s.db", lease=1.0)

    def deletes(params):
        (tmp_path / "s.db").unlink()
        return 1.0

    with pytest.raises(StorageError, match="deleted or replaced"):
        study.run(deletes)


# ── locks and transactions ─────────────────────────────────────────────────────────────────────


def test_asks_are_as_durable_as_tells(url):
    study, sent = make(url), []
    event.listen(
        study._database._engine,
        "before_cursor_execute",
        lambda *call: sent.append(str(call[2]) + str(call[3])),
    )
    evaluate(study)
    assert any("INSERT INTO farthing_trials" in statement for statement in sent)
    assert not any("synchronous_commit" in statement for statement in sent)


def test_waiting_for_a_lock_ends(url, monkeypatch):
    other, ordinary, message = make(url), databases.PATIENCE, ""
    for patience in (0.3, 3.0, 15.0):  # a busy machine may need more to open the study
        monkeypatch.setattr(databases, "PATIENCE", patience)
        with suppress(Unreachable):
            study = Study.open(url, "s")
            with other._database.writing() as connection:
                connection.execute(text("UPDATE farthing_studies SET thought_s = thought_s"))
                with pytest.raises(Unreachable) as waited:
                    study.ask()
                message = str(waited.value)
        if "was locked by another program" in message:
            break
    assert "was locked by another program" in message
    monkeypatch.setattr(databases, "PATIENCE", ordinary)
    assert Study.open(url, "s").ask().number == 0


def test_a_process_suspended_inside_a_transaction_loses_its_lock(url, monkeypatch):
    study = make(url)
    if study._database.is_sqlite:
        pytest.skip("an SQLite file has no server that could end a transaction")
    for patience in (1.0, 5.0, 15.0):  # a busy machine may need more to open the study
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
    assert study.ask().number == 0  # the server has ended the other transaction
    connection.execute(text("SELECT 1"))


class Holder:
    """Holds the lock of a file from `hold` until `release`."""

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
        started = time.monotonic()
        self.held.set()
        self.free.wait(2 * PATIENCE)
        self.seconds = time.monotonic() - started
        connection.close()

    def release(self):
        self.free.set()
        self.thread.join()


def saved_results(tmp_path):
    return [p for p in (tmp_path / "state").rglob("*.json") if p.is_file()]


def when_evaluating(tmp_path, act):
    """An objective that waits for the file "on", and a thread that acts meanwhile."""

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


def test_a_result_is_on_the_disk_until_the_database_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(databases, "PATIENCE", 0.1)
    study, holder = make(tmp_path / "s.db", budget="1 trials"), Holder(tmp_path / "s.db")

    def outage():
        holder.hold()
        (tmp_path / "on").touch()
        wait_until(lambda: saved_results(tmp_path))
        (file,) = saved_results(tmp_path)
        modes = {p.stat().st_mode & 0o77 for p in (file, file.parent)}
        (tmp_path / "modes").write_text(repr(modes))
        holder.release()

    objective, thread = when_evaluating(tmp_path, outage)
    study.run(objective)
    thread.join()
    assert [(t.state, t.value) for t in study.history] == [("done", 0.25)]
    assert saved_results(tmp_path) == []
    assert (tmp_path / "modes").read_text() == "{0}"


def test_a_trial_that_ended_during_an_outage_is_reported(tmp_path, monkeypatch):
    """`benchmarks.reliability.faults --only lock` found that its value was lost."""
    monkeypatch.setattr(databases, "PATIENCE", 0.1)
    study, holder = make(tmp_path / "s.db", lease=0.3, stop=MaxTrials(1)), Holder(tmp_path / "s.db")

    class EndsInAnOutage:
        kills = True

        def run(self, job, allowance):
            holder.hold()
            time.sleep(0.31)  # longer than the lease
            answer = allowance.may_go_on(Usage(0.0, 0.0, 0.0, {}))
            holder.release()
            assert answer == "the database did not answer for 0.3 s"
            return Finished("done", 0.25, {}, None, Usage(0.5, 0.5, 1.0, {}))

    run_trials(study, study._settings, EndsInAnOutage(), lambda: None)
    assert [(t.state, t.value) for t in study.history] == [("done", 0.25)]


@pytest.mark.parametrize("answers", [False, True], ids=["not at all", "late"])
def test_after_an_outage_workers_have_time_to_renew(tmp_path, monkeypatch, answers):
    study, holder = make(tmp_path / "s.db", lease=LEASE), Holder(tmp_path / "s.db")
    store, late = study._stored, [0.0]  # seconds
    study.ask(worker="another", lease=LEASE)
    execute(
        study,
        f"UPDATE farthing_trials SET lease = lease - {3 * LEASE}, revision = revision + 1",
        "UPDATE farthing_studies SET revision = revision + 1",
    )
    holder.hold()
    if answers:
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late[0], sleep=time.sleep)
        monkeypatch.setattr(database_store, "time", clock)
        commit = store._commit

        def slowly(change):
            late[0] = LEASE / 2
            holder.release()
            return commit(change)

        monkeypatch.setattr(store, "_commit", slowly)
        study.commit(TimePassed())
    else:
        monkeypatch.setattr(databases, "PATIENCE", 0.1)
        study._database.close()  # it opens new connections with the new limit
        study._database._connect()
        with pytest.raises(Unreachable):
            study.commit(TimePassed())
        holder.release()
    study._session.leases_checked = -math.inf
    assert study.is_worked_on()
    store._doubted -= LEASE + 1  # a lease later no worker has renewed it
    store._late = (store._late[0] - LEASE - 1, store._late[1])
    study._session.leases_checked = -math.inf
    assert not study.is_worked_on()


@pytest.fixture
def unreported(tmp_path, monkeypatch):
    """A study whose database did not answer when its trial ended, until the run gave up."""
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
        holder.release()
        return study, folder / "s.db"

    # On a busy machine a short lease expires before the trial ends.
    return next(
        found for lease in (0.5, 4.0, 30.0) for found in [run(lease)] if saved_results(tmp_path)
    )


def test_the_next_run_reports_a_saved_result(tmp_path, unreported):
    study, file = unreported
    assert study.history[0].state in ("running", "lost")
    Study.open(file, "s").run(lambda params: 9.0)
    assert [(t.state, t.value) for t in study.history] == [("done", 0.25)]
    assert saved_results(tmp_path) == []


def test_a_saved_result_of_a_finished_trial_is_deleted(tmp_path):
    study = make(tmp_path / "s.db", budget="2 trials")
    trial = study.ask()
    study._outbox.save(Told(trial, "done", 0.5, None, by_user=False))
    study.tell(trial, 0.75)
    study._outbox.save(Told(study.ask(), "done", 0.125, None, by_user=False))
    (study._outbox.folder / "broken.json").write_text("{")
    study.run(lambda params: 9.0)
    assert [t.value for t in study.history] == [0.75, 0.125]
    assert [p.name for p in saved_results(tmp_path)] == ["broken.json"]


def test_a_saved_result_of_another_trial_with_its_number_and_seed_is_not_reported(tmp_path):
    """The database may have been replaced by a new one, whose trials get the same seeds."""
    study = make(tmp_path / "s.db", budget="1 trials")
    trial = study.ask()
    earlier = replace(trial, run=replace(trial.run, asked_at=trial.run.asked_at - 100.0))
    study._outbox.save(Told(earlier, "done", 0.5, None, by_user=False))
    study._prepare_run()
    assert study.history[0].state == "running"
    assert saved_results(tmp_path) == []


def test_a_result_that_an_earlier_version_saved_is_reported(tmp_path):
    """It used the folder "untold", and other names for some keys."""
    study = make(tmp_path / "s.db", budget="1 trials")
    trial, outbox = study.ask(), study._outbox
    assert outbox.folder.parent.name == "outbox"
    old = tmp_path / "state" / "farthing" / "untold" / outbox.folder.name
    old.mkdir(parents=True)
    saved = {"trial": 0, "state": "done", "value": 0.5, "cost": {}, "error": None, "certain": False}
    saved |= {"run": {"run_s": 1.5, "progress": [{"step": 1}], "metrics": {}}}
    saved |= {"asked": [trial.run.asked_at, trial.run.seed]}
    (old / f"0-{trial.run.seed}.json").write_text(json.dumps(saved))
    study.run(lambda params: 9.0)
    assert [(t.state, t.value) for t in study.history] == [("done", 0.5)]
    (record,) = study.records()
    assert (record["run_s"], record["reports"]) == (1.5, [{"step": 1}])
    assert saved_results(tmp_path) == []


# ── clocks ─────────────────────────────────────────────────────────────────────────────────────


def test_time_is_charged_while_the_clock_is_set_back():
    """A worker is present for 8 s; the clock of the store is set back by 40 s in between."""
    settings = Settings.of(Space(SPACE), "8s", policy=Random())
    state = State(Ledger.of(Budget("8s")))
    state = apply(settings, state, TimePassed(), Moment(1000.0, 0.0))
    present = 0
    while not state.ledger.used_up:
        present += 1
        now = 1000.0 + present - (40.0 if present > 3 else 0.0)
        state = apply(settings, state, TimePassed(), Moment(now, 1.0))
        assert present < 20
    assert present == 8


def test_a_clock_set_ahead_charges_only_the_time_that_workers_were_present():
    settings = Settings.of(Space(SPACE), "8s", policy=Random())
    state = apply(settings, State(Ledger.of(Budget("8s"))), TimePassed(), Moment(1000.0, 0.0))
    state = apply(settings, state, TimePassed(), Moment(90_000.0, 1.0))
    state = apply(
        settings, state, TimePassed(), Moment(90_000.5, 5.0)
    )  # another worker, at the same time
    assert state.ledger["s"].spent == 1.5


def test_waiting_for_the_database_is_charged(tmp_path):
    study, holder = make(tmp_path / "s.db", budget="1h"), Holder(tmp_path / "s.db")
    with study.on_the_clock():
        study.commit(TimePassed())
        before = study.ledger["s"].spent
        holder.hold()
        threading.Timer(0.5, holder.free.set).start()
        study.commit(TimePassed())
    holder.release()
    assert study.ledger["s"].spent - before >= holder.seconds * 0.99


def test_a_worker_that_is_alive_keeps_its_trial(url):
    """Its lease has expired, because a clock jumped or the machine slept."""
    study = make(url, budget="1h", lease=LEASE)
    with study.on_the_clock():
        trial = study.ask(worker="me", lease=LEASE)
        execute(study, f"UPDATE farthing_trials SET lease = lease - {3 * LEASE}")
        terms = {"lease": LEASE, "cost": {"s": 1.0}, "ahead": {"s": 1.1}}
        fresh = Study.open(url, "s")
        with fresh.on_the_clock():
            assert fresh.renew(trial, **terms) is None
    assert study.history[0].state == "running"


def test_after_a_jump_of_the_clock_workers_have_time_to_renew(url, monkeypatch):
    study, back = make(url, lease=LEASE), [0.0]
    study.ask(worker="another", lease=LEASE)

    def here():
        study._stored._seen_at = -math.inf  # look again
        study._session.leases_checked = -math.inf
        return time.monotonic() - back[0]

    monkeypatch.setattr(database_store, "time", SimpleNamespace(monotonic=here))
    assert study.is_worked_on()
    execute(
        study,
        f"UPDATE farthing_trials SET lease = lease - {3 * LEASE}, revision = revision + 1",
        "UPDATE farthing_studies SET revision = revision + 1",
    )
    back[0] = 3 * LEASE  # as seen from here, the database's clock has jumped ahead
    assert study.is_worked_on()
    study._stored._doubted -= LEASE + 1  # a lease later no worker has renewed it
    assert not study.is_worked_on()
    assert study.history[0].state == "lost"


def test_a_worker_that_died_before_the_clock_was_set_back_loses_its_trial(url):
    """`benchmarks.reliability.faults --only jump` found that others waited for it for a day."""
    study = make(url, budget="1h", lease=LEASE)
    with study.on_the_clock():
        study.ask(worker="dead", lease=LEASE)
    lease = study.history[0].run.lease
    execute(  # for a new process it is a day earlier
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


def test_a_suggester_that_died_before_the_clock_was_set_back_does_not_block():
    settings = Settings.of(Space(SPACE), "8s", policy=Random())
    state = State(Ledger.of(Budget("8s")))
    state = apply(settings, state, TimePassed(), Moment(90_000.0, 0.0))
    state = apply(settings, state, SuggestLock("dead", 10.0), Moment(90_000.0, None))
    state = apply(settings, state, TimePassed(), Moment(1_000.0, 1.0))
    assert state.is_suggesting("me", 1_009.0)
    assert not state.is_suggesting("me", 1_011.0)


@pytest.mark.slow
def test_worker_threads_wait_for_the_database_as_long_as_their_run(tmp_path, monkeypatch):
    """Each thread has its own copy of the study."""
    study, seen = make(tmp_path / "s.db", budget="2 trials"), []

    class Cluster:
        slots, kills = 2, True

        def evaluating(self, task, *, timeout, grace, lease):
            return self

        def run(self, job, allowance):
            return Finished("done", 0.5, {}, None, Usage(0.01, 0.0, 0.0, {}))

    real = database_store.DatabaseStore.commit

    def commit(store, change):
        seen.append(store.patience)
        return real(store, change)

    monkeypatch.setattr(database_store.DatabaseStore, "commit", commit)
    study.run(lambda params: 0.0, engine=Cluster())
    assert len(study.history) == 2
    assert set(seen) <= {0.0, 60.0}  # a result is reported at once or saved on the disk
    assert seen.count(60.0) >= 5  # the run itself, and in each thread an ask and the last charge


def test_after_a_slow_answer_no_lease_expires_for_the_length_of_a_lease(tmp_path, monkeypatch):
    """Other workers may have waited for the same database, and could not renew."""
    study = Study.create(tmp_path / "study.db", name="study", space={"x": Float(0, 1)}, lease=30.0)
    clock, store = StoppedClock(), study._store
    monkeypatch.setattr("farthing.storage.database_store.time", clock)

    def answer_after(seconds):
        clock.now += 100.0
        assert store.can_expire_leases

        def transaction():
            clock.now += seconds
            return store._state

        store._with_retries(transaction)

    answer_after(0.1)
    assert store.can_expire_leases
    answer_after(20.0)
    assert not store.can_expire_leases
    clock.now += 31.0
    assert store.can_expire_leases
    study.close()


class StoppedClock:
    """A clock that only a test advances."""

    now = 1e6

    def monotonic(self):
        return self.now
