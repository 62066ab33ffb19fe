"""Waiting to ask, and looking: what they cost the database, and which process suggests."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
import threading
import time
from time import monotonic
from types import SimpleNamespace

import numpy as np
import pytest
from processes import FOREVER, PATIENCE
from sqlalchemy import Engine, event

from farthing import Float, Study
from farthing.cli.entry import main
from farthing.core.events import Returned, SuggestLock
from farthing.errors import Stopped
from farthing.models.gp import build
from farthing.models.hyperparameters import Hyper
from farthing.policies import Gittins, Random
from farthing.running import InProcess
from farthing.running.worker import POLL, run_trials
from farthing.stopping import MaxTrials
from farthing.storage import database_store
from farthing.storage.ask_lock import ask_lock

SPACE = {"a": Float(0, 1), "b": Float(0, 1)}
FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def state_home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def sent():
    """The statements that this process sends."""
    found: list[str] = []

    def count(connection, cursor, statement, *_):
        found.append(statement)

    event.listen(Engine, "before_cursor_execute", count)
    yield found
    event.remove(Engine, "before_cursor_execute", count)


def hold(file, ready):
    with ask_lock(file):
        ready.set()
        time.sleep(FOREVER)


def start_holder(file):
    """Start a process that holds the lock."""
    ready = FORK.Event()
    process = FORK.Process(target=hold, args=(file, ready))
    process.start()
    assert ready.wait(PATIENCE)
    return process


def ask_into(study, asked):
    asked.append(study.ask())


def test_waiting_for_the_lock_sends_nothing_to_the_database(url, sent):
    study = Study.create(url, name="a", space=SPACE)
    lock = study._store.ask_lock
    entered = threading.Event()

    def noticed_lock():
        entered.set()
        return lock()

    study._store.ask_lock = noticed_lock
    asked: list[object] = []
    with lock():
        thread = threading.Thread(target=ask_into, args=(study, asked))
        sent.clear()
        thread.start()
        assert entered.wait(PATIENCE)
        thread.join(0.3)  # it sends nothing, however long it waits
        assert thread.is_alive()
        assert not sent
        assert not asked
    thread.join(PATIENCE)
    assert asked
    assert sent


def test_waiting_for_the_lock_is_one_system_call(tmp_path, monkeypatch):
    file, calls, blocked = tmp_path / "lock", list[bool](), threading.Event()

    def counted(descriptor, how, flock=fcntl.flock):
        calls.append(bool(how & fcntl.LOCK_NB))
        if not calls[-1]:
            blocked.set()
        flock(descriptor, how)

    def waiting():
        with ask_lock(file):
            pass

    with ask_lock(file):
        monkeypatch.setattr("farthing.storage.ask_lock.fcntl.flock", counted)
        thread = threading.Thread(target=waiting)
        thread.start()
        assert blocked.wait(PATIENCE)
        thread.join(0.3)  # it does not try again, however long it waits
        assert thread.is_alive()
        assert calls == [True, False]
    thread.join(PATIENCE)
    assert not thread.is_alive()
    with ask_lock(file):  # the lock is free again
        assert calls == [True, False, True]


def test_a_killed_process_releases_the_lock(tmp_path):
    file = tmp_path / "ask_locks" / "one"
    process = start_holder(file)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with ask_lock(file):
        pass


def test_a_suspended_process_does_not_block_the_others(tmp_path):
    file = tmp_path / "lock"
    process = start_holder(file)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        before = os.stat(file).st_ino
        with ask_lock(file, longest=0.1):
            assert os.stat(file).st_ino != before
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    for thread in threading.enumerate():  # the thread that waited for the old file has ended too
        if thread.name == "farthing-ask-lock":
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_an_interrupted_wait_releases_the_lock(tmp_path, monkeypatch):
    file = tmp_path / "lock"

    wait = threading.Event.wait

    class Interrupted(threading.Event):
        def wait(self, timeout=None):
            if timeout is None:  # waits for a thread to start
                return wait(self)
            raise KeyboardInterrupt

    with ask_lock(file):
        monkeypatch.setattr("farthing.storage.ask_lock.threading.Event", Interrupted)
        with pytest.raises(KeyboardInterrupt), ask_lock(file):
            pass
        monkeypatch.undo()
    with ask_lock(file, longest=PATIENCE):
        pass


def test_a_lock_file_that_cannot_be_created_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    with ask_lock(tmp_path / "file" / "lock"):
        pass


def test_a_file_system_without_locks_is_no_error(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr("farthing.storage.ask_lock.fcntl.flock", refused)
    with ask_lock(tmp_path / "lock"), ask_lock(tmp_path / "lock"):
        pass


def suggest_on_another_machine(study, seconds):
    """Take the suggestion lock in the name of another machine."""
    study._session.commit(SuggestLock("elsewhere", seconds))


def test_a_lost_trial_is_retried_while_another_process_suggests(url):
    """A retry needs no suggestion."""
    study, other = Study.create(url, name="a", space=SPACE), Study.open(url, "a")
    lost = study.ask()
    study.commit(Returned(lost.number, "its machine went away"))
    suggest_on_another_machine(other, 1000.0)
    asked: list[object] = []
    thread = threading.Thread(target=lambda: asked.append(study.ask()), daemon=True)
    thread.start()
    thread.join(PATIENCE)  # much less than 1000 s
    assert [trial.params for trial in asked] == [lost.params]


def test_a_waiting_worker_notices_the_end_of_a_suggestion(url, monkeypatch):
    study, other = Study.create(url, name="a", space=SPACE), Study.open(url, "a")
    suggest_on_another_machine(other, 1000.0)
    pauses = list[float]()

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 12:
            other._session.commit(SuggestLock("elsewhere"))

    monkeypatch.setattr(database_store, "time", SimpleNamespace(sleep=sleep, monotonic=monotonic))
    assert study.ask().number == 0
    assert len(pauses) == 12
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.004, 0.25)


def test_a_waiting_worker_notices_the_end_of_the_budget(url, monkeypatch):
    """`benchmarks.reliability.faults` found a worker that waited 2 s too long for a dead one."""
    study = Study.create(url, name="a", space=SPACE, budget="5s")
    suggest_on_another_machine(study, 1000.0)
    pauses, real = list[float](), time.sleep

    def sleep(seconds):
        pauses.append(seconds)
        real(seconds)

    monkeypatch.setattr(database_store, "time", SimpleNamespace(sleep=sleep, monotonic=monotonic))
    with study.on_the_clock(), pytest.raises(Stopped):
        study.ask(lease=15)
    assert pauses
    assert max(pauses) <= 0.25


@pytest.mark.slow
def test_waiting_reads_one_row_and_writes_nothing(url, sent, monkeypatch):
    study, other = Study.create(url, name="a", space=SPACE), Study.open(url, "a")
    suggest_on_another_machine(other, 1000.0)
    study.history  # noqa: B018
    waited = []

    def sleep(seconds):
        waited.append(list(sent))
        if len(waited) == 5:
            other._session.commit(SuggestLock("elsewhere"))

    monkeypatch.setattr(database_store, "time", SimpleNamespace(sleep=sleep, monotonic=monotonic))
    sent.clear()
    study.ask()
    between = waited[3][len(waited[2]) :]
    assert len(between) == 1
    assert between[0].startswith("SELECT")
    assert "farthing_studies" in between[0]


def test_a_look_reads_only_what_changed(url, sent):
    study = Study.create(url, name="a", space=SPACE, budget="$100")
    other = Study.open(url, "a")
    study.import_trials([{"a": 0.5, "b": 0.5, "cost_usd": 3.0}], values=False)
    assert len(other._look().prices) == 1
    study.tell(study.ask(), 1.0, cost=1.0)
    sent.clear()
    assert len(other.history) == 1
    assert sent
    assert not any("farthing_prices" in statement for statement in sent)
    assert len(other._look().prices) == 1


def test_imported_costs_are_read_again_when_the_space_has_grown(url):
    study = Study.create(url, name="a", space={"a": Float(0, 1)}, budget="$100")
    other = Study.open(url, "a")
    study.import_trials([{"a": 0.5, "cost_usd": 3.0}, {"a": 1, "cost_usd": 4.0}], values=False)
    assert [price.x.tolist() for price in other._look().prices] == [[0.5], [1.0]]
    study.change(space={"a": Float(0, 2)})
    assert [price.x.tolist() for price in other._look().prices] == [[0.25], [0.5]]


@pytest.mark.parametrize(("budget", "longest"), [("100h", 1.0), ("30s", 0.3), ("1s", POLL)])
def test_an_idle_worker_asks_less_and_less_often(budget, longest, tmp_path, monkeypatch):
    study = Study.create(
        tmp_path / "a.db", name="a", space=SPACE, budget=budget, policy=Random(), stop=MaxTrials(1)
    )
    other = Study.open(tmp_path / "a.db", "a")
    theirs = other.ask(worker="other", lease=600.0)
    pauses, now = list[float](), [0.0]

    def sleep(seconds):
        pauses.append(seconds)
        now[0] += seconds
        if len(pauses) == 60:
            other.tell(theirs, 1.0, cost=0.1)

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now[0])
    monkeypatch.setattr("farthing.running.worker.time", clock)
    said = run_trials(study, study.current_settings, InProcess(lambda params: 1.0), lambda: None)
    assert "1 of at most 1" in str(said)
    assert len(pauses) == 60
    assert pauses[0] == POLL
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(longest)


def test_status_calls_no_policy(tmp_path, monkeypatch, capsys):
    url = f"sqlite:///{tmp_path}/a.db"
    study = Study.create(url, name="a", space=SPACE, budget="$100")
    for _ in range(7):
        trial = study.ask()
        study.tell(trial, trial.params["a"], cost=1.0)

    def called(*_, **__):
        raise AssertionError("the policy was called")

    monkeypatch.setattr(Gittins, "propose", called)
    monkeypatch.setattr("farthing.core.suggest.believe", called)
    with pytest.raises(SystemExit) as left:
        main(["status", "--storage", url, "--name", "a"])
    assert left.value.code in (0, None)
    assert "7 done" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="the policy was called"):
        study.ask()


@pytest.mark.slow
def test_an_ask_among_many_trials_looks_at_some(monkeypatch):
    """The number of points at which models are evaluated does not grow with the history."""
    from farthing import Optimizer
    from farthing.models.gp import GP

    asked = {}
    for n in (2_000, 20_000):
        optimizer = Optimizer(SPACE, budget="$1000000")
        X = np.random.default_rng(0).random((n, 2))
        optimizer.import_trials(
            [{"a": x[0], "b": x[1], "value": x[0] * x[1], "cost_usd": 1 + x[0]} for x in X]
        )
        points, at = [], GP.at

        def counted(self, X, at=at, points=points):
            points.append(len(X) * len(self.X))
            return at(self, X)

        monkeypatch.setattr(GP, "at", counted)
        optimizer.ask()
        monkeypatch.setattr(GP, "at", at)
        asked[n] = max(points)
    assert asked[20_000] <= 1.5 * asked[2_000]


def test_conditioning_on_all_equals_conditioning_on_each():
    rng = np.random.default_rng(1)
    X, more = rng.random((12, 3)), rng.random((5, 3))
    more[4] = more[3]  # the same point twice
    gp = build(X, np.sin(X.sum(axis=1)), Hyper(np.full(3, 0.7), 1.3, 1e-4, 0.1))
    Y = rng.normal(size=(5, 2))
    each = gp
    for x, y in zip(more, Y, strict=True):
        each = each.condition(x, y)
    together = gp.condition_all(more, Y)
    at = rng.random((9, 3))
    np.testing.assert_allclose(together.at(at).mean, each.at(at).mean, rtol=1e-9)
    np.testing.assert_allclose(together.at(at).std, each.at(at).std, rtol=1e-9)
    np.testing.assert_allclose(together.L, each.L, atol=1e-12)
