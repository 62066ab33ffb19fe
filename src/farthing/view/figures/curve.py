"""Best value against spending; each trial is a bar at its value, as long as its share of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from farthing.budget.units import format_amount
from farthing.core.parts import counted_value, with_counted_value
from farthing.core.settings import Settings
from farthing.core.shares import cost_of
from farthing.core.state import State
from farthing.models.constraints import is_feasible
from farthing.view.figures.spending import CostInterval, main_resource, spending, spent_label
from farthing.view.formatting import amounts, counted, counted_trials
from farthing.view.primitives import (
    MAX_MARKS,
    Axis,
    Figure,
    Layer,
    Line,
    Panel,
    Segments,
    axis,
    thinned,
    visible,
    visible_params,
)

__all__ = ["Curve", "comparison", "curve", "curve_of"]

FAR = 3.0  # a bad value this many interquartile ranges beyond its quartile is off the axis
EDGE = 0.02  # distance from the end of the axis at which trials without a value are drawn
STYLES = ("best", "second", "third", "fourth", "before", "fifth", "sixth", "seventh")

Studies = Mapping[str, tuple[Settings, State]]


class Curve(NamedTuple):
    """The best value after each trial, and the spending until then.

    Attributes:
        intervals: the trials that ended, in the order of their ends.
        best: the best feasible value after each trial, in the user's direction; None before there
            is one.
        improved: the indices in `intervals` at which the best value improved.
    """

    resource: str
    intervals: list[CostInterval]
    best: list[float | None]
    improved: list[int]

    @property
    def spent(self) -> float:
        """The total spending."""
        return self.intervals[-1].end if self.intervals else 0.0

    @property
    def shares_are_costs(self) -> bool:
        """Whether the share of the spending of each trial is its own cost."""
        costs = math.fsum(cost_of(each.trial, self.resource) for each in self.intervals)
        return math.isclose(self.spent, costs, rel_tol=1e-6)

    def steps(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The corners of the best-value line, up to the total spending."""
        x = [self.intervals[i].end for i in self.improved]
        y = [value for i in self.improved if (value := self.best[i]) is not None]
        if not y:
            return (), ()
        return (*x, self.spent), (*y, y[-1])


def curve_of(settings: Settings, state: State, resource: str | None = None) -> Curve:
    """Compute the best value after every trial that ended."""
    resource = main_resource(settings, state, resource)
    best, improved = list[float | None](), list[int]()
    intervals = [
        interval._replace(trial=with_counted_value(settings, interval.trial))
        for interval in spending(state, resource)
    ]
    incumbent: float | None = None
    for i, interval in enumerate(intervals):
        value = counted_value(settings, interval.trial)
        if value is not None and (incumbent is None or settings.sign * (value - incumbent) < 0):
            incumbent = value
            improved.append(i)
        best.append(incumbent)
    return Curve(resource, intervals, best, improved)


def curve(
    settings: Settings, state: State, resource: str | None = None, most: int = MAX_MARKS
) -> Figure:
    """Draw the best value against the spending, with at most about `most` other trials."""
    found = curve_of(settings, state, resource)
    name, title = "curve", "Best value against cost"
    ended = [interval.trial for interval in found.intervals]
    values = [trial.value for trial in ended if trial.value is not None]
    if not ended:
        return Figure(name, title, (), "", "No trial has ended yet.")
    if not values:
        return Figure(name, title, (), "", f"No trial returned a value: {counted(ended)}.")
    y = _value_axis(settings, values)
    x = axis(spent_label(found.resource), (0.0, found.spent), resource=found.resource, zero=True)
    drawn = thinned(len(ended), found.improved, most)
    layers: list[Layer] = []
    for kind, count in Counter(trial.state for trial in ended).items():
        intervals = [found.intervals[i] for i in drawn if ended[i].state == kind]
        bars = _bars(found.resource, intervals, y, settings.sign)
        layers.append(replace(bars, style=kind, label=f"{kind} ({count})"))
    corners = found.steps()
    if corners[1]:
        layers.append(Line(*corners, "best", f"best: {corners[1][-1]:.6g}", step=True))
    off = sum(1 for value in values if not y.low <= value <= y.high)
    length = "cost" if found.shares_are_costs else "share of the spending"
    caption = (
        f"{counted_trials(len(ended))} ({counted(ended)}). Each bar is a trial: its length is its "
        f"{length}, its position the value. Trials without a value are at the edge."
    )
    if off:
        caption += f" {off} value{'s are' if off > 1 else ' is'} outside the axis, at the edge."
    if settings.bounds:
        done = [trial for trial in ended if trial.state == "done"]
        missed = len(done) - sum(is_feasible(settings.bounds, trial) for trial in done)
        caption += f" {missed} of {len(done)} values violate a constraint."
    if len(drawn) < len(ended):
        caption += f" {len(drawn)} trials are drawn, including every improvement."
    return Figure(name, title, (Panel(x, y, tuple(layers)),), caption)


def comparison(studies: Studies) -> Figure:
    """Draw the best values of several studies over one cost axis.

    Studies share the axes if they have a resource in common that each has spent, and the same
    metric and direction. Others have their own panel.
    """
    name, title = "comparison", "Comparison of studies"
    shared = _shared_resource(studies)
    groups: dict[tuple[str, str], dict[str, Curve]] = {}
    for study, (settings, state) in studies.items():
        # A study without values draws nothing, and may count something else.
        found = curve_of(settings, state, shared if shared in state.ledger else None)
        groups.setdefault((found.resource, _value_label(settings)), {})[study] = found
    drawn = (_comparison_panel(curves, *key) for key, curves in groups.items())
    panels = tuple(panel for panel in drawn if panel is not None)
    if not panels:
        return Figure(name, title, (), "", "No study has a value yet.")
    caption = "The best value of each study against its own cost."
    if len(panels) > 1:
        caption += " Studies with other units or another metric have their own axes."
    return Figure(name, title, panels, caption)


def _shared_resource(studies: Studies) -> str | None:
    """The first resource that every study with results has spent; None: there is none."""
    spent = [
        [r for r in state.ledger if r != "trials" and state.ledger[r].spent > 0]
        for _, state in studies.values()
        if any(trial.value is not None for trial in state.history)
    ]
    common = (r for r in (spent[0] if spent else ()) if all(r in each for each in spent))
    return next(common, None)


def _comparison_panel(curves: Mapping[str, Curve], resource: str, label: str) -> Panel | None:
    lines = [
        Line(*corners, STYLES[i % len(STYLES)], f"{visible(study, 40)}: {corners[1][-1]:.6g}", True)
        for i, (study, curve) in enumerate(curves.items())
        if (corners := curve.steps())[1]
    ]
    if not lines:
        return None
    x = axis(spent_label(resource), (0.0, *(x for line in lines for x in line.x)), zero=True,
             resource=resource)  # fmt: skip
    return Panel(x, axis(label, (y for line in lines for y in line.y), log=None), (*lines,))


def _value_axis(settings: Settings, values: Sequence[float]) -> Axis:
    """An axis for the values, except for outliers on the bad side."""
    losses = settings.sign * np.array(values)
    low, high = np.quantile(losses, [0.25, 0.75])
    limit = high + FAR * max(high - low, 1e-12 * abs(high))
    near = [value for value, loss in zip(values, losses, strict=True) if loss <= limit]
    return axis(_value_label(settings), near, log=None)


def _value_label(settings: Settings) -> str:
    better = "lower" if settings.direction == "minimize" else "higher"
    return f"{visible(settings.metric, 40)} ({better} is better)"


def _bars(resource: str, intervals: Sequence[CostInterval], y: Axis, sign: float) -> Segments:
    low, high = y.place(EDGE), y.place(1 - EDGE)
    edge = high if sign > 0 else low
    values = [interval.trial.value for interval in intervals]
    return Segments(
        tuple(interval.start for interval in intervals),
        tuple(interval.end for interval in intervals),
        tuple(edge if value is None else min(max(value, low), high) for value in values),
        "done",
        texts=tuple(_hover(interval, resource) for interval in intervals),
    )


def _hover(interval: CostInterval, resource: str) -> str:
    trial = interval.trial
    result = trial.state if trial.value is None else f"{trial.value:.6g}"
    if trial.cost:
        result += f" {'after' if trial.value is None else 'for'} {amounts(trial.cost)}"
    share = interval.end - interval.start
    if not math.isclose(share, cost_of(trial, resource), rel_tol=1e-6, abs_tol=1e-9 * interval.end):
        result += f"; share of the spending: {format_amount(resource, share)}"
    return f"trial {trial.number}: {result}  {visible(visible_params(trial.params))}"
