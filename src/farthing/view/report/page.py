"""A study, or several, as one page: no file beside it, no script or font from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files

from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.history import History
from farthing.view import figures
from farthing.view.figures.curve import curve
from farthing.view.html import Html, element, joined
from farthing.view.plots import svg
from farthing.view.report.parts import (
    best_part,
    gallery,
    ledger_table,
    made_with,
    quick_figures,
    slow_figures,
    trials_table,
)
from farthing.view.report.report_facts import ReportFacts, report_facts, standing

__all__ = ["STYLE", "card", "page"]

MOST_TRIALS = 1000  # listed: the last ones, and the best of those before
STYLE = files("farthing.view.report").joinpath("style.css").read_text("utf-8") + svg.STYLE
SCRIPT = files("farthing.view.report").joinpath("copy.js").read_text("utf-8")

Studies = Mapping[str, tuple[Settings, State]]


def page(studies: Studies) -> str:
    """The report of one study, or of several with a comparison."""
    names = list(studies)
    title = names[0] if len(names) == 1 else f"{len(names)} studies"
    parts = [
        element("section", _study(name, *each), id=f"study-{i}")
        for i, (name, each) in enumerate(studies.items())
    ]
    if len(names) > 1:
        links = (element("a", name, href=f"#study-{i}") for i, name in enumerate(names))
        listed = element("ul", *(element("li", link) for link in links))
        parts = [element("h1", title), listed, svg.inline(figures.comparison(studies)), *parts]
    return _document(f"{title} · Farthing", element("main", *parts))


def _document(title: str, body: Html) -> str:
    rules = (
        f"default-src 'none'; img-src data:; style-src {_hash(STYLE)}; "
        f"script-src {_hash(SCRIPT)}; base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=Html(rules)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(STYLE)),
    )
    script = element("script", Html(SCRIPT))
    whole = element("html", head, element("body", svg.hatches(), body, script), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _study(name: str, settings: Settings, state: State) -> Html:
    account = report_facts(name, settings, state)
    quick, slow = quick_figures(settings, state), slow_figures(settings, state)
    return joined(
        element("h1", name),
        _head(account),
        element("h2", "The best"),
        best_part(settings, account.best),
        element("h2", "The money"),
        ledger_table(state.ledger),
        element("h2", "Figures"),
        gallery((*quick, *slow)),
        element("h2", "Trials"),
        _trials(settings, state.history),
        element("h2", "Made with"),
        made_with(settings),
    )


def _head(account: ReportFacts) -> Html:
    buy = "no model can say yet what one more trial would buy" if account.buy is None else None
    return joined(
        element("p", account.standing, class_="standing"),
        element("p", f"Trials: {account.trials}. To {account.direction}."),
        element("p", f"What one more would buy: {buy or account.buy}.", class_="buy"),
    )


def _trials(settings: Settings, history: History) -> Html:
    if len(history) <= MOST_TRIALS:
        return trials_table(list(reversed(history.trials)))
    last = list(reversed(history.trials[-MOST_TRIALS:]))
    best = best_trial(settings, history)
    if best is not None and best.number < len(history) - MOST_TRIALS:
        last.append(best)
    said = f"The last {MOST_TRIALS:,} of {len(history):,}, and the best; all of them: "
    return joined(element("p", said, element("code", "farthing export")), trials_table(last))


def card(name: str, settings: Settings, state: State) -> str:
    """A study in a notebook: where it stands, the best, the curve; nothing is thought for it."""
    best = best_trial(settings, state.history)
    parts = joined(
        svg.hatches(),
        element("style", Html(STYLE)),
        element("h3", name),
        element("p", standing(settings, state, suggestion=False)),
        best_part(settings, best),
        ledger_table(state.ledger),
        svg.inline(curve(settings, state)),
    )
    return element("div", parts, class_="farthing")
