"""Renders a figure as a terminal plot: points and lines are Braille dots."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from farthing.view.primitives import Axis, Band, Figure, Heat, Layer, Line, Panel, Points, Segments

__all__ = ["drawn"]

DOTS = (
    (0x01, 0x08),
    (0x02, 0x10),
    (0x04, 0x20),
    (0x40, 0x80),
)  # bits of a Braille character, by row
MARKS = {"chosen": "◆", "failed": "×", "killed": "|", "lost": "□", "paused": "◇"}  # noqa: RUF001
FILLS = "█▓▒░▚▞·○"  # of bars, by layer


def drawn(figure: Figure, width: int = 72, height: int = 14) -> str:
    """The figure as lines of text; each panel is at most `width` characters wide."""
    if figure.empty:
        return f"{figure.title}\n  {figure.empty}"
    parts = [figure.title]
    for panel in figure.panels:
        parts += [f"  {panel.title}"] if panel.title else []
        parts += _lanes(panel, width) if panel.y.names else _dots(panel, width, height)
    return "\n".join([*parts, figure.caption])


def _dots(panel: Panel, width: int, height: int) -> list[str]:
    words = {round((1 - panel.y.share(v)) * (height - 1)): w for v, w in panel.y.ticks}
    margin = max((len(word) for word in words.values()), default=0)
    columns = max(width - margin - 3, 10)
    cells = [[0] * columns for _ in range(height)]
    marks: dict[tuple[int, int], str] = {}
    for layer in panel.layers:
        for x, y in _places(layer, panel, columns):
            across, down = panel.x.share(x), 1 - panel.y.share(y)
            if not (0 <= across <= 1 and 0 <= down <= 1):
                continue
            column = min(int(across * columns * 2), columns * 2 - 1)
            row = min(int(down * height * 4), height * 4 - 1)
            cells[row // 4][column // 2] |= DOTS[row % 4][column % 2]
            if (mark := _mark(layer)) is not None:
                marks[row // 4, column // 2] = mark
    lines = []
    for i, row_cells in enumerate(cells):
        body = "".join(
            marks.get((i, j)) or (chr(0x2800 + bits) if bits else " ")
            for j, bits in enumerate(row_cells)
        )
        lines.append(f"{words.get(i, ''):>{margin}} ┤{body}".rstrip())
    return [*lines, *_below(panel.x, margin, columns)]


def _mark(layer: Layer) -> str | None:
    """The character for the marks of a layer; None: dots. Lines and small marks are dots."""
    if isinstance(layer, Line | Heat | Band) or (isinstance(layer, Points) and layer.size < 1):
        return None
    return MARKS.get(layer.style)


def _below(axis: Axis, margin: int, columns: int) -> Iterator[str]:
    yield " " * (margin + 1) + "└" + "─" * columns
    line = [" "] * (columns + 16)
    free = 0
    for value, word in axis.ticks:
        at = int(axis.share(value) * columns)
        if free <= at < columns:
            line[at : at + len(word)] = word
            free = at + len(word) + 1
    yield (" " * (margin + 2) + "".join(line)).rstrip()
    yield " " * (margin + 2) + axis.label


def _places(layer: Layer, panel: Panel, columns: int) -> Iterator[tuple[float, float]]:
    """The points that a layer passes through."""
    if isinstance(layer, Points):
        yield from zip(layer.x, layer.y, strict=True)
    elif isinstance(layer, Segments):
        for start, end, y in zip(layer.start, layer.end, layer.y, strict=True):
            middle = (start + end) / 2
            marked = layer.style in MARKS
            yield from (
                ((middle, y),) if marked else _between(panel, (start, y), (end, y), columns)
            )
    elif isinstance(layer, Line) and layer.style != "rung":  # the rungs are on the axis
        corners = list(zip(layer.x, layer.y, strict=True))
        for before, after in pairwise(corners):
            if layer.step:
                corner = after[0], before[1]
                yield from _between(panel, before, corner, columns)
                yield from _between(panel, corner, after, columns)
            else:
                yield from _between(panel, before, after, columns)


def _between(
    panel: Panel, one: tuple[float, float], other: tuple[float, float], columns: int
) -> Iterator[tuple[float, float]]:
    """Points on the straight line from one to the other, close enough to look connected."""
    ax, ay = panel.x.share(one[0]), panel.y.share(one[1])
    bx, by = panel.x.share(other[0]), panel.y.share(other[1])
    steps = max(int(2 * columns * max(abs(bx - ax), abs(by - ay))), 1)
    for k in range(min(steps, 4 * columns) + 1):
        t = k / min(steps, 4 * columns)
        yield panel.x.place(ax + t * (bx - ax)), panel.y.place(ay + t * (by - ay))


def _lanes(panel: Panel, width: int) -> list[str]:
    """Draw bars in named lanes."""
    margin = max(map(len, panel.y.names))
    columns = max(width - margin - 3, 10)
    rows = [[" "] * columns for _ in panel.y.names]
    legend = []
    thick = [layer for layer in panel.layers if isinstance(layer, Segments) and layer.thick]
    for k, layer in enumerate(thick):
        fill = FILLS[k % len(FILLS)]
        legend.append(f"{fill} {layer.label}" if layer.label else "")
        for start, end, y in zip(layer.start, layer.end, layer.y, strict=True):
            left = math.floor(panel.x.share(start) * columns)
            right = max(math.ceil(panel.x.share(end) * columns), left + 1)
            rows[round(y)][left:right] = fill * (min(right, columns) - left)
    lines = [
        f"{name:>{margin}} │{''.join(row)}".rstrip()
        for name, row in zip(reversed(panel.y.names), reversed(rows), strict=True)
    ]
    return [*lines, *_below(panel.x, margin, columns), *filter(None, legend)]
