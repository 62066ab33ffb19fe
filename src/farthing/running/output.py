"""What an evaluation writes, read in bounded memory however much it is."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

__all__ = ["Messages", "Tail", "costs_of", "message_in", "metrics_of", "number_of"]

MAX_LINE = 1 << 20  # bytes; a longer line is no message
MAX_REPORTS = 1_000  # messages kept
MAX_REPORTS_LINE = 4_096  # bytes of one that is kept whole
MAX_DEPTH = 50  # of lists in lists: what is deeper is left out
MAX_COST = 1e300  # so that no sum of costs is infinite
MAX_TAIL = 50  # lines
MAX_TAIL_LINE = 2_000  # bytes
MAX_METRICS = 20_000  # characters of all that a result says besides


class Messages:
    """The JSON objects, one a line, among whatever else is written.

    Attributes:
        result: the last one with the metric, or with "failed" or "infrastructure".
        reports: the last ones with a "step".
        reported: what the progress said it has cost so far.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.result: Mapping[str, Any] | None = None
        self.reports: deque[Mapping[str, Any]] = deque(maxlen=MAX_REPORTS)
        self.reported: dict[str, float] = {}
        # A line with none of these is not worth parsing; JSON may write a strange key otherwise.
        plain = (metric,) if re.fullmatch(r"[\w .-]+", metric, re.ASCII) else ("",)
        keys = ("step", "failed", "infrastructure", *plain)
        self._marks = tuple(key.encode() for key in keys)
        self._last = b""
        self._begun = b""  # a line of which the end has not come yet
        self._too_long = False  # whether the beginning of that line was thrown away

    @property
    def last_line(self) -> str:
        """The last line that was not empty, to show when there is no result."""
        return _text(self._last[:MAX_TAIL_LINE])

    def feed(self, data: bytes) -> list[Mapping[str, Any]]:
        """Read on; the progress that was in it."""
        complete, end, begun = data.rpartition(b"\n")
        found = []
        if end:
            first, _, others = complete.partition(b"\n")
            first = b"" if self._too_long else self._begun + first
            self._begun, self._too_long = b"", False
            for lines in (first, others):
                if last := lines.rstrip():
                    self._last = _shown(last.rpartition(b"\n")[2])
                if any(mark in lines for mark in self._marks):
                    found += [m for line in lines.split(b"\n") if (m := self._progress_in(line))]
        if len(self._begun) + len(begun) > MAX_LINE:
            self._begun, self._too_long = b"", True
        elif not self._too_long:
            self._begun += begun
        return found

    def close(self) -> list[Mapping[str, Any]]:
        """Nothing more will come; the last line may lack its end."""
        return self.feed(b"\n")

    def _progress_in(self, line: bytes) -> Mapping[str, Any] | None:
        if not any(mark in line for mark in self._marks):
            return None
        line = _shown(line).strip()
        message = message_in(line)
        if message is None:
            return None
        if "step" not in message:
            if any(key in message for key in (self.metric, "failed", "infrastructure")):
                self.result = message
            return None
        if len(line) > MAX_REPORTS_LINE:
            keys = ("step", self.metric, "cost")
            message = {key: message[key] for key in keys if key in message}
        message = {key: _finite(value) for key, value in message.items()}
        self.reports.append(message)
        with suppress(ValueError):  # progress is a courtesy: only the result is held to its word
            self.reported |= costs_of(message.get("cost"))
        return message


class Tail:
    """The last lines of a stream."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=MAX_TAIL)
        self._begun = b""

    def feed(self, data: bytes) -> None:
        """Read on."""
        *lines, begun = data.rsplit(b"\n", MAX_TAIL + 1)  # those before them do not matter
        if lines:
            lines[0] = self._begun + lines[0]
            self._begun = b""
        self._begun = (self._begun + begun)[-MAX_TAIL_LINE:]
        self._lines.extend(_shown(line)[-MAX_TAIL_LINE:] for line in lines)

    @property
    def text(self) -> str:
        """What is kept of it."""
        return _text(b"\n".join((*self._lines, _shown(self._begun)))).strip("\n")


def message_in(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a line is, if it is one."""
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _sound(message) if isinstance(message, dict) else None


def _sound(value: Any, depth: int = 0) -> Any:
    """Without what no database or terminal takes: halves of characters, NUL, and endless depth."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {_sound(key): _sound(inner, depth + 1) for key, inner in value.items()}
    return [_sound(inner, depth + 1) for inner in value] if isinstance(value, list) else value


def costs_of(cost: Any) -> dict[str, float]:
    """A cost by resource; a bare number, in the budget's first resource, is under "".

    Raises:
        ValueError: it is no cost; the text says what it is.
    """
    if cost is None:
        return {}
    by_resource = cost if isinstance(cost, Mapping) else {"": cost}
    for amount in by_resource.values():
        if number_of(amount) is None or not 0 <= amount <= MAX_COST:
            raise ValueError(f"its cost is {json.dumps(cost)[:200]}")
    return {resource: float(amount) for resource, amount in by_resource.items()}


def metrics_of(result: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """What a result says besides its value and its cost; as many keys as there is room for."""
    known = (metric, "cost", "step", "failed", "infrastructure")
    metrics, room = dict[str, Any](), MAX_METRICS
    for key, value in result.items():
        if key not in known:
            room -= len(json.dumps({key: value}, default=str))
            if room < 0:
                break
            metrics[key] = _finite(value)
    return metrics


def number_of(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number of more than 308 digits
        return None


def _finite(value: Any) -> Any:
    """Without NaN and infinities, which databases refuse as JSON."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(line: bytes) -> bytes:
    """A line as a terminal would show it in the end: a progress bar writes over itself."""
    return line.rstrip().rpartition(b"\r")[2]


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace").replace("\0", "\\x00")
