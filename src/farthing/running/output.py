"""Read the output of an evaluation in bounded memory."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

__all__ = ["PAUSED", "Messages", "Tail", "costs_of", "message_in", "metrics_of", "number_of"]

MAX_LINE = 1 << 20  # bytes; a longer line is not a message
MAX_REPORTS = 1_000  # progress messages kept
MAX_REPORTS_LINE = 4_096  # bytes; a longer progress message loses its other keys
MAX_DEPTH = 50  # levels of nested lists and objects; deeper values become None
MAX_COST = 1e300  # so that no sum of costs is infinite
MAX_TAIL = 50  # lines
MAX_TAIL_LINE = 2_000  # bytes
MAX_METRICS = 20_000  # characters of all metrics of a result
PAUSED = "farthing.paused"  # key of the message of an objective that was paused


class Messages:
    """The JSON objects in the output, one per line.

    Attributes:
        result: the last object with the metric, "failed" or "infrastructure".
        reports: the last objects with a "step" (progress).
        latest: the last of them with the metric, whose value is as it was printed, such as NaN.
        reported: the cost so far that the progress reports, by resource.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.result: Mapping[str, Any] | None = None
        self.reports: deque[Mapping[str, Any]] = deque(maxlen=MAX_REPORTS)
        self.latest: Mapping[str, Any] | None = None
        self.reported: dict[str, float] = {}
        # Lines without any of these are not parsed. JSON may escape an unusual metric name, so with
        # such a name every line is parsed.
        plain = (metric,) if re.fullmatch(r"[\w .-]+", metric, re.ASCII) else ("",)
        keys = ("step", "failed", "infrastructure", PAUSED, *plain)
        self._marks = tuple(key.encode() for key in keys)
        self._last = b""
        self._partial = b""  # an incomplete line
        self._too_long = False  # whether the start of that line was discarded

    @property
    def partial(self) -> bytes:
        """The start of a message whose line is not complete yet."""
        return self._partial if self._partial.startswith(b"{") else b""

    @property
    def last_line(self) -> str:
        """The last line that is not empty, for the error if there is no result."""
        return _text(self._last[:MAX_TAIL_LINE])

    def feed(self, data: bytes) -> list[Mapping[str, Any]]:
        """Read more output, and return the progress in it."""
        complete, end, partial = data.rpartition(b"\n")
        found = []
        if end:
            first, _, others = complete.partition(b"\n")
            first = b"" if self._too_long else self._partial + first
            self._partial, self._too_long = b"", False
            for lines in (first, others):
                if last := lines.rstrip():
                    self._last = _shown(last.rpartition(b"\n")[2])
                if any(mark in lines for mark in self._marks):
                    found += [m for line in lines.split(b"\n") if (m := self._progress_in(line))]
        if len(self._partial) + len(partial) > MAX_LINE:
            self._partial, self._too_long = b"", True
        elif not self._too_long:
            self._partial += partial
        return found

    def close(self) -> list[Mapping[str, Any]]:
        """Read the last line, which may lack its line end."""
        return self.feed(b"\n")

    def _progress_in(self, line: bytes) -> Mapping[str, Any] | None:
        if not any(mark in line for mark in self._marks):
            return None
        line = _shown(line).strip()
        message = message_in(line)
        if message is None:
            return None
        if "step" not in message:
            if any(key in message for key in (self.metric, "failed", "infrastructure", PAUSED)):
                self.result = message
            return None
        if len(line) > MAX_REPORTS_LINE:
            keys = ("step", self.metric, "cost")
            message = {key: message[key] for key in keys if key in message}
        printed, message = message, {key: _finite(value) for key, value in message.items()}
        if self.metric in message:
            self.latest = {**message, self.metric: printed[self.metric]}
        self.reports.append(message)
        with suppress(ValueError):  # only the cost in a result must be valid
            self.reported |= costs_of(message.get("cost"))
        return message


class Tail:
    """The last lines of a stream."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=MAX_TAIL)
        self._partial = b""

    def feed(self, data: bytes) -> None:
        """Read more output."""
        *lines, partial = data.rsplit(b"\n", MAX_TAIL + 1)  # earlier lines are not kept
        if lines:
            lines[0] = self._partial + lines[0]
            self._partial = b""
        self._partial = (self._partial + partial)[-MAX_TAIL_LINE:]
        self._lines.extend(_shown(line)[-MAX_TAIL_LINE:] for line in lines)

    @property
    def text(self) -> str:
        """The last lines."""
        return _text(b"\n".join((*self._lines, _shown(self._partial)))).strip("\n")


def message_in(line: bytes) -> dict[str, Any] | None:
    """The JSON object in a line; None if it is something else."""
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _storable(message) if isinstance(message, dict) else None


def _storable(value: Any, depth: int = 0) -> Any:
    """Escape lone surrogates and NUL, and cut deep nesting: databases and terminals refuse them."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        return None
    if isinstance(value, dict):
        return {_storable(key): _storable(inner, depth + 1) for key, inner in value.items()}
    return [_storable(inner, depth + 1) for inner in value] if isinstance(value, list) else value


def costs_of(cost: Any) -> dict[str, float]:
    """A cost by resource; a number without a resource has the key "".

    Raises:
        ValueError: it is not a cost; the message contains it.
    """
    if cost is None:
        return {}
    by_resource = cost if isinstance(cost, Mapping) else {"": cost}
    for amount in by_resource.values():
        if number_of(amount) is None or not 0 <= amount <= MAX_COST:
            raise ValueError(f"its cost is {json.dumps(cost)[:200]}")
    return {resource: float(amount) for resource, amount in by_resource.items()}


def metrics_of(result: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """The other keys of a result, up to MAX_METRICS characters in total."""
    known = (metric, "cost", "step", "failed", "infrastructure")
    metrics, left = dict[str, Any](), MAX_METRICS
    for key, value in result.items():
        if key not in known:
            left -= len(json.dumps({key: value}, default=str))
            if left < 0:
                break
            metrics[key] = _finite(value)
    return metrics


def number_of(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer of more than 308 digits
        return None


def _finite(value: Any) -> Any:
    """Replace NaN and infinities by None, because databases refuse them in JSON."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(line: bytes) -> bytes:
    """A line as a terminal shows it in the end: a progress bar overwrites itself."""
    return line.rstrip().rpartition(b"\r")[2]


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace").replace("\0", "\\x00")
