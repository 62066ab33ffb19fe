"""Read the output of evaluations."""

import json

import pytest

from farthing.running.output import (
    MAX_LINE,
    MAX_REPORTS,
    MAX_TAIL,
    MAX_TAIL_LINE,
    Messages,
    Tail,
    costs_of,
    message_in,
    number_of,
)


def read(*chunks, metric="value"):
    messages = Messages(metric)
    for chunk in chunks:
        messages.feed(chunk)
    messages.close()
    return messages


def test_the_last_result_counts():
    assert read(b'{"value": 1}\n{"value": 2}\nbye\n').result == {"value": 2}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_the_chunks_of_a_stream_do_not_matter(size):
    text = b'hello\n{"step": 1, "value": 4}\r\n\n {"value": 1.5, "cost": {"usd": 2}} \n\xff\n'
    messages = read(*(text[i : i + size] for i in range(0, len(text), size)))
    assert messages.result == {"value": 1.5, "cost": {"usd": 2}}
    assert list(messages.reports) == [{"step": 1, "value": 4}]
    assert messages.last_line == "�"


def test_a_last_line_without_a_line_end_is_read():
    assert read(b'{"value": ', b"3}").result == {"value": 3}


def test_a_result_after_a_progress_bar_on_the_same_line():
    assert read(b'10%\r50%\r{"value": 3}\n').result == {"value": 3}


def test_another_metric():
    messages = read(b'{"value": 1}\n{"loss": 2}\n{"value": 3}\n', metric="loss")
    assert messages.result == {"loss": 2}


@pytest.mark.parametrize(
    "line", [b"3", b"[1]", b"{'value': 1}", b'{"value": 1', b"{" * 100_000 + b"}", b'"{}"']
)
def test_only_json_objects_are_messages(line):
    assert message_in(line) is None
    assert read(line).result is None


@pytest.mark.parametrize("metric", ["perte d'entraînement", 'a"b', "val loss", "f1-score.mean"])
def test_a_metric_with_any_name(metric):
    assert read(json.dumps({metric: 3}).encode(), metric=metric).result == {metric: 3}


@pytest.mark.parametrize("text", [b"one\ntwo", b"one\ntwo\n", b"one\n two \n \n\n", b"\ntwo"])
def test_the_last_line(text):
    assert read(text).last_line.strip() == "two"
    assert read(*(text[i : i + 1] for i in range(len(text)))).last_line.strip() == "two"


def test_an_object_without_a_known_key_is_no_result():
    assert read(b'{"value": 1}\n{"level": "info"}\n').result == {"value": 1}


def test_an_endless_line_uses_bounded_memory_and_the_next_line_is_read():
    messages = Messages("value")
    for _ in range(40):
        messages.feed(b"{" + b"x" * (MAX_LINE // 10))
        assert len(messages._partial) <= MAX_LINE
    messages.feed(b'{"value": 9}\n{"value": 1}\n')
    assert messages.result == {"value": 1}  # the 9 belonged to the long line


def test_progress_is_returned_once_and_the_last_messages_are_kept():
    messages = Messages("value")
    seen = []
    for step in range(MAX_REPORTS + 10):
        seen += messages.feed(json.dumps({"step": step}).encode() + b"\n")
    assert [message["step"] for message in seen] == list(range(MAX_REPORTS + 10))
    assert messages.reports[0]["step"] == 10
    assert len(messages.reports) == MAX_REPORTS
    assert messages.result is None


def test_a_long_progress_message_is_shortened():
    line = {"step": 1, "value": 2, "cost": 3, "weights": [0.5] * 5000}
    assert list(read(json.dumps(line).encode()).reports) == [{"step": 1, "value": 2, "cost": 3}]


def test_progress_can_be_stored_as_json():
    progress = read(b'{"step": 1, "value": NaN, "more": {"x": [Infinity, 1e999, 2]}}\n').reports
    assert list(progress) == [{"step": 1, "value": None, "more": {"x": [None, None, 2]}}]


def test_the_last_reported_cost_of_each_resource_counts():
    messages = read(
        b'{"step": 1, "cost": {"usd": 1, "kWh": 2}}\n{"step": 2, "cost": {"usd": 3}}\n'
        b'{"step": 3, "cost": "much"}\n{"step": 4, "cost": 5}\n'
    )
    assert messages.reported == {"usd": 3.0, "kWh": 2.0, "": 5.0}


@pytest.mark.parametrize(
    ("cost", "expected"),
    [(None, {}), (2, {"": 2.0}), ({"usd": 1, "s": 0}, {"usd": 1.0, "s": 0.0})],
)
def test_costs(cost, expected):
    assert costs_of(cost) == expected


@pytest.mark.parametrize("cost", ["3", True, -1, float("nan"), [1], {"usd": None}, 10**400])
def test_invalid_costs(cost):
    with pytest.raises(ValueError, match="its cost is"):
        costs_of(cost)


@pytest.mark.parametrize("value", ["1", None, True, [1], float("nan"), float("-inf"), 10**400])
def test_invalid_numbers(value):
    assert number_of(value) is None


def test_the_tail_is_the_last_lines():
    tail = Tail()
    for chunk in (b"line 0\nli", b"ne 1\n", *(f"line {i}\n".encode() for i in range(2, 120))):
        tail.feed(chunk)
    assert tail.text.splitlines() == [f"line {i}" for i in range(120 - MAX_TAIL, 120)]


def test_the_tail_of_one_endless_line():
    tail = Tail()
    for _ in range(100):
        tail.feed(b"x" * 65536)
    tail.feed(b"the end")
    assert tail.text.endswith("xthe end")
    assert len(tail.text) <= MAX_TAIL_LINE


def test_the_tail_shows_what_a_terminal_would():
    tail = Tail()
    tail.feed(b"  indented\r\n10%\r50%\rdone\n\xff unfinished")
    assert tail.text == "  indented\ndone\n� unfinished"
