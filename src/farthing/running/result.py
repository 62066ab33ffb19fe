"""What became of an evaluation, from how it ended and what it said."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from farthing.running.finished import Finished, Usage
from farthing.running.output import (
    MAX_LINE,
    Messages,
    costs_of,
    message_in,
    metrics_of,
    number_of,
)

__all__ = ["ended", "killed", "lost", "read_result_file"]

# What an evaluation may say of itself, and what that makes it.
_WITHOUT_VALUE: Mapping[str, Literal["failed", "lost"]] = {
    "infrastructure": "lost",
    "failed": "failed",
}
_DISK_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_REFUSED = json.dumps(
    {"failed": "its result file (FARTHING_RESULT) is a link or a device: expected a regular file"}
)
_SHELL_SIGNAL = 128  # a shell exits with this plus the signal that ended its command


def ended(
    messages: Messages,
    usage: Usage,
    *,
    status: int = 0,
    tail: str = "",
    result_file: str | None = None,
) -> Finished:
    """An evaluation that nobody stopped.

    Args:
        messages: all that it said.
        usage: what it has used in all.
        status: how its process ended, as `os.wait` tells it.
        tail: the last lines of what else it wrote.
        result_file: the contents of its result file, None if it wrote none.
    """
    reports, cost = tuple(messages.reports), dict[str, float]()

    def without_value(state: Literal["failed", "lost"], why: str, tail: str = tail) -> Finished:
        return Finished(state, None, cost, _with(tail, why), usage, reports, metrics)

    code = os.waitstatus_to_exitcode(status)
    result = messages.result if result_file is None else _result_in(result_file)
    if result is None and result_file is None and code == 0:
        result = next((m for m in reversed(messages.reports) if messages.metric in m), None)
    said = result or {}
    metrics = metrics_of(said, messages.metric)
    try:
        cost = costs_of(said.get("cost"))
    except ValueError as wrong:
        expected = "expected a number of at least 0, or {resource: amount}"
        return without_value("failed", f"{wrong}: {expected}")
    for key, state in _WITHOUT_VALUE.items():
        if why := said.get(key):  # not `"failed": false`
            return without_value(state, str(why), tail="")
    if code != 0:
        disk_full = code > 0 and any(text in tail for text in _DISK_FULL)
        return without_value("lost" if disk_full else "failed", _ending(code))
    if result is None:
        return without_value("failed", _no_result(messages, result_file))
    value = number_of(result.get(messages.metric))
    if value is None:
        shown = json.dumps(result.get(messages.metric))[:200]
        expected = f"its {messages.metric} is {shown}: expected a finite number"
        return without_value("failed", expected)
    return Finished("done", value, cost, None, usage, reports, metrics)


def killed(messages: Messages, usage: Usage, why: str, *, tail: str = "") -> Finished:
    """An evaluation that was told to end: what it says of its value may be half the work."""
    cost: Mapping[str, float] = {}
    with suppress(ValueError):  # what it may have said last
        cost = costs_of((messages.result or {}).get("cost"))
    return Finished("killed", None, cost, _with(tail, why), usage, tuple(messages.reports))


def lost(messages: Messages, usage: Usage, why: str) -> Finished:
    """An evaluation that ended, or never began, through no fault of its parameters."""
    return Finished("lost", None, {}, why, usage, tuple(messages.reports))


def read_result_file(path: Path) -> str | None:
    """What a command wrote as its result; None if it wrote nothing.

    Only a regular file is read: a link may lead to what belongs to others or never ends, and a pipe
    waits for somebody to write.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return _REFUSED if error.errno == errno.ELOOP else None
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        return None if stat.S_ISDIR(kind) else _REFUSED
    with open(descriptor, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_LINE))
        return file.read(MAX_LINE).decode("utf-8", errors="replace").strip() or None


def _result_in(text: str) -> dict[str, Any] | None:
    """A file with one object, or with several, one a line, of which the last counts."""
    found = (message_in(line.strip().encode()) for line in (text, *reversed(text.splitlines())))
    return next((message for message in found if message is not None), None)


def _ending(code: int) -> str:
    number = -code if code < 0 else code - _SHELL_SIGNAL
    if number == signal.SIGKILL:
        return "it was killed from outside (SIGKILL): it probably ran out of memory"
    if code > 0:
        return f"it ended with exit code {code}"
    return f"it died of signal {number} ({signal.strsignal(number)})"


def _no_result(messages: Messages, result_file: str | None) -> str:
    example = f'{{"{messages.metric}": 0.5}}'
    if result_file is not None:
        return f"its result file holds {result_file[:200]!r}: expected {example}"
    ended = f"; its last line was {messages.last_line[:200]!r}" if messages.last_line else ""
    return f"it ended without a result: expected a line such as {example}{ended}"


def _with(tail: str, what: str) -> str:
    return f"{what}\n{tail}" if tail else what
