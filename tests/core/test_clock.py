"""What a process has to pay for: having been there, and having thought."""

import pytest
from clocks import Clock

from farthing.core.clock import ProcessClock
from farthing.errors import InvalidInput, Stopped
from farthing.history import StopReason


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_off_the_clock_nobody_is_there(clock):
    time = ProcessClock()
    assert time.present is None
    with time.on_the_clock():
        assert time.present == 0.0
        clock.sleep(3.0)
        assert time.present == 3.0
    assert time.present is None
    assert time.unpaid == 0.0


def test_thoughts_add_up_until_they_are_paid(clock):
    time = ProcessClock()
    for seconds in (2.0, 3.0):
        with time.measuring():
            clock.sleep(seconds)
        clock.sleep(100.0)
    assert time.unpaid == 5.0
    time.paid(None, 4.0)
    assert time.unpaid == 1.0


def test_a_thought_within_a_thought_is_one(clock):
    time = ProcessClock()
    with time.measuring():
        clock.sleep(1.0)
        with time.measuring():
            clock.sleep(2.0)
        assert time.unpaid == 0.0  # not yet
        clock.sleep(4.0)
    assert time.unpaid == 7.0


@pytest.mark.parametrize(
    ("error", "costs"),
    [
        (InvalidInput("no"), 0.0),
        (Stopped(StopReason("rule", "it is over")), 2.0),
        (KeyError(), 2.0),
    ],
)
def test_what_was_refused_costs_nothing_and_what_ended_otherwise_does(clock, error, costs):
    time = ProcessClock()
    with time.measuring():
        clock.sleep(1.0)

    def end():
        with time.measuring():
            clock.sleep(2.0)
            raise error

    with pytest.raises(type(error)):
        end()
    assert time.unpaid == 1.0 + costs
    with time.measuring():  # and the next is measured like any other
        clock.sleep(4.0)
    assert time.unpaid == 5.0 + costs


def test_what_is_paid_is_no_longer_owed(clock):
    time = ProcessClock()
    with time.on_the_clock():
        clock.sleep(10.0)
        time.paid(7.0, 0.0)
        assert time.present == 3.0
        time.paid(None, 0.0)  # a silent event
        assert time.present == 3.0
    time.paid(7.0, 0.0)
    assert time.present is None


def test_waiting_is_forgiven_and_thinking_is_not(clock):
    time = ProcessClock()
    time.forgive_waiting()
    assert time.present is None
    with time.on_the_clock():
        with time.measuring():
            clock.sleep(2.0)
        clock.sleep(50.0)
        time.forgive_waiting()
        assert time.present == 2.0
        time.forgive_waiting()  # nothing more, and no less
        assert time.present == 2.0
    with time.on_the_clock():  # no more than what passed
        clock.sleep(1.0)
        time.forgive_waiting()
        assert time.present == 1.0
