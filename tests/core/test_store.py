"""InMemoryStore: one process, a monotonic clock, reliable leases."""

from clocks import Clock

from farthing import Float, Optimizer, Space
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget
from farthing.core.state import State
from farthing.core.store import InMemoryStore
from farthing.policies import Random

LINE = {"x": Float(0, 1)}


def test_an_expired_lease_means_a_lost_worker(monkeypatch):
    clock = Clock(monkeypatch)
    optimizer = Optimizer(LINE, "$9", policy=Random())
    optimizer.ask(worker="here", lease=60.0)
    clock.sleep(59.0)
    assert optimizer.is_worked_on()
    clock.sleep(2.0)
    assert not optimizer.is_worked_on()
    assert [trial.state for trial in optimizer.history] == ["lost"]


def test_its_clock_is_monotonic(monkeypatch):
    clock = Clock(monkeypatch)
    store = InMemoryStore(State(Ledger.of(None)))
    seen = []

    def change(state, now):
        seen.append(now)
        return state

    store.commit(change)
    clock.sleep(5.0)
    store.commit(change)
    assert seen == [clock.now - 5.0, clock.now]
    assert store.now == clock.now


def test_a_change_is_kept_unless_it_raises():
    before = State(Ledger.of(None))
    store, after = InMemoryStore(before), State(Ledger.of(Budget(3.0)))
    assert store.look() is before

    def refuse(state, now):
        raise ZeroDivisionError

    try:
        store.commit(refuse)
    except ZeroDivisionError:
        assert store.look() is before
    assert store.commit(lambda state, now: after) is after
    assert store.look() is after


def test_it_is_not_shared_and_never_waits():
    store = InMemoryStore(State(Ledger.of(None)))
    assert store.shared is False
    store.wait(10**9)
    with store.ask_lock(), store.ask_lock():
        pass


def test_settings_are_those_of_the_last_change():
    optimizer = Optimizer(LINE, "$9", policy=Random())
    optimizer.enqueue({"x": 0.5})  # not a change of settings
    assert optimizer.budget == Budget({"usd": 9.0})
    wider = Space({"x": Float(0, 2)})
    optimizer.change(budget="$10")
    optimizer.change(space=wider)
    assert (optimizer.budget, optimizer.space) == (Budget({"usd": 10.0}), wider)
