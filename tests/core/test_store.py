"""The memory of one process: it is alone, its clock only goes forward, leases are kept by it."""

from clocks import Clock

from farthing import Float, Optimizer, Space
from farthing.budget.ledger import Ledger
from farthing.budget.units import Budget
from farthing.core.state import State
from farthing.core.store import InMemoryStore
from farthing.policies import Random

LINE = {"x": Float(0, 1)}


def test_a_lease_that_has_passed_says_that_its_worker_is_gone(monkeypatch):
    clock = Clock(monkeypatch)
    optimizer = Optimizer(LINE, "$9", policy=Random())
    optimizer.ask(worker="here", lease=60.0)
    clock.sleep(59.0)
    assert optimizer.is_worked_on()
    clock.sleep(2.0)
    assert not optimizer.is_worked_on()
    assert [trial.state for trial in optimizer.history] == ["lost"]


def test_its_clock_is_the_one_that_only_goes_forward(monkeypatch):
    clock = Clock(monkeypatch)
    memory = InMemoryStore(State(Ledger.of(None)))
    seen = []

    def change(state, now):
        seen.append(now)
        return state

    memory.commit(change)
    clock.sleep(5.0)
    memory.commit(change)
    assert seen == [clock.now - 5.0, clock.now]
    assert memory.now == clock.now


def test_a_change_is_remembered_and_one_that_raises_is_not():
    before = State(Ledger.of(None))
    memory, after = InMemoryStore(before), State(Ledger.of(Budget(3.0)))
    assert memory.look() is before

    def refuse(state, now):
        raise ZeroDivisionError

    try:
        memory.commit(refuse)
    except ZeroDivisionError:
        assert memory.look() is before
    assert memory.commit(lambda state, now: after) is after
    assert memory.look() is after


def test_nobody_else_changes_it_and_nobody_is_waited_for():
    memory = InMemoryStore(State(Ledger.of(None)))
    assert memory.shared is False
    memory.wait(10**9)
    with memory.turn(), memory.turn():
        pass


def test_settings_are_those_of_the_last_change():
    optimizer = Optimizer(LINE, "$9", policy=Random())
    optimizer.enqueue({"x": 0.5})  # no change of settings
    assert optimizer.budget == Budget({"usd": 9.0})
    wider = Space({"x": Float(0, 2)})
    optimizer.change(budget="$10")
    optimizer.change(space=wider)
    assert (optimizer.budget, optimizer.space) == (Budget({"usd": 10.0}), wider)
