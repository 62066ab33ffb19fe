"""The result of an evaluation from its exit status and its output."""

import errno
import os
import signal

import pytest

from farthing.running import Finished, Usage
from farthing.running.output import Messages
from farthing.running.result import ended, killed, lost, read_result_file

CLEAN = 0
USED = Usage(2.0, 1.0, 50.0)


def exited(code):
    return code << 8


def messages_in(text, metric="value"):
    messages = Messages(metric)
    messages.feed(text.encode())
    messages.close()
    return messages


def result_of(text="", status=CLEAN, tail="", file=None, metric="value"):
    messages = messages_in(text, metric)
    finished = ended(messages, USED, status=status, tail=tail, result_file=file)
    assert finished.usage is USED
    assert finished.reports == tuple(messages.reports)
    return finished


def test_done():
    finished = result_of('{"value": 0.5, "cost": {"usd": 2}}')
    assert finished == Finished("done", 0.5, {"usd": 2.0}, None, USED)


def test_a_bare_cost():
    assert result_of('{"value": 1, "cost": 12.3}').cost == {"": 12.3}


def test_the_result_file_has_priority():
    assert result_of('{"value": 1}', file='{"value": 2}').value == 2


def test_the_result_file_may_have_several_lines():
    assert result_of(file='{\n  "value": 2\n}\n').value == 2
    assert result_of(file='{"value": 1}\n{"value": 2}\n').value == 2


def test_without_a_result_the_last_progress_counts():
    progress = '{"step": 1, "value": 4}\n{"step": 2, "value": 3}\n{"step": 3}\n'
    assert result_of(progress).value == 3
    assert result_of('{"value": 9}\n' + progress).value == 9
    assert result_of(progress, status=exited(1)).state == "failed"


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"0.5"', "null", "true", "[1]", "1e999"])
def test_a_value_must_be_a_finite_number(value):
    finished = result_of(f'{{"value": {value}, "cost": 2}}')
    assert finished.state == "failed"
    assert finished.value is None
    assert finished.cost == {"": 2.0}
    assert "expected a finite number" in finished.error


def test_the_error_without_a_result_shows_the_expected_and_the_last_line():
    finished = result_of("accuracy: 0.93\n", metric="accuracy")
    assert finished.state == "failed"
    assert '{"accuracy": 0.5}' in finished.error
    assert "accuracy: 0.93" in finished.error


def test_a_result_file_without_a_result():
    finished = result_of('{"value": 1}', file="oops")
    assert finished.state == "failed"
    assert "oops" in finished.error


def test_an_invalid_cost():
    finished = result_of('{"value": 1, "cost": "cheap"}')
    assert finished.state == "failed"
    assert '"cheap"' in finished.error


@pytest.mark.parametrize("status", [CLEAN, exited(1)])
def test_an_evaluation_may_report_its_own_failure(status):
    failed = result_of(
        '{"failed": "out of memory", "value": 3, "cost": 2}', status, tail="and more"
    )
    assert failed == Finished("failed", None, {"": 2.0}, "out of memory", USED)
    trouble = result_of('{"infrastructure": "lost the GPU"}', status)
    assert trouble == Finished("lost", None, {}, "lost the GPU", USED)


def test_a_failure_that_is_false_is_a_success():
    assert result_of('{"value": 3, "failed": false, "infrastructure": null}').value == 3


def test_a_result_and_a_bad_exit_is_a_failure():
    finished = result_of('{"value": 1, "cost": 4}', exited(3), tail="Traceback ...")
    assert finished.state == "failed"
    assert finished.value is None
    assert finished.cost == {"": 4.0}
    assert "exit code 3" in finished.error
    assert "Traceback ..." in finished.error


@pytest.mark.parametrize("status", [signal.SIGKILL, exited(128 + signal.SIGKILL)])
def test_an_unexpected_sigkill_is_probably_out_of_memory(status):
    finished = result_of(status=status)
    assert finished.state == "failed"
    assert "out of memory" in finished.error


def test_another_signal_has_a_name():
    finished = result_of(status=signal.SIGSEGV)
    assert finished.state == "failed"
    assert signal.strsignal(signal.SIGSEGV) in finished.error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_not_the_fault_of_the_parameters(number):
    tail = f"cp: error writing 'model': {os.strerror(number)}"
    assert result_of(status=exited(1), tail=tail).state == "lost"
    assert result_of('{"value": 1}', tail=tail).state == "done"  # it succeeded nevertheless


def test_a_killed_evaluation_has_its_cost_but_no_value():
    messages = messages_in('{"step": 1}\n{"value": 3, "cost": 2}')
    finished = killed(messages, USED, "too expensive", tail="last line")
    error = "too expensive\nlast line"
    assert finished == Finished("killed", None, {"": 2.0}, error, USED, ({"step": 1},))
    assert killed(messages_in('{"value": 3, "cost": "much"}'), USED, "too expensive").cost == {}


def test_a_lost_evaluation():
    finished = lost(messages_in('{"step": 1}\n{"value": 3, "cost": 2}'), USED, "no memory")
    assert finished == Finished("lost", None, {}, "no memory", USED, ({"step": 1},))


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_an_empty_result_file_is_none(tmp_path, content):
    (tmp_path / "result").write_bytes(content)
    assert read_result_file(tmp_path / "result") is None
    assert read_result_file(tmp_path / "nothing") is None
    assert read_result_file(tmp_path) is None


def test_only_the_end_of_a_huge_result_file_is_read(tmp_path):
    (tmp_path / "result").write_bytes(b"x" * 5_000_000 + b'\n{"value": 4}\n')
    text = read_result_file(tmp_path / "result")
    assert len(text) < 2_000_000
    assert result_of(file=text).value == 4


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"0.5"'])
def test_the_error_shows_the_value_of_a_step_as_it_was_printed(value):
    progress = f'{{"step": 1, "value": 4}}\n{{"step": 2, "value": {value}}}\n'
    assert result_of(progress).error == f"its value is {value}: expected a finite number"
