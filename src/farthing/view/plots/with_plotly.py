"""Renders a figure with plotly, which adds zoom and hover in notebooks and browsers."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from farthing.errors import InvalidInput
from farthing.view.primitives import STYLES, Axis, Band, Figure, Heat, Layer, Line, Points, Segments

__all__ = ["drawn"]

MARKERS = {
    **{"o": "circle", ".": "circle", "x": "x"},
    **{"|": "line-ns-open", "s": "square", "d": "diamond"},
}
SIZE = (620, 420)  # pixels of a panel
LANE = 34  # pixels of a lane on an axis of names


def drawn(figure: Figure) -> Any:
    """Render the figure as a plotly Figure.

    Raises:
        InvalidInput: plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots
    except ImportError:
        raise InvalidInput(
            "Interactive figures need plotly, which is not installed. Install it with: "
            "pip install 'farthing[plots]'"
        ) from None
    count = max(len(figure.panels), 1)
    titles = [escape(panel.title) for panel in figure.panels]
    canvas = make_subplots(
        rows=1, cols=count, subplot_titles=titles or None, horizontal_spacing=0.2 / count
    )
    lanes = max((len(panel.y.names) for panel in figure.panels), default=0)
    canvas.update_layout(
        title=escape(figure.title),
        template="simple_white",
        width=SIZE[0] * count,
        height=SIZE[1] if not lanes else 230 + LANE * lanes,
        barmode="overlay",
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.08},
        margin={"t": 130},
    )
    in_legend = set[str]()
    for i, panel in enumerate(figure.panels, start=1):
        end = canvas.layout[f"xaxis{i}"].domain[1]
        for layer in panel.layers:
            trace = _trace(layer)
            if isinstance(layer, Heat):
                trace["colorbar"] = {"x": end, "xanchor": "left", "thickness": 12}
            else:
                trace |= {
                    "name": escape(layer.label),
                    "showlegend": layer.label not in {"", *in_legend},
                }
                in_legend.add(layer.label)
            canvas.add_trace(getattr(go, trace.pop("kind"))(trace), row=1, col=i)
        canvas.update_xaxes(_axis(panel.x), row=1, col=i)
        canvas.update_yaxes(_axis(panel.y), row=1, col=i)
    if figure.empty:
        canvas.add_annotation(text=escape(figure.empty), showarrow=False)
    return canvas


def _axis(axis: Axis) -> dict[str, Any]:
    ends = [math.log10(axis.low), math.log10(axis.high)] if axis.log else [axis.low, axis.high]
    layout: dict[str, Any] = {"title": escape(axis.label), "range": ends}
    if axis.log:
        layout["type"] = "log"
    if axis.names or axis.fixed:  # other axes keep automatic ticks, which follow the zoom
        layout["tickvals"] = [place for place, _ in axis.ticks]
        layout["ticktext"] = [escape(word) for _, word in axis.ticks]
    return layout


def _trace(layer: Layer) -> dict[str, Any]:
    if isinstance(layer, Heat):
        z = [[math.log10(v) if layer.log else v for v in row] for row in layer.z]
        return {"kind": "Heatmap", "x": layer.x, "y": layer.y, "z": z, "colorscale": "Blues"}
    style = STYLES[layer.style]
    lines = {"kind": "Scatter", "mode": "lines"}
    match layer:
        case Line():
            dash = ",".join(f"{part}px" for part in style.dash) or "solid"
            line = {"color": style.light, "dash": dash, "shape": "hv" if layer.step else "linear"}
            return {**lines, "x": layer.x, "y": layer.y, "line": line}
        case Points():
            return _points(layer, style.light, MARKERS[style.marker])
        case Segments() if layer.thick:
            width = [end - start for start, end in zip(layer.start, layer.end, strict=True)]
            bar = {"kind": "Bar", "orientation": "h", "width": layer.thick, **_hover(layer.texts)}
            marker = {"color": style.light, "pattern": {"shape": style.hatch}}
            return {**bar, "base": layer.start, "x": width, "y": layer.y, "marker": marker}
        case Segments():
            ends = zip(layer.start, layer.end, strict=True)
            x = [part for start, end in ends for part in (start, end, None)]
            y = [part for at in layer.y for part in (at, at, None)]
            look: dict[str, Any] = {"line": {"color": style.light, "width": 3}}
            mark = {"mode": "lines+markers", "marker": {"symbol": MARKERS[style.marker], "size": 4}}
            texts = tuple(text for text in layer.texts for _ in range(3))
            return {**lines, "x": x, "y": y, **look, **mark, **_hover(texts)}
        case Band():
            around = (*layer.x, *reversed(layer.x)), (*layer.high, *reversed(layer.low))
            look = {"fill": "toself", "line": {"color": style.light, "width": 0}, "opacity": 0.3}
            return {**lines, "x": around[0], "y": around[1], **look}


def _points(layer: Points, colour: str, symbol: str) -> dict[str, Any]:
    trace: dict[str, Any] = {"kind": "Scatter", "mode": "markers", "x": layer.x, "y": layer.y}
    trace["marker"] = {"color": colour, "symbol": symbol, "size": 7 * layer.size}
    if layer.low:
        up = [high - y for high, y in zip(layer.high, layer.y, strict=True)]
        down = [y - low for low, y in zip(layer.low, layer.y, strict=True)]
        trace["error_y"] = {"array": up, "arrayminus": down, "thickness": 0.8, "width": 0}
    return trace | _hover(layer.texts)


def _hover(texts: tuple[str, ...]) -> dict[str, Any]:
    """Hover texts, escaped."""
    if not texts:
        return {}
    return {"hovertext": [escape(text) for text in texts], "hoverinfo": "text"}
