"""Parts of HTML pages about a study, used by the report and the dashboard."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from farthing.budget.ledger import Ledger
from farthing.budget.units import format_amount
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.errors import FarthingError
from farthing.history import Trial
from farthing.view import figures
from farthing.view.figures.drivers import draw_drivers, drivers_of
from farthing.view.formatting import amounts, first_line, shown, why_no_best
from farthing.view.html import Html, element, joined, texts
from farthing.view.plots import svg
from farthing.view.primitives import Figure, visible, visible_params
from farthing.view.report.report_facts import copies

__all__ = [
    "best_part",
    "figure_or_reason",
    "gallery",
    "ledger_table",
    "quick_figures",
    "settings_rows",
    "settings_tables",
    "slow_figures",
    "table",
    "trials_table",
]

WIDE, NARROW = 760, 420  # pixels: of the first figure, and of those in two columns on paper
SLICES = 4  # parameters that get a slice: those that drive the value most


# ── figures ────────────────────────────────────────────────────────────────────────────────────


def figure_or_reason(name: str, title: str, make: Callable[..., Figure], *args: Any) -> Figure:
    """Make a figure; after an error, make an empty figure that shows the reason."""
    try:
        return make(*args)
    except FarthingError as error:
        return Figure(name, title, (), "", str(error))


def quick_figures(settings: Settings, state: State) -> Iterator[Figure]:
    """The figures that need no model; they take milliseconds."""
    yield figures.curve(settings, state)
    yield figures.money(settings, state)
    yield figures.timeline(settings, state)
    yield figures.learning(settings, state)
    if settings.learn_from:
        yield figures.trust(settings, state)


def slow_figures(settings: Settings, state: State) -> Iterator[Figure]:
    """The figures that fit models, made one at a time; the slowest comes last."""
    yield figure_or_reason(
        "predictions", "Predicted and actual cost", figures.predictions, settings, state
    )
    try:
        found = drivers_of(settings, state)
    except FarthingError as error:
        found = {}
        yield Figure("drivers", "Which parameters drive value and cost", (), "", str(error))
    else:
        yield draw_drivers(found)
    title = "Expected improvement against cost"
    yield figure_or_reason("pareto", title, figures.front_figure, settings, state)
    names = [effect.name for effect in found.get("value", ())][:SLICES]
    for each in (*((name,) for name in names), *([names[:2]] if len(names) > 1 else [])):
        title = f"Predictions along {' and '.join(visible(name, 40) for name in each)}"
        yield figure_or_reason("slice", title, figures.slice_figure, settings, state, *each)
    yield figure_or_reason(
        "prospect", "Is another trial worth its cost?", figures.prospect, settings, state
    )


# ── tables and text ────────────────────────────────────────────────────────────────────────────


def table(head: Sequence[str], rows: Sequence[Sequence[str | Html]], **attributes: str) -> Html:
    """Make a table; cells are text or markup."""
    top = element("tr", *(element("th", cell) for cell in head))
    body = (element("tr", *(element("td", cell) for cell in row)) for row in rows)
    whole = element("table", element("thead", top), element("tbody", *body), **attributes)
    return element("div", whole, class_="wide")


def ledger_table(ledger: Ledger) -> Html:
    """The accounts of a ledger, one row each."""
    rows = []
    for resource in ledger:
        account = ledger[resource]
        limited = math.isfinite(account.limit)
        parts = [account.limit, account.spent, account.overhead, account.reserved, account.left]
        words = [format_amount(resource, part) for part in parts]
        if not limited:
            words[0], words[-1] = "no limit", ""
        rows.append([resource, *words])
    return table(["resource", "limit", "spent", "of it overhead", "reserved", "left"], rows)


def best_part(settings: Settings, state: State) -> Html:
    """The best configuration, readable and in formats to copy."""
    best = best_trial(settings, state.history)
    if best is None:
        why = why_no_best(settings.bounds, state.history)
        return element("p", visible(f"{why[:1].upper()}{why[1:]} yet.", 500), class_="empty")
    cost = f" for {amounts(best.cost)}" if best.cost else ""
    values = [[visible(name, 80), visible(value)] for name, value in best.params.items()]
    met = "".join(f", {each.name} = {each.measured(best):.6g}" for each in settings.bounds)
    return joined(
        element(
            "p",
            element("strong", f"{best.value:.6g}"),
            visible(met, 500),
            f" in trial {best.number}",
            cost,
        ),
        table(["parameter", "value"], values),
        *(
            element(
                "details",
                element("summary", kind),
                element("button", "copy", type="button", class_="copy"),
                element("pre", texts(content, 25_000)),
            )
            for kind, content in copies(settings, best).items()
        ),
    )


def trials_table(settings: Settings, trials: Sequence[Trial]) -> Html:
    """A table with one row per trial, and a column for each quantity with a constraint."""
    names = [each.name for each in settings.bounds]
    has_curves = any(trial.curve for trial in trials)
    rows = []
    for trial in trials:
        rows.append(
            [
                str(trial.number),
                element("span", trial.state, class_=f"state {trial.state}"),
                "" if trial.value is None else f"{trial.value:.6g}",
                *_last_step(trial, has_curves),
                *(visible(shown(trial.run.metrics.get(name))) for name in names),
                amounts(trial.cost),
                amounts(trial.predicted),
                visible_params(trial.params),
                visible(first_line(trial.error[-2000:] if trial.error else ""))
                or visible(trial.because),
            ]
        )
    measured = [visible(name, 40) for name in names]
    costs = ["cost", "expected cost"]
    last = ["step", "last value"] if has_curves else []
    head = ["trial", "state", "value", *last, *measured, *costs, "parameters", "reason or error"]
    return table(head, rows, class_="trials")


def _last_step(trial: Trial, has_curves: bool) -> list[str]:
    """The last step of a training and its value there, if the table has these columns."""
    if not has_curves:
        return []
    return [str(trial.step), f"{trial.curve[-1].value:.6g}"] if trial.curve else ["", ""]


def settings_tables(settings: Settings) -> Html:
    """The space and the settings of a study."""
    return joined(*(table(head, rows) for head, rows in settings_rows(settings)))


def settings_rows(settings: Settings) -> list[tuple[list[str], list[list[str]]]]:
    """The space and the settings of a study as two tables: head and rows."""
    space = [
        [visible(name, 80), visible(repr(parameter), 300)]
        for name, parameter in settings.space.parameters.items()
    ]
    if settings.space.rows is None and settings.space.allowed is not None:
        combinations = ", ".join(map(str, settings.space.allowed))
        space.append(["only these combinations", visible(combinations, 300)])
    values = {
        "direction": settings.direction,
        "policy": repr(settings.policy),
        "stop": "" if settings.stop is None else repr(settings.stop),
        "worth": "" if settings.worth is None else str(settings.worth),
        "steps": "" if settings.steps is None else repr(settings.steps),
        "constraints": ", ".join(map(str, settings.bounds)),
        "learn_from": ", ".join(each.name for each in settings.learn_from),
        "seed": str(settings.seed),
        "command": " ".join(settings.command or ()),
    }
    rows = [[name, visible(value, 300)] for name, value in values.items() if value]
    return [(["parameter", "range"], space), (["setting", "value"], rows)]


def gallery(drawings: Iterable[Figure]) -> Html:
    """Figures side by side, and a list of the figures that cannot be drawn, with reasons."""
    parts, missing = list[Html](), list[Html]()
    for figure in drawings:
        if figure.empty:
            missing.append(element("li", f"{figure.title}: {figure.empty}"))
        else:
            parts.append(svg.inline(figure, WIDE if figure.name == "curve" else NARROW))
    reasons = element("ul", *missing, class_="empty") if missing else None
    return joined(element("div", *parts, class_="figures"), reasons)
