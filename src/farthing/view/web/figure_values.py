"""A figure as plain values for JSON: panels, axes and layers, with the `kind` of each layer."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from farthing.view.primitives import Axis, Figure, Layer

__all__ = ["figure_values"]


def figure_values(figure: Figure) -> dict[str, Any]:
    """The figure as dictionaries and lists; numbers that are not finite become None."""
    return {
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "empty": figure.empty,
        "panels": [
            {
                "title": panel.title,
                "x": _axis(panel.x),
                "y": _axis(panel.y),
                "layers": [_layer(layer) for layer in panel.layers],
            }
            for panel in figure.panels
        ],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {
        "label": axis.label,
        "low": axis.low,
        "high": axis.high,
        "ticks": [list(tick) for tick in axis.ticks],
        "log": axis.log,
        "names": list(axis.names),
        "fixed": axis.fixed,
    }


def _layer(layer: Layer) -> dict[str, Any]:
    values = {field.name: _plain(getattr(layer, field.name)) for field in fields(layer)}
    return {"kind": type(layer).__name__.lower(), **values}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
