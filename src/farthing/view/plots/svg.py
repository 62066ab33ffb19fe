"""Renders a figure as SVG, for a page or a file; this needs no extra package.

Colours are CSS variables, so that a dark page has its own. Styles also differ in dashes, markers or
hatching. The SVG has no script and no style attribute, and loads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from farthing.view.html import Html, element, joined
from farthing.view.primitives import (
    STYLES,
    Axis,
    Band,
    Figure,
    Heat,
    Layer,
    Line,
    Panel,
    Points,
    Segments,
    shown_number,
    visible,
)

__all__ = ["STYLE", "document", "hatches", "inline"]

WIDTH, HEIGHT = 640, 360
TOP, RIGHT, BOTTOM = 14, 18, 46
CHAR_WIDTH = 6.3  # of a character at 11 px, about
ROW = 16  # height of a row of the legend
LANE = 26  # height of a lane on an axis of names
MAX_HOVER = 600  # marks of a layer with hover texts; a larger layer is one path without texts
LEVELS = 12  # colours of a heat map
BLUES = [
    *("#f1f6fb", "#e0ecf7", "#cde0f1", "#b5d2ea", "#98c1e1", "#79aed6", "#5a99ca", "#3f83bc"),
    *("#296cab", "#1a5595", "#0f3f78", "#082a58"),
]


def _style() -> str:
    light = "".join(f".s-{name}{{--c:{style.light}}}" for name, style in STYLES.items())
    dark = "".join(f".s-{name}{{--c:{style.dark}}}" for name, style in STYLES.items())
    return f"""
.fig,.unseen{{--ink:#1f2328;--faint:#d8dce1;--page:#fff}}
.fig svg,svg.fig{{font:11px system-ui,sans-serif;max-width:100%;height:auto}}
.fig svg text,svg.fig text{{fill:var(--ink)}}
.unseen{{position:absolute}}
{light}
@media (prefers-color-scheme:dark){{
.fig,.unseen{{--ink:#e6e8eb;--faint:#3b4046;--page:#16181b}}
{dark}}}
.stroke{{stroke:var(--c);fill:none}} .fill{{fill:var(--c);stroke:none}}
.grid{{stroke:var(--faint);fill:none}} .frame{{stroke:var(--ink);fill:none}}
.hatch{{stroke:var(--page);fill:none}} .paper{{fill:var(--page)}}
"""


STYLE = _style()


class Frame(NamedTuple):
    """The data area of a panel, with the mapping from data to pixels."""

    left: float
    top: float
    width: float
    height: float
    x: Axis
    y: Axis

    def across(self, value: float) -> float:
        """Pixels from the left of the frame."""
        return self.x.share(value) * self.width

    def down(self, value: float) -> float:
        """Pixels from the top of the frame."""
        return (1.0 - self.y.share(value)) * self.height


# ── figures ────────────────────────────────────────────────────────────────────────────────────


def inline(figure: Figure, width: int = WIDTH) -> Html:
    """The figure as part of a page; the page must contain `STYLE` and `hatches()`.

    Args:
        width: of each panel in pixels. Its texts keep their size.
    """
    caption = element("figcaption", figure.caption) if figure.caption else None
    about = f"{figure.title}. {figure.caption}"
    body = joined(*(_panel(panel, about, width) for panel in figure.panels))
    if figure.empty:
        body = element("p", figure.empty, class_="empty")
    return element(
        "figure",
        element("h3", figure.title),
        element("div", body, class_="panels"),
        caption,
        class_="fig",
        data_figure=figure.name,
    )


def document(figure: Figure) -> Html:
    """The figure as a complete SVG file."""
    panels = [_drawn(panel, WIDTH) for panel in figure.panels]
    heights = [height for _, height in panels]
    width, height = WIDTH * max(len(panels), 1), max(heights, default=60) + 40
    body = [
        element("svg", drawn, x=WIDTH * i, y=28, width=WIDTH, height=panel_height)
        for i, (drawn, panel_height) in enumerate(panels)
    ]
    if figure.empty:
        body = [_text(12, 50, figure.empty)]
    return element(
        "svg",
        element("style", Html(STYLE)),
        _patterns(),
        element("rect", width=width, height=height, class_="paper"),
        _text(12, 20, figure.title, font_weight="bold"),
        *body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        class_="fig",
    )


def hatches() -> Html:
    """The patterns that the figures of a page use; include them once per page."""
    return element("svg", _patterns(), width=0, height=0, class_="unseen", aria_hidden="true")


def _patterns() -> Html:
    lines = {"/": "M0 6L6 0", "\\": "M0 0L6 6", "x": "M0 6L6 0M0 0L6 6", ".": "M1 3h2"}
    return element(
        "defs",
        *(
            element(
                "pattern",
                element("path", d=lines[hatch], class_="hatch", stroke_width=1.4),
                id=f"hatch-{name}",
                width=6,
                height=6,
                patternUnits="userSpaceOnUse",
            )
            for name, style in STYLES.items()
            if (hatch := style.hatch)
        ),
    )


def _panel(panel: Panel, description: str, width: int) -> Html:
    body, height = _drawn(replace(panel, title=""), width)
    drawn = element(
        "svg",
        body,
        viewBox=f"0 0 {width} {height:.0f}",
        width=width,
        height=round(height),
        role="img",
        aria_label=visible(description, 500),
    )
    return joined(element("h4", panel.title) if panel.title else None, drawn)


def _drawn(panel: Panel, whole: int) -> tuple[Html, float]:
    """The panel and its height; `whole` is its width."""
    legend, rows = _legend(panel, whole)
    words = max((len(word) for _, word in panel.y.ticks), default=1)
    wide = 1.15 * CHAR_WIDTH if panel.y.names else CHAR_WIDTH
    left = min(max(30.0, 12 + wide * words), 200.0) + (14 if panel.y.label else 0)
    top = TOP + ROW * rows + (16 if panel.title else 0)
    height = min(whole * HEIGHT / WIDTH, HEIGHT) - TOP - BOTTOM
    if panel.y.names and not any(isinstance(layer, Heat) for layer in panel.layers):
        height = float(LANE * max(len(panel.y.names), 2))
    frame = Frame(left, top, whole - left - RIGHT, height, panel.x, panel.y)
    inside = element(
        "svg",
        *(part for layer in panel.layers for part in _layer(frame, layer)),
        x=round(left),
        y=round(top),
        width=round(frame.width),
        height=round(height),
        overflow="hidden",
    )
    title = _text(left, TOP + 2, panel.title, font_weight="bold") if panel.title else None
    lower = 16 if panel.title else 0
    shifted = element("g", legend, transform=f"translate({left:.0f} {TOP + lower})")
    return joined(title, shifted, *_axes(frame), inside), top + height + BOTTOM


def _legend(panel: Panel, whole: int) -> tuple[Html, int]:
    entries = [layer for layer in panel.layers if layer.label and not isinstance(layer, Heat)]
    parts, x, row = list[Html](), 0.0, 0
    for layer in entries:
        width = 30 + CHAR_WIDTH * len(layer.label)
        if x and x + width > whole - 80:
            x, row = 0.0, row + 1
        parts.append(element("g", *_sample(layer), transform=f"translate({x:.0f} {row * ROW})"))
        x += width
    rows = row + 1 if parts else 0
    for heat in panel.layers:
        if isinstance(heat, Heat):
            bar = element("g", _colour_bar(heat), transform=f"translate(0 {rows * ROW})")
            parts, rows = [*parts, bar], rows + 1
    return joined(*parts), rows


def _sample(layer: Layer) -> Iterator[Html]:
    assert not isinstance(layer, Heat)
    box = Axis("", 0.0, 20.0, ())
    frame = Frame(0, 0, 20, 12, box, Axis("", 0.0, 12.0, ()))
    if isinstance(layer, Points):
        yield _marks(frame, layer.style, [10.0], [6.0], min(layer.size, 1.4))
    elif isinstance(layer, Band) or (isinstance(layer, Segments) and layer.thick):
        yield element("rect", y=1, width=20, height=10, class_=f"fill s-{layer.style}")
        yield from _hatched(layer.style, y=1, width=20, height=10)
    else:
        yield _path("M0 6h20", layer.style, dashed=not isinstance(layer, Segments))
        if isinstance(layer, Segments) and STYLES[layer.style].marker not in ("o", "."):
            yield _marks(frame, layer.style, [10.0], [6.0], 0.8)
    yield _text(25, 10, layer.label)


def _colour_bar(layer: Heat) -> Html:
    low, high = _ends(layer)
    boxes = [
        element("rect", x=60 + 9 * i, y=1, width=9, height=10, fill=colour)
        for i, colour in enumerate(BLUES)
    ]
    return joined(
        _text(55, 10, shown_number(_short(low)), text_anchor="end"),
        *boxes,
        _text(65 + 9 * LEVELS, 10, f"{shown_number(_short(high))}  {layer.label}"),
    )


def _short(value: float) -> float:
    return float(f"{value:.3g}")


# ── axes ───────────────────────────────────────────────────────────────────────────────────────


def _axes(frame: Frame) -> Iterator[Html]:
    left, top, width, height, x, y = frame
    bottom = top + height
    occupied: float = -math.inf  # end of the last label
    slanted = bool(x.names) and CHAR_WIDTH * max(map(len, x.names)) > width / len(x.names)
    for value, word in x.ticks:
        at = frame.across(value)
        if not -1 <= at <= width + 1:
            continue
        yield element("path", d=f"M{left + at:.1f} {top:.1f}v{height:.1f}", class_="grid")
        half = CHAR_WIDTH * len(word) / 2
        if slanted:
            rotation = f"rotate(-20 {left + at:.0f} {bottom + 14:.0f})"
            yield _text(left + at, bottom + 14, word[:14], text_anchor="end", transform=rotation)
        elif at - half > occupied:
            yield _text(left + at, bottom + 15, word, text_anchor="middle")
            occupied = at + half + 6
    for value, word in y.ticks:
        at = frame.down(value)
        if -1 <= at <= height + 1:
            yield element("path", d=f"M{left:.1f} {top + at:.1f}h{width:.1f}", class_="grid")
            yield _text(left - 6, top + at + 4, word[:28], text_anchor="end")
    yield element("path", d=f"M{left:.1f} {top:.1f}V{bottom:.1f}h{width:.1f}", class_="frame")
    yield _text(left + width / 2, bottom + 36, x.label, text_anchor="middle")
    if y.label:
        rotation = f"rotate(-90 10 {top + height / 2:.0f})"
        yield _text(10, top + height / 2, y.label, text_anchor="middle", transform=rotation)


# ── layers ─────────────────────────────────────────────────────────────────────────────────────


def _layer(frame: Frame, layer: Layer) -> Iterator[Html]:
    match layer:
        case Line():
            yield _path(
                _trace(frame, layer), layer.style, width=2 if layer.style == "best" else 1.4
            )
        case Points():
            yield from _points(frame, layer)
        case Segments():
            yield from _thick(frame, layer) if layer.thick else _thin(frame, layer)
        case Band():
            upper = [_at(frame, x, y) for x, y in zip(layer.x, layer.high, strict=True)]
            lower = [_at(frame, x, y) for x, y in zip(layer.x, layer.low, strict=True)]
            d = "M" + "L".join([*upper, *reversed(lower)]) + "Z"
            yield element("path", d=d, class_=f"fill s-{layer.style}", fill_opacity=0.18)
        case Heat():
            yield from _map(frame, layer)


def _at(frame: Frame, x: float, y: float) -> str:
    """A position in the frame; positions far outside are moved nearer."""
    across = min(max(frame.across(x), -2e3), 4e3)
    return f"{across:.1f} {min(max(frame.down(y), -2e3), 4e3):.1f}"


def _trace(frame: Frame, line: Line) -> str:
    parts = []
    for i, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
        if line.step and i:
            parts.append(f"H{frame.across(x):.1f}L")
        else:
            parts.append("L" if i else "M")
        parts.append(_at(frame, x, y))
    return "".join(parts)


def _path(d: str, style: str, *, width: float = 1.4, dashed: bool = True) -> Html:
    dash = " ".join(map(str, STYLES[style].dash)) if dashed else ""
    return element(
        "path", d=d, class_=f"stroke s-{style}", stroke_width=width, stroke_dasharray=dash or None
    )


def _marks(frame: Frame, style: str, x: Sequence[float], y: Sequence[float], size: float) -> Html:
    """Draw marks as one path."""
    kind = STYLES[style].marker
    r = {"o": 3.0, ".": 2.3, "x": 3.2, "|": 4.0, "s": 2.8, "d": 3.8}[kind] * size
    shape = _shape(kind, r)
    d = "".join(
        shape(frame.across(a), frame.down(b))
        for a, b in zip(x, y, strict=True)
        if abs(frame.across(a)) < 2e3 and abs(frame.down(b)) < 2e3
    )
    filled = kind in ("o", ".", "d")
    paint = "fill" if filled else "stroke"
    opacity = 0.7 if style == "other" else None
    width = None if filled else 1.5
    return element("path", d=d, class_=f"{paint} s-{style}", stroke_width=width, opacity=opacity)


def _shape(kind: str, r: float) -> Callable[[float, float], str]:
    def circle(x: float, y: float) -> str:
        half = f"a{r:.1f} {r:.1f} 0 1 0"
        return f"M{x - r:.1f} {y:.1f}{half} {2 * r:.1f} 0{half} {-2 * r:.1f} 0"

    corners = {
        "x": f"m{-r:.1f} {-r:.1f}l{2 * r:.1f} {2 * r:.1f}m0 {-2 * r:.1f}l{-2 * r:.1f} {2 * r:.1f}",
        "|": f"m0 {-r:.1f}v{2 * r:.1f}",
        "s": f"m{-r:.1f} {-r:.1f}h{2 * r:.1f}v{2 * r:.1f}h{-2 * r:.1f}z",
        "d": f"m0 {-r:.1f}l{r:.1f} {r:.1f}l{-r:.1f} {r:.1f}l{-r:.1f} {-r:.1f}z",
    }
    if kind not in corners:
        return circle
    return lambda x, y: f"M{x:.1f} {y:.1f}{corners[kind]}"


def _points(frame: Frame, layer: Points) -> Iterator[Html]:
    if layer.low:
        bars = "".join(
            f"M{_at(frame, x, low)}V{min(max(frame.down(high), -2e3), 4e3):.1f}"
            for x, low, high in zip(layer.x, layer.low, layer.high, strict=True)
        )
        yield _path(bars, layer.style, width=0.8, dashed=False)
    if layer.texts and len(layer.x) <= MAX_HOVER:
        for x, y, hover in zip(layer.x, layer.y, layer.texts, strict=True):
            yield element(
                "g", element("title", hover), _marks(frame, layer.style, [x], [y], layer.size)
            )
    else:
        yield _marks(frame, layer.style, layer.x, layer.y, layer.size)


def _thin(frame: Frame, layer: Segments) -> Iterator[Html]:
    marked = STYLES[layer.style].marker not in ("o", ".")

    def bar(i: int) -> str:
        start, end = frame.across(layer.start[i]), frame.across(layer.end[i])
        return f"M{start:.1f} {frame.down(layer.y[i]):.1f}h{max(end - start, 1.2):.1f}"

    middle = [(a + b) / 2 for a, b in zip(layer.start, layer.end, strict=True)]
    if layer.texts and len(layer.y) <= MAX_HOVER:
        for i, hover in enumerate(layer.texts):
            mark = _marks(frame, layer.style, [middle[i]], [layer.y[i]], 0.8) if marked else None
            line = _path(bar(i), layer.style, width=2.2, dashed=False)
            yield element("g", element("title", hover), line, mark)
        return
    yield _path("".join(map(bar, range(len(layer.y)))), layer.style, width=2.2, dashed=False)
    if marked:
        yield _marks(frame, layer.style, middle, layer.y, 0.8)


def _thick(frame: Frame, layer: Segments) -> Iterator[Html]:
    one = abs(frame.down(0.0) - frame.down(1.0)) * layer.thick
    boxes = []
    for start, end, y in zip(layer.start, layer.end, layer.y, strict=True):
        left, top = frame.across(start), frame.down(y) - one / 2
        boxes.append((left, top, max(frame.across(end) - left, 0.8), one))
    if layer.texts and len(boxes) <= MAX_HOVER:
        for (x, y, width, height), hover in zip(boxes, layer.texts, strict=True):
            place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}"}
            fill = element("rect", **place, height=f"{height:.1f}", class_=f"fill s-{layer.style}")
            over = _hatched(layer.style, **place, height=f"{height:.1f}")
            yield element("g", element("title", hover), fill, *over)
        return
    d = "".join(f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z" for x, y, w, h in boxes)
    yield element("path", d=d, class_=f"fill s-{layer.style}")
    if STYLES[layer.style].hatch:
        yield element("path", d=d, fill=f"url(#hatch-{layer.style})")


def _hatched(style: str, **place: str | float) -> Iterator[Html]:
    if STYLES[style].hatch:
        yield element("rect", **place, fill=f"url(#hatch-{style})")


# ── heat maps ──────────────────────────────────────────────────────────────────────────────────


def _ends(layer: Heat) -> tuple[float, float]:
    values = [value for row in layer.z for value in row if math.isfinite(value)]
    return min(values), max(values)


def _map(frame: Frame, layer: Heat) -> Iterator[Html]:
    """Draw a heat map; cells of the same level form one path."""
    low, high = _ends(layer)
    if layer.log:
        low, high = math.log(low), math.log(high)
    across = _edges([frame.across(x) for x in layer.x], frame.width)
    down = _edges([frame.down(y) for y in layer.y], frame.height)
    cells: list[list[str]] = [[] for _ in range(LEVELS)]
    for i, row in enumerate(layer.z):
        top, bottom = sorted(down[i : i + 2])
        for j, value in enumerate(row):
            if not math.isfinite(value):
                continue
            share = ((math.log(value) if layer.log else value) - low) / max(high - low, 1e-300)
            width = across[j + 1] - across[j]
            d = f"M{across[j]:.1f} {top:.1f}h{width:.1f}v{bottom - top:.1f}h{-width:.1f}z"
            cells[min(int(share * LEVELS), LEVELS - 1)].append(d)
    for level, parts in enumerate(cells):
        if parts:
            yield element("path", d="".join(parts), fill=BLUES[level], stroke=BLUES[level])


def _edges(places: Sequence[float], size: float) -> list[float]:
    """The edges of cells: half-way between neighbours, and symmetric around the first and last."""
    if len(places) < 2:
        return [0.0, size]
    middle = [(a + b) / 2 for a, b in pairwise(places)]
    return [2 * places[0] - middle[0], *middle, 2 * places[-1] - middle[-1]]


def _text(x: float, y: float, content: str, **more: str | float | None) -> Html:
    return element("text", content, x=f"{x:.0f}", y=f"{y:.0f}", **more)
