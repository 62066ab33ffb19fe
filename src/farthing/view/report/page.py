"""The report of one or several studies: one HTML page that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files

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
from farthing.view.primitives import visible
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
    report_facts,
    status_sentence,
)
from farthing.view.saved import HOW_SAVED
from farthing.view.training_parts import parts_of

__all__ = ["STYLE", "card", "page"]

MAX_TRIALS = 1000  # listed: the latest, and the best trial
MAX_PAUSED = 200  # trainings whose parts are listed: the latest
STYLE = files("farthing.view.report").joinpath("style.css").read_text("utf-8") + svg.STYLE
SCRIPT = files("farthing.view.report").joinpath("copy.js").read_text("utf-8")

Studies = Mapping[str, tuple[Settings, State]]


def page(studies: Studies) -> str:
    """The report of one study, or of several studies with a comparison."""
    names = list(studies)
    title = names[0] if len(names) == 1 else f"{len(names)} studies"
    parts = [
        element("section", _study(name, *each), id=f"study-{i}")
        for i, (name, each) in enumerate(studies.items())
    ]
    if len(names) > 1:
        links = (element("a", name, href=f"#study-{i}") for i, name in enumerate(names))
        contents = element("ul", *(element("li", link) for link in links))
        parts = [element("h1", title), contents, svg.inline(figures.comparison(studies)), *parts]
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
    facts = report_facts(name, settings, state)
    quick, slow = quick_figures(settings, state), slow_figures(settings, state)
    return joined(
        element("h1", name),
        _head(facts),
        element("h2", "Best configuration"),
        best_part(settings, state),
        element("h2", "Budget"),
        ledger_table(state.ledger),
        element("h2", "Figures"),
        gallery((*quick, *slow)),
        element("h2", "Trials"),
        _trials(settings, state.history),
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
