"""The terminal of the recording that opens the README."""

import io

from rich.console import Console
from rich.live import Live
from rich.text import Text

from benchmarks.site.recording import COLUMNS, Frame, Screen, _decoded, _sampled, _wrapped


def test_a_live_view_is_replaced_and_what_follows_stays():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=COLUMNS)
    screen = Screen()
    screen.feed("$ farthing run\r\n")
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for lines in ("one\ntwo\nthree", "uno\ndue", "1\n2\n3\n4"):
            live.update(Text(lines, style="green"), refresh=True)
            screen.feed(file.getvalue().replace("\n", "\r\n"))
            file.seek(file.truncate(0))
            shown = [_wrapped(line)[0].plain for line in screen.shown if _wrapped(line)[0].plain]
            assert shown == ["$ farthing run", *lines.split("\n")]
    assert any("\x1b[32m" in line for line in screen.shown)
    console.print("best: 3")
    screen.feed(file.getvalue().replace("\n", "\r\n"))
    rest = [_wrapped(line)[0].plain for line in screen.shown]
    assert [line for line in rest if line] == ["$ farthing run", "best: 3"]


def test_a_long_line_is_broken_as_in_a_terminal():
    assert [part.plain for part in _wrapped("x" * (COLUMNS + 3))] == ["x" * COLUMNS, "xxx"]


def test_a_character_that_arrives_in_two_reads():
    whole = "a━\x1b[32mb".encode()
    for k in range(len(whole) + 1):
        text, rest = _decoded(whole[:k])
        more, end = _decoded(rest + whole[k:])
        assert text + more == "a━\x1b[32mb"
        assert end == b""


def test_frames_have_equal_steps_and_end_with_the_last_state():
    states = [(0.0, ["a"]), (10.0, ["b"]), (10.1, ["c"]), (20.0, ["d"])]
    frames = list(_sampled(states, factor=10.0))
    assert frames[0] == Frame(["a"], frames[0].seconds)
    assert frames[-1].lines == ["d"]
    assert [frame.lines for frame in frames].count(["b"]) == 0  # it was shown for 10 ms
