"""Predicted and actual costs; each cost is predicted by a model of the other trials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from farthing.budget.units import format_amount
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.history import History
from farthing.view.facts import costs
from farthing.view.figures.spending import cost_label
from farthing.view.primitives import Figure, Layer, Line, Panel, Points, axis, thinned

__all__ = ["MAX_COSTS", "predictions", "predictions_of"]

MAX_COSTS = 300  # that are predicted: this fits a model twenty times to nearly all of them
EXACT = ("done", "failed")


def predictions_of(settings: Settings, state: State) -> list[dict[str, Any]]:
    """`facts.costs` of at most `MAX_COSTS` trials, evenly spaced."""
    paying = [trial for trial in state.history.having("done", "failed", "killed") if trial.cost]
    some = tuple(paying[i] for i in thinned(len(paying), most=MAX_COSTS))
    return costs(settings, replace(state, history=History(some)))


def predictions(settings: Settings, state: State) -> Figure:
    """Draw predicted against actual costs, with a panel for each resource."""
    name, title = "predictions", "Predicted and actual cost"
    found = predictions_of(settings, state)
    if not found:
        why = "There is no cost model yet. It needs a budget and two trials with a cost."
        return Figure(name, title, (), "", why)
    panels = tuple(_panel(report) for report in found)
    return Figure(name, title, panels, " ".join(_caption(report) for report in found))


def _panel(report: dict[str, Any]) -> Panel:
    resource, trials = report["resource"], report["trials"]
    paid = axis(cost_label(resource, "actual cost"), (t["paid"] for t in trials), log=True,
                resource=resource)  # fmt: skip
    ends = [end for t in trials for end in (t["low"], t["high"], t["paid"])]
    predicted = axis(cost_label(resource, "predicted cost"), ends, log=True, resource=resource)
    layers: list[Layer] = [
        Line((paid.low, paid.high), (paid.low, paid.high), "line", "predicted = actual")
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
    label = "trials, with 80 % interval" if style == "done" else "killed: would have cost more"
    texts = tuple(
        f"trial {t['number']}: {format_amount(resource, t['paid'])}, "
        f"predicted {format_amount(resource, t['predicted'])}"
        for t in trials
    )
    return Points(x, y, style, label, low, high, texts, size=0.8)


def _caption(report: dict[str, Any]) -> str:
    caption = f"{report['costs']} costs in {report['resource']}, each predicted from the others"
    if report["costs"] >= MAX_COSTS:
        caption += f" (a sample of {MAX_COSTS} trials)"
    if report["log_rmse"] is None:
        return f"{caption}."
    inside = report["coverage"]["80%"]
    error = f"RMSE of ln cost {report['log_rmse']:.2f}"
    return f"{caption}: {error}; {inside:.0%} of the costs are inside the 80 % interval."
