"""The report of one or several studies: one HTML page that loads nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from farthing.core.part_reasons import reasons_of
from farthing.core.settings import Settings
from farthing.core.state import State
from farthing.core.suggest import best_trial
from farthing.history import History
from farthing.view import figures
from farthing.view.figures.curve import curve
from farthing.view.html import Html, element, joined
from farthing.view.learnt import learnt_line
from farthing.view.plots import svg
from farthing.view.primitives import Figure, visible
from farthing.view.report.explained import part_sentence
from farthing.view.report.parts import (
    best_part,
    gallery,
    ledger_table,
    quick_figures,
    settings_tables,
    slow_figures,
    table,
    trials_table,
)
from farthing.view.report.report_facts import (
    ReportFacts,
    lead,
    report_facts,
    status_sentence,
)
from farthing.view.saved import HOW_SAVED
from farthing.view.training_parts import parts_of
from farthing.view.web import SHEET, answers, figure_values, forecast_values, hash_of, script
from farthing.view.web.shell import study_shell

__all__ = ["STYLE", "card", "page"]

MAX_TRIALS = 1000  # listed: the latest, and the best trial
MAX_PAUSED = 200  # trainings whose parts are listed: the latest
STYLE = files("farthing.view.report").joinpath("style.css").read_text("utf-8") + svg.STYLE
SCRIPT = files("farthing.view.report").joinpath("copy.js").read_text("utf-8")

Studies = Mapping[str, tuple[Settings, State]]


def page(studies: Studies) -> str:
    """The report of one study, or of several studies with a comparison.

    The report of one study is drawn by scripts on a screen. Its static part is what a printer and
    a reader without scripts see.
    """
    names = list(studies)
    if len(names) == 1:
        return _live_document(names[0], *studies[names[0]])
    title = f"{len(names)} studies"
    parts = [
        element(
            "section",
            _study(report_facts(name, *each), *each, list(_figures(*each))),
            id=f"study-{i}",
        )
        for i, (name, each) in enumerate(studies.items())
    ]
    links = (element("a", name, href=f"#study-{i}") for i, name in enumerate(names))
    contents = element("ul", *(element("li", link) for link in links))
    comparison = svg.inline(figures.comparison(studies))
    body = element("main", element("h1", title), contents, comparison, *parts)
    return _document(title, element("style", Html(STYLE)), body, [STYLE], SCRIPT)


def _live_document(name: str, settings: Settings, state: State) -> str:
    drawn = list(_figures(settings, state))
    facts = report_facts(name, settings, state)
    static = element("main", _study(facts, settings, state, drawn), class_="paper")
    nav = element("nav", element("h1", visible(name, 300)))
    live = study_shell(nav, lead=lead(facts, settings))
    live = element("div", live, class_="screen", hidden=True)
    data = json.dumps(_data(settings, state, drawn), allow_nan=False, separators=(",", ":"))
    embedded = element(
        "script", Html(data.replace("<", "\\u003c")), type="application/json", id="report-data"
    )
    styles = joined(
        element("style", Html(SHEET), media="screen"),
        element("style", Html(STYLE), media="print"),
        element("noscript", element("style", Html(STYLE))),
    )
    return _document(
        name, styles, joined(live, static, embedded), [SHEET, STYLE], SCRIPT + script()
    )


def _figures(settings: Settings, state: State) -> Iterator[Figure]:
    yield from quick_figures(settings, state)
    yield from slow_figures(settings, state)


def _data(settings: Settings, state: State, drawn: Sequence[Figure]) -> dict[str, Any]:
    """What the scripts of the report show: the trials, and the figures of each tab."""
    best, by_tab = best_trial(settings, state.history), dict[str, list[dict[str, Any]]]()
    for figure in drawn:
        if figure.name != answers.OWN_CHART:
            by_tab.setdefault(answers.tab_of(figure), []).append(figure_values(figure))
    about = {"version": 1, "forecast": forecast_values(settings, state)}
    return {
        "study": answers.study_answer(about, settings, state, range(len(state.history))),
        "figures": by_tab,
        "settings": answers.settings_answer(settings),
        "best": None
        if best is None
        else {"number": best.number, **answers.trial_answer(settings, best)},
    }


def _document(title: str, styles: Html, body: Html, sheets: Sequence[str], code: str) -> str:
    rules = (
        f"default-src 'none'; img-src data:; style-src {' '.join(map(hash_of, sheets))}; "
        f"script-src {hash_of(code)}; base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=Html(rules)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · Farthing"),
        styles,
    )
    run = element("script", Html(code))
    whole = element("html", head, element("body", svg.hatches(), body, run), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _study(facts: ReportFacts, settings: Settings, state: State, drawn: Sequence[Figure]) -> Html:
    return joined(
        element("h1", facts.name),
        element("p", lead(facts, settings), class_="lead"),
        _head(facts),
        element("h2", "Best configuration"),
        best_part(settings, state),
        element("h2", "Budget"),
        ledger_table(state.ledger),
        element("h2", "Figures"),
        gallery(drawn),
        element("div", element("h2", "Trials"), _trials(settings, state.history), class_="all"),
        _parts(state.history),
        element("h2", "Settings"),
        settings_tables(settings),
    )


def _head(facts: ReportFacts) -> Html:
    return joined(
        element("p", facts.status, class_="status"),
        element("p", f"Trials: {facts.trials}. Direction: {facts.direction}."),
        element("p", f"Saved: {facts.saved}. {HOW_SAVED}", class_="saved")
        if facts.saved.trials
        else None,
        element("p", visible(f"Learns from {learnt_line(facts.learnt)}.", 2000), class_="learnt")
        if facts.learnt
        else None,
        element("p", f"Next trial: {facts.forecast}.", class_="next"),
    )


def _trials(settings: Settings, history: History) -> Html:
    if len(history) <= MAX_TRIALS:
        return trials_table(settings, list(reversed(history.trials)))
    last = list(reversed(history.trials[-MAX_TRIALS:]))
    best = best_trial(settings, history)
    if best is not None and best.number < len(history) - MAX_TRIALS:
        last.append(best)
    note = (
        f"The latest {MAX_TRIALS:,} of {len(history):,} trials, and the best. To get all trials: "
    )
    shown = trials_table(settings, last)
    return joined(element("p", note, element("code", "farthing export")), shown)


def _parts(history: History) -> Html | None:
    """The parts of the latest trainings that were paused: their steps, costs and reasons."""
    paused = [trial for trial in history if trial.curve and len(reasons_of(trial)) > 1]
    if not paused:
        return None
    shown = list(reversed(paused[-MAX_PAUSED:]))
    rows = [
        [str(trial.number), str(part["part"]), visible(part_sentence(part), 1000)]
        for trial in shown
        for part in parts_of(trial)
    ]
    latest = f"the latest {MAX_PAUSED} of {len(paused):,}" if len(paused) > MAX_PAUSED else "all"
    title = element("summary", f"Parts of trainings that were paused or continued: {latest}")
    return element("details", title, table(["trial", "part", "what happened"], rows))


def card(name: str, settings: Settings, state: State) -> str:
    """The card of a study in a notebook: status, best trial, budget, curve; it fits no model."""
    parts = joined(
        svg.hatches(),
        element("style", Html(STYLE)),
        element("h3", name),
        element("p", status_sentence(settings, state, suggestion=False)),
        best_part(settings, state),
        ledger_table(state.ledger),
        svg.inline(curve(settings, state)),
    )
    return element("div", parts, class_="farthing")
