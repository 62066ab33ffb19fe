"""A figure as plain values: panels, their axes, and layers of lines, points, bars, bands and maps.

`figures` decides what a figure shows; `plots` only renders it. Styles differ in colour, and also
in dashes, marker or hatching, so that they can be told apart without colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from farthing.budget.units import format_amount

__all__ = [
    "MAX_MARKS",
    "STYLES",
    "Axis",
    "Band",
    "Figure",
    "Heat",
    "Layer",
    "Line",
    "Panel",
    "Points",
    "Segments",
    "Style",
    "axis",
    "named",
    "shown_number",
    "thinned",
    "visible",
    "visible_params",
]

MAX_MARKS = 1500  # of one layer: more cannot be told apart on a page
LOG_FROM = 100.0  # ratio of largest to smallest value from which an axis is logarithmic
TICKS = 5  # wanted on an axis
MARGIN = 0.04  # share of the axis left free at each end
# Steps between ticks of time, in seconds.
TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
MAX_CHARS = 200  # of a name, a value or an error in a figure

Numbers = tuple[float, ...]
Marker = Literal["o", "x", "|", "s", "d", "."]
Hatch = Literal["", "/", "x", ".", "\\"]


class Style(NamedTuple):
    """The look of a layer: its colours on a light and a dark page, and its look without colour."""

    light: str
    dark: str
    marker: Marker = "o"
    dash: tuple[int, ...] = ()
    hatch: Hatch = ""


STYLES = {
    "best": Style("#0b5cad", "#74b7ff"),
    "before": Style("#b3261e", "#ff8a80", "s", (6, 3)),
    "chosen": Style("#111111", "#ffffff", "d"),
    "other": Style("#9aa0a6", "#80868b", "."),
    "line": Style("#444444", "#c8c8c8", ".", (2, 3)),
    "done": Style("#2f7d4f", "#7fd1a0"),
    "paused": Style("#4a6b8a", "#9dbcd8", "d", (5, 3), hatch="/"),
    "failed": Style("#b3261e", "#ff8a80", "x", hatch="x"),
    "killed": Style("#9a6700", "#ffb95c", "|", hatch="/"),
    "lost": Style("#6b4fa0", "#c3a6ff", "s", hatch="."),
    "running": Style("#0b5cad", "#74b7ff", "d", (9, 2), hatch="\\"),
    "rung": Style("#d8dce1", "#3b4046", "."),
    "overhead": Style("#5f6b7a", "#a9b4c2", ".", hatch="."),
    "left": Style("#e3e6ea", "#3a3f45"),
    "second": Style("#b45309", "#ffb95c", "s", (7, 3)),
    "third": Style("#6b4fa0", "#c3a6ff", "x", (1, 3)),
    "fourth": Style("#2f7d4f", "#7fd1a0", "|", (9, 3, 2, 3)),
    "fifth": Style("#00838f", "#5fd4de", "o", (12, 3)),
    "sixth": Style("#ad1a72", "#ff8ccb", "d", (4, 2, 1, 2)),
    "seventh": Style("#6d5b1e", "#d8c46a", ".", (3, 3)),
}


class Axis(NamedTuple):
    """One axis of a panel, from `low` to `high`; names, if any, are at 0, 1, 2, ...

    Attributes:
        fixed: whether the ticks have a meaning and stay where they are when a reader zooms.
    """

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False
    names: tuple[str, ...] = ()
    fixed: bool = False

    def share(self, value: float) -> float:
        """The position of a value on the axis, from 0 to 1."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        low, high = math.log(self.low), math.log(self.high)
        return (math.log(max(value, 1e-300)) - low) / (high - low)

    def place(self, share: float) -> float:
        """The value at a position from 0 to 1; the inverse of `share`."""
        if not self.log:
            return self.low + share * (self.high - self.low)
        return math.exp(math.log(self.low) * (1 - share) + math.log(self.high) * share)


@dataclass(frozen=True)
class Line:
    """A line through points; with `step`, it stays level until the next point."""

    x: Numbers
    y: Numbers
    style: str
    label: str = ""
    step: bool = False


@dataclass(frozen=True)
class Points:
    """Marks, optionally with error bars from `low` to `high` and hover texts."""

    x: Numbers
    y: Numbers
    style: str
    label: str = ""
    low: Numbers = ()
    high: Numbers = ()
    texts: tuple[str, ...] = ()
    size: float = 1.0


@dataclass(frozen=True)
class Segments:
    """Horizontal bars from `start` to `end` at `y`.

    `thick` is their height in units of y; 0 draws a line.
    """

    start: Numbers
    end: Numbers
    y: Numbers
    style: str
    label: str = ""
    thick: float = 0.0
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Band:
    """The area between two lines."""

    x: Numbers
    low: Numbers
    high: Numbers
    style: str
    label: str = ""


@dataclass(frozen=True)
class Heat:
    """A heat map: z[row][column] at y[row], x[column]."""

    x: Numbers
    y: Numbers
    z: tuple[Numbers, ...]
    label: str
    log: bool


Layer = Line | Points | Segments | Band | Heat


@dataclass(frozen=True)
class Panel:
    """Layers that share two axes."""

    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    title: str = ""


@dataclass(frozen=True)
class Figure:
    """Panels side by side, with a title and a caption.

    Attributes:
        empty: why there is nothing to draw yet; "" if there is something.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    caption: str
    empty: str = ""


# ── axes ───────────────────────────────────────────────────────────────────────────────────────


def axis(
    label: str,
    values: Iterable[float],
    *,
    log: bool | None = False,
    resource: str | None = None,
    zero: bool = False,
    tight: bool = False,
) -> Axis:
    """Make an axis that contains the values, with readable ticks.

    Args:
        log: a logarithmic axis; None: if the values are positive and span orders of magnitude.
        resource: the resource, if the values are amounts of one.
        zero: start at 0.
        tight: end at the greatest value.
    """
    finite = [float(v) for v in values if math.isfinite(v)]
    if log is None:
        log = bool(finite) and min(finite) > 0 and max(finite) > LOG_FROM * min(finite)
    if log:
        finite = [v for v in finite if v > 0]
    low, high = (min(finite), max(finite)) if finite else ((0.1, 1.0) if log else (0.0, 1.0))
    if log:
        left, right = math.log(low), math.log(high)
        margin = max(MARGIN * (right - left), 0.05)
        low, high = math.exp(max(left - margin, -700.0)), math.exp(min(right + margin, 700.0))
    else:
        low = min(low, 0.0) if zero else low
        margin = MARGIN * (high - low) if high > low else max(abs(high) * 0.05, 1e-12)
        low -= 0.0 if zero and low == 0.0 else margin
        high += 0.0 if tight and high > low + margin else margin
    places = _log_ticks(low, high) if log else _ticks(low, high, resource)
    words = [shown_number(v) if resource is None else format_amount(resource, v) for v in places]
    if len(set(words)) < len(words):  # formatted amounts would repeat: use plain numbers
        words = [shown_number(v) for v in places]
    return Axis(label, low, high, tuple(zip(places, words, strict=True)), log)


def named(label: str, names: Sequence[str]) -> Axis:
    """Make an axis of names, the first at 0."""
    words = tuple(visible(name, 40) for name in names)
    ticks = tuple((float(i), word) for i, word in enumerate(words))
    return Axis(label, -0.6, max(len(words), 1) - 0.4, ticks, False, words)


def _ticks(low: float, high: float, resource: str | None) -> list[float]:
    step = (high - low) / TICKS
    if not math.isfinite(step) or step <= 0:
        return [low]
    if resource in ("s", "worker_s") and step >= 1:
        step = float(next((t for t in TIMES if t >= step), 86400 * math.ceil(step / 86400)))
    else:
        power = 10.0 ** math.floor(math.log10(step))
        step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= step * 0.999)
        if resource == "trials":
            step = max(round(step), 1.0)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = max(1, math.ceil(len(decades) / (TICKS + 2)))
    parts: tuple[float, ...] = (1.0,)
    if len(decades) <= 4:
        parts = (1.0, 2.0, 5.0)
    places = [p * 10.0**k for k in decades[::every] for p in parts]
    inside = [place for place in places if low <= place <= high]
    return inside if len(inside) >= 2 else _ticks(low, high, None)


def shown_number(value: float) -> str:
    """Format a number on an axis."""
    return f"{value:.6g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3g}"


# ── text and thinning ─────────────────────────────────────────────────────────────────────────


def visible(text: object, most: int | None = MAX_CHARS) -> str:
    """Make text printable, and shorten it to `most` characters.

    Control and format characters become escapes, including U+202E (right-to-left override).
    """
    whole = text if isinstance(text, str) else str(text)
    most = len(whole) if most is None else most
    if len(whole) <= most and whole.isprintable():
        return whole
    kept = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in whole[:most]
    )
    return kept if len(whole) <= most else f"{kept}… ({len(whole):,} characters)"


def visible_params(params: Mapping[str, Any]) -> str:
    """Format parameters in one printable line."""
    return ", ".join(
        f"{visible(name, 40)}={f'{value:.4g}' if isinstance(value, float) else visible(value, 60)}"
        for name, value in params.items()
    )


def thinned(count: int, keep: Iterable[int] = (), most: int = MAX_MARKS) -> list[int]:
    """About `most` indices out of 0 ... count - 1, evenly spaced, plus those in `keep`."""
    if count <= most:
        return list(range(count))
    evenly = np.linspace(0, count - 1, most).astype(int).tolist()
    return sorted({*evenly, *keep})
