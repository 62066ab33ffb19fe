"""Signals are noted, said once, and acted upon later."""

import os
import signal
import threading

import pytest

from farthing.running.signals import (
    INTERRUPTED,
    ORPHANED,
    TERMINATED,
    ExitRequest,
    announced,
    hears,
    signals,
)
from farthing.running.worker import SUSPECT


@pytest.fixture(autouse=True)
def heard():
    """Whatever started these tests: what runs in the background of a shell ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_ctrl_c_lets_finish_the_second_kills_the_third_interrupts():
    with signals() as exit_requested:
        assert exit_requested() is None
        signal.raise_signal(signal.SIGINT)
        assert exit_requested() == ExitRequest(INTERRUPTED, now=False)
        signal.raise_signal(signal.SIGINT)
        assert exit_requested() == ExitRequest(INTERRUPTED, now=True)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_sigterm_kills_and_the_second_interrupts_once():
    with signals() as exit_requested:
        signal.raise_signal(signal.SIGTERM)
        assert exit_requested() == ExitRequest(TERMINATED, now=True)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # a pool repeats it
        assert exit_requested() == ExitRequest(TERMINATED, now=True)


def test_sigterm_after_ctrl_c_is_sigterm():
    with signals() as exit_requested:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert exit_requested() == ExitRequest(TERMINATED, now=True)


def test_a_parent_that_is_gone_is_noticed(monkeypatch):
    with signals() as exit_requested:
        monkeypatch.setattr(os, "getppid", lambda: 1)
        signal.raise_signal(signal.SIGINT)
        assert exit_requested() == ExitRequest(ORPHANED, now=True)


def test_whoever_heard_signals_before_hears_them_again():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with signals():
            signal.raise_signal(signal.SIGTERM)
        assert heard == []
        assert signal.getsignal(signal.SIGINT) is interrupt
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_is_ignored_stays_ignored():
    """As under nohup."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert not hears(signal.SIGTERM)
        assert hears(signal.SIGINT)
        with signals() as exit_requested:
            signal.raise_signal(signal.SIGTERM)
            assert exit_requested() is None
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_thread_hears_none_and_changes_none():
    found = []

    def listen():
        with signals() as exit_requested:
            found.append((exit_requested(), signal.getsignal(signal.SIGINT)))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert found == [(None, before)]


def test_each_is_said_once_with_what_is_running_then(capsys):
    leave, running = [None], [3]
    asked = announced(lambda: leave[-1], lambda: running)
    assert asked() is None
    assert capsys.readouterr().err == ""
    leave.append(ExitRequest(INTERRUPTED, now=False))
    assert asked() == asked() == leave[-1]
    assert capsys.readouterr().err == (
        "Ctrl-C: trial 3 is let finish, then this ends. Ctrl-C again kills it.\n"
    )
    leave.append(ExitRequest(INTERRUPTED, now=True))
    assert asked() == asked() == leave[-1]
    assert capsys.readouterr().err == "Ctrl-C: trial 3 is killed; what it used is charged.\n"


def test_nobody_is_there_to_be_told_that_he_is_gone(capsys):
    leave = ExitRequest(ORPHANED, now=True)
    assert announced(lambda: leave, lambda: [3])() == leave
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("leave", "running", "said"),
    [
        ((INTERRUPTED, False), [], "Ctrl-C: nothing is running, and nothing more is started."),
        ((TERMINATED, True), [4], "SIGTERM: trial 4 is killed; what it used is charged."),
        ((TERMINATED, True), [4, 5], "SIGTERM: trials 4, 5 are killed; what they used is charged."),
        (
            (INTERRUPTED, False),
            [4, 5],
            "Ctrl-C: trials 4, 5 are let finish, then this ends. Ctrl-C again kills them.",
        ),
        ((SUSPECT, True), [], f"{SUSPECT}: nothing is running, and nothing more is started."),
    ],
)
def test_it_is_a_sentence(leave, running, said):
    assert ExitRequest(*leave).sentence(running) == said
