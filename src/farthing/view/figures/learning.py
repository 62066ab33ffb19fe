"""Learning curves: the values that trials reported while they ran, against their step or cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.history import Trial
from farthing.steps import Steps
from farthing.view.figures.spending import cost_label, main_resource
from farthing.view.formatting import amounts, counted_trials, state_of
from farthing.view.primitives import (
    Axis,
    Figure,
    Layer,
    Line,
    Panel,
    Points,
    axis,
    shown_number,
    thinned,
    visible,
)

__all__ = ["Learning", "learning", "learning_of"]

MAX_CURVES = 40
MAX_POINTS = 500  # with hover texts, of the curves in one state
LOG_STEPS = 16  # from this number of steps on, the axis of steps is logarithmic
LOG_VALUES = 3.0  # ratio of positive values to minimise from which their axis is logarithmic
# How a curve is drawn. Where curves overlap, the later style is on top.
STYLES = ("lost", "killed", "failed", "paused", "done", "running", "best")


Point = tuple[float, float, float | None, Mapping[str, float]]  # x, value, step, cost


class Learning(NamedTuple):
    """The learning curve of one trial: x is its cost or step, y the reported value.

    Attributes:
        texts: trial, step, value and cost of each point.
    """

    number: int
    x: tuple[float, ...]
    y: tuple[float, ...]
    texts: tuple[str, ...] = ()


def learning_of(settings: Settings, state: State, resource: str | None) -> list[Learning]:
    """The curves of all trials that reported at least two values, or one if there are `steps`.

    Args:
        resource: the resource of the cost on the x axis; None: use the reported step.
    """
    least = 2 if settings.steps is None else 1
    found = []
    for trial in state.history:
        points: list[Point] = [
            (float(step) if resource is None else cost[resource], value, step, cost)
            for step, value, cost in trial.curve
            if resource is None or resource in cost
        ]
        for line in trial.run.reports:
            step, cost = _number(line.get("step")), line.get("cost")
            cost = cost if isinstance(cost, Mapping) else {}
            at = step if resource is None else _number(cost.get(resource))
            value = _number(line.get(settings.metric, line.get("value")))
            if at is not None and value is not None:
                points.append((at, value, step, cost))
        if len(points) >= least:
            x, y, _, _ = zip(*points, strict=True)
            texts = tuple(_hover(trial, *point[1:]) for point in points)
            found.append(Learning(trial.number, x, y, texts))
    return found


def _number(reported: Any) -> float | None:
    """The reported value if it is a finite number, else None."""
    if not isinstance(reported, int | float) or isinstance(reported, bool):
        return None
    return float(reported) if math.isfinite(reported) else None


def _hover(trial: Trial, value: float, step: float | None, cost: Mapping[str, float]) -> str:
    """The trial, and one point of its curve."""
    text = f"trial {trial.number}, {state_of(trial.state, trial.step)}; "
    text += "" if step is None else f"step {step:g}: "
    paid = amounts({r: a for r, a in cost.items() if isinstance(a, int | float)})
    return f"{text}{value:.6g}" + (f" for {paid} so far" if paid else "")


def learning(
    settings: Settings,
    state: State,
    *,
    steps: bool | None = None,
    only: int | None = None,
) -> Figure:
    """Draw learning curves.

    Args:
        steps: draw them against the reported steps, not against the cost; None: if the study has
            `steps`, or if no cost is known.
        only: the number of the only trial to draw.
    """
    name, title = "learning", "Learning curves"
    by_step = settings.steps is not None if steps is None else steps
    resource = None if by_step else main_resource(settings, state)
    found = learning_of(settings, state, resource)
    if not found and resource is not None:
        resource = None
        found = learning_of(settings, state, None)
    if only is not None:
        found = [curve for curve in found if curve.number == only]
    if not found:
        return Figure(name, title, (), "", _why_none(settings))
    best = best_trial(settings, state.history)
    shown = _shown(settings, found, None if best is None else best.number)
    groups: dict[str, list[Learning]] = {}
    for curve in shown:
        is_best = best is not None and curve.number == best.number
        style: str = "best" if is_best else state.history[curve.number].state
        groups.setdefault(style, []).append(curve)
    x = _x_axis(settings.steps, resource, shown)
    values = [v for curve in shown for v in curve.y]
    log = settings.sign > 0 and min(values) > 0 and max(values) > LOG_VALUES * min(values)
    y = axis(visible(settings.metric, 40), values, log=log or None)
    layers: list[Layer] = []
    if settings.steps is not None and resource is None:
        layers += _rungs(settings.steps, x, y)
    for style in STYLES:
        layers += _curves(style, groups.get(style, []))
    caption = f"{counted_trials(len(found))} reported values while running."
    if len(shown) < len(found):
        caption += f" The plot shows {len(shown)} of them: the best and the latest."
    if settings.steps is not None and resource is None:
        caption += " Vertical lines are the steps at which the tuner decides."
    return Figure(name, title, (Panel(x, y, tuple(layers)),), caption)


def _why_none(settings: Settings) -> str:
    many = "two or more values" if settings.steps is None else "a value"
    return f"No trial reported {many} while it ran."


def _shown(settings: Settings, found: list[Learning], best: int | None) -> list[Learning]:
    """The best curves and the latest ones, in the order of their numbers; all if they are few."""
    if len(found) <= MAX_CURVES:
        return found
    by_end = sorted(found, key=lambda curve: settings.sign * curve.y[-1])
    latest = found[-MAX_CURVES // 2 :]
    chosen = {curve.number for curve in [*by_end[: MAX_CURVES // 2], *latest]} | {best}
    return [curve for curve in found if curve.number in chosen]


def _x_axis(steps: Steps | None, resource: str | None, shown: Iterable[Learning]) -> Axis:
    values = [v for curve in shown for v in curve.x]
    if resource is not None:
        return axis(cost_label(resource, "cost of the trial"), values, resource=resource, zero=True)
    if steps is None:
        return axis("step", values, zero=True)
    rungs = [float(rung) for rung in steps.decision_steps]
    log = steps.last >= LOG_STEPS and len(rungs) > 2
    made = axis("step", [*values, 1.0, rungs[-1]], log=log, zero=not log)
    if len(rungs) < 2:
        return made
    labelled = [rungs[i] for i in thinned(len(rungs), [len(rungs) - 1], 10)]
    return made._replace(ticks=tuple((rung, shown_number(rung)) for rung in labelled), fixed=True)


def _rungs(steps: Steps, x: Axis, y: Axis) -> list[Layer]:
    """A light vertical line at each step at which the tuner decides."""
    rungs = [rung for rung in steps.decision_steps if x.low <= rung <= x.high]
    return [Line((float(rung),) * 2, (y.low, y.high), "rung") for rung in rungs]


def _curves(style: str, curves: list[Learning]) -> list[Layer]:
    """The curves in one state: a line each, small marks with hover texts, and a mark at the end."""
    if not curves:
        return []
    label = f"best: trial {curves[0].number}" if style == "best" else f"{style} ({len(curves)})"
    lines = [Line(curve.x, curve.y, style) for curve in curves if len(curve.x) > 1]
    before = [
        point for _, x, y, texts in curves for point in zip(x[:-1], y[:-1], texts[:-1], strict=True)
    ]
    ends = [(x[-1], y[-1], texts[-1]) for _, x, y, texts in curves]
    some = [before[i] for i in thinned(len(before), most=MAX_POINTS)]
    small = [_marks(some, style, "", 0.5)] if some else []
    return [*lines, *small, _marks(ends, style, label, 1.1)]


def _marks(points: list[tuple[float, float, str]], style: str, label: str, size: float) -> Points:
    x, y, texts = zip(*points, strict=True)
    return Points(x, y, style, label, texts=texts, size=size)
