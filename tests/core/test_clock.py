"""ProcessClock: the presence and the overhead of a process that are not charged yet."""

import pytest
from clocks import Clock

from farthing.core.clock import ProcessClock
from farthing.errors import InvalidInput, Stopped
from farthing.history import StopReason


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_off_the_clock_there_is_no_presence(clock):
    time = ProcessClock()
    assert time.present is None
    with time.on_the_clock():
        assert time.present == 0.0
        clock.sleep(3.0)
        assert time.present == 3.0
    assert time.present is None
    assert time.unpaid == 0.0


def test_overhead_adds_up_until_it_is_charged(clock):
    time = ProcessClock()
    for seconds in (2.0, 3.0):
        with time.measuring():
            clock.sleep(seconds)
        clock.sleep(100.0)
    assert time.unpaid == 5.0
    time.paid(None, 4.0)
    assert time.unpaid == 1.0


def test_nested_measuring_counts_once(clock):
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
def test_a_refused_call_costs_nothing_and_other_errors_do(clock, error, costs):
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
    with time.measuring():  # the next one is measured as usual
        clock.sleep(4.0)
    assert time.unpaid == 5.0 + costs


def test_charged_time_is_not_charged_again(clock):
    time = ProcessClock()
    with time.on_the_clock():
        clock.sleep(10.0)
        time.paid(7.0, 0.0)
        assert time.present == 3.0
        time.paid(None, 0.0)  # an event that charges no time
        assert time.present == 3.0
    time.paid(7.0, 0.0)
    assert time.present is None


def test_waiting_is_not_charged_and_overhead_is(clock):
    time = ProcessClock()
    time.skip_waiting()
    assert time.present is None
    with time.on_the_clock():
        with time.measuring():
            clock.sleep(2.0)
        clock.sleep(50.0)
        time.skip_waiting()
        assert time.present == 2.0
        time.skip_waiting()  # calling it again changes nothing
        assert time.present == 2.0
    with time.on_the_clock():  # no more than the time that passed
        clock.sleep(1.0)
        time.skip_waiting()
        assert time.present == 1.0
