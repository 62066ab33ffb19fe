"""Learning curves: the values that trials reported while they ran, against their cost by then."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.view.figures.spending import cost_label, main_resource
from farthing.view.formatting import counted_trials
from farthing.view.primitives import Figure, Line, Panel, axis, visible

__all__ = ["Learning", "learning", "learning_of"]

MAX_CURVES = 40


class Learning(NamedTuple):
    """The learning curve of one trial: x is its cost or step, y the reported value."""

    number: int
    x: tuple[float, ...]
    y: tuple[float, ...]


def learning_of(settings: Settings, state: State, resource: str | None) -> list[Learning]:
    """The curves of all trials that reported at least two values.

    Args:
        resource: the resource of the cost on the x axis; None: use the reported step.
    """
    found = []
    for trial in state.history:
        points = [
            (float(point.step) if resource is None else point.cost[resource], point.value)
            for point in trial.curve
            if resource is None or resource in point.cost
        ]
        for line in trial.run.reports:
            at = _number(line.get("step") if resource is None else _amount(line, resource))
            value = _number(line.get(settings.metric, line.get("value")))
            if at is not None and value is not None:
                points.append((at, value))
        if len(points) > 1:
            x, y = zip(*points, strict=True)
            found.append(Learning(trial.number, x, y))
    return found


def _amount(line: Mapping[str, Any], resource: str) -> Any:
    cost = line.get("cost")
    return cost.get(resource) if isinstance(cost, Mapping) else None


def _number(reported: Any) -> float | None:
    """The reported value if it is a finite number, else None."""
    if not isinstance(reported, int | float) or isinstance(reported, bool):
        return None
    return float(reported) if math.isfinite(reported) else None


def learning(settings: Settings, state: State, *, steps: bool = False) -> Figure:
    """Draw learning curves against cost, or against the reported steps."""
    name, title = "learning", "Learning curves"
    resource = None if steps else main_resource(settings, state)
    found = learning_of(settings, state, resource)
    if not found and not steps:
        resource = None
        found = learning_of(settings, state, None)
    if not found:
        return Figure(name, title, (), "", "No trial reported two or more values while it ran.")
    best = best_trial(settings, state.history)
    by_end = sorted(found, key=lambda curve: settings.sign * curve.y[-1])
    shown = {
        curve.number: curve for curve in [*by_end[: MAX_CURVES // 2], *found[-MAX_CURVES // 2 :]]
    }
    layers: list[Line] = []
    for curve in shown.values():
        trial = state.history[curve.number]
        is_best = best is not None and curve.number == best.number
        style = "best" if is_best else "running" if trial.state == "running" else "other"
        label = f"trial {curve.number}" if is_best or trial.state == "running" else ""
        layers.append(Line(curve.x, curve.y, style, label))
    layers.sort(key=lambda layer: layer.style != "other")  # draw the best last, on top
    x = axis(
        "step" if resource is None else cost_label(resource, "cost of the trial"),
        (v for curve in shown.values() for v in curve.x),
        resource=resource,
        zero=True,
    )
    y = axis(
        visible(settings.metric, 40), (v for curve in shown.values() for v in curve.y), log=None
    )
    caption = f"{counted_trials(len(found))} reported values while running."
    if len(shown) < len(found):
        caption += f" The plot shows {len(shown)} of them: the best and the latest."
    return Figure(name, title, (Panel(x, y, tuple(layers)),), caption)
