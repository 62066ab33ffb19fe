"""Signals are recorded, printed once, and acted upon later."""

import os
import signal
import threading

import pytest

from farthing.running.signals import (
    INTERRUPTED,
    ORPHANED,
    TERMINATED,
    ExitRequest,
    can_handle,
    handle_signals,
    print_exit_requests,
)
from farthing.running.worker import SUSPECT


@pytest.fixture(autouse=True)
def default_handler():
    """Restore the handler, because background processes of a shell ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_after_ctrl_c_trials_finish_the_second_kills_the_third_interrupts():
    with handle_signals() as exit_check:
        assert exit_check() is None
        signal.raise_signal(signal.SIGINT)
        assert exit_check() == ExitRequest(INTERRUPTED, kill=False)
        signal.raise_signal(signal.SIGINT)
        assert exit_check() == ExitRequest(INTERRUPTED, kill=True)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_sigterm_kills_and_the_second_interrupts_once():
    with handle_signals() as exit_check:
        signal.raise_signal(signal.SIGTERM)
        assert exit_check() == ExitRequest(TERMINATED, kill=True)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # a pool repeats it
        assert exit_check() == ExitRequest(TERMINATED, kill=True)


def test_sigterm_after_ctrl_c_is_sigterm():
    with handle_signals() as exit_check:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert exit_check() == ExitRequest(TERMINATED, kill=True)


def test_a_member_of_a_pool_ends_with_the_pool(monkeypatch):
    monkeypatch.setattr(os, "getppid", lambda: 4242)  # the real one may be 1 already
    with handle_signals(4242) as exit_check:
        monkeypatch.setattr(os, "getppid", lambda: 1)
        signal.raise_signal(signal.SIGINT)
        assert exit_check() == ExitRequest(ORPHANED, kill=True)


def test_a_run_of_its_own_outlives_its_parent(monkeypatch):
    with handle_signals() as exit_check:
        monkeypatch.setattr(os, "getppid", lambda: 1)
        assert exit_check() is None


def test_earlier_handlers_are_restored():
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        with handle_signals():
            signal.raise_signal(signal.SIGTERM)
        assert received == []
        assert signal.getsignal(signal.SIGINT) is interrupt
        signal.raise_signal(signal.SIGTERM)
        assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_ignored_signal_stays_ignored():
    """As under nohup."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert not can_handle(signal.SIGTERM)
        assert can_handle(signal.SIGINT)
        with handle_signals() as exit_check:
            signal.raise_signal(signal.SIGTERM)
            assert exit_check() is None
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_thread_neither_receives_signals_nor_changes_handlers():
    found = []

    def listen():
        with handle_signals() as exit_check:
            found.append((exit_check(), signal.getsignal(signal.SIGINT)))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert found == [(None, before)]


def test_each_request_is_printed_once_with_the_running_trials(capsys):
    requests, running = [None], [3]
    check = print_exit_requests(lambda: requests[-1], lambda: running)
    assert check() is None
    assert capsys.readouterr().err == ""
    requests.append(ExitRequest(INTERRUPTED, kill=False))
    assert check() == check() == requests[-1]
    assert capsys.readouterr().err == (
        "Ctrl-C: waiting for trial 3 to finish. Press Ctrl-C again to kill it.\n"
    )
    requests.append(ExitRequest(INTERRUPTED, kill=True))
    assert check() == check() == requests[-1]
    assert capsys.readouterr().err == "Ctrl-C: killing trial 3; its cost so far is charged.\n"


def test_nothing_is_printed_if_the_parent_process_has_ended(capsys):
    request = ExitRequest(ORPHANED, kill=True)
    assert print_exit_requests(lambda: request, lambda: [3])() == request
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("request_", "running", "message"),
    [
        ((INTERRUPTED, False), [], "Ctrl-C: no trial is running, and no further trial starts."),
        ((TERMINATED, True), [4], "SIGTERM: killing trial 4; its cost so far is charged."),
        ((TERMINATED, True), [4, 5], "SIGTERM: killing trials 4, 5; their cost so far is charged."),
        (
            (INTERRUPTED, False),
            [4, 5],
            "Ctrl-C: waiting for trials 4, 5 to finish. Press Ctrl-C again to kill them.",
        ),
        ((SUSPECT, True), [], f"{SUSPECT}: no trial is running, and no further trial starts."),
    ],
)
def test_the_printed_line(request_, running, message):
    assert ExitRequest(*request_).message(running) == message
