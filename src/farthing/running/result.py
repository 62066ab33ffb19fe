"""The result of an evaluation, from its exit status and its messages."""

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
    PAUSED,
    Messages,
    costs_of,
    message_in,
    metrics_of,
    number_of,
)

__all__ = ["ended", "killed", "lost", "paused", "read_result_file"]

# Keys of a result without a value, and the state of such a trial.
_WITHOUT_VALUE: Mapping[str, Literal["failed", "lost"]] = {
    "infrastructure": "lost",
    "failed": "failed",
}
_DISK_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
_REFUSED = json.dumps(
    {"failed": "its result file (FARTHING_RESULT) is a link or a device: expected a regular file"}
)
_SHELL_SIGNAL = 128  # a shell exits with 128 + the signal that killed its command


def ended(
    messages: Messages,
    usage: Usage,
    *,
    status: int = 0,
    tail: str = "",
    result_file: str | None = None,
    at_rung: bool = False,
) -> Finished:
    """The result of an evaluation that ended by itself.

    Args:
        messages: all its messages.
        usage: its total usage.
        status: exit status of its process as `os.wait` returns it.
        tail: the last lines of its other output.
        result_file: the contents of its result file; None if it wrote none.
        at_rung: whether it is a training that ended at a step at which the tuner decides. It is
            then paused, whatever value it printed last.
    """
    reports, cost = tuple(messages.reports), dict[str, float]()

    def without_value(state: Literal["failed", "lost"], reason: str, tail: str = tail) -> Finished:
        return Finished(state, None, cost, _with(tail, reason), usage, reports, metrics)

    code = os.waitstatus_to_exitcode(status)
    result = messages.result if result_file is None else _result_in(result_file)
    is_paused = bool((result or {}).get(PAUSED)) or at_rung
    if code == 0 and is_paused and not any((result or {}).get(key) for key in _WITHOUT_VALUE):
        return paused(messages, usage)
    if result is None and result_file is None and code == 0:
        result = messages.latest
    fields = result or {}
    metrics = metrics_of(fields, messages.metric)
    try:
        cost = costs_of(fields.get("cost"))
    except ValueError as error:
        expected = "expected a number of at least 0, or {resource: amount}"
        return without_value("failed", f"{error}: {expected}")
    for key, state in _WITHOUT_VALUE.items():
        if reason := fields.get(key):  # `"failed": false` means success
            return without_value(state, str(reason), tail="")
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


def paused(messages: Messages, usage: Usage) -> Finished:
    """The result of a training that was paused, or stopped early."""
    return Finished("paused", None, {}, None, usage, tuple(messages.reports))


def killed(messages: Messages, usage: Usage, reason: str, *, tail: str = "") -> Finished:
    """The result of an evaluation that Farthing ended. A value is ignored as incomplete."""
    cost: Mapping[str, float] = {}
    with suppress(ValueError):  # the last result may have no valid cost
        cost = costs_of((messages.result or {}).get("cost"))
    return Finished("killed", None, cost, _with(tail, reason), usage, tuple(messages.reports))


def lost(messages: Messages, usage: Usage, reason: str) -> Finished:
    """The result of an evaluation that ended or did not start because of the machine."""
    return Finished("lost", None, {}, reason, usage, tuple(messages.reports))


def read_result_file(path: Path) -> str | None:
    """The contents of a command's result file; None if it wrote nothing.

    Only a regular file is read. A link may lead to a private or endless file, and reading a pipe
    blocks until another process writes.
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
    """The object in a result file. If there are several, one per line, the last counts."""
    found = (message_in(line.strip().encode()) for line in (text, *reversed(text.splitlines())))
    return next((message for message in found if message is not None), None)


def _ending(code: int) -> str:
    number = -code if code < 0 else code - _SHELL_SIGNAL
    if number == signal.SIGKILL:
        return "another process or the kernel killed it (SIGKILL): it probably ran out of memory"
    if code > 0:
        return f"it ended with exit code {code}"
    return f"it was killed by signal {number} ({signal.strsignal(number)})"


def _no_result(messages: Messages, result_file: str | None) -> str:
    example = f'{{"{messages.metric}": 0.5}}'
    if result_file is not None:
        return f"its result file contains {result_file[:200]!r}: expected {example}"
    last = f"; its last line was {messages.last_line[:200]!r}" if messages.last_line else ""
    return f"it ended without a result: expected a line such as {example}{last}"


def _with(tail: str, reason: str) -> str:
    return f"{reason}\n{tail}" if tail else reason
