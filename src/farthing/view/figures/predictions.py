"""What trials were predicted to cost, each by the bills of the others, and what they did cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from farthing.budget.units import format_amount
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.history import History
from farthing.view.figures.spending import cost_label
from farthing.view.primitives import Figure, Layer, Line, Panel, Points, axis, thinned
from farthing.view.result import costs

__all__ = ["MOST_BILLS", "predictions", "predictions_of"]

MOST_BILLS = 300  # predicted, each by the others: twenty fits of a model to nearly all of them
EXACT = ("done", "failed")


def predictions_of(settings: Settings, state: State) -> list[dict[str, Any]]:
    """`facts.costs` of at most `MOST_BILLS` of the trials, taken evenly."""
    billed = [trial for trial in state.history.having("done", "failed", "killed") if trial.cost]
    some = tuple(billed[i] for i in thinned(len(billed), most=MOST_BILLS))
    return costs(settings, replace(state, history=History(some)))


def predictions(settings: Settings, state: State) -> Figure:
    """Predicted against paid, a panel for each resource."""
    name, title = "predictions", "Predicted against paid"
    found = predictions_of(settings, state)
    if not found:
        why = "No cost is learnt yet: it takes two bills and a budget to keep."
        return Figure(name, title, (), "", why)
    panels = tuple(_panel(report) for report in found)
    return Figure(name, title, panels, " ".join(_caption(report) for report in found))


def _panel(report: dict[str, Any]) -> Panel:
    resource, trials = report["resource"], report["trials"]
    paid = axis(cost_label(resource, "paid"), (t["paid"] for t in trials), log=True,
                resource=resource)  # fmt: skip
    ends = [end for t in trials for end in (t["low"], t["high"], t["paid"])]
    predicted = axis(cost_label(resource, "predicted"), ends, log=True, resource=resource)
    layers: list[Layer] = [
        Line((paid.low, paid.high), (paid.low, paid.high), "line", "as predicted")
    ]
    kinds = {"done": EXACT, "killed": ("killed",)}
    for style, states in kinds.items():
        some = [t for t in trials if t["state"] in states]
        if some:
            layers.append(_points(some, resource, style))
    return Panel(paid, predicted, tuple(layers), title=report["model"])


def _points(trials: list[dict[str, Any]], resource: str, style: str) -> Points:
    x, y, low, high = (
        tuple(float(t[column]) for t in trials) for column in ("paid", "predicted", "low", "high")
    )
    label = "paid, with the middle 80 % predicted" if style == "done" else "killed: cost more"
    texts = tuple(
        f"trial {t['number']}: {format_amount(resource, t['paid'])}, "
        f"predicted {format_amount(resource, t['predicted'])}"
        for t in trials
    )
    return Points(x, y, style, label, low, high, texts, size=0.8)


def _caption(report: dict[str, Any]) -> str:
    said = f"{report['bills']} bills in {report['resource']}, each predicted by the others"
    if report["bills"] >= MOST_BILLS:
        said += f" ({MOST_BILLS} of them, evenly taken)"
    if report["log_rmse"] is None:
        return f"{said}."
    inside = report["coverage"]["80%"]
    return f"{said}: off by {report['log_rmse']:.2f} in ln cost, {inside:.0%} inside the 80 % band."
