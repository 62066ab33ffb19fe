"""Renders a figure with matplotlib, for files and notebooks."""

from __future__ import annotations

import math
from typing import Any

from farthing.errors import InvalidInput
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
)

__all__ = ["drawn"]

SIZE = (6.4, 4.0)  # inches of a panel
LANE = 0.38  # inches of a lane on an axis of names
LEGEND_COLUMNS = 3
HATCHES = {"": "", "/": "///", "\\": "\\\\\\", "x": "xxx", ".": "..."}


def drawn(figure: Figure) -> Any:
    """Render the figure as a matplotlib Figure, which a notebook displays.

    Raises:
        InvalidInput: matplotlib is not installed.
    """
    try:
        from farthing.view.plots.notebook_figure import NotebookFigure
    except ImportError:
        raise InvalidInput(
            "Figures need matplotlib, which is not installed. Install it with: "
            "pip install 'farthing[plots]'"
        ) from None
    count = max(len(figure.panels), 1)
    canvas = NotebookFigure(figsize=(SIZE[0] * count, _height(figure)), layout="constrained")
    canvas.suptitle(_plain(figure.title), x=0.01, ha="left", fontweight="bold")
    axes = canvas.subplots(1, count, squeeze=False)[0]
    if not figure.panels:
        axes[0].text(0.5, 0.5, _plain(figure.empty), ha="center", va="center", wrap=True)
        axes[0].set_axis_off()
    for panel, ax in zip(figure.panels, axes, strict=False):
        _panel(ax, panel)
    return canvas


def _plain(text: str) -> str:
    """Escape dollar signs, which would start a formula in matplotlib."""
    return text.replace("$", r"\$")


def _height(figure: Figure) -> float:
    lanes = [
        len(panel.y.names)
        for panel in figure.panels
        if panel.y.names and not any(isinstance(layer, Heat) for layer in panel.layers)
    ]
    return 1.6 + LANE * max(lanes) if lanes else SIZE[1]


def _panel(ax: Any, panel: Panel) -> None:
    for layer in panel.layers:
        _layer(ax, layer)
    _axis(ax.xaxis, panel.x, ax.set_xscale, ax.set_xlim, ax.set_xlabel)
    _axis(ax.yaxis, panel.y, ax.set_yscale, ax.set_ylim, ax.set_ylabel)
    if panel.x.names and max(map(len, panel.x.names)) * len(panel.x.names) > 60:
        ax.tick_params(axis="x", labelrotation=20)
    ax.grid(visible=True, alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    entries = sum(bool(layer.label) for layer in panel.layers if not isinstance(layer, Heat))
    if entries:
        above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
        ax.legend(**above, ncols=LEGEND_COLUMNS, fontsize="x-small", frameon=False)
    ax.set_title(
        _plain(panel.title), fontsize="medium", pad=6 + 13 * math.ceil(entries / LEGEND_COLUMNS)
    )


def _axis(side: Any, axis: Axis, set_scale: Any, set_limits: Any, set_label: Any) -> None:
    if axis.log:
        set_scale("log")
        side.set_minor_locator(_no_ticks())
    set_limits(axis.low, axis.high)
    set_label(_plain(axis.label))
    side.set_ticks(
        [place for place, _ in axis.ticks], labels=[_plain(word) for _, word in axis.ticks]
    )


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _layer(ax: Any, layer: Layer) -> None:
    if isinstance(layer, Heat):
        _map(ax, layer)
        return
    style, label = STYLES[layer.style], _plain(layer.label) or None
    colour = {"color": style.light, "label": label}
    dash: Any = (0, style.dash) if style.dash else "-"
    match layer:
        case Line():
            draw = "steps-post" if layer.step else "default"
            wide = {"best": 2.2, "rung": 0.8}.get(layer.style, 1.5)
            ax.plot(layer.x, layer.y, **colour, linestyle=dash, drawstyle=draw, linewidth=wide)
        case Points():
            if layer.low:
                ax.vlines(layer.x, layer.low, layer.high, color=style.light, linewidth=0.7)
            ax.scatter(layer.x, layer.y, **colour, marker=style.marker, s=22 * layer.size**2)
        case Segments() if layer.thick:
            width = [end - start for start, end in zip(layer.start, layer.end, strict=True)]
            look = {"hatch": HATCHES[style.hatch], "edgecolor": "white", "linewidth": 0}
            if not style.hatch:  # a thin edge keeps very short bars visible
                look |= {"edgecolor": style.light, "linewidth": 0.4}
            ax.barh(layer.y, width, left=layer.start, height=layer.thick, **colour, **look)
        case Segments():
            ax.hlines(layer.y, layer.start, layer.end, **colour, linewidth=2)
            if style.marker not in ("o", "."):
                middle = [(a + b) / 2 for a, b in zip(layer.start, layer.end, strict=True)]
                ax.scatter(middle, layer.y, color=style.light, marker=style.marker, s=18)
        case Band():
            ax.fill_between(layer.x, layer.low, layer.high, **colour, alpha=0.18, linewidth=0)


def _map(ax: Any, layer: Heat) -> None:
    scale = "log" if layer.log else "linear"
    mesh = ax.pcolormesh(layer.x, layer.y, layer.z, cmap="Blues", norm=scale, shading="nearest")
    ax.figure.colorbar(mesh, ax=ax, label=_plain(layer.label))
