"""A figure as plain values: panels, their axes, and layers of lines, points, bars, bands and maps.

What a figure shows is decided in `figures`; what renders it (`plots`) decides nothing. A style is
told apart by its colour, and without colours by its dashes, its marker or its hatching.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from farthing.budget.units import format_amount

__all__ = [
    "MOST_DRAWN",
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

MOST_DRAWN = 1500  # marks of one layer: more cannot be told apart on a page
LOG_FROM = 100.0  # a ratio of largest to smallest from which values are shown on a log scale
TICKS = 5
MARGIN = 0.04  # of an axis, on both sides of what is shown
TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
MOST_TEXT = 200  # characters of a name, a value or an error in a figure

Numbers = tuple[float, ...]
Marker = Literal["o", "x", "|", "s", "d", "."]
Hatch = Literal["", "/", "x", ".", "\\"]


class Style(NamedTuple):
    """How a layer looks: on white, on a dark page, and without colours."""

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
    "failed": Style("#b3261e", "#ff8a80", "x", hatch="x"),
    "killed": Style("#b45309", "#ffb95c", "|", hatch="/"),
    "lost": Style("#6b4fa0", "#c3a6ff", "s", hatch="."),
    "running": Style("#0b5cad", "#74b7ff", "d", hatch="\\"),
    "overhead": Style("#5f6b7a", "#a9b4c2", ".", hatch="."),
    "left": Style("#e3e6ea", "#3a3f45"),
    "second": Style("#b45309", "#ffb95c", "s", (7, 3)),
    "third": Style("#6b4fa0", "#c3a6ff", "x", (1, 3)),
    "fourth": Style("#2f7d4f", "#7fd1a0", "|", (9, 3, 2, 3)),
}


class Axis(NamedTuple):
    """What is along one side of a panel, from `low` to `high`; names are at 0, 1, 2, ..."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False
    names: tuple[str, ...] = ()

    def share(self, value: float) -> float:
        """Where a value is between the ends, 0 to 1."""
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        low, high = math.log(self.low), math.log(self.high)
        return (math.log(max(value, 1e-300)) - low) / (high - low)

    def place(self, share: float) -> float:
        """The value at a share of the way."""
        if not self.log:
            return self.low + share * (self.high - self.low)
        return math.exp(math.log(self.low) * (1 - share) + math.log(self.high) * share)


@dataclass(frozen=True)
class Line:
    """A line through points, or with `step` level until the next of them."""

    x: Numbers
    y: Numbers
    style: str
    label: str = ""
    step: bool = False


@dataclass(frozen=True)
class Points:
    """Marks, perhaps with a range from `low` to `high` and what is said of each."""

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
    """Level bars from `start` to `end` at `y`; `thick` is their height in units of y, 0: a line."""

    start: Numbers
    end: Numbers
    y: Numbers
    style: str
    label: str = ""
    thick: float = 0.0
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Band:
    """Everything between two lines."""

    x: Numbers
    low: Numbers
    high: Numbers
    style: str
    label: str = ""


@dataclass(frozen=True)
class Heat:
    """A map: z[row][column] at y[row], x[column]."""

    x: Numbers
    y: Numbers
    z: tuple[Numbers, ...]
    label: str
    log: bool


Layer = Line | Points | Segments | Band | Heat


@dataclass(frozen=True)
class Panel:
    """Layers over the same two axes."""

    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    title: str = ""


@dataclass(frozen=True)
class Figure:
    """Panels side by side, a title, and a sentence that says what is to be seen.

    Attributes:
        empty: why there is nothing to draw yet; "" where there is.
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
    """An axis with room for these values, its ticks in a person's words.

    Args:
        log: None: where the values are positive and of several orders of magnitude.
        resource: of which they are amounts.
        zero: begin at nothing.
        tight: end at the last value.
    """
    finite = [float(v) for v in values if math.isfinite(v)]
    if log is None:
        log = bool(finite) and min(finite) > 0 and max(finite) > LOG_FROM * min(finite)
    if log:
        finite = [v for v in finite if v > 0]
    low, high = (min(finite), max(finite)) if finite else ((0.1, 1.0) if log else (0.0, 1.0))
    if log:
        left, right = math.log(low), math.log(high)
        room = max(MARGIN * (right - left), 0.05)
        low, high = math.exp(max(left - room, -700.0)), math.exp(min(right + room, 700.0))
    else:
        low = min(low, 0.0) if zero else low
        room = MARGIN * (high - low) if high > low else max(abs(high) * 0.05, 1e-12)
        low -= 0.0 if zero and low == 0.0 else room
        high += 0.0 if tight and high > low + room else room
    places = _log_ticks(low, high) if log else _ticks(low, high, resource)
    words = [shown_number(v) if resource is None else format_amount(resource, v) for v in places]
    if len(set(words)) < len(words):  # too close for words: plain numbers of the label's unit
        words = [shown_number(v) for v in places]
    return Axis(label, low, high, tuple(zip(places, words, strict=True)), log)


def named(label: str, names: Sequence[str]) -> Axis:
    """An axis of names, the first at 0."""
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
    """A number on an axis."""
    return f"{value:.6g}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3g}"


# ── text and many marks ────────────────────────────────────────────────────────────────────────


def visible(text: object, most: int | None = MOST_TEXT) -> str:
    """Text as it is, but for what cannot be seen or turns what follows around; its beginning.

    Control and format characters (also U+202E, right-to-left override) become their escapes.
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
    """Parameters in one line, whatever they hold."""
    return ", ".join(
        f"{visible(name, 40)}={f'{value:.4g}' if isinstance(value, float) else visible(value, 60)}"
        for name, value in params.items()
    )


def thinned(count: int, keep: Iterable[int] = (), most: int = MOST_DRAWN) -> list[int]:
    """At most about so many of 0 ... count - 1, evenly, and those to be kept."""
    if count <= most:
        return list(range(count))
    evenly = np.linspace(0, count - 1, most).astype(int).tolist()
    return sorted({*evenly, *keep})
