"""Best value against cumulative cost; every trial is a bar at its value, as long as it was dear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from farthing.budget.units import format_amount
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.view.figures.spending import Bill, cost_label, main_resource, spending
from farthing.view.formatting import counted
from farthing.view.primitives import (
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

FAR = 3.0  # interquartile ranges beyond the quartile from which a bad value is off the scale
EDGE = 0.02  # of the axis, from its end: where trials without a value are
STYLES = ("best", "before", "second", "third", "fourth")


class Curve(NamedTuple):
    """What was spent, trial by trial, and the best value then.

    Attributes:
        bills: the trials that ended, in the order of their ends.
        best: the best value after each, in the user's direction; None before the first.
        improved: the places in `bills` where it became better.
    """

    resource: str
    bills: list[Bill]
    best: list[float | None]
    improved: list[int]

    @property
    def spent(self) -> float:
        """In all."""
        return self.bills[-1].end if self.bills else 0.0

    def steps(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The corners of the best value, to the end of what was spent."""
        x = [self.bills[i].end for i in self.improved]
        y = [value for i in self.improved if (value := self.best[i]) is not None]
        if not y:
            return (), ()
        return (*x, self.spent), (*y, y[-1])


def curve_of(settings: Settings, state: State, resource: str | None = None) -> Curve:
    """The best value so far after every trial that ended."""
    resource = main_resource(settings, state, resource)
    bills, best, improved = spending(state, resource), list[float | None](), list[int]()
    lead: float | None = None
    for i, bill in enumerate(bills):
        value = bill.trial.value
        if value is not None and (lead is None or settings.sign * (value - lead) < 0):
            lead = value
            improved.append(i)
        best.append(lead)
    return Curve(resource, bills, best, improved)


def curve(settings: Settings, state: State, resource: str | None = None) -> Figure:
    """Best value against cost."""
    found = curve_of(settings, state, resource)
    name, title = "curve", "Best value against what was spent"
    values = [b.trial.value for b in found.bills if b.trial.value is not None]
    if not found.bills:
        return Figure(name, title, (), "", "No trial has ended yet.")
    if not values:
        why = f"No trial returned a value: {counted(b.trial for b in found.bills)}."
        return Figure(name, title, (), "", why)
    y = _value_axis(settings, values)
    x = axis(cost_label(found.resource), (0.0, found.spent), resource=found.resource, zero=True)
    drawn = thinned(len(found.bills), found.improved)
    layers: list[Layer] = []
    counts = Counter(bill.trial.state for bill in found.bills)
    for ended, count in counts.items():
        bills = [found.bills[i] for i in drawn if found.bills[i].trial.state == ended]
        bars = _bars(found.resource, bills, y, settings.sign)
        layers.append(replace(bars, style=ended, label=f"{ended} ({count})"))
    corners = found.steps()
    layers.append(Line(*corners, "best", f"best: {corners[1][-1]:.6g}", step=True))
    off = sum(1 for value in values if not y.low <= value <= y.high)
    caption = (
        f"{len(found.bills)} trials ({counted(b.trial for b in found.bills)}), each a bar as long "
        f"as its cost, at its value; without a value at the edge."
    )
    if off:
        caption += f" {off} values are off the scale, and at the edge."
    if len(drawn) < len(found.bills):
        caption += f" {len(drawn)} of them are drawn, with every improvement."
    return Figure(name, title, (Panel(x, y, tuple(layers)),), caption)


def comparison(studies: Mapping[str, tuple[Settings, State]]) -> Figure:
    """The best value of several studies against what each had spent."""
    name, title = "comparison", "Studies against each other"
    curves = {study: curve_of(*each) for study, each in studies.items()}
    units = list(dict.fromkeys(curve.resource for curve in curves.values()))
    panels = tuple(
        panel
        for unit in units
        if (panel := _together({s: c for s, c in curves.items() if c.resource == unit}, unit))
    )
    if not panels:
        return Figure(name, title, (), "", "None of the studies has a value yet.")
    directions = {settings.direction for settings, _ in studies.values()}
    caption = "The best value of each study against its own cost."
    if len(directions) > 1:
        caption += " Not all of them have the same direction."
    return Figure(name, title, panels, caption)


def _together(curves: Mapping[str, Curve], resource: str) -> Panel | None:
    lines = [
        Line(*corners, STYLES[i % len(STYLES)], f"{visible(study, 40)}: {corners[1][-1]:.6g}", True)
        for i, (study, curve) in enumerate(curves.items())
        if (corners := curve.steps())[1]
    ]
    if not lines:
        return None
    x = axis(cost_label(resource), (0.0, *(x for line in lines for x in line.x)), zero=True,
             resource=resource)  # fmt: skip
    return Panel(x, axis("best value", (y for line in lines for y in line.y), log=None), (*lines,))


def _value_axis(settings: Settings, values: Sequence[float]) -> Axis:
    """An axis for the values, but for those far beyond the others on the bad side."""
    bad = settings.sign * np.array(values)
    low, high = np.quantile(bad, [0.25, 0.75])
    limit = high + FAR * max(high - low, 1e-12 * abs(high))
    near = [v for v, b in zip(values, bad, strict=True) if b <= limit]
    goal = "least" if settings.direction == "minimize" else "greatest"
    return axis(f"{visible(settings.metric, 40)} (the {goal} is best)", near, log=None)


def _bars(resource: str, bills: Sequence[Bill], y: Axis, sign: float) -> Segments:
    low, high = y.place(EDGE), y.place(1 - EDGE)
    edge = high if sign > 0 else low
    at = [edge if b.trial.value is None else min(max(b.trial.value, low), high) for b in bills]
    return Segments(
        tuple(bill.start for bill in bills),
        tuple(bill.end for bill in bills),
        tuple(at),
        "done",
        texts=tuple(_said(bill, resource) for bill in bills),
    )


def _said(bill: Bill, resource: str) -> str:
    trial = bill.trial
    result = trial.state if trial.value is None else f"{trial.value:.6g}"
    amount = format_amount(resource, bill.end - bill.start)
    return f"trial {trial.number}: {result} for {amount}  {visible(visible_params(trial.params))}"
