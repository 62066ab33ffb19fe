"""The log file has the whole output of an evaluation in order, or its two ends."""

import os
import re

import pytest

from farthing.errors import Interrupted
from farthing.running import (
    Allowance,
    CallableTask,
    CommandTask,
    Job,
    ProcessGroup,
    report_progress,
)
from farthing.running.log import Log


def left_out(text):
    """(the start, the number of bytes left out, the end) of a file without its middle."""
    begin, count, end = re.fullmatch(
        rb"(.*)\n\[(\d+) bytes were left out here\]\n(.*)", text, re.DOTALL
    ).groups()
    return begin, int(count), end


def test_two_streams_are_logged_in_the_order_of_arrival(tmp_path):
    log = Log(tmp_path / "a" / "b" / "0.log")
    for stream, data in ((1, b"one\n"), (2, b"half"), (2, b" a line"), (1, b"two\n"), (1, b"")):
        log.feed(stream, data)
    assert (tmp_path / "a" / "b" / "0.log").read_bytes() == b"one\nhalf a line\ntwo\n"
    assert log.tail == "one\nhalf a line\ntwo"
    log.close()


def test_only_the_owner_may_read_the_files_and_no_link_is_followed(tmp_path):
    Log(tmp_path / "a" / "b" / "0.log").close()
    new = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "0.log"]
    assert [oct(path.stat().st_mode & 0o777) for path in new] == ["0o700", "0o700", "0o600"]
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "1.log").symlink_to(tmp_path / "precious")
    log = Log(tmp_path / "1.log")
    log.feed(1, b"printed\n")
    log.close()
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert log.tail == "printed"


@pytest.mark.parametrize("chunk", [1, 7, 64, 5000])
def test_a_file_that_would_grow_too_large_loses_its_middle(tmp_path, chunk):
    printed = b"".join(b"line %d\n" % i for i in range(2000))
    path = tmp_path / "0.log"
    log, sizes = Log(path, limit=400), []
    for begin in range(0, len(printed), chunk):
        log.feed(1, printed[begin : begin + chunk])
        sizes.append(path.stat().st_size)
    log.close()
    begin, count, end = left_out(path.read_bytes())
    assert begin == printed[:100]
    assert printed.endswith(end)
    assert len(end) >= 200
    assert len(begin) + count + len(end) == len(printed)
    assert max(sizes) <= 400 + 50  # and the line that counts the bytes left out
    assert log.tail == "\n".join(f"line {i}" for i in range(1980, 2000))


def test_after_the_middle_is_left_out_there_is_room_again(tmp_path):
    log = Log(tmp_path / "0.log", limit=400)
    log.feed(1, b"a" * 401)
    _, count, _ = left_out((tmp_path / "0.log").read_bytes())
    log.feed(1, b"b" * 20)
    log.close()
    _, still, end = left_out((tmp_path / "0.log").read_bytes())
    assert (still, end) == (count, b"a" * 200 + b"b" * 20)


def test_output_that_fits_exactly_is_complete(tmp_path):
    log = Log(tmp_path / "0.log", limit=400)
    log.feed(1, b"x" * 400)
    log.close()
    assert (tmp_path / "0.log").read_bytes() == b"x" * 400


def test_a_file_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "taken").write_text("a file where a folder should be")
    log = Log(tmp_path / "taken" / "0.log")
    log.feed(1, b"still here\n")
    assert log.tail == "still here"
    log = Log(tmp_path / "0.log")
    os.close(log._file.fileno())  # like a disk that was removed
    log.feed(1, b"still here\n")
    assert log.tail == "still here"


def run(task, log, **allowance):
    allowed = {"tick": 0.05, "may_go_on": lambda usage: None, **allowance}
    return ProcessGroup(task, grace=0.2).run(Job({"x": 3}, 0, 0, log=log), Allowance(**allowed))


def test_the_log_of_a_command_contains_its_messages(tmp_path):
    script = "echo out; echo err >&2; echo '{\"step\": 1}'; echo '{\"value\": 2}'"
    finished = run(CommandTask(["sh", "-c", script]), tmp_path / "0.log")
    lines = (tmp_path / "0.log").read_text().splitlines()
    assert finished.tail.splitlines() == lines
    lines.remove("err")  # its position is not defined
    assert lines == ["out", '{"step": 1}', '{"value": 2}']


def test_the_log_of_a_function_contains_its_output_and_its_traceback(tmp_path):
    def objective(params):
        print("hello from", params["x"])
        report_progress(1, 0.5)
        raise ValueError("never any good")

    finished = run(CallableTask(objective), tmp_path / "0.log")
    text = (tmp_path / "0.log").read_text()
    assert text.startswith("hello from 3\nTraceback")
    assert text.rstrip().endswith("ValueError: never any good")
    assert "step" not in text  # progress is stored separately
    assert finished.error.count("never any good") == text.count("never any good")
    assert finished.reports == ({"step": 1, "value": 0.5},)


def test_the_log_contains_the_output_before_a_kill(tmp_path):
    path = tmp_path / "0.log"

    def may_go_on(usage):
        return "enough" if path.read_text() == "started\n" else None

    task = CommandTask(["sh", "-c", "echo started; exec sleep 1800"])
    finished = run(task, path, may_go_on=may_go_on)
    assert (finished.state, finished.tail) == ("killed", "started")


def test_ctrl_c_keeps_the_last_lines(tmp_path):
    path = tmp_path / "0.log"

    def may_go_on(usage):
        if path.read_text() == "started\n":
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        run(CommandTask(["sh", "-c", "echo started; exec sleep 1800"]), path, may_go_on=may_go_on)
    assert caught.value.finished.tail == "started"


def test_without_a_file_only_the_last_lines_are_kept(tmp_path):
    finished = run(CommandTask(["sh", "-c", "seq 100; echo '{\"value\": 2}'"]), None)
    assert finished.tail.splitlines() == [*map(str, range(82, 101)), '{"value": 2}']
