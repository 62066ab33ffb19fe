"""The parts of a page about a study; the report and the dashboard are made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from farthing.budget.ledger import Ledger
from farthing.budget.units import format_amount
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.errors import FarthingError
from farthing.history import Trial
from farthing.view import figures
from farthing.view.figures.drivers import draw_drivers, drivers_of
from farthing.view.formatting import amounts, first_line
from farthing.view.html import Html, element, joined, text, texts
from farthing.view.plots import svg
from farthing.view.primitives import Figure, visible, visible_params
from farthing.view.report.report_facts import copies

__all__ = [
    "best_part",
    "gallery",
    "ledger_table",
    "made_with",
    "or_why",
    "quick_figures",
    "slow_figures",
    "table",
    "trials_table",
]

SLICES = 4  # parameters that are looked along, those that drive the value most

Link = Callable[[int], str] | None


# ── figures ────────────────────────────────────────────────────────────────────────────────────


def or_why(name: str, title: str, make: Callable[..., Figure], *given: Any) -> Figure:
    """A figure, or in its place why there is none."""
    try:
        return make(*given)
    except FarthingError as error:
        return Figure(name, title, (), "", str(error))


def quick_figures(settings: Settings, state: State) -> Iterator[Figure]:
    """Those that take milliseconds."""
    yield figures.curve(settings, state)
    yield figures.money(settings, state)
    yield figures.timeline(settings, state)
    yield figures.learning(settings, state)


def slow_figures(settings: Settings, state: State) -> Iterator[Figure]:
    """Those that fit models, each when it is asked for; what takes longest comes last."""
    yield or_why("predictions", "Predicted against paid", figures.predictions, settings, state)
    try:
        found = drivers_of(settings, state)
    except FarthingError as error:
        found = {}
        yield Figure("drivers", "What drives value and cost", (), "", str(error))
    else:
        yield draw_drivers(found)
    yield or_why("pareto", "Improvement against cost", figures.front_figure, settings, state)
    names = [effect.name for effect in found.get("value", ())][:SLICES]
    for each in (*((name,) for name in names), *([names[:2]] if len(names) > 1 else [])):
        title = "What the models believe"
        yield or_why("slice", title, figures.slice_figure, settings, state, *each)
    yield or_why("prospect", "Is going on worth it?", figures.prospect, settings, state)


# ── words ──────────────────────────────────────────────────────────────────────────────────────


def table(head: Sequence[str], rows: Sequence[Sequence[str | Html]], **attributes: str) -> Html:
    """A table; cells are texts, or markup."""
    top = element("tr", *(element("th", cell) for cell in head))
    body = (element("tr", *(element("td", cell) for cell in row)) for row in rows)
    whole = element("table", element("thead", top), element("tbody", *body), **attributes)
    return element("div", whole, class_="wide")


def ledger_table(ledger: Ledger) -> Html:
    """Every account."""
    rows = []
    for resource in ledger:
        account = ledger[resource]
        limited = math.isfinite(account.limit)
        parts = [account.limit, account.spent, account.overhead, account.reserved, account.left]
        words = [format_amount(resource, part) for part in parts]
        if not limited:
            words[0], words[-1] = "no limit", ""
        rows.append([resource, *words])
    return table(["", "limit", "spent", "of it thinking", "held", "left"], rows)


def best_part(settings: Settings, best: Trial | None, link: Link = None) -> Html:
    """The best configuration, to read and to copy."""
    if best is None:
        return element("p", "No trial returned a value yet.", class_="empty")
    number = f"trial {best.number}"
    where = element("a", number, href=link(best.number)) if link else text(number)
    cost = f" for {amounts(best.cost)}" if best.cost else ""
    values = [[visible(name, 80), visible(value)] for name, value in best.params.items()]
    return joined(
        element("p", element("strong", f"{best.value:.6g}"), " in ", where, cost),
        table(["parameter", "value"], values),
        *(
            element(
                "details",
                element("summary", kind),
                element("button", "copy", type="button", class_="copy"),
                element("pre", texts(said, 25_000)),
            )
            for kind, said in copies(settings, best).items()
        ),
    )


def trials_table(trials: Sequence[Trial], link: Link = None) -> Html:
    """A line for each trial."""
    rows = []
    for trial in trials:
        number = str(trial.number)
        rows.append(
            [
                element("a", number, href=link(trial.number)) if link else number,
                element("span", trial.state, class_=f"state {trial.state}"),
                "" if trial.value is None else f"{trial.value:.6g}",
                amounts(trial.cost),
                amounts(trial.predicted),
                visible_params(trial.params),
                visible(first_line(trial.error[-2000:] if trial.error else ""))
                or visible(trial.because),
            ]
        )
    head = ["trial", "state", "value", "cost", "expected", "parameters", "because, or its error"]
    return table(head, rows, class_="trials")


def made_with(settings: Settings) -> Html:
    """What a study was made with."""
    space = [
        [visible(name, 80), visible(repr(parameter), 300)]
        for name, parameter in settings.space.parameters.items()
    ]
    choices = {
        "direction": settings.direction,
        "policy": repr(settings.policy),
        "stop": "" if settings.stop is None else repr(settings.stop),
        "worth": "" if settings.worth is None else str(settings.worth),
        "seed": str(settings.seed),
        "command": " ".join(settings.command or ()),
    }
    rows = [[name, visible(said, 300)] for name, said in choices.items() if said]
    return joined(table(["parameter", "may be"], space), table(["setting", "is"], rows))


def gallery(drawings: Iterable[Figure]) -> Html:
    """Figures side by side, and why others are not there."""
    parts, missing = list[Html](), list[Html]()
    for figure in drawings:
        if figure.empty:
            missing.append(element("li", f"{figure.title}: {figure.empty}"))
        else:
            parts.append(svg.inline(figure))
    why = element("ul", *missing, class_="empty") if missing else None
    return joined(element("div", *parts, class_="figures"), why)
